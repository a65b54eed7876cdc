"""Checks jobs: their owner, their status, their deadlines, their cancels, and that there is always a next step."""

from __future__ import annotations

from typing import Any

from holdfast.define.node import Importance, NodeType
from holdfast.define.program import Program
from holdfast.store.records import NodeRow
from tests.simulation.checker_memory import JOB_ENDS, Memory
from tests.simulation.correction_checkers import check_corrected
from tests.simulation.database import JOB_TERMINAL, TERMINAL, Database, code_of
from tests.simulation.node_checkers import verdict
from tests.simulation.recovery_checkers import check_advice
from tests.simulation.task_checkers import has_vanished
from tests.simulation.undo_checkers import check_undone, was_ever_undone

BAD = ("failed", "cancelled")


def check_owner(memory: Memory, job_id: str, job: dict[str, Any]) -> None:
    assert job["epoch"] >= memory.owner_epochs.get(job_id, 0), f"2: the epoch of {job_id} went back"
    memory.owner_epochs[job_id] = job["epoch"]


def check_status(
    db: Database,
    memory: Memory,
    job_id: str,
    job: dict[str, Any],
    nodes: dict[str, NodeRow],
    program: Program,
    *,
    result_fails: bool,
) -> None:
    if job_id in memory.final_jobs:
        assert job["status"] == memory.final_jobs[job_id], f"4: {job_id} was {memory.final_jobs[job_id]}"
    if job["status"] not in JOB_TERMINAL:
        return
    if job_id not in memory.final_jobs:
        check_advice(db, job_id, program)
    memory.final_jobs[job_id] = job["status"]
    assert job["owner"] is None, f"2: {job_id} is finished and still owned"
    assert code_of(job) != "COUNTERS_DISAGREE", f"16: {job_id} is correct, and was marked as doubtful: {job['error']}"
    assert job["finished_at"] >= job["started_at"], f"5: {job_id} ended before it began"
    assert set(nodes) >= set(program.graph.order), f"13: {job_id} ended before all its nodes had ended"
    nodes = {name: node for name, node in nodes.items() if name in program.nodes}
    assert all(n.status in TERMINAL for n in nodes.values()), f"13: {job_id} ended before all its nodes had ended"
    check_corrected(db, job_id, program)
    check_undone(db, job_id, job, nodes, program)
    expected = _expected_status(nodes, program, is_stopped=job["stop_cause"] is not None)
    if job["undo"] is not None:
        expected = "cancelled" if job["undo"]["cause"] == "person" else "failed"
    if expected in ("completed", "partial") and result_fails:
        expected = "failed"
    assert job["status"] == expected, f"13: {job_id} is {job['status']}"
    assert not any(key[0] == job_id for key in db.queue), f"11: {job_id} ended and still has queued tasks"


def _expected_status(nodes: dict[str, NodeRow], program: Program, *, is_stopped: bool) -> str:
    borders = (NodeType.START, NodeType.END)
    inner_nodes = [n for name, n in nodes.items() if program.nodes[name].node.type not in borders]
    if any(node.reason in ("job_cancelled", "undone") for node in inner_nodes):
        return "cancelled"
    worst = "completed"
    consequence = ("upstream_failed",) if is_stopped else ("upstream_failed", "job_stopped")
    for name, node in nodes.items():
        weight = _weight(name, nodes, program, consequence)
        if program.nodes[name].node.type in borders or weight is Importance.OPTIONAL:
            continue
        if node.status in BAD and weight is Importance.CRITICAL:
            return "failed"
        is_missed = node.failed and program.nodes[name].node.tolerate.counts_as != "completed"
        missed = node.skipped - (node.matching or {}).get("gone", 0)
        is_skipped = missed or (node.status, node.reason) == ("skipped", "by_person")
        if node.status in BAD or is_missed or is_skipped:
            worst = "partial"
    return worst


def _weight(name: str, nodes: dict[str, NodeRow], program: Program, consequence: tuple[str, ...]) -> Importance:
    """13: a node that was cancelled because of a failed source counts as that source."""
    if nodes[name].status == "cancelled" and nodes[name].reason in consequence:
        bad = [s for s in program.graph.sources[name] if verdict(s, name, nodes, program) == "bad"]
        causes = {_weight(source, nodes, program, consequence) for source in bad}
        return next((one for one in Importance if one in causes), program.nodes[name].node.importance)
    return program.nodes[name].node.importance


def check_progress(db: Database, job_id: str, job: dict[str, Any], nodes: dict[str, NodeRow], program: Program) -> None:
    """7: an open job has a queued task, an unread signal, or a step that its owner owes."""
    if job["status"] in JOB_TERMINAL:
        return
    if any(key[0] == job_id for key in db.queue):
        return
    if any(row["job_id"] == job_id for row in db.inbox.values()):
        return
    if any(has_vanished(db, (job_id, *key), task) for key, task in db.tasks[job_id].items()):
        return
    for name, node in nodes.items():
        if name not in program.nodes:
            continue
        kind = program.nodes[name].node.type
        is_matching = node.matching is not None and not node.matching["is_done"]
        gathers = kind is NodeType.FAN_IN and node.completed == node.width
        if node.status == "running" and (gathers or is_matching or node.expanded < node.width):
            return
        if node.status == "ready" and not node.expanded:
            return
    raise AssertionError(f"7: {job_id} is {job['status']} with nothing queued, unread or owed")


def check_deadlines(db: Database, patience: float) -> None:
    """11: in a calm world, an owner notices a deadline soon after it has passed."""
    for job_id, job in db.jobs.items():
        moment = job["deadline_at"] if job["stop_cause"] is None else job["stop_until"]
        waits = job["finished_at"] is None and not job["stop_leases_ended"] and moment is not None
        assert not waits or db.now < moment + patience, f"11: {job_id} outlived its deadline {moment}"


def check_cancels(db: Database) -> None:
    """11: a job was cancelled if and only if one of its cancels was applied. No job names a refused cancel as its
    reason."""
    cancels = db.history.cancels
    for job_id in set(cancels.values()):
        if was_ever_undone(db, job_id):
            continue
        ends = {event for _, event, *_ in db.events[job_id]} & JOB_ENDS
        applied = [db.answers[signal_id][0] for signal_id, job in cancels.items() if job == job_id]
        was_cancelled = "job_cancelled" in ends
        assert was_cancelled == any(applied), f"11: cancels of {job_id} applied: {applied}, its ends: {ends}"
        error = db.jobs[job_id]["error"]
        message = error.message if error is not None else ""
        assert any(applied) or "cancelled by" not in message, f"22: {job_id} names a refused cancel as its reason"
