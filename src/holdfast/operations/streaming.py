"""Streams of events: of one job by the numbers of its events, of all jobs of a tenant by snapshots of the database.

Transactions do not commit in the order in which they begin. So a reader of all jobs goes from one snapshot to the next
and takes what the later one sees and the earlier one does not: each event once, in order within a job, and nothing that
an open transaction elsewhere could hold up.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar
from uuid import UUID

from holdfast.core.states import JOB_TERMINAL
from holdfast.errors import InvalidInput, NotFound, Unreachable
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.operations.stream_ports import StreamStore
from holdfast.operations.watching import PATIENCE_SECONDS
from holdfast.remedies import Remedy
from holdfast.store.records import FIRST_JOB
from holdfast.store.stream_rows import Place as Place
from holdfast.store.stream_rows import StreamRow
from holdfast.views.history import Event, event_view
from holdfast.views.streams import Streamed

TICK_SECONDS = 0.1
PAGE_LENGTH = 1_000
MOST_MISSED = 100_000
"""How many events a stream reads again; one that has missed more starts over."""
JOB_LOOK_SECONDS = 0.2
JOB_ENDS = frozenset(f"job_{status}" for status in JOB_TERMINAL)
"""The events with which a generation of a job ends."""
RETRY_SECONDS = 0.5
LONGEST_CURSOR = 60_000
_HISTORY = re.compile(r"[0-9]{1,20}-[0-9A-F]{8}-[0-9]{1,10}-[0-9]{1,10}", re.ASCII)
_SNAPSHOT = re.compile(r"[0-9]{1,18}:[0-9]{1,18}:([0-9]{1,18}(,[0-9]{1,18})*)?", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
BEGINNING = (FIRST_JOB, 0)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the stream over all jobs: behind an event among those that `new` sees and `old` does not.

    Without `new` it is the place behind everything that `old` sees.
    """

    history: str
    old: str
    new: str | None = None
    job_id: str = FIRST_JOB
    seq: int = 0

    def __str__(self) -> str:
        if self.new is None:
            return f"{self.history}/{self.old}"
        return f"{self.history}/{self.old}/{self.new}/{self.job_id}/{self.seq}"

    @classmethod
    def of(cls, place: Place) -> Cursor:
        return cls(place.history, place.snapshot)

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Refuse what no stream can have given: the database never sees it."""
        parts = text.split("/") if len(text) <= LONGEST_CURSOR else []
        if len(parts) in (2, 5) and _HISTORY.fullmatch(parts[0]) and all(map(_is_snapshot, parts[1:3])):
            if len(parts) == 2:
                return cls(parts[0], parts[1])
            if _NUMBER.fullmatch(parts[4]) and _is_job_id(parts[3]):
                return cls(parts[0], parts[1], parts[2], parts[3], int(parts[4]))
        shown = text if len(text) < 100 else f"{text[:100]}…"
        raise InvalidInput(
            f"'{shown}' is no place in a stream of events.", remedy="Give the id of the last event that you have seen."
        )

    def is_lost(self, present: Place) -> bool:
        """Whether the stream cannot go on here: the database has another history, or events behind it are deleted."""
        latest = self.new or self.old
        is_later = _ends(latest) > _ends(present.snapshot)
        return (
            self.history != present.history
            or is_later
            or (present.pruned is not None and present.pruned >= int(self.old.split(":")[0]))
        )


class Happening(NamedTuple):
    """An event with its place in the stream over all jobs, and what its listeners choose by."""

    tenant: str
    workflow_id: str
    event: Event
    cursor: Cursor


class JobEvents(NamedTuple):
    """The next events of a job. With `is_over` the job had ended with the event `last_seq` when they were read."""

    is_over: bool
    last_seq: int
    events: list[Event]

    @property
    def is_full(self) -> bool:
        """Whether more may follow at once."""
        return len(self.events) == PAGE_LENGTH


def _is_snapshot(text: str) -> bool:
    """Whether Postgres takes it: the running transactions stand in order between the two bounds."""
    if _SNAPSHOT.fullmatch(text) is None:
        return False
    least, end, listed = text.split(":")
    running = [int(one) for one in listed.split(",") if one]
    numbers = [int(least), *running, int(end)]
    in_order = all(one < other for one, other in zip(running, numbers[2:], strict=True))
    return 0 < numbers[0] <= numbers[-1] and (not running or numbers[0] <= running[0]) and in_order


def _is_job_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _ends(snapshot: str) -> int:
    return int(snapshot.split(":")[1])


def is_later(place: Place, before: Place) -> bool:
    """Whether a reader may go on from `before` to this place: it has the same history, and is not older."""
    return place.history == before.history and _ends(place.snapshot) >= _ends(before.snapshot)


async def pages_between(
    store: StreamStore,
    history: str,
    old: str,
    new: str,
    *,
    tenants: Sequence[str] | None,
    after: tuple[str, int] = BEGINNING,
    from_before: bool = False,
) -> AsyncIterator[list[Happening]]:
    """The events that `new` sees and `old` does not, by job and number, page by page."""
    while old != new:
        rows = await store.newly_visible(
            old, new, after=after, limit=PAGE_LENGTH, tenants=tenants, from_before=from_before
        )
        if rows:
            yield [_happening(row, Cursor(history, old, new, row.job_id, row.seq)) for row in rows]
        if len(rows) < PAGE_LENGTH:
            return
        after = (rows[-1].job_id, rows[-1].seq)


def _happening(row: StreamRow, cursor: Cursor) -> Happening:
    return Happening(row.tenant, row.workflow_id, event_view(row), cursor)


async def missed(store: StreamStore, cursor: Cursor, present: Place, tenant: str) -> AsyncIterator[list[Happening]]:
    """The events between a cursor, which is not lost, and the present."""
    if cursor.new is not None:
        after = (cursor.job_id, cursor.seq)
        between = pages_between(
            store, present.history, cursor.old, cursor.new, tenants=[tenant], after=after, from_before=True
        )
        async for page in between:
            yield page
    latest = cursor.new or cursor.old
    async for page in pages_between(
        store, present.history, latest, present.snapshot, tenants=[tenant], from_before=True
    ):
        yield page


async def must_start_over(store: StreamStore, cursor: Cursor, present: Place) -> bool:
    """Whether the stream cannot go on at a cursor, or would have to read too much."""
    return cursor.is_lost(present) or await store.has_many_new(cursor.old, present.snapshot, MOST_MISSED)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which events of a tenant a listener wants: of these workflows, and with these names; none named: all."""

    workflows: frozenset[str] = frozenset()
    events: frozenset[str] = frozenset()

    @classmethod
    def of(cls, workflows: Collection[str] | None, events: Collection[str] | None) -> Chosen:
        return cls(frozenset(workflows or ()), frozenset(events or ()))

    @property
    def is_all(self) -> bool:
        return not self.workflows and not self.events

    def has(self, workflow_id: str, event: str) -> bool:
        return (not self.workflows or workflow_id in self.workflows) and (not self.events or event in self.events)


