"""Following a job through the service. It is asked again and again: the only place that would change for a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from holdfast.errors import Unreachable
from holdfast.operations import logs, reading, watching
from holdfast.views.history import Attempt, Event, last_lines, without_beginning
from holdfast.views.jobs import Job


class Reads(Protocol):
    """What is asked."""

    async def job(self, job_id: str, *, whole: bool = True) -> Job: ...

    def events(self, job_id: str, *, after: int = 0, node: str | None = None) -> AsyncIterator[Event]: ...

    async def attempts(
        self, job_id: str, *, node: str | None = None, index: int | None = None, limit: int = 1
    ) -> list[Attempt]: ...

    async def running_attempts(
        self, job_id: str, *, node: str | None = None, index: int | None = None
    ) -> list[Attempt]: ...


def watch(
    client: Reads,
    job_id: str,
    *,
    whole: bool,
    every_look: bool,
    wake: asyncio.Event | None,
    on_outage: Callable[[Unreachable], None],
) -> AsyncIterator[Job]:
    """The job as it is now, then whenever it has changed, until it has ended."""

    async def look() -> Job:
        return await client.job(job_id, whole=whole)

    return watching.watch_by(look, every_look=every_look, wake=wake, on_outage=on_outage)


async def follow_events(client: Reads, job_id: str, *, after: int, node: str | None) -> AsyncIterator[Event]:
    """The events of a job so far, and then as they happen, until the job has ended."""
    while True:
        # Looked at before the events: if the job was over by then, they are complete.
        is_over = (await client.job(job_id, whole=False)).is_terminal
        async for event in client.events(job_id, after=after, node=node):
            after = event.seq
            yield event
        if is_over:
            return
        await asyncio.sleep(watching.LOOK_SECONDS)


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
