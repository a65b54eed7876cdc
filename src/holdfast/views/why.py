"""Why a job is not finished, or why it ended as it did. Pure; what it needs was read before, in one snapshot.

Tasks come in groups, by node and cause: a hundred thousand items are a few reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import chain
from typing import Any

from holdfast.core.failing import Failure
from holdfast.core.states import JOB_TERMINAL, TERMINAL, JobStatus, Status
from holdfast.define.definition import Definition
from holdfast.define.kinds import kind_of
from holdfast.moments import moment
from holdfast.store.fleet import WorkerView
from holdfast.store.read_rows import JobDiagnosis, NodeView, QueuedTasks
from holdfast.views.encoding import HIDDEN, VERBATIM, to_json
from holdfast.views.held import pause_view
from holdfast.views.history import FailedGroup, failure_view
from holdfast.views.jobs import SET_ASIDE, work_began
from holdfast.views.outcome import Recovery, recovery_view


class Cause(StrEnum):
    """What keeps a job, a node or a task from continuing. A job that has ended has its status as the cause."""

    WAITING_FOR_NODES = "waiting_for_nodes"
    RETRY_SCHEDULED = "retry_scheduled"
    BREAKER_OPEN = "breaker_open"
    LIMIT_REACHED = "limit_reached"
    PAUSED = "paused"
    RUNNING = "running"
    NO_WORKER_FOR_QUEUE = "no_worker_for_queue"
    NO_WORKER_FOR_HANDLER = "no_worker_for_handler"
    NO_ORCHESTRATOR = "no_orchestrator"
    OWNER_GONE = "owner_gone"
    SET_ASIDE = "set_aside"
    LOCKED = "locked"
    INCONSISTENT = "inconsistent"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that keeps a job from its end, or that ended it."""

    node: str | None
    index: int | None
    cause: Cause
    since: datetime | None = None
    until: datetime | None = None
    details: dict[str, Any] = field(default_factory=dict, metadata=VERBATIM)
    command: str | None = None
    """The command that would help; the command line fills it in."""


@dataclass(frozen=True, slots=True)
class NodeFailures:
    """The failed items of a node, those that failed in the same way together; `groups` has the largest groups."""

    node: str
    failed: int
    items: int
    is_tolerated: bool
    """Whether the node completed nevertheless."""
    in_batches: bool
    """Whether its items are batches."""
    groups: tuple[FailedGroup, ...]

    @property
    def details(self) -> dict[str, Any]:
        return {"failed": self.failed, "items": self.items, "failures": to_json(self.groups)}


