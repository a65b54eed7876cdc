"""Routes as data: each names the permission that it needs, and what it answers. The application is built from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.convertors import StringConvertor, register_url_convertor

from holdfast.errors import HoldfastError, InvalidInput, NotFound
from holdfast.operations.identity import Permission

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class _Anything(StringConvertor):
    """A name at the end of a path, whatever it is: also with slashes and line breaks. It has at least one character."""

    regex = "(?s:.+)"


class _Name(StringConvertor):
    """A name at the end of a path. It may have slashes, but not at its beginning."""

    regex = "(?s:[^/].*)"


register_url_convertor("anything", _Anything())
register_url_convertor("name", _Name())


@dataclass(frozen=True, slots=True)
class Page:
    """Answers a list of views, page by page."""

    of: Any


@dataclass(frozen=True, slots=True)
class ListOf:
    """Answers a whole list of views."""

    of: Any


@dataclass(frozen=True, slots=True)
class Media:
    """Answers something that is not JSON."""

    type: str
    description: str


@dataclass(frozen=True, slots=True)
class Declared:
    """One route."""

    method: str
    path: str
    permission: Permission
    endpoint: Callable[..., Any]
    answers: Any
    """The type of the view that it answers, or a `Page`, a `ListOf` or a `Media`."""
    status: int = 200
    also: dict[int, str] = field(default_factory=dict)
    """Other statuses with the same kind of answer, each with its meaning."""
    errors: tuple[type[HoldfastError], ...] = ()
    reads_body: bool = True
    """Whether the body is read and parsed before the endpoint; else the endpoint streams it."""
    body_types: tuple[str, ...] = ("application/json",)
    takes_any_query: bool = False
    """Whether the query may have more than the route knows: a stranger writes the address."""
    other_types: tuple[str, ...] = ()
    """Other media types of the answer, if the request asks for them."""
    is_hidden: bool = False
    """Whether it is left out of the description: it is for browsers, not for programs."""
    is_file: bool = False
    """Whether it answers a file that the process has in memory. A page has many: together they count as one request."""


class RouteTable:
    """The routes of one resource, in the order in which they are tried."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.routes: list[Declared] = []

    def get(self, path: str, permission: Permission, *, answers: Any, **more: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("GET", path, permission, answers, more)

    def post(self, path: str, permission: Permission, *, answers: Any, **more: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("POST", path, permission, answers, more)

    def put(self, path: str, permission: Permission, *, answers: Any, **more: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("PUT", path, permission, answers, more)

    def delete(self, path: str, permission: Permission, *, answers: Any, **more: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("DELETE", path, permission, answers, more)

    def _declare(
        self, method: str, path: str, permission: Permission, answers: Any, more: dict[str, Any]
    ) -> Callable[[Endpoint], Endpoint]:
        def add(endpoint: Endpoint) -> Endpoint:
            self.routes.append(Declared(method, path, permission, endpoint, answers, **more))
            return endpoint

        return add


def errors_of(route: Declared) -> Sequence[type[HoldfastError]]:
    """The problems that a route may answer, besides those of credentials."""
    found: list[type[HoldfastError]] = [InvalidInput]
    found += [NotFound] if "{" in route.path else []
    return list(dict.fromkeys([*found, *route.errors]))
