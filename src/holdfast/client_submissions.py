"""The part of `Client` about many submissions at once, finding jobs by what others call them, and workflows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.client_gates import Bound
from holdfast.errors import HoldfastError
from holdfast.operations import batches, definitions
from holdfast.operations import lookup as looking
from holdfast.operations.batches import SubmitRequest
from holdfast.operations.reading import PAGE_LENGTH
from holdfast.operations.submitting import Submission
from holdfast.views.jobs import JobPage
from holdfast.views.workflows import (
    WorkflowDetails,
    WorkflowGraph,
    WorkflowSource,
    WorkflowStatistics,
    WorkflowVersions,
)


class Submissions(Bound):
    """Batches of submissions, and lookups."""

    async def submit_batch(self, requests: Sequence[SubmitRequest]) -> list[Submission | HoldfastError]:
        """What each of at most 1,000 submissions has led to, in their order; a problem where one was refused.

        Those that are valid commit together. One that is not stops no other.
        """
        return await batches.submit_batch(self._scope, self._store, requests)

    async def lookup(
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
        return await looking.lookup(
            self._scope,
            self._store,
            correlation_id=correlation_id,
            key=key,
            external=external,
            artifact=artifact,
            limit=limit,
            after=after,
        )


class Workflows(Bound):
    """Workflows as people see them. Without `definition_hash` the current definition of the id is meant."""

    async def workflow(self, workflow_id: str, *, definition_hash: str | None = None) -> WorkflowDetails:
        """The definition that an id stands for, or another version of it."""
        return await definitions.workflow(self._scope, self._store, workflow_id, definition_hash=definition_hash)

    async def workflow_versions(
        self, workflow_id: str, *, limit: int = definitions.PAGE_LENGTH, after: str | None = None
    ) -> WorkflowVersions:
        """The definitions that an id stood for, the last one first; `after` is the cursor of the page before."""
        return await definitions.workflow_versions(self._scope, self._store, workflow_id, limit=limit, after=after)

    async def workflow_source(self, workflow_id: str, *, definition_hash: str | None = None) -> WorkflowSource:
        """The text from which a definition was read, as it was submitted; NotFound if a program has built it."""
        return await definitions.workflow_source(self._scope, self._store, workflow_id, definition_hash=definition_hash)

    async def workflow_graph(self, workflow_id: str, *, definition_hash: str | None = None) -> WorkflowGraph:
        """The nodes of a definition, and what waits for what."""
        return await definitions.workflow_graph(self._scope, self._store, workflow_id, definition_hash=definition_hash)

    async def workflow_drawing(self, workflow_id: str, form: str, *, definition_hash: str | None = None) -> str:
        """A definition as a picture: `svg`, or `mermaid`."""
        return await definitions.workflow_drawing(
            self._scope, self._store, workflow_id, form, definition_hash=definition_hash
        )

    async def workflow_inputs(self, workflow_id: str, *, definition_hash: str | None = None) -> dict[str, Any]:
        """What the inputs of a submission must match, as JSON Schema."""
        return await definitions.workflow_inputs(self._scope, self._store, workflow_id, definition_hash=definition_hash)

    async def workflow_statistics(self, workflow_id: str) -> WorkflowStatistics:
        """How the last 1,000 jobs of a workflow went, and their nodes."""
        return await definitions.workflow_statistics(self._scope, self._store, workflow_id)
