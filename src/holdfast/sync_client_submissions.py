"""The part of `SyncClient` about many submissions at once, finding jobs by what others call them, and workflows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.operations import definitions
from holdfast.operations.batches import SubmitRequest
from holdfast.operations.reading import PAGE_LENGTH
from holdfast.operations.submitting import Submission
from holdfast.sync_client_gates import Face
from holdfast.views.jobs import JobPage
from holdfast.views.workflows import (
    WorkflowDetails,
    WorkflowGraph,
    WorkflowSource,
    WorkflowStatistics,
    WorkflowVersions,
)


class SyncSubmissions(Face):
    """Batches of submissions, and lookups."""

    def submit_batch(self, requests: Sequence[SubmitRequest]) -> list[Submission | HoldfastError]:
        """What each of at most 1,000 submissions has led to, in their order; a problem where one was refused.

        Those that are valid commit together. One that is not stops no other.
        """
        return self._loop.run(self._client.submit_batch(requests))

    def lookup(
        self,
        *,
        correlation_id: str | None = None,
        key: str | None = None,
        external: str | None = None,
        artifact: str | None = None,
        limit: int = PAGE_LENGTH,
        after: str | None = None,
    ) -> JobPage:
        """One page of the jobs, newest first, that a correlation id, a key, an external id or a file points to.

        `external` is NAMESPACE:VALUE; `artifact` is the sha256 of a file that the job has published.
        """
        return self._loop.run(
            self._client.lookup(
                correlation_id=correlation_id,
                key=key,
                external=external,
                artifact=artifact,
                limit=limit,
                after=after,
            )
        )


class SyncWorkflows(Face):
    """Workflows as people see them. Without `definition_hash` the current definition of the id is meant."""

    def workflow(self, workflow_id: str, *, definition_hash: str | None = None) -> WorkflowDetails:
        """The definition that an id stands for, or another version of it."""
        return self._loop.run(self._client.workflow(workflow_id, definition_hash=definition_hash))

    def workflow_versions(
        self, workflow_id: str, *, limit: int = definitions.PAGE_LENGTH, after: str | None = None
    ) -> WorkflowVersions:
        """The definitions that an id stood for, the last one first; `after` is the cursor of the page before."""
        return self._loop.run(self._client.workflow_versions(workflow_id, limit=limit, after=after))

    def workflow_source(self, workflow_id: str, *, definition_hash: str | None = None) -> WorkflowSource:
        """The text from which a definition was read, as it was submitted; NotFound if a program has built it."""
        return self._loop.run(self._client.workflow_source(workflow_id, definition_hash=definition_hash))

    def workflow_graph(self, workflow_id: str, *, definition_hash: str | None = None) -> WorkflowGraph:
        """The nodes of a definition, and what waits for what."""
        return self._loop.run(self._client.workflow_graph(workflow_id, definition_hash=definition_hash))

    def workflow_drawing(self, workflow_id: str, form: str, *, definition_hash: str | None = None) -> str:
        """A definition as a picture: `svg`, or `mermaid`."""
        return self._loop.run(self._client.workflow_drawing(workflow_id, form, definition_hash=definition_hash))

    def workflow_inputs(self, workflow_id: str, *, definition_hash: str | None = None) -> dict[str, Any]:
        """What the inputs of a submission must match, as JSON Schema."""
        return self._loop.run(self._client.workflow_inputs(workflow_id, definition_hash=definition_hash))

    def workflow_statistics(self, workflow_id: str) -> WorkflowStatistics:
        """How the last 1,000 jobs of a workflow went, and their nodes."""
        return self._loop.run(self._client.workflow_statistics(workflow_id))
