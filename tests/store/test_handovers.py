"""Handovers on both stores: an owner's transaction accepts a worker's reports and gives it its next leases."""

from __future__ import annotations

import pytest

from holdfast.core.effects import Lane
from holdfast.store.batch import Batch, Handover
from holdfast.store.records import Lease, WorkerIdentity
from tests.store.stage import LANE, Stage, enqueue_write, finish_write, new_task, report_of

pytestmark = pytest.mark.anyio


def handover_of(worker: WorkerIdentity, *leases: Lease, limit: int = 10) -> Handover:
    return Handover(worker, [report_of(lease) for lease in leases], None, ["work"], limit)


async def test_a_handover_accepts_the_report_and_leases_the_next_task_in_one_transaction(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    handover = handover_of(worker, await stage.leased(me, job_id, worker))
    cycle = stage.store.cycle(me)
    opened = await cycle.open(100, 100, (), handover)
    (signal,) = opened.signals
    assert (opened.accepted, signal.outcome, signal.output) == (frozenset({0}), "done", 1)
    batch = Batch(
        finished=[finish_write(signal)],
        handled=[signal.id],
        tasks=[new_task(job_id, "next", -1, {"item": -1})],
        enqueued=[enqueue_write(job_id, "next", -1, -1)],
    )
    committed = await cycle.commit(batch, handover)
    assert [(lease.node, lease.owner) for lease in committed.leases] == [("next", me)]
    assert (await stage.behind.task(job_id, "n", -1))["output"] == 1
    assert await stage.behind.inbox(job_id) == []
    assert [row["state"] for row in await stage.behind.queue(job_id)] == ["leased"]
    assert await stage.store.report(worker, [report_of(committed.leases[0])]) == 1


async def test_the_output_of_an_item_that_was_handed_over_reaches_its_task(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    handover = handover_of(worker, await stage.leased(me, job_id, worker, items=[0]))
    cycle = stage.store.cycle(me)
    (signal,) = (await cycle.open(100, 100, (), handover)).signals
    await cycle.commit(Batch(finished=[finish_write(signal)], handled=[signal.id]), handover)
    assert (await stage.behind.task(job_id, "n", 0))["output"] == 1


async def test_a_handover_that_is_rolled_back_has_not_happened(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    lease = await stage.leased(me, job_id, worker)
    cycle = stage.store.cycle(me)
    assert (await cycle.open(100, 100, (), handover_of(worker, lease))).accepted == {0}
    await cycle.rollback()
    assert await stage.behind.inbox(job_id) == []
    assert await stage.store.report(worker, [report_of(lease)]) == 1


async def test_invariant_1_a_handover_of_a_lease_that_was_lost_changes_nothing(stage: Stage) -> None:
    me, worker, other = await stage.orchestrator(), await stage.worker(), await stage.worker("other")
    job_id = await stage.owned_job(me)
    lease = await stage.leased(me, job_id, worker)
    cycle = stage.store.cycle(me)
    for handover in (handover_of(other, lease), handover_of(worker, lease._replace(epoch=lease.epoch + 1))):
        opened = await cycle.open(100, 100, (), handover)
        assert (opened.accepted, opened.signals) == (frozenset(), [])
        await cycle.commit(Batch(), handover)
    assert [row["state"] for row in await stage.behind.queue(job_id)] == ["leased"]


async def test_a_report_that_the_owner_did_not_handle_waits_in_the_inbox(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    handover = handover_of(worker, await stage.leased(me, job_id, worker))
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100, (), handover)
    await cycle.commit(Batch(), handover)
    assert [signal.outcome for signal in await stage.signals(me)] == ["done"]


async def test_a_handover_leaves_work_that_the_worker_cannot_take(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    lease = await stage.leased(me, job_id, worker)
    cycle = stage.store.cycle(me)
    elsewhere = Lane("default", "another handler", "default")
    for number, (limit, lane, work_left) in enumerate([(2, LANE, False), (1, LANE, True), (2, elsewhere, True)]):
        handover = handover_of(worker, lease, limit=limit)
        await cycle.open(100, 100, (), handover)
        node = f"next{number}"
        batch = Batch(tasks=[new_task(job_id, node, -1, {})], enqueued=[enqueue_write(job_id, node, -1, -1, lane=lane)])
        assert (await cycle.commit(batch, handover)).work_left == work_left
