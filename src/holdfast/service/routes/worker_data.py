"""What attempts of workers over HTTP read and store: results of other nodes, breakers, and objects, part by part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Header, Path, Query, Response
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from holdfast.errors import InvalidInput, LeaseEnded, PayloadRefused, PayloadUnavailable
from holdfast.operations.identity import Permission
from holdfast.operations.lease_tokens import MOST_TOKEN_LENGTH
from holdfast.service.call import Call, CallContext
from holdfast.service.downloads import BINARY
from holdfast.service.routes.worker import scope_of
from holdfast.service.table import ListOf, Media, RouteTable
from holdfast.views import work

table = RouteTable("worker")

LAST = 2**31 - 1
LeaseHeader = Annotated[
    str,
    Header(
        alias="Holdfast-Lease", description="The token of a lease that the worker holds.", max_length=MOST_TOKEN_LENGTH
    ),
]
Digest = Annotated[str, Path(description="The sha256 of the object.", pattern=r"^[0-9a-f]{64}$")]


@table.get("/worker/results/{node}", Permission.WORK, answers=ListOf(work.ItemOutput), errors=(LeaseEnded,))
async def read_results(
    call: Call,
    node: Annotated[str, Path(description="The name of a node that comes before.", max_length=200)],
    lease: LeaseHeader = "",
    after: Annotated[int, Query(ge=-2, le=LAST, description="Only items behind this one; -2: from the first.")] = -2,
    until: Annotated[int, Query(ge=-2, le=LAST, description="Only items before this one.")] = LAST,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many items at most.")] = 1000,
) -> Response:
    """The outputs of the completed items of another node of the same job, in their order.

    A page also ends when it gets large: ask again with the `index` of its last item as `after`, until a page is empty.
    """
    attempts = call.state.desk.attempts
    return call.items(await attempts.results(scope_of(call), lease, node, after=after, until=until, limit=limit))


@table.get("/worker/definition", Permission.WORK, answers=work.JobDefinition, errors=(LeaseEnded,))
async def read_definition(call: Call, lease: LeaseHeader = "") -> Response:
    """The definition that the job of the lease follows.

    Params hold references to secrets as they stand there, `{{ secrets.NAME }}`: the worker replaces them.
    """
    return call.answer(await call.state.desk.attempts.definition(scope_of(call), lease))


@table.get("/worker/breakers/{name}", Permission.WORK, answers=work.BreakerSight, errors=(LeaseEnded,))
async def see_breaker(
    call: Call,
    name: Annotated[str, Path(description="The name of a breaker.", max_length=200)],
    lease: LeaseHeader = "",
) -> Response:
    """A breaker, for a handler that is about to call its dependency."""
    return call.answer(await call.state.desk.attempts.breaker(scope_of(call), lease, name))


@table.get(
    "/worker/payload/{sha256}",
    Permission.WORK,
    answers=Media(BINARY, "The bytes."),
    errors=(LeaseEnded, PayloadUnavailable),
)
async def fetch_payload(call: Call, sha256: Digest, lease: LeaseHeader = "") -> Response:
    """A large value or a file of the lease's job. Compare its sha256: a damaged one is sent as it is."""
    parts = await call.state.desk.attempts.open_object(scope_of(call), lease, sha256)
    begun = await anext(parts, b"")

    async def content() -> AsyncIterator[bytes]:
        yield begun
        async for part in parts:
            yield part

    return StreamingResponse(content(), media_type=BINARY)


@table.put(
    "/worker/payload/{sha256}",
    Permission.WORK,
    answers=work.StoredObject,
    reads_body=False,
    body_types=(BINARY,),
    errors=(LeaseEnded, PayloadRefused, PayloadUnavailable),
)
async def store_payload(call: Call, sha256: Digest, lease: LeaseHeader = "") -> Response:
    """Store a large output or a file for the lease's job, before the report that names it.

    It may be as large as `HOLDFAST_UPLOAD_LIMIT_BYTES`, and can be sent again.
    """
    stored = await call.state.desk.attempts.store_object(
        scope_of(call),
        lease,
        sha256,
        _body(call),
        limit_bytes=call.state.upload_limit_bytes,
        folder=call.state.uploads,
    )
    return call.answer(stored)


async def _body(call: CallContext) -> AsyncIterator[bytes]:
    """The body as it comes. It may take its time, but it may not stand still."""
    if call.request.headers.get("content-encoding", "identity").lower() != "identity":
        raise InvalidInput("A body must not be compressed.", remedy="Leave `Content-Encoding` out.")
    parts = call.request.stream()
    while True:
        try:
            async with asyncio.timeout(call.state.body_seconds):
                part = await anext(parts, None)
        except ClientDisconnect:
            raise InvalidInput("The body ended before its end.") from None
        except TimeoutError:
            raise InvalidInput(f"Nothing of the body arrived within {call.state.body_seconds:g} s.") from None
        if part is None:
            return
        if part:
            yield part
