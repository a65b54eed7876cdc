"""Why a job is not finished, or why it ended as it did. Pure; what it needs was read before, in one snapshot.

Tasks are told in groups, by node and cause: a hundred thousand items are a few reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from holdfast.core.states import JOB_TERMINAL, TERMINAL, JobStatus, Status
from holdfast.define.node import NodeType
from holdfast.moments import moment
from holdfast.store.fleet import WorkerView
from holdfast.store.reading import NodeView, QueuedTasks, Standing
from holdfast.views.jobs import error_json

SET_ASIDE = "orchestrator_error: "


class Cause(StrEnum):
    """What keeps a job, a node or a task from going on. A job that ended otherwise than completed, or that is in doubt,
    has its status."""

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


class Reason(NamedTuple):
    cause: Cause
    node: str | None = None
    item: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    details: dict[str, Any] = {}  # noqa: RUF012


def why_json(standing: Standing, command: Callable[[Reason], str | None]) -> dict[str, Any]:
    """The contract's object; `command` knows what would help."""
    job = standing.snapshot.job
    return {
        "job_id": job.job_id,
        "status": job.status,
        "reasons": [
            {
                "node": reason.node,
                "index": reason.item,
                "cause": str(reason.cause),
                "since": moment(reason.since),
                "until": moment(reason.until),
                "details": reason.details,
                "command": command(reason),
            }
            for reason in reasons(standing)
        ],
    }


def reasons(standing: Standing) -> list[Reason]:
    """What keeps the job from its end, the job's own troubles first, then node by node in the order of the file."""
    if standing.snapshot.job.status in JOB_TERMINAL:
        return list(_of_an_end(standing))
    return [*_of_the_job(standing), *_of_the_nodes(standing)]


def _of_an_end(standing: Standing) -> Iterator[Reason]:
    """The error that the job ended with, and the other nodes that failed."""
    job, nodes = standing.snapshot.job, standing.snapshot.nodes
    if job.status == JobStatus.COMPLETED and job.error is None:
        return
    error = error_json(job.error) or {}
    node, cause = error.get("node"), Cause(job.status)
    yield Reason(cause, node, error.get("index"), job.finished_at, details={"error": error_json(job.error)})
    for one in standing.snapshot.definition.nodes:
        view = nodes.get(one.name)
        if view is not None and view.status == Status.FAILED and one.name != node:
            details = {"error": error_json(view.error)}
            yield Reason(Cause.FAILED, one.name, None, view.finished_at, details=details)


def _of_the_job(standing: Standing) -> Iterator[Reason]:
    job = standing.snapshot.job
    for lock in standing.locks:
        yield Reason(Cause.LOCKED, since=lock.since, details=lock.to_json())
    is_aside = job.reason is not None and job.reason.startswith(SET_ASIDE)
    if job.reason is not None and is_aside:
        details: dict[str, Any] = {"problem": job.reason.removeprefix(SET_ASIDE), "owner": job.owner}
        yield Reason(Cause.SET_ASIDE, since=job.owned_since, details=details)
    if job.pause is not None:
        since = datetime.fromtimestamp(job.pause["since"], UTC)
        yield Reason(Cause.PAUSED, since=since, details={"by": job.pause["name"]})
    signals = {"signals": standing.unread, "orchestrators": standing.orchestrators}
    if job.owner_id is None:
        since = standing.unread_since or job.created_at
        yield Reason(Cause.NO_ORCHESTRATOR, since=since, details=signals)
    elif not job.owner_is_alive and any("orchestrators" in lock.tables for lock in standing.locks):
        return  # No orchestrator takes over while the owner's own row is locked.
    elif not job.owner_is_alive:
        cause = Cause.OWNER_GONE if standing.orchestrators else Cause.NO_ORCHESTRATOR
        owner = job.owner or f"orchestrator {job.owner_id}"
        yield Reason(cause, since=standing.owner_gone_at, details={"owner": owner, **signals})
    elif standing.unread and not is_aside:
        details = {"doing": "reading signals", "owner": job.owner, **signals}
        yield Reason(Cause.RUNNING, since=standing.unread_since, details=details)


def _of_the_nodes(standing: Standing) -> Iterator[Reason]:
    for node in standing.snapshot.definition.nodes:
        view = standing.snapshot.nodes.get(node.name)
        if view is None or view.status == Status.PENDING:
            yield from _not_begun(standing, node.name)
        elif view.status not in TERMINAL:
            yield from _begun(standing, node.name, node.type, view)


def _not_begun(standing: Standing, name: str) -> Iterator[Reason]:
    nodes = standing.snapshot.nodes
    open_ones = [s for s in standing.snapshot.graph.sources[name] if s not in nodes or nodes[s].status not in TERMINAL]
    if open_ones:
        since = standing.snapshot.job.started_at or standing.snapshot.job.created_at
        yield Reason(Cause.WAITING_FOR_NODES, name, since=since, details={"nodes": open_ones})
    elif standing.epoch > 0 and not standing.unread:
        yield Reason(Cause.INCONSISTENT, name, details={"problem": "all that it waits for has ended"})


