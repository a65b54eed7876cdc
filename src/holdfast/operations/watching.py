"""Following a job until it ends: its state whenever it changes, or its events as they happen."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from holdfast.core.states import JOB_TERMINAL
from holdfast.errors import Unreachable
from holdfast.operations.ports import OperationsStore
from holdfast.operations.reading import events
from holdfast.operations.scope import Scope
from holdfast.views.history import Event
from holdfast.views.jobs import Job, job_view

LOOK_SECONDS = 0.2
PATIENCE_SECONDS = 60.0
"""How long a database may be out of reach before a watch gives up; the job itself waits for it."""


async def watch(
    scope: Scope,
    store: OperationsStore,
    job_id: str,
    *,
    whole: bool = True,
    every_look: bool = False,
    wake: asyncio.Event | None = None,
    on_outage: Callable[[Unreachable], None] = lambda reason: None,
) -> AsyncIterator[Job]:
    """The job as it is now, then whenever it has changed, until it has ended; with `every_look` also in between.

    `wake` may announce a change before the next look. `on_outage` is called when the database is lost; the watch goes
    on when it answers again within a minute.
    """
    reader = store.reads(scope.tenant)

    async def look() -> Job:
        return job_view(await reader.snapshot(job_id, whole=whole))

    async for job in watch_by(look, every_look=every_look, wake=wake, on_outage=on_outage):
        yield job


async def watch_by(
    look: Callable[[], Awaitable[Job]],
    *,
    every_look: bool,
    wake: asyncio.Event | None,
    on_outage: Callable[[Unreachable], None],
    look_seconds: float = LOOK_SECONDS,
) -> AsyncIterator[Job]:
    """The same, however one looks, and how often if nothing announces a change."""
    last: Job | None = None
    away_since: float | None = None
    while True:
        try:
            job = await look()
        except Unreachable as reason:
            if away_since is None:
                away_since = time.monotonic()
                on_outage(reason)
            elif time.monotonic() - away_since > PATIENCE_SECONDS:
                raise
        else:
            away_since = None
            if every_look or job != last:
                yield job
            last = job
            if job.is_terminal:
                return
        await _until_next_look(wake, look_seconds)


async def follow_events(
    scope: Scope, store: OperationsStore, job_id: str, *, after: int = 0, node: str | None = None
) -> AsyncIterator[Event]:
    """The events of a job so far, and then as they happen, until the job has ended."""
    reader = store.reads(scope.tenant)
    while True:
        # Looked at before the events: if the job was over by then, they are complete.
        is_over = (await reader.snapshot(job_id, whole=False)).job.status in JOB_TERMINAL
        async for event in events(scope, store, job_id, after=after, node=node):
            after = event.seq
            yield event
        if is_over:
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _until_next_look(wake: asyncio.Event | None, seconds: float) -> None:
    if wake is None:
        await asyncio.sleep(seconds)
        return
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(wake.wait(), seconds)
    wake.clear()
