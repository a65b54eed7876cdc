"""What all readers of the database share: run a named statement for one tenant or for all, and return its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.store.columns import by_name, records
from holdfast.store.connection import Answer, Connections, answer_of
from holdfast.store.payloads import Payloads
from holdfast.store.queries import query

R = TypeVar("R")

# The planner does not know how many rows a job has. If it believes that they are few, it reads all of them and sorts
# them, for each page.
INDEX_SETTINGS = "select " + ", ".join(
    f"set_config('{name}', 'off', true)" for name in ("enable_bitmapscan", "enable_sort", "enable_incremental_sort")
)


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
        values = {"tenant": self._tenant} | parameters
        async with self._connections.use("reading") as connection:
            async with connection.pipeline(), connection.transaction():
                await connection.execute(INDEX_SETTINGS)
                cursor = await connection.execute(query(statement), values, prepare=True)
            return records(kind, await answer_of(cursor))

    async def _fetch(self, statement: str, /, **parameters: Any) -> list[dict[str, Any]]:
        return by_name(await self._answer(statement, **parameters))

    async def _answer(self, statement: str, /, **parameters: Any) -> Answer:
        async with self._connections.use("reading") as connection:
            values = {"tenant": self._tenant} | parameters
            return await answer_of(await connection.execute(query(statement), values, prepare=True))
