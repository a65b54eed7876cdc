"""The client over a URL, whole, and how it is opened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from holdfast.client import Client
from holdfast.define.gates import DEFAULT_TENANT
from holdfast.errors import Forbidden, Unauthenticated, Unusable
from holdfast.operations.identity import EVERY_TENANT
from holdfast.operations.scope import Scope
from holdfast.remote.commands import RemoteCommands
from holdfast.remote.data import RemoteData
from holdfast.remote.gates import RemoteGates
from holdfast.remote.not_yet import refuse_the_rest
from holdfast.remote.notifications import RemoteNotifications
from holdfast.remote.oversight import RemoteOversight
from holdfast.remote.schedules import RemoteSchedules
from holdfast.remote.verbs import RemoteVerbs
from holdfast.remote.workflows import RemoteWorkflows
from holdfast.service_address import KEY_REMEDY, checked_key, checked_url
from holdfast.views.identities import Session
from holdfast.views.transfer import from_transfer

if TYPE_CHECKING:
    from holdfast.remote.connection import Connection


@refuse_the_rest
class RemoteClient(
    RemoteCommands,
    RemoteNotifications,
    RemoteOversight,
    RemoteVerbs,
    RemoteData,
    RemoteGates,
    RemoteSchedules,
    RemoteWorkflows,
    Client,
):
    """A client of one service: the methods of `Client`, with the same answers and the same errors."""


@asynccontextmanager
async def open_remote(url: str, scope: Scope | None = None, *, api_key: str | None = None) -> AsyncIterator[Client]:
    """A client of the service at that URL. A key that the service does not take is refused here."""
    url = checked_url(url)
    key = checked_key(api_key) if api_key is not None else None
    connection = _new_connection(url, key)
    try:
        session = from_transfer(Session, await connection.send("GET", "/session", is_repeatable=True))
        if session.credential == "none":
            raise Unauthenticated(f"The service at {url} needs an API key.", remedy=KEY_REMEDY)
        own = DEFAULT_TENANT if session.tenant == EVERY_TENANT else session.tenant
        yield RemoteClient(connection, session, Scope(scope.tenant if scope is not None else own, session.name))
    finally:
        await connection.close()


async def refuse_without_work(url: str, api_key: str | None) -> None:
    """Refuse a key with which a worker could not work for the service at that URL."""
    connection = _new_connection(url, checked_key(api_key) if api_key is not None else None)
    try:
        session = from_transfer(Session, await connection.send("GET", "/session", is_repeatable=True))
    finally:
        await connection.close()
    if session.credential == "none":
        raise Unauthenticated(f"The service at {url} needs an API key.", remedy=KEY_REMEDY)
    if "work" not in session.scopes:
        raise Forbidden(
            f"The key '{session.name}' may not work: it has the roles {', '.join(session.roles)}.",
            remedy="Make a key for workers with: holdfast keys add NAME --role worker",
        )


def _new_connection(url: str, key: str | None) -> Connection:
    try:
        # Imported late: its library is an extra, and takes a while.
        from holdfast.remote.connection import Connection
    except ModuleNotFoundError as error:
        raise Unusable(
            f"A client over a URL needs the library '{error.name}', which is not installed.",
            remedy="Install it with: pip install 'holdfast[service]'",
        ) from None
    return Connection(url, key)
