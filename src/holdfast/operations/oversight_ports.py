"""What those who look after a tenant or an installation need from a store."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from holdfast.meters import Sample
from holdfast.store.stats_rows import CauseRow, LastPass, PausedJobs, StatsRow


class OversightStore(Protocol):
    """The share of one tenant, or everything. Never writes."""

    async def causes(self, *, everything: bool) -> list[CauseRow]:
        """What a person of the tenant should look at; with `everything` also alerts that concern no job."""
        ...

    async def stats(self, since: datetime, step_seconds: int) -> list[StatsRow]:
        """What happened since then, by steps; steps in which nothing happened are left out."""
        ...

    async def last_pass(self) -> LastPass:
        """When the janitor was here last, and which migration was applied last."""
        ...

    async def paused_jobs(self) -> list[PausedJobs]:
        """The paused jobs of the tenant, by workflow."""
        ...


class FigureStore(Protocol):
    """The figures of one tenant, or of the whole installation, for a monitoring system."""

    async def read(self) -> list[Sample]:
        """All of them at one time. What can grow is counted up to a limit, in a few seconds at most."""
        ...
