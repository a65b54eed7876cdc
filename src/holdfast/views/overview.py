"""What a tenant has: its workflows, its queues, and how many jobs ended in each hour."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from holdfast.views.encoding import IF_ANY
from holdfast.views.fleet import UnservedTasks
from holdfast.views.gates import Pause
from holdfast.views.schedules import AppliedSchedule


@dataclass(frozen=True, slots=True)
class Registration:
    """The current definition of a workflow id: `submit ID` takes it."""

    workflow_id: str
    version: str
    definition_hash: str
    registered_at: datetime
    answer: str
    """`registered`: it is the current one now. `already_current`: it was before."""
    schedule: AppliedSchedule | None = field(default=None, metadata=IF_ANY)
    """The schedule of the file, if it has one or had one."""


@dataclass(frozen=True, slots=True)
class WorkflowSummary:
    """A workflow of a tenant: its current version, and its jobs by status."""

    workflow_id: str
    version: str
    registered_at: datetime
    jobs: dict[str, int]


@dataclass(frozen=True, slots=True)
class QueueState:
    """The tasks of one queue, and the live workers that serve it."""

    queue: str
    queued: int
    held: int
    """Tasks that wait behind a breaker, a limit or a pause."""
    running: int
    since: datetime | None
    """When the oldest task that does not run was queued."""
    workers: tuple[str, ...]
    unserved: tuple[UnservedTasks, ...]
    paused: Pause | None


@dataclass(frozen=True, slots=True)
class Hour:
    """How many jobs ended within one hour, by status."""

    start: datetime
    completed: int
    partial: int
    failed: int
    cancelled: int
    unacknowledged: int
    """How many of the failed and partial jobs no person has acknowledged."""

    @property
    def ended(self) -> int:
        return self.completed + self.partial + self.failed + self.cancelled
