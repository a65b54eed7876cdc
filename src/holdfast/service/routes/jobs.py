"""Jobs: listing and reading them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query, Response

from holdfast.errors import InvalidInput
from holdfast.operations.identity import Permission
from holdfast.operations.reading import LONGEST_PAGE
from holdfast.service.bodies import Moment
from holdfast.service.call import Call, JobId
from holdfast.service.table import ListOf, Page, RouteTable
from holdfast.views.definitions import JobDefinition
from holdfast.views.history import Event
from holdfast.views.jobs import Job, JobSummary, NodeState
from holdfast.views.why import Why

table = RouteTable("jobs")
LONGEST_LIST = 500
PAGE_SIZE = "How many entries a page has at most."
Limit = Annotated[int, Query(ge=1, le=LONGEST_LIST, description=PAGE_SIZE)]
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the page before.")]


@table.get("/jobs", Permission.READ, answers=Page(JobSummary))
async def list_jobs(
    call: Call,
    status: Annotated[list[str] | None, Query(description="Only jobs with one of these statuses.")] = None,
    workflow: Annotated[str | None, Query(description="Only jobs of this workflow.")] = None,
    since: Annotated[Moment | None, Query(description="Only jobs submitted at this time or later.")] = None,
    until: Annotated[Moment | None, Query(description="Only jobs submitted before this time.")] = None,
    key: Annotated[str | None, Query(max_length=500, description="Only jobs that this key made.")] = None,
    code: Annotated[str | None, Query(max_length=64, description="Only jobs in which something has this code.")] = None,
    fingerprint: Annotated[
        str | None, Query(max_length=64, description="Only jobs in which something failed in this way.")
    ] = None,
    label: Annotated[list[str] | None, Query(description="Only jobs with this label, as NAME=VALUE.")] = None,
    correlation: Annotated[str | None, Query(max_length=200, description="Only jobs with this correlation id.")] = None,
    text: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=500,
            description="Only jobs whose id begins or ends with this, that this key made, or whose workflow or"
            " correlation id begins with it.",
        ),
    ] = None,
    unacknowledged: Annotated[bool, Query(description="Only those that no person has seen.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Jobs, newest first."""
    page = await call.client.jobs(
        status=status,
        workflow_id=workflow,
        since=since,
        until=until,
        key=key,
        code=code,
        labels=_labels(label or ()),
        correlation_id=correlation,
        fingerprint=fingerprint,
        text=text,
        unacknowledged=unacknowledged,
        limit=limit,
        after=cursor,
    )
    return call.page(page.jobs, page.after)


def _labels(texts: Sequence[str]) -> dict[str, str] | None:
    pairs = [text.partition("=") for text in texts]
    if any(not middle for _, middle, _ in pairs):
        raise InvalidInput("A label is given as NAME=VALUE.")
    return {name: value for name, _, value in pairs} or None


@table.get("/jobs/{job_id}", Permission.READ, answers=Job)
async def show_job(
    call: Call, job_id: JobId, whole: Annotated[bool, Query(description="Also what may be large.")] = True
) -> Response:
    """A job as it is now, with its nodes and its outcome.

    Without `whole`, inputs, result and advice are left out.
    """
    return call.answer(await call.client.job(job_id, whole=whole))


@table.get("/jobs/{job_id}/nodes", Permission.READ, answers=ListOf(NodeState))
async def list_nodes(call: Call, job_id: JobId) -> Response:
    """The nodes of a job, in the order of the workflow."""
    return call.items((await call.client.job(job_id, whole=False)).nodes)


@table.get("/jobs/{job_id}/why", Permission.READ, answers=Why)
async def explain_job(call: Call, job_id: JobId) -> Response:
    """Why a job is not finished, or why it ended as it did."""
    return call.answer(await call.client.why(job_id))


@table.get("/jobs/{job_id}/definition", Permission.READ, answers=JobDefinition)
async def show_job_definition(
    call: Call,
    job_id: JobId,
    generation: Annotated[int | None, Query(ge=1, le=1_000_000, description="The number of the generation.")] = None,
) -> Response:
    """The definition and the inputs that a generation of a job follows; by default the present one."""
    return call.answer(await call.client.job_definition(job_id, generation=generation))


@table.get("/jobs/{job_id}/events", Permission.READ, answers=Page(Event))
async def list_events(
    call: Call,
    job_id: JobId,
    node: Annotated[str | None, Query(max_length=200, description="Only events of this node.")] = None,
    limit: Annotated[int, Query(ge=1, le=LONGEST_PAGE, description=PAGE_SIZE)] = LONGEST_PAGE,
    cursor: Annotated[int, Query(ge=0, le=2**31 - 1, description="Only events behind this number.")] = 0,
) -> Response:
    """The events of a job so far, in the order in which they happened."""
    found: list[Event] = []
    async for event in call.client.events(job_id, after=cursor, node=node):
        if len(found) == limit:
            return call.page(found, str(found[-1].seq))
        found.append(event)
    return call.page(found, None)
