"""Reads the data of a job for people: its tasks, their params and outputs, their failures, files and checkpoints.

Whatever a fan-out can have a hundred thousand of is read in pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson

from holdfast.errors import PayloadUnavailable
from holdfast.store.data_rows import (
    ArtifactView,
    CheckpointRow,
    FailedItems,
    ResultRow,
    StoredOutput,
    StoredParams,
    TaskRow,
)
from holdfast.store.payloads import Payloads
from holdfast.store.reader import PostgresReader

PAGE_ROWS = 1000
PAGE_BYTES = 1024 * 1024
"""Where a page ends, however few rows it has."""
BEFORE_ALL = -2
"""Below the item of every task: a node's own task is item -1."""


class PostgresDataReader(PostgresReader):
    """Keeps the promises of `operations.ports.DataStore`."""

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
        only = {"node": node, "status": status, "fingerprint": fingerprint}
        place = {"after_node": after[0], "after_item": after[1]}
        return await self._by_index(TaskRow, "read_tasks", job=job_id, limit=limit, **only, **place)

    async def node_output(self, job_id: str, node: str) -> Any:
        """The output of a node."""
        rows = await self._records(StoredOutput, "read_node_output", job=job_id, node=node)
        return await self._value(job_id, rows[0].output, rows[0].output_ref) if rows else None

    async def task_output(self, job_id: str, node: str, item: int) -> tuple[str, Any] | None:
        """The status and the output of a task; None if the task is not made yet."""
        for row in await self._records(StoredOutput, "read_task_output", job=job_id, node=node, item=item):
            return str(row.status), await self._value(job_id, row.output, row.output_ref)
        return None

    async def task_params(self, job_id: str, node: str, item: int) -> tuple[str, dict[str, Any] | None] | None:
        """The status and the params of a task, None if it was refused without params; None if it is not made yet."""
        for row in await self._records(StoredParams, "read_task_params", job=job_id, node=node, item=item):
            return row.status, await self._value(job_id, row.params, row.params_ref)
        return None

    async def results(self, job_id: str, node: str, status: str | None = None) -> AsyncIterator[ResultRow]:
        """How the tasks of a node ended, by item, each with its output. One large output is in memory at a time."""
        after = BEFORE_ALL
        while page := await self._by_index(
            ResultRow,
            "read_results",
            job=job_id,
            node=node,
            status=status,
            after=after,
            limit=PAGE_ROWS,
            bytes=PAGE_BYTES,
        ):
            for row in page:
                yield row._replace(output=await self._value(job_id, row.output, row.output_ref), output_ref=None)
            after = page[-1].item

    async def failed_items(self, job_id: str, node: str, limit: int) -> list[FailedItems]:
        """The failed items of a node, those that failed in the same way together, the largest groups first."""
        return await self._records(FailedItems, "failed_items", job=job_id, node=node, limit=limit)

    async def artifacts(
        self,
        job_id: str,
        *,
        node: str | None = None,
        item: int | None = None,
        name: str | None = None,
        after: tuple[str, int, str] = ("", BEFORE_ALL, ""),
        limit: int | None = None,
    ) -> list[ArtifactView]:
        """The files that the job's tasks have published, by node, item and name; with a limit, one page of them."""
        place = {"after_node": after[0], "after_item": after[1], "after_name": after[2]}
        return await self._by_index(
            ArtifactView, "read_artifacts", job=job_id, node=node, item=item, name=name, limit=limit, **place
        )

    async def copy_artifact(self, job_id: str, digest: str, target: Path) -> None:
        """Copy a published file out of the object store. Its content is verified."""
        objects = self._object_store(job_id, digest).objects
        await asyncio.to_thread(objects.read_file, job_id, digest, target)

    async def checkpoints(self, job_id: str, node: str, item: int | None = None) -> AsyncIterator[CheckpointRow]:
        """The checkpoints of a node's tasks, by item and number."""
        place = {"after_item": BEFORE_ALL, "after_seq": 0}
        while page := await self._by_index(
            CheckpointRow,
            "read_checkpoints",
            job=job_id,
            node=node,
            item=item,
            limit=PAGE_ROWS,
            bytes=PAGE_BYTES,
            **place,
        ):
            for row in page:
                yield row
            place = {"after_item": page[-1].item, "after_seq": page[-1].seq}

    async def _value(self, job_id: str, value: Any, digest: str | None) -> Any:
        if digest is None:
            return value
        return orjson.loads(await self._object_store(job_id, digest).get(job_id, digest))

    def _object_store(self, job_id: str, digest: str) -> Payloads:
        if self._payloads is None:
            raise PayloadUnavailable(
                f"Payload {digest} of job {job_id} is in an object store, and this client has none.",
                remedy="Name the object store: Client.connect(…, storage_url=…)",
                instance=job_id,
            )
        return self._payloads
