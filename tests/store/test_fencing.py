"""Guards of single statements that other scenarios seldom reach: in each test, one of two processes loses a race."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from holdfast.core.effects import FailTask, WithdrawTasks
from holdfast.core.states import Status
from holdfast.store.batch import Batch
from holdfast.store.postgres import PostgresStore
from tests.store.stage import ERROR, LEASE_SECONDS, PostgresBackstage, Stage, held, new_task, owned

pytestmark = pytest.mark.anyio


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    store = PostgresStore(database_url)
    backstage = PostgresBackstage(store)
    yield Stage(store, backstage)
    await backstage.close()
    await store.close()


async def test_invariant_2_an_unowned_signal_of_a_job_that_has_an_owner_gives_no_claim(stage: Stage) -> None:
    job_id = (await stage.submit()).job_id
    await stage.store.send(job_id, "cancel", "ann", "")
    first, second = await stage.orchestrator(), await stage.orchestrator()
    cycle = stage.store.cycle(first)
    opened = await cycle.open(100, 100)
    assert [signal.kind for signal in opened.signals] == ["submitted", "cancel"]
    await cycle.commit(Batch(handled=[opened.signals[0].id], jobs=[owned(opened.claimed[0], first)]))
    other = stage.store.cycle(second)
    opened = await other.open(100, 100)
    assert (opened.claimed, opened.signals) == ([], [])
    await other.rollback()
    assert (await stage.behind.job_owner(job_id))[0] == first


async def test_a_cycle_that_does_not_get_a_job_keeps_none_of_its_signals_from_others(
    stage: Stage, database_url: str
) -> None:
    """Otherwise of two that claim at once, one could get a job, and the other one the pause that was sent before."""
    job_id = (await stage.submit()).job_id
    await stage.store.send(job_id, "pause", "ann", "not yet")
    late = stage.store.cycle(await stage.orchestrator())
    first = stage.behind.another_store().cycle(await stage.orchestrator())
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("select 1 from holdfast.jobs for update")
        assert (await late.open(100, 100)).signals == []
    assert [signal.kind for signal in (await first.open(100, 100)).signals] == ["submitted", "pause"]
    await first.rollback()
    await late.rollback()


async def test_invariant_2_a_renewal_does_not_confirm_a_lease_that_another_worker_holds(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    holder, stranger = await stage.worker("holder"), await stage.worker("stranger")
    lease = await stage.leased(me, job_id, holder)
    assert await stage.store.renew_worker(stranger, LEASE_SECONDS, [held(lease)]) == []
    assert await stage.store.renew_worker(holder, LEASE_SECONDS, [held(lease)]) == [held(lease)]


async def test_invariant_4_a_withdrawal_of_a_range_leaves_the_items_that_have_ended(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    refused = FailTask(job_id, "f", 1, ERROR)
    tasks = [new_task(job_id, "f", item, {}) for item in (0, 2, 3)]
    await stage.commit(me, Batch(tasks=tasks, failed_tasks=[refused]))
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    unqueued = (("f", 0, 2),)
    ended = await cycle.withdraw([WithdrawTasks(job_id, Status.CANCELLED, False, ERROR, unqueued)])
    await cycle.commit(Batch())
    assert {node: sorted(items) for node, items in ended[job_id].items()} == {"f": [0, 2]}
    statuses = [(await stage.behind.task(job_id, "f", item))["status"] for item in range(4)]
    assert statuses == ["cancelled", "failed", "cancelled", "ready"]
