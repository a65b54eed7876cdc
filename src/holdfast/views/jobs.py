"""How a job stands, as the contract's objects: status, outcome, events. Pure; what it needs was read before."""

from __future__ import annotations

from datetime import datetime
from itertools import takewhile
from typing import Any

from holdfast.core.advising import Advice
from holdfast.core.signals import Verb
from holdfast.core.states import JobStatus, Status
from holdfast.define.node import Importance, Node, NodeType
from holdfast.moments import epoch_moment, moment
from holdfast.store.reading import (
    AttemptView,
    Deliverable,
    EventView,
    Hold,
    JobLine,
    JobView,
    NodeView,
    QueueView,
    Snapshot,
)
from holdfast.views.fleet import unserved_json

_BORDERS = (NodeType.START, NodeType.END)
_BAD = (Status.FAILED, Status.CANCELLED)
_OBJECTIVES = {
    Importance.CRITICAL: "primary",
    Importance.IMPORTANT: "secondary",
    Importance.OPTIONAL: "optional",
}
_TIMES_IN_EVENTS = ("started_at", "retry_at", "since", "until")
ERROR_KEYS = ("code", "class", "message", "fingerprint", "node", "index", "attempt", "at", "hint")
COUNTS = ("total", "completed", "failed", "skipped", "cancelled", "running", "queued")


def status_json(snapshot: Snapshot) -> dict[str, Any]:
    """The status object: every key, in the contract's order."""
    job = snapshot.job
    nodes = [_node_json(snapshot, node) for node in snapshot.definition.nodes]
    return {
        "job_id": job.job_id,
        "workflow_id": job.workflow_id,
        "status": job.status,
        "version": job.version,
        "run": job.run,
        "generation": job.generation,
        "tenant": job.tenant,
        "inputs": job.inputs,
        "created_at": moment(job.created_at),
        "started_at": moment(job.started_at),
        "finished_at": moment(job.finished_at),
        "counts": {key: sum(node["counts"][key] for node in nodes) for key in COUNTS},
        "held": _job_held(snapshot),
        "error": error_json(job.error),
        "result": job.result,
        "nodes": nodes,
        "outcome": _outcome_json(snapshot, nodes),
        "owner": _owner_json(job),
        "reason": job.reason,
        "unreadable": snapshot.unreadable.message if snapshot.unreadable else None,
    }


def job_line_json(line: JobLine) -> dict[str, Any]:
    """One job of a list."""
    return {
        "job_id": line.job_id,
        "workflow_id": line.workflow_id,
        "status": line.status,
        "version": line.version,
        "created_at": moment(line.created_at),
        "started_at": moment(line.started_at),
        "finished_at": moment(line.finished_at),
        "counts": {"total": line.total, "completed": line.completed, "failed": line.failed},
        "error": line.error,
    }


def event_json(event: EventView) -> dict[str, Any]:
    """The event object; the times inside its data become readable too."""
    data = dict(event.data) if event.data is not None else None
    for key in _TIMES_IN_EVENTS:
        if data is not None and isinstance(data.get(key), int | float):
            data[key] = epoch_moment(data[key])
    return {
        "seq": event.seq,
        "job_id": event.job_id,
        "event": event.event,
        "node": event.node,
        "index": event.item,
        "attempt": event.attempt,
        "at": moment(event.at),
        "data": data,
    }


def attempt_json(attempt: AttemptView) -> dict[str, Any]:
    """One attempt with what its handler printed, the whole traceback of an exception included."""
    return {
        "node": attempt.node,
        "index": attempt.item if attempt.item >= 0 else None,
        "attempt": attempt.attempt,
        "outcome": attempt.outcome,
        "worker": attempt.worker,
        "started_at": moment(attempt.started_at),
        "finished_at": moment(attempt.finished_at),
        "error": error_json(attempt.error),
        "log": attempt.log,
        "extra": attempt.extra,
    }


def error_json(error: dict[str, Any] | None) -> dict[str, Any] | None:
    """An error with its keys in the contract's order, which jsonb forgets, and a time that people can read."""
    if error is None:
        return None
    at = error.get("at")
    return {key: error.get(key) for key in ERROR_KEYS} | {"at": epoch_moment(at) if isinstance(at, int | float) else at}


