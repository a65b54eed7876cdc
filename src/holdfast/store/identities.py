"""API keys in Postgres."""

from __future__ import annotations

from typing import Any

from holdfast.store.audit_rows import NOWHERE, Origin
from holdfast.store.columns import records
from holdfast.store.connection import answer_of
from holdfast.store.identity_rows import KeyRow
from holdfast.store.queries import query
from holdfast.store.session import PostgresSession

ROLE = "identities"


class PostgresIdentities:
    """Keeps the promises of `operations.ports.IdentityStore`."""

    def __init__(self, store: PostgresSession, origin: Origin = NOWHERE) -> None:
        self._store = store
        self._origin = origin

    async def add_key(self, row: KeyRow) -> KeyRow:
        (made,) = await self._keys(
            "add_key",
            prefix=row.prefix,
            secret_hash=row.secret_hash,
            name=row.name,
            tenant=row.tenant,
            roles=list(row.roles),
            expires_at=row.expires_at,
            **self._origin.signed(row.created_by),
        )
        return made

    async def keys(self, tenant: str | None) -> list[KeyRow]:
        return await self._keys("read_keys", tenant=tenant)

    async def key(self, prefix: str) -> KeyRow | None:
        """A key that somebody uses: the minute of its last use is kept."""
        return next(iter(await self._keys("use_key", prefix=prefix)), None)

    async def revoke_key(self, prefix: str, actor: str) -> KeyRow:
        (revoked,) = await self._keys("revoke_key", prefix=prefix, **self._origin.signed(actor))
        return revoked

    async def has_keys(self) -> bool:
        """Whether any key is valid."""
        return any(not row.is_over for row in await self.keys(None))

    async def _keys(self, statement: str, /, **parameters: Any) -> list[KeyRow]:
        async with self._store.connections.use(ROLE) as connection:
            return records(KeyRow, await answer_of(await connection.execute(query(statement), parameters)))
