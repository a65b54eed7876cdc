"""What the janitor finds and does, and what a prune deletes, as plain records. Reads nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from holdfast.core.states import JOB_TERMINAL
from holdfast.define.graph import Graph

EVERY_STATUS = tuple(sorted(JOB_TERMINAL))
"""The statuses of jobs that a prune may delete."""


class Finding(NamedTuple):
    """Something that is not as it should be, and what is done about it: `recheck`, `expire`, `delete` or `alert`."""

    duty: str
    action: str
    reason: str
    job_id: str | None = None
    node: str | None = None
    item: int | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class Fact(NamedTuple):
    """A row of a look: where something is wrong, and what was seen there."""

    job_id: str | None
    node: str | None
    item: int | None
    seen: dict[str, Any]


class CompletedJob(NamedTuple):
    job_id: str
    finished_at: datetime


class OpenJob(NamedTuple):
    """An open job, and the statuses of those of its nodes that have begun."""

    job_id: str
    graph: Graph
    statuses: dict[str, str]


class ActionView(NamedTuple):
    """A line of the janitor's log."""

    run: str
    duty: str
    action: str
    job_id: str | None
    node: str | None
    item: int | None
    reason: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    at: datetime
    action_id: int


class LeaderView(NamedTuple):
    holder: str
    since: datetime
    lease_seconds: float


class Pruned(NamedTuple):
    """Jobs of one workflow with one status that have gone, or may go."""

    workflow_id: str
    status: str
    jobs: int
    tasks: int
    bytes: int
    oldest: datetime
    """When the first of them ended."""


class PrunedJob(NamedTuple):
    """A job that was deleted."""

    job_id: str
    workflow_id: str
    status: str
    tasks: int
    bytes: int
    finished_at: datetime


class OldestLeft(NamedTuple):
    job_id: str
    workflow_id: str
    finished_at: datetime
