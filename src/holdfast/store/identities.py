"""API keys, tenants and browsers that are signed in, in Postgres."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.store.audit_rows import NOWHERE, Origin
from holdfast.store.columns import by_name, records
from holdfast.store.connection import Answer, answer_of
from holdfast.store.identity_rows import KeyRow, SessionRow, TenantRow
from holdfast.store.queries import query
from holdfast.store.session import PostgresSession

ROLE = "identities"
REMEMBERED_SECONDS = 4.0
"""How long the queues of a tenant are not read again: another binding is in force within five seconds."""
MOST_REMEMBERED = 10_000


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

    async def key(self, prefix: str, secret_hash: str) -> KeyRow | None:
        """The key of a request: if the hash is its own, the minute of this use is kept."""
        return next(iter(await self._keys("use_key", prefix=prefix, secret_hash=secret_hash)), None)

    async def revoke_key(self, prefix: str, actor: str) -> KeyRow | None:
        return next(iter(await self._keys("revoke_key", prefix=prefix, **self._origin.signed(actor))), None)

    async def tenants(self) -> list[TenantRow]:
        return records(TenantRow, await self._ask("read_tenants"))

    async def keep_tenant(self, name: str, queues: Sequence[str] | None, actor: str) -> tuple[TenantRow, bool]:
        parameters = {"name": name, "queues": list(queues) if queues is not None else None}
        answer = await self._ask("keep_tenant", **parameters, **self._origin.signed(actor))
        self._store.queues_of_tenants.pop(name, None)
        (made,), (row,) = records(TenantRow, answer), by_name(answer)
        return made, row["is_new"]

    async def bound_queues(self, tenants: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """The queues of those tenants that are bound, as they were within the last seconds."""
        known, now = self._store.queues_of_tenants, time.monotonic()
        asked = set(tenants)
        unknown = sorted(name for name in asked if name not in known or known[name][0] <= now)
        if unknown:
            if len(known) + len(unknown) > MOST_REMEMBERED:
                known.clear()
            found = {row["name"]: row["queues"] for row in by_name(await self._ask("bound_queues", tenant=unknown))}
            known.update({name: (now + REMEMBERED_SECONDS, found.get(name)) for name in unknown})
        bound = {name: known[name][1] for name in asked if name in known}
        return {name: queues for name, queues in bound.items() if queues is not None}

    async def add_session(self, row: SessionRow, seconds: float) -> SessionRow:
        (made,) = by_name(
            await self._ask(
                "add_session",
                token_hash=row.token_hash,
                name=row.name,
                tenant=row.tenant,
                roles=list(row.roles),
                key_prefix=row.key_prefix,
                until=row.expires_at,
                seconds=seconds,
            )
        )
        return row._replace(expires_at=made["expires_at"])

    async def session(self, token_hash: str) -> SessionRow | None:
        return next(iter(records(SessionRow, await self._ask("read_session", token_hash=token_hash))), None)

    async def end_session(self, token_hash: str) -> None:
        await self._ask("end_session", token_hash=token_hash)

    async def add_sign_in_code(self, code_hash: str, key_prefix: str, seconds: float) -> bool:
        answer = await self._ask("add_sign_in_code", code_hash=code_hash, key_prefix=key_prefix, seconds=seconds)
        return bool(by_name(answer))

    async def use_sign_in_code(self, code_hash: str) -> KeyRow | None:
        return next(iter(await self._keys("use_sign_in_code", code_hash=code_hash)), None)

    async def living(self, keys: Sequence[str], sessions: Sequence[str]) -> set[tuple[str, str]]:
        """Those of these keys and sessions that are valid now, each with its kind."""
        answer = await self._ask("living_credentials", keys=list(keys), sessions=list(sessions))
        return {(row["kind"], row["credential"]) for row in by_name(answer)}

    async def _keys(self, statement: str, /, **parameters: Any) -> list[KeyRow]:
        return records(KeyRow, await self._ask(statement, **parameters))

    async def _ask(self, statement: str, /, **parameters: Any) -> Answer:
        async with self._store.connections.use(ROLE) as connection:
            cursor = await connection.execute(query(statement), parameters)
            return await answer_of(cursor)
