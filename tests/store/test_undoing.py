"""Undo on both stores: which tasks it takes, what it leaves of them, and that only their epoch ends it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.effects import AcceptUndo, DropTasks, EnqueueWaiting, FinishUndo, UndoTasks, WithdrawTasks
from holdfast.core.failing import failure
from holdfast.core.states import Status
from holdfast.store.batch import Batch
from holdfast.store.records import Lease, WorkerIdentity
from tests.store.stage import ERROR, LANE, PostgresBackstage, Stage, finish_write, report_of

pytestmark = pytest.mark.anyio

UNDONE = failure("UNDONE", "its effects were taken back", permanent=False, at=1_000_000.0)
BROKEN = failure("HANDLER_ERROR", "the bank is closed", permanent=True, at=1_000_000.0)


class Work:
    """A job of which some tasks have completed and others have failed."""

    def __init__(self, stage: Stage, me: int, worker: WorkerIdentity, job_id: str) -> None:
        self.stage, self.me, self.worker, self.job_id = stage, me, worker, job_id

    async def run(self, node: str, *items: int, bad: tuple[int, ...] = ()) -> None:
        await self.stage.enqueue(self.me, self.job_id, node, items)
        leases = await self.stage.claim(self.worker)
        await self.stage.store.report(self.worker, [report_of(lease, output=b'"given"') for lease in leases])
        signals = await self.stage.signals(self.me)
        ended = [
            finish_write(one, "failed", error=BROKEN, signal_id=None) if one.item in bad else finish_write(one)
            for one in signals
        ]
        await self.commit(Batch(finished=ended, handled=[one.id for one in signals]))

    async def commit(self, batch: Batch) -> None:
        await self.stage.commit(self.me, batch)

    async def undo(self, node: str = "n", *, own_only: bool = False) -> None:
        await self.commit(Batch(undos=[UndoTasks(self.job_id, node, own_only)]))

    async def lease(self, number: int = 100) -> list[Lease]:
        """Queue what waits to be undone, and claim it."""
        waiting = EnqueueWaiting(self.job_id, "n", number, LANE, 0, 0, 60.0, None)
        await self.commit(Batch(waiting=[waiting]))
        return await self.stage.claim(self.worker)

    async def end(self, item: int, *, epoch: int = 2, is_undone: bool = True) -> None:
        error = UNDONE if is_undone else BROKEN
        ended = FinishUndo(self.job_id, "n", item, epoch, 2, error, is_undone, "worker", 1_000_000.0)
        await self.commit(Batch(ended_undos=[ended]))

    async def task(self, item: int, node: str = "n") -> dict[str, Any]:
        return await self.stage.behind.task(self.job_id, node, item)

    async def statuses(self, *items: int) -> list[tuple[str, int]]:
        found = [await self.task(item) for item in items]
        return [(task["status"], task["epoch"]) for task in found]


@pytest.fixture
async def work(stage: Stage) -> Work:
    me, worker = await stage.orchestrator(), await stage.worker()
    return Work(stage, me, worker, await stage.owned_job(me))


async def test_an_undo_takes_the_completed_items_as_a_new_epoch_and_leaves_the_others_invariant_25(work: Work) -> None:
    await work.run("n", -1, 0, 1, 2, bad=(1,))
    await work.run("m", 0)
    await work.undo()
    assert await work.statuses(-1, 0, 1, 2) == [("completed", 1), ("ready", 2), ("failed", 1), ("ready", 2)]
    assert (await work.task(0, "m"))["status"] == "completed"
    assert (await work.task(0))["output"] == "given", "what undoes a task needs what the task has given"


async def test_an_undo_of_the_task_behind_batches_leaves_the_batches(work: Work) -> None:
    await work.run("n", -1, 0, 1)
    await work.undo(own_only=True)
    assert await work.statuses(-1, 0, 1) == [("ready", 2), ("completed", 1), ("completed", 1)]


async def test_what_undoes_a_task_gets_its_params_and_its_output(work: Work) -> None:
    await work.run("n", 0, 1)
    await work.undo()
    (first,) = await work.lease(1)
    assert first.is_undo and first.params == {"params": {"item": first.item}, "output": "given"}
    assert (first.epoch, first.attempt) == (2, 2)


async def test_a_task_that_was_undone_is_cancelled_and_its_output_is_gone(work: Work) -> None:
    await work.run("n", 0)
    await work.undo()
    await work.lease()
    await work.end(0)
    task = await work.task(0)
    assert (task["status"], task["output"], task["error"], task["undo"]) == ("cancelled", None, UNDONE, None)


async def test_a_task_that_could_not_be_undone_is_completed_as_before_and_says_why(work: Work) -> None:
    await work.run("n", 0)
    await work.undo()
    await work.lease()
    await work.end(0, is_undone=False)
    task = await work.task(0)
    assert (task["status"], task["output"], task["error"]) == ("completed", "given", None)
    assert "the bank is closed" in str(task["undo"]["error"])


async def test_the_end_of_an_undo_counts_for_its_epoch_alone_invariant_1(work: Work) -> None:
    await work.run("n", 0)
    await work.undo()
    await work.lease()
    await work.end(0, epoch=1)
    await work.end(0, epoch=3)
    assert await work.statuses(0) == [("ready", 2)]


async def test_a_task_is_undone_once_invariant_25(work: Work) -> None:
    await work.run("n", 0, 1)
    await work.end(0, epoch=1)
    assert await work.statuses(0) == [("completed", 1)], "no undo was begun"
    await work.undo()
    await work.lease()
    await work.end(0)
    await work.end(0, is_undone=False)
    assert await work.statuses(0) == [("cancelled", 2)]
    await work.end(1, is_undone=False)
    await work.end(1)
    assert await work.statuses(1) == [("completed", 2)]


@pytest.mark.parametrize("place", ["waiting", "queued"])
async def test_a_cancel_leaves_what_waits_to_be_undone_as_it_was(work: Work, place: str) -> None:
    await work.run("n", 0, 1)
    await work.undo()
    if place == "queued":
        await work.commit(Batch(waiting=[EnqueueWaiting(work.job_id, "n", 2, LANE, 0, 0, 60.0, None)]))
    cycle = work.stage.store.cycle(work.me)
    await cycle.open(100, 100)
    ended = await cycle.withdraw([WithdrawTasks(work.job_id, Status.CANCELLED, False, ERROR, (), ("n",))])
    await cycle.commit(Batch())
    assert sorted(ended[work.job_id]["n"]) == [0, 1]
    task = await work.task(0)
    assert (task["status"], task["output"], task["error"]) == ("completed", "given", None)
    assert "the job was cancelled" in str(task["undo"]["error"])


async def test_an_acceptance_ends_what_could_not_be_undone_and_nothing_else(work: Work) -> None:
    await work.run("n", -1, 0, 1)
    await work.undo()
    await work.lease()
    await work.end(0, is_undone=False)
    await work.end(1)
    await work.commit(Batch(accepted=[AcceptUndo(work.job_id, "n", UNDONE)]))
    assert await work.statuses(-1, 0, 1) == [("completed", 1), ("cancelled", 2), ("cancelled", 2)]
    assert (await work.task(0))["output"] is None


async def test_items_that_are_dropped_in_the_same_cycle_are_not_undone(work: Work) -> None:
    await work.run("n", 0, 1)
    drops, undos = [DropTasks(work.job_id, "n", [1])], [UndoTasks(work.job_id, "n", False)]
    await work.commit(Batch(drops=drops, undos=undos))
    assert await work.statuses(0, 1) == [("ready", 2), ("skipped", 1)]


async def test_the_history_keeps_what_a_task_had_given(work: Work) -> None:
    behind = work.stage.behind
    if not isinstance(behind, PostgresBackstage):
        return  # The model has no history of attempts.
    await work.run("n", 0)
    await work.undo()
    rows = await behind._run(b"select attempt, outcome, extra->>'output' from attempts where job_id = %s", work.job_id)
    assert rows == [(1, "done", "given")]
