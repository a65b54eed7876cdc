"""Floods of a real process: three times the connections that it takes, slow clients and large bodies in hundreds.

`make chaos` runs them. The process stays alive, its memory is bounded, and afterwards it answers as before.
"""

from __future__ import annotations

import asyncio
import json
import resource
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

from holdfast.client import Client
from holdfast.operations.scope import Scope
from tests.chaos.fleet import Process
from tests.conftest import eventually
from tests.service.processes import api_process
from tests.service.raw import Answer, Wire, ask, request, wire
from tests.service.serving import API

pytestmark = pytest.mark.anyio

CONNECTIONS = 3000
CAP = 1000
SLOW = 500
LARGE = 200
MOST_MEGABYTES = 250
"""How much memory a flood may cost."""
JSON = "Content-Type: application/json"


@pytest.fixture(autouse=True)
def many_files() -> None:
    """This process opens as many connections as it floods with."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(CONNECTIONS + 2000, hard), hard))


def megabytes(process: Process) -> float:
    return float(psutil.Process(process.popen.pid).memory_info().rss) / 1e6


@asynccontextmanager
async def flooded(database_url: str, tmp_path: Path) -> AsyncIterator[tuple[str, str]]:
    """A service to flood and a header with a key; afterwards it must be as it was."""
    async with Client.connect(database_url, Scope("default", "test")) as client:
        key = f"Authorization: Bearer {(await client.add_key('test', roles=['admin'])).key}"
    async with api_process(database_url, tmp_path) as (process, url):
        for _ in range(20):
            assert (await ask(url, request("GET", f"{API}/jobs", key))).status == 200
        before = megabytes(process)
        yield url, key

        async def recovered() -> bool:
            return (await ask(url, request("GET", f"{API}/jobs", key))).status == 200

        await eventually(recovered)
        after = megabytes(process)
        print(f"memory of the process: {before:.0f} MB before, {after:.0f} MB after")
        assert process.is_alive
        assert after - before < MOST_MEGABYTES
        assert "Traceback" not in process.log.read_text()


async def open_many(stack: AsyncExitStack, url: str, number: int) -> list[Wire]:
    async def opened() -> Wire:
        return await stack.enter_async_context(wire(url))

    found: list[Wire] = []
    for _ in range(0, number, 100):
        found += await asyncio.gather(*(opened() for _ in range(100)))
    return found


async def first_answer(line: Wire, data: bytes) -> Answer:
    with suppress(ConnectionError):
        await line.send(data)
    return await line.answer()


async def test_three_thousand_connections(database_url: str, tmp_path: Path) -> None:
    async with flooded(database_url, tmp_path) as (url, _), AsyncExitStack() as stack:
        lines = await open_many(stack, url, CONNECTIONS)
        answers = await asyncio.gather(*(first_answer(line, request("GET", "/livez")) for line in lines))
        statuses = Counter(answer.status for answer in answers)
        print(f"answers to {CONNECTIONS} connections: {dict(statuses)} (0: cut)")
        assert statuses.keys() <= {200, 503, 0}
        assert 0 < statuses[200] <= CAP + 100, "connections that were cut make room for others"
        assert {answer.code for answer in answers if answer.status == 503} == {"TOO_MANY_CONNECTIONS"}


async def test_slow_clients_in_hundreds_keep_no_one_out(database_url: str, tmp_path: Path) -> None:
    async with flooded(database_url, tmp_path) as (url, key), AsyncExitStack() as stack:
        head = request("POST", f"{API}/jobs", key, JSON, "Content-Length: 5000")
        for number, line in enumerate(await open_many(stack, url, SLOW)):
            await line.send(head[:40] if number % 2 else head + b'{"a"')
        for _ in range(20):
            assert (await ask(url, request("GET", f"{API}/jobs", key))).status == 200


async def test_large_bodies_in_hundreds_are_refused(database_url: str, tmp_path: Path) -> None:
    async with flooded(database_url, tmp_path) as (url, key):
        gate = asyncio.Semaphore(50)
        large = json.dumps({"workflow": "x" * 9_000_000}).encode()
        chunk = b"%x\r\n%s\r\n" % (1_000_000, b" " * 1_000_000)

        async def attack(number: int) -> int:
            async with gate, wire(url) as line:
                if number % 2:
                    data = request("POST", f"{API}/jobs", key, JSON, body=large)
                else:
                    data = request("POST", f"{API}/jobs", key, JSON, "Transfer-Encoding: chunked") + chunk * 9
                return (await first_answer(line, data)).status

        statuses = Counter(await asyncio.gather(*map(attack, range(LARGE))))
        print(f"answers to {LARGE} bodies of 9 MB: {dict(statuses)} (0: cut)")
        assert statuses.keys() <= {413, 503, 0}
        assert statuses[413] > 0


async def test_a_flood_of_what_is_not_http(database_url: str, tmp_path: Path) -> None:
    async with flooded(database_url, tmp_path) as (url, _):
        gate = asyncio.Semaphore(50)
        junk = [b"\x16\x03\x01" * 100, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 50_000, b"x" * 500_000, b"\r\n" * 1000]

        async def attack(number: int) -> int:
            async with gate, wire(url) as line:
                return (await first_answer(line, junk[number % len(junk)] + b"\r\n\r\n")).status

        statuses = Counter(await asyncio.gather(*map(attack, range(1000))))
        print(f"answers to 1,000 floods: {dict(statuses)} (0: cut)")
        assert statuses.keys() <= {400, 431, 0}
