"""The part of `SyncClient` about the details of one job: maps, timelines, generations, single tasks, files by name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from holdfast.operations import details
from holdfast.sync_client_gates import Face
from holdfast.views.details import GenerationPage, ResultPage, TaskDetails, TaskMap, Timeline
from holdfast.views.history import Artifact


class SyncDetails(Face):
    """The details of one job."""

    def task_map(self, job_id: str, node: str) -> TaskMap:
        """How all items of a node stand, in the order of their indexes."""
        return self._loop.run(self._client.task_map(job_id, node))

    def timeline(
        self,
        job_id: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        buckets: int = details.SHOWN_BUCKETS,
    ) -> Timeline:
        """When the nodes of a job ran, and when their tasks ended, in that many buckets of equal length."""
        return self._loop.run(self._client.timeline(job_id, since=since, until=until, buckets=buckets))

    def generations(self, job_id: str, *, limit: int = 100, after: int | None = None) -> GenerationPage:
        """One page of the generations of a job, the first one first; `after` is the cursor of the page before."""
        return self._loop.run(self._client.generations(job_id, limit=limit, after=after))

    def task_details(self, job_id: str, node: str, *, index: int | None = None) -> TaskDetails:
        """One task with all that it was given, did and made; without an index the node's own."""
        return self._loop.run(self._client.task_details(job_id, node, index=index))

    def results_page(
        self, job_id: str, node: str, *, status: str | None = None, limit: int = 100, after: int | None = None
    ) -> ResultPage:
        """One page of how the tasks of a node stand, each with its output; a page ends early if it is large."""
        return self._loop.run(self._client.results_page(job_id, node, status=status, limit=limit, after=after))

    def artifact_page(
        self, job_id: str, *, limit: int = 100, after: tuple[str, int, str] | None = None
    ) -> tuple[list[Artifact], tuple[str, int, str] | None]:
        """One page of the files of a job, and where the next one begins: behind a node, an item and a name."""
        return self._loop.run(self._client.artifact_page(job_id, limit=limit, after=after))

    def find_artifact(self, job_id: str, name: str, *, node: str | None = None, index: int | None = None) -> Artifact:
        """The file of that name; index -1 is a node's own task. Refused if several tasks have published one."""
        return self._loop.run(self._client.find_artifact(job_id, name, node=node, index=index))

    def artifact_parts(
        self, job_id: str, artifact: Artifact, *, first: int = 0, length: int | None = None
    ) -> Iterator[bytes]:
        """The bytes of a file, or of a range of it. The last part of a whole file comes only if it is intact."""
        return self._loop.iterate(self._client.artifact_parts(job_id, artifact, first=first, length=length))
