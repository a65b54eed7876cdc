"""A second tenant sees nothing of the first: by no route, no count, no error text and no statement.

Requests are made of all routes. What exists is compared with what does not: the same status, the same words, and the
same statements at Postgres.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx2
import psycopg
import pytest
from psycopg import sql

from holdfast.service.identity import door
from holdfast.store.connection import PipelinedConnection, Statement
from tests.conftest import eventually
from tests.running import registry, running
from tests.service.known_names import CANARY, MISSING, Things, address, missing_like, path_names, questions
from tests.service.routes_of import Route, all_routes
from tests.service.serving import API, serving_http
from tests.service.two_tenants import FIRST, SECOND, Tenants, make_first, make_own, two_tenants, work

pytestmark = pytest.mark.anyio

QUERIES = {f"{API}/stats": {"step": "86400"}}
"""A step of a minute would end between two looks."""
CHANGING = re.compile(
    r'"(seconds|lease_seconds|age_seconds|checked_at|last_used_at|janitor_passed_at|at|since|request_id)":'
    r'("[^"]*"|[\d.]+)|^holdfast_janitor_pass_seconds .*$',
    re.MULTILINE,
)
"""What differs between two answers at different times."""
STREAM_SECONDS = 0.5
MAKES = ("PUT",)
"""Methods that may make what does not exist: they need not answer 404."""
ANSWERS_PENDING = ("GET /api/v1/signals/{signal_id}",)
"""What it does not know it has not answered yet."""
MAKES_ITS_OWN = ("PUT /api/v1/webhooks/{name}",)
"""What a tenant makes by a name that another tenant may have, too: it sees nothing of that one."""
VOLATILE = frozenset({"last_used_at"})


@pytest.fixture
async def tenants(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tenants]:
    # An identity is read once, so that no reading of it is among the statements that are compared.
    monkeypatch.setattr(door, "REMEMBERED_SECONDS", 3600.0)
    async with two_tenants(database_url) as tenants:
        yield tenants


class Recorder:
    """The statements that went to Postgres, with the values that tell tenants apart left out."""

    def __init__(self) -> None:
        self.statements: list[bytes] = []


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record every statement of every connection of this process."""
    recorder = Recorder()
    patch = pytest.MonkeyPatch()
    send = PipelinedConnection._send
    execute = psycopg.AsyncCursor.execute

    def recorded_send(self: PipelinedConnection, statement: Statement | None) -> Any:
        recorder.statements.append(b"sync" if statement is None else statement[0])
        return send(self, statement)

    async def recorded_execute(self: Any, query: Any, *arguments: Any, **more: Any) -> Any:
        recorder.statements.append(query if isinstance(query, bytes) else str(query).encode())
        return await execute(self, query, *arguments, **more)

    patch.setattr(PipelinedConnection, "_send", recorded_send)
    patch.setattr(psycopg.AsyncCursor, "execute", recorded_execute)
    try:
        yield recorder
    finally:
        patch.undo()


Answered = tuple[int, str, list[bytes]]


async def ask(client: httpx2.AsyncClient, route: Route, things: Things, params: dict[str, str]) -> Answered:
    """The status, the words without the names of the things, and the statements of a request about these things."""
    with recording() as recorder:
        answer, text = await sent(client, route, address(route, things), params)
    words = CHANGING.sub("", text)
    for name in (*(things.path[one] for one in things.path), *params.values()):
        words = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "THING", words)
    if route.is_stream:
        # It looks again and again, and asks whether its credential still holds.
        looks = dict.fromkeys(one for one in recorder.statements if b"api_keys" not in one)
        return answer.status_code, words, list(looks)
    return answer.status_code, words, recorder.statements


async def sent(
    client: httpx2.AsyncClient, route: Route, path: str, params: dict[str, str]
) -> tuple[httpx2.Response, str]:
    """The answer, and its text; of a stream what has come after a while."""
    body = {"json": route.json_body} if route.json_body is not None else {}
    text = ""
    async with client.stream(route.method, path, params=params, **body) as answer:
        is_endless = route.is_stream and answer.is_success
        with suppress(TimeoutError):
            async with asyncio.timeout(STREAM_SECONDS if is_endless else None):
                async for part in answer.aiter_text():
                    text += part
    return answer, text


