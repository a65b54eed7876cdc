"""Checks tasks: their leases, reports, epochs and attempts, and how often each may die and be retried."""

from __future__ import annotations

from typing import Any

from holdfast.core.effects import Lane
from holdfast.define.program import compile_pinned
from tests.simulation.checker_memory import Memory
from tests.simulation.correction_checkers import is_corrected
from tests.simulation.database import TERMINAL, Database, Key, code_of
from tests.simulation.event_checkers import repeated_failures
from tests.simulation.gates import queue_is_paused
from tests.simulation.undo_checkers import was_undone


def check_history(db: Database, memory: Memory, crash_limit: int) -> None:
    history = db.history
    for now, key, epoch, holder, due_at in history.claims[memory.claims_seen :]:
        assert (key, epoch) not in memory.holders, f"2: epoch {epoch} of {key} was leased twice"
        if due_at is not None and not history.stepped_back:
            assert due_at <= now, f"10: {key} was leased {due_at - now:.3f} s before its time"
        row = db.queue.get(key)
        if row is not None:
            if "lane" in row:  # A mirror of a real database has only lane ids.
                _check_gates(db, key, row["lane"])
                is_paused = queue_is_paused(db, row["lane"].queue)
                assert not is_paused, f"10: {key} was leased while its queue was paused"
            _check_attempt(db, memory, key, epoch, row["attempt"])
        assert key not in memory.never_again, f"12: {key} ran again, and that is never safe"
        assert key not in memory.final, f"4: {key} was leased although it is {memory.final[key][0]}"
        job = db.jobs[key[0]]
        assert job["stop_cause"] is None, f"11: {key} was leased after its job had stopped"
        assert not any(h["by"] == "pause" for h in job["holds"]), f"10: {key} was leased while its job was paused"
        _check_crashes_before(db, key, epoch, crash_limit)
        memory.holders[(key, epoch)] = holder
    memory.claims_seen = len(history.claims)
    for _, key, epoch, holder in history.accepted[memory.accepted_seen :]:
        assert memory.holders.get((key, epoch)) == holder, f"1: {key} epoch {epoch} was reported by a stranger"
        assert (key, epoch) not in memory.accepted, f"1: two reports of {key} epoch {epoch} were accepted"
        memory.accepted.add((key, epoch))
    memory.accepted_seen = len(history.accepted)
    for key, epoch in history.rejections[memory.rejections_seen :]:
        assert memory.has_gone_back or (key, epoch) not in memory.accepted, (
            f"1: the report of {key} epoch {epoch} was accepted, and then rejected"
        )
    memory.rejections_seen = len(history.rejections)


def _check_attempt(db: Database, memory: Memory, key: Key, epoch: int, attempt: int) -> None:
    """2: attempt numbers only grow. A number is free again if a verb came before its report was read."""
    before, number = memory.attempts.get(key, (0, 0))
    was_cut_short = db.history.ended.get((key, before)) in ("reset", "skipped", "withdrawn")
    assert not was_cut_short or attempt > number, f"2: {key} was leased again as attempt {attempt}"
    memory.attempts[key] = (epoch, attempt)


def _check_crashes_before(db: Database, key: Key, epoch: int, crash_limit: int) -> None:
    """9: a task that is leased again has all its deaths counted, and fewer of them than the limit."""
    counted = db.tasks[key[0]][key[1:]]["crashes"]
    since = db.history.reset.get(key, 0)
    deaths = sum(since < death < epoch for death in db.history.deaths.get(key, ()))
    assert counted == deaths, f"9: {key} died {deaths} times in its own process, but {counted} were counted"
    assert deaths < crash_limit, f"9: {key} was leased after it had died {deaths} times in its own process"


