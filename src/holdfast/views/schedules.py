"""Schedules: what starts by the clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from holdfast.store.schedule_rows import FILE, LEFT_FILE, Move, ScheduleRow
from holdfast.views.encoding import VERBATIM
from holdfast.views.gates import Pause

SHOWN_RUNS = 5


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule at one moment. Its jobs have the label `schedule` with its name."""

    name: str
    workflow_id: str
    cron: str | None
    """Minute, hour, day of the month, month and day of the week; null: it has an interval."""
    every_seconds: int | None
    time_zone: str
    """The time zone of the cron expression."""
    inputs: dict[str, Any] = field(metadata=VERBATIM)
    overlap: str
    """What a tick does while the job before it has not ended: `skip`, `queue` or `replace`."""
    catch_up: str
    """Which ticks count of those that were missed while no process was there: `none`, `last` or `all`."""
    source: str
    """Who keeps it: `person`, `file` (the file of its workflow), or `left_file` (the file has it no longer)."""
    next_runs: tuple[datetime, ...]
    """The next five ticks; none while it is paused."""
    waiting: tuple[datetime, ...]
    """Ticks that wait for the end of the job before them, the oldest first."""
    last_tick: datetime | None
    last_answer: str | None
    """The outcome of the last tick: `started`, `waits`, `replaces`, `skipped`, `missed`, `left_out` or `refused`."""
    problem: str | None
    """Why the last tick made no job, if a person must look."""
    last_job: str | None
    last_job_status: str | None
    """Null: there is no job, or it was pruned."""
    paused: Pause | None
    created_at: datetime
    created_by: str
    changed_at: datetime
    changed_by: str


@dataclass(frozen=True, slots=True)
class Triggered:
    """What a tick of a person has led to."""

    schedule: str
    answer: str
    """`started`, `waits` for the end of the job before it, or `replaces` that job."""
    job_id: str | None
    """The job that was made; null while the tick waits."""


@dataclass(frozen=True, slots=True)
class AppliedSchedule:
    """What a registration has made of the schedule of the file."""

    answer: str
    """`added`, `changed`, `unchanged` or `paused`: the file no longer has it."""
    schedule: Schedule


def applied_view(before: ScheduleRow | None, after: ScheduleRow | None) -> AppliedSchedule | None:
    """None: the file has no schedule, and had none."""
    if after is None or (before is not None and before.source == after.source != FILE):
        return None
    if before is None:
        answer = "added"
    elif after.source == LEFT_FILE:
        answer = "paused"
    else:
        answer = "unchanged" if before.revision == after.revision else "changed"
    return AppliedSchedule(answer, schedule_view(after))


def schedule_view(row: ScheduleRow) -> Schedule:
    return Schedule(
        row.name,
        row.workflow_id,
        row.cron,
        row.every_seconds,
        row.time_zone,
        row.inputs,
        row.overlap,
        row.catch_up,
        row.source,
        _next_runs(row),
        tuple(row.waiting),
        row.last_tick,
        row.last_answer,
        row.problem,
        row.last_job,
        row.last_job_status,
        Pause(row.paused_by or "", row.paused_at, row.pause_reason) if row.paused_at is not None else None,
        row.created_at,
        row.created_by,
        row.changed_at,
        row.changed_by,
    )


def triggered_view(row: ScheduleRow, move: Move, job_id: str | None) -> Triggered:
    return Triggered(row.name, move.last_answer or "", job_id)


def _next_runs(row: ScheduleRow) -> tuple[datetime, ...]:
    if row.next_at is None:
        return ()
    try:
        return (row.next_at, *islice(row.timing.ticks_after(row.next_at, row.anchored_at), SHOWN_RUNS - 1))
    except (LookupError, OSError):
        # This machine does not know the time zone.
        return (row.next_at,)
