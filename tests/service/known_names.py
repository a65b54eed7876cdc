"""Values for the parameters of all routes, by their names: what the first tenant has, and what no tenant has.

A route with a parameter of another name fails the tests until its name stands here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tests.service.routes_of import Route, resolved

CANARY = "canary"
"""It is in everything that the first tenant calls its own."""


@dataclass
class Things:
    """What one tenant has, or names of things that no tenant has, by the names of parameters."""

    path: dict[str, str]
    query: dict[str, list[str]] = field(default_factory=dict)


def mark(of: str) -> str:
    return f"{CANARY}-{of}"


MISSING = Things(
    path={
        "job_id": "00000000-0000-7000-8000-000000000000",
        "job": "00000000-0000-7000-8000-000000000000",
        "workflow_id": "missing-workflow",
        "workflow": "missing-workflow",
        "node": "missing",
        "stage": "missing",
        "item": "0",
        "artifacts/name": "missing.txt",
        "breakers/name": "missing-breaker",
        "commands/name": "missing-command",
        "limits/name": "key:missing-limit",
        "schedules/name": "missing-schedule",
        "tenants/name": "missing-tenant",
        "webhooks/name": "missing-webhook",
        "delivery_id": "00000000-0000-4000-8000-000000000000",
        "signal_id": "281474976710655",
        "pause_id": "workflow:missing-workflow",
        "collection_id": "missing-collection",
        "prefix": "hf_00000000",
        "payload/sha256": "0" * 64,
    },
    query={
        "workflow": ["missing-workflow"],
        "key": ["missing-key"],
        "code": ["MISSINGS_CODE"],
        "fingerprint": ["0000000000000000"],
        "label": ["missing=missing"],
        "correlation": ["missing-correlation"],
        "correlation_id": ["missing-correlation"],
        "external_id": ["missing:missing"],
        "artifact": ["0" * 64],
        "text": ["missing"],
        "definition_hash": ["0" * 64],
        "node": ["missing"],
        "queue": ["missing-queue"],
        "job": ["00000000-0000-7000-8000-000000000000", "0000dead"],
        "actor": ["missing-actor"],
        "webhook": ["missing-webhook"],
        "instance": ["missing-breaker"],
    },
)
"""Names of which no tenant has anything."""
ASKS_NOTHING = frozenset(
    {
        "action",
        "after",
        "after_node",
        "cause",
        "cursor",
        "datetime",
        "error",
        "error_description",
        "error_uri",
        "event",
        "file",
        "form",
        "format",
        "iss",
        "name",
        "reason",
        "return_to",
        "scope",
        "session_state",
        "since",
        "state",
        "status",
        "until",
    }
)
"""Names in queries that point to nothing that a tenant has."""


def path_names(route: Route) -> list[str]:
    return re.findall(r"\{(\w+)(?::\w+)?\}", route.path)


def place_of(route: Route, name: str, known: Mapping[str, Any]) -> str | None:
    """The entry for a name: that of its resource, or that of the name everywhere."""
    before = route.path.partition(f"/{{{name}")[0].rpartition("/")[2]
    return next((one for one in (f"{before}/{name}", name) if one in known), None)


def unknown_names(route: Route) -> list[str]:
    """The names of a route that have no values here, each in words that say what to add."""
    missing = []
    for name in path_names(route):
        if place_of(route, name, MISSING.path) is None:
            missing.append(
                f"{route.title}: add '{name}' (or 'RESOURCE/{name}') to MISSING.path in tests/service/known_names.py, "
                "and what the first tenant has by this name in tests/service/two_tenants.py"
            )
    for one in route.parameters("query"):
        name = one["name"]
        if _is_free_text(one["schema"]) and name not in MISSING.query and name not in ASKS_NOTHING:
            missing.append(
                f"{route.title}: add the query name '{name}' to MISSING.query in tests/service/known_names.py and what "
                "the first tenant has by it in tests/service/two_tenants.py; or to ASKS_NOTHING if it points to nothing"
            )
    return missing


def _is_free_text(schema: dict[str, Any]) -> bool:
    schema = resolved(schema)
    if "enum" in schema or "const" in schema:
        return False
    choices = schema.get("anyOf", [schema])
    return any(
        (one.get("type") == "string" and "enum" not in one and one.get("format") != "date-time")
        or (one.get("type") == "array" and _is_free_text(one.get("items", {})))
        for one in choices
    )


def address(route: Route, things: Things) -> str:
    """The path of a request for these things."""
    path = route.path
    for name in path_names(route):
        place = place_of(route, name, MISSING.path)
        assert place is not None, unknown_names(route)
        assert place in things.path, f"tests/service/two_tenants.py has no '{place}', which {route.title} needs"
        value = quote(things.path[place], safe="")
        path = path.replace(f"{{{name}}}", value).replace(f"{{{name}:path}}", value)
    return path


def missing_like(name: str, value: str) -> str:
    """A value that no tenant has, of the same kind: an id for an id, an ending for an ending."""
    choices = MISSING.query[name]
    return next((one for one in choices if len(one) == len(value)), choices[0])


def questions(route: Route, things: Things) -> list[dict[str, str]]:
    """The queries that ask a route for these things, one by one."""
    names = [one["name"] for one in route.parameters("query") if one["name"] in MISSING.query]
    return [{name: value} for name in names for value in things.query.get(name, [])]
