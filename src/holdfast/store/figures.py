"""Reads the figures of an installation for a monitoring system, at a bounded cost."""

from __future__ import annotations

from holdfast.meters import OTHER, Sample
from holdfast.store.columns import by_name
from holdfast.store.reader import HASH_SETTINGS, PostgresReader

NAMES = 100
"""How many queues and breakers are named."""
MOST = 200_000
"""How many rows of a table are counted."""
SECONDS = 5
SETTINGS = HASH_SETTINGS | {"statement_timeout": f"{SECONDS}s"}


class PostgresFigures(PostgresReader):
    """Keeps the promises of `operations.oversight_ports.FigureStore`."""

    async def read(self) -> list[Sample]:
        limits = {"most": MOST, "names": NAMES, "other": OTHER}
        rows = by_name(await self._with_settings(SETTINGS, "figures", **limits))
        return [Sample(row["metric"], row["value"], tuple(row["labels"])) for row in rows]
