"""Checks undos: their order, that a completed task is taken back at most once, and that nothing undone counts."""

from __future__ import annotations

from typing import Any

from holdfast.define.program import Program
from holdfast.store.records import NodeRow
from tests.simulation.checker_memory import Memory
from tests.simulation.database import JOB_TERMINAL, Database, code_of


def note_undo(memory: Memory, job_id: str, recovered: dict[str, Any]) -> set[tuple[str, str]]:
    """What a recovery undoes; a person who accepts a failed undo names its node as skipped."""
    memory.undo_named = {one for one in memory.undo_named if one[0] != job_id}
    names = [*recovered.get("undo", ()), *(recovered["rerun"] if recovered["verb"] == "skip" else ())]
    named = {(job_id, name) for name in names}
    memory.undo_named |= named
    for key in [key for key in memory.requeues if key[:2] in named]:
        del memory.requeues[key]
    return named


def is_undoing(job: dict[str, Any]) -> bool:
    return job["undo"] is not None and not job["undo"]["is_over"]


def was_ever_undone(db: Database, job_id: str, by: str | None = None) -> bool:
    recoveries = [data for _, event, *_, data in db.events[job_id] if event == "job_recovered"]
    undone = [data for data in recoveries if "undo" in data or data["verb"] == "undo"]
    return any(by is None or data["actor"] == by for data in undone)


def is_undone_by(db: Database, job_id: str, actor: str) -> bool:
    """Whether something is left of an undo: it has not been run again."""
    is_left = any(node.reason == "undone" or node.undo is not None for node in db.nodes[job_id].values())
    return was_ever_undone(db, job_id, actor) and (is_left or db.jobs[job_id]["undo"] is not None)


def was_undone(task: dict[str, Any]) -> bool:
    """Whether the last thing that ran of a task was its undo."""
    return task["undo"] is not None or code_of(task) == "UNDONE"


def is_orphaned(name: str, nodes: dict[str, NodeRow], program: Program) -> bool:
    """Whether something was undone that the node has read: its own result stays, because nothing undoes it."""
    above = [name, *program.graph.sources[name]]
    return any(nodes[one].undo is not None for one in above if one in nodes)


def check_undoing(db: Database, job_id: str, job: dict[str, Any], nodes: dict[str, NodeRow], program: Program) -> None:
    """25: a node is undone only after everything below it; no task is undone in a job that is not."""
    if not is_undoing(job):
        waiting = [key for key, task in db.tasks[job_id].items() if task["status"] == "ready" and task["undo"]]
        assert not waiting, f"25: {job_id} is {job['status']}, and {waiting} wait to be undone"
        return
    assert job["status"] == "running" and job["deadline_at"] is None, f"25: {job_id} is undone while it is {job}"
    scope = job["undo"]["nodes"]
    for name in scope:
        if nodes[name].undo is None:
            continue
        for below in _below(name, program):
            undo = nodes[below].undo if below in scope else None
            is_held = below in scope and (undo is None or not undo["is_over"] or undo["failed"])
            assert not is_held, f"25: {name} of {job_id} is undone before {below}"


def _below(name: str, program: Program) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for target in program.graph.outgoing[waiting.pop()]:
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


def check_undone(db: Database, job_id: str, job: dict[str, Any], nodes: dict[str, NodeRow], program: Program) -> None:
    """25: what counts as completed has not been undone, and the error of the job names what is left."""
    for (name, item), task in db.tasks[job_id].items():
        effect = db.history.effects.get((job_id, name, item))
        if effect is not None and task["status"] == "completed":
            assert effect == "done", f"25: {job_id}/{name}[{item}] was undone and counts as completed"
        if code_of(task) == "UNDONE":
            assert effect in (None, "undone"), f"25: {job_id}/{name}[{item}] counts as undone, and was not"
            assert task["output"] is None, f"25: {job_id}/{name}[{item}] was undone and still has its output"
    undo = job["undo"]
    if undo is None or job["status"] not in JOB_TERMINAL:
        return
    assert undo["is_over"], f"25: {job_id} ended while it was undone"
    assert job["error"] is not None, f"25: {job_id} was undone and does not say why"
    left = [name for name in _undone_last(db, job_id) if _is_left(db, job_id, name, program)]
    if undo["cause"] == "failure":
        why = _why_failed(db, job_id)
        assert job["error"].message.endswith(why), f"25: {job_id} had another error before its undo: {job['error']}"
    is_named = code_of(job) == "UNDO_INCOMPLETE"
    assert is_named == (bool(left) or undo["is_cut"]), f"25: {job_id} says {job['error']}, and left {left}"


def _undone_last(db: Database, job_id: str) -> list[str]:
    """What the last undo was to take back, with what a person has accepted of it since."""
    recoveries = [data for _, event, *_, data in db.events[job_id] if event == "job_recovered"]
    return next(list(data["undo"]) for data in reversed(recoveries) if data["verb"] == "undo")


def _why_failed(db: Database, job_id: str) -> str:
    """The error with which the job had failed, when it began to undo itself."""
    recoveries = [data for _, event, *_, data in db.events[job_id] if event == "job_recovered"]
    reasons: list[str] = [data["reason"] for data in recoveries if data["actor"] == "on_failure: compensate"]
    return reasons[-1]


def _is_left(db: Database, job_id: str, name: str, program: Program) -> bool:
    """Whether a task of the node has completed that something undoes."""
    for (node, item), task in db.tasks[job_id].items():
        if (
            node == name
            and task["status"] == "completed"
            and program.nodes[name].task_of(item).compensation is not None
        ):
            return True
    return False
