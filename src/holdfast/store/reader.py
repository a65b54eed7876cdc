"""What all readers of the database share: run a named statement for one tenant or for all, and return its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.store.columns import by_name, records
from holdfast.store.connection import Answer, Connection, Connections, answer_of
from holdfast.store.payloads import Payloads
from holdfast.store.queries import query

R = TypeVar("R")

# The planner does not know how many rows a job has. If it believes that they are few, it reads all of them and sorts
# them, for each page.
INDEX_SETTINGS = {"enable_bitmapscan": "off", "enable_sort": "off", "enable_incremental_sort": "off"}

# Lanes, gates and breakers may be many thousands: only hashes join them in time. Tables that Postgres last counted when
# they were empty would be joined row by row, so that is forbidden.
HASH_SETTINGS = {"enable_hashjoin": "on", "enable_nestloop": "off"}


async def ask_with(connection: Connection, settings: dict[str, str], statement: str, values: dict[str, Any]) -> Answer:
    """The answer under settings of Postgres, which end with the statement."""
    calls = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
    async with connection.pipeline(), connection.transaction():
        await connection.execute(f"select {calls}".encode())
        cursor = await connection.execute(query(statement), values, prepare=True)
    return await answer_of(cursor)


class PostgresReader:
    """Reads one database, for one tenant or for all. Never writes."""

    def __init__(self, connections: Connections, payloads: Payloads | None = None, tenant: str | None = None) -> None:
        """Without `payloads` large values are shown by their names. With a tenant only its jobs are found."""
        self._connections = connections
        self._payloads = payloads
        self._tenant = tenant

    async def _records(self, kind: Callable[..., R], statement: str, /, **parameters: Any) -> list[R]:
        return records(kind, await self._answer(statement, **parameters))

    async def _by_index(self, kind: Callable[..., R], statement: str, /, **parameters: Any) -> list[R]:
        """Rows of one job, of which there may be very many: they are read by an index, in its order, and not sorted."""
        return records(kind, await self._with_settings(INDEX_SETTINGS, statement, **parameters))

    async def _by_hash(self, kind: Callable[..., R], statement: str, /, **parameters: Any) -> list[R]:
        """Rows that are joined from whole tables."""
        return records(kind, await self._with_settings(HASH_SETTINGS, statement, **parameters))

    async def _with_settings(self, settings: dict[str, str], statement: str, /, **parameters: Any) -> Answer:
        async with self._connections.use("reading") as connection:
            return await ask_with(connection, settings, statement, {"tenant": self._tenant} | parameters)

    async def _fetch(self, statement: str, /, **parameters: Any) -> list[dict[str, Any]]:
        return by_name(await self._answer(statement, **parameters))

    async def _answer(self, statement: str, /, **parameters: Any) -> Answer:
        async with self._connections.use("reading") as connection:
            values = {"tenant": self._tenant} | parameters
            return await answer_of(await connection.execute(query(statement), values, prepare=True))
