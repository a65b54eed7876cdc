"""The part of the client over a URL about many submissions at once, finding jobs by what others call them, and
workflows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.define.definition import Definition
from holdfast.errors import HoldfastError
from holdfast.operations import definitions
from holdfast.operations.batches import SubmitRequest
from holdfast.operations.reading import PAGE_LENGTH
from holdfast.operations.submitting import Submission
from holdfast.remote.base import Remote, path_of, query_of
from holdfast.remote.documents import brought
from holdfast.views.jobs import JobPage, JobSummary
from holdfast.views.problems import from_problem
from holdfast.views.workflows import (
    WorkflowDetails,
    WorkflowGraph,
    WorkflowSource,
    WorkflowStatistics,
    WorkflowVersion,
    WorkflowVersions,
)


class RemoteWorkflows(Remote):
    """Batches of submissions, lookups, and workflows as people see them."""

    async def submit_batch(self, requests: Sequence[SubmitRequest]) -> list[Submission | HoldfastError]:
        if not requests:
            return []
        body = {"jobs": [_submit(one) for one in requests]}
        answer = await self._send(
            "POST", "/jobs/batch", body=body, is_repeatable=not any(one.force for one in requests)
        )
        return [self._outcome(one) for one in answer["items"]]

    def _outcome(self, answer: dict[str, Any]) -> Submission | HoldfastError:
        if answer["problem"] is not None:
            return from_problem(answer["problem"])
        return self._read(Submission, answer["submission"])

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
        found, cursor = await self._page(
            JobSummary,
            "/lookup",
            correlation_id=correlation_id,
            key=key,
            external_id=external,
            artifact=artifact,
            limit=limit,
            cursor=after,
        )
        return JobPage(tuple(found), cursor)

    async def definition(self, workflow_id: str) -> Definition:
        return Definition.from_json((await self.workflow(workflow_id)).definition)

    async def workflow(self, workflow_id: str, *, definition_hash: str | None = None) -> WorkflowDetails:
        return await self._get(WorkflowDetails, path_of("workflows", workflow_id), definition_hash=definition_hash)

    async def workflow_versions(
        self, workflow_id: str, *, limit: int = definitions.PAGE_LENGTH, after: str | None = None
    ) -> WorkflowVersions:
        path = path_of("workflows", workflow_id, "versions")
        found, cursor = await self._page(WorkflowVersion, path, limit=limit, cursor=after)
        return WorkflowVersions(tuple(found), cursor)

    async def workflow_source(self, workflow_id: str, *, definition_hash: str | None = None) -> WorkflowSource:
        path = path_of("workflows", workflow_id, "source")
        return await self._get(WorkflowSource, path, definition_hash=definition_hash)

    async def workflow_graph(self, workflow_id: str, *, definition_hash: str | None = None) -> WorkflowGraph:
        path = path_of("workflows", workflow_id, "graph")
        return await self._get(WorkflowGraph, path, definition_hash=definition_hash)

    async def workflow_drawing(self, workflow_id: str, form: str, *, definition_hash: str | None = None) -> str:
        path, query = path_of("workflows", workflow_id, "graph"), query_of(format=form, definition_hash=definition_hash)
        return str(await self._send("GET", path, query=query, is_repeatable=True))

    async def workflow_inputs(self, workflow_id: str, *, definition_hash: str | None = None) -> dict[str, Any]:
        path, query = path_of("workflows", workflow_id, "inputs"), query_of(definition_hash=definition_hash)
        schema: dict[str, Any] = await self._send("GET", path, query=query, is_repeatable=True)
        return schema

    async def workflow_statistics(self, workflow_id: str) -> WorkflowStatistics:
        return await self._get(WorkflowStatistics, path_of("workflows", workflow_id, "stats"))


def _submit(request: SubmitRequest) -> dict[str, Any]:
    wanted = request.definition
    named = brought(wanted) if isinstance(wanted, Definition) else {"workflow": wanted}
    return named | {
        "inputs": dict(request.inputs),
        "key": request.key,
        "priority": request.priority,
        "resume": request.resume,
        "force": request.force,
        "labels": dict(request.labels or {}),
        "correlation_id": request.correlation_id,
        "external_ids": dict(request.external_ids or {}),
        "callback_url": request.callback_url,
        "notify": [dict(rule) for rule in request.notify or ()],
        "like": request.like,
    }
