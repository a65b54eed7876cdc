"""The defaults of a tenant as people see and change them. Submissions fill them in, elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from holdfast.store.arrays import jsons, texts
from holdfast.store.audit import Change, write_change
from holdfast.store.audit_rows import NOWHERE, Origin
from holdfast.store.columns import records
from holdfast.store.connection import Connection, answer_of
from holdfast.store.queries import query
from holdfast.store.read_rows import DefaultRow
from holdfast.store.session import PostgresSession

ROLE = "defaults"


class PostgresDefaults:
    """Keeps the promises of `operations.ports.DefaultsStore`."""

    def __init__(self, store: PostgresSession, origin: Origin = NOWHERE) -> None:
        self._store = store
        self._origin = origin

    async def read(self, tenant: str) -> list[DefaultRow]:
        async with self._store.connections.use(ROLE) as connection:
            return await _read(connection, tenant)

    async def change(
        self, tenant: str, decide: Callable[[Mapping[str, Any]], Mapping[str, Any]], actor: str, reason: str
    ) -> list[DefaultRow]:
        """Change defaults under a lock, so that two changes are never checked apart and stored together."""
        async with self._store.connections.use(ROLE) as connection, connection.transaction():
            await connection.execute(query("take_defaults_turn"), {"tenant": tenant})
            known = {row.name: row.value for row in await _read(connection, tenant) if row.is_set}
            changes = decide(known)
            if changes:
                rows = {"name": texts(changes), "value": jsons(changes.values())}
                await connection.execute(
                    query("write_defaults"), {"tenant": tenant, "actor": actor, "reason": reason, **rows}
                )
                action = "defaults.reset" if all(value is None for value in changes.values()) else "defaults.set"
                change = Change(action, tenant, before={name: known.get(name) for name in changes}, after=dict(changes))
                await write_change(connection, change, actor, self._origin, reason)
            return await _read(connection, tenant)


async def _read(connection: Connection, tenant: str) -> list[DefaultRow]:
    found = records(DefaultRow, await answer_of(await connection.execute(query("read_defaults"), {"tenant": tenant})))
    return [row._replace(value=None if row.value is None else orjson.loads(row.value)) for row in found]
