"""Leases on both stores: workers renew them, lose them, exceed their time or give them back."""

from __future__ import annotations

import pytest

from holdfast.store.postgres import PostgresStore
from tests.store.stage import LEASE_SECONDS, PostgresBackstage, Stage, held, items_of, report_of

pytestmark = pytest.mark.anyio


async def test_a_renewal_returns_the_leases_that_are_still_held(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    await stage.enqueue(me, await stage.owned_job(me), items=range(3))
    leases = await stage.claim(worker)
    await stage.store.report(worker, [report_of(leases[0])])
    still = await stage.store.renew_worker(worker, LEASE_SECONDS, [held(lease) for lease in leases])
    assert still is not None
    assert sorted(still) == sorted(held(lease) for lease in leases[1:])
    assert await stage.store.renew_worker(worker, LEASE_SECONDS, []) == []


async def test_a_worker_that_was_declared_gone_cannot_renew(stage: Stage) -> None:
    lapsed, ended = await stage.worker(), await stage.worker()
    await stage.behind.lapse_worker(lapsed)
    await stage.store.end_worker(ended)
    assert await stage.store.renew_worker(lapsed, LEASE_SECONDS, []) is None
    assert await stage.store.renew_worker(ended, LEASE_SECONDS, []) is None


async def test_the_leases_of_a_lapsed_worker_are_reported_lost(stage: Stage) -> None:
    me, worker, other = await stage.orchestrator(), await stage.worker(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(2))
    lapsed = await stage.claim(worker, 1)
    live = await stage.claim(other, 1)
    assert await stage.store.expire() == 0
    await stage.behind.lapse_worker(worker)
    assert await stage.store.expire() == 1
    (signal,) = await stage.signals(me)
    assert (signal.kind, signal.outcome, signal.item, signal.epoch) == ("report", "lost", lapsed[0].item, 1)
    assert [row["item"] for row in await stage.behind.queue(job_id)] == items_of(live)
    assert await stage.store.expire() == 0
    assert await stage.store.renew_worker(worker, LEASE_SECONDS, []) is None


async def test_the_leases_of_a_worker_whose_row_was_deleted_are_reported_lost(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.behind.delete_worker(worker)
    assert await stage.store.renew_worker(worker, LEASE_SECONDS, [held(lease)]) is None
    assert await stage.store.expire() == 1
    assert [(s.outcome, s.worker) for s in await stage.signals(me)] == [("lost", f"worker {worker.worker_id}")]
    assert await stage.store.expire() == 0


async def test_the_leases_of_a_worker_that_left_are_reported_lost(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.end_worker(worker)
    await stage.behind.lapse_worker(worker)
    assert await stage.store.expire() == 1
    assert [s.outcome for s in await stage.signals(me)] == ["lost"]


async def test_an_attempt_past_its_deadline_is_reported_as_timed_out(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.behind.pass_deadline(lease)
    assert await stage.store.expire() == 1
    (signal,) = await stage.signals(me)
    assert signal.data is not None
    assert (signal.outcome, signal.data["code"], signal.epoch) == ("failed", "TIMEOUT", 1)
    assert await stage.store.renew_worker(worker, LEASE_SECONDS, [held(lease)]) == []


async def test_a_report_of_a_job_that_was_taken_over_goes_to_the_new_owner(stage: Stage) -> None:
    me, other, worker = await stage.orchestrator(), await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.end_orchestrator(me)
    await stage.store.take_over(other, 10)
    assert await stage.store.report(worker, [report_of(lease)]) == 1
    await stage.store.sweep_inbox()
    assert [(s.kind, s.outcome) for s in await stage.signals(other)] == [("report", "done")]


async def test_stray_leases_go_back_to_the_queue_at_no_cost(stage: Stage) -> None:
    me, worker, other = await stage.orchestrator(), await stage.worker(), await stage.worker()
    await stage.enqueue(me, await stage.owned_job(me), items=range(3))
    lease, stray = await stage.claim(worker, 2)
    (foreign,) = await stage.claim(other)
    assert await stage.store.release_strays(worker, [held(lease), held(stray)]) == 0
    assert await stage.store.release_strays(worker, [held(lease)]) == 1
    (signal,) = await stage.signals(me)
    assert (signal.kind, signal.outcome, signal.item, signal.epoch) == ("report", "given_back", stray.item, 1)
    assert await stage.store.report(worker, [report_of(stray)]) == 0
    assert await stage.store.report(worker, [report_of(lease)]) == 1
    assert await stage.store.report(other, [report_of(foreign)]) == 1


async def test_a_task_that_begins_late_has_its_full_timeout_and_only_its_holder_may_begin_it(
    store: PostgresStore,
) -> None:
    """Only on Postgres: the model's workers begin claimed tasks at once."""
    stage = Stage(store, PostgresBackstage(store))
    me, worker, other = await stage.orchestrator(), await stage.worker(), await stage.worker()
    job_id = await stage.owned_job(me)
    lease = await stage.leased(me, job_id, worker)
    await stage.behind.pass_deadline(lease)
    assert not await store.begin_late(other, held(lease))
    assert not await store.begin_late(worker, (*held(lease)[:3], lease.epoch + 1))
    assert await store.begin_late(worker, held(lease))
    assert await store.expire() == 0
    assert await store.report(worker, [report_of(lease)]) == 1
    assert not await store.begin_late(worker, held(lease))
