"""Breakers and limits: what holds tasks back."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from holdfast.store.read_rows import BreakerView, LimitView
from holdfast.views.encoding import HIDDEN


@dataclass(frozen=True, slots=True)
class Breaker:
    """A breaker at one moment. `calls` and `failed` are of its window; `waiting` and `running` are tasks behind it."""

    name: str
    state: str
    held_by: str | None
    """The person who holds it open, if one does."""
    since: datetime
    until: datetime | None
    has_probe: bool
    calls: int
    failed: int
    window_calls: int
    successes: int
    waiting: int
    running: int
    reason: str | None
    actor: str | None


@dataclass(frozen=True, slots=True)
class Rate:
    """How many tasks may start in how many seconds."""

    limit: int
    per_seconds: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Who lets nothing begin, since when, and why."""

    by: str
    since: datetime
    reason: str | None


@dataclass(frozen=True, slots=True)
class PausedQueue:
    """A queue that a person has paused or unpaused, with its tasks of all tenants at that moment."""

    queue: str
    paused: Pause | None
    """The pause; after an unpause, the one that ended."""
    waiting: int
    running: int


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit at one moment. Its `actor` is the person who set it; None: its workflow declares it."""

    name: str
    tenant: str | None
    concurrency: int | None
    rate: Rate | None
    backlog: int | None
    running: int
    waiting: int
    open_jobs: int | None
    changed_at: datetime
    actor: str | None
    paused: Pause | None = None
    """The pause of the queue, which lets nothing begin whatever the limit allows."""
    is_declared: bool = field(default=False, metadata=HIDDEN)
    """Whether its name is one that workflows declare."""


def breaker_view(row: BreakerView) -> Breaker:
    return Breaker(
        row.name,
        row.state,
        row.actor if row.held else None,
        row.since,
        row.until,
        row.has_probe,
        row.calls,
        row.failed,
        row.window_calls,
        row.successes,
        row.waiting,
        row.running,
        row.reason,
        row.actor,
    )


def limit_view(row: LimitView) -> Limit:
    return Limit(
        row.name,
        row.tenant or None,
        row.concurrency,
        Rate(row.burst, round(row.burst / row.rate, 6)) if row.burst and row.rate else None,
        row.backlog,
        row.running,
        row.waiting,
        row.open_jobs,
        row.changed_at,
        row.actor,
        queue_pause(row),
        row.is_declared,
    )


def queue_pause(row: LimitView) -> Pause | None:
    if row.paused_at is None:
        return None
    return Pause(row.paused_by or "", row.paused_at, row.pause_reason)


def paused_queue_view(row: LimitView) -> PausedQueue:
    return PausedQueue(row.name.removeprefix("queue:"), queue_pause(row), row.waiting, row.running)
