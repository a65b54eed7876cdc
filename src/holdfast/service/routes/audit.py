"""Who changed what."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from holdfast.operations.identity import Permission
from holdfast.service.bodies import Moment
from holdfast.service.call import Call
from holdfast.service.routes.jobs import Cursor, Limit
from holdfast.service.table import Page, RouteTable
from holdfast.views.audit import AuditLine

table = RouteTable("audit")


@table.get("/audit", Permission.READ, answers=Page(AuditLine))
async def list_changes(
    call: Call,
    since: Annotated[Moment | None, Query(description="Only changes since then.")] = None,
    actor: Annotated[str | None, Query(max_length=300, description="Who, or the beginning of a key.")] = None,
    action: Annotated[
        str | None, Query(max_length=100, description="What: `job.resume`, or `job` for all that was done to jobs.")
    ] = None,
    instance: Annotated[
        str | None, Query(max_length=300, description="To what: the id of a job, the name of a limit.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Who changed what, newest first, with what was before and after.

    Submissions are not among the changes: each job says itself who has submitted it, and when. An administrator of the
    installation sees the changes of all tenants, or those of the one that `tenant` names.
    """
    page = await call.installation_client.audit(
        since=since, actor=actor, action=action, instance=instance, limit=limit, after=cursor
    )
    return call.page(page.lines, page.after)
