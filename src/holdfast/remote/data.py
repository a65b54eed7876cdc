"""The part of the client over a URL that reads the data of jobs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import orjson

from holdfast.errors import NotFound, PayloadUnavailable
from holdfast.operations import details
from holdfast.operations.data import OWN_TASK
from holdfast.operations.reading import LONGEST_PAGE
from holdfast.remedies import Remedy
from holdfast.remote.base import PAGE_LENGTH, Remote, path_of, query_of
from holdfast.views.data import Checkpoint, DataValue, TaskResult
from holdfast.views.details import Generation, GenerationPage, ResultPage, TaskDetails, TaskMap, Timeline
from holdfast.views.history import Artifact
from holdfast.views.jobs import Job


class RemoteData(Remote):
    """The data of a job: params, outputs, files and checkpoints."""

    async def output(self, job_id: str, node: str, *, index: int | None = None) -> DataValue:
        return await self._get(DataValue, path_of("jobs", job_id, "nodes", node, "output"), index=index)

    async def params(self, job_id: str, node: str, *, index: int | None = None) -> DataValue:
        return await self._get(DataValue, path_of("jobs", job_id, "nodes", node, "params"), index=index)

    async def checkpoints(self, job_id: str, node: str, *, index: int | None = None) -> AsyncIterator[Checkpoint]:
        path = path_of("jobs", job_id, "nodes", node, "checkpoints")
        async for one in self._every(Checkpoint, path, index=index, limit=LONGEST_PAGE):
            yield one

    async def artifacts(
        self,
        job_id: str,
        *,
        node: str | None = None,
        index: int | None = None,
        name: str | None = None,
        limit: int | None = None,
        after: Artifact | None = None,
    ) -> list[Artifact]:
        known = await self._node_name(job_id, node) if node is not None else None
        found: list[Artifact] = []
        begin = _cursor(_place(after)) if after is not None else None
        path = path_of("jobs", job_id, "artifacts")
        async with aclosing(self._every(Artifact, path, limit=PAGE_LENGTH, cursor=begin)) as files:
            async for one in files:
                if limit is not None and len(found) >= limit:
                    break
                if known in (None, one.node) and index in (None, one.index) and name in (None, one.name):
                    found.append(one)
        return found

    async def fetch_artifact(self, job_id: str, artifact: Artifact, target: Path) -> None:
        parts = self.artifact_parts(job_id, artifact)
        draft = target.with_name(f"{target.name}.part")
        try:
            with draft.open("wb") as file:
                async with aclosing(parts):
                    async for part in parts:
                        file.write(part)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)

    async def artifact_parts(
        self, job_id: str, artifact: Artifact, *, first: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        path = f"{path_of('jobs', job_id, 'artifacts')}/{quote(artifact.name)}"
        query = query_of(node=artifact.node, item=_item(artifact.index))
        is_whole = first == 0 and length is None
        last = first + length - 1 if length is not None else ""
        headers = {} if is_whole else {"Range": f"bytes={first}-{last}"}
        digest = hashlib.sha256()
        async with self._connection.download(path, [*query, *self._tenant()], headers=headers) as parts:
            async for part in parts:
                digest.update(part)
                yield part
        if is_whole and digest.hexdigest() != artifact.digest:
            raise PayloadUnavailable(
                f"The file '{artifact.name}' of job {job_id} did not arrive as it was published.",
                remedy="Fetch it again.",
                instance=job_id,
            )

    async def artifact_page(
        self, job_id: str, *, limit: int = 100, after: tuple[str, int, str] | None = None
    ) -> tuple[list[Artifact], tuple[str, int, str] | None]:
        cursor = _cursor(after) if after is not None else None
        found, more = await self._page(Artifact, path_of("jobs", job_id, "artifacts"), limit=limit, cursor=cursor)
        return found, _place(found[-1]) if more is not None else None

    async def results(self, job_id: str, node: str, *, status: str | None = None) -> AsyncIterator[TaskResult]:
        path = path_of("jobs", job_id, "results", node)
        async for one in self._every(TaskResult, path, status=status, limit=PAGE_LENGTH):
            yield one

    async def results_page(
        self, job_id: str, node: str, *, status: str | None = None, limit: int = 100, after: int | None = None
    ) -> ResultPage:
        path = path_of("jobs", job_id, "results", node)
        found, cursor = await self._page(TaskResult, path, status=status, limit=limit, cursor=after)
        return ResultPage(tuple(found), _number(cursor))

    async def task_map(self, job_id: str, node: str) -> TaskMap:
        return await self._get(TaskMap, path_of("jobs", job_id, "nodes", node, "map"))

    async def timeline(
        self,
        job_id: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        buckets: int = details.SHOWN_BUCKETS,
    ) -> Timeline:
        path = path_of("jobs", job_id, "timeline")
        return await self._get(Timeline, path, since=since, until=until, buckets=buckets)

    async def generations(self, job_id: str, *, limit: int = 100, after: int | None = None) -> GenerationPage:
        path = path_of("jobs", job_id, "generations")
        found, cursor = await self._page(Generation, path, limit=limit, cursor=after)
        return GenerationPage(tuple(found), _number(cursor))

    async def task_details(self, job_id: str, node: str, *, index: int | None = None) -> TaskDetails:
        return await self._get(TaskDetails, path_of("jobs", job_id, "tasks", node, str(_item(index))))

    async def _node_name(self, job_id: str, text: str) -> str:
        job = await self._get(Job, path_of("jobs", job_id), whole=False)
        node = job.node(text)
        if node is None:
            raise NotFound(
                f"Job {job_id} has no node '{text}'.",
                remedy=Remedy("See its nodes with", "status", job_id),
                instance=job_id,
            )
        return node.node


def _place(artifact: Artifact) -> tuple[str, int, str]:
    """The order of the list."""
    return artifact.node, _item(artifact.index), artifact.name


def _item(index: int | None) -> int:
    return OWN_TASK if index is None else index


def _cursor(place: tuple[str, int, str]) -> str:
    """The cursor that the service gives for the page behind a file."""
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode()


def _number(cursor: str | None) -> int | None:
    return int(cursor) if cursor is not None else None
