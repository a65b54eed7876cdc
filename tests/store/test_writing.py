"""The writes of a commit on both stores: jobs, nodes, events, and tasks that are queued, finished or retried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.effects import FailTask, Notice
from holdfast.core.failing import failure
from holdfast.define.notify import EVERY_TENANT, JOB_ENDS
from holdfast.store.batch import Batch
from tests.store.stage import (
    ERROR,
    Stage,
    enqueue_write,
    event_write,
    finish_write,
    held,
    new_job,
    new_task,
    node_row,
    owned,
    report_of,
    retry_write,
)

pytestmark = pytest.mark.anyio


async def test_jobs_and_nodes_come_back_as_they_were_written(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    (row,), nodes = await cycle.load([job_id])
    assert nodes == []
    error = failure("HANDLER_UNKNOWN", 'ä "b" {c}, \\d', permanent=True, at=7.5, node="n", item=3, attempt=2)
    assert error.remedy is not None
    written = owned(
        row, me, status="running", epoch=1, reason="stopping", error=error,
        started_at=row.created_at + 1, deadline_at=row.created_at + 60.5, stop_cause="failed",
        stop_until=row.created_at + 2, stop_leases_ended=True, stop_signal=77,
        recovered_at=row.created_at + 3,
    )  # fmt: skip
    node = node_row(
        job_id, "n", status="running", reason="why, \"so\"", importance="important", output={"a": [1, None, "ü"]},
        error=replace(ERROR, other={"key of a later version": [1]}),
        attempt=2, width=9, expanded=8, enqueued=7, completed=1, failed=2, skipped=1, cancelled=3,
        taken=["b", "c"], retry_at=1_000_000.5, started_at=1_000_001.25, finished_at=1_000_002.75,
        spent={"f00d": 3},
    )  # fmt: skip
    await cycle.commit(Batch(jobs=[written], new_nodes=[node, node_row(job_id, "null", taken=["null"])]))
    await cycle.open(100, 100)
    (loaded,), nodes = await cycle.load([job_id])
    await cycle.rollback()
    for name in ("status", "owner", "epoch", "error", "stop_cause", "stop_leases_ended", "stop_signal"):
        assert getattr(loaded, name) == getattr(written, name)
    for name in ("started_at", "deadline_at", "stop_until", "recovered_at"):
        assert getattr(loaded, name) == pytest.approx(getattr(written, name), abs=1e-5)
    assert sorted(nodes, key=lambda n: n.node) == [node, node_row(job_id, "null", taken=["null"])]


async def test_a_node_that_is_written_again_is_replaced(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.commit(me, Batch(new_nodes=[node_row(job_id, "n", width=2, expanded=2)]))
    after = node_row(job_id, "n", status="completed", width=2, expanded=2, completed=2, output={"fan_out_count": 2})
    await stage.commit(me, Batch(nodes=[after]))
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    assert (await cycle.load([job_id]))[1] == [after]
    await cycle.rollback()


async def test_a_loaded_job_has_the_number_of_its_last_event(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.commit(me, Batch(events=[event_write(job_id, 2, "job_started"), event_write(job_id, 3, "node_ready")]))
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    assert (await cycle.load([job_id]))[0][0].last_seq == 3
    await cycle.rollback()
    assert await stage.behind.events(job_id) == [(1, "job_created"), (2, "job_started"), (3, "node_ready")]


async def test_refused_items_of_a_range_are_not_queued(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    tasks = [new_task(job_id, "n", item, {"item": item}) for item in (0, 1, 3)]
    refused = [FailTask(job_id, "n", 2, ERROR)]
    await stage.commit(me, Batch(tasks=tasks, failed_tasks=refused, enqueued=[enqueue_write(job_id, "n", 0, 2)]))
    assert [(row["item"], row["epoch"], row["attempt"]) for row in await stage.behind.queue(job_id)] == [
        (0, 1, 1),
        (1, 1, 1),
    ]
    assert (await stage.behind.task(job_id, "n", 2))["status"] == "failed"
    assert (await stage.behind.task(job_id, "n", 3))["status"] == "ready"


async def test_tasks_of_a_rolled_back_cycle_cannot_be_claimed(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    await cycle.write(Batch(tasks=[new_task(job_id, "n", -1, {})], enqueued=[enqueue_write(job_id, "n", -1, -1)]))
    assert await stage.claim(worker) == []
    await cycle.rollback()
    assert await stage.claim(worker) == []


async def test_invariant_1_a_finish_of_an_old_epoch_changes_nothing(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease, "given_back", None)])
    (signal,) = await stage.signals(me)
    await stage.commit(me, Batch(handled=[signal.id], retried=[retry_write(lease, None)]))
    await stage.commit(me, Batch(finished=[finish_write(signal)]))
    task = await stage.behind.task(*held(lease)[:3])
    assert (task["status"], task["epoch"]) == ("ready", 2)


async def test_invariant_4_a_finished_task_stays_as_it_is(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease)])
    (signal,) = await stage.signals(me)
    await stage.commit(me, Batch(handled=[signal.id], finished=[finish_write(signal)]))
    await stage.commit(me, Batch(finished=[finish_write(signal, "failed", error=ERROR)]))
    await stage.commit(me, Batch(retried=[retry_write(lease, None)]))
    task = await stage.behind.task(*held(lease)[:3])
    assert (task["status"], task["output"], task["error"], task["epoch"]) == ("completed", 1, None, 1)
    assert await stage.behind.queue(lease.job_id) == []


async def test_a_retry_is_a_new_epoch_that_can_be_claimed_at_once(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease, "failed", None)])
    retry = retry_write(lease, None, error=ERROR, retries=1, lost=2, crashes=1, suspect=True)
    await stage.commit(me, Batch(handled=[s.id for s in await stage.signals(me)], retried=[retry]))
    (again,) = await stage.claim(worker)
    assert (again.epoch, again.attempt, again.suspect, again.params) == (2, 2, True, lease.params)
    task = await stage.behind.task(*held(lease)[:3])
    assert (task["status"], task["epoch"], task["attempt"], task["error"]) == ("ready", 2, 1, ERROR)
    assert (task["retries"], task["lost"], task["crashes"]) == (1, 2, 1)


async def test_invariant_10_a_retry_is_not_claimable_before_its_time(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease, "failed", None)])
    opened = await stage.commit(me, Batch())
    await stage.commit(me, Batch(retried=[retry_write(lease, opened.now + 3600)]))
    assert await stage.store.wake_due() == 0
    assert await stage.claim(worker) == []
    await stage.behind.pass_due_time(lease.job_id)
    assert await stage.claim(worker) == []
    assert await stage.store.wake_due() == 1
    assert [again.epoch for again in await stage.claim(worker)] == [2]
    assert await stage.store.wake_due() == 0


async def test_invariant_2_a_retry_of_an_epoch_that_is_over_changes_nothing(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease, "failed", None)])
    await stage.commit(me, Batch(retried=[retry_write(lease, None, epoch=5)]))
    (again,) = await stage.claim(worker)
    await stage.store.report(worker, [report_of(again, "failed", None)])
    await stage.commit(me, Batch(retried=[retry_write(lease, None, epoch=5), retry_write(lease, None, epoch=4)]))
    assert await stage.behind.queue(lease.job_id) == []


def notice(job_id: str, node: str | None, event: str, seq: int, items: list[int]) -> Notice:
    return Notice(
        "default", job_id, "flow", node, event, 1, seq, max(1, len(items)), items,
        {"code": "TIMEOUT", "message": 'a "word", {b}'}, [{"email": "ops@example.org"}, {"webhook": "pager"}],
    )  # fmt: skip


async def test_a_commit_writes_one_notice_for_each_job_node_and_event(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    batch = Batch()
    batch.add([notice(job_id, "n", "task_exhausted", 5, [1]), notice(job_id, None, "job_failed", 7, [])])
    await cycle.write(batch)
    batch.clear()
    batch.add([notice(job_id, "n", "task_exhausted", 9, [4])])
    await cycle.commit(batch)
    merged = notice(job_id, "n", "task_exhausted", 9, [1, 4])
    assert await stage.behind.outbox(job_id) == [notice(job_id, None, "job_failed", 7, []), merged]


async def test_a_cycle_that_is_rolled_back_notes_nothing(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    batch = Batch()
    batch.add([notice(job_id, None, "job_failed", 7, [])])
    await cycle.write(batch)
    await cycle.rollback()
    assert await stage.behind.outbox(job_id) == []


async def test_a_job_is_loaded_with_the_receivers_of_its_submission(stage: Stage) -> None:
    rules = [{"on": ["job_failed"], "callback": "https://portal.example/done"}]
    me = await stage.orchestrator()
    (job,) = [new_job("with receivers", "body")._replace(notify=rules)]
    await stage.store.submit([job])
    await stage.own(me)
    job_id = job.job_id
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    (row,), _ = await cycle.load([job_id])
    assert row.notify == rules
    await cycle.rollback()


async def test_owners_know_what_webhooks_subscribe_to(stage: Stage) -> None:
    assert await stage.store.subscriptions() == {}
    await stage.behind.tell_of("default", ["job_failed", "job_stuck"])
    assert await stage.store.subscriptions() == {"default": frozenset({"job_failed", "job_stuck"})}


async def test_owners_know_that_the_hook_of_an_app_gets_the_ends_of_all_jobs(stage: Stage) -> None:
    for _ in range(2):
        await stage.store.announce_hooks(["things.tidy", "things.count"])
        assert await stage.store.subscriptions() == {EVERY_TENANT: frozenset(JOB_ENDS)}
