"""Rows about an installation and its work over time. Plain data; reads nothing."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class StatsRow(NamedTuple):
    """What happened in one step of time."""

    start: datetime
    jobs_submitted: int = 0
    jobs_completed: int = 0
    jobs_partial: int = 0
    jobs_failed: int = 0
    jobs_cancelled: int = 0
    tasks_completed: int = 0
    tasks_failed: int = 0
    tasks_skipped: int = 0
    tasks_cancelled: int = 0
    attempts_failed: int = 0


class LastPass(NamedTuple):
    """When the janitor was here last, and which migration was applied last."""

    counted_at: datetime | None
    schema_number: int


class CauseRow(NamedTuple):
    """Something that a person should look at: how many there are, since when, and an example."""

    cause: str
    number: int
    since: datetime
    instance: str | None
    workflow_id: str | None
    text: str


class PausedJobs(NamedTuple):
    """The paused jobs of one workflow."""

    workflow_id: str
    jobs: int
    since: datetime
    by: list[str]
