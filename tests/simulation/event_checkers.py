"""Checks events: each end, and each hold, has exactly the events that belong to it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from holdfast.store.records import NodeRow
from tests.simulation.checker_memory import JOB_ENDS, EndEvents, Memory
from tests.simulation.database import JOB_TERMINAL, TERMINAL, Database


def check_events(db: Database, memory: Memory, job_id: str, job: dict[str, Any], nodes: dict[str, NodeRow]) -> None:
    end_events = memory.end_events.setdefault(job_id, EndEvents())
    end_events.read(db.events[job_id])
    for name, node in nodes.items():
        ends = end_events.ends.get(name, [])
        expected = [f"node_{node.status}"] if node.status in TERMINAL else []
        assert ends == expected, f"5: {job_id}/{name} is {node.status}, and its events say {ends}"
    is_over = job["status"] in JOB_TERMINAL
    assert end_events.job_ends == is_over, f"5: {job_id} is {job['status']} and ended {end_events.job_ends} times"


def check_holds(db: Database, job_id: str) -> None:
    """5: a job has one event when something begins to hold it, and one when that ends."""
    held: set[str] = set()
    for _, event, _, _, _, data in db.events[job_id]:
        if event in ("job_held", "job_released"):
            name = data["name"]
            assert (name in held) == (event == "job_released"), f"5: {job_id} has a second {event} of {name}"
            held ^= {name}
        elif event in JOB_ENDS:
            held.clear()


def check_task_events(db: Database, job_id: str) -> None:
    """5: every item has exactly one terminal event, alone or within a range."""
    ends: Counter[tuple[str, int]] = Counter()
    for _, event, node, item, _, data in db.events[job_id]:
        if event in ("task_completed", "task_failed", "task_cancelled"):
            if item is not None:
                ends[(node, item)] += 1
            else:
                for first, last in data["items"]:
                    ends.update((node, i) for i in range(first, last + 1))
    items = {key for key in db.tasks[job_id] if key[1] >= 0}
    if db.jobs[job_id]["generation"] > 1:
        items = {key for key in items if db.tasks[job_id][key]["status"] != "skipped"}
        assert set(ends) >= items, f"5: {job_id}: no event about the end of {items - set(ends)}"
        return
    assert set(ends) == items, f"5: {job_id}: items and events differ in {set(ends) ^ items}"
    assert all(n == 1 for n in ends.values()), f"5: {job_id}: an item ended twice"


def repeated_failures(db: Database, job_id: str) -> set[tuple[str, int]]:
    """Items that were not retried because too many others had failed in the same way."""
    events = db.events[job_id]
    return {(e[2], e[3]) for e in events if e[5] and e[5].get("reason") == "REPEATED_FAILURE"}
