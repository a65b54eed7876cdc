"""The database's clock steps back: no wait becomes longer than its own duration, on both stores."""

from __future__ import annotations

import pytest

from holdfast.core.breaking import Breaker, BreakerState
from holdfast.core.effects import Lane
from holdfast.define.gates import DEFAULT_TENANT as TENANT
from holdfast.define.gates import BreakerRules, Limit
from holdfast.store.batch import Batch
from holdfast.store.leases import LEASE_SLACK_SECONDS
from tests.store.stage import LEASE_SECONDS, Stage, report_of, retry_write

pytestmark = pytest.mark.anyio

DAY = 86_400.0
GATEWAY = BreakerRules("gateway", cooldown_seconds=30)


async def test_nothing_moves_while_the_clock_runs_forward(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    await stage.leased(me, await stage.owned_job(me), worker)
    assert await stage.store.follow_clock(LEASE_SECONDS) == 0


async def test_a_retry_waits_for_its_delay_and_no_longer(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease, "failed")])
    cycle = stage.store.cycle(me)
    opened = await cycle.open(100, 100)
    due_at = opened.now + 1.0
    await cycle.commit(Batch(handled=[s.id for s in opened.signals], retried=[retry_write(lease, due_at)]))
    await stage.behind.step_back(DAY)
    await stage.store.follow_clock(LEASE_SECONDS)
    waits = await stage.behind.waits(lease.job_id)
    assert 0.0 < waits <= 1.0 + 0.1
    assert await stage.store.follow_clock(LEASE_SECONDS) == 0


async def test_the_leases_of_dead_processes_end_after_one_lease_duration(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.leased(me, job_id, worker)
    await stage.behind.step_back(DAY)
    await stage.store.follow_clock(LEASE_SECONDS)
    await stage.behind.step_back(-LEASE_SECONDS - 1)
    other = await stage.orchestrator("other")
    assert list(await stage.store.take_over(other, 10)) == [job_id]
    assert await stage.store.expire() == 1


async def test_an_attempt_is_ended_after_its_timeout_at_the_latest(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    await stage.leased(me, await stage.owned_job(me), worker, timeout_seconds=5.0)
    await stage.behind.step_back(DAY)
    await stage.store.follow_clock(LEASE_SECONDS)
    await stage.behind.step_back(-5.0 - LEASE_SLACK_SECONDS - 1.0)
    assert await stage.store.renew_worker(worker, LEASE_SECONDS, []) == []
    assert await stage.store.expire() == 1
    assert [signal.outcome for signal in await stage.signals(me)] == ["failed"]


async def test_a_cooldown_does_not_become_longer(stage: Stage) -> None:
    await stage.store.declare_breakers(TENANT, [GATEWAY])
    me = await stage.orchestrator()
    cycle = stage.store.cycle(me)
    now = (await cycle.open(1, 1)).now
    opened = Breaker(GATEWAY, BreakerState.OPEN, changed_at=now, until=now + 30, reason="it fell")
    await cycle.commit(Batch(breakers=[opened]))
    await stage.behind.step_back(DAY)
    await stage.store.follow_clock(LEASE_SECONDS)
    await stage.behind.step_back(-31.0)
    await stage.store.open_gates()
    await cycle.open(1, 1)
    (breaker,) = await cycle.breakers(["gateway"])
    await cycle.rollback()
    assert breaker.state is BreakerState.HALF_OPEN


async def test_a_bucket_is_not_emptied(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    lane = Lane("default", "work", limits=(Limit("node:w.n", rate=1.0, burst=2),))
    await stage.enqueue(me, job_id, items=range(3), lane=lane)
    assert len(await stage.claim(worker, 1)) == 1
    await stage.behind.step_back(DAY)
    await stage.store.renew_worker(worker, LEASE_SECONDS, [])
    await stage.store.follow_clock(LEASE_SECONDS)
    assert len(await stage.claim(worker, 1)) == 1
