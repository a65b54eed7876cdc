"""The details of one job: the map of a node, the timeline, the generations, one task, and results."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response

from holdfast.errors import PayloadUnavailable
from holdfast.operations.data import OWN_TASK
from holdfast.operations.details import MOST_BUCKETS, SHOWN_BUCKETS
from holdfast.operations.identity import Permission
from holdfast.service.bodies import Moment
from holdfast.service.call import Call, JobId, NodeName
from holdfast.service.routes.jobs import Limit
from holdfast.service.table import Page, RouteTable
from holdfast.views.data import TaskResult
from holdfast.views.details import Generation, TaskDetails, TaskMap, Timeline

table = RouteTable("tasks")
LAST_ITEM = 2**31 - 1
Item = Annotated[int, Path(ge=OWN_TASK, le=LAST_ITEM, description="The index of an item; -1: the node's own task.")]
NumberCursor = Annotated[int | None, Query(ge=OWN_TASK, le=LAST_ITEM, description="`next_cursor` of the page before.")]


@table.get("/jobs/{job_id}/nodes/{node}/map", Permission.READ, answers=TaskMap)
async def show_map(call: Call, job_id: JobId, node: NodeName) -> Response:
    """The statuses of all items of a node, neighbours that are equal together.

    A node without items has one run, of its own status.
    """
    return call.answer(await call.client.task_map(job_id, node))


@table.get("/jobs/{job_id}/timeline", Permission.READ, answers=Timeline)
async def show_timeline(
    call: Call,
    job_id: JobId,
    since: Annotated[Moment | None, Query(description="Where the first bucket begins.")] = None,
    until: Annotated[Moment | None, Query(description="Where the last bucket ends.")] = None,
    buckets: Annotated[int, Query(ge=1, le=MOST_BUCKETS, description="How many buckets there are.")] = SHOWN_BUCKETS,
) -> Response:
    """When the nodes of a job ran, and when their tasks ended, in buckets of equal length.

    By default from the submission to the end, or to now. A job that was recovered much later is better seen from the
    time of its generation on.
    """
    return call.answer(await call.client.timeline(job_id, since=since, until=until, buckets=buckets))


@table.get("/jobs/{job_id}/generations", Permission.READ, answers=Page(Generation))
async def list_generations(call: Call, job_id: JobId, limit: Limit = 100, cursor: NumberCursor = None) -> Response:
    """The submission and the recoveries of a job, the first one first: what each reset, and how it ended."""
    page = await call.client.generations(job_id, limit=limit, after=cursor)
    return call.page(page.generations, _cursor(page.after))


@table.get("/jobs/{job_id}/tasks/{node}/{item}", Permission.READ, answers=TaskDetails, errors=(PayloadUnavailable,))
async def show_task(call: Call, job_id: JobId, node: NodeName, item: Item) -> Response:
    """One task: how it stands, its params, its output, its progress, its attempts with what they printed, and its
    checkpoints.

    Item -1 is the node's own task. Large values are read from the object store.
    """
    return call.answer(await call.client.task_details(job_id, node, index=None if item == OWN_TASK else item))


@table.get("/jobs/{job_id}/results/{node}", Permission.READ, answers=Page(TaskResult), errors=(PayloadUnavailable,))
async def list_results(
    call: Call,
    job_id: JobId,
    node: NodeName,
    status: Annotated[str | None, Query(description="Only tasks with this status.")] = None,
    limit: Limit = 100,
    cursor: NumberCursor = None,
) -> Response:
    """How the tasks of a node stand, by item, each with its output.

    A page that gets large has fewer entries than `limit`.
    """
    page = await call.client.results_page(job_id, node, status=status, limit=limit, after=cursor)
    return call.page(page.results, _cursor(page.after))


def _cursor(number: int | None) -> str | None:
    return str(number) if number is not None else None
