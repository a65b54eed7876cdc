"""Reads that take long, and clients that read slowly: jobs, and the requests of others, go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import psycopg
import pytest

from tests.conftest import eventually
from tests.running import Engine, registry, running
from tests.service.raw import request, wire
from tests.service.serving import API, serving_http
from tests.service.streaming import first_place, stream
from tests.service.test_jobs import ECHO, ended
from tests.service.test_streams import submitted
from tests.store.plans import own_database

pytestmark = pytest.mark.anyio

READERS = 2
BESIDE_READERS = 6
"""What else a process of the service is connected for: streams, credentials, submissions, audit and signals."""
SLOW_CLIENTS = 40


@pytest.fixture
async def engine(server_url: str, template_database: str) -> AsyncIterator[Engine]:
    """On a database that no other test gets afterwards: its schema may be changed."""
    with own_database(server_url, template_database) as url:
        async with running(url, registry()) as engine:
            yield engine


@asynccontextmanager
async def endless_audit(url: str) -> AsyncIterator[None]:
    """A read of the audit takes as long as Postgres lets it."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("set search_path = holdfast")
        await connection.execute("alter table audit rename to audit_rows")
        await connection.execute("create view audit as select * from audit_rows where pg_sleep(600) is not null")
        yield


async def connections(url: str, state: str = "true") -> int:
    """How many connections of the service Postgres sees."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        found = await connection.execute(
            "select count(*) from pg_stat_activity where datname = current_database()"
            f" and application_name like 'holdfast api%' and {state}".encode()
        )
        (number,) = await found.fetchone() or (0,)
        return int(number)


async def test_a_read_that_takes_too_long_is_ended_and_says_so(engine: Engine) -> None:
    async with serving_http(engine.url, api_readers=READERS, api_read_seconds=0.5) as service:
        client = await service.as_role("admin")
        await ended(client, await submitted(client))
        assert (await client.get(f"{API}/audit")).json()["items"], "there is something to read"
        async with endless_audit(engine.url):
            for _ in range(READERS + 1):
                answer = await client.get(f"{API}/audit")
                assert (answer.status_code, answer.json()["code"]) == (503, "READ_TOO_SLOW")
                assert "within 0.5 s" in answer.json()["detail"]
            assert (await client.get(f"{API}/jobs")).status_code == 200, "its connection serves the next one"


async def test_reads_that_hold_every_reader_stop_no_job(engine: Engine) -> None:
    """The readers are all taken. Submissions go in, and orchestrator and worker run them to their end."""
    async with serving_http(engine.url, api_readers=READERS, api_read_seconds=30.0) as service:
        client = await service.as_role("admin")
        await ended(client, await submitted(client))
        async with endless_audit(engine.url), AsyncExitStack() as stack:
            for _ in range(SLOW_CLIENTS):
                line = await stack.enter_async_context(wire(service.url))
                await line.send(request("GET", f"{API}/audit", f"Authorization: {client.headers['authorization']}"))

            async def all_taken() -> bool:
                return await connections(engine.url, "state = 'active' and wait_event = 'PgSleep'") == READERS

            await eventually(all_taken)
            job_id = await submitted(client, key="beside")
            assert (await engine.finished(job_id))["status"] == "completed"
            assert await connections(engine.url) <= READERS + BESIDE_READERS


async def test_clients_that_do_not_read_their_streams_hold_no_connection_to_the_database(engine: Engine) -> None:
    async with serving_http(engine.url, api_readers=READERS) as service, AsyncExitStack() as stack:
        client = await service.as_role("submitter")
        head = f"Authorization: {client.headers['authorization']}"
        first = await submitted(client)
        await ended(client, first)
        for number in range(SLOW_CLIENTS):
            line = await stack.enter_async_context(wire(service.url))
            path = "events/stream" if number % 2 else f"jobs/{first}/events?limit=500"
            await line.send(request("GET", f"{API}/{path}", head))
        async with stream(client, "events/stream") as found:
            await first_place(found)
            job_id = await submitted(client, ECHO, key="beside")
            assert (await engine.finished(job_id))["status"] == "completed"
            async with asyncio.timeout(30):
                while (await anext(found)).data is None:
                    pass
        assert await connections(engine.url) <= READERS + BESIDE_READERS
