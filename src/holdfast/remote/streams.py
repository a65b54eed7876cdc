"""The part of the client over a URL that follows events as they happen: server-sent events, and coming again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import aclosing
from typing import NamedTuple

import orjson

from holdfast.errors import Unreachable
from holdfast.operations.streaming import RETRY_SECONDS
from holdfast.operations.watching import PATIENCE_SECONDS
from holdfast.remote.base import Remote, path_of, query_of
from holdfast.views.history import Event
from holdfast.views.streams import Streamed

EVENT_STREAM = "text/event-stream"
LARGEST_LINE_BYTES = 64 << 20


class Message(NamedTuple):
    """A server-sent event. Without data it only says how far the stream has come."""

    name: str
    cursor: str | None
    data: bytes


class RemoteStreams(Remote):
    """Streams of events."""

    async def stream(
        self,
        job_id: str | None = None,
        *,
        after: str | int | None = None,
        workflows: Collection[str] | None = None,
        events: Collection[str] | None = None,
    ) -> AsyncGenerator[Streamed, None]:
        path = path_of("jobs", job_id, "stream") if job_id is not None else "/events/stream"
        chosen = query_of(workflow=list(workflows or ()), event=list(events or ()))
        cursor = str(after) if after is not None else None
        lost_since: float | None = None
        while True:
            try:
                async with aclosing(self._messages(path, [*query_of(after=cursor), *chosen])) as messages:
                    async for message in messages:
                        lost_since = None
                        cursor = message.cursor or cursor
                        if message.name == "end":
                            return
                        if message.name == "reset":
                            yield Streamed(cursor or "", None)
                        elif message.name == "message" and message.data:
                            yield Streamed(cursor or "", self._read(Event, orjson.loads(message.data)))
            except Unreachable:
                lost_since = lost_since if lost_since is not None else time.monotonic()
                if time.monotonic() - lost_since > PATIENCE_SECONDS:
                    raise
            # The service ends, or this reader was too slow: it goes on where it was.
            await asyncio.sleep(RETRY_SECONDS)

    async def _messages(self, path: str, query: list[tuple[str, str]]) -> AsyncGenerator[Message, None]:
        query = [*query, *self._tenant()]
        async with self._connection.download(path, query, headers={"Accept": EVENT_STREAM}) as parts:
            name, cursor, data = "message", None, b""
            async with aclosing(lines_of(parts)) as lines:
                async for line in lines:
                    field, _, value = line.partition(b":")
                    value = value.removeprefix(b" ")
                    if not line:
                        if data or cursor is not None:
                            yield Message(name, cursor, data)
                        name, cursor, data = "message", None, b""
                    elif field == b"event":
                        name = value.decode()
                    elif field == b"id":
                        cursor = value.decode()
                    elif field == b"data":
                        data += value


async def lines_of(parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The lines, however the parts cut them."""
    rest = b""
    async for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line
        if len(rest) > LARGEST_LINE_BYTES:
            raise Unreachable("The service sends a line without an end.", remedy="Check the address of the service.")