def cases() -> Iterator[tuple[Route, str | None]]:
    """Each route that names something, and each name in the query of a route."""
    for route in all_routes():
        if route.is_public or route.title in MAKES_ITS_OWN:
            continue
        if path_names(route):
            yield route, None
        for params in questions(route, MISSING):
            (name,) = params
            yield route, name


async def test_what_another_tenant_has_is_answered_like_what_does_not_exist(
    tenants: Tenants, database_url: str, record_property: Callable[[str, object], None]
) -> None:
    client = await tenants.service.as_role("admin", tenant=SECOND)
    before = rows(database_url)
    wrong, number = [], 0
    for route, name in cases():
        for things, there in existing(route, name, tenants):
            here = {one: missing_like(one, value) for one, value in there.items()}
            # The first request of a kind may read what is then remembered, such as defaults.
            await ask(client, route, MISSING, here)
            expected = await ask(client, route, MISSING, here)
            found = await ask(client, route, things, there)
            number += 1
            about = f"{route.title} {there}"
            if expected != found:
                wrong.append(f"{about}: {different(expected, found)}")
            is_hidden = found[0] in (404, 403, 409) or route.method in MAKES or route.title in ANSWERS_PENDING
            if name is None and not is_hidden:
                wrong.append(f"{about}: {found[0]} {found[1][:200]}")
    record_property("generated", number)
    assert not wrong, "\n".join(wrong)
    assert number >= 100
    assert changed(before, rows(database_url)) == [], "the second tenant has changed what the first has"


def existing(route: Route, name: str | None, tenants: Tenants) -> Iterator[tuple[Things, dict[str, str]]]:
    """What to ask a route for: each value of a name in its query, or each job, in all their states."""
    if name is not None:
        yield from ((tenants.first, {name: value}) for value in tenants.first.query[name])
        return
    jobs = list(tenants.jobs.values()) if {"job_id", "job"} & set(path_names(route)) else [""]
    for job in jobs:
        chosen = {"job_id": job, "job": job} if job else {}
        yield Things({**tenants.first.path, **chosen}, tenants.first.query), {}


def different(expected: Answered, found: Answered) -> str:
    if expected[:2] != found[:2]:
        return f"{found[0]} {found[1][:300]} instead of {expected[0]} {expected[1][:300]}"
    return f"{[one[:80] for one in found[2]]} instead of {[one[:80] for one in expected[2]]}"


async def test_what_a_body_names_of_another_tenant_is_answered_like_what_does_not_exist(
    tenants: Tenants, database_url: str
) -> None:
    client = await tenants.service.as_role("admin", tenant=SECOND)
    before = rows(database_url)
    for (what, path, missing), (_, _, there) in zip(bodies(MISSING), bodies(tenants.first), strict=True):
        await answered(client, path, missing, MISSING)
        expected = await answered(client, path, missing, MISSING)
        found = await answered(client, path, there, tenants.first)
        assert expected == found, f"{what}: {different(expected, found)}"
        assert found[0] == 404 or '"status":404' in found[1], f"{what}: {found[1]}"
        assert ("There is no job" in found[1]) is ("to be like" in what), f"{what}: {found[1]}"
    assert changed(before, rows(database_url)) == []


def bodies(things: Things) -> list[tuple[str, str, dict[str, Any]]]:
    """Every way in which a body names a workflow, a definition or a job."""
    workflow, job, definition = things.path["workflow"], things.path["job"], things.query["definition_hash"][0]
    nightly = {"workflow": workflow, "cron": "0 2 * * *"}
    return [
        ("a workflow", "POST /jobs", {"workflow": workflow}),
        ("a definition", "POST /jobs", {"workflow": workflow, "definition_hash": definition}),
        ("a definition beside an own workflow", "POST /jobs", {"workflow": "own", "definition_hash": definition}),
        ("a job to be like", "POST /jobs", {"workflow": "own", "like": job}),
        ("a workflow in a batch", "POST /jobs/batch", {"jobs": [{"workflow": workflow}]}),
        ("a job to be like in a batch", "POST /jobs/batch", {"jobs": [{"workflow": "own", "like": job}]}),
        ("the jobs of a workflow", "POST /pauses", {"workflow": workflow}),
        ("what a pause would do", "POST /pauses", {"workflow": workflow, "dry_run": True}),
        ("what runs by the clock", "POST /schedules", {"name": "nightly", **nightly}),
        ("what runs by the clock from now on", "PUT /schedules/nightly", nightly),
    ]


