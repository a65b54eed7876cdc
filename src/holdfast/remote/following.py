"""Following a job through the service: by the stream of its events, and by looking again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Protocol

from holdfast.errors import HoldfastError, Unreachable
from holdfast.operations import logs, reading, watching
from holdfast.views.history import Attempt, Event, Task, last_lines, without_beginning
from holdfast.views.jobs import Job
from holdfast.views.streams import Streamed

NOW = "now"
"""In the place of a number of an event: the stream begins with what happens next."""
LOOK_SECONDS = 1.0


class Reads(Protocol):
    """What is asked."""

    async def job(self, job_id: str, *, whole: bool = True) -> Job: ...

    def stream(self, job_id: str, *, after: str | int) -> AsyncGenerator[Streamed, None]: ...

    async def tasks(self, job_id: str, *, node: str | None = None, limit: int = 1) -> list[Task]: ...

    async def attempts(
        self, job_id: str, *, node: str | None = None, index: int | None = None, limit: int = 1
    ) -> list[Attempt]: ...

    async def running_attempts(
        self, job_id: str, *, node: str | None = None, index: int | None = None
    ) -> list[Attempt]: ...


async def watch(
    client: Reads,
    job_id: str,
    *,
    whole: bool,
    every_look: bool,
    wake: asyncio.Event | None,
    on_outage: Callable[[Unreachable], None],
) -> AsyncIterator[Job]:
    """The job as it is now, then whenever it has changed, until it has ended.

    Events announce most changes; how far a task has come is no event.
    """
    wake = wake if wake is not None else asyncio.Event()

    async def look() -> Job:
        return await client.job(job_id, whole=whole)

    async def announce() -> None:
        # Without the stream the watch only looks less often.
        with contextlib.suppress(HoldfastError):
            async with contextlib.aclosing(client.stream(job_id, after=NOW)) as steps:
                async for _ in steps:
                    wake.set()
        wake.set()

    announcing = asyncio.create_task(announce())
    try:
        looks = watching.watch_by(
            look, every_look=every_look, wake=wake, on_outage=on_outage, look_seconds=LOOK_SECONDS
        )
        async for job in looks:
            yield job
    finally:
        announcing.cancel()
        await asyncio.gather(announcing, return_exceptions=True)


async def follow_events(client: Reads, job_id: str, *, after: int, node: str | None) -> AsyncIterator[Event]:
    """The events of a job so far, and then as they happen, until the job has ended."""
    wanted = await _node_name(client, job_id, node) if node is not None else None
    async with contextlib.aclosing(client.stream(job_id, after=after)) as steps:
        async for step in steps:
            if step.event is not None and wanted in (None, step.event.node):
                yield step.event


async def _node_name(client: Reads, job_id: str, text: str) -> str:
    """The name of the node that is meant; the service refuses one that the job does not have."""
    node = (await client.job(job_id, whole=False)).node(text)
    if node is None:
        await client.tasks(job_id, node=text, limit=1)
    return node.node if node is not None else text


async def follow_logs(
    client: Reads, job_id: str, *, node: str | None, index: int | None, tail: int | None
) -> AsyncIterator[Attempt]:
    """What attempts have printed so far, then only the new lines, until the job has ended.

    Of attempts that have ended it sees the first thousand.
    """
    read: dict[tuple[str, int | None, int], tuple[int, str]] = {}
    ended: set[tuple[str, int | None, int]] = set()
    while True:
        is_over = (await client.job(job_id, whole=False)).is_terminal
        for attempt in await client.running_attempts(job_id, node=node, index=index):
            key = (attempt.node, attempt.index, attempt.attempt)
            new = without_beginning(attempt, *read.get(key, (0, "")))
            log = attempt.log or ""
            read[key] = len(log), log[-logs.LAST_CHARACTERS :]
            if new.log:
                yield last_lines(new, tail)
        for attempt in await client.attempts(job_id, node=node, index=index, limit=reading.LONGEST_PAGE):
            key = (attempt.node, attempt.index, attempt.attempt)
            if key not in ended:
                ended.add(key)
                yield last_lines(without_beginning(attempt, *read.pop(key, (0, ""))), tail)
        if is_over:
            return
        tail = None
        await asyncio.sleep(logs.LOOK_SECONDS)
