"""What operations need to read of the data of jobs, and of what attempts print. Never writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

from holdfast.store.data_rows import ArtifactView, CheckpointRow, FailedItems, ResultRow, TaskRow
from holdfast.store.output_rows import AfterAttempt, RunningPart, Seen
from holdfast.store.read_rows import AttemptView


class OutputReads(Protocol):
    """What attempts print, while they run and after their end."""

    async def running(
        self, job_id: str, node: str | None, item: int | None, seen: Seen, limit: int
    ) -> list[RunningPart]:
        """The next parts of running attempts that the reader has not seen."""
        ...

    async def ended(
        self, job_id: str, node: str | None, item: int | None, after: AfterAttempt, limit: int
    ) -> list[AttemptView]:
        """The next attempts that failed or printed something, in the order in which they ended."""
        ...


class DataStore(Protocol):
    """The data of the jobs of one tenant, or of all. Item -1 is a node's own task. Never writes."""

    async def tasks(
        self,
        job_id: str,
        *,
        node: str | None,
        status: str | None,
        after: tuple[str, int],
        limit: int,
        fingerprint: str | None = None,
    ) -> list[TaskRow]:
        """One page of a job's tasks after that node and item; with a fingerprint, those that failed in this way."""
        ...

    async def node_output(self, job_id: str, node: str) -> Any:
        """The output of a node."""
        ...

    async def task_output(self, job_id: str, node: str, item: int) -> tuple[str, Any] | None:
        """The status and the output of a task; None if the task is not made yet."""
        ...

    async def task_params(self, job_id: str, node: str, item: int) -> tuple[str, dict[str, Any] | None] | None:
        """The status and the params of a task, None if it was refused without params; None if it is not made yet."""
        ...

    def results(self, job_id: str, node: str, status: str | None = None) -> AsyncIterator[ResultRow]:
        """How the tasks of a node ended, by item, each with its output."""
        ...

    async def failed_items(self, job_id: str, node: str, limit: int) -> list[FailedItems]:
        """The failed items of a node, those that failed in the same way together, the largest groups first."""
        ...

    async def artifacts(
        self,
        job_id: str,
        *,
        node: str | None = None,
        item: int | None = None,
        name: str | None = None,
        after: tuple[str, int, str] = ...,
        limit: int | None = None,
    ) -> list[ArtifactView]:
        """The files that the job's tasks have published, by node, item and name; with a limit, one page of them."""
        ...

    async def copy_artifact(self, job_id: str, digest: str, target: Path) -> None:
        """Copy a published file out of the object store. Its content is verified."""
        ...

    def checkpoints(self, job_id: str, node: str, item: int | None = None) -> AsyncIterator[CheckpointRow]:
        """The checkpoints of a node's tasks, by item and number."""
        ...
