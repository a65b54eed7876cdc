"""What one stream of events sends, message by message: what it has missed, what happens now, and its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.errors import NotFound, Unreachable
from holdfast.operations.streaming import (
    JOB_ENDS,
    RETRY_SECONDS,
    Chosen,
    Cursor,
    JobEvents,
    Place,
    job_events,
    missed,
    must_start_over,
)
from holdfast.service.live import Batch, Ending, Frame, Item, Listener, Live, frame, job_message, message

COMMENT_SECONDS = 15.0
"""After so much silence a comment shows both sides that the connection lives."""
RETRY_MILLISECONDS = 2_000
COMMENT = b": alive\n\n"
OPENING = b": open\nretry: %d\n\n" % RETRY_MILLISECONDS
Enter = Callable[[], AbstractContextManager[Listener]]


class EventStream(StreamingResponse):
    """An answer that ends when the listener goes away, and then releases what it holds."""

    media_type = "text/event-stream"

    def __init__(self, messages: AsyncGenerator[bytes, None], *, on_end: Callable[[], None] = lambda: None) -> None:
        # A proxy must pass each message on at once.
        super().__init__(messages, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._messages = messages
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["state"].get("is_head"):
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await send({"type": "http.response.body", "body": b""})
            else:
                await super().__call__(scope, receive, send)
        finally:
            self._on_end()
            await self._messages.aclose()


async def tenant_messages(
    live: Live, enter: Enter, tenant: str, chosen: Chosen, cursor: Cursor | None
) -> AsyncGenerator[bytes, None]:
    """The events of all jobs of a tenant, from a cursor on or from now on."""
    yield OPENING
    has_joined, sent_at = False, time.monotonic()
    with enter() as listener:
        while not listener.has_ended():
            items = await listener.take(max(0.0, sent_at + COMMENT_SECONDS - time.monotonic()))
            passed = live.position if has_joined and not items else None
            come_to = Cursor.of(passed) if passed is not None else None
            for item in items:
                if listener.has_ended():
                    # What waits is not sent any more: the credential may have ended.
                    break
                if isinstance(item, Batch):
                    wanted = _wanted(item, chosen)
                    come_to = item.frames[-1].seen.cursor if item.frames else None
                    if wanted:
                        yield wanted
                        sent_at = time.monotonic()
                elif isinstance(item, Place) and has_joined:
                    yield _reset(item)
                    sent_at = time.monotonic()
                elif isinstance(item, Place):
                    has_joined = True
                    async for part in _from_before(live, listener, tenant, chosen, cursor, item):
                        yield part
                        sent_at = time.monotonic()
            if not listener.has_ended() and time.monotonic() >= sent_at + COMMENT_SECONDS:
                yield _comment(come_to)
                sent_at = time.monotonic()
        (ending,) = await listener.take(0)
        assert isinstance(ending, Ending)
        yield ending.message


async def _from_before(
    live: Live, listener: Listener, tenant: str, chosen: Chosen, cursor: Cursor | None, place: Place
) -> AsyncIterator[bytes]:
    """What the stream has missed between its cursor and the place where it joined; then that place."""
    while cursor is not None:
        try:
            if await must_start_over(live.store, cursor, place):
                yield _reset(place)
                return
            async for page in missed(live.store, cursor, place, tenant):
                frames = [frame(seen) for seen in page]
                yield _wanted(Batch(frames, b"".join([one.for_tenant for one in frames])), chosen) or COMMENT
                cursor = page[-1].cursor
                if listener.ending is not None:
                    return
            break
        except Unreachable:
            await asyncio.sleep(RETRY_SECONDS)
            yield COMMENT
    yield _comment(Cursor.of(place))


def _wanted(batch: Batch, chosen: Chosen) -> bytes:
    if chosen.is_all:
        return batch.joined
    return b"".join([one.for_tenant for one in batch.frames if chosen.has(one.seen.workflow_id, one.seen.event.event)])


def _comment(come_to: Cursor | None) -> bytes:
    """A sign of life; with the place of the stream, so that who comes again has little to read."""
    return COMMENT if come_to is None else f": alive\nid: {come_to}\n\n".encode()


def _reset(place: Place) -> bytes:
    text = {
        "reason": "The database has another history, or events since the last one that you have seen are deleted.",
        "remedy": "Read again what you need; the stream goes on from now.",
    }
    return message("reset", text, cursor=str(Cursor.of(place)))


async def job_messages(
    live: Live, enter: Enter, tenant: str, job_id: str, seen: int, first: JobEvents
) -> AsyncGenerator[bytes, None]:
    """The events of a job, those of `first` first, until the job has ended."""
    yield OPENING
    place = _JobPlace(seen)
    for part in place.read(first):
        yield part
    if place.has_ended():
        yield _end(place.seen)
        return
    with enter() as listener:
        while not place.has_ended():
            items = await listener.take(COMMENT_SECONDS)
            yield place.follow(items) or COMMENT if items else COMMENT
            if items and isinstance(items[-1], Ending):
                yield items[-1].message
                return
            while place.is_behind and listener.ending is None:
                try:
                    page = await job_events(live.store, tenant, job_id, place.seen)
                except Unreachable:
                    await asyncio.sleep(RETRY_SECONDS)
                    yield COMMENT
                    continue
                except NotFound:
                    # It was pruned: then it had ended.
                    place.is_over = True
                    break
                for part in place.read(page):
                    yield part
        yield _end(place.seen)


class _JobPlace:
    """How far a stream of one job has come. The numbers of a job's events have no gaps: it notices what it lacks."""

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self.is_behind = True
        """Whether the database may have more events than were sent."""
        self.is_over = False

    def has_ended(self) -> bool:
        return self.is_over

    def read(self, page: JobEvents) -> list[bytes]:
        """The next messages from the database."""
        if self.seen > page.last_seq:
            self.seen = 0
            text = {
                "reason": "The database has another history: this job has no such event any more.",
                "remedy": "Forget what you have read of this job; its events follow from the first one on.",
            }
            return [message("reset", text, cursor="0")]
        if page.events:
            self.seen = page.events[-1].seq
        self.is_behind = self.seen < page.last_seq
        self.is_over = page.is_over and not self.is_behind
        return [b"".join([job_message(event) for event in page.events])] if page.events else []

    def follow(self, items: Sequence[Item]) -> bytes:
        """Of what the reader gives, what comes next."""
        parts = []
        for item in items:
            if isinstance(item, Frame) and item.seen.event.seq == self.seen + 1:
                parts.append(item.for_job)
                self.seen += 1
                self.is_behind = self.is_behind or item.seen.event.event in JOB_ENDS
            elif not isinstance(item, Frame) or item.seen.event.seq > self.seen:
                self.is_behind = True
        return b"".join(parts)


def _end(seen: int) -> bytes:
    text = {"reason": "The job has ended.", "remedy": "After a recovery, go on from the last event's id."}
    return message("end", text, cursor=str(seen))
