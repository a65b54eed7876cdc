"""Requests of the client over a URL: what is sent again, what is not, and what an answer that is none becomes.

The services of these tests are scripts that answer on a real socket, so that each can fail in its own way.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import orjson
import pytest

from holdfast import Client, SyncClient, Verb, VerbRequest, load_text
from holdfast.errors import (
    ExitCode,
    Forbidden,
    HoldfastError,
    InvalidInput,
    NotFound,
    Refused,
    TooManyRequests,
    Unauthenticated,
    Unreachable,
)
from holdfast.operations.verbs import VerbResult
from holdfast.remote import following
from holdfast.remote.connection import MOST_TRIES, Connection
from holdfast.remote.task_source import RemoteTaskSource
from holdfast.service_address import checked_key, checked_url
from holdfast.views.identities import Session
from holdfast.views.problems import ServiceMistake
from holdfast.views.transfer import to_transfer
from holdfast.views.verbs import PENDING
from tests.conftest import eventually
from tests.running import registry, running
from tests.service.serving import serving_http

pytestmark = pytest.mark.anyio

CUT = b""
"""The connection is closed before an answer."""
KEY = "hf_" + "k" * 51
ECHO = load_text("workflow_id: echo\nnodes: {a: {handler: echo}}")


def answer(status: int, body: Any, kind: str = "application/json", **headers: str) -> bytes:
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}", f"Content-Type: {kind}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


def problem(error: HoldfastError, **headers: str) -> bytes:
    return answer(error.http_status, error.to_problem(), "application/problem+json", **headers)


BUSY = problem(Unreachable("The database restarts."), Retry_After="0")
DONE = answer(200, {"ok": True})


class Script:
    """A service that gives these answers one after the other, and remembers the requests."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                await reader.readexactly(int(headers.get("content-length", 0)))
                self.requests.append((first, headers))
                content = self.answers.pop(0)
                if content == CUT:
                    return
                writer.write(content)
                await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def scripted(*answers: bytes) -> AsyncIterator[tuple[Script, Connection]]:
    script = Script(answers)
    server = await asyncio.start_server(script.serve, "127.0.0.1")
    script.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    connection = Connection(script.url, KEY)
    try:
        yield script, connection
    finally:
        await connection.close()
        server.close()


@pytest.mark.parametrize("first", [BUSY, CUT, answer(502, b"<html>", "text/html")])
async def test_what_may_be_sent_again_is_sent_again(first: bytes) -> None:
    async with scripted(first, first, DONE) as (script, connection):
        assert await connection.send("GET", "/x", is_repeatable=True) == {"ok": True}
        assert len(script.requests) == 3


@pytest.mark.parametrize("first", [BUSY, CUT])
async def test_what_may_not_be_sent_again_is_sent_once(first: bytes) -> None:
    async with scripted(first, DONE) as (script, connection):
        with pytest.raises(Unreachable):
            await connection.send("POST", "/x", body={})
        assert len(script.requests) == 1


async def test_a_service_that_stays_busy_is_given_up_with_its_own_words() -> None:
    async with scripted(*[BUSY] * 2 * MOST_TRIES) as (script, connection):
        with pytest.raises(Unreachable, match="The database restarts"):
            await connection.send("GET", "/x", is_repeatable=True)
        assert len(script.requests) == MOST_TRIES


READS: list[Callable[[RemoteTaskSource], Awaitable[object]]] = [
    lambda source: source.results_page("job", "each", -2, 100, 100),
    lambda source: source.breaker("default", "maps"),
]


@pytest.mark.parametrize("read", READS)
async def test_what_a_running_attempt_reads_is_asked_for_until_the_service_is_back(
    read: Callable[[RemoteTaskSource], Awaitable[object]],
) -> None:
    async with scripted(*[BUSY] * MOST_TRIES, problem(NotFound("gone"))) as (script, _):
        source = RemoteTaskSource(script.url, KEY, patience_seconds=60.0)
        try:
            assert await read(source) is None, "that is the answer"
        finally:
            await source.close()
        assert len(script.requests) == MOST_TRIES + 1


@pytest.mark.parametrize("read", READS)
async def test_what_a_running_attempt_reads_is_given_up_when_its_lease_would_be_over(
    read: Callable[[RemoteTaskSource], Awaitable[object]],
) -> None:
    async with scripted(*[BUSY] * 9) as (script, _):
        source = RemoteTaskSource(script.url, KEY, patience_seconds=0.05)
        try:
            with pytest.raises(Unreachable, match="The database restarts"):
                await read(source)
        finally:
            await source.close()
        assert len(script.requests) == 1


async def test_a_connection_is_kept_for_the_next_request() -> None:
    async with scripted(DONE, DONE, DONE) as (script, connection):
        for _ in range(3):
            await connection.send("GET", "/x")
        assert (script.connections, len(script.requests)) == (1, 3)


