"""The HTTP service on a test's database: a real server on a free port, and real requests with the keys of tenants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from holdfast.assembly import new_web_server
from holdfast.client import Client
from holdfast.operations.scope import Scope
from holdfast.settings import Settings
from tests.running import HOME

API = "/api/v1"


class Service:
    """A running service, and clients that send requests to it."""

    def __init__(self, url: str, admin: Client) -> None:
        self.url = url
        self.admin = admin
        self._open: list[httpx2.AsyncClient] = []

    async def key(self, *roles: str, tenant: str = "default", name: str = "test") -> str:
        return (await self.admin.add_key(name, roles=roles, tenant=tenant)).key

    async def as_role(self, *roles: str, tenant: str = "default") -> httpx2.AsyncClient:
        """A client whose key has these roles."""
        return self.with_key(await self.key(*roles, tenant=tenant))

    def with_key(self, key: str | None, **headers: str) -> httpx2.AsyncClient:
        given = {"Authorization": f"Bearer {key}"} if key is not None else {}
        client = httpx2.AsyncClient(base_url=self.url, headers={**given, **headers}, timeout=30)
        self._open.append(client)
        return client

    async def close(self) -> None:
        for client in self._open:
            await client.aclose()


@asynccontextmanager
async def serving_http(url: str, **settings: Any) -> AsyncIterator[Service]:
    """The service alone; with `tests.running.running` beside it the jobs run, too."""
    chosen = Settings(**{"database_url": url, "home": HOME, "port": 0, "grace_seconds": 1.0, **settings})
    server, store = new_web_server(url, chosen)
    service = Service(server.url, Client(store, Scope("*", "admin@test")))
    try:
        async with server:
            try:
                yield service
            finally:
                await service.close()
    finally:
        await store.close()
