"""Which tasks of the model's database a verb selects, and which of these can be reset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson

from holdfast.core.advising import candidates
from holdfast.core.failing import Failure
from holdfast.core.planning import batches_asked, make_plan
from holdfast.core.plans import Refusal
from holdfast.core.signals import BatchesAsked, MatchedTask, RecoveryRequested, Request, Selected, Selection
from holdfast.core.states import JobState
from tests.simulation.database import Database


def matches(filters: Any, item: int, task: dict[str, Any]) -> bool:
    """Whether the task matches the items, the code and the fingerprint of a verb; None and an empty list match all."""
    error: Failure | None = task["error"]
    return (
        (not filters.items or item in filters.items)
        and (filters.code is None or (error and error.code) == filters.code)
        and (filters.fingerprint is None or (error and error.fingerprint) == filters.fingerprint)
    )


def can_be_reset(task: dict[str, Any], item: int, enqueued: int, *, gives_params: bool = False) -> bool:
    return (
        (task["params"] is not None or gives_params)
        and not task["waits"]
        and task["gone"] is None
        and (task["status"] != "ready" or item < enqueued)
    )


def earlier(since: float | None, task: dict[str, Any]) -> float | None:
    """The older one of `since` and the time at which the task completed."""
    if task["status"] != "completed":
        return since
    finished_at: float = task["finished_at"]
    return finished_at if since is None else min(since, finished_at)


def is_selected(selection: Selection, item: int, task: dict[str, Any]) -> bool:
    if item < 0 and selection.items_only:
        return False
    return item in selection.also or (task["status"] in selection.statuses and matches(selection, item, task))


def select(
    db: Database, job_id: str, request: Request, enqueued: int, batches: Sequence[BatchesAsked] = ()
) -> dict[str, Selected]:
    """The tasks of a job that a verb selects, counted by node and status."""
    selected: dict[str, Selected] = {}
    for (node, item), task in db.tasks[job_id].items():
        before = selected.setdefault(node, Selected({}))
        chosen, refused, since = before.chosen, before.refused, before.completed_since
        chosen.setdefault(task["status"], 0)
        if request.named in (None, node) and matches(request, item, task):
            if can_be_reset(task, item, enqueued, gives_params=request.params is not None):
                chosen[task["status"]] += 1
                since = earlier(since, task)
            elif task["status"] != "ready" and task["gone"] is None:
                refused += 1
        # A worker may lease a queued task before the verb is committed.
        queued = (job_id, node, item) in db.queue
        selected[node] = Selected(
            chosen, refused, max(before.last_epoch, task["epoch"]), max(before.last_attempt, task["attempt"] + queued),
            completed_since=since, node_completed_since=earlier(before.node_completed_since, task),
        )  # fmt: skip
    for fan_in in batches:
        selected[fan_in.node] = select_batches(db, job_id, fan_in, selected[fan_in.node])
    return selected


def advise(db: Database, job_id: str, state: JobState) -> tuple[list[RecoveryRequested], list[Refusal]]:
    """The verbs that can be advised for an ended job, as its owner would get them, and the refusals of the others."""
    advised: list[RecoveryRequested] = []
    refused: list[Refusal] = []
    for group in candidates(state):
        for request in group:
            selected = select(db, job_id, request, 0, batches_asked(state, request))
            plan = make_plan(state, request, selected, db.now)
            refusal = plan if isinstance(plan, Refusal) else plan.refusal
            if refusal is None:
                advised.append(RecoveryRequested(1, "someone", "as advised", request, selected))
                break
            refused.append(refusal)
    return advised, refused


def select_batches(db: Database, job_id: str, batches: BatchesAsked, before: Selected) -> Selected:
    tasks = db.tasks[job_id]
    touched = {
        item // batches.page_size
        for (node, item), task in tasks.items()
        if batches.of_fan_out is not None and node == batches.fan_out and is_selected(batches.of_fan_out, item, task)
        and can_be_reset(task, item, batches.fan_out_enqueued)
    }  # fmt: skip
    touched &= {item for node, item in tasks if node == batches.node}
    selection = batches.selection._replace(also=tuple(sorted(touched)))
    chosen: Counter[str] = Counter()
    refused, since = 0, None
    for (node, item), task in tasks.items():
        if node == batches.node and is_selected(selection, item, task):
            if can_be_reset(task, item, batches.enqueued):
                chosen[task["status"]] += 1
                since = earlier(since, task)
            else:
                refused += task["status"] != "ready"
        elif node == batches.node and item < 0:
            since = earlier(since, task)
    return before._replace(chosen=dict(chosen), refused=refused, touched=selection.also, completed_since=since)


def item_keys(db: Database, job_id: str, node: str) -> list[tuple[int, str]]:
    tasks = db.tasks[job_id].items()
    return [(item, task["item_key"]) for (name, item), task in tasks if name == node and item >= 0]


def matched_tasks(db: Database, job_id: str, node: str, items: Sequence[int]) -> dict[int, MatchedTask]:
    found = {item: db.tasks[job_id][(node, item)] for item in items}
    return {
        item: MatchedTask(task["status"], _encoded(task["params"]), task["gone"], task["is_given"])
        for item, task in found.items()
    }


def own_params(db: Database, job_id: str) -> dict[str, bytes | None]:
    return {
        node: _encoded(task["params"])
        for (node, item), task in db.tasks[job_id].items()
        if item < 0 and not task["is_given"]
    }


def _encoded(params: Any) -> bytes | None:
    return None if params is None else orjson.dumps(params)
