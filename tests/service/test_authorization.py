"""Requests made of all routes: without a credential, with a wrong role, with wrong names and types."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx2
import pytest

from holdfast.operations.identity import Role
from holdfast.service.openapi import kind_of, kinds_of
from tests.service.known_names import MISSING, address
from tests.service.routes_of import Route, all_routes, resolved
from tests.service.serving import Service, serving_http

pytestmark = pytest.mark.anyio

AT_ONCE = 8
VALUES: list[Any] = [7, 1.5, True, "a", [1], {"a": 1}]
"""One value of each type."""
WRONG_TIMES = ["2026-03-01T12:00:00", "2026-03-01", "1700000000", "0001-01-01T00:00:00+14:00"]
"""Times without a zone, a number of seconds, and a time that UTC cannot say."""
NO_BODIES = [b"[]", b'"text"', b"7", b"null", b"{} {}", b"{"]


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_http(database_url, allow_bootstrap=True) as service:
        yield service


Case = tuple[str, dict[str, Any]]
"""What a case is about, and the request: `method`, `url` and what else httpx takes."""


async def answers(
    client: httpx2.AsyncClient, cases: Sequence[Case], is_right: Callable[[httpx2.Response], bool]
) -> list[str]:
    """Send all requests; return what is wrong with their answers."""
    wrong: list[str] = []
    gate = asyncio.Semaphore(AT_ONCE)

    async def send(about: str, request: dict[str, Any]) -> None:
        async with gate:
            answer = await client.request(**request)
        if not is_right(answer):
            wrong.append(f"{about}: {answer.status_code} {answer.text[:200]}")

    await asyncio.gather(*(send(about, request) for about, request in cases))
    return wrong


def request_of(route: Route, **more: Any) -> dict[str, Any]:
    """An ordinary request to a route, about nothing that exists."""
    request: dict[str, Any] = {"method": route.method, "url": address(route, MISSING)}
    if route.json_body is not None:
        request["json"] = route.json_body
    return request | more


def request_with(route: Route, content: bytes, kind: str = "application/json") -> dict[str, Any]:
    """A request with this body."""
    address_alone = {"method": route.method, "url": address(route, MISSING)}
    return {**address_alone, "content": content, "headers": {"Content-Type": kind}}


def problem(status: int, code: str | None = None) -> Callable[[httpx2.Response], bool]:
    def is_it(answer: httpx2.Response) -> bool:
        if answer.request.method == "HEAD":
            return answer.status_code == status and answer.content == b""
        is_json = answer.headers["content-type"] == "application/problem+json"
        return answer.status_code == status and is_json and (code is None or answer.json()["code"] == code)

    return is_it


def guarded() -> list[Route]:
    return [route for route in all_routes() if not route.is_public]


def is_admitted(answer: httpx2.Response) -> bool:
    """The role is enough. Some routes are for an admin of the installation only."""
    return answer.status_code not in (401, 403) or "of the installation" in answer.text


def answering() -> list[Route]:
    """Those whose answers have an end."""
    return [route for route in guarded() if not route.is_stream]


def methods_of(route: Route) -> list[str]:
    return [route.method, "HEAD"] if route.method == "GET" else [route.method]


async def test_without_a_valid_credential_no_route_answers(
    service: Service, record_property: Callable[[str, object], None]
) -> None:
    real = await service.key("admin", tenant="*")
    revoked = await service.admin.add_key("revoked", roles=["admin"])
    await service.admin.revoke_key(revoked.details.prefix)
    headers: dict[str, dict[str, str]] = {
        "none": {},
        "empty": {"Authorization": ""},
        "no key": {"Authorization": "Bearer"},
        "another scheme": {"Authorization": f"Basic {real}"},
        "another secret": {"Authorization": f"Bearer {real[:-4]}AAAA"},
        "a shorter key": {"Authorization": f"Bearer {real[:-1]}"},
        "revoked": {"Authorization": f"Bearer {revoked.key}"},
        "in a cookie": {"Cookie": f"session={real}; key={real}"},
        "beside": {"X-Api-Key": real, "X-Forwarded-User": "admin", "X-Tenant": "default"},
    }
    cases = [
        (f"{route.title} ({method}, {name})", request_of(route, headers=one, method=method))
        for route in guarded()
        for method in methods_of(route)
        for name, one in headers.items()
    ]
    cases += [(f"{route.title} (query)", request_of(route, params={"key": real})) for route in guarded()]
    record_property("generated", len(cases))
    assert await answers(service.with_key(None), cases, problem(401, "UNAUTHENTICATED")) == []


@pytest.mark.parametrize("role", Role)
async def test_a_role_without_the_permission_is_refused_by_every_route_that_needs_it(
    service: Service, role: Role, record_property: Callable[[str, object], None]
) -> None:
    client = await service.as_role(role, tenant="default")
    refused = [route for route in guarded() if role in route.refused_roles]
    cases = [
        (f"{route.title} ({method})", request_of(route, method=method))
        for route in refused
        for method in methods_of(route)
    ]
    # Nothing about a request is said to one who may not send it.
    cases += [(f"{route.title} (query)", request_of(route, params={"nonsense": "1"})) for route in refused]
    cases += [(f"{route.title} (body)", request_of(route, json=[])) for route in refused if route.json_body is not None]
    if role is not Role.WORKER:
        own = [route for route in guarded() if role not in route.refused_roles]
        cases += [(f"{route.title} (tenant)", request_of(route, params={"tenant": "another"})) for route in own]
    record_property("generated", len(cases))
    assert await answers(client, cases, problem(403, "FORBIDDEN")) == []
    allowed = [(route.title, request_of(route)) for route in answering() if role not in route.refused_roles]
    reached = [one for one in allowed if "/bootstrap/" not in one[0]]
    assert await answers(client, reached, is_admitted) == []


CALLBACK = "GET /api/v1/session/oidc/callback"
"""An identity provider writes the query of this address, and adds what it likes."""
TAKE_ANY_QUERY = (CALLBACK, "GET /")
"""The only ones; the query of the first page is for its scripts."""


async def test_every_route_refuses_query_names_that_it_does_not_know(
    service: Service, record_property: Callable[[str, object], None]
) -> None:
    client = await service.as_role("admin", tenant="*")
    given: dict[str, Any] = {
        "unknown": {"surprise": "1"},
        "empty": {"": "1"},
        "with NUL": {"surprise\0": "1"},
        "two tenants": [("tenant", "a"), ("tenant", "b")],
        "NUL as a value": {"tenant": "a\0b"},
        "a number twice": [("limit", "1"), ("limit", "2")],
        "a text twice": [("cursor", "1"), ("cursor", "1")],
    }
    cases = [
        (f"{route.title} ({name})", request_of(route, params=params))
        for route in all_routes()
        for name, params in given.items()
        if not (route.is_public and "tenant" in dict(params)) and route.title not in TAKE_ANY_QUERY
    ]
    record_property("generated", len(cases))
    assert await answers(client, cases, problem(422)) == []


async def test_every_route_refuses_values_of_the_wrong_type_in_its_query(
    service: Service, record_property: Callable[[str, object], None]
) -> None:
    client = await service.as_role("admin", tenant="*")
    cases = [
        (f"{route.title}?{one['name']}={value}", request_of(route, params={one["name"]: value}))
        for route in all_routes()
        for one in route.parameters("query")
        for value in _wrong_texts(one["schema"])
    ]
    record_property("generated", len(cases))
    assert await answers(client, cases, problem(422)) == []


def _wrong_texts(schema: dict[str, Any]) -> list[str]:
    """Texts that are no value of a parameter. Free texts take each."""
    choices = [resolved(one) for one in schema.get("anyOf", [schema])]
    kinds = {one.get("type") for one in choices}
    if "string" in kinds and not any("enum" in one or one.get("format") == "date-time" for one in choices):
        longest = max(one.get("maxLength", 0) for one in choices)
        return ["x" * (longest + 1)] if longest else []
    if "array" in kinds:
        return []
    wrong = ["nonsense", "", "1e999", "-99999999999999999999", "٣"]
    return wrong + (WRONG_TIMES if any(one.get("format") == "date-time" for one in choices) else [])


async def test_every_route_refuses_fields_that_it_does_not_know_and_values_of_the_wrong_type(
    service: Service, record_property: Callable[[str, object], None]
) -> None:
    client = await service.as_role("admin", tenant="*")
    cases: list[Case] = []
    for route in all_routes():
        if route.json_body is None or len(route.bodies) > 1:
            continue
        cases += [(f"{route.title} ({body!r})", request_with(route, body)) for body in NO_BODIES]
        schema = resolved(route.bodies["application/json"]["schema"])
        if not schema.get("properties"):
            continue
        cases.append((f"{route.title} (unknown)", request_of(route, json={**route.json_body, "surprise": 1})))
        for name, kind in schema["properties"].items():
            for value in _wrong_values(kind):
                body = {**route.json_body, name: value}
                cases.append((f"{route.title} ({name}: {value!r})", request_of(route, json=body)))
        for name in schema.get("required", ()):
            body = {one: value for one, value in route.json_body.items() if one != name}
            cases.append((f"{route.title} (without {name})", request_of(route, json=body)))
    record_property("generated", len(cases))
    assert await answers(client, cases, problem(422)) == []


def _wrong_values(schema: dict[str, Any]) -> list[Any]:
    choices = [resolved(one) for one in schema.get("anyOf", [schema])]
    kinds = {kind for one in choices for kind in kinds_of(one)}
    if not kinds:
        return []
    kinds |= {"integer"} if "number" in kinds else set()
    return [value for value in VALUES if kind_of(value) not in kinds]


async def test_a_definition_that_is_the_body_is_refused_if_it_is_none(
    service: Service, record_property: Callable[[str, object], None]
) -> None:
    client = await service.as_role("admin", tenant="*")
    routes = [route for route in all_routes() if "application/yaml" in route.bodies]
    contents = [b"\xff\xfe", b"{", b'{"a": 1, "a": 2}', b"[" * 5000, b""]
    cases = [
        (f"{route.title} {content[:20]!r}", request_with(route, content, kind))
        for route in routes
        for content in contents
        for kind in ("application/json", "text/html", "")
    ]
    record_property("generated", len(cases))
    assert routes
    assert await answers(client, cases, problem(422)) == []
