"""Attacks on the real server with raw sockets: each is refused with a problem or cut, and the service goes on."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.define.plain import parse_json
from holdfast.service import protocol, server
from holdfast.service.bodies import details_of
from holdfast.views.encoding import to_json
from tests.conftest import eventually
from tests.service.known_names import MISSING, address
from tests.service.raw import CUT, Answer, ask, request, serving_raw, wire
from tests.service.routes_of import all_routes
from tests.service.serving import API, Service

pytestmark = pytest.mark.anyio

JSON = "Content-Type: application/json"
LAZY = 12
"""Clients that read nothing."""


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_raw(database_url, body_limit_bytes=100_000, body_seconds=0.5) as service:
        yield service
        await is_alive(service)


async def is_alive(service: Service) -> None:
    answer = await ask(service.url, request("GET", "/livez"))
    assert answer.status == 200


async def bearer(service: Service, *roles: str) -> str:
    return f"Authorization: Bearer {await service.key(*(roles or ('admin',)))}"


# Slowness


async def drip(service: Service, before: bytes) -> Answer:
    """Send headers byte by byte, until the server has had enough."""
    async with wire(service.url) as line:
        await line.send(before)
        if before:
            assert (await line.answer()).status == 200
        answering = asyncio.create_task(line.answer())
        try:
            for byte in request("GET", "/livez", f"X-Filler: {'x' * 4000}"):
                await line.send(bytes([byte]))
                if answering.done():
                    break
                await asyncio.sleep(0.01)
        except ConnectionError:
            pass
        answer = await answering
        assert await line.is_closed()
        return answer


@pytest.mark.parametrize("before", [b"", request("GET", "/livez")], ids=["at first", "after a request"])
async def test_headers_that_arrive_slowly_are_cut(
    service: Service, monkeypatch: pytest.MonkeyPatch, before: bytes
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    answer = await drip(service, before)
    assert (answer.status, answer.code) == (408, "TOO_SLOW")


async def test_a_connection_that_says_nothing_is_closed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    async with wire(service.url) as line:
        assert await line.answer() == CUT


async def test_an_idle_connection_is_closed_after_its_time(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", 0.2)
    async with serving_raw(database_url) as service, wire(service.url) as line:
        await line.send(request("GET", "/livez"))
        assert (await line.answer()).status == 200
        assert await line.is_closed()


async def test_a_body_that_arrives_slowly_is_refused_and_its_connection_cut(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "UNREAD_SECONDS", 0.3)
    head = request("POST", f"{API}/jobs", await bearer(service), JSON, "Content-Length: 50000")
    async with wire(service.url) as line:
        await line.send(head)
        answering = asyncio.create_task(line.answer())
        try:
            for _ in range(3000):
                await line.send(b" ")
                if answering.done() and line.reader.at_eof():
                    break
                await asyncio.sleep(0.01)
        except ConnectionError:
            pass
        answer = await answering
        assert (answer.status, answer.code) == (422, "INVALID_INPUT")
        assert await line.is_closed()


async def test_a_client_that_does_not_read_its_answers_is_cut(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "STALLED_SECONDS", 0.3)
    place = urlsplit(service.url)
    with socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(lazy, (place.hostname, place.port))
        many = request("GET", "/openapi.json") * 100

        async def is_cut() -> bool:
            try:
                await asyncio.wait_for(loop.sock_sendall(lazy, many), 0.1)
            except TimeoutError:
                return False
            except ConnectionError:
                return True
            return False

        await eventually(is_cut)


async def test_of_a_large_answer_little_is_kept_for_clients_that_do_not_read(service: Service) -> None:
    place = urlsplit(service.url)
    loop = asyncio.get_running_loop()
    with ExitStack() as opened:
        for _ in range(LAZY):
            lazy = opened.enter_context(socket.socket())
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.setblocking(False)
            await loop.sock_connect(lazy, (place.hostname, place.port))
            await loop.sock_sendall(lazy, request("GET", "/openapi.json") * 40)
        kept: list[int] = []

        async def all_are_held_up() -> bool:
            kept.append(max(service.unsent_bytes))
            return len(service.unsent_bytes) == LAZY and min(service.unsent_bytes) > 0

        await eventually(all_are_held_up)
    assert max(kept) < 200_000


async def test_the_description_is_made_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no credential: a stranger who asks again and again must not keep the process busy."""
    asked = request("GET", "/openapi.json")
    first = await ask(service.url, asked)
    written: list[Any] = []

    def noted(view: Any) -> Any:
        written.append(view)
        return to_json(view)

    monkeypatch.setattr("holdfast.service.answers.to_json", noted)
    again = await ask(service.url, asked)
    assert (again.status, again.headers["content-type"]) == (200, "application/json")
    assert again.body == first.body
    assert written == []


