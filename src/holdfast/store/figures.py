"""Reads the figures of an installation for a monitoring system, at a bounded cost."""

from __future__ import annotations

from holdfast.meters import OTHER, Sample
from holdfast.store.columns import by_name
from holdfast.store.connection import answer_of
from holdfast.store.queries import query
from holdfast.store.reader import PostgresReader

NAMES = 100
"""How many queues and breakers are named."""
MOST = 200_000
"""How many rows of a table are counted."""
SECONDS = 5
IN_TIME = f"select set_config('statement_timeout', '{SECONDS}s', true)".encode()


class PostgresFigures(PostgresReader):
    """Keeps the promises of `operations.oversight_ports.FigureStore`."""

    async def read(self) -> list[Sample]:
        values = {"tenant": self._tenant, "most": MOST, "names": NAMES, "other": OTHER}
        async with self._connections.use("reading") as connection:
            async with connection.pipeline(), connection.transaction():
                await connection.execute(IN_TIME)
                cursor = await connection.execute(query("figures"), values, prepare=True)
            rows = by_name(await answer_of(cursor))
        return [Sample(row["metric"], row["value"], tuple(row["labels"])) for row in rows]
