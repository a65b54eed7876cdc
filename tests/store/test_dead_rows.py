"""Finished work leaves the hot tables small, and dead rows that no vacuum can remove yet are not read again."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from holdfast.store.batch import Batch
from holdfast.store.postgres import PostgresStore
from tests.conftest import eventually
from tests.running import Engine, registry, running
from tests.store.plans import Planner, own_database, planner
from tests.store.stage import LANE, PostgresBackstage, Stage, enqueue_write, new_task, report_of, retry_write

pytestmark = pytest.mark.anyio

LIVE, DEAD = 10, 5_000


@dataclass
class Tables:
    """Queue and inbox, and the statements that read their first rows."""

    url: str
    planner: Planner
    inbox_floor: int = -1

    def put(self, count: int) -> None:
        """Insert jobs, each with a queued task, a report to owner 1 and a submission without an owner."""
        run = self.planner.connection.execute
        jobs = [str(uuid.uuid4()) for _ in range(count)]
        for statement in (
            "insert into jobs (job_id, workflow_id, version, definition_hash, identity, body_hash, inputs)"
            " select j, 'w', '1', 'd', j::text, 'b', '{}' from unnest(%s::uuid[]) j",
            "insert into tasks (job_id, node, item, params) select j, 'n', -1, '{}' from unnest(%s::uuid[]) j",
            "insert into queue (job_id, node, item, epoch, attempt, lane_id, owner, timeout_seconds)"
            " select j, 'n', -1, 1, 1, 1, 1, 60 from unnest(%s::uuid[]) j",
            "insert into inbox (owner, job_id, kind, node, item, epoch, attempt, outcome)"
            " select 1, j, 'report', 'n', -1, 1, 1, 'done' from unnest(%s::uuid[]) j",
            "insert into inbox (owner, job_id, kind) select 0, j, 'submitted' from unnest(%s::uuid[]) j",
        ):
            run(statement.encode(), (jobs,))

    def pass_through(self) -> None:
        """Delete all rows, as if they were claimed, reported and handled; the floors follow."""
        run = self.planner.connection.execute
        run("update queue set state = 'leased', holder = 1")
        run("delete from queue")
        self.inbox_floor = run("select max(id) from inbox").fetchone()[0]  # type: ignore[index]
        run("delete from inbox")

    def pages(self) -> dict[str, int]:
        statements: dict[str, dict[str, Any]] = {
            "claim": {"me": 1, "handlers": "{work}", "queues": None, "limit": LIVE, "slack": 2.0, "everything": False},
            "drain": {"me": 1, "floor": self.inbox_floor, "limit": 2000, "aside": "{}"},
            "claim_jobs": {"me": 1, "floor": self.inbox_floor, "limit": 500, "aside": "{}"},
        }
        return {name: self.planner.pages_of(name, parameters) for name, parameters in statements.items()}


@pytest.fixture(params=["without a snapshot", "with a snapshot held open"])
def tables(request: pytest.FixtureRequest, server_url: str, template_database: str) -> Iterator[Tables]:
    with ExitStack() as stack:
        url = stack.enter_context(own_database(server_url, template_database))
        tables = Tables(url, stack.enter_context(planner(url)))
        if request.param == "with a snapshot held open":
            holder = stack.enter_context(psycopg.connect(url))
            holder.execute("set transaction isolation level repeatable read")
            holder.execute("select 1")
        run = tables.planner.connection.execute
        run("insert into lanes (queue, handler) values ('default', 'work')")
        run("insert into workers (name, handlers, concurrency, lease_until) values ('w', '{work}', 4, 'infinity')")
        yield tables


async def raise_floors(store: PostgresStore, beyond: int) -> None:
    """Raise the lane's floor until it is there: other transactions on the server may hold it back for a while."""

    async def is_there() -> bool:
        await store._lanes.of({LANE})
        await store.raise_floors()
        return await floor(store) > beyond

    await eventually(is_there)


async def floor(store: PostgresStore) -> int:
    async with store.connections.use("test") as connection:
        row = await (await connection.execute("select floor from lanes")).fetchone()
        assert row is not None
        return int(row[0])


async def test_thousands_of_dead_rows_do_not_make_claims_and_drains_read_more_pages(tables: Tables) -> None:
    tables.put(LIVE)
    fresh = tables.pages()
    tables.put(DEAD)
    tables.pass_through()
    store = PostgresStore(tables.url)
    await raise_floors(store, beyond=DEAD)
    await store.close()
    tables.put(LIVE)
    aged = tables.pages()
    # The factor 2 allows for deeper indexes. Without floors each dead row would cost a page.
    assert {name: pages for name, pages in aged.items() if pages > 2 * fresh[name]} == {}, fresh


@pytest.fixture
async def stage(store: PostgresStore) -> AsyncIterator[Stage]:
    backstage = PostgresBackstage(store)
    yield Stage(store, backstage)
    await backstage.close()


