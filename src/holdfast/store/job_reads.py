"""Reads of one job for people who look at its details: maps, timelines, generations, single tasks, results and files.

What a job can have a hundred thousand of is read in pages, or is counted by the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import orjson

from holdfast.store.data import PAGE_BYTES, PostgresDataReader
from holdfast.store.data_rows import ArtifactView, CheckpointRow, ResultRow
from holdfast.store.job_read_rows import EndedRow, GenerationRow, RunRow, WholeTaskRow
from holdfast.store.payloads import verified
from holdfast.store.read_rows import AttemptView

RESULT_BYTES = 8 << 20
"""Where a page of results ends, however few it has: large ones are read from the object store."""


class PostgresJobReads(PostgresDataReader):
    """Keeps the promises of `operations.job_read_ports.JobReadStore`."""

    async def task_runs(self, job_id: str, node: str) -> list[RunRow]:
        """How a node's items stand, and open ones in the queue."""
        return await self._by_index(RunRow, "task_runs", job=job_id, node=node)

    async def ended_by_time(
        self, job_id: str, since: datetime, until: datetime, seconds: float, buckets: int
    ) -> list[EndedRow]:
        """How many tasks of each node ended in each stretch of that many seconds."""
        return await self._by_index(
            EndedRow, "ended_by_time", job=job_id, since=since, until=until, seconds=seconds, buckets=buckets
        )

    async def generations(self, job_id: str, after: int, limit: int) -> list[GenerationRow]:
        """One page of the generations of a job, behind the one that the event `after` began."""
        return await self._records(GenerationRow, "read_generations", job=job_id, after=after, limit=limit)

    async def task(self, job_id: str, node: str, item: int) -> WholeTaskRow | None:
        """One task with its data; None if it is not made yet. Large values are read from the object store."""
        for row in await self._records(WholeTaskRow, "read_task", job=job_id, node=node, item=item):
            return row._replace(
                params=await self._value(job_id, row.params, row.params_ref),
                output=await self._value(job_id, row.output, row.output_ref),
            )
        return None

    async def latest_attempts(self, job_id: str, node: str, item: int, limit: int) -> list[AttemptView]:
        """The latest attempts at a task that failed or printed something, the last one first."""
        place = {"job": job_id, "node": node, "item": item}
        return await self._by_index(AttemptView, "latest_attempts", **place, limit=limit, bytes=PAGE_BYTES)

    async def latest_checkpoints(self, job_id: str, node: str, item: int, limit: int) -> list[CheckpointRow]:
        """The latest checkpoints of a task, the last one first."""
        place = {"job": job_id, "node": node, "item": item}
        return await self._by_index(CheckpointRow, "latest_checkpoints", **place, limit=limit, bytes=PAGE_BYTES)

    async def results_page(
        self, job_id: str, node: str, status: str | None, after: int, limit: int
    ) -> tuple[list[ResultRow], bool]:
        """The results behind that item, and whether there may be more: a page ends when its values are large."""
        place: dict[str, Any] = {"job": job_id, "node": node, "status": status, "after": after}
        rows = await self._by_index(ResultRow, "read_results", **place, limit=limit, bytes=PAGE_BYTES)
        page: list[ResultRow] = []
        size = 0
        for row in rows:
            if row.output_ref is not None:
                if size >= RESULT_BYTES:
                    return page, True
                stored = await self._object_store(job_id, row.output_ref).get(job_id, row.output_ref)
                size += len(stored)
                row = row._replace(output=orjson.loads(stored), output_ref=None)
            page.append(row)
        if not page or len(page) == limit:
            return page, bool(page)
        # The page has ended because it is large, or because there are no more: only a look tells.
        place["after"] = page[-1].item
        return page, bool(await self._by_index(ResultRow, "read_results", **place, limit=1, bytes=1))

    async def artifacts_of_name(
        self, job_id: str, name: str, *, node: str | None, item: int | None, limit: int
    ) -> list[ArtifactView]:
        """The files of that name that the tasks of a job have published."""
        place = {"job": job_id, "name": name, "node": node, "item": item}
        return await self._by_index(ArtifactView, "artifacts_of_name", **place, limit=limit)

    async def artifact_parts(
        self, job_id: str, digest: str, first: int, length: int, size: int
    ) -> AsyncIterator[bytes]:
        """A file of that size, or a range of it, part by part; the last part of a whole file only if it is intact."""
        objects = self._object_store(job_id, digest).objects
        parts = objects.parts(job_id, digest, first, length)
        if (first, length) == (0, size):
            parts = verified(job_id, digest, parts, objects.place)
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            yield part
