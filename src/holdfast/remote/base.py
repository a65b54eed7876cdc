"""What all parts of the client over a URL stand on: a connection, the tenant, and views from answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from holdfast.define.gates import DEFAULT_TENANT
from holdfast.errors import Unreachable
from holdfast.operations.identity import EVERY_TENANT
from holdfast.operations.scope import Scope
from holdfast.remote.not_yet import needs_database
from holdfast.version import __version__
from holdfast.views.identities import Session
from holdfast.views.transfer import from_transfer

if TYPE_CHECKING:
    from holdfast.remote.connection import Connection

View = TypeVar("View")
PAGE_LENGTH = 500
"""The most that one page of the service has."""


def path_of(*parts: str) -> str:
    """A path of these parts, whatever characters they have."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def query_of(**given: Any) -> list[tuple[str, str]]:
    """The parameters that have a value, as texts; a list stands for one that is repeated."""
    found = []
    for name, value in given.items():
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        found += [(name, _text(one)) for one in values if one is not None]
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)


class Remote:
    """A connection and the scope in which it is used."""

    def __init__(self, connection: Connection, session: Session, scope: Scope) -> None:
        self._connection = connection
        self._session = session
        self._scope = scope

    @property
    def scope(self) -> Scope:
        return self._scope

    @property
    def database_url(self) -> str:
        raise needs_database("database_url", "only the service knows its address")

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._connection.url

    def _tenant(self) -> list[tuple[str, str]]:
        """Only an administrator of the installation names a tenant; the service knows that of others by their key."""
        own = DEFAULT_TENANT if self._session.tenant == EVERY_TENANT else self._session.tenant
        return [] if self._scope.tenant in (own, self._session.tenant) else [("tenant", self._scope.tenant)]

    async def _send(self, method: str, path: str, **request: Any) -> Any:
        query = [*request.pop("query", ()), *self._tenant()]
        return await self._connection.send(method, path, query=query, **request)

    def _read(self, kind: type[View], data: Any) -> View:
        try:
            return from_transfer(kind, data)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise Unreachable(
                f"The service at {self.url} answers in a form that Holdfast {__version__} cannot read: {error}.",
                remedy="Use the version that the service has; GET /livez says which.",
            ) from error

    async def _get(self, kind: type[View], path: str, **query: Any) -> View:
        return self._read(kind, await self._send("GET", path, query=query_of(**query), is_repeatable=True))

    async def _page(self, kind: type[View], path: str, **query: Any) -> tuple[list[View], str | None]:
        answer = await self._send("GET", path, query=query_of(**query), is_repeatable=True)
        return [self._read(kind, one) for one in answer["items"]], answer["next_cursor"]

    async def _list(self, kind: type[View], path: str, **query: Any) -> list[View]:
        found, _ = await self._page(kind, path, **query)
        return found

    async def _every(self, kind: type[View], path: str, **query: Any) -> AsyncGenerator[View, None]:
        """All entries, page by page."""
        cursor = query.pop("cursor", None)
        while True:
            found, cursor = await self._page(kind, path, **query, cursor=cursor)
            for one in found:
                yield one
            if cursor is None:
                return
