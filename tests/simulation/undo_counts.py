"""Counts what happened to the undos of a world, so that a test can say whether each of it is common."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.simulation.database import Database

JOB_ENDS = {"job_completed", "job_partial", "job_failed", "job_cancelled"}
DURING = {
    "node_undo_failed": "undos that failed",
    "owner_changed": "takeovers during an undo",
    "worker_lost": "workers lost during an undo",
    "janitor_acted": "repairs during an undo",
    "job_held": "pauses during an undo",
    "node_retry_scheduled": "retries of an undo",
    "task_retry_scheduled": "retries of an undo",
}
AFTER = {"resume": "resumes after an undo", "skip": "undos accepted by a person", "undo": "undos after an undo"}


def count_undos(db: Database) -> Counter[str]:
    """By name; an event counts as often as it happened while its job was undone."""
    counts: Counter[str] = Counter()
    for job_id, events in db.events.items():
        _count(counts, [(event, data or {}) for _, event, *_, data in events])
        undo = db.jobs[job_id]["undo"]
        counts["undos cancelled"] += undo is not None and undo["is_cut"]
    counts["tasks undone"] = sum(how == "undone" for how in db.history.effects.values())
    return counts


def _count(counts: Counter[str], events: list[tuple[str, dict[str, Any]]]) -> None:
    is_undoing = was_undone = False
    for event, data in events:
        if event == "job_recovered":
            if was_undone and data["verb"] in AFTER:
                counts[AFTER[data["verb"]]] += 1
            is_undoing = data["verb"] == "undo" or (is_undoing and data["verb"] == "skip")
            was_undone = was_undone or is_undoing
            counts["undos"] += data["verb"] == "undo"
            counts["undos of failed jobs by themselves"] += data["actor"] == "on_failure: compensate"
        elif event in JOB_ENDS:
            is_undoing = False
        elif is_undoing and event in DURING:
            counts[DURING[event]] += 1