def _check_gates(db: Database, key: Key, lane: Lane) -> None:
    """10: breaker and limits had room for the task that was just leased."""
    if not lane.is_gated:
        return
    leased = [row["lane"] for row in db.queue.values() if row["state"] == "leased"]
    breaker = db.breakers.get(lane.breaker)
    if breaker is not None and breaker.permits is not None:
        running = sum(one.breaker == lane.breaker for one in leased)
        assert running <= breaker.permits, f"10: {key} was leased as number {running} behind {breaker.state}"
    for limit in lane.limits:
        running = sum(one.tenant == lane.tenant and limit in one.limits for one in leased)
        assert limit.concurrency is None or running <= limit.concurrency, f"10: {key} was leased beyond {limit}"


def check_tasks(db: Database, memory: Memory, job_id: str, crash_limit: int) -> None:
    for short, task in db.tasks[job_id].items():
        key = (job_id, *short)
        assert task["epoch"] >= memory.epochs.get(key, 0), f"2: the epoch of {key} went back"
        memory.epochs[key] = task["epoch"]
        now = (task["status"], task["output"])
        if key in memory.final and "skipped" in (task["status"], memory.final[key][0]) and _is_matched(db, key):
            # Its item has gone, or has come back.
            memory.final[key] = now
        elif key in memory.final:
            assert memory.final[key] == now, f"4: {key} was {memory.final[key]} and is now {now}"
        elif task["status"] in TERMINAL:
            memory.final[key] = now
            assert key not in db.queue, f"11: {key} is {task['status']} and still queued"
            if task["status"] == "completed":
                memory.completed_at[key] = task["finished_at"]
                is_reported = (key, task["epoch"]) in memory.accepted or task["undo"] is not None
                assert is_reported, f"1: {key} completed by an epoch that did not report"
            if not was_undone(task):
                _check_crashes(db, key, task, crash_limit)
        queued = db.queue.get(key)
        if queued is not None:
            assert not has_vanished(db, key, task), f"16: {key} was queued again as the epoch that had vanished"
            assert queued["epoch"] == task["epoch"], f"2: {key} is queued as another epoch than its task's"


def _is_matched(db: Database, key: Key) -> bool:
    return db.nodes[key[0]][key[1]].matching is not None


def _check_crashes(db: Database, key: Key, task: dict[str, Any], crash_limit: int) -> None:
    """9: a task is quarantined if and only if it died too often in its own process. A stop may come before the last
    death is counted."""
    since = db.history.reset.get(key, 0)
    deaths, counted = sum(death > since for death in db.history.deaths.get(key, ())), task["crashes"]
    quarantined = code_of(task) == "QUARANTINED"
    assert quarantined == (counted >= crash_limit), f"9: {key} died {counted} times and is {task['error']}"
    assert counted <= deaths, f"9: {key} died {deaths} times in its own process, but {counted} were counted"
    if quarantined or task["status"] == "completed":
        assert counted == deaths, f"9: {key} died {deaths} times in its own process, but {counted} were counted"


def has_vanished(db: Database, key: Key, task: dict[str, Any]) -> bool:
    """Whether something outside the engine deleted the task's queue row. The janitor finds such tasks."""
    return task["status"] == "ready" and db.history.ended.get((key, task["epoch"])) == "vanished"


def check_budgets(db: Database, job_id: str) -> None:
    """9: no task is retried more often than its node allows, or fails with retries left and without a reason."""
    job = db.jobs[job_id]
    program = compile_pinned(job["definition_hash"], db.definitions[job["definition_hash"]])
    repeated = repeated_failures(db, job_id)
    if is_corrected(db, job_id):
        return  # What is kept may have had other limits.
    for (node, item), task in db.tasks[job_id].items():
        spec = program.spec_of(node, item)
        if spec is None:
            continue
        if was_undone(task):
            spec = spec.compensate or spec
        limit = spec.retry.max_retries
        assert task["retries"] <= limit, f"9: {job_id}/{node}[{item}] was retried {task['retries']} times"
        given_up = task["status"] == "failed" and code_of(task) == "HANDLER_ERROR"
        if (
            given_up
            and not task["error"].is_permanent
            and job["stop_cause"] is None
            and job["generation"] == 1  # Later it may have failed before a verb, while the job was stopping.
            and (node, item) not in repeated
        ):
            assert task["retries"] == limit, f"9: {job_id}/{node}[{item}] failed with retries left"
