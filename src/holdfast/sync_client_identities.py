"""The part of `SyncClient` about who may use the service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Self

from holdfast.sync_client_gates import Face
from holdfast.views.identities import KeptTenant, Key, NewKey, Tenant


class SyncIdentities(Face):
    """API keys and tenants."""

    def for_tenant(self, tenant: str) -> Self:
        """A client of the same database and the same person for another tenant; * is the installation."""
        return type(self)(self._client.for_tenant(tenant), self._loop)

    def add_key(
        self, name: str, *, roles: Sequence[str], tenant: str | None = None, expires_at: datetime | None = None
    ) -> NewKey:
        """Make an API key; what it returns has the key itself, which can never be read again."""
        return self._loop.run(self._client.add_key(name, roles=roles, tenant=tenant, expires_at=expires_at))

    def knows_key(self, key: str) -> bool:
        """Whether a key can be used now."""
        return self._loop.run(self._client.knows_key(key))

    def keys(self) -> list[Key]:
        """The API keys of the tenant, newest first; with the tenant * the keys of all."""
        return self._loop.run(self._client.keys())

    def revoke_key(self, prefix: str) -> Key:
        """End a key. Processes that know it forget it within five seconds."""
        return self._loop.run(self._client.revoke_key(prefix))

    def sign_in_code(self, prefix: str) -> str:
        """A code with which a browser signs in once, within a minute, for the holder of the key with that prefix."""
        return self._loop.run(self._client.sign_in_code(prefix))

    def tenants(self) -> list[Tenant]:
        """The tenants that an administrator has made, by name. Others exist by their jobs alone."""
        return self._loop.run(self._client.tenants())

    def keep_tenant(self, name: str, *, queues: Sequence[str] | None = None) -> KeptTenant:
        """Make a tenant, or bind it to other queues; None: it may use every queue. In force within five seconds."""
        return self._loop.run(self._client.keep_tenant(name, queues=queues))
