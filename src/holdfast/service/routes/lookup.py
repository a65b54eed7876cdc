"""Finding jobs by what other systems know of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from holdfast.operations.identity import Permission
from holdfast.service.call import Call
from holdfast.service.routes.jobs import Cursor, Limit
from holdfast.service.table import Page, RouteTable
from holdfast.views.jobs import JobSummary

table = RouteTable("lookup")


@table.get("/lookup", Permission.READ, answers=Page(JobSummary))
async def look_up_jobs(
    call: Call,
    correlation_id: Annotated[
        str | None, Query(max_length=200, description="What the caller calls the things of one cause.")
    ] = None,
    key: Annotated[str | None, Query(max_length=500, description="The key of a submission.")] = None,
    external_id: Annotated[
        str | None, Query(max_length=500, description="The id of another system, as NAMESPACE:VALUE.")
    ] = None,
    artifact: Annotated[
        str | None, Query(max_length=71, description="The sha256 of a file that a job has published.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """The jobs that one of these points to, newest first. Give exactly one."""
    page = await call.client.lookup(
        correlation_id=correlation_id,
        key=key,
        external=external_id,
        artifact=artifact,
        limit=limit,
        after=cursor,
    )
    return call.page(page.jobs, page.after)
