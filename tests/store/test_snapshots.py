"""What streams read between two snapshots: each committed event once, in whatever order transactions begin and end."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from holdfast.operations.streaming import Cursor, must_start_over, pages_between
from holdfast.store.postgres import PostgresStore
from holdfast.store.stream_rows import Place
from holdfast.store.streams import PostgresStreams
from tests.conftest import with_database
from tests.store.plans import own_database, planner

pytestmark = pytest.mark.anyio

Connection = psycopg.AsyncConnection[Any]
FIRST = ("00000000-0000-0000-0000-000000000000", 0)


@pytest.fixture
def streams(store: PostgresStore) -> PostgresStreams:
    return store.streams()


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Connection]:
    async with await psycopg.AsyncConnection.connect(url, options="-c search_path=holdfast") as connection:
        yield connection


async def make_job(url: str, tenant: str = "default") -> str:
    job_id = str(uuid.uuid4())
    async with session(url) as connection:
        await connection.execute(
            "insert into jobs (job_id, tenant, workflow_id, version, definition_hash, identity, body_hash, inputs)"
            " values (%s, %s, 'w', '1', 'h', %s, 'b', '{}')",
            (job_id, tenant, job_id),
        )
    return job_id


async def write(connection: Connection, job_id: str, *numbers: int) -> None:
    for number in numbers:
        await connection.execute(
            "insert into events (job_id, seq, event) values (%s, %s, 'task_completed')", (job_id, number)
        )


async def between(streams: PostgresStreams, old: Place, new: Place) -> list[tuple[str, int]]:
    """The events that became visible between two places, one after the other."""
    pages = pages_between(streams, new.history, old.snapshot, new.snapshot, tenants=None)
    return [(one.event.job_id, one.event.seq) async for page in pages for one in page]


async def test_a_transaction_that_began_first_and_commits_last_is_read(
    streams: PostgresStreams, database_url: str
) -> None:
    slow_job, quick_job = await make_job(database_url), await make_job(database_url)
    before = await streams.place()
    async with session(database_url) as slow, session(database_url) as quick:
        await write(slow, slow_job, 1)
        await write(quick, quick_job, 1)
        await quick.commit()
        between_both = await streams.place()
        assert await between(streams, before, between_both) == [(quick_job, 1)]
        await write(slow, slow_job, 2)
        await slow.commit()
    after = await streams.place()
    assert await between(streams, between_both, after) == [(slow_job, 1), (slow_job, 2)]
    assert sorted(await between(streams, before, after)) == sorted([(slow_job, 1), (slow_job, 2), (quick_job, 1)])
    assert await between(streams, after, await streams.place()) == []


async def test_a_transaction_that_is_undone_brings_nothing(streams: PostgresStreams, database_url: str) -> None:
    job_id = await make_job(database_url)
    before = await streams.place()
    async with session(database_url) as connection:
        await write(connection, job_id, 1)
        during = await streams.place()
        await connection.rollback()
        await write(connection, job_id, 1)
        await connection.execute("savepoint s")
        await write(connection, job_id, 2)
        await connection.execute("rollback to savepoint s")
        await connection.execute("savepoint t")
        await write(connection, job_id, 3)
        await connection.execute("release savepoint t")
        await connection.commit()
    assert await between(streams, before, during) == []
    assert await between(streams, during, await streams.place()) == [(job_id, 1), (job_id, 3)]


async def test_an_open_transaction_anywhere_in_the_cluster_holds_nothing_up(
    streams: PostgresStreams, database_url: str, server_url: str
) -> None:
    job_id = await make_job(database_url)
    async with session(database_url) as here, session(with_database(server_url, "postgres")) as elsewhere:
        for connection in (here, elsewhere):
            await connection.execute("select pg_current_xact_id()")
        place = await streams.place()
        for number in range(1, 6):
            async with session(database_url) as writer:
                await write(writer, job_id, number)
            now = await streams.place()
            assert await between(streams, place, now) == [(job_id, number)]
            place = now


async def test_a_place_ends_behind_the_youngest_transaction_that_wrote_an_event(
    streams: PostgresStreams, database_url: str
) -> None:
    """After a crash Postgres gives the numbers of those that left nothing in its log to others."""
    job_id = await make_job(database_url)
    async with session(database_url) as writer:
        await write(writer, job_id, 1)
        row = await (await writer.execute("select pg_current_xact_id()::text::bigint")).fetchone()
    assert row is not None
    async with session(database_url) as other:
        await other.execute("select pg_current_xact_id()")
        await other.rollback()
        await other.execute("select pg_current_xact_id()")
    assert (await streams.place()).snapshot.split(":")[1] == str(row[0] + 1)


async def test_rows_of_a_dump_with_numbers_of_another_server_bring_nothing(
    streams: PostgresStreams, database_url: str
) -> None:
    job_id = await make_job(database_url)
    async with session(database_url) as connection:
        await connection.execute(
            "insert into events (job_id, seq, event, xid)"
            " select %s, n, 'task_completed', (pg_current_xact_id()::text::bigint + n)::text::xid8"
            " from generate_series(1, 5) n",
            (job_id,),
        )
    place = await streams.place()
    for number in range(10, 20):
        async with session(database_url) as connection:
            await write(connection, job_id, number)
        now = await streams.place()
        assert await between(streams, place, now) == [(job_id, number)]
        place = now


async def test_another_history_is_noticed(streams: PostgresStreams, database_url: str) -> None:
    job_id = await make_job(database_url)
    async with session(database_url) as connection:
        await write(connection, job_id, 1)
    place = await streams.place()
    least, end, _ = place.snapshot.split(":")
    for other in (
        Cursor.of(place._replace(history=place.history.replace("-", "-0", 1)[:-1] + "9")),
        Cursor.of(place._replace(snapshot=f"{least}:{int(end) + 1}:")),
        Cursor(place.history, place.snapshot, f"{least}:{int(end) + 1}:"),
    ):
        assert other.is_lost(place)
    assert not Cursor.of(place).is_lost(place)
    assert Cursor.of(place).is_lost(place._replace(pruned=int(least)))
    assert not Cursor.of(place).is_lost(place._replace(pruned=int(least) - 1))
    assert Cursor.parse(str(Cursor.of(place))) == Cursor.of(place)
    whole = Cursor(place.history, place.snapshot, place.snapshot, job_id, 7)
    assert Cursor.parse(str(whole)) == whole


async def test_one_who_has_missed_too_much_starts_over(
    streams: PostgresStreams, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.operations.streaming.MOST_MISSED", 5)
    job_id = await make_job(database_url)
    cursor = Cursor.of(await streams.place())
    async with session(database_url) as connection:
        await write(connection, job_id, 1, 2, 3, 4, 5)
    assert not await must_start_over(streams, cursor, await streams.place())
    async with session(database_url) as connection:
        await write(connection, job_id, 6)
    assert await must_start_over(streams, cursor, await streams.place())


async def test_pages_have_every_event_once_and_those_of_some_tenants_alone(
    streams: PostgresStreams, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.operations.streaming.PAGE_LENGTH", 3)
    before = await streams.place()
    jobs = [await make_job(database_url, tenant) for tenant in ("a", "b", "a", "c")]
    async with session(database_url) as connection:
        for job_id in jobs:
            await write(connection, job_id, 1, 2, 3, 4)
    now = await streams.place()
    pages = [
        page async for page in pages_between(streams, now.history, before.snapshot, now.snapshot, tenants=["a", "c"])
    ]
    got = [(one.event.job_id, one.event.seq) for page in pages for one in page]
    wanted = sorted((job_id, seq) for job_id in (jobs[0], jobs[2], jobs[3]) for seq in (1, 2, 3, 4))
    assert (got, len(pages)) == (wanted, 4)
    for page in pages:
        for one in page:
            cursor = Cursor.parse(str(one.cursor))
            assert cursor.new is not None
            rest = pages_between(
                streams, now.history, cursor.old, cursor.new, tenants=["a", "c"], after=(cursor.job_id, cursor.seq)
            )
            left = [(two.event.job_id, two.event.seq) async for page in rest for two in page]
            assert left == wanted[wanted.index((cursor.job_id, cursor.seq)) + 1 :]


@pytest.mark.parametrize("seed", range(4))
async def test_readers_get_every_committed_event_once_beside_writers_in_any_order(database_url: str, seed: int) -> None:
    """Each writer keeps transactions open for a while, and undoes some; each reader looks when it likes."""
    draw = random.Random(seed)
    jobs = [await make_job(database_url) for _ in range(6)]
    stores = [PostgresStore(database_url) for _ in range(3)]
    start = await stores[0].streams().place()
    is_over = asyncio.Event()

    async def work(job_id: str) -> None:
        number = 0
        async with session(database_url) as connection:
            for _ in range(25):
                many = draw.randint(1, 4)
                await write(connection, job_id, *range(number + 1, number + many + 1))
                for _ in range(draw.randint(0, 5)):
                    await asyncio.sleep(0)
                if draw.random() < 0.3:
                    await connection.rollback()
                else:
                    await connection.commit()
                    number += many

    async def read(store: PostgresStore) -> list[tuple[str, int]]:
        streams, place, got = store.streams(), start, []
        while True:
            was_over = is_over.is_set()
            now = await streams.place()
            got += await between(streams, place, now)
            place = now
            if was_over:
                return got

    readers = [asyncio.create_task(read(store)) for store in stores]
    await asyncio.gather(*(work(job_id) for job_id in jobs))
    is_over.set()
    async with session(database_url) as connection:
        rows = await (await connection.execute("select job_id::text, seq from events")).fetchall()
    for got in await asyncio.gather(*readers):
        assert Counter(got) == Counter(rows)
        for job_id in jobs:
            numbers = [seq for job, seq in got if job == job_id]
            assert numbers == sorted(numbers)
    for store in stores:
        await store.close()


def test_what_is_new_is_found_by_the_index_however_many_events_there_are(
    server_url: str, template_database: str
) -> None:
    with own_database(server_url, template_database) as url:
        with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as connection:
            connection.execute(
                "insert into jobs (job_id, workflow_id, version, definition_hash, identity, body_hash, inputs)"
                " select gen_random_uuid(), 'w', '1', 'h', n::text, 'b', '{}' from generate_series(1, 100) n"
            )
            connection.execute(
                "insert into events (job_id, seq, event) select job_id, n, 'e' from jobs, generate_series(1, 1000) n"
            )
            row = connection.execute("select pg_current_snapshot()::text").fetchone()
            assert row is not None
            connection.execute("insert into events (job_id, seq, event) select job_id, 1001, 'e' from jobs limit 20")
            new = connection.execute("select pg_current_snapshot()::text").fetchone()
            assert new is not None
        with planner(url) as plan:
            values = {"old": row[0], "new": new[0], "running": ["3"], "limit": 1000}
            values |= {"after_job": FIRST[0], "after_seq": 0, "tenants": ["default"]}
            for name in ("newly_visible", "place", "has_many_new"):
                assert plan.pages_of(name, values) < 250, plan.plan_of(name, values)
            jobs = plan.connection.execute("select job_id::text from holdfast.jobs limit 1").fetchone()
            assert jobs is not None
            assert plan.pages_of("stream_job", {"job": jobs[0], "after": 990, "limit": 1000}) < 40
