"""Streams of events, as server-sent events: of one job, and of all jobs of the tenant."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager
from functools import partial
from typing import Annotated

from fastapi import Header, Query, Response

from holdfast.errors import Unauthenticated
from holdfast.operations.identity import Permission
from holdfast.operations.streaming import Chosen, Cursor, job_events, job_place
from holdfast.service.call import Call, CallContext, JobId
from holdfast.service.event_streams import EventStream, job_messages, tenant_messages
from holdfast.service.live import Listener
from holdfast.service.open_requests import TooManyOpen
from holdfast.service.table import Media, RouteTable

table = RouteTable("live")
NOW = "now"
"""In the place of a number: the stream begins with what happens next."""
ANSWER = Media("text/event-stream", "Server-sent events; each `data` is an event as a JSON object.")
LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", description="The `id` of the last message that was received.")
]


@table.get("/jobs/{job_id}/stream", Permission.READ, answers=ANSWER, errors=(TooManyOpen,))
async def stream_job(
    call: Call,
    job_id: JobId,
    after: Annotated[
        str | None, Query(max_length=20, description="Only events behind this number; `now`: only new ones.")
    ] = None,
    last_event_id: LastEventId = None,
) -> Response:
    """The events of a job, those so far and then as they happen, until the job has ended.

    The stream ends with the message `end`. `Last-Event-ID` counts before `after`.
    """
    seen = job_place(last_event_id or (None if after == NOW else after))
    first = await job_events(call.state.live.store, call.tenant, job_id, seen)

    if after == NOW and last_event_id is None:
        seen = first.last_seq
        first = await job_events(call.state.live.store, call.tenant, job_id, seen)

    def enter() -> AbstractContextManager[Listener]:
        return _listening(call, job_id)

    return _answer(call, job_messages(call.state.live, enter, call.tenant, job_id, seen, first))


@table.get("/events/stream", Permission.READ, answers=ANSWER, errors=(TooManyOpen,))
async def stream_events(
    call: Call,
    after: Annotated[
        str | None, Query(max_length=60_000, description="The `id` of the last message that was received.")
    ] = None,
    workflow: Annotated[list[str] | None, Query(description="Only events of jobs of these workflows.")] = None,
    event: Annotated[list[str] | None, Query(description="Only events with these names.")] = None,
    last_event_id: LastEventId = None,
) -> Response:
    """The events of all jobs of the tenant as they are committed, without an end.

    Without `after` it begins now. `Last-Event-ID` counts before `after`.
    """
    place = last_event_id or after
    cursor = Cursor.parse(place) if place else None
    chosen = Chosen.of(workflow, event)

    def enter() -> AbstractContextManager[Listener]:
        return _listening(call, None)

    return _answer(call, tenant_messages(call.state.live, enter, call.tenant, chosen, cursor))


def _answer(call: CallContext, messages: AsyncGenerator[bytes, None]) -> EventStream:
    """The stream, as one of those that the tenant of its credential may keep open."""
    tenant = call.identity.tenant
    call.state.open_requests.take(tenant)
    return EventStream(messages, on_end=partial(call.state.open_requests.leave, tenant))


def _listening(call: CallContext, job_id: str | None) -> AbstractContextManager[Listener]:
    """A listener that ends when the credential of the request does."""
    identity = call.identity

    async def check() -> None:
        if not await call.state.is_still_valid(identity):
            raise Unauthenticated("The credential of this stream is not valid any more.")

    return call.state.live.listening(call.tenant, job_id, credential=identity.credential, check=check)
