"""Checks corrections: an ended job has done what its corrected inputs and its corrected workflow say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson

from holdfast.core.fanning import items_of
from holdfast.core.item_keys import keys_of
from holdfast.core.kinds import has_task_per_item
from holdfast.core.states import JobState, NodeState, Rules
from holdfast.core.turn import Turn
from holdfast.define.program import Program
from holdfast.store.loading import job_state
from tests.simulation.cycle import ModelCycle
from tests.simulation.database import Database


def check_corrected(db: Database, job_id: str, program: Program) -> None:
    """24: what a corrected job has completed is what the corrected job would have done, as if it had begun so.

    Where a person kept stale results, or gave results, only the items are compared.
    """
    if not is_corrected(db, job_id):
        return
    recoveries = [data for _, event, *_, data in db.events[job_id] if event == "job_recovered"]
    corrections = [data for data in recoveries if "corrected" in data]
    state = job_state(*ModelCycle(db, 0).committed_rows(job_id), program, Rules())
    is_strict = all(data.get("stale") != "keep" for data in corrections)
    is_strict = is_strict and all(data["verb"] not in ("set", "skip", "clear") for data in recoveries)
    for (name, item), task in db.tasks[job_id].items():
        # The handlers of the simulation say with which params they ran.
        if task["status"] == "completed" and isinstance(task["output"], dict) and "params" in task["output"]:
            assert task["output"]["params"] == task["params"], f"24: {job_id}/{name}[{item}] was not run as it says"
    # A skip ends a fan-out with the items that it has, also if some of its tasks run again later.
    cut_short = {name for data in recoveries if data["verb"] == "skip" for name in data["rerun"]}
    for name, node in state.nodes.items():
        is_skipped = node.reason == "by_person" or name in cut_short
        if node.status == "completed" and has_task_per_item(state, name) and node.expanded and not is_skipped:
            _check_items(db, state, node)
        if is_strict and node.status == "completed" and node.expanded and not is_skipped:
            _check_work(db, state, node)


def _check_work(db: Database, state: JobState, node: NodeState) -> None:
    """24: what a node has completed was made by its handler, with the params that its items have now; the generation in
    them may be an earlier one. What a person gave a task stays."""
    turn, program = Turn(state, 0.0), state.program.nodes[node.name]
    is_many = has_task_per_item(state, node.name)
    items = items_of(turn, node) if is_many else []
    keys = keys_of(program.item_key, items) if is_many else []
    pages = items_of(turn, node) if node.batch_size is not None else []
    for (name, number), task in db.tasks[state.job_id].items():
        if name != node.name or task["status"] != "completed":
            continue
        where, work = f"24: {state.job_id}/{name}[{number}]", program.task_of(number)
        scope = turn.scope_of(name)
        scopes = [scope]
        if is_many:
            alike = [item for item, key in zip(items, keys, strict=True) if key == task["item_key"]]
            scopes = [{**scope, "item": item, "index": number} for item in alike]
        elif number >= 0:
            scopes = [{**scope, "item": pages[number], "index": number}]
        scopes += [former for one in scopes for former in turn.former_scopes(one, work.params.paths)]
        expected = [work.params.render(one) for one in scopes]
        assert task["is_given"] or task["params"] in expected, f"{where} ran with {task['params']}, not {expected}"
        if isinstance(task["output"], dict) and "by" in task["output"]:
            by = task["output"]["by"]
            assert by == work.spec.handler, f"{where} was made by {by}, not by {work.spec.handler}"


def _check_items(db: Database, state: JobState, node: NodeState) -> None:
    """24: every item of a fan-out has exactly one task, with the params of that item."""
    tasks = {
        item: task
        for (name, item), task in db.tasks[state.job_id].items()
        if name == node.name and task["gone"] is None
    }
    items = items_of(Turn(state, 0.0), node)
    wanted = Counter(keys_of(state.program.nodes[node.name].item_key, items))
    found = Counter(task["item_key"] for task in tasks.values())
    assert found == wanted, f"24: {state.job_id}/{node.name} has tasks for {found}, not {wanted}"


def is_corrected(db: Database, job_id: str) -> bool:
    return any(event == "job_recovered" and "corrected" in data for _, event, *_, data in db.events[job_id])


def may_be_compared(db: Database, job_id: str) -> bool:
    """Whether a corrected job ended as it would have if it had begun so: whole, with nothing kept that is stale."""
    recoveries = [data for _, event, *_, data in db.events[job_id] if event == "job_recovered"]
    is_plain = all(data["verb"] in ("resume", "retry", "rerun") and data.get("stale") != "keep" for data in recoveries)
    tasks = [task for task in db.tasks[job_id].values() if task["gone"] is None]
    is_whole = all(task["status"] == "completed" and not task["is_given"] for task in tasks)
    return is_corrected(db, job_id) and db.jobs[job_id]["status"] == "completed" and is_plain and is_whole


def without_numbers(value: Any) -> Any:
    """A result without what depends on the numbers of its items: those themselves, their order, and their batches; and
    without `more`, which may be the generation."""
    if isinstance(value, dict):
        hidden = {"index", "read", "saw", "page", "more"} | ({"result"} if "count" in value else set())
        kept = {key: without_numbers(one) for key, one in value.items() if key not in hidden}
        if "count" in value and "results" in kept:
            # What a `concat` has made of the outputs has the numbers as elements.
            kept["results"] = [one for one in kept["results"] if not isinstance(one, int)]
        return kept | ({"did": value["did"][0]} if "did" in value else {})
    if isinstance(value, tuple):
        return tuple(without_numbers(one) for one in value)
    if isinstance(value, list):
        return sorted(
            (without_numbers(one) for one in value), key=lambda one: orjson.dumps(one, option=orjson.OPT_SORT_KEYS)
        )
    return value
