"""Rows about the processes that serve a database and the work that none of them serves. Plain data; reads nothing."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class OrchestratorView(NamedTuple):
    """A live orchestrator and the open jobs that it owns."""

    orchestrator_id: int
    name: str
    version: str
    started_at: datetime
    lease_seconds: float
    jobs: int
    oldest_job: str | None
    oldest_created_at: datetime | None
    only_job: str | None = None
    """The one job that it drives; it takes no other."""


class WorkerView(NamedTuple):
    """A live worker; `tasks` are its leases, also those of tasks that it has claimed ahead and not begun."""

    worker_id: int
    name: str
    version: str
    queues: list[str] | None
    handlers: list[str]
    concurrency: int
    tasks: int
    lease_seconds: float
    started_at: datetime
    changed_files: list[str]


class JobsWithoutOwner(NamedTuple):
    """Open jobs whose owner has ended since then or, without an owner, that no orchestrator has claimed."""

    owner_id: int | None
    owner: str | None
    since: datetime
    jobs: int
    oldest_job: str


class UnservedTasks(NamedTuple):
    """Queued tasks that no live worker takes; `since` is when the oldest of them was queued."""

    queue: str
    handler: str
    tasks: int
    since: datetime
    queue_is_served: bool

    @property
    def cause(self) -> str:
        return "no_worker_for_handler" if self.queue_is_served else "no_worker_for_queue"


class Fleet(NamedTuple):
    orchestrators: list[OrchestratorView]
    workers: list[WorkerView]
    without_owner: list[JobsWithoutOwner]
    unserved: list[UnservedTasks]
