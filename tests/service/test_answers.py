"""Answers are as described: no field more, lists with a cursor, HEAD like GET, and nothing that a GET changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import jsonschema_rs
import pytest

from holdfast.operations.submitting import Submission
from holdfast.views.transfer import from_transfer, to_transfer
from tests.service.known_names import Things, address, path_names
from tests.service.routes_of import Route, all_routes, document
from tests.service.serving import API
from tests.service.test_isolation import changed, rows
from tests.service.test_jobs import ECHO
from tests.service.two_tenants import FIRST, Tenants, two_tenants

pytestmark = pytest.mark.anyio
JSON = "application/json"


@pytest.fixture
async def tenants(database_url: str) -> AsyncIterator[Tenants]:
    async with two_tenants(database_url, allow_bootstrap=True) as tenants:
        yield tenants


def closed(schema: Any) -> Any:
    """The same schema, which allows no field that it does not name."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(one) for name, one in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        inner["additionalProperties"] = False
    return inner


def misfit(route: Route, answer: httpx2.Response) -> str | None:
    """Where an answer is not as the description of its route says."""
    described = route.operation["responses"].get(str(answer.status_code))
    if described is None:
        return f"{route.title}: {answer.status_code} is not described: {answer.text[:200]}"
    schema = described.get("content", {}).get(answer.headers["content-type"].partition(";")[0], {}).get("schema")
    if schema is None or not answer.headers["content-type"].startswith(JSON):
        return None
    whole = {**closed(schema), "components": closed(document()["components"])}
    wrong = list(jsonschema_rs.validator_for(whole, validate_formats=True).iter_errors(answer.json()))
    return f"{route.title}: {[(one.instance_path, one.message[:300]) for one in wrong[:3]]}" if wrong else None


def reads(tenants: Tenants) -> Iterator[tuple[Route, str]]:
    """Each route that reads something, about each job in all their states."""
    for route in all_routes():
        if route.method != "GET" or route.is_stream or route.is_public:
            continue
        jobs = list(tenants.jobs.values()) if {"job_id", "job"} & set(path_names(route)) else [""]
        for job in jobs:
            chosen = {"job_id": job, "job": job} if job else {}
            yield route, address(route, Things({**tenants.first.path, **chosen}, tenants.first.query))


async def test_what_is_read_has_exactly_the_fields_that_are_described(tenants: Tenants) -> None:
    client = await tenants.service.as_role("admin", tenant="*")
    answers = [(route, await client.get(path, params={"tenant": FIRST})) for route, path in reads(tenants)]
    wrong = [misfit(route, answer) for route, answer in answers]
    assert [one for one in wrong if one is not None] == []
    assert sum(answer.status_code == 200 for _, answer in answers) > 100


async def test_every_list_has_items_and_a_cursor(tenants: Tenants) -> None:
    client = await tenants.service.as_role("admin", tenant="*")
    lists = 0
    for route, path in reads(tenants):
        answer = await client.get(path, params={"tenant": FIRST})
        if answer.status_code == 200 and answer.headers["content-type"] == JSON:
            found = answer.json()
            assert isinstance(found, dict), route.title
            assert ("items" in found) == ("next_cursor" in found) or not isinstance(found["items"], list), route.title
            lists += "next_cursor" in found
    assert lists > 20


async def test_head_is_answered_like_get_by_every_route_and_neither_changes_anything(
    tenants: Tenants, database_url: str
) -> None:
    client = await tenants.service.as_role("admin", tenant="*")
    await client.get(f"{API}/session")
    before = rows(database_url)
    for route, path in reads(tenants):
        got = await client.get(path, params={"tenant": FIRST})
        head = await client.head(path, params={"tenant": FIRST})
        assert (head.status_code, head.content) == (got.status_code, b""), route.title
        assert head.headers["content-type"] == got.headers["content-type"], route.title
    assert changed(before, rows(database_url)) == []


async def test_what_is_submitted_is_answered_with_exactly_the_fields_that_are_described(tenants: Tenants) -> None:
    client = await tenants.service.as_role("admin", tenant=FIRST)
    failed = tenants.jobs["fails"]
    known = {"workflow": tenants.first.path["workflow"], "like": failed}
    requests: list[tuple[str, Any]] = [
        ("POST /api/v1/jobs", {"definition": ECHO}),
        ("POST /api/v1/jobs", {"definition": ECHO}),
        ("POST /api/v1/jobs", {**known, "key": tenants.first.query["key"][0]}),
        ("POST /api/v1/jobs/batch", {"jobs": [{"definition": ECHO}, known, {"workflow": "nowhere"}]}),
        ("POST /api/v1/workflows", ECHO),
        ("POST /api/v1/workflows/validate", ECHO),
        ("POST /api/v1/jobs/{job_id}/plan", {"verb": "resume"}),
        ("POST /api/v1/jobs/{job_id}/acknowledge", {"reason": "seen"}),
        ("POST /api/v1/jobs/{job_id}/resume", {}),
    ]
    routes = {route.title: route for route in all_routes()}
    for title, body in requests:
        route = routes[title]
        answer = await client.post(route.path.replace("{job_id}", failed), json=body)
        assert answer.status_code < 300, answer.text
        assert misfit(route, answer) is None


def test_a_hint_is_made_again_where_a_submission_is_read() -> None:
    one = Submission("j-1", "created", "pending", "maps", "1", "i", 1)
    assert one.hint == "Follow it with: holdfast watch j-1"
    assert from_transfer(Submission, to_transfer(one)) == one
