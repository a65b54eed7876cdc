"""What operations about identities need from a store."""

from __future__ import annotations

from typing import Protocol

from holdfast.store.identity_rows import KeyRow


class IdentityStore(Protocol):
    """Who may use the service."""

    async def add_key(self, row: KeyRow) -> KeyRow:
        """Store a new API key."""
        ...

    async def keys(self, tenant: str | None) -> list[KeyRow]:
        """The API keys of a tenant, or of all, newest first."""
        ...

    async def key(self, prefix: str) -> KeyRow | None:
        """A key that is used now: the minute of its last use is kept."""
        ...

    async def revoke_key(self, prefix: str, actor: str) -> KeyRow:
        """End a key now."""
        ...

    async def has_keys(self) -> bool:
        """Whether any key is valid."""
        ...
