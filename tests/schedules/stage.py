"""Schedules on a test's database: a way to make them, to let their times pass, and to see what they have made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from holdfast.define.load import load_text
from holdfast.operations.schedules import prepare
from holdfast.schedules.service import Scheduler
from holdfast.store.postgres import PostgresStore
from holdfast.views.schedules import Schedule
from tests.running import Engine, client_of

FLOW = load_text("workflow_id: w\ninputs: {number: {type: integer, default: 1}}\nnodes: {a: {handler: echo}}")
FAR = "0 0 1 1 *"
"""Its next tick comes by itself only on New Year's Eve."""


class Stage:
    """A database with the workflow `w`, and two processes that would let schedules tick."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.client = engine.client
        self.stores = [PostgresStore(engine.url, f"holdfast test {number}") for number in (1, 2)]
        self.one, self.two = (scheduler_on(store) for store in self.stores)

    async def add(self, name: str = "s", **options: Any) -> Schedule:
        times = {} if "every_seconds" in options else {"cron": FAR}
        return await self.client.add_schedule(name, "w", **(times | options))

    async def pass_time(self, interval: str, name: str = "s") -> None:
        """The next tick was that long ago, and so was everything else of the schedule."""
        await self.engine.query(
            "update holdfast.schedules"
            " set next_at = next_at - d, anchored_at = anchored_at - d, revision = revision + 1"
            " from (select (select next_at from holdfast.schedules where name = %s) - now() + %s::interval) as x (d)"
            " where name = %s",
            name,
            interval,
            name,
        )

    async def let_tick(self, name: str = "s") -> None:
        """The next tick of the schedule is due now."""
        await self.pass_time("1 second", name)
        await self.one.run_once()

    async def jobs(self, name: str = "s") -> list[str]:
        """The jobs of the schedule, the oldest one first."""
        page = await self.client.jobs(labels={"schedule": name}, limit=500)
        return [job.job_id for job in reversed(page.jobs)]

    async def end_jobs(self, status: str = "completed") -> None:
        """As their owner would."""
        await self.engine.query(
            "update holdfast.jobs set status = %s, finished_at = now() where finished_at is null", status
        )
        await self.engine.query("delete from holdfast.inbox")

    async def alerts(self) -> list[str]:
        found = await self.engine.query(
            "select reason from holdfast.janitor_actions"
            " where duty = 'schedules' and action = 'alert' order by action_id"
        )
        return [reason for (reason,) in found]

    async def close(self) -> None:
        for store in self.stores:
            await store.close()


def scheduler_on(store: PostgresStore, lease_seconds: float = 1.0) -> Scheduler:
    return Scheduler(store.schedules(), partial(prepare, store), "test", lease_seconds=lease_seconds)


@asynccontextmanager
async def staged(url: str) -> AsyncIterator[Stage]:
    async with client_of(url) as engine:
        await engine.client.register(FLOW)
        stage = Stage(engine)
        try:
            yield stage
        finally:
            await stage.close()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
