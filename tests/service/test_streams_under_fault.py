"""Streams while everything around them breaks: connections, API processes and Postgres. No event is lost or doubled."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from holdfast import load_text
from holdfast.client import Client
from holdfast.errors import Unreachable
from holdfast.operations.scope import Scope
from holdfast.store.postgres import PostgresStore
from tests.chaos.fleet import Server
from tests.conftest import eventually, with_database
from tests.marks import IN_CHAOS
from tests.running import client_of, registry, running
from tests.service.processes import api_process
from tests.service.serving import Service, serving_http
from tests.service.streaming import Follower, first_place, stream

pytestmark = pytest.mark.anyio

FLOW = load_text("""
workflow_id: flow
nodes:
  each: {type: fan_out, source: "{{ [1, 2, 3, 4, 5] }}", task: {handler: echo}, next: all}
  all: {type: fan_in}
""")
JOBS = 40
LISTENERS = 10
OF_ONE_JOB = 6


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("restarted")) as running_server:
        yield running_server


class Apis:
    """Two API processes; each can be ended in order and replaced by one at another port."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._running: list[tuple[AsyncExitStack, Service]] = []

    async def start(self) -> Service:
        stack = AsyncExitStack()
        service = await stack.enter_async_context(serving_http(self._url))
        self._running.append((stack, service))
        return service

    async def replace_the_oldest(self) -> None:
        await self.start()
        stack, _ = self._running.pop(0)
        await stack.aclose()

    def any_url(self, draw: random.Random) -> str:
        return draw.choice(self._running)[1].url

    async def stop(self) -> None:
        for stack, _ in self._running:
            await stack.aclose()


