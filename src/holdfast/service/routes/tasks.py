"""The nodes and tasks of a job: how they stand, their failures and their data."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from holdfast.errors import InvalidInput
from holdfast.operations.identity import Permission
from holdfast.service.call import Call, JobId, NodeName
from holdfast.service.routes.jobs import LONGEST_LIST, Cursor, Limit
from holdfast.service.table import ListOf, Page, RouteTable
from holdfast.views.history import FailedGroup, Task

table = RouteTable("tasks")


@table.get("/jobs/{job_id}/nodes/{node}/tasks", Permission.READ, answers=Page(Task))
async def list_tasks(
    call: Call,
    job_id: JobId,
    node: NodeName,
    status: Annotated[str | None, Query(description="Only tasks with this status.")] = None,
    fingerprint: Annotated[str | None, Query(max_length=64, description="Only tasks that failed in this way.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """The tasks of a node, by index."""
    after = (node, _index(cursor)) if cursor is not None else None
    found = await call.client.tasks(job_id, node=node, status=status, fingerprint=fingerprint, limit=limit, after=after)
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
    limit: Annotated[int, Query(ge=1, le=LONGEST_LIST, description="How many groups there are at most.")] = 100,
) -> Response:
    """The failed items of a node, those that failed in the same way together: the largest groups first.

    Groups beyond the `limit` are left out: they are the smallest.
    """
    return call.items(await call.client.failures(job_id, node, limit=limit))
