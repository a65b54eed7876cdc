"""All routes of the application, apps' routes too, as tests generate requests for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from holdfast.operations.identity import PERMISSIONS, Permission, Role
from holdfast.service.app import build_app
from holdfast.service.identity.door import Door
from holdfast.service.openapi import operations
from holdfast.service.state import ServiceState
from holdfast.store.postgres import PostgresStore

Schema = dict[str, Any]


@dataclass(frozen=True)
class Route:
    """One route, with what OpenAPI says of it."""

    method: str
    path: str
    permission: Permission
    operation: dict[str, Any]

    @property
    def title(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_public(self) -> bool:
        return self.permission is Permission.PUBLIC

    @property
    def is_stream(self) -> bool:
        """Whether its answer has no end."""
        answer = self.operation.get("responses", {}).get("200", {})
        return "text/event-stream" in answer.get("content", {})

    @property
    def refused_roles(self) -> list[Role]:
        return [role for role in Role if self.permission not in PERMISSIONS[role] and not self.is_public]

    def parameters(self, place: str) -> list[dict[str, Any]]:
        return [one for one in self.operation.get("parameters", ()) if one["in"] == place]

    @property
    def bodies(self) -> dict[str, Any]:
        content: dict[str, Any] = self.operation.get("requestBody", {}).get("content", {})
        return content

    @property
    def json_body(self) -> Any:
        """The example of the body: one that can be sent."""
        return self.bodies.get("application/json", {}).get("example")


@cache
def application() -> FastAPI:
    """The application with a database that is never asked: its routes can be read, not used."""
    store = PostgresStore("postgresql://unused")
    return build_app(ServiceState(store, Door(store)))


@cache
def document() -> dict[str, Any]:
    return application().openapi()


def undeclared(app: FastAPI) -> list[str]:
    """What the application answers without a declared permission."""
    return [
        f"{route!r} declares no permission: declare it in a RouteTable"
        for route in app.router.routes
        if not isinstance(route, APIRoute) or not isinstance(getattr(route, "permission", None), Permission)
    ]


@cache
def all_routes() -> tuple[Route, ...]:
    """Every route for programs, in the order in which they are tried. One without a permission is refused."""
    return tuple(route for route, is_hidden in _every_route() if not is_hidden)


@cache
def hidden_routes() -> tuple[Route, ...]:
    """The routes that no description has: the pages and files of the web UI. `test_web_ui.py` tests them."""
    return tuple(route for route, is_hidden in _every_route() if is_hidden)


@cache
def _every_route() -> tuple[tuple[Route, bool], ...]:
    assert undeclared(application()) == []
    described = {(method, path): operation for method, path, operation in operations(document())}
    return tuple(_found(described))


def _found(described: dict[tuple[str, str], dict[str, Any]]) -> Iterator[tuple[Route, bool]]:
    for route in application().router.routes:
        assert isinstance(route, APIRoute)
        for method in sorted(set(route.methods or ()) - {"HEAD"}):
            operation = described.get((method, route.path_format), {})
            permission: Permission = route.permission  # type: ignore[attr-defined]
            yield Route(method, route.path_format, permission, operation), not route.include_in_schema


def resolved(schema: Schema) -> Schema:
    """The schema itself, where it is a reference."""
    if "$ref" not in schema:
        return schema
    found: Schema = document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found
