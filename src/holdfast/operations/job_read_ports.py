"""What operations need from a store for people who look at the details of one job. Never writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

from holdfast.store.data_rows import ArtifactView, CheckpointRow, ResultRow
from holdfast.store.job_read_rows import EndedRow, GenerationRow, RunRow, WholeTaskRow
from holdfast.store.read_rows import AttemptView


class JobReadStore(Protocol):
    """The details of the jobs of one tenant. Item -1 is a node's own task."""

    async def task_runs(self, job_id: str, node: str) -> list[RunRow]:
        """How a node's items stand, and open ones in the queue, in one read."""
        ...

    async def ended_by_time(
        self, job_id: str, since: datetime, until: datetime, seconds: float, buckets: int
    ) -> list[EndedRow]:
        """How many tasks of each node ended in each stretch of that many seconds."""
        ...

    async def generations(self, job_id: str, after: int, limit: int) -> list[GenerationRow]:
        """One page of the generations of a job, behind the one that the event `after` began."""
        ...

    async def task(self, job_id: str, node: str, item: int) -> WholeTaskRow | None:
        """One task with its data; None if it is not made yet. Large values are read from the object store."""
        ...

    async def latest_attempts(self, job_id: str, node: str, item: int, limit: int) -> list[AttemptView]:
        """The latest attempts at a task that failed or printed something, the last one first, until there is much."""
        ...

    async def latest_checkpoints(self, job_id: str, node: str, item: int, limit: int) -> list[CheckpointRow]:
        """The latest checkpoints of a task, the last one first, until there is much."""
        ...

    async def results_page(
        self, job_id: str, node: str, status: str | None, after: int, limit: int
    ) -> tuple[list[ResultRow], bool]:
        """The results behind that item, and whether there are more: a page ends when its values are large."""
        ...

    async def artifacts_of_name(
        self, job_id: str, name: str, *, node: str | None, item: int | None, limit: int
    ) -> list[ArtifactView]:
        """The files of that name that the tasks of a job have published."""
        ...

    def artifact_parts(self, job_id: str, digest: str, first: int, length: int, size: int) -> AsyncIterator[bytes]:
        """A file of that size, or a range of it, part by part; the last part of a whole file only if it is intact."""
        ...
