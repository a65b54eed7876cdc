"""The part of the client over a URL about who may use the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Self

from holdfast.operations.identity import EVERY_TENANT
from holdfast.remote.base import Remote, View, path_of, query_of
from holdfast.views.identities import Key, NewKey


class RemoteIdentities(Remote):
    """API keys."""

    def for_tenant(self, tenant: str) -> Self:
        return type(self)(self._connection, self._session, replace(self._scope, tenant=tenant))

    async def add_key(
        self, name: str, *, roles: Sequence[str], tenant: str | None = None, expires_at: datetime | None = None
    ) -> NewKey:
        body = {
            "name": name,
            "roles": list(roles),
            "tenant": tenant or self._scope.tenant,
            "expires_at": expires_at.isoformat() if expires_at is not None else None,
        }
        return self._read(NewKey, await self._connection.send("POST", "/keys", body=body))

    async def keys(self) -> list[Key]:
        query = self._administered()
        answer = await self._connection.send("GET", "/keys", query=query, is_repeatable=True)
        return [self._read(Key, one) for one in answer["items"]]

    async def revoke_key(self, prefix: str) -> Key:
        path = path_of("keys", prefix)
        return self._read(Key, await self._connection.send("DELETE", path, query=self._administered()))

    async def _administered_page(self, kind: type[View], path: str, **query: Any) -> tuple[list[View], str | None]:
        """A page of what an administrator of the installation sees of all tenants."""
        asked = [*query_of(**query), *self._administered()]
        answer = await self._connection.send("GET", path, query=asked, is_repeatable=True)
        return [self._read(kind, one) for one in answer["items"]], answer["next_cursor"]

    def _administered(self) -> list[tuple[str, str]]:
        """An administrator of the installation has the keys of all tenants, unless a tenant is named."""
        is_everyones = self._session.tenant == EVERY_TENANT
        return [("tenant", self._scope.tenant)] if is_everyones and self._scope.tenant != EVERY_TENANT else []
