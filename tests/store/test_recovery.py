"""Recovery on both stores: which tasks a verb resets, with which epochs, and that all others stay as they are."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.signals import Request, Verb
from holdfast.core.states import JobState, Rules
from holdfast.define.definition import Definition
from holdfast.define.load import load_text
from holdfast.define.program import compile_definition
from holdfast.operations.submitting import new_job
from holdfast.orchestrator.owner import Owner
from holdfast.store.loading import job_state
from holdfast.store.records import Lease, SignalAnswer, WorkerIdentity
from tests.store.stage import Stage, report_of

pytestmark = pytest.mark.anyio

FLOW = load_text("""
workflow_id: wide
inputs: {items: {type: array}}
nodes:
  each:
    type: fan_out
    source: "{{ inputs.items }}"
    task: {handler: work, params: {n: "{{ item }}"}, retry: {max_retries: 0}}
    next: all
  all: {type: fan_in, next: tell}
  tell: {handler: work}
""")
ALONE = load_text("workflow_id: alone\ninputs: {items: {type: array}}\nnodes: {tell: {handler: work}}")
FAILURE = b'{"code": "HANDLER_ERROR", "message": "as scripted", "class": "permanent"}'


class Play:
    """A job with its owner and a worker, on either store."""

    def __init__(
        self, stage: Stage, owner: Owner, worker: WorkerIdentity, job_id: str, flow: Definition, inputs: dict[str, Any]
    ) -> None:
        self.stage = stage
        self.flow = flow
        self.owner = owner
        self.worker = worker
        self.job_id = job_id
        self.inputs = inputs

    async def cycle(self) -> None:
        await self.owner.run_cycle()
        while self.owner.has_work:
            await self.owner.run_cycle()

    async def work(self, *bad: int) -> list[tuple[str, int]]:
        """Claim and report tasks until none is left; items in `bad` fail. Returns the tasks that ran."""
        ran: list[tuple[str, int]] = []
        while leases := await self.stage.claim(self.worker):
            ran += [(lease.node, lease.item) for lease in leases]
            await self.report(leases, *bad)
            await self.cycle()
        return ran

    async def report(self, leases: list[Lease], *bad: int) -> int:
        reports = [
            report_of(lease, "failed", output=None, data=FAILURE)
            if lease.node == "each" and lease.item in bad
            else report_of(lease)
            for lease in leases
        ]
        return await self.stage.store.report(self.worker, reports)

    async def ask(self, verb: str, node: str | None = None, **more: Any) -> SignalAnswer:
        data = {"verb": verb, "node": node, **more}
        signal_id = await self.stage.store.send(self.job_id, "recover", "ann", "mended", data)
        await self.cycle()
        answer = await self.stage.store.answer(signal_id)
        assert answer is not None
        return answer

    async def queued(self) -> list[tuple[str, int, int, int]]:
        rows = await self.stage.behind.queue(self.job_id)
        return sorted((row["node"], row["item"], row["epoch"], row["attempt"]) for row in rows)

    async def state(self) -> JobState:
        """The state of the finished job, as an owner would load it."""
        await self.stage.store.send(self.job_id, "unpause", "ann", "to be asked")
        cycle = self.stage.store.cycle(self.owner.orchestrator_id)
        (job,) = (await cycle.open(10, 10)).claimed
        _, nodes = await cycle.load([self.job_id])
        await cycle.rollback()
        await self.cycle()
        return job_state(job, nodes, compile_definition(self.flow), Rules())

    async def status(self) -> str:
        (answer,) = await self.stage.store.submit([new_job(self.flow, self.inputs)])
        return answer.status


async def begun(stage: Stage, width: int, rules: Rules | None = None, flow: Definition = FLOW) -> Play:
    inputs = {"items": list(range(width))}
    (answer,) = await stage.store.submit([new_job(flow, inputs)])
    owner = Owner(stage.store, await stage.orchestrator(), "o", rules or Rules(), lambda: 0.5)
    play = Play(stage, owner, await stage.worker(), answer.job_id, flow, inputs)
    await play.cycle()
    return play


async def test_a_resume_resets_only_failed_tasks_with_a_new_epoch_invariant_4(stage: Stage) -> None:
    play = await begun(stage, 5)
    await play.work(1, 3)
    assert await play.status() == "failed"
    before = await stage.behind.task(play.job_id, "each", 0)
    assert (await play.ask("resume"))[0]
    assert await play.queued() == [("each", 1, 2, 2), ("each", 3, 2, 2)]
    assert await stage.behind.task(play.job_id, "each", 0) == before
    assert await play.work() == [("each", 1), ("each", 3), ("tell", -1)]
    assert await play.status() == "completed"


async def test_a_clear_ends_the_leases_of_its_tasks_and_no_others_invariant_1(stage: Stage) -> None:
    play = await begun(stage, 2)
    leases = await stage.claim(play.worker)
    assert (await play.ask("clear", "each", items=[0]))[0]
    assert await play.report(leases) == 1, "only the report of the other task is accepted"
    await play.cycle()
    assert await play.queued() == [("each", 0, 2, 2)]
    assert await play.work() == [("each", 0), ("tell", -1)]
    assert await play.status() == "completed"


async def test_the_epochs_of_a_rerun_continue_and_the_report_of_a_zombie_is_rejected_invariant_2(stage: Stage) -> None:
    play = await begun(stage, 2)
    zombies = await stage.claim(play.worker)
    assert (await play.ask("rerun", "each"))[0]
    assert await play.queued() == [("each", 0, 2, 2), ("each", 1, 2, 2)]
    again = await stage.claim(play.worker)
    assert await play.report(zombies) == 0
    assert await play.report(again) == 2
    await play.cycle()
    await play.work()
    assert await play.status() == "completed"


async def test_reset_tasks_wait_for_the_window_and_a_cancel_withdraws_them_invariant_11(stage: Stage) -> None:
    play = await begun(stage, 8, Rules(window_size=2, chunk_size=3))
    await play.work(*range(8))
    assert (await play.ask("resume"))[0]
    assert len(await play.queued()) == 2
    await stage.store.send(play.job_id, "cancel", "ann", "enough")
    await play.cycle()
    assert (await play.status(), await play.queued()) == ("cancelled", [])
    assert (await play.ask("resume"))[0]
    assert len(await play.work()) == 9
    assert await play.status() == "completed"


async def test_a_verb_selects_tasks_by_code_and_fingerprint(stage: Stage) -> None:
    play = await begun(stage, 4)
    await play.work(0, 2)
    error = (await stage.behind.task(play.job_id, "each", 2))["error"]
    assert not (await play.ask("clear", "each", code="OTHER"))[0]
    assert not (await play.ask("clear", "each", fingerprint="other"))[0]
    assert (await play.ask("clear", "each", items=[0, 1, 2], fingerprint=error.fingerprint))[0]
    assert [row[:2] for row in await play.queued()] == [("each", 0), ("each", 2)]


async def test_a_verb_counts_the_attempt_of_a_task_that_a_worker_may_lease_before_the_commit(stage: Stage) -> None:
    """Two attempts of one task would otherwise have the same number."""
    play = await begun(stage, 2)
    cycle = stage.store.cycle(play.owner.orchestrator_id)
    await cycle.open(10, 10)
    selected = (await cycle.select(play.job_id, Request(Verb.RERUN, "each"), 2))["each"]
    await cycle.rollback()
    assert (selected.chosen, selected.last_attempt) == ({"ready": 2}, 1)


async def test_the_tasks_that_a_verb_selects_are_counted_by_status(stage: Stage) -> None:
    play = await begun(stage, 5)
    leases = await stage.claim(play.worker)
    await play.report(leases[:3], 1)
    await play.cycle()
    cycle = stage.store.cycle(play.owner.orchestrator_id)
    await cycle.open(10, 10)
    everything = (await cycle.select(play.job_id, Request(Verb.CLEAR, "each"), 5))["each"]
    some = (await cycle.select(play.job_id, Request(Verb.CLEAR, "each", (0, 4)), 5))["each"]
    await cycle.rollback()
    assert everything.chosen == {"completed": 2, "failed": 1, "ready": 2}
    assert (everything.refused, everything.last_epoch, everything.last_attempt) == (0, 1, 1)
    assert {status: number for status, number in some.chosen.items() if number} == {"completed": 1, "ready": 1}


async def test_the_age_of_results_is_known_for_selected_tasks_and_for_the_whole_node(stage: Stage) -> None:
    play = await begun(stage, 4)
    await play.report((await stage.claim(play.worker))[:3], 2)
    await play.cycle()
    for item, hours in enumerate((2, 1, 3)):
        await stage.behind.end_earlier(play.job_id, "each", item, hours * 3600)
    cycle = stage.store.cycle(play.owner.orchestrator_id)
    opened = await cycle.open(10, 10)
    selections = [
        (await cycle.select(play.job_id, Request(Verb.CLEAR, "each", items), 4))["each"]
        for items in ((), (1,), (2, 3))
    ]  # fmt: skip
    await cycle.rollback()
    ago = [round((opened.now - one.completed_since) / 3600) if one.completed_since else None for one in selections]
    assert ago == [2, 1, None], "failed and running tasks have no result"
    assert {round((opened.now - (one.node_completed_since or 0)) / 3600) for one in selections} == {2}


async def test_a_refused_verb_changes_nothing_and_says_why(stage: Stage) -> None:
    play = await begun(stage, 2)
    answer = await play.ask("resume")
    assert (
        not answer.applied and "running" in answer.reason and answer.remedy is not None and answer.remedy.verb == "why"
    )
    assert await play.queued() == [("each", 0, 1, 1), ("each", 1, 1, 1)]


async def test_a_skip_ends_open_tasks_and_leaves_completed_ones_invariant_4(stage: Stage) -> None:
    play = await begun(stage, 3)
    leases = await stage.claim(play.worker)
    await play.report(leases[:1])
    await play.cycle()
    before = await stage.behind.task(play.job_id, "each", 0)
    assert (await play.ask("skip", "each"))[0]
    assert await play.report(leases[1:]) == 0, "the skip has ended these leases"
    assert await stage.behind.task(play.job_id, "each", 0) == before
    assert (await stage.behind.task(play.job_id, "each", 1))["status"] == "skipped"
    assert await play.work() == [("tell", -1)]
    assert await play.status() == "partial"


@pytest.mark.parametrize(
    "verb_and_options",
    [("clear", {}), ("rerun", {}), ("skip", {}), ("set", {"output": 7})],
    ids=lambda verb_and_options: verb_and_options[0],
)
async def test_an_attempt_that_a_verb_ended_stays_in_the_history_and_keeps_its_number(
    stage: Stage, verb_and_options: tuple[str, dict[str, Any]]
) -> None:
    verb, options = verb_and_options
    play = await begun(stage, 1, flow=ALONE)
    (lease,) = await stage.claim(play.worker)
    assert lease.attempt == 1
    assert (await play.ask(verb, "tell", **options))[0]
    assert await stage.behind.attempts(play.job_id) == [("tell", -1, 1, 1, "withdrawn", "worker")]
    if verb in ("skip", "set"):
        assert (await play.ask("rerun", "tell"))[0]
    (again,) = await stage.claim(play.worker)
    assert (again.attempt, again.epoch) == (2, 2)


async def test_a_result_that_a_person_sets_becomes_the_output_and_the_job_continues(stage: Stage) -> None:
    play = await begun(stage, 2)
    await play.work(0)
    assert (await play.ask("set", "all", output={"count": 0}))[0]
    assert await play.work() == [("tell", -1)]
    assert await play.status() == "failed", "the node `each` is still failed"
    assert (await play.ask("skip", "each"))[0]
    await play.work()
    assert await play.status() == "partial"


async def test_no_task_of_a_paused_job_is_claimed_until_the_pause_ends(stage: Stage) -> None:
    play = await begun(stage, 4, Rules(window_size=2, chunk_size=2))
    (lease, *_) = await stage.claim(play.worker, 1)
    await stage.store.send(play.job_id, "pause", "ann", "lunch")
    await play.cycle()
    assert await stage.claim(play.worker) == []
    assert await play.report([lease]) == 1, "a running task may finish"
    await play.cycle()
    assert await stage.claim(play.worker) == [], "the next tasks wait"
    await stage.store.send(play.job_id, "unpause", "ann", "back")
    await play.cycle()
    assert len(await play.work()) == 4
    assert await play.status() == "completed"


async def test_a_clear_of_a_running_fan_out_resets_queued_items_and_every_item_runs_once(stage: Stage) -> None:
    play = await begun(stage, 8, Rules(window_size=2, chunk_size=8))
    assert (await play.ask("clear", "each"))[0]
    assert await play.queued() == [("each", 0, 2, 1), ("each", 1, 2, 1)]
    assert (await stage.behind.task(play.job_id, "each", 7))["epoch"] == 1, "item 7 was never queued"
    ran = await play.work()
    assert sorted(ran) == [*(("each", item) for item in range(8)), ("tell", -1)]
    assert await play.status() == "completed"