def held_json(hold: Hold | None) -> dict[str, Any] | None:
    if hold is None:
        return None
    return {"by": hold.by, "name": hold.name, "since": moment(hold.since), "until": moment(hold.until)}


def _node_json(snapshot: Snapshot, node: Node) -> dict[str, Any]:
    view, queued = snapshot.nodes.get(node.name), snapshot.queue.get(node.name)
    status = _node_status(view, queued)
    known = snapshot.unreadable is None
    return {
        "node": node.name,
        "stage": snapshot.graph.stage_number(node.name) if known else None,
        "type": str(node.type) if known else None,
        "status": status,
        "importance": str(node.importance) if known and node.type not in _BORDERS else None,
        "attempt": queued.attempt if queued and status == Status.RUNNING and queued.attempt else _attempt(view),
        "counts": _counts(view, queued),
        "progress": _progress(node, view, queued),
        "retry_at": moment(_retry_at(view, queued)),
        "held": held_json(snapshot.holds.get(node.name)),
        "error": error_json(_doubt(snapshot.job, node.name) or view.error) if view else None,
        "started_at": moment(_started_at(node, view, queued)),
        "finished_at": moment(view.finished_at) if view else None,
        "unserved": unserved_json(snapshot.unserved[node.name]) if node.name in snapshot.unserved else None,
    }


def _job_held(snapshot: Snapshot) -> dict[str, Any] | None:
    """A job is held if a person has paused it, or if nothing of it runs and all of it that is ready is held."""
    pause = snapshot.job.pause
    if pause is not None:
        return {"by": "pause", "name": pause["name"], "since": epoch_moment(pause["since"]), "until": None}
    queue = snapshot.queue.values()
    if any(view.running or (view.ready and view.node not in snapshot.holds) for view in queue):
        return None
    held = (snapshot.holds.get(node.name) for node in snapshot.definition.nodes)
    return held_json(next((hold for hold in held if hold is not None), None))


def _owner_json(job: JobView) -> dict[str, Any] | None:
    """Who drives an open job, or did until its lease ran out; None: nobody yet, or the job is over."""
    if job.owner_id is None:
        return None
    return {
        "id": job.owner_id,
        "name": job.owner,
        "since": moment(job.owned_since),
        "alive": job.owner_is_alive,
    }


def _node_status(view: NodeView | None, queued: QueueView | None) -> str:
    """As stored; whether a node's own task waits, is queued or runs is known only to its queue row."""
    if view is None:
        return str(Status.PENDING)
    if view.status in (Status.READY, Status.DISPATCHED) and queued is not None:
        if queued.running:
            return str(Status.RUNNING)
        return str(Status.READY if queued.waiting else Status.DISPATCHED)
    return view.status


def _attempt(view: NodeView | None) -> int | None:
    return view.attempt or None if view else None


def _counts(view: NodeView | None, queued: QueueView | None) -> dict[str, int]:
    """The counters of the rows that are there; a node that has not begun has none."""
    if view is None:
        return dict.fromkeys(COUNTS, 0)
    return {
        "total": view.total,
        "completed": view.completed,
        "failed": view.failed,
        "skipped": view.skipped,
        "cancelled": view.cancelled,
        "running": queued.running if queued else 0,
        "queued": queued.ready + queued.waiting if queued else 0,
    }


def _progress(node: Node, view: NodeView | None, queued: QueueView | None) -> dict[str, Any] | None:
    if node.type is NodeType.FAN_OUT or node.batches is not None:
        return {"done": min(_settled(view), view.width), "total": view.width} if view else None
    return queued.progress if queued else None


def _settled(view: NodeView) -> int:
    return view.completed + view.failed + view.skipped + view.cancelled


def _retry_at(view: NodeView | None, queued: QueueView | None) -> datetime | None:
    """When the node, or the next of its items, is tried again."""
    if queued is not None and queued.waiting:
        return queued.due_at
    return view.retry_at if view is not None and queued is None else None


