"""Examines the rows of a job in the model's database, without the memory of its owner."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.core.signals import EndedTask, TaskCounts, TaskView, UnqueuedTask
from holdfast.store.records import Examined
from tests.simulation.database import TERMINAL, Database

Place = tuple[str, int]
"""A node and an item."""


def examined(db: Database, job_id: str, signals: Iterable[dict[str, Any]]) -> Examined:
    """`signals` are the unread signals of the job's owner."""
    unread = {
        (row["node"], row["item"], row["epoch"])
        for row in signals
        if row["job_id"] == job_id and row["kind"] == "report"
    }
    queued = {key[1:] for key in db.queue if key[0] == job_id}
    reached = queued | {key[:2] for key in unread}
    return Examined(_counts(db, job_id, reached), _unqueued(db, job_id, queued, unread), _ended(db, job_id))


def _counts(db: Database, job_id: str, reached: set[Place]) -> dict[str, TaskCounts]:
    tasks = db.tasks[job_id]
    counts = {}
    for name in {node for node, _ in tasks}:
        statuses = [task["status"] for (node, _), task in tasks.items() if node == name]
        completed, failed, skipped, cancelled = (statuses.count(status) for status in TERMINAL)
        counts[name] = TaskCounts(
            len(statuses), max(item for node, item in tasks if node == name),
            completed, failed, skipped, cancelled,
            max((item for node, item in reached if node == name), default=-1),
            sum(task["waits"] for (node, _), task in tasks.items() if node == name),
        )  # fmt: skip
    return counts


def _unqueued(db: Database, job_id: str, queued: set[Place], unread: set[tuple[str, int, int]]) -> list[UnqueuedTask]:
    """Tasks that should be queued or reported, and are neither."""
    nodes, is_open = db.nodes[job_id], _open_nodes(db, job_id)
    return [
        UnqueuedTask(
            node, item, TaskView(**{name: task[name] for name in TaskView._fields}), task["error"],
        )
        for (node, item), task in sorted(db.tasks[job_id].items())
        if node in is_open and task["status"] == "ready" and item < nodes[node].enqueued and not task["waits"]
        and (node, item) not in queued and (node, item, task["epoch"]) not in unread
    ]  # fmt: skip


def _ended(db: Database, job_id: str) -> dict[str, EndedTask]:
    """Nodes that are open although their own task has ended."""
    is_open = _open_nodes(db, job_id)
    return {
        node: EndedTask(task["status"], task["attempt"], task["output"], task["error"])
        for (node, item), task in db.tasks[job_id].items()
        if node in is_open and item < 0 and task["status"] in TERMINAL
    }


def _open_nodes(db: Database, job_id: str) -> set[str]:
    return {row.node for row in db.nodes[job_id].values() if row.status not in TERMINAL}
