"""Which tasks of the model's database a verb names, and which of these can be sent back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast.core.advising import candidates
from holdfast.core.planning import batches_asked, make_plan
from holdfast.core.plans import Refusal
from holdfast.core.signals import BatchesAsked, RecoveryRequested, Request, Selected, Selection
from holdfast.core.states import JobState
from tests.simulation.database import Database


def names(wanted: Any, item: int, task: dict[str, Any]) -> bool:
    """Whether a verb's items, code and fingerprint, where they are given, are those of the task."""
    error = task["error"] or {}
    return (
        (not wanted.items or item in wanted.items)
        and (wanted.code is None or error.get("code") == wanted.code)
        and (wanted.fingerprint is None or error.get("fingerprint") == wanted.fingerprint)
    )


def can_be_reset(task: dict[str, Any], item: int, enqueued: int) -> bool:
    return task["params"] is not None and not task["waits"] and (task["status"] != "ready" or item < enqueued)


def earlier(since: float | None, task: dict[str, Any]) -> float | None:
    """Since when there are results, with this task's among them."""
    if task["status"] != "completed":
        return since
    finished_at: float = task["finished_at"]
    return finished_at if since is None else min(since, finished_at)


def is_selected(selection: Selection, item: int, task: dict[str, Any]) -> bool:
    if item < 0 and selection.items_only:
        return False
    return item in selection.also or (task["status"] in selection.statuses and names(selection, item, task))


def select(
    db: Database, job_id: str, request: Request, enqueued: int, batches: Sequence[BatchesAsked] = ()
) -> dict[str, Selected]:
    """What a verb names of a job's tasks, by node and status."""
    found: dict[str, Selected] = {}
    for (node, item), task in db.tasks[job_id].items():
        known = found.setdefault(node, Selected({}))
        chosen, refused, since = known.chosen, known.refused, known.completed_since
        chosen.setdefault(task["status"], 0)
        if request.named in (None, node) and names(request, item, task):
            if can_be_reset(task, item, enqueued):
                chosen[task["status"]] += 1
                since = earlier(since, task)
            elif task["status"] != "ready":
                refused += 1
        leased = db.queue.get((job_id, node, item), {}).get("state") == "leased"
        found[node] = Selected(
            chosen, refused, max(known.last_epoch, task["epoch"]), max(known.last_attempt, task["attempt"] + leased),
            completed_since=since, node_completed_since=earlier(known.node_completed_since, task),
        )  # fmt: skip
    for asked in batches:
        found[asked.node] = select_batches(db, job_id, asked, found[asked.node])
    return found


def advise(db: Database, job_id: str, state: JobState) -> tuple[list[RecoveryRequested], list[Refusal]]:
    """What can be advised for a job that has ended, as its owner would hear it, and why other things cannot."""
    advised: list[RecoveryRequested] = []
    refused: list[Refusal] = []
    for group in candidates(state):
        for request in group:
            selected = select(db, job_id, request, 0, batches_asked(state, request))
            plan = make_plan(state, request, selected, db.now)
            if not isinstance(plan, Refusal):
                advised.append(RecoveryRequested(1, "someone", "as advised", request, selected))
                break
            refused.append(plan)
    return advised, refused


def select_batches(db: Database, job_id: str, asked: BatchesAsked, known: Selected) -> Selected:
    tasks = db.tasks[job_id]
    touched = {
        item // asked.page_size
        for (node, item), task in tasks.items()
        if asked.of_fan_out is not None and node == asked.fan_out and is_selected(asked.of_fan_out, item, task)
        and can_be_reset(task, item, asked.fan_out_enqueued)
    }  # fmt: skip
    touched &= {item for node, item in tasks if node == asked.node}
    selection = asked.selection._replace(also=tuple(sorted(touched)))
    chosen: Counter[str] = Counter()
    refused, since = 0, None
    for (node, item), task in tasks.items():
        if node == asked.node and is_selected(selection, item, task):
            if can_be_reset(task, item, asked.enqueued):
                chosen[task["status"]] += 1
                since = earlier(since, task)
            else:
                refused += task["status"] != "ready"
        elif node == asked.node and item < 0:
            since = earlier(since, task)
    return known._replace(chosen=dict(chosen), refused=refused, touched=selection.also, completed_since=since)
