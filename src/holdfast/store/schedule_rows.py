"""Schedules as the store keeps them, and what one look decides about a schedule. Plain data; reads nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.define.timing import Timing

MOST_WAITING = 100
"""How many ticks of a schedule wait at most, and how many that were missed are caught up."""
PERSON, FILE, LEFT_FILE = "person", "file", "left_file"
"""Who keeps a schedule: a person, the file of its workflow, or a file that no longer has it."""


class ScheduleRow(NamedTuple):
    """A schedule at one moment."""

    tenant: str
    name: str
    schedule_id: str
    workflow_id: str
    cron: str | None
    every_seconds: int | None
    time_zone: str
    anchored_at: datetime
    """From when on an interval counts."""
    inputs: dict[str, Any]
    overlap: str
    catch_up: str
    source: str
    created_at: datetime
    created_by: str
    changed_at: datetime
    changed_by: str
    now: datetime
    """When the row was read, by the clock of the database."""
    next_at: datetime | None = None
    """The next tick; None while the schedule is paused."""
    waiting: Sequence[datetime] = ()
    """Ticks that have no job yet: the job before them has not ended."""
    last_tick: datetime | None = None
    last_answer: str | None = None
    problem: str | None = None
    last_job: str | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    revision: int = 1
    """Grows with every change of the row."""
    last_job_status: str | None = None
    is_busy: bool = False
    """Whether the last job has not ended."""

    @property
    def timing(self) -> Timing:
        return Timing(self.cron, self.every_seconds, self.time_zone)

    def next_tick(self, moment: datetime) -> datetime | None:
        return self.timing.after(moment, self.anchored_at)


Decide = Callable[[ScheduleRow | None, int, datetime], ScheduleRow | None]
"""From a schedule as it is, the number of those of its tenant, and the time, to what it becomes."""


class Registered(NamedTuple):
    """The outcome of a registration."""

    registered_at: datetime
    is_new: bool
    schedule: ScheduleRow | None = None
    """The schedule with the id of the workflow as name; None: there is none, or it was not looked at."""


class Wanted(NamedTuple):
    """What a person or a file says of a schedule."""

    workflow_id: str
    timing: Timing
    inputs: dict[str, Any]
    overlap: str
    catch_up: str


class Move(NamedTuple):
    """What happens to the ticks of a schedule, in one transaction."""

    next_at: datetime | None
    waiting: list[datetime]
    last_tick: datetime | None
    last_answer: str | None
    problem: str | None = None
    start: datetime | None = None
    """The tick that gets its job now."""
    cancels: bool = False
    """Whether the last job is cancelled, because a tick replaces it."""
    alert: str | None = None
    """What a person must look at."""