async def answered(client: httpx2.AsyncClient, path: str, body: dict[str, Any], things: Things) -> Answered:
    """The status, the words without the names of the things, and the statements of a request with this body."""
    method, _, address_of_it = path.partition(" ")
    with recording() as recorder:
        answer = await client.request(method, f"{API}{address_of_it}", json=body)
    words = CHANGING.sub("", answer.text)
    for name in (*things.path.values(), *things.query["definition_hash"]):
        words = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "THING", words)
    return answer.status_code, words, recorder.statements


async def test_no_answer_to_another_tenant_has_anything_of_the_first(
    tenants: Tenants, record_property: Callable[[str, object], None]
) -> None:
    own = await tenants.service.as_role("admin", tenant=FIRST)
    other = await tenants.service.as_role("admin", tenant=SECOND)
    wrong, number, seen = [], 0, 0
    for route in all_routes():
        asked = [{}, *questions(route, tenants.first)] if not route.is_public else [{}]
        for params in asked:
            path = address(route, tenants.first)
            answer, text = await sent(other, route, path, params)
            number += 1
            named = [*(tenants.first.path.values()), *params.values()]
            leaked = leaks(f"{answer.headers} {text}", tenants.secrets, named)
            if leaked:
                wrong.append(f"{route.title} {params}: {leaked} in {text[:300]}")
            if route.method == "GET" and answer.status_code == 404:
                seen += bool(leaks((await own.get(path, params=params)).text, tenants.secrets, []))
    record_property("generated", number)
    assert not wrong, "\n".join(wrong)
    assert seen >= 10, "the marks of the first tenant are in its own answers; else this test proves nothing"


def leaks(text: str, secrets: set[str], named: list[str]) -> set[str]:
    """The marks and ids of the first tenant in an answer, but those that the request has named itself."""
    for name in sorted(named, key=len, reverse=True):
        text = text.replace(name, "").replace(name.removeprefix("hf_"), "")
    found = set(re.findall(rf"{CANARY}[\w.-]*", text, re.IGNORECASE))
    return found | {secret for secret in secrets if len(secret) >= 6 and secret in text}


async def test_what_a_tenant_reads_does_not_change_with_what_another_has(database_url: str) -> None:
    """Every list and every count of the second tenant, before and after the first one has jobs, keys and limits."""
    handlers = registry(**{"canary.work": work})
    async with serving_http(database_url) as service, running(database_url, handlers) as engine:
        await make_own(engine)
        client = await service.as_role("admin", tenant=SECOND)

        async def is_counted() -> bool:
            """Whether a janitor leads and has counted the tenant's own job: from then on nothing moves by itself."""
            steps = (await client.get(f"{API}/stats", params=QUERIES[f"{API}/stats"])).json()["items"]
            return [step["jobs_completed"] for step in steps if step["jobs_completed"]] == [1]

        await eventually(is_counted)
        before = await everything(client)
        await make_first(engine)
        await service.key("viewer", tenant=FIRST)
        after = await everything(client)
    assert {path: words for path, words in after.items() if words != before[path]} == {}
    assert '"own"' in before["/api/v1/jobs"]


async def everything(client: httpx2.AsyncClient) -> dict[str, str]:
    found = {}
    for route in all_routes():
        if route.method == "GET" and not path_names(route) and not route.is_stream:
            answer = await client.get(route.path, params=QUERIES.get(route.path))
            found[route.path] = CHANGING.sub("", answer.text)
    return found


def rows(url: str) -> set[tuple[str, str]]:
    """Every row of every table, without what changes by itself."""
    found: set[tuple[str, str]] = set()
    with psycopg.connect(url) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'holdfast'").fetchall()
        for (table,) in tables:
            statement = sql.SQL("select (to_jsonb(t) - %s::text[])::text from {} t").format(
                sql.Identifier("holdfast", table)
            )
            found |= {(table, str(row[0])) for row in connection.execute(statement, (list(VOLATILE),))}
    return found


def changed(before: set[tuple[str, str]], after: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """The rows that are no more as they were."""
    return sorted(before - after)
