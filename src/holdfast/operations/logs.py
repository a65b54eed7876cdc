"""What attempts print, also while they run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

from holdfast.core.states import JOB_TERMINAL
from holdfast.operations.ports import OperationsStore
from holdfast.operations.reading import check_node
from holdfast.operations.scope import Scope
from holdfast.store.output_rows import AfterAttempt, RunningPart
from holdfast.views.history import Attempt, attempt_view, last_lines, running_view, without_beginning

PAGE_LENGTH = 100
LOOK_SECONDS = 1.0
LAST_CHARACTERS = 200
OVERLAP_SECONDS = 10.0
"""How far back a reader looks for ended attempts: a transaction may commit after one that began later."""

Key = tuple[str, int, int]


async def running_attempts(
    scope: Scope, store: OperationsStore, job_id: str, *, node: str | None = None, index: int | None = None
) -> list[Attempt]:
    """Attempts that run now and have printed something, with their output so far, which is a second old at most."""
    reader = _Reader(scope, store, job_id, node, index)
    await reader.check()
    return await reader.running()


async def follow_logs(
    scope: Scope,
    store: OperationsStore,
    job_id: str,
    *,
    node: str | None = None,
    index: int | None = None,
    tail: int | None = None,
) -> AsyncIterator[Attempt]:
    """What attempts have printed so far, then what they print, until the job has ended.

    An attempt that runs comes several times, each time with the lines that are new and the outcome `running`. When it
    has ended it comes once more, with how it ended and the rest of its lines. With a `tail`, only that many of the last
    lines come of what each attempt has printed before.
    """
    reader = _Reader(scope, store, job_id, node, index)
    await reader.check()
    while True:
        # Looked at first: if the job was over by then, what follows is complete.
        is_over = await reader.is_over()
        for attempt in await reader.running():
            yield last_lines(attempt, tail)
        async for attempt in reader.ended():
            yield last_lines(attempt, tail)
        if is_over:
            return
        tail = None
        await asyncio.sleep(LOOK_SECONDS)


class _Reader:
    """Remembers what it has read of a job, and reads the rest."""

    def __init__(self, scope: Scope, store: OperationsStore, job_id: str, node: str | None, index: int | None) -> None:
        self._jobs = store.reads(scope.tenant)
        self._output = store.output_reads(scope.tenant)
        self._job_id, self._node, self._index = job_id, node, index
        self._parts: dict[Key, int] = {}
        self._read: dict[Key, tuple[int, str]] = {}
        """How many characters of each running attempt were read, and the last of them."""
        self._after = AfterAttempt()
        self._ended: set[Key] = set()

    async def check(self) -> None:
        await check_node(self._jobs, self._job_id, self._node)

    async def is_over(self) -> bool:
        return (await self._jobs.snapshot(self._job_id, whole=False)).job.status in JOB_TERMINAL

    async def running(self) -> list[Attempt]:
        """What running attempts have printed since the last call."""
        new: dict[Key, list[RunningPart]] = {}
        more = True
        while more:
            page = await self._output.running(self._job_id, self._node, self._index, self._parts, PAGE_LENGTH)
            for part in page:
                key = part.node, part.item, part.attempt
                self._parts[key] = part.part
                self._read[key] = self._read.get(key, (0, ""))[0] + len(part.log), part.log[-LAST_CHARACTERS:]
                new.setdefault(key, []).append(part)
            more = len(page) == PAGE_LENGTH
        return [running_view(parts) for parts in new.values()]

    async def ended(self) -> AsyncIterator[Attempt]:
        """The attempts that have ended since the last call, each with what was not read while it ran."""
        more = True
        while more:
            page = await self._output.ended(self._job_id, self._node, self._index, self._after, PAGE_LENGTH)
            for row in page:
                self._after = AfterAttempt(row.finished_at, row.node, row.item, row.attempt)
                key = row.node, row.item, row.attempt
                if key not in self._ended:
                    self._ended.add(key)
                    self._parts.pop(key, None)
                    yield without_beginning(attempt_view(row), *self._read.pop(key, (0, "")))
            more = len(page) == PAGE_LENGTH
        if self._after.time is not None:
            self._after = AfterAttempt(self._after.time - timedelta(seconds=OVERLAP_SECONDS))
