"""Batches on both stores: which batches a verb selects, what happens to the last task, and what can be read."""

from __future__ import annotations

import pytest

from holdfast.core.planning import batches_asked
from holdfast.core.signals import Request, Verb
from holdfast.core.states import Rules
from holdfast.define.load import load_text
from tests.store.stage import Stage
from tests.store.test_recovery import Play, begun

pytestmark = pytest.mark.anyio

FLOW = load_text("""
workflow_id: batched
inputs: {items: {type: array}}
nodes:
  each:
    type: fan_out
    source: "{{ inputs.items }}"
    tolerate: {failures: 3}
    task: {handler: work, params: {n: "{{ item }}"}, retry: {max_retries: 0}}
    next: all
  all:
    type: fan_in
    batch: {handler: work, size: 3}
    handler: work
    retry: {max_retries: 0}
""")
LAST = ("all", -1)


async def batched(stage: Stage, width: int = 8, rules: Rules | None = None) -> Play:
    return await begun(stage, width, rules, FLOW)


async def test_all_batches_are_queued_at_once_and_the_last_task_after_them(stage: Stage) -> None:
    play = await batched(stage)
    leases = await stage.claim(play.worker)
    await play.report(leases)
    await play.cycle()
    batches = await stage.claim(play.worker)
    assert [lease.params["page"] for lease in batches] == [
        {"node": "each", "offset": 0, "limit": 3},
        {"node": "each", "offset": 3, "limit": 3},
        {"node": "each", "offset": 6, "limit": 2},
    ]
    await play.report(batches[:2])
    await play.cycle()
    assert await stage.claim(play.worker) == []
    await play.report(batches[2:])
    await play.cycle()
    assert await play.work() == [LAST]
    assert await play.status() == "completed"


async def test_a_rerun_item_reruns_its_batch_and_the_last_task_as_new_epochs_invariant_4(stage: Stage) -> None:
    play = await batched(stage)
    await play.work(4)
    assert await play.status() == "partial"
    before = [await stage.behind.task(play.job_id, "all", batch) for batch in (0, 2)]
    last = await stage.behind.task(play.job_id, *LAST)
    assert (await play.ask("resume"))[0]
    assert await play.queued() == [("each", 4, 2, 2)]
    assert await play.work() == [("each", 4), ("all", 1), LAST]
    assert await play.status() == "completed"
    assert [await stage.behind.task(play.job_id, "all", batch) for batch in (0, 2)] == before
    again = await stage.behind.task(play.job_id, *LAST)
    assert (again["epoch"] > last["epoch"], again["attempt"] > last["attempt"]) == (True, True)


async def test_the_batches_that_a_verb_selects_are_counted_by_status(stage: Stage) -> None:
    play = await batched(stage)
    await play.work(1, 7)
    state = await play.state()
    for request, chosen, touched in (
        (Request(Verb.RESUME), {"completed": 2}, (0, 2)),
        (Request(Verb.CLEAR, "each", (7,)), {"completed": 1}, (2,)),
        (Request(Verb.CLEAR, "all", (1, 2)), {"completed": 2}, ()),
        (Request(Verb.CLEAR, "all"), {"completed": 3}, ()),
    ):
        cycle = stage.store.cycle(play.owner.orchestrator_id)
        await cycle.open(10, 10)
        wanted_batches = batches_asked(state, request)
        enqueued = state.nodes[request.node].enqueued if request.node else 0
        selection = (await cycle.select(play.job_id, request, enqueued, wanted_batches))["all"]
        await cycle.rollback()
        assert {status: number for status, number in selection.chosen.items() if number} == chosen, request
        assert (selection.touched, selection.last_epoch, selection.last_attempt) == (touched, 1, 1)


async def test_the_age_of_results_is_that_of_the_selected_batches_and_of_the_last_task(
    stage: Stage,
) -> None:
    play = await batched(stage)
    await play.work()
    state = await play.state()
    for batch, hours in enumerate((5, 4, 3)):
        await stage.behind.end_earlier(play.job_id, "all", batch, hours * 3600)
    await stage.behind.end_earlier(play.job_id, *LAST, 1 * 3600)
    for request, hours in (
        (Request(Verb.CLEAR, "each", (7,)), 3),
        (Request(Verb.CLEAR, "each", (4, 7)), 4),
        (Request(Verb.CLEAR, "all", (1, 2)), 4),
        (Request(Verb.CLEAR, "each", code="OTHER"), 1),
    ):
        cycle = stage.store.cycle(play.owner.orchestrator_id)
        opened = await cycle.open(10, 10)
        selection = (await cycle.select(play.job_id, request, 8, batches_asked(state, request)))["all"]
        await cycle.rollback()
        assert selection.completed_since is not None and selection.node_completed_since is not None
        assert round((opened.now - selection.completed_since) / 3600) == hours, request
        assert round((opened.now - selection.node_completed_since) / 3600) == 5


async def test_clearing_a_batch_ends_the_lease_of_the_last_task_and_its_report_is_rejected_invariant_1(
    stage: Stage,
) -> None:
    play = await batched(stage)
    while not (leases := await stage.claim(play.worker)) or leases[0].item >= 0:
        await play.report(leases)
        await play.cycle()
    assert (await play.ask("clear", "all", items=[1]))[0]
    assert await play.report(leases) == 0
    assert await play.work() == [("all", 1), LAST]
    assert await play.status() == "completed"


async def test_batches_that_wait_for_their_fan_out_are_withdrawn_with_the_job_invariant_11(stage: Stage) -> None:
    play = await batched(stage, 8, Rules(window_size=2, chunk_size=3))
    await play.work(0, 4)
    assert (await play.ask("resume"))[0]
    await stage.store.send(play.job_id, "cancel", "ann", "enough")
    await play.cycle()
    assert (await play.status(), await play.queued()) == ("cancelled", [])
    assert (await stage.behind.task(play.job_id, "all", 1))["status"] == "cancelled"
    assert (await play.ask("resume"))[0]
    assert sorted(await play.work()) == [LAST, ("all", 0), ("all", 1), ("each", 0), ("each", 4)]
    assert await play.status() == "completed"


async def test_the_results_of_the_batches_can_be_read_once_all_have_completed(stage: Stage) -> None:
    play = await batched(stage, 4)

    async def read() -> list[int] | None:
        page = await stage.store.results_page(play.job_id, "all", -2, 100, 10)
        return [result.item for result in page] if page is not None else None

    assert await read() is None
    await play.report(await stage.claim(play.worker))
    await play.cycle()
    batches = await stage.claim(play.worker)
    await play.report(batches[:1])
    await play.cycle()
    assert await read() is None, "a batch is missing"
    await play.report(batches[1:])
    await play.cycle()
    assert await read() == [0, 1]
    await play.work()
    assert await read() == [0, 1], "the last task's own result is the node's output, not one of these results"