async def stream_tenant(
    scope: Scope, store: OperationsStore, *, after: str | None, chosen: Chosen
) -> AsyncIterator[Streamed]:
    """The events of all jobs of the tenant as they are committed, from `after` on or from now on, without an end."""
    streams = store.streams()
    cursor = Cursor.parse(after) if after is not None else None
    present = await _patiently(streams.place)
    if cursor is not None:
        if await _patiently(lambda: must_start_over(streams, cursor, present)):
            yield Streamed(str(Cursor.of(present)), None)
        else:
            async for page in missed(streams, cursor, present, scope.tenant):
                for step in _steps(page, chosen):
                    yield step
    while True:
        await asyncio.sleep(TICK_SECONDS)
        now = await _patiently(streams.place)
        if not is_later(now, present):
            yield Streamed(str(Cursor.of(now)), None)
        else:
            async for page in all_between(streams, present, now, tenants=[scope.tenant]):
                for step in _steps(page, chosen):
                    yield step
        present = now


async def all_between(
    streams: StreamStore, old: Place, new: Place, *, tenants: Sequence[str] | None
) -> AsyncIterator[list[Happening]]:
    """The same as `pages_between`, however long the database is out of reach meanwhile."""
    after = BEGINNING
    while True:
        pages = pages_between(streams, new.history, old.snapshot, new.snapshot, tenants=tenants, after=after)
        try:
            async for page in pages:
                after = (page[-1].event.job_id, page[-1].event.seq)
                yield page
            return
        except Unreachable:
            await asyncio.sleep(RETRY_SECONDS)


def _steps(page: Sequence[Happening], chosen: Chosen) -> list[Streamed]:
    return [Streamed(str(one.cursor), one.event) for one in page if chosen.has(one.workflow_id, one.event.event)]


async def stream_job(
    scope: Scope, store: OperationsStore, job_id: str, *, after: str | int | None
) -> AsyncIterator[Streamed]:
    """The events of a job, from the number `after` on, until the job has ended."""
    streams, seen = store.streams(), job_place(after)
    while True:
        page = await _patiently(partial(job_events, streams, scope.tenant, job_id, seen))
        if seen > page.last_seq:
            # Another history of the database: what was read of this job may never have happened.
            seen = 0
            yield Streamed("0", None)
            continue
        for event in page.events:
            seen = event.seq
            yield Streamed(str(seen), event)
        if page.is_over and seen >= page.last_seq:
            return
        if not page.is_full:
            await asyncio.sleep(JOB_LOOK_SECONDS)


async def job_events(streams: StreamStore, tenant: str, job_id: str, after: int) -> JobEvents:
    """The next events of a job of the tenant. Refused if there is none."""
    page = await streams.job_events(job_id, tenant, after, PAGE_LENGTH)
    if page is None:
        raise NotFound(f"There is no job {job_id}.", remedy=Remedy("List the jobs with", "status"), instance=job_id)
    return JobEvents(page.is_over, page.last_seq, [event_view(row) for row in page.rows])


def job_place(after: str | int | None) -> int:
    """The number of the last event of a job that was seen."""
    text = str(after if after not in (None, "") else 0)
    if _NUMBER.fullmatch(text) is None:
        raise InvalidInput(f"'{text[:100]}' is not the number of an event.", remedy="Give the `seq` of an event.")
    return int(text)


async def _patiently(read: Callable[[], Awaitable[Value]]) -> Value:
    """What `read` gives; while the database is out of reach, again and again for a minute."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await read()
        except Unreachable:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(RETRY_SECONDS)
