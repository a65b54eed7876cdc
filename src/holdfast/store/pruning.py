"""Deletes finished jobs with all their rows and objects. Knows nothing of what is unfinished: it never touches it.

Rows go first, in one transaction for each batch, and with them comes a line in `discarded`; then the objects go, then
that line. A process that is killed in between leaves lines, and the next prune removes their objects.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg

from holdfast import failpoint
from holdfast.errors import PayloadUnavailable
from holdfast.log_events import EventLog
from holdfast.store.arrays import plain
from holdfast.store.audit import ROLE as AUDIT
from holdfast.store.audit import Change, extend_change, write_change
from holdfast.store.audit_rows import INSTALLATION, Origin
from holdfast.store.columns import by_name, records
from holdfast.store.connection import Answer
from holdfast.store.outage import unreachable
from holdfast.store.payloads import AT_ONCE
from holdfast.store.queries import query
from holdfast.store.records import FIRST_JOB
from holdfast.store.session import PostgresSession
from holdfast.store.upkeep_rows import EVERY_STATUS, OldestLeft, Pruned, PrunedJob

log = EventLog("holdfast.store")

BATCH_JOBS = 200
BATCH_TASKS = 10_000
"""The most jobs and tasks of one transaction. A job is never split; a wider one has a transaction of its own."""


class PostgresPruning:
    """Keeps the promises of `janitor.ports.PruneStore`. Any number may prune at once: each skips what another holds."""

    def __init__(self, store: PostgresSession) -> None:
        self._connections = store.connections
        self._objects = store.payloads.objects if store.payloads is not None else None

    async def find(
        self, older_than_seconds: float, statuses: Sequence[str] = EVERY_STATUS, *, most: int | None = None
    ) -> list[Pruned]:
        """What may go, by workflow and status; at most the `most` oldest jobs."""
        cutoff = await self._cutoff(older_than_seconds)
        return records(Pruned, await self._ask("find_prunable", cutoff=cutoff, statuses=plain(statuses), most=most))

    async def oldest_left(self, older_than_seconds: float, statuses: Sequence[str] = EVERY_STATUS) -> OldestLeft | None:
        """The oldest finished job that stays when all that may go has gone."""
        cutoff = await self._cutoff(older_than_seconds)
        left = records(OldestLeft, await self._ask("oldest_left", cutoff=cutoff, statuses=plain(statuses)))
        return left[0] if left else None

    async def prune(
        self,
        older_than_seconds: float,
        statuses: Sequence[str] = EVERY_STATUS,
        *,
        within_seconds: float | None = None,
        on_batch: Callable[[int], None] = lambda jobs: None,
        by: tuple[str, Origin] | None = None,
    ) -> list[Pruned]:
        """Delete what may go, oldest first, and finish what others have left; returns what was deleted.

        No batch begins after `within_seconds`. `on_batch` is called with the number of jobs deleted so far. `by` is the
        person who asks for it: the audit has a line before the first job is deleted.
        """
        until = time.monotonic() + within_seconds if within_seconds is not None else None
        await self.finish_leftovers()
        cutoff, place = await self._cutoff(older_than_seconds), {"after_time": "-infinity", "after_job": FIRST_JOB}
        terms = {"cutoff": cutoff, "statuses": plain(statuses)}
        gone: list[PrunedJob] = []
        line: int | None = None
        while until is None or time.monotonic() < until:
            answer = await self._ask("next_prunable", **terms, **place, jobs=BATCH_JOBS, tasks=BATCH_TASKS)
            batch = by_name(answer)
            if not batch:
                break
            place = {"after_time": batch[-1]["finished_at"], "after_job": batch[-1]["job_id"]}
            jobs = plain(row["job_id"] for row in batch)
            if by is not None and line is None:
                asked = {"older_than_seconds": older_than_seconds, "statuses": list(statuses)}
                line = await self._note(Change("jobs.prune", INSTALLATION, after=asked), *by)
            deleted = records(PrunedJob, await self._ask("prune_jobs", **terms, jobs=jobs))
            await failpoint.hit("prune.after_commit")
            await self._remove_objects([job.job_id for job in deleted])
            gone += deleted
            if line is not None:
                await self._count(line, len(gone))
            on_batch(len(gone))
        return _summary(gone)

    async def _note(self, change: Change, actor: str, origin: Origin) -> int:
        async with self._connections.use(AUDIT) as connection:
            return await write_change(connection, change, actor, origin)

    async def _count(self, line: int, jobs: int) -> None:
        async with self._connections.use(AUDIT) as connection:
            await extend_change(connection, line, {"jobs": jobs})

    async def leftovers(self, age_seconds: float = 0.0) -> int:
        """How many jobs have objects left, that long after their rows were deleted."""
        if self._objects is None:
            return 0
        (row,) = by_name(await self._ask("count_discarded", age=age_seconds))
        return int(row["jobs"])

    async def finish_leftovers(self, age_seconds: float = 0.0) -> int:
        """Remove the objects of jobs whose rows have gone; returns of how many jobs that was done."""
        done, after = 0, FIRST_JOB
        while rows := by_name(await self._ask("discarded", after=after, age=age_seconds, limit=BATCH_JOBS)):
            jobs = [row["job_id"] for row in rows]
            after = jobs[-1]
            done += await self._remove_objects(jobs)
        return done

    async def _remove_objects(self, jobs: Sequence[str]) -> int:
        """Also what no row referred to: an object may have been stored for a report that was rejected."""
        if self._objects is None or not jobs:
            return 0
        turns = asyncio.Semaphore(AT_ONCE)
        removed = [job for job in await asyncio.gather(*(self._remove(job, turns) for job in jobs)) if job is not None]
        await failpoint.hit("prune.after_objects")
        await self._ask("forget_discarded", jobs=plain(removed))
        return len(removed)

    async def _remove(self, job_id: str, turns: asyncio.Semaphore) -> str | None:
        """Returns the job's id; None if its objects cannot be removed now: the line stays for the next prune."""
        assert self._objects is not None
        try:
            async with turns:
                await asyncio.to_thread(self._objects.remove_job, job_id)
        except PayloadUnavailable as problem:
            log.write("payloads_left_behind", reason=problem)
            return None
        return job_id

    async def _cutoff(self, older_than_seconds: float) -> str:
        (row,) = by_name(await self._ask("cutoff", age=older_than_seconds))
        return str(row["cutoff"])

    async def _ask(self, statement: str, /, **parameters: Any) -> Answer:
        try:
            return (await self._connections.exchange("prune", (query(statement), parameters)))[0]
        except psycopg.OperationalError as error:
            raise unreachable(self._connections.url, error) from None


def _summary(gone: Iterable[PrunedJob]) -> list[Pruned]:
    groups: dict[tuple[str, str], Pruned] = {}
    for job in gone:
        key = (job.workflow_id, job.status)
        group = groups.get(key, Pruned(job.workflow_id, job.status, 0, 0, 0, job.finished_at))
        groups[key] = group._replace(
            jobs=group.jobs + 1,
            tasks=group.tasks + job.tasks,
            bytes=group.bytes + job.bytes,
            oldest=min(group.oldest, job.finished_at),
        )
    return sorted(groups.values())
