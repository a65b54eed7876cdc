"""What operations about identities need from a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from holdfast.store.identity_rows import KeyRow, SessionRow, TenantRow


class IdentityStore(Protocol):
    """Who may use the service."""

    async def add_key(self, row: KeyRow) -> KeyRow:
        """Store a new API key."""
        ...

    async def keys(self, tenant: str | None) -> list[KeyRow]:
        """The API keys of a tenant, or of all, newest first."""
        ...

    async def key(self, prefix: str, secret_hash: str) -> KeyRow | None:
        """A key that is used now: if the hash is its own, the minute of its last use is kept."""
        ...

    async def revoke_key(self, prefix: str, actor: str) -> KeyRow | None:
        """End a key now; None if it was revoked already."""
        ...

    async def tenants(self) -> list[TenantRow]:
        """The tenants that an administrator has made, by name."""
        ...

    async def keep_tenant(self, name: str, queues: Sequence[str] | None, actor: str) -> tuple[TenantRow, bool]:
        """Make a tenant, or bind it to other queues; and whether it is new."""
        ...

    async def bound_queues(self, tenants: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """The queues of those tenants that are bound, as they were within the last five seconds."""
        ...

    async def add_session(self, row: SessionRow, seconds: float) -> SessionRow:
        """Sign a browser in for so long, or until the end that the row names if that comes first."""
        ...

    async def session(self, token_hash: str) -> SessionRow | None:
        """Whom the cookie with this hash stands for."""
        ...

    async def end_session(self, token_hash: str) -> None:
        """Sign a browser out."""
        ...

    async def add_sign_in_code(self, code_hash: str, key_prefix: str, seconds: float) -> bool:
        """Store a code that works once within so long; False if there is no such key."""
        ...

    async def use_sign_in_code(self, code_hash: str) -> KeyRow | None:
        """The key that a code stands for. The code works no more."""
        ...

    async def living(self, keys: Sequence[str], sessions: Sequence[str]) -> set[tuple[str, str]]:
        """Those of these keys and sessions that are valid now, each with its kind, `key` or `session`."""
        ...
