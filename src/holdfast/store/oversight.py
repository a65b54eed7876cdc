"""Reads for those who look after a tenant or an installation: what to look at, what happened, what is paused."""

from __future__ import annotations

from datetime import datetime

from holdfast.store.reader import PostgresReader
from holdfast.store.stats_rows import CauseRow, LastPass, PausedJobs, StatsRow

WALK = 10_000
"""How many ended jobs one look judges, and how many deliveries: the newest, of jobs those that ended with an error."""
SHOWN = 50
"""How many causes of each kind one look gives."""
PATIENCE_SECONDS = 10.0
"""What is younger than that may still be taken care of."""


class PostgresOversight(PostgresReader):
    """Keeps the promises of `operations.oversight_ports.OversightStore`."""

    async def causes(self, *, everything: bool) -> list[CauseRow]:
        found = await self._records(CauseRow, "attention_to_ended_jobs", walk=WALK, limit=SHOWN)
        found += await self._records(CauseRow, "attention_to_open_jobs", patience=PATIENCE_SECONDS, limit=SHOWN)
        found += await self._records(CauseRow, "attention_to_signals", patience=PATIENCE_SECONDS, limit=SHOWN)
        found += await self._records(CauseRow, "attention_to_schedules", limit=SHOWN)
        found += await self._records(CauseRow, "attention_to_receivers", walk=WALK, limit=SHOWN)
        found += await self._records(CauseRow, "attention_to_alerts", everything=everything, limit=SHOWN)
        return found

    async def stats(self, since: datetime, step_seconds: int) -> list[StatsRow]:
        return await self._records(StatsRow, "read_stats", since=since, step=step_seconds)

    async def last_pass(self) -> LastPass:
        (found,) = await self._records(LastPass, "last_pass")
        return found

    async def paused_jobs(self) -> list[PausedJobs]:
        return await self._records(PausedJobs, "paused_jobs")