# Size


async def test_a_body_that_is_too_large_is_refused_before_it_has_arrived(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "UNREAD_SECONDS", 0.3)
    key = await bearer(service)
    for how in ("Content-Length: 9000000000", "Transfer-Encoding: chunked"):
        async with wire(service.url) as line:
            await line.send(request("POST", f"{API}/jobs", key, JSON, how))
            chunk = b" " * 60_000
            framed = b"%x\r\n%s\r\n" % (len(chunk), chunk) if "chunked" in how else chunk
            await line.send(framed + framed)
            answer = await line.answer()
            assert (answer.status, answer.code) == (413, "PAYLOAD_REFUSED")
            assert await line.is_closed()


async def test_large_bodies_together_do_not_take_all_memory(database_url: str) -> None:
    limits = {"body_limit_bytes": 100_000, "bodies_bytes": 150_000}
    async with serving_raw(database_url, **limits) as service, wire(service.url) as first, wire(service.url) as second:
        body = json.dumps({"workflow": "x" * 89_000}).encode()
        sent = request("POST", f"{API}/jobs", await bearer(service), JSON, body=body)
        await first.send(sent[:-10])
        await second.send(sent[:-10])
        (refused,), (waiting,) = await asyncio.wait(
            [asyncio.create_task(first.answer()), asyncio.create_task(second.answer())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        answer = await refused
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "TOO_MANY_BODIES", "2")
        for line in (first, second):
            await line.send(sent[-10:])
        assert (await waiting).status == 422
        for _ in range(5):
            assert (await ask(service.url, sent)).status == 422


async def test_a_body_without_a_credential_is_not_read(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "UNREAD_SECONDS", 0.2)
    async with wire(service.url) as line:
        await line.send(request("POST", f"{API}/jobs", JSON, "Content-Length: 9000000000"))
        answer = await line.answer()
        assert (answer.status, answer.code) == (401, "UNAUTHENTICATED")
        assert await line.is_closed()


async def test_a_compressed_body_is_refused_before_it_is_opened(service: Service) -> None:
    bomb, key = gzip.compress(b" " * 50_000_000), await bearer(service)
    for encoding in ("gzip", "deflate", "br", "GZIP", "identity, gzip"):
        sent = request("POST", f"{API}/jobs", key, JSON, f"Content-Encoding: {encoding}", body=bomb)
        answer = await ask(service.url, sent)
        assert (encoding, answer.status, answer.code) == (encoding, 422, "INVALID_INPUT")


UNSTORABLE = [
    b'{"workflow": "a", "inputs": ' + b'{"a":' * 3000 + b"1" + b"}" * 3000 + b"}",
    b"[" * 40_000,
    b'{"workflow": "\\ud800"}',
    b'{"workflow": "a", "labels": {"\\udfff": "b"}}',
    b'{"workflow": "a", "key": "a\\u0000b"}',
    b'{"workflow": "a", "priority": 1' + b"0" * 4000 + b"}",
    b'{"workflow": "a", "priority": 1e400}',
    b'{"workflow": "a", "inputs": {"x": -Infinity}}',
    b'{"workflow": "a", "inputs": {"x": 1' + b"0" * 5000 + b"}}",
    b'{"workflow": "\xed\xa0\x80"}',
    b'\xef\xbb\xbf{"workflow": 7}',
]


async def test_json_that_cannot_be_stored_is_refused(service: Service) -> None:
    key = await bearer(service)
    for body in UNSTORABLE:
        answer = await ask(service.url, request("POST", f"{API}/jobs", key, JSON, body=body))
        assert (body[:60], answer.status, answer.code) == (body[:60], 422, "INVALID_INPUT")


async def test_a_body_with_very_many_mistakes_has_a_short_answer(service: Service) -> None:
    key = await bearer(service)
    many = ",".join(f'"a{number}":1' for number in range(8_000)).encode()
    labels = ",".join(f'"a{number}":1' for number in range(20)).encode()
    jobs = b",".join([b'{"labels": {%b}}' % labels] * 300)
    for path, body in (
        ("jobs", b"{%b}" % many),
        ("jobs", b'{"workflow": "a", "labels": {%b}}' % many),
        ("jobs/batch", b'{"jobs": [{"workflow": "a", "labels": {%b}}]}' % many),
    ):
        answer = await ask(service.url, request("POST", f"{API}/{path}", key, JSON, body=body))
        assert len(answer.body) < 10_000, answer.body[:300]
        found = json.loads(answer.body)
        problem = found if "errors" in found else found["items"][0]["problem"]
        assert len(problem["errors"]) == 21
        assert problem["errors"][-1]["message"].endswith("more.")
    answer = await ask(service.url, request("POST", f"{API}/jobs/batch", key, JSON, body=b'{"jobs": [%b]}' % jobs))
    assert (answer.status, len(json.loads(answer.body)["items"])) == (200, 300)


async def test_the_process_goes_on_while_it_parses_a_large_body(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def parse(text: str) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return parse_json(text)

    monkeypatch.setattr("holdfast.service.routing.parse_json", parse)
    key = await bearer(service)
    for size in (10, 90_000):
        body = b'{"workflow": "nowhere", "inputs": {"x": "%b"}}' % (b"x" * size)
        assert (await ask(service.url, request("POST", f"{API}/jobs", key, JSON, body=body))).status == 404
    assert threads == [True, False]


async def test_not_every_one_of_hundreds_of_thousands_of_mistakes_is_looked_at(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []

    def counted(errors: Any, *place: str) -> Any:
        looked_at.append(len(errors))
        return details_of(errors, *place)

    for module in ("app", "routes.submissions", "routes.verbs"):
        monkeypatch.setattr(f"holdfast.service.{module}.details_of", counted)
    many = {f"a{number}": 1 for number in range(200_000)}
    job = f"{API}/jobs/{MISSING.path['job_id']}"
    async with serving_raw(database_url) as service:
        key = await bearer(service)
        for path, body in (
            (f"{API}/jobs", many),
            (f"{API}/jobs", {"workflow": "a", "labels": many}),
            (f"{API}/jobs", {"workflow": "a", "external_ids": many}),
            (f"{job}/plan", {"verb": "resume", **many}),
            (f"{job}/cancel", many),
            ("/api/jobs/submit/a", many),
            (f"{API}/commands/workflow.register", many),
        ):
            answer = await ask(service.url, request("POST", path, key, JSON, body=json.dumps(body).encode()))
            assert (path, answer.status, answer.code) == (path, 422, "INVALID_INPUT")
            assert b"0,000" in answer.body, answer.body
    assert max(looked_at) < 30, "to make the words of each mistake would keep the process busy for seconds"


FLOODS = [
    request("GET", "/livez", *(f"X-{number}: {'x' * 20}" for number in range(20_000))),
    request("GET", "/livez", f"X-Long: {'x' * 400_000}"),
    request("GET", "/livez?" + "x" * 400_000),
    request("G" * 400_000, "/livez"),
]


async def test_a_flood_of_headers_is_refused(service: Service) -> None:
    for data in FLOODS:
        answer = await ask(service.url, data)
        assert answer == CUT or answer.status in (400, 431), answer
        assert answer == CUT or answer.code in ("HEADERS_TOO_LARGE", "MALFORMED_REQUEST")


# Paths

TRICKS = [
    "{encoded}",
    "{path}/",
    "{path}//",
    "/{path}",
    "{path}.",
    "{path}..",
    "{path}/.",
    "{path}/..",
    "{path};x",
    "{path};jsessionid=1/../x",
    "{path}%00",
    "{path}%0a",
    "{path}%2f",
    "{path}%5c",
    "{path}%20",
    "{path}%ff",
    "{path}%c0%af",
    "{path}%ed%a0%80",
    "{path}.json",
    "{path}%3f",
    "{path}%23",
    "/./{bare}",
    "/../{bare}",
    "/livez/../{bare}",
    "/livez/..%2f{bare}",
    "/livez/%2e%2e/{bare}",
    "/livez;/../{bare}",
    "/x/%2e%2e%2f{bare}",
    "\\{bare}",
    "http://other.example{path}",
]


def tricked(trick: str, path: str) -> str:
    bare = path.lstrip("/")
    return trick.format(path=path, bare=bare, encoded=f"/{bare.replace('/', '%2f', 1)}" if "/" in bare else "//")


async def test_no_trick_with_a_path_reaches_a_route(
    service: Service, record_property: Callable[[str, object], None]
) -> None:
    """Neither that whose path is meant, nor another one."""
    key = await bearer(service)
    paths = {address(route, MISSING) for route in all_routes() if "{" not in route.path and route.method == "GET"}
    paths |= {f"{API}/jobs/{MISSING.path['job_id']}/why"}
    targets = [tricked(trick, path) for path in sorted(paths) for trick in TRICKS]
    record_property("generated", len(targets))
    wrong = []
    gate = asyncio.Semaphore(8)

    async def attack(target: str) -> None:
        async with gate:
            answer = await ask(service.url, request("GET", target, key))
        if answer.status not in (400, 404) or not answer.code:
            wrong.append(f"{target}: {answer.status}")

    await asyncio.gather(*map(attack, targets))
    assert wrong == []


async def test_an_odd_address_is_refused(service: Service) -> None:
    for target in ("*", "", "//", "/%", "/%zz", "/%2e", "/..", "livez", "?", "/é"):
        answer = await ask(service.url, request("GET", target))
        assert answer.status in (400, 404), answer
        assert answer.code


# What is read in two ways


AMBIGUOUS = [
    ("Content-Length: 5", "Content-Length: 6"),
    ("Content-Length: 5, 6",),
    ("Content-Length: 5", "Transfer-Encoding: chunked"),
    ("Transfer-Encoding: chunked", "Content-Length: 5"),
    ("Transfer-Encoding: chunked, identity",),
    ("Transfer-Encoding: xchunked",),
    ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
    ("Transfer-Encoding : chunked",),
    ("Content-Length: -1",),
    ("Content-Length: +5",),
    ("Content-Length: 0x5",),
    ("Content-Length: 5\x0b",),
    ("Content-Length: 99999999999999999999999999",),
    ("Host: other",),
    ("X-A: b\x00c",),
    ("Authorization: Bearer hf_other",),
    ("Content-Type: text/plain",),
    ("Content-Encoding: identity", "Content-Encoding: gzip"),
    ("Idempotency-Key: a", "Idempotency-Key: b"),
    ("Origin: http://a.example", "Origin: http://b.example"),
    ("X A: b",),
    (": b",),
]


async def test_a_request_that_can_be_read_in_two_ways_is_refused_and_ends_its_connection(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "UNREAD_SECONDS", 0.1)
    key = await bearer(service)
    for headers in AMBIGUOUS:
        data = request("POST", f"{API}/jobs", key, JSON, *headers, body=b"0\r\n\r\n")
        async with wire(service.url) as line:
            await line.send(data + request("GET", "/livez"))
            answer = await line.answer()
            assert answer.status in (400, 413, 431, 501), (headers, answer)
            assert answer.code
            assert await line.answer() == CUT, "the hidden request was answered"


NOT_HTTP = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /livez HTTP/9.9\r\nHost: a\r\n\r\n",
    b"GET /livez\r\n\r\n",
    b"GET /livez HTTP/1.1\r\n\r\n",
    b"\x00" * 100 + b"\r\n\r\n",
    b"GET /li\x00vez HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET  /livez  HTTP/1.1\r\nHost: a\r\n\r\n",
]


async def test_what_is_not_http_is_refused_with_a_problem(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    for data in NOT_HTTP:
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "holdfast.service"):
            answer = await ask(service.url, data)
        assert (data[:30], answer.status, answer.code) == (data[:30], 400, "MALFORMED_REQUEST")
        request_id = answer.headers["x-request-id"]
        assert json.loads(answer.body)["request_id"] == request_id
        assert request_id in caplog.text, "the log names it, too"


async def test_a_chunk_that_is_none_ends_the_connection(service: Service) -> None:
    head = request("POST", f"{API}/jobs", await bearer(service), JSON, "Transfer-Encoding: chunked")
    async with wire(service.url) as line:
        await line.send(head + b"zz\r\nabc")
        answer = await line.answer()
        assert (answer.status, answer.code) == (400, "MALFORMED_REQUEST")
        assert await line.is_closed()


async def test_a_client_that_leaves_in_its_body_is_no_mistake_of_ours(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    key = await bearer(service)
    for _ in range(3):
        async with wire(service.url) as line:
            await line.send(request("POST", f"{API}/jobs", key, JSON, "Content-Length: 5000") + b'{"a"')
    assert (await ask(service.url, request("GET", f"{API}/session", key))).status == 200
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


# Methods and headers


async def test_a_method_that_a_route_lacks_is_refused(service: Service) -> None:
    key = await bearer(service)
    for method in ("TRACE", "CONNECT", "OPTIONS", "PROPFIND", "PATCH", "get", "GE T", "DELETE"):
        answer = await ask(service.url, request(method, f"{API}/jobs", key))
        assert answer.status in (400, 405), (method, answer)
        assert answer.code in ("METHOD_NOT_ALLOWED", "MALFORMED_REQUEST")


async def test_no_header_and_no_query_changes_the_method(service: Service) -> None:
    key = await bearer(service)
    made = await service.admin.for_tenant("default").add_key("target", roles=["viewer"])
    path = f"{API}/keys/{made.details.prefix}"
    overrides = ("X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X-Method-Override: DELETE")
    answer = await ask(service.url, request("POST", path, key, *overrides))
    assert (answer.status, answer.code) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "DELETE"
    for query in ("_method=DELETE", "method=DELETE"):
        assert (await ask(service.url, request("GET", f"{API}/keys?{query}", key))).status == 422
    for headers in (("X-Original-URL: /livez",), ("X-Rewrite-URL: /livez",), ("X-Forwarded-Prefix: /x",)):
        assert (await ask(service.url, request("GET", f"{API}/keys", *headers))).status == 401
    assert await service.admin.knows_key(made.key)


async def test_head_answers_like_get_without_the_body(service: Service) -> None:
    key = await bearer(service)
    for path in ("/livez", f"{API}/jobs", f"{API}/jobs/{MISSING.path['job_id']}", "/nowhere"):
        got = await ask(service.url, request("GET", path, key))
        async with wire(service.url) as line:
            await line.send(request("HEAD", path, key) + request("GET", "/livez"))
            head = await line.answer(has_body=False)
            assert (head.status, head.headers["content-length"]) == (got.status, got.headers["content-length"])
            assert json.loads((await line.answer()).body)["status"] == "alive"


async def test_a_request_id_that_is_no_name_is_replaced(service: Service) -> None:
    for given in ("a b", "é", "x" * 65, "<script>", "a\tb", '"', ""):
        answer = await ask(service.url, request("GET", "/nowhere", f"X-Request-Id: {given}"))
        own = answer.headers["x-request-id"]
        assert re.fullmatch(r"[0-9a-f]{16}", own)
        assert json.loads(answer.body)["request_id"] == own


async def test_every_answer_has_the_same_headers_mistakes_too(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await bearer(service)

    def fail(*arguments: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("holdfast.client.Client.workflows", fail)
    for path, status in ((f"{API}/workflows", 500), ("/nowhere", 404), (f"{API}/jobs", 200), (f"{API}/jobs?a=1", 422)):
        answer = await ask(service.url, request("GET", path, key, "X-Request-Id: mine-1"))
        assert (answer.status, answer.headers["x-request-id"]) == (status, "mine-1")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert b"secret" not in answer.body


async def test_no_text_of_a_person_becomes_a_header(service: Service) -> None:
    evil = "x\r\nSet-Cookie: a=b\r\n\r\n<script>"
    key = await bearer(service)
    definition = {"workflow_id": "echo", "nodes": {"a": {"handler": "echo"}}}
    body = {"definition": definition, "key": evil, "labels": {"a": evil}, "correlation_id": evil}
    sent = request("POST", f"{API}/jobs", key, JSON, body=json.dumps(body).encode())
    answers = [await ask(service.url, sent)]
    quoted = "x%0d%0aSet-Cookie:%20a=b"
    for path in (f"{API}/jobs/{quoted}", f"{API}/workflows/{quoted}/graph?format=svg", f"{API}/jobs?text={quoted}"):
        answers.append(await ask(service.url, request("GET", path, key)))
    answers.append(await ask(service.url, request("DELETE", f"{API}/keys/{quoted}", key)))
    for answer in answers:
        assert answer.status != 0
        assert "set-cookie" not in answer.headers
        assert answer.headers["content-type"] in ("application/json", "application/problem+json")


async def test_ranges_of_what_is_no_file_are_ignored(service: Service) -> None:
    for ranges in (",".join(f"{n}-{n}" for n in range(1500)), "9-0", "-", "0-" * 5000):
        answer = await ask(service.url, request("GET", "/openapi.json", f"Range: bytes={ranges}", "If-Range: x"))
        assert (answer.status, json.loads(answer.body)["openapi"][:2]) == (200, "3.")


async def test_an_upgrade_is_not_offered(service: Service) -> None:
    for protocol_name in ("websocket", "h2c"):
        upgrade = ("Connection: Upgrade", f"Upgrade: {protocol_name}", "Sec-WebSocket-Version: 13")
        answer = await ask(
            service.url, request("GET", "/livez", *upgrade, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
        )
        assert answer.status == 200


async def test_numbers_out_of_range_are_refused_with_a_problem(service: Service) -> None:
    key = await bearer(service)
    job = f"{API}/jobs/{MISSING.path['job_id']}"
    for path in (
        f"{API}/jobs?limit=1000000000",
        f"{API}/jobs?limit=-1",
        f"{API}/jobs?limit=1e3",
        f"{API}/jobs?limit={'9' * 5000}",
        f"{API}/jobs?since=9999999999999999999999",
        f"{API}/jobs?cursor=%00",
        f"{API}/jobs?text=a%00",
        f"{job}/events?cursor=99999999999999",
        f"{job}/definition?generation=0",
    ):
        answer = await ask(service.url, request("GET", path, key))
        assert (path, answer.status, answer.code) == (path, 422, "INVALID_INPUT")
    for path in (f"{API}/jobs?text=%ed%a0%80", f"{API}/jobs?text=%ff%fe"):
        assert (await ask(service.url, request("GET", path, key))).status == 200


# Many


async def test_more_connections_than_the_service_takes_are_refused_and_it_recovers(database_url: str) -> None:
    async with serving_raw(database_url, connections=10) as service:
        lines = [wire(service.url) for _ in range(40)]
        held = [await line.__aenter__() for line in lines]
        try:
            answers = await asyncio.gather(*(one.answer() for one in held[10:]))
            assert {(one.status, one.code, one.headers["retry-after"]) for one in answers} == {
                (503, "TOO_MANY_CONNECTIONS", "2")
            }
            await held[0].send(request("GET", "/livez"))
            assert (await held[0].answer()).status == 200
        finally:
            for line in lines:
                await line.__aexit__(None, None, None)

        async def recovered() -> bool:
            return (await ask(service.url, request("GET", "/livez"))).status == 200

        await eventually(recovered)


async def test_requests_that_are_sent_together_are_answered_in_order(service: Service) -> None:
    async with wire(service.url) as line:
        await line.send(b"".join(request("GET", "/livez", f"X-Request-Id: {number}") for number in range(200)))
        assert [(await line.answer()).headers["x-request-id"] for _ in range(200)] == [str(n) for n in range(200)]