async def test_a_verb_has_one_key_however_often_it_is_sent() -> None:
    session = answer(200, to_transfer(Session("ann", "default", ("operator",), ("read", "operate"), "key")))
    sent = answer(202, to_transfer(VerbResult("j", Verb.PAUSE, 7, PENDING)))
    async with scripted(session, CUT, BUSY, sent, sent) as (script, _):
        async with Client.connect(script.url, api_key=KEY) as client:
            assert await client.send("j", VerbRequest(Verb.PAUSE)) == 7
            assert await client.pause("j") == 7
        first, second, third, other = [headers["idempotency-key"] for _, headers in script.requests[1:]]
        assert first == second == third != other


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        (answer(401, Unauthenticated("No.").to_problem()), Unauthenticated, "No."),
        (answer(401, b"who?", "text/plain"), Unauthenticated, "answered 401"),
        (answer(403, b"no", "text/plain"), Forbidden, "answered 403"),
        (answer(404, NotFound("No job.").to_problem()), NotFound, "No job"),
        (answer(404, b"<html>", "text/html"), Unreachable, "is not the HTTP service of Holdfast"),
        (answer(200, b"{", "application/json"), Unreachable, "is not the HTTP service of Holdfast"),
        (answer(301, b"", Location="https://elsewhere/"), Unreachable, "sends requests to another address"),
        (answer(500, {"code": "BUG", "detail": "Ours.", "status": 500}), ServiceMistake, "Ours"),
        (answer(409, {"code": "LATER_CODE", "detail": "New.", "status": 409}), Refused, "New"),
    ],
)
async def test_an_answer_that_is_no_success_is_an_error_that_says_what_it_is(
    content: bytes, kind: type[HoldfastError], text: str
) -> None:
    async with scripted(content) as (_, connection):
        with pytest.raises(HoldfastError, match=text) as raised:
            await connection.send("GET", "/x")
    assert type(raised.value) is kind
    assert KEY not in json.dumps(raised.value.to_problem())


async def test_a_problem_arrives_with_all_its_parts() -> None:
    sent = TooManyRequests("Slower.", seconds=7)
    async with scripted(problem(sent, Retry_After="7")) as (_, connection):
        with pytest.raises(TooManyRequests) as raised:
            await connection.send("GET", "/x")
    assert (raised.value.seconds, raised.value.to_problem()) == (7, sent.to_problem())
    assert ServiceMistake("x").exit_code == ExitCode.BUG


async def test_an_answer_of_another_version_that_cannot_be_read_says_so() -> None:
    session = answer(200, to_transfer(Session("ann", "default", (), (), "key")))
    async with (
        scripted(session, answer(200, {"job_id": "j"})) as (script, _),
        Client.connect(script.url, api_key=KEY) as client,
    ):
        with pytest.raises(Unreachable, match="cannot read"):
            await client.job("j")


def test_a_service_out_of_reach_is_the_callers_error() -> None:
    with pytest.raises(Unreachable, match="does not answer") as raised, SyncClient.connect("http://127.0.0.1:1"):
        pass
    assert raised.value.remedy is not None and "holdfast up" in raised.value.remedy


@pytest.mark.parametrize(
    "url", ["http://", "http://a b", "http://h:99999", "http://h?x=1", "http://ann:pw@h", "ftp://h"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        checked_url(url)
    assert "pw" not in str(raised.value)


@pytest.mark.parametrize("key", ["", "hf_a b", "hf_é", "hf_a\n"])
def test_what_is_no_key_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        checked_key(key)
    assert not key or key not in json.dumps(raised.value.to_problem())


async def test_a_watch_outlives_a_restart_of_the_service(database_url: str) -> None:
    async with AsyncExitStack() as first:
        service = await first.enter_async_context(serving_http(database_url))
        port, key = int(service.url.rpartition(":")[2]), await service.key("submitter")
        async with Client.connect(service.url, api_key=key) as client:
            job_id = (await client.submit(ECHO)).job_id
            looks: list[str] = []
            outages: list[Unreachable] = []

            async def watch() -> None:
                async for job in client.watch(job_id, on_outage=outages.append):
                    looks.append(job.status)

            watching = asyncio.create_task(watch())

            async def has_begun() -> bool:
                return bool(looks)

            await eventually(has_begun)
            await first.aclose()

            async def is_lost() -> bool:
                return bool(outages)

            await eventually(is_lost)
            async with serving_http(database_url, port=port), running(database_url, registry()):
                await watching
    assert looks[0] == "pending" and looks[-1] == "completed"


async def test_a_watch_looks_again_when_an_event_says_so(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the stream it would not look again within the time of this test."""
    monkeypatch.setattr(following, "LOOK_SECONDS", 600.0)
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(serving_http(database_url))
        key = await service.key("submitter")
        client = await stack.enter_async_context(Client.connect(service.url, api_key=key))
        job_id = (await client.submit(ECHO)).job_id
        looks: list[str] = []

        async def watch() -> None:
            async for job in client.watch(job_id):
                looks.append(job.status)

        watching = asyncio.create_task(watch())

        async def has_begun() -> bool:
            return bool(looks) and service.live.position is not None

        await eventually(has_begun)
        async with running(database_url, registry()):
            await asyncio.wait_for(watching, 30)
    assert looks[-1] == "completed"


def test_an_installation_without_the_library_says_which_extra_is_missing() -> None:
    """In a process of its own, in which the library cannot be found."""
    program = """
import importlib.abc, sys
class Nothing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("httpx2", "fastapi", "uvicorn"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Nothing())
import holdfast, holdfast.cli.app, holdfast.remote.client
from holdfast.errors import Unusable
try:
    with holdfast.SyncClient.connect("http://127.0.0.1:1"):
        pass
except Unusable as error:
    print(error.remedy)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "Install it with: pip install 'holdfast[service]'\n"
