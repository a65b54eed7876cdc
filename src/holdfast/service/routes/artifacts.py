"""The files of a job: pages of them, and each by its name. A browser never shows or runs one."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

import orjson
from fastapi import Header, Path, Query, Response

from holdfast.errors import InvalidInput, PayloadUnavailable, Refused
from holdfast.operations.data import OWN_TASK
from holdfast.operations.identity import Permission
from holdfast.service.call import Call, JobId
from holdfast.service.downloads import BINARY, RangeUnsatisfiable, headers_of, streamed, unsatisfiable, wanted_range
from holdfast.service.routes.details import LAST_ITEM
from holdfast.service.routes.jobs import Cursor, Limit
from holdfast.service.table import Media, Page, RouteTable
from holdfast.views.history import Artifact

table = RouteTable("tasks")


@table.get("/jobs/{job_id}/artifacts", Permission.READ, answers=Page(Artifact))
async def list_artifacts(call: Call, job_id: JobId, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The files that the tasks of a job have published, by node, item and name."""
    page, after = await call.client.artifact_page(job_id, limit=limit, after=_place(cursor))
    return call.page(page, base64.urlsafe_b64encode(orjson.dumps(after)).decode() if after is not None else None)


def _place(cursor: str | None) -> tuple[str, int, str] | None:
    if cursor is None:
        return None
    try:
        node, item, name = orjson.loads(base64.urlsafe_b64decode(cursor))
        if isinstance(node, str) and isinstance(name, str) and "\0" not in node + name and abs(int(item)) <= LAST_ITEM:
            return node, int(item), name
    except (binascii.Error, ValueError, TypeError):
        pass
    raise InvalidInput("This is not a cursor.", remedy="Use `next_cursor` of the page before.")


@table.get(
    "/jobs/{job_id}/artifacts/{name:anything}",
    Permission.READ,
    answers=Media(BINARY, "The file."),
    also={206: "A range of the file."},
    errors=(Refused, RangeUnsatisfiable, PayloadUnavailable),
)
async def fetch_artifact(
    call: Call,
    job_id: JobId,
    name: Annotated[str, Path(description="The name of a file.", max_length=1024)],
    node: Annotated[str | None, Query(max_length=200, description="The node that published it.")] = None,
    item: Annotated[
        int | None, Query(ge=OWN_TASK, le=LAST_ITEM, description="The item that published it; -1: the node itself.")
    ] = None,
    range_: Annotated[str | None, Header(alias="Range", description="Bytes of it: `bytes=FIRST-LAST`.")] = None,
    if_range: Annotated[
        str | None, Header(description="The `ETag` of the file: another content is sent as a whole.")
    ] = None,
) -> Response:
    """A file that a task has published, or a range of it.

    Its `ETag` is its sha256. If several tasks have published a file of this name, `node` and `item` choose; without
    them, 409 lists them. The file is always sent to be saved: a browser neither shows nor runs it.
    """
    if "\0" in name:
        raise InvalidInput("The name of a file has no NUL character.")
    artifact = await call.client.find_artifact(job_id, name, node=node, index=item)
    headers = headers_of(artifact.name, artifact.digest)
    if call.is_head:
        return Response(headers=headers | {"Content-Length": str(artifact.bytes)}, media_type=BINARY)
    is_same = if_range is None or if_range.strip() == headers["ETag"]
    try:
        wanted = wanted_range(range_, artifact.bytes) if is_same else None
    except RangeUnsatisfiable as problem:
        return unsatisfiable(problem, artifact.bytes, call.request_id)
    first, length = wanted or (0, artifact.bytes)
    parts = call.client.artifact_parts(job_id, artifact, first=first, length=length)
    return await streamed(parts, headers, wanted, artifact.bytes)