def _begun(standing: Standing, name: str, node_type: NodeType, view: NodeView) -> Iterator[Reason]:
    groups = [group for group in standing.queued if group.node == name]
    for group in groups:
        yield _queued(standing, group)
    enqueued = standing.enqueued[name]
    if enqueued < view.width:
        details = {"limit": "window", "tasks": view.width - enqueued, "first": [enqueued]}
        yield Reason(Cause.LIMIT_REACHED, name, since=view.started_at, details=details)
    elif not groups and not standing.unread:
        yield _without_tasks(standing, name, node_type, view)


def _without_tasks(standing: Standing, name: str, node_type: NodeType, view: NodeView) -> Reason:
    if node_type is NodeType.FAN_IN and view.status == Status.RUNNING and view.completed == view.width:
        details = {"doing": "gathering results", "owner": standing.snapshot.job.owner}
        return Reason(Cause.RUNNING, name, since=view.started_at, details=details)
    details = {"problem": "none of its tasks is queued or running, and no report is unread"}
    return Reason(Cause.INCONSISTENT, name, since=view.started_at, details=details)


def _queued(standing: Standing, group: QueuedTasks) -> Reason:
    """Why tasks that are in the queue are still there."""
    match group.state:
        case "leased":
            return _running(standing, group)
        case "paused":
            return Reason(Cause.PAUSED, group.node, _item(group), group.queued_at, details=_tasks(group))
        case "waiting":
            error = error_json(group.error)
            details = _tasks(group) | {"attempt": group.attempt, "error": error}
            return Reason(Cause.RETRY_SCHEDULED, group.node, _item(group), group.queued_at, group.due_at, details)
        case _:
            found = (explain(standing, group) for explain in UNCLAIMED)
            return next(reason for reason in found if reason is not None)


def _running(standing: Standing, group: QueuedTasks) -> Reason:
    details = _tasks(group) | {
        "attempt": group.attempt,
        "workers": group.workers or [],
        "worker_alive": bool(group.worker_is_alive),
        "progress": group.progress,
    }
    if not group.worker_is_alive:
        details["gone_since"] = moment(group.lease_until)
    if standing.stop_cause is not None:
        details["stopping"] = standing.stop_cause
    return Reason(Cause.RUNNING, group.node, _item(group), group.claimed_at, standing.stop_until, details)


def _no_worker(standing: Standing, group: QueuedTasks) -> Reason | None:
    serving = [w for w in standing.workers if _serves_queue(w, group)]
    if any(group.handler in worker.handlers for worker in serving):
        return None
    cause = Cause.NO_WORKER_FOR_HANDLER if serving else Cause.NO_WORKER_FOR_QUEUE
    details = _tasks(group) | {"queue": group.queue, "handler": group.handler}
    return Reason(cause, group.node, _item(group), group.queued_at, details=details)


def _held(standing: Standing, group: QueuedTasks) -> Reason | None:
    """A worker would take it, but a breaker or a limit lets nothing through."""
    hold = standing.snapshot.holds.get(group.node)
    if hold is None:
        return None
    is_breaker = hold.by == "breaker"
    cause = Cause.BREAKER_OPEN if is_breaker else Cause.LIMIT_REACHED
    details = _tasks(group) | {"breaker" if is_breaker else "limit": hold.name} | hold.details
    return Reason(cause, group.node, _item(group), hold.since, hold.until, details)


def _no_slot(standing: Standing, group: QueuedTasks) -> Reason:
    """Somebody serves it: his slots are taken, or it is next."""
    serving = [w for w in standing.workers if _serves_queue(w, group) and group.handler in w.handlers]
    details = _tasks(group) | {
        "limit": "slots",
        "slots": sum(worker.concurrency for worker in serving),
        "busy": sum(min(worker.tasks, worker.concurrency) for worker in serving),
        "workers": [worker.name for worker in serving][:3],
        "queue": group.queue,
        "handler": group.handler,
    }
    return Reason(Cause.LIMIT_REACHED, group.node, _item(group), group.queued_at, details=details)


UNCLAIMED: tuple[Callable[[Standing, QueuedTasks], Reason | None], ...] = (_no_worker, _held, _no_slot)
"""What may keep tasks that are ready from being claimed, in the order in which it is asked. The first answer counts."""


def _serves_queue(worker: WorkerView, group: QueuedTasks) -> bool:
    return worker.queues is None or group.queue in worker.queues


def _tasks(group: QueuedTasks) -> dict[str, Any]:
    return {"tasks": group.tasks, "first": [item for item in group.first if item >= 0]}


def _item(group: QueuedTasks) -> int | None:
    return group.first[0] if group.tasks == 1 and group.first[0] >= 0 else None
