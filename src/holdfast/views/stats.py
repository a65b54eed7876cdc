"""What happened over time, in steps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdfast.store.stats_rows import StatsRow


@dataclass(frozen=True, slots=True)
class StatsStep:
    """What happened within one step of time. A job or a task that ends again after a recovery counts again."""

    start: datetime
    jobs_submitted: int
    jobs_completed: int
    jobs_partial: int
    jobs_failed: int
    jobs_cancelled: int
    tasks_completed: int
    """Items, and own tasks of nodes."""
    tasks_failed: int
    tasks_skipped: int
    tasks_cancelled: int
    """Items, and own tasks of nodes that had an attempt."""
    attempts_failed: int
    """Attempts that failed or were lost, whether another one followed or not."""


def stats_view(row: StatsRow) -> StatsStep:
    return StatsStep(*row)