@dataclass(frozen=True, slots=True)
class OutdatedWorker:
    """A live worker with handlers of the job, which runs older code than these files."""

    name: str
    changed_files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job is where it is: its own reasons first, then node by node in the order of the file."""

    job_id: str
    status: str
    reasons: tuple[Reason, ...]
    workflow_id: str = field(metadata=HIDDEN)
    began_at: datetime | None = field(metadata=HIDDEN)
    """When the work of the present generation began."""
    finished_at: datetime | None = field(metadata=HIDDEN)
    stop_cause: str | None = field(metadata=HIDDEN)
    orchestrators: int = field(metadata=HIDDEN)
    """How many live orchestrators would drive it."""
    recovery: tuple[Recovery, ...] = field(metadata=HIDDEN)
    definition: Definition = field(metadata=HIDDEN)
    failures: dict[str, NodeFailures] = field(default_factory=dict, metadata=HIDDEN)
    """The failed items of a job that has ended, by node."""
    outdated: tuple[OutdatedWorker, ...] = field(default=(), metadata=HIDDEN)

    @property
    def tolerated(self) -> list[NodeFailures]:
        """The failed items of nodes that completed nevertheless."""
        return [one for one in self.failures.values() if one.is_tolerated]

    @property
    def is_terminal(self) -> bool:
        return self.status in JOB_TERMINAL


def why_view(diagnosis: JobDiagnosis, groups: Mapping[str, tuple[FailedGroup, ...]]) -> Why:
    """`groups` has the failed items of each node of a job that has ended."""
    job = diagnosis.snapshot.job
    is_over = job.status in JOB_TERMINAL
    failures = {name: _failures(diagnosis.snapshot.nodes[name], alike) for name, alike in groups.items() if alike}
    reasons = _of_an_end(diagnosis, failures) if is_over else chain(_of_the_job(diagnosis), _of_the_nodes(diagnosis))
    return Why(
        job.job_id,
        job.status,
        tuple(reasons),
        job.workflow_id,
        work_began(diagnosis.snapshot) or job.recovered_at or job.started_at,
        job.finished_at,
        diagnosis.stop_cause,
        diagnosis.orchestrators,
        tuple(recovery_view(job.job_id, advice) for advice in diagnosis.snapshot.advice),
        diagnosis.snapshot.definition,
        failures,
        tuple(_outdated(diagnosis)),
    )


def _failures(row: NodeView, groups: tuple[FailedGroup, ...]) -> NodeFailures:
    is_tolerated = row.status == Status.COMPLETED
    return NodeFailures(row.node, row.failed, row.width, is_tolerated, row.batch_size is not None, groups)


def _outdated(diagnosis: JobDiagnosis) -> Iterator[OutdatedWorker]:
    needed = {task.handler for node in diagnosis.snapshot.definition.nodes for task in node.tasks}
    for worker in diagnosis.workers:
        if worker.changed_files and not needed.isdisjoint(worker.handlers):
            yield OutdatedWorker(worker.name, tuple(worker.changed_files))


def _of_an_end(diagnosis: JobDiagnosis, failures: Mapping[str, NodeFailures]) -> Iterator[Reason]:
    """The error that the job ended with, the other nodes that failed, and the failed items that were tolerated."""
    job, nodes = diagnosis.snapshot.job, diagnosis.snapshot.nodes
    error = failure_view(job.error)
    node, index = (error.node, error.index) if error is not None else (None, None)

    def details(name: str | None, problem: dict[str, Any] | None) -> dict[str, Any]:
        items = failures.get(name or "")
        return {"error": problem} | (items.details if items is not None else {})

    if job.status != JobStatus.COMPLETED or error is not None:
        yield Reason(node, index, Cause(job.status), job.finished_at, details=details(node, to_json(error)))
    for one in diagnosis.snapshot.definition.nodes:
        view = nodes.get(one.name)
        if view is None or one.name == node:
            continue
        if view.status == Status.FAILED:
            problem = _error(view.error)
            yield Reason(one.name, None, Cause.FAILED, view.finished_at, details=details(one.name, problem))
        elif one.name in failures and failures[one.name].is_tolerated:
            yield Reason(one.name, None, Cause.PARTIAL, view.finished_at, details=details(one.name, None))


def _of_the_job(diagnosis: JobDiagnosis) -> Iterator[Reason]:
    job = diagnosis.snapshot.job
    for lock in diagnosis.locks:
        yield Reason(None, None, Cause.LOCKED, since=lock.since, details=lock.to_json())
    is_aside = job.reason is not None and job.reason.startswith(SET_ASIDE)
    if job.reason is not None and is_aside:
        details: dict[str, Any] = {"problem": job.reason.removeprefix(SET_ASIDE), "owner": job.owner}
        yield Reason(None, None, Cause.SET_ASIDE, since=job.owned_since, details=details)
    pause = pause_view(job.pause)
    if pause is not None:
        details = {"by": pause.name, "reason": pause.reason}
        yield Reason(None, None, Cause.PAUSED, since=pause.since, details=details)
    signals = {"signals": diagnosis.unread, "orchestrators": diagnosis.orchestrators}
    if job.owner_id is None:
        since = diagnosis.unread_since or job.created_at
        yield Reason(None, None, Cause.NO_ORCHESTRATOR, since=since, details=signals)
    elif not job.owner_is_alive and any("orchestrators" in lock.tables for lock in diagnosis.locks):
        return  # No orchestrator takes over while the owner's own row is locked.
    elif not job.owner_is_alive:
        cause = Cause.OWNER_GONE if diagnosis.orchestrators else Cause.NO_ORCHESTRATOR
        owner = job.owner or f"orchestrator {job.owner_id}"
        yield Reason(None, None, cause, since=diagnosis.owner_gone_at, details={"owner": owner, **signals})
    elif diagnosis.unread and not is_aside:
        details = {"doing": "reading signals", "owner": job.owner, **signals}
        yield Reason(None, None, Cause.RUNNING, since=diagnosis.unread_since, details=details)


def _of_the_nodes(diagnosis: JobDiagnosis) -> Iterator[Reason]:
    for node in diagnosis.snapshot.definition.nodes:
        view = diagnosis.snapshot.nodes.get(node.name)
        if view is None or view.status == Status.PENDING:
            yield from _not_begun(diagnosis, node.name)
        elif view.status not in TERMINAL:
            yield from _begun(diagnosis, node.name, kind_of(node).gathers_items, view)


def _not_begun(diagnosis: JobDiagnosis, name: str) -> Iterator[Reason]:
    nodes = diagnosis.snapshot.nodes
    open_ones = [s for s in diagnosis.snapshot.graph.sources[name] if s not in nodes or nodes[s].status not in TERMINAL]
    if open_ones:
        since = diagnosis.snapshot.job.started_at or diagnosis.snapshot.job.created_at
        yield Reason(name, None, Cause.WAITING_FOR_NODES, since=since, details={"nodes": open_ones})
    elif diagnosis.epoch > 0 and not diagnosis.unread:
        yield Reason(name, None, Cause.INCONSISTENT, details={"problem": "all that it waits for has ended"})


def _begun(diagnosis: JobDiagnosis, name: str, gathers: bool, view: NodeView) -> Iterator[Reason]:
    groups = [group for group in diagnosis.queued if group.node == name]
    for group in groups:
        yield _queued(diagnosis, group)
    enqueued = diagnosis.enqueued[name]
    if enqueued < view.width:
        details = {"limit": "window", "tasks": view.width - enqueued, "first": [enqueued]}
        yield Reason(name, None, Cause.LIMIT_REACHED, since=view.started_at, details=details)
    elif not groups and not diagnosis.unread:
        yield _without_tasks(diagnosis, name, gathers, view)


def _without_tasks(diagnosis: JobDiagnosis, name: str, gathers: bool, view: NodeView) -> Reason:
    if gathers and view.status == Status.RUNNING and view.completed == view.width:
        details = {"doing": "gathering results", "owner": diagnosis.snapshot.job.owner}
        return Reason(name, None, Cause.RUNNING, since=view.started_at, details=details)
    details = {"problem": "none of its tasks is queued or running, and no report is unread"}
    return Reason(name, None, Cause.INCONSISTENT, since=view.started_at, details=details)


def _queued(diagnosis: JobDiagnosis, group: QueuedTasks) -> Reason:
    """Why tasks that are in the queue are still there."""
    match group.state:
        case "leased":
            return _running(diagnosis, group)
        case "paused":
            return Reason(group.node, _item(group), Cause.PAUSED, group.queued_at, details=_tasks(group))
        case "waiting":
            error = _error(group.error)
            details = _tasks(group) | {"attempt": group.attempt, "error": error}
            return Reason(group.node, _item(group), Cause.RETRY_SCHEDULED, group.queued_at, group.due_at, details)
        case _:
            answers = (explain(diagnosis, group) for explain in UNCLAIMED)
            return next(reason for reason in answers if reason is not None)


def _running(diagnosis: JobDiagnosis, group: QueuedTasks) -> Reason:
    details = _tasks(group) | {
        "attempt": group.attempt,
        "workers": group.workers or [],
        "worker_alive": bool(group.worker_is_alive),
        "progress": group.progress,
    }
    if not group.worker_is_alive:
        details["gone_since"] = moment(group.lease_until)
    if diagnosis.stop_cause is not None:
        details["stopping"] = diagnosis.stop_cause
    return Reason(group.node, _item(group), Cause.RUNNING, group.claimed_at, diagnosis.stop_until, details)


def _paused_queue(diagnosis: JobDiagnosis, group: QueuedTasks) -> Reason | None:
    """Its queue is paused: another worker would not help."""
    hold = diagnosis.snapshot.holds.get(group.node)
    if hold is None or "paused_by" not in hold.details:
        return None
    details = {"queue": group.queue, "by": hold.details["paused_by"], "reason": hold.details["reason"]}
    return Reason(group.node, _item(group), Cause.PAUSED, hold.since, details=_tasks(group) | details)


def _no_worker(diagnosis: JobDiagnosis, group: QueuedTasks) -> Reason | None:
    serving = [w for w in diagnosis.workers if _serves_queue(w, group)]
    if any(group.handler in worker.handlers for worker in serving):
        return None
    cause = Cause.NO_WORKER_FOR_HANDLER if serving else Cause.NO_WORKER_FOR_QUEUE
    details = _tasks(group) | {"queue": group.queue, "handler": group.handler}
    return Reason(group.node, _item(group), cause, group.queued_at, details=details)


def _held(diagnosis: JobDiagnosis, group: QueuedTasks) -> Reason | None:
    """A worker would take it, but a breaker or a limit lets nothing through."""
    hold = diagnosis.snapshot.holds.get(group.node)
    if hold is None:
        return None
    is_breaker = hold.by == "breaker"
    cause = Cause.BREAKER_OPEN if is_breaker else Cause.LIMIT_REACHED
    details = _tasks(group) | {"breaker" if is_breaker else "limit": hold.name} | hold.details
    if is_breaker:
        details["error"] = _error(diagnosis.errors.get(group.node))
    return Reason(group.node, _item(group), cause, hold.since, hold.until, details)


def _no_slot(diagnosis: JobDiagnosis, group: QueuedTasks) -> Reason:
    """A worker serves it: all its slots are taken, or the task is next."""
    serving = [w for w in diagnosis.workers if _serves_queue(w, group) and group.handler in w.handlers]
    details = _tasks(group) | {
        "limit": "slots",
        "slots": sum(worker.concurrency for worker in serving),
        "busy": sum(min(worker.tasks, worker.concurrency) for worker in serving),
        "workers": [worker.name for worker in serving][:3],
        "queue": group.queue,
        "handler": group.handler,
    }
    return Reason(group.node, _item(group), Cause.LIMIT_REACHED, group.queued_at, details=details)


UNCLAIMED: tuple[Callable[[JobDiagnosis, QueuedTasks], Reason | None], ...] = (
    _paused_queue,
    _no_worker,
    _held,
    _no_slot,
)
"""What may keep ready tasks from being claimed. The first answer counts."""


def _serves_queue(worker: WorkerView, group: QueuedTasks) -> bool:
    return worker.queues is None or group.queue in worker.queues


def _tasks(group: QueuedTasks) -> dict[str, Any]:
    return {"tasks": group.tasks, "first": [item for item in group.first if item >= 0]}


def _error(stored: Failure | None) -> dict[str, Any] | None:
    """The error object inside of details, which are JSON."""
    error: dict[str, Any] | None = to_json(failure_view(stored))
    return error


def _item(group: QueuedTasks) -> int | None:
    return group.first[0] if group.tasks == 1 and group.first[0] >= 0 else None
