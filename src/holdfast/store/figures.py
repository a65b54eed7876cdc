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
# Lanes, gates and breakers may be many thousands: only hashes join them in time. What is joined was read before.
SETTINGS = {"statement_timeout": f"{SECONDS}s", "enable_hashjoin": "on"}
SET = ("select " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in SETTINGS.items())).encode()


class PostgresFigures(PostgresReader):
    """Keeps the promises of `operations.oversight_ports.FigureStore`."""

    async def read(self) -> list[Sample]:
        values = {"tenant": self._tenant, "most": MOST, "names": NAMES, "other": OTHER}
        async with self._connections.use("reading") as connection:
            async with connection.pipeline(), connection.transaction():
                await connection.execute(SET)
                cursor = await connection.execute(query("figures"), values, prepare=True)
            rows = by_name(await answer_of(cursor))
        return [Sample(row["metric"], row["value"], tuple(row["labels"])) for row in rows]
