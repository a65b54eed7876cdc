"""The HTTP service on a test's database: a real server on a free port, and real requests with the keys of tenants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from holdfast.assembly import new_web_server
from holdfast.client import Client
from holdfast.operations.scope import Scope
from holdfast.operations.working import WorkDesk
from holdfast.service.live import Live
from holdfast.service.server import WebServer
from holdfast.service.state import ServiceState
from holdfast.settings import Settings
from holdfast.store.postgres import PostgresStore
from tests.running import HOME

API = "/api/v1"
GENEROUS: dict[str, Any] = {
    "key_requests_per_second": 1e6,
    "address_requests_per_second": 1e6,
    "wrong_credentials_per_minute": 1e6,
}
"""Tests of something else send all their requests from one address."""


class Service:
    """A running service, and clients that send requests to it."""

    def __init__(self, server: WebServer, admin: Client) -> None:
        self._server = server
        self.url = server.url
        self.admin = admin
        self._open: list[httpx2.AsyncClient] = []

    @property
    def state(self) -> ServiceState:
        """What the requests of the process share."""
        state: ServiceState = self._server.app.state.service
        return state

    @property
    def live(self) -> Live:
        """The streams of the process."""
        return self.state.live

    @property
    def desk(self) -> WorkDesk:
        """Where workers get their tasks."""
        return self.state.desk

    @property
    def connections(self) -> int:
        """How many clients the server sees."""
        return len(self._server._server.server_state.connections)

    @property
    def unsent_bytes(self) -> list[int]:
        """How much of its answer the server keeps for each client."""
        return [one.transport.get_write_buffer_size() for one in self._server._server.server_state.connections]

    def request_stop(self) -> None:
        self._server.request_stop()

    async def key(self, *roles: str, tenant: str = "default", name: str = "test") -> str:
        return (await self.admin.add_key(name, roles=roles, tenant=tenant)).key

    async def as_role(self, *roles: str, tenant: str = "default") -> httpx2.AsyncClient:
        """A client whose key has these roles."""
        return self.with_key(await self.key(*roles, tenant=tenant))

    def with_key(self, key: str | None, **headers: str) -> httpx2.AsyncClient:
        given = {"Authorization": f"Bearer {key}"} if key is not None else {}
        # It speaks plain HTTP. To load the certificates of this machine for each client takes longer than many a test.
        client = httpx2.AsyncClient(base_url=self.url, headers={**given, **headers}, timeout=30, verify=False)
        self._open.append(client)
        return client

    async def close(self) -> None:
        for client in self._open:
            await client.aclose()


@asynccontextmanager
async def serving_http(url: str, **settings: Any) -> AsyncIterator[Service]:
    """The service alone; with `tests.running.running` beside it the jobs run, too."""
    chosen = Settings(**{"database_url": url, "home": HOME, "port": 0, "grace_seconds": 1.0, **GENEROUS, **settings})
    async with service_of(*new_web_server(url, chosen)) as service:
        yield service


@asynccontextmanager
async def service_of(server: WebServer, store: PostgresStore) -> AsyncIterator[Service]:
    """The server while it serves, and the clients that a test opens to it."""
    service = Service(server, Client(store, Scope("*", "admin@test")))
    try:
        async with server:
            try:
                yield service
            finally:
                await service.close()
    finally:
        await store.close()
