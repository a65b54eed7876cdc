"""Fences and takeovers on both stores: an ended orchestrator writes nothing more, and another takes over its jobs."""

from __future__ import annotations

import pytest

from holdfast.errors import Fenced
from holdfast.store.batch import Batch
from tests.store.stage import LEASE_SECONDS, Stage, owned

pytestmark = pytest.mark.anyio


async def test_an_ended_orchestrator_is_fenced(stage: Stage) -> None:
    me = await stage.orchestrator()
    assert await stage.store.renew_orchestrator(me, LEASE_SECONDS)
    await stage.store.end_orchestrator(me)
    assert not await stage.store.renew_orchestrator(me, LEASE_SECONDS)
    with pytest.raises(Fenced):
        await stage.store.cycle(me).open(100, 100)


async def test_an_open_cycle_keeps_its_orchestrator_from_being_ended(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.behind.lapse_orchestrator(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    there = stage.behind.another_store()
    assert await there.take_over(other, 10) == {}
    await cycle.commit(Batch())
    assert list(await there.take_over(other, 10)) == [job_id]
    with pytest.raises(Fenced):
        await cycle.open(100, 100)


async def test_an_expired_lease_can_be_renewed_until_another_orchestrator_ends_it(stage: Stage) -> None:
    me = await stage.orchestrator()
    await stage.behind.lapse_orchestrator(me)
    assert await stage.store.renew_orchestrator(me, LEASE_SECONDS)
    assert await stage.store.take_over(await stage.orchestrator(), 10) == {}


async def test_invariant_2_a_takeover_raises_the_epoch_of_the_job(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    job_id = await stage.owned_job(me)
    assert await stage.store.take_over(other, 10) == {}
    await stage.store.end_orchestrator(me)
    assert list(await stage.store.take_over(other, 10)) == [job_id]
    assert await stage.behind.job_owner(job_id) == (other, 2)


async def test_a_takeover_returns_the_previous_owner_of_each_job(stage: Stage) -> None:
    first, second, successor = [await stage.orchestrator(name) for name in ("first", "second", "successor")]
    owned = {await stage.owned_job(first): "first", await stage.owned_job(second): "second"}
    await stage.store.end_orchestrator(first)
    await stage.behind.lapse_orchestrator(second)
    assert await stage.store.take_over(successor, 10) == owned


async def test_the_jobs_of_an_owner_whose_row_was_deleted_are_taken_over(stage: Stage) -> None:
    former, successor = await stage.orchestrator("former"), await stage.orchestrator("successor")
    job_id = await stage.owned_job(former)
    assert await stage.store.take_over(successor, 10) == {}
    await stage.behind.delete_orchestrator(former)
    assert not await stage.store.renew_orchestrator(former, LEASE_SECONDS)
    with pytest.raises(Fenced):
        await stage.store.cycle(former).open(1, 1)
    assert await stage.store.take_over(successor, 10) == {job_id: f"orchestrator {former}"}


async def test_a_takeover_takes_no_more_than_its_limit(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    jobs = {await stage.owned_job(me) for _ in range(3)}
    await stage.store.end_orchestrator(me)
    first = await stage.store.take_over(other, 2)
    second = await stage.store.take_over(other, 2)
    assert (len(first), len(second), {*first, *second}) == (2, 1, jobs)


async def test_a_finished_job_is_not_taken_over(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    (row,), _ = await cycle.load([job_id])
    await cycle.commit(Batch(jobs=[owned(row, None, epoch=1, status="failed", finished_at=row.created_at + 1)]))
    await stage.store.end_orchestrator(me)
    assert await stage.store.take_over(await stage.orchestrator(), 10) == {}


async def test_a_sweep_moves_the_signals_of_a_job_to_its_new_owner(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    job_id = await stage.owned_job(me)
    signal_id = await stage.store.send(job_id, "cancel", "someone", "")
    await stage.store.end_orchestrator(me)
    await stage.store.take_over(other, 10)
    assert await stage.signals(other) == []
    assert await stage.store.sweep_inbox() == 1
    assert [s.id for s in await stage.signals(other)] == [signal_id]
    assert await stage.store.sweep_inbox() == 0


async def test_an_owner_loads_only_its_own_jobs(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(other)
    await cycle.open(100, 100)
    jobs, _ = await cycle.load([job_id])
    await cycle.rollback()
    assert jobs == []


async def test_an_orchestrator_cannot_overwrite_the_job_of_another(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    (row,), _ = await cycle.load([job_id])
    await cycle.rollback()
    await stage.commit(other, Batch(jobs=[owned(row, other, epoch=7, status="running")]))
    assert await stage.behind.job_owner(job_id) == (me, 1)
