"""The nodes and tasks of a job: how they stand, their failures and their data."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from holdfast.errors import InvalidInput
from holdfast.operations.identity import Permission
from holdfast.service.call import Call, JobId, NodeName
from holdfast.service.routes.jobs import Cursor, Limit
from holdfast.service.table import ListOf, Page, RouteTable
from holdfast.views.history import Artifact, FailedGroup, Task

table = RouteTable("tasks")


@table.get("/jobs/{job_id}/nodes/{node}/tasks", Permission.READ, answers=Page(Task))
async def list_tasks(
    call: Call,
    job_id: JobId,
    node: NodeName,
    status: Annotated[str | None, Query(description="Only tasks with this status.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """The tasks of a node, by index."""
    after = (node, _index(cursor)) if cursor is not None else None
    found = await call.client.tasks(job_id, node=node, status=status, limit=limit, after=after)
    last = found[-1] if len(found) == limit else None
    return call.page(found, None if last is None else str(-1 if last.index is None else last.index))


def _index(cursor: str) -> int | None:
    try:
        number = int(cursor)
    except ValueError:
        raise InvalidInput("This is not a cursor.", remedy="Use `next_cursor` of the page before.") from None
    return None if number < 0 else number


@table.get("/jobs/{job_id}/nodes/{node}/failures", Permission.READ, answers=ListOf(FailedGroup))
async def list_failures(
    call: Call,
    job_id: JobId,
    node: NodeName,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many groups there are at most.")] = 100,
) -> Response:
    """The failed items of a node, those that failed in the same way together: the largest groups first."""
    return call.items(await call.client.failures(job_id, node, limit=limit))


@table.get("/jobs/{job_id}/artifacts", Permission.READ, answers=ListOf(Artifact))
async def list_artifacts(call: Call, job_id: JobId) -> Response:
    """The files that the tasks of a job have published."""
    return call.items(await call.client.artifacts(job_id))