@asynccontextmanager
async def following(followers: list[Follower]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(one.follow()) for one in followers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            assert ended is None or isinstance(ended, asyncio.CancelledError), ended


async def test_ten_listeners_get_each_event_once_whatever_breaks(server: Server) -> None:
    draw = random.Random(20)
    url = server.new_database()
    apis = Apis(url)
    service = await apis.start()
    await apis.start()
    key = await service.key("viewer")

    def follower(path: str) -> Follower:
        return Follower(lambda: apis.any_url(draw), key, path, lambda: draw.random() < 0.01)

    followers = [follower("events/stream") for _ in range(LISTENERS)]
    async with running(url, registry()), following(followers):

        async def all_have_joined() -> bool:
            return all(one.place is not None for one in followers)

        await eventually(all_have_joined, 60)
        jobs = await submit_while_things_break(url, server, apis)
        followers_of_jobs = [follower(f"jobs/{job_id}/stream") for job_id in jobs[:OF_ONE_JOB]]
        async with following(followers_of_jobs):
            table = await events_of_ended_jobs(url, jobs)

            async def have_all() -> bool:
                return all(len(one.seen) >= len(table) for one in followers) and all(
                    one.is_over for one in followers_of_jobs
                )

            await eventually(have_all, 90)
    await apis.stop()
    for one in followers:
        assert one.seen == table
        assert one.others["reset"] == 0
    for one, job_id in zip(followers_of_jobs, jobs, strict=False):
        assert one.seen == Counter({place: 1 for place in table if place[0] == job_id})
        assert one.others["reset"] == 0
    for one in (*followers, *followers_of_jobs):
        assert all(numbers == sorted(numbers) for numbers in one.order.values())
    assert sum(one.connects for one in followers) > 2 * LISTENERS
    assert sum(one.others["restart"] for one in followers) > 0


@IN_CHAOS
async def test_a_stream_stays_open_while_postgres_restarts(server: Server) -> None:
    url = server.new_database()
    async with serving_http(url) as service, AsyncExitStack() as streams:
        client = await service.as_role("submitter")
        async with running(url, registry()) as engine:
            job_id = await engine.submit(FLOW)
            await engine.finished(job_id)
        async with client_of(url) as engine:
            waiting = await engine.submit(FLOW, key="waits")
        found = await streams.enter_async_context(stream(client, "events/stream"))
        of_job = await streams.enter_async_context(stream(client, f"jobs/{waiting}/stream"))
        await first_place(found)
        assert (await anext(of_job)).data["seq"] == 1
        await asyncio.to_thread(server.restart_at_once)
        async with running(url, registry()):
            got = [one.data["event"] async for one in of_job if not one.event]
            assert got[-1] == "job_completed"
            seen: list[str] = []
            while seen[-1:] != ["job_completed"]:
                one = await asyncio.wait_for(anext(found), 30)
                seen += [one.data["event"]] if one.data is not None else []
            assert seen == got


@IN_CHAOS
async def test_listeners_of_a_process_that_is_killed_go_on_at_another(server: Server, tmp_path: Path) -> None:
    """The process says nothing to its streams: only the id of the last event that each has got leads on."""
    url = server.new_database()
    store = PostgresStore(url, "test")
    client = Client(store, Scope("*", "test"))
    key = (await client.add_key("test", roles=["viewer"], tenant="default")).key
    async with api_process(url, tmp_path) as (killed, first), api_process(url, tmp_path) as (_, second):
        places = [first]
        followers = [Follower(lambda: places[-1], key, "events/stream") for _ in range(3)]
        async with running(url, registry()) as engine, following(followers):

            async def all_have_joined() -> bool:
                return all(one.place is not None for one in followers)

            await eventually(all_have_joined, 60)
            jobs = [await engine.submit(FLOW, key="before")]

            async def all_have_some() -> bool:
                return all(one.seen for one in followers)

            await eventually(all_have_some, 60)
            killed.kill()
            jobs.append(await engine.submit(FLOW, key="between"))
            places.append(second)
            jobs.append(await engine.submit(FLOW, key="after"))
            table = await events_of_ended_jobs(url, jobs)

            async def have_all() -> bool:
                return all(len(one.seen) >= len(table) for one in followers)

            await eventually(have_all, 60)
    await store.close()
    for one in followers:
        assert one.seen == table
        assert not one.others
        assert one.connects == 2


async def submit_while_things_break(url: str, server: Server, apis: Apis) -> list[str]:
    """Submit the jobs; meanwhile both API processes and Postgres are replaced, beside transactions that stay open."""
    store = PostgresStore(url, "test")
    client = Client(store, Scope())
    jobs: list[str] = []
    elsewhere = open_transaction(with_database(url, "postgres"))
    for number in range(JOBS):
        if number in (10, 30):
            await apis.replace_the_oldest()
        if number == 20:
            elsewhere.close()
            await asyncio.to_thread(server.restart_at_once)
            elsewhere = open_transaction(with_database(url, "postgres"))

        async def submitted(key: str = str(number)) -> str | None:
            try:
                return (await client.submit(FLOW, key=key)).job_id
            except Unreachable:
                return None

        jobs.append(await eventually(submitted, 60))
    elsewhere.close()
    await store.close()
    return jobs


def open_transaction(url: str) -> psycopg.Connection:
    """A transaction that has a number and stays open: it is older than what is committed after it."""
    connection = psycopg.connect(url)
    connection.execute("select pg_current_xact_id()")
    return connection


async def events_of_ended_jobs(url: str, jobs: list[str]) -> Counter[tuple[str, int]]:
    """What the table has when all jobs have ended."""
    store = PostgresStore(url, "test")

    async def rows_of_all() -> list[tuple[str, int]] | None:
        try:
            async with store.connections.use("test") as connection:
                open_jobs = await connection.execute("select 1 from jobs where finished_at is null limit 1")
                if await open_jobs.fetchone() is not None:
                    return None
                found = await connection.execute("select job_id::text, seq from events")
                return [(job_id, seq) for job_id, seq in await found.fetchall()]
        except Unreachable:
            return None

    rows = await eventually(rows_of_all, 90)
    await store.close()
    assert {job_id for job_id, _ in rows} == set(jobs)
    return Counter(rows)