async def let_pass(stage: Stage, me: int, count: int) -> None:
    """Pass `count` tasks of another job through the queue."""
    job_id = str(uuid.uuid4())
    await stage.enqueue(me, job_id, items=range(count))
    async with stage.store.connections.use("test") as connection:  # type: ignore[attr-defined]
        await connection.execute("delete from queue where job_id = %s", (job_id,))


async def test_a_task_that_is_committed_after_the_floor_rose_is_claimed(stage: Stage, store: PostgresStore) -> None:
    slow, quick, worker = await stage.orchestrator(), await stage.orchestrator(), await stage.worker()
    job_id = str(uuid.uuid4())
    straggler = stage.behind.another_store().cycle(slow)
    await let_pass(stage, quick, 2000)
    await straggler.open(100, 100)
    await straggler.write(Batch(tasks=[new_task(job_id, "n", -1, {})], enqueued=[enqueue_write(job_id, "n", -1, -1)]))
    for _ in range(4):
        await let_pass(stage, quick, 1000)
        await store.raise_floors()
    await straggler.commit(Batch())
    assert [lease.job_id for lease in await stage.claim(worker)] == [job_id]


async def test_a_retry_that_waited_while_the_floor_passed_it_is_claimed(stage: Stage, store: PostgresStore) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, str(uuid.uuid4()), worker)
    await store.report(worker, [report_of(lease, "failed", None)])
    opened = await stage.commit(me, Batch())
    await stage.commit(me, Batch(retried=[retry_write(lease, opened.now + 3600)]))
    await let_pass(stage, me, 3000)
    await raise_floors(store, beyond=2000)
    await stage.behind.pass_due_time(lease.job_id)
    assert await store.wake_due() == 1
    assert [again.job_id for again in await stage.claim(worker)] == [lease.job_id]


async def test_a_floor_stays_below_ready_tasks(stage: Stage, store: PostgresStore) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    await let_pass(stage, me, 2000)
    job_id = str(uuid.uuid4())
    await stage.enqueue(me, job_id)
    await let_pass(stage, me, 3000)
    await raise_floors(store, beyond=2000)
    for _ in range(3):
        await let_pass(stage, me, 1000)
        await store.raise_floors()
    assert [lease.job_id for lease in await stage.claim(worker)] == [job_id]


@pytest.mark.parametrize("helped_by", ["a claim that relies on no floor", "an orchestrator that starts"])
async def test_a_task_below_a_floor_is_claimed_all_the_same(
    stage: Stage, store: PostgresStore, monkeypatch: pytest.MonkeyPatch, helped_by: str
) -> None:
    monkeypatch.setattr("holdfast.store.work.time.time", lambda: 1.0)
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = str(uuid.uuid4())
    await stage.enqueue(me, job_id)
    async with store.connections.use("test") as connection:
        await connection.execute("update lanes set floor = 1000000")
    assert await stage.claim(worker) == []
    if helped_by == "an orchestrator that starts":
        await stage.orchestrator()
    else:
        monkeypatch.setattr("holdfast.store.work.time.time", lambda: 5.0)
    assert [lease.job_id for lease in await stage.claim(worker)] == [job_id]


WIDE = """
workflow_id: wide
inputs: {items: {type: array}}
nodes: {spread: {type: fan_out, source: "{{ inputs.items }}", task: {handler: work, params: {item: "{{ item }}"}}}}
"""


async def sizes(engine: Engine) -> dict[str, int]:
    """The bytes of the hot tables and their indexes after a vacuum."""

    async def is_vacuumed() -> bool:
        async with engine.store.connections.use("test") as connection:
            await connection.execute("vacuum queue, inbox")
        ((dead,),) = await engine.query(
            "select sum(pg_stat_get_dead_tuples(t::regclass)) from unnest(array['holdfast.queue', 'holdfast.inbox']) t"
        )
        return bool(dead == 0)

    await eventually(is_vacuumed)
    rows = await engine.query(
        "select t, pg_total_relation_size(t::regclass) from unnest(array['holdfast.queue', 'holdfast.inbox']) t"
    )
    return dict(rows)


async def test_the_size_of_queue_and_inbox_does_not_grow_with_finished_work(database_url: str) -> None:
    """The tables need room for the rows between two vacuums, here 2,000, and the same again: an index page that one
    vacuum has emptied is free for new entries only after the next vacuum. Later rows reuse this room."""

    async def work(item: int) -> int:
        return item

    async with running(database_url, registry(work=work), concurrency=100) as engine:
        after: list[dict[str, int]] = []
        for number in range(10):
            job_id = await engine.submit(WIDE, {"items": list(range(2_000))}, key=str(number))
            assert (await engine.finished(job_id, 120))["status"] == "completed"
            after.append(await sizes(engine))
        rows = await engine.query("select (select count(*) from holdfast.queue), (select count(*) from holdfast.inbox)")
    assert rows == [(0, 0)]
    # The factor 2 is a margin: other transactions decide when a page is free. Growth would make it five.
    assert {name: size for name, size in after[9].items() if size > 2 * after[1][name]} == {}, after
