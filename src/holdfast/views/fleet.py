"""The processes that serve a database, and the work that none of them serves."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from holdfast.store import fleet as rows
from holdfast.views.encoding import HIDDEN


@dataclass(frozen=True, slots=True)
class Orchestrator:
    """A live orchestrator and the open jobs that it owns."""

    id: int
    name: str
    version: str
    started_at: datetime
    lease_seconds: float
    jobs: int
    oldest_job: str | None
    oldest_created_at: datetime | None
    only_job: str | None = field(default=None, metadata=HIDDEN)
    """The one job that it drives; it takes no other."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A live worker. `tasks` counts its leases, also those that it has not started yet."""

    id: int
    name: str
    version: str
    queues: tuple[str, ...] | None
    """The queues that it serves; None: all of them."""
    handlers: tuple[str, ...]
    concurrency: int
    tasks: int
    lease_seconds: float
    started_at: datetime
    changed_files: tuple[str, ...] = ()
    """The files of its handlers that have changed since it imported them: it runs older code."""


@dataclass(frozen=True, slots=True)
class JobsWithoutOwner:
    """Open jobs that no live orchestrator owns. Without an owner, none has claimed them yet."""

    owner_id: int | None
    owner: str | None
    since: datetime
    jobs: int
    oldest_job: str


@dataclass(frozen=True, slots=True)
class UnservedTasks:
    """Queued tasks that no live worker takes; `since` is when the oldest of them was queued."""

    cause: str
    queue: str
    handler: str
    tasks: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Fleet:
    orchestrators: tuple[Orchestrator, ...] = ()
    workers: tuple[Worker, ...] = ()
    without_owner: tuple[JobsWithoutOwner, ...] = ()
    unserved: tuple[UnservedTasks, ...] = ()


def fleet_view(fleet: rows.Fleet) -> Fleet:
    return Fleet(
        tuple(_orchestrator(row) for row in fleet.orchestrators),
        tuple(worker_view(row) for row in fleet.workers),
        tuple(JobsWithoutOwner(*row) for row in fleet.without_owner),
        tuple(unserved_view(row) for row in fleet.unserved),
    )


def worker_view(row: rows.WorkerView) -> Worker:
    return Worker(
        row.worker_id,
        row.name,
        row.version,
        tuple(row.queues) if row.queues is not None else None,
        tuple(row.handlers),
        row.concurrency,
        row.tasks,
        round(row.lease_seconds, 3),
        row.started_at,
        tuple(row.changed_files),
    )


def unserved_view(row: rows.UnservedTasks) -> UnservedTasks:
    return UnservedTasks(row.cause, row.queue, row.handler, row.tasks, row.since)


def _orchestrator(row: rows.OrchestratorView) -> Orchestrator:
    return Orchestrator(
        row.orchestrator_id,
        row.name,
        row.version,
        row.started_at,
        round(row.lease_seconds, 3),
        row.jobs,
        row.oldest_job,
        row.oldest_created_at,
        row.only_job,
    )
