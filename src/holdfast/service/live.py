"""The streams of one process: one reader for all of them, and what waits to be sent to each.

The reader works while a stream is open. It gives every event to those who want it, encoded once. A stream that comes
from before reads what it has missed by itself, on another connection, and joins at a snapshot of the reader.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import orjson

from holdfast.errors import Forbidden, Unauthenticated, Unreachable
from holdfast.log_events import EventLog
from holdfast.operations.ports import OperationsStore
from holdfast.operations.streaming import RETRY_SECONDS, TICK_SECONDS, Happening, Place, all_between, is_later
from holdfast.views.encoding import to_json
from holdfast.views.history import Event

MOST_WAITING = 10_000
"""A listener that has so many events waiting is cut: it comes again and reads them from the database."""
IDENTITY_SECONDS = 0.5
"""How often the credentials of open streams are looked at. Each is read again when the process has forgotten it."""
_log = EventLog("holdfast.service")


class Frame(NamedTuple):
    """One event as it is sent: to those who follow its job, and to those who follow its tenant."""

    seen: Happening
    for_job: bytes
    for_tenant: bytes


class Batch(NamedTuple):
    """Events that became visible together, for the listeners of a tenant."""

    frames: list[Frame]
    joined: bytes


class Ending(NamedTuple):
    """The last message of a stream."""

    message: bytes


Item = Place | Batch | Frame | Ending
"""What a listener gets: first where it joins, and again if the database has another history; then events."""


def message(event: str, data: object, *, cursor: str | None = None, retry: int | None = None) -> bytes:
    """A message of the stream itself, not of a job."""
    lines = [f"event: {event}"]
    lines += [f"id: {cursor}"] if cursor is not None else []
    lines += [f"retry: {retry}"] if retry is not None else []
    return "\n".join(lines).encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


def job_message(event: Event) -> bytes:
    """An event, for those who follow its job."""
    return b"id: %d\ndata: " % event.seq + orjson.dumps(to_json(event)) + b"\n\n"


def frame(seen: Happening) -> Frame:
    data = b"data: " + orjson.dumps(to_json(seen.event)) + b"\n\n"
    return Frame(seen, b"id: %d\n" % seen.event.seq + data, f"id: {seen.cursor}\n".encode() + data)


BEHIND = message("behind", {"reason": "This stream was read too slowly.", "remedy": "Go on from the last event's id."})


class Listener:
    """One open stream, and what waits to be sent."""

    __slots__ = ("_items", "_waiting", "_wake", "ending", "job_id", "tenant")

    def __init__(self, tenant: str, job_id: str | None) -> None:
        self.tenant, self.job_id = tenant, job_id
        self.ending: Ending | None = None
        self._items: deque[Item] = deque()
        self._waiting = 0
        self._wake: asyncio.Event = asyncio.Event()

    def give(self, item: Item) -> None:
        self._waiting += len(item.frames) if isinstance(item, Batch) else 1
        if self._waiting > MOST_WAITING:
            self.end(BEHIND)
        elif self.ending is None:
            self._items.append(item)
            self._wake.set()

    def has_ended(self) -> bool:
        """Whether only the last message is still to be sent."""
        return self.ending is not None

    def end(self, last: bytes) -> None:
        """Send nothing more that waits, only this."""
        if self.ending is None:
            self.ending = Ending(last)
            self._items.clear()
            self._wake.set()

    async def take(self, seconds: float) -> list[Item]:
        """Everything that waits; nothing if nothing comes within that time."""
        if not self._items and self.ending is None:
            self._wake.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                return []
        if self.ending is not None:
            return [self.ending]
        items = list(self._items)
        self._items.clear()
        self._waiting = 0
        return items


class Live:
    """The streams of one process."""

    def __init__(self, store: OperationsStore) -> None:
        self.store = store.streams()
        self.position: Place | None = None
        """Everything that this sees was given to the listeners; None while something is being given."""
        self._joining: list[Listener] = []
        self._jobs: dict[str, set[Listener]] = {}
        self._tenants: dict[str, set[Listener]] = {}
        self._guarded: dict[Hashable, tuple[Callable[[], Awaitable[object]], set[Listener]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_ending = False

    @property
    def listeners(self) -> int:
        return sum(len(listeners) for _, listeners in self._guarded.values())

    @contextmanager
    def listening(
        self,
        tenant: str,
        job_id: str | None = None,
        *,
        credential: Hashable,
        check: Callable[[], Awaitable[object]],
    ) -> Iterator[Listener]:
        """A listener for the duration of the block. `check` refuses when the credential is not valid any more."""
        listener = Listener(tenant, job_id)
        _, guarded = self._guarded.setdefault(credential, (check, set()))
        guarded.add(listener)
        self._joining.append(listener)
        if self._is_ending:
            listener.end(_restart())
        elif not self._tasks:
            self._tasks = [self._start(self._read()), self._start(self._guard())]
        try:
            yield listener
        finally:
            guarded.discard(listener)
            if not guarded and self._guarded.get(credential, (None, None))[1] is guarded:
                del self._guarded[credential]
            self._leave(listener)

    def _leave(self, listener: Listener) -> None:
        if listener in self._joining:
            self._joining.remove(listener)
        group, name = self._group_of(listener)
        if listener in group.get(name, ()):
            group[name].discard(listener)
            if not group[name]:
                del group[name]
        if not self._guarded:
            self._stop_reading()

    def _stop_reading(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks, self.position = [], None

    def _start(self, duty: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(duty, name="holdfast streams")
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """By our bug, or because the schema is gone: the streams end, and listeners that come again start over."""
        if task.cancelled() or task not in self._tasks:
            return
        self._stop_reading()
        _log.write("streams_ended", error=task.exception())
        for listener in self._everybody():
            listener.end(_restart())

    def _group_of(self, listener: Listener) -> tuple[dict[str, set[Listener]], str]:
        return (self._tenants, listener.tenant) if listener.job_id is None else (self._jobs, listener.job_id)

    def _everybody(self) -> list[Listener]:
        return [listener for _, listeners in self._guarded.values() for listener in listeners]

    def end(self) -> None:
        """Tell all streams, also those to come, that this process ends and that they find another one."""
        self._is_ending = True
        for listener in self._everybody():
            listener.end(_restart())

    async def _read(self) -> None:
        place: Place | None = None
        while True:
            began = asyncio.get_running_loop().time()
            joining, self._joining = self._joining, []
            try:
                place = await self._next(place)
            except Unreachable:
                # Listeners keep their places; what is committed meanwhile comes when the database answers again.
                self._joining[:0] = [one for one in joining if one.ending is None]
                await asyncio.sleep(RETRY_SECONDS)
                continue
            for listener in joining:
                if listener.ending is None:
                    group, name = self._group_of(listener)
                    group.setdefault(name, set()).add(listener)
                    listener.give(place)
            passed = asyncio.get_running_loop().time() - began
            await asyncio.sleep(max(0.0, TICK_SECONDS - passed))

    async def _next(self, place: Place | None) -> Place:
        """Give to the listeners what has become visible since a place; returns the next place."""
        now = await self.store.place()
        if place is not None and not is_later(now, place):
            for listeners in (*self._jobs.values(), *self._tenants.values()):
                for listener in listeners:
                    listener.give(now)
        elif place is not None and (self._jobs or self._tenants):
            await self._give_between(place, now)
        self.position = now
        return now

    async def _give_between(self, place: Place, now: Place) -> None:
        tenants = sorted({*self._tenants, *(one.tenant for several in self._jobs.values() for one in several)})
        async for page in all_between(self.store, place, now, tenants=tenants):
            self.position = None
            self._give([frame(seen) for seen in page if self._is_wanted(seen)])
            await asyncio.sleep(0)

    def _is_wanted(self, seen: Happening) -> bool:
        return seen.tenant in self._tenants or seen.event.job_id in self._jobs

    def _give(self, frames: list[Frame]) -> None:
        by_tenant: dict[str, list[Frame]] = {}
        for one in frames:
            by_tenant.setdefault(one.seen.tenant, []).append(one)
            for listener in self._jobs.get(one.seen.event.job_id, ()):
                if listener.tenant == one.seen.tenant:
                    listener.give(one)
        for tenant, listeners in self._tenants.items():
            mine = by_tenant.get(tenant)
            if mine:
                batch = Batch(mine, b"".join([one.for_tenant for one in mine]))
                for listener in listeners:
                    listener.give(batch)

    async def _guard(self) -> None:
        """End the streams of credentials that are not valid any more."""
        while True:
            await asyncio.sleep(IDENTITY_SECONDS)
            for check, listeners in list(self._guarded.values()):
                try:
                    await check()
                except (Unauthenticated, Forbidden) as problem:
                    for listener in list(listeners):
                        listener.end(message("revoked", problem.to_problem()))
                except Unreachable:
                    # No key can be revoked meanwhile, either.
                    break


def _restart() -> bytes:
    text = {"reason": "This process ends.", "remedy": "Go on from the last event's id, at any process."}
    return message("restart", text, retry=random.randrange(500, 3_000))
