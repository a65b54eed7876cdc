"""Behaviour that only the store on Postgres has: broken connections, idle processes, rows that waited too long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import psycopg
import pytest

from holdfast.core.effects import WithdrawTasks
from holdfast.core.states import Status
from holdfast.errors import LostRace, NotFound, Unreachable
from holdfast.store.batch import Batch
from holdfast.store.cycle import ROLE
from holdfast.store.postgres import PostgresStore
from tests.conftest import eventually
from tests.store.stage import (
    ERROR,
    PostgresBackstage,
    Stage,
    enqueue_write,
    held,
    new_job,
    new_task,
    report_of,
    retry_write,
)

pytestmark = pytest.mark.anyio

IDLE = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'"


@pytest.fixture
async def stage(store: PostgresStore) -> AsyncIterator[Stage]:
    backstage = PostgresBackstage(store)
    yield Stage(store, backstage)
    await backstage.close()


def kill_connections(url: str, role: str = "") -> int:
    """End every other connection to this database, or those of one role."""
    with psycopg.connect(url, autocommit=True) as connection:
        return len(
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
                " and pid <> pg_backend_pid() and application_name like %s",
                (f"%{role}",),
            ).fetchall()
        )


async def test_a_process_that_sleeps_inside_a_cycle_keeps_no_lock(stage: Stage, store: PostgresStore) -> None:
    await stage.submit()
    await store.connections.exchange(ROLE, (b"set idle_in_transaction_session_timeout = '100ms'", {}))
    cycle = store.cycle(await stage.orchestrator())
    assert (await cycle.open(100, 100)).claimed

    async def no_lock_is_held() -> bool:
        async with store.connections.use("stage") as connection:
            return (await (await connection.execute(IDLE)).fetchone()) == (0,)

    await eventually(no_lock_is_held, 5)
    with pytest.raises(LostRace):
        await cycle.commit(Batch())
    assert len((await stage.own(await stage.orchestrator())).claimed) == 1


@pytest.mark.parametrize("step", ["load", "results", "withdraw", "write", "commit"])
async def test_a_connection_that_dies_inside_a_cycle_is_a_lost_race(
    stage: Stage, store: PostgresStore, database_url: str, step: str
) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = store.cycle(me)
    await cycle.open(100, 100)
    assert kill_connections(database_url, ROLE) == 1
    batch = Batch(tasks=[new_task(job_id, "n", -1, {})])
    steps: dict[str, Callable[[], Awaitable[object]]] = {
        "load": lambda: cycle.load([job_id]),
        "results": lambda: cycle.results(job_id, "n", -1),
        "withdraw": lambda: cycle.withdraw([WithdrawTasks(job_id, Status.CANCELLED, True, ERROR, ())]),
        "write": lambda: cycle.write(batch),
        "commit": lambda: cycle.commit(batch),
    }
    with pytest.raises(LostRace):
        await steps[step]()
    await cycle.rollback()
    await stage.commit(me, batch)
    assert (await stage.behind.task(job_id, "n", -1))["status"] == "ready"


async def test_a_connection_that_dies_while_lanes_are_read_is_not_blamed_on_the_job(
    stage: Stage, store: PostgresStore, database_url: str
) -> None:
    """Otherwise the owner would set the job aside, with the reason that it cannot be advanced."""
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = store.cycle(me)
    await cycle.open(100, 100)
    assert kill_connections(database_url, "main") == 1
    batch = Batch(tasks=[new_task(job_id, "n", -1, {})], enqueued=[enqueue_write(job_id, "n", -1, -1)])
    with pytest.raises(Unreachable):
        await cycle.commit(batch)
    await stage.commit(me, batch)
    assert len(await stage.behind.queue(job_id)) == 1


async def test_a_store_raises_at_most_one_error_for_a_dead_connection(
    stage: Stage, store: PostgresStore, database_url: str
) -> None:
    worker = await stage.worker()
    await store.submit([new_job()])
    await store.report_and_claim(worker, [], None, ["work"], 1)
    kill_connections(database_url)
    for ask in (
        lambda: store.renew_worker(worker, 60, []),
        lambda: store.submit([new_job()]),
        lambda: store.report_and_claim(worker, [], None, ["work"], 1),
    ):
        # The store replaces a connection that it knows is lost. If one breaks during a call, the call fails.
        with contextlib.suppress(Unreachable):
            await ask()
        await ask()


async def test_a_row_that_is_not_claimed_within_its_queue_timeout_is_reported_failed(
    stage: Stage, store: PostgresStore
) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, queue_timeout_seconds=0.0)
    assert await store.expire() == 1
    (signal,) = await stage.signals(me)
    assert signal.data is not None
    assert (signal.outcome, signal.data["code"]) == ("failed", "QUEUE_TIMEOUT")
    assert await stage.claim(worker) == []


async def test_the_queue_timeout_of_a_row_ends_with_its_claim(stage: Stage, store: PostgresStore) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    lease = await stage.leased(me, job_id, worker, queue_timeout_seconds=3600.0)
    async with store.connections.use("stage") as connection:
        await connection.execute("update queue set queue_timeout_seconds = 0")
    assert await store.expire() == 0
    assert await store.report(worker, [report_of(lease)]) == 1


async def test_leases_of_a_worker_that_left_long_ago_are_still_found(stage: Stage, store: PostgresStore) -> None:
    """No process swept for an hour: neither an orchestrator nor a worker was running."""
    me, worker = await stage.orchestrator(), await stage.worker()
    await stage.leased(me, await stage.owned_job(me), worker, timeout_seconds=86_400.0)
    async with store.connections.use("stage") as connection:
        await connection.execute(
            "update workers set ended_at = now() - interval '1 h', lease_until = now() - interval '1 h'"
        )
    assert await store.expire() == 1
    assert [s.outcome for s in await stage.signals(me)] == ["lost"]


async def test_only_the_holder_of_a_lease_saves_progress(stage: Stage, store: PostgresStore) -> None:
    me, worker, other = await stage.orchestrator(), await stage.worker(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await store.save_progress(worker, [(held(lease), b'{"done": 1, "total": 2, "text": ""}')])
    await store.save_progress(other, [(held(lease), b'{"done": 2, "total": 2, "text": "forged"}')])
    async with store.connections.use("stage") as connection:
        row = await (await connection.execute("select progress from queue")).fetchone()
    assert row == ({"done": 1, "total": 2, "text": ""},)


async def test_a_report_and_a_claim_in_one_round_trip_are_two_transactions(stage: Stage, store: PostgresStore) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(3))
    accepted, first = await store.report_and_claim(worker, [], None, ["work"], 2)
    assert (accepted, [lease.item for lease in first]) == (0, [0, 1])
    late = report_of(first[1], epoch=9)
    accepted, second = await store.report_and_claim(worker, [report_of(first[0]), late], None, ["work"], 5)
    assert (accepted, [lease.item for lease in second]) == (1, [2])
    assert sorted(s.kind for s in await stage.signals(me)) == ["rejected", "report"]


async def test_a_signal_to_a_job_that_does_not_exist_is_refused(store: PostgresStore) -> None:
    with pytest.raises(NotFound, match="There is no job"):
        await store.send(new_job().job_id, "cancel", "someone", "")
    with pytest.raises(NotFound, match="There is no definition"):
        await store.definition("0" * 64)


async def test_an_id_stands_for_the_first_definition_that_was_submitted(store: PostgresStore) -> None:
    assert await store.newest_definition("default", "w") is None
    for number in (1, 2):
        text = f'{{"version": {number}}}'.encode()
        await store.submit([new_job()._replace(definition_hash=str(number) * 64, definition=text, version=str(number))])
    assert await store.newest_definition("default", "w") == b'{"version": 1}'
    assert await store.newest_definition("other tenant", "w") is None


async def test_each_tenant_finds_its_definition_although_another_submitted_an_equal_one(store: PostgresStore) -> None:
    job = new_job()._replace(definition=b'{"version": 1}')
    await store.submit([job])
    await store.submit([new_job()._replace(definition=job.definition, tenant="b"), new_job()._replace(tenant="c")])
    for tenant in ("default", "b", "c"):
        assert await store.newest_definition(tenant, "w") == b'{"version": 1}', tenant


async def test_a_tenant_finds_the_definition_that_a_process_of_an_older_version_has_submitted(
    store: PostgresStore,
) -> None:
    async with store.connections.use("stage") as connection:
        await connection.execute("insert into workflows values ('d', 'default', 'w', '1', '{\"version\": 1}')")
    assert await store.newest_definition("default", "w") == b'{"version": 1}'


async def test_a_lane_that_two_owners_make_at_once_is_one_lane(stage: Stage) -> None:
    stages = [Stage(stage.behind.another_store(), stage.behind) for _ in range(3)]
    jobs = []
    for each in stages:
        me = await each.orchestrator()
        jobs.append((me, await each.owned_job(me)))
    await asyncio.gather(*(each.enqueue(*job) for each, job in zip(stages, jobs, strict=True)))
    assert len(await stage.claim(await stage.worker())) == 3


async def test_a_cycle_that_fails_by_a_bug_leaves_a_usable_connection(stage: Stage, store: PostgresStore) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id)
    cycle = store.cycle(me)
    await cycle.open(100, 100)
    with pytest.raises(psycopg.errors.UniqueViolation):
        await cycle.commit(Batch(tasks=[new_task(job_id, "n", -1, {})], enqueued=[enqueue_write(job_id, "n", -1, -1)]))
    await cycle.rollback()
    (lease,) = await stage.claim(worker)
    await store.report(worker, [report_of(lease, "failed", None)])
    await stage.commit(me, Batch(retried=[retry_write(lease, None)]))
    assert len(await stage.claim(worker)) == 1
