"""The part of `Client` about who may use the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Self

from holdfast.client_gates import Bound
from holdfast.operations import keys, sessions, tenants
from holdfast.views.identities import KeptTenant, Key, NewKey, Tenant


class Identities(Bound):
    """API keys and tenants."""

    def for_tenant(self, tenant: str) -> Self:
        """A client of the same database and the same person for another tenant; * is the installation."""
        return type(self)(self._store, replace(self._scope, tenant=tenant))

    async def add_key(
        self, name: str, *, roles: Sequence[str], tenant: str | None = None, expires_at: datetime | None = None
    ) -> NewKey:
        """Make an API key; what it returns has the key itself, which can never be read again."""
        return await keys.add_key(self._scope, self._store, name, roles=roles, tenant=tenant, expires_at=expires_at)

    async def knows_key(self, key: str) -> bool:
        """Whether a key can be used now."""
        return await keys.identity_of_key(self._store, key) is not None

    async def keys(self) -> list[Key]:
        """The API keys of the tenant, newest first; with the tenant * the keys of all."""
        return await keys.keys(self._scope, self._store)

    async def revoke_key(self, prefix: str) -> Key:
        """End a key. Processes that know it forget it within five seconds."""
        return await keys.revoke_key(self._scope, self._store, prefix)

    async def sign_in_code(self, prefix: str) -> str:
        """A code with which a browser signs in once, within a minute, for the holder of the key with that prefix."""
        return await sessions.new_code(self._store, prefix)

    async def tenants(self) -> list[Tenant]:
        """The tenants that an administrator has made, by name. Others exist by their jobs alone."""
        return await tenants.tenants(self._store)

    async def keep_tenant(self, name: str, *, queues: Sequence[str] | None = None) -> KeptTenant:
        """Make a tenant, or bind it to other queues; None: it may use every queue. In force within five seconds."""
        return await tenants.keep_tenant(self._scope, self._store, name, queues=queues)