def _started_at(node: Node, view: NodeView | None, queued: QueueView | None) -> datetime | None:
    if view is not None and view.started_at is not None:
        return view.started_at
    return queued.claimed_at if queued is not None and node.type is not NodeType.FAN_OUT else None


def _outcome_json(snapshot: Snapshot, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    outcome: dict[str, Any] = {"primary": [], "secondary": [], "optional": []}
    stages = {}
    for node in nodes:
        if node["stage"] is None:
            continue
        outcome[_OBJECTIVES[Importance(node["importance"])]].append(_objective(snapshot, node))
        if node["status"] == Status.COMPLETED:
            stages[str(node["stage"])] = {
                "node": node["node"],
                "completed_at": node["finished_at"],
                "task_count": node["counts"]["total"],
                "success_count": node["counts"]["completed"],
            }
    advice = snapshot.advice
    resumable = any(one.request.verb is Verb.RESUME for one in advice)
    bad = [node["node"] for node in nodes if node["stage"] is not None and node["status"] in _BAD]
    return {
        **outcome,
        "deliverables": _deliverables(snapshot),
        "stages": stages,
        "resumable": resumable,
        "resume_from": bad[0] if resumable and bad else None,
        "recovery": [_recovery(snapshot.job.job_id, one) for one in advice],
    }


def _doubt(job: JobView, node: str) -> dict[str, Any] | None:
    """Why a node of a job that completed is in doubt, if it is."""
    return job.error if job.status == JobStatus.COMPLETED and job.error and job.error["node"] == node else None


def _deliverables(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """What nodes declare, in the order of the file, then what else was delivered. Handlers know best."""
    declared = {
        node.deliverable.name: _declared(node, snapshot.nodes.get(node.name), snapshot.locations[node.deliverable.name])
        for node in snapshot.definition.nodes
        if node.deliverable is not None and node.deliverable.name in snapshot.locations
    }
    return declared | {one.name: _deliverable(one) for one in snapshot.deliverables}


def _declared(node: Node, view: NodeView | None, location: str | None) -> dict[str, Any]:
    count = 0
    if view is not None:
        count = view.completed if node.type is NodeType.FAN_OUT else int(view.status == Status.COMPLETED)
    return {"count": count, "location": location, "usable": count > 0}


def _deliverable(one: Deliverable) -> dict[str, Any]:
    """Where all of it lies: the one place, or what the places begin with."""
    location = one.first
    if one.first != one.last:
        same = [a for a, b in takewhile(lambda pair: pair[0] == pair[1], zip(one.first, one.last, strict=False))]
        location = "".join(same).rpartition("/")[0]
        location += "/" if location else ""
    return {"count": one.number, "location": location or None, "usable": one.number > 0}


def _recovery(job_id: str, advice: Advice) -> dict[str, Any]:
    """What continues all of it, or recovers a stage that failed: as a command and as a request."""
    request = advice.request
    body: dict[str, Any] = {"node": request.node} if request.node is not None else {}
    body |= {"only": True} if request.only else {}
    return {
        "node": request.node,
        "command": f"holdfast {advice.words(job_id)}",
        "request": {"method": "POST", "path": f"/api/v1/jobs/{job_id}/{request.verb}", "body": body},
    }


def _objective(snapshot: Snapshot, node: dict[str, Any]) -> dict[str, Any]:
    view = snapshot.nodes.get(node["node"])
    return {
        "node": node["node"],
        "description": snapshot.definition.node(node["node"]).description or None,
        "status": node["status"],
        "details": _details(node, view),
        "error": node["error"],
    }


def _details(node: dict[str, Any], view: NodeView | None) -> str | None:
    """What became of the node, in a few words."""
    if node["type"] == NodeType.FAN_OUT and view is not None:
        return f"{view.completed} of {view.width} items completed"
    if view is not None and view.batch_size is not None:
        return f"{min(view.completed, view.width)} of {view.width} batches completed"
    if view is not None and view.reason is not None:
        return view.reason.replace("_", " ")
    return None
