"""Reports on both stores: the owner gets everything in them, and accepts only those of the lease's holder."""

from __future__ import annotations

import pytest

from holdfast.core.effects import RecordAttempt, WithdrawTasks
from holdfast.core.states import Status
from holdfast.store.batch import Batch
from tests.store.stage import ERROR, Stage, finish_write, held, owned, report_of, retry_write

pytestmark = pytest.mark.anyio


async def test_the_owner_gets_everything_in_a_report(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker("worker one")
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    report = report_of(lease, "done", b'{"a": 1}', data=b'{"log": "x"}')
    assert await stage.store.report(worker, [report]) == 1
    (signal,) = await stage.signals(me)
    assert (signal.kind, signal.outcome, signal.worker) == ("report", "done", "worker one")
    assert (signal.job_id, signal.node, signal.item, signal.epoch) == held(lease)
    assert (signal.attempt, signal.started_at, signal.output) == (1, 1_000_000.0, {"a": 1})
    assert (signal.data, signal.alone) == ({"log": "x"}, False)
    assert (signal.task_status, signal.task_epoch, signal.task_attempt) == ("ready", 1, 0)
    assert await stage.behind.queue(lease.job_id) == []


async def test_a_report_says_whether_its_attempt_died_in_its_own_process(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(2))
    first, second = await stage.claim(worker, 2)
    died = report_of(first, "lost", None, alone=True, data=b'{"message": "killed"}')
    assert await stage.store.report(worker, [died, report_of(second)]) == 2
    by_item = {signal.item: (signal.outcome, signal.alone, signal.data) for signal in await stage.signals(me)}
    assert by_item == {first.item: ("lost", True, {"message": "killed"}), second.item: ("done", False, None)}


async def test_the_output_in_a_report_becomes_the_output_of_its_task(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker, items=[0])
    await stage.store.report(worker, [report_of(lease, output=b'{"text": "\\"q\\", \\\\ {} \\u00e4"}')])
    (signal,) = await stage.signals(me)
    await stage.commit(me, Batch(handled=[signal.id], finished=[finish_write(signal)]))
    task = await stage.behind.task(*held(lease)[:3])
    assert task["output"] == {"text": '"q", \\ {} ä'}


async def rejected(stage: Stage, me: int) -> list[tuple[str | None, int | None]]:
    return [(s.outcome, s.epoch) for s in await stage.signals(me) if s.kind == "rejected"]


async def test_invariant_1_a_second_report_changes_nothing_and_is_rejected(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    assert await stage.store.report(worker, [report_of(lease)]) == 1
    assert await stage.store.report(worker, [report_of(lease, "failed", None)]) == 0
    assert [s.kind for s in await stage.signals(me)] == ["report", "rejected"]
    assert await rejected(stage, me) == [("failed", 1)]


async def test_an_accepted_report_that_is_sent_again_is_not_rejected(stage: Stage) -> None:
    """A worker sends a report again if its answer was lost. By then its owner may not have read it yet, may have ended
    the task by it, or may have retried the task."""
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(2))
    leases = await stage.claim(worker)
    reports = [report_of(leases[0]), report_of(leases[1], "failed", None)]
    assert await stage.store.report(worker, reports) == 2
    assert await stage.store.report(worker, reports) == 2
    done, failed = sorted(await stage.signals(me), key=lambda signal: signal.item or 0)
    assert (done.kind, failed.kind) == ("report", "report")
    attempt = (job_id, "n", 1, 1, 1, "failed", "worker", 1_000_000.0, None, None, None)
    handled = Batch(handled=[done.id, failed.id], finished=[finish_write(done)], attempts=[RecordAttempt(*attempt)])
    handled.retried.append(retry_write(leases[1], None))
    await stage.commit(me, handled)
    assert await stage.store.report(worker, reports) == 2
    assert await rejected(stage, me) == []
    assert await stage.store.report(worker, [report_of(leases[1])]) == 0
    assert await rejected(stage, me) == [("done", 1)], "this is another report"


@pytest.mark.parametrize("wrong", [0, 2])
async def test_invariant_1_a_report_with_another_epoch_changes_nothing(stage: Stage, wrong: int) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    assert await stage.store.report(worker, [report_of(lease, epoch=wrong)]) == 0
    assert await rejected(stage, me) == [("done", wrong)]
    assert await stage.store.report(worker, [report_of(lease)]) == 1


async def test_invariant_1_a_zombie_cannot_report_for_the_next_attempt(stage: Stage) -> None:
    me, zombie, worker = await stage.orchestrator(), await stage.worker(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), zombie)
    await stage.behind.lapse_worker(zombie)
    await stage.store.expire()
    await stage.commit(me, Batch(handled=[s.id for s in await stage.signals(me)], retried=[retry_write(lease, None)]))
    (again,) = await stage.claim(worker)
    assert await stage.store.report(zombie, [report_of(lease), report_of(again)]) == 0
    assert await stage.store.report(worker, [report_of(again)]) == 1


async def test_invariant_1_a_report_of_another_worker_changes_nothing(stage: Stage) -> None:
    me, worker, other = await stage.orchestrator(), await stage.worker(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    assert await stage.store.report(other, [report_of(lease)]) == 0
    assert await rejected(stage, me) == [("done", 1)]


async def test_invariant_1_a_report_after_the_workers_lease_changes_nothing(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.behind.lapse_worker(worker)
    assert await stage.store.report(worker, [report_of(lease)]) == 0
    assert await rejected(stage, me) == [("done", 1)]
    assert len(await stage.behind.queue(lease.job_id)) == 1


async def test_invariant_1_a_report_after_the_attempts_deadline_changes_nothing(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.behind.pass_deadline(lease)
    assert await stage.store.report(worker, [report_of(lease)]) == 0
    assert await rejected(stage, me) == [("done", 1)]


async def test_only_the_reports_of_held_leases_are_accepted(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(3))
    leases = await stage.claim(worker)
    reports = [report_of(leases[0]), report_of(leases[1], epoch=9), report_of(leases[2])]
    assert await stage.store.report(worker, reports) == 2
    assert await stage.store.report(worker, []) == 0
    assert sorted((s.kind, s.item) for s in await stage.signals(me)) == [
        ("rejected", leases[1].item),
        *sorted([("report", leases[0].item), ("report", leases[2].item)]),
    ]


async def test_a_report_that_is_sent_twice_in_one_call_is_accepted_once(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease), report_of(lease)])
    assert [s.kind for s in await stage.signals(me)] == ["report"]


async def test_a_late_report_of_a_finished_job_goes_to_the_orchestrator_that_claims_the_job(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    (row,), _ = await cycle.load([lease.job_id])
    await cycle.withdraw([WithdrawTasks(lease.job_id, Status.CANCELLED, True, ERROR, ())])
    await cycle.commit(Batch(jobs=[owned(row, None, epoch=1, status="cancelled", finished_at=row.created_at + 1)]))
    assert await stage.store.report(worker, [report_of(lease)]) == 0
    (signal,) = (await stage.own(me)).signals
    assert (signal.kind, signal.node, signal.item, signal.epoch, signal.worker) == ("rejected", "n", -1, 1, "worker")
    assert (await stage.behind.task(*held(lease)[:3]))["status"] == "cancelled"
