"""Applies the committed writes of an owner to the model's database, with the guards of the real statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from holdfast.core.breaking import Breaker
from holdfast.core.effects import (
    AcceptUndo,
    AnswerSignal,
    CorrectTasks,
    CreateTasks,
    DropTasks,
    Emit,
    EnqueueTasks,
    EnqueueWaiting,
    FailTask,
    FinishTask,
    FinishUndo,
    GiveParams,
    MarkJob,
    PinJob,
    RefuseTask,
    ReleaseTasks,
    ResetTasks,
    RestartNode,
    RetryTask,
    ReviveTasks,
    SkipTasks,
    UndoTasks,
    WithdrawTasks,
)
from holdfast.core.failing import Failure
from holdfast.store.batch import Batch, JobUpdate
from holdfast.store.records import RANK_LIMIT, NodeRow, SignalAnswer
from tests.simulation.database import Database, Key
from tests.simulation.event_data import check_data
from tests.simulation.gates import declare_limits
from tests.simulation.selection import can_be_reset, is_selected


def apply_batch(db: Database, me: int, batch: Batch) -> None:
    """Apply all writes of a commit, in the order of the batch's fields. The model has no table of attempts."""
    _write_jobs(db, me, batch.jobs)
    _write_nodes(db, batch.new_nodes, batch.nodes)
    _finish(db, batch.finished)
    _finish_undos(db, batch.ended_undos)
    _remove_handled(db, me, batch.handled)
    _pin(db, me, batch.pins)
    _give_params(db, batch.given)
    _reset(db, batch.resets)
    _restart(db, batch.restarts)
    _skip(db, batch.skips)
    _accept_undos(db, batch.accepted)
    _correct(db, batch.corrections)
    _refuse(db, batch.refusals)
    _drop(db, batch.drops)
    _revive(db, batch.revivals)
    _make_tasks(db, batch.tasks)
    _make_failed_tasks(db, batch.failed_tasks)
    _undo(db, batch.undos)
    for lane in batch.lanes:
        declare_limits(db, lane)
    _enqueue(db, me, batch.enqueued)
    _enqueue_waiting(db, me, batch.waiting)
    _retry(db, me, batch.retried)
    _release(db, batch.releases)
    _pause(db, batch.paused)
    _mark(db, batch.marks)
    _write_events(db, batch.events)
    _answer(db, batch.answers)
    _write_breakers(db, batch.breakers)
    for job_id in batch.survived:
        db.jobs[job_id]["deaths"] = 0


def _write_jobs(db: Database, me: int, jobs: Sequence[JobUpdate]) -> None:
    for job in jobs:
        row = db.jobs[job.job_id]
        if row["owner"] in (None, me):
            row |= job._asdict()
            db.dirty.add(job.job_id)


def _write_nodes(db: Database, new: Sequence[NodeRow], changed: Sequence[NodeRow]) -> None:
    """Write new and changed nodes; no node may be in both lists."""
    for node in new:
        assert node.node not in db.nodes[node.job_id], f"the node {node[:2]} was made twice"
    for node in changed:
        assert node.node in db.nodes[node.job_id], f"the node {node[:2]} was written before it was made"
    for node in (*new, *changed):
        db.nodes[node.job_id][node.node] = node._replace(output=_json(node.output), taken=list(node.taken))
        db.dirty.add(node.job_id)


def _finish(db: Database, finished: Sequence[FinishTask]) -> None:
    for done in finished:
        task = db.tasks[done.job_id].get((done.node, done.item))
        report = db.inbox.get(done.signal_id, {}) if done.status == "completed" and done.signal_id is not None else {}
        if task is not None and task["epoch"] == done.epoch and task["status"] == "ready":
            task |= {
                "status": str(done.status), "attempt": done.attempt, "output": _json(report.get("output")),
                "error": done.error, "retries": done.retries, "lost": done.lost, "crashes": done.crashes,
                "finished_at": db.history.decided_at,
            }  # fmt: skip
            if task["status"] == "completed":
                db.history.effects[(done.job_id, done.node, done.item)] = "done"


def _undo(db: Database, undos: Sequence[UndoTasks]) -> None:
    for undo in undos:
        for (node, item), task in db.tasks[undo.job_id].items():
            if node == undo.node and task["status"] == "completed" and (item < 0) == undo.own_only:
                key = (undo.job_id, node, item)
                db.checkpoints.pop(key, None)
                db.history.reset[key] = task["epoch"]
                db.history.undos.append(key)
                task |= {
                    "status": "ready", "waits": True, "epoch": task["epoch"] + 1, "retries": 0, "lost": 0,
                    "crashes": 0, "requeues": 0, "error": None, "undo": {"completed_at": task["finished_at"]},
                    "finished_at": None,
                }  # fmt: skip
        db.dirty.add(undo.job_id)


def _finish_undos(db: Database, ended: Sequence[FinishUndo]) -> None:
    for done in ended:
        key = (done.job_id, done.node, done.item)
        task = db.tasks[done.job_id].get(key[1:])
        if task is None or task["epoch"] != done.epoch or task["status"] != "ready" or task["undo"] is None:
            continue
        db.checkpoints.pop(key, None)
        task["attempt"] = done.attempt
        if done.is_undone:
            _take_back(db, key, task, done.error)
        else:
            _leave_done(task, done.error)


def _take_back(db: Database, key: Key, task: dict[str, Any], error: Failure) -> None:
    """25: what a task has completed is taken back once."""
    assert db.history.effects.get(key) == "done", f"25: {key} was undone, and it was {db.history.effects.get(key)}"
    db.history.effects[key] = "undone"
    task |= {"status": "cancelled", "output": None, "error": error, "undo": None}
    task["finished_at"] = db.history.decided_at


def _leave_done(task: dict[str, Any], error: Failure) -> None:
    task |= {"status": "completed", "finished_at": task["undo"]["completed_at"], "undo": {"error": error}}


def _accept_undos(db: Database, accepted: Sequence[AcceptUndo]) -> None:
    for one in accepted:
        for (node, item), task in db.tasks[one.job_id].items():
            if node == one.node and task["status"] == "completed" and task["undo"] is not None:
                key = (one.job_id, node, item)
                db.history.undos.append(key)
                _take_back(db, key, task, one.error)
        db.dirty.add(one.job_id)


def _remove_handled(db: Database, me: int, handled: Sequence[int]) -> None:
    for signal_id in handled:
        row = db.inbox.get(signal_id)
        if row is not None and row["owner"] in (0, me):
            del db.inbox[signal_id]
            db.dirty.add(row["job_id"])


def _reset(db: Database, resets: Sequence[ResetTasks]) -> None:
    for reset in resets:
        for (node, item), task in db.tasks[reset.job_id].items():
            if (
                node == reset.node
                and is_selected(reset.selection, item, task)
                and can_be_reset(task, item, reset.enqueued)
            ):
                _reset_task(db, (reset.job_id, node, item), task)
                task["has_contract"] = reset.has_contract
        db.dirty.add(reset.job_id)


def _reset_task(db: Database, key: Key, task: dict[str, Any]) -> None:
    row = _cut_short(db, key, "reset")
    if task["status"] == "completed":
        db.checkpoints.pop(key, None)
    db.history.reset[key] = task["epoch"]
    db.history.resets.append(key)
    task |= _task("ready", task["params"]) | {
        "item_key": task["item_key"], "is_given": task["is_given"], "gone": task["gone"],
        "epoch": task["epoch"] + 1, "waits": True,
        "attempt": task["attempt"] + (row is not None),
    }  # fmt: skip


def _pin(db: Database, me: int, pins: Sequence[PinJob]) -> None:
    for pin in pins:
        row = db.jobs[pin.job_id]
        if row["owner"] in (None, me):
            row |= {"definition_hash": pin.definition_hash, "inputs": _json(pin.inputs)}
            db.dirty.add(pin.job_id)


def _give_params(db: Database, given: Sequence[GiveParams]) -> None:
    for one in given:
        columns = {"params": _json(one.params), "is_given": True, "has_contract": one.has_contract}
        db.tasks[one.job_id][(one.node, one.item)] |= columns


def _correct(db: Database, corrections: Sequence[CorrectTasks]) -> None:
    for one in corrections:
        for item, params in zip(one.items, one.params, strict=True):
            task = db.tasks[one.job_id][(one.node, item)]
            assert task["status"] != "ready", f"{one[:2]} {item} is corrected while it is open"
            _reset_task(db, (one.job_id, one.node, item), task)
            task |= {"params": _json(params), "has_contract": one.has_contract, "gone": None}
        db.dirty.add(one.job_id)


def _refuse(db: Database, refused: Sequence[RefuseTask]) -> None:
    for one in refused:
        task = db.tasks[one.job_id][(one.node, one.item)]
        _reset_task(db, (one.job_id, one.node, one.item), task)
        task |= {"status": "failed", "error": one.error, "params": None, "waits": False, "gone": None}


def _drop(db: Database, drops: Sequence[DropTasks]) -> None:
    for one in drops:
        for item in one.items:
            task = db.tasks[one.job_id][(one.node, item)]
            assert task["status"] != "ready", f"{one[:2]} {item} is gone while it is open"
            task |= {"status": "skipped", "gone": task["status"]}
        db.dirty.add(one.job_id)


def _revive(db: Database, revivals: Sequence[ReviveTasks]) -> None:
    for one in revivals:
        for item in one.items:
            task = db.tasks[one.job_id][(one.node, item)]
            task |= {"status": task["gone"], "gone": None}
        db.dirty.add(one.job_id)


def _cut_short(db: Database, key: Key, reason: str) -> dict[str, Any] | None:
    """Delete a task from the queue. If it was leased, record its attempt and return its row."""
    row = db.unqueue(key, reason)
    if row is None or row["state"] != "leased":
        return None
    worker = db.workers.get(row["holder"], {"name": None})["name"]
    db.withdrawn.append((key, row["attempt"], row["epoch"], "withdrawn", worker))
    return row


def _restart(db: Database, restarts: Sequence[RestartNode]) -> None:
    for restart in restarts:
        for node, item in list(db.tasks[restart.job_id]):
            if node == restart.node and (item < 0 or not restart.own_only):
                key = (restart.job_id, node, item)
                _cut_short(db, key, "reset")
                db.checkpoints.pop(key, None)
                db.history.reset[key] = db.tasks[restart.job_id].pop((node, item))["epoch"]
                db.history.resets.append(key)
        db.dirty.add(restart.job_id)


def _skip(db: Database, skips: Sequence[SkipTasks]) -> None:
    for skip in skips:
        for (node, item), task in db.tasks[skip.job_id].items():
            if node == skip.node and task["status"] != "completed":
                key = (skip.job_id, node, item)
                row = _cut_short(db, key, "skipped")
                db.history.resets.append(key)
                task |= {"status": "skipped", "waits": False, "attempt": task["attempt"] + (row is not None)}
        db.dirty.add(skip.job_id)


def _make_tasks(db: Database, tasks: Sequence[CreateTasks]) -> None:
    for new in tasks:
        columns = {"epoch": new.epoch, "attempt": new.attempt, "has_contract": new.has_contract}
        keys: list[str | None] = [*new.keys] if new.keys is not None else [None] * len(new.params)
        for item, (params, key) in enumerate(zip(new.params, keys, strict=True), new.first):
            assert (new.node, item) not in db.tasks[new.job_id], f"task {new[:2]} {item} was made twice"
            db.tasks[new.job_id][(new.node, item)] = _task("ready", params=_json(params)) | columns | {"item_key": key}


def _make_failed_tasks(db: Database, refused: Sequence[FailTask]) -> None:
    for new in refused:
        assert (new.node, new.item) not in db.tasks[new.job_id], f"task {new[:3]} was made twice"
        task = _task("failed", error=new.error)
        task |= {"epoch": new.epoch, "attempt": new.attempt, "item_key": new.item_key}
        db.tasks[new.job_id][(new.node, new.item)] = task


def _enqueue(db: Database, me: int, ranges: Sequence[EnqueueTasks]) -> None:
    for write in ranges:
        for place, item in enumerate(range(write.first, write.last + 1)):
            task = db.tasks[write.job_id][(write.node, item)]
            if task["status"] == "ready":
                _put(db, me, (write.job_id, write.node, item), write, task, place)


def _enqueue_waiting(db: Database, me: int, waiting: Sequence[EnqueueWaiting]) -> None:
    for write in waiting:
        tasks = db.tasks[write.job_id]
        waiting_keys = [key for key, task in tasks.items() if key[0] == write.node and task["waits"]]
        for place, (node, item) in enumerate(sorted(waiting_keys)[: write.number]):
            task = tasks[(node, item)]
            task["waits"] = False
            _put(db, me, (write.job_id, node, item), write, task, place)


def _retry(db: Database, me: int, retried: Sequence[RetryTask]) -> None:
    for again in retried:
        task = db.tasks[again.job_id][(again.node, again.item)]
        if task["epoch"] < again.epoch and task["status"] == "ready":
            task |= {
                "epoch": again.epoch, "attempt": again.attempt, "error": again.error, "retries": again.retries,
                "lost": again.lost, "crashes": again.crashes, "requeues": task["requeues"] + again.requeued,
            }  # fmt: skip
            row = _put(db, me, (again.job_id, again.node, again.item), again, task)
            row |= {
                "state": "ready" if again.due_at is None else "waiting",
                "due_at": again.due_at,
                "suspect": again.suspect,
            }


def _put(
    db: Database,
    me: int,
    key: Key,
    write: EnqueueTasks | EnqueueWaiting | RetryTask,
    task: dict[str, Any],
    place: int = 0,
) -> dict[str, Any]:
    """Put a task into the queue. `place` is its distance from the first task of the same write."""
    assert key not in db.queue, f"task {key} was queued twice"
    db.queue[key] = {
        "id": db.new_id(), "epoch": task["epoch"], "attempt": task["attempt"] + 1, "lane": write.lane,
        "state": "ready", "priority": write.priority, "rank": min(write.rank + place, RANK_LIMIT),
        "suspect": False, "owner": me, "timeout_seconds": write.timeout_seconds, "due_at": None, "holder": None,
        "claimed_at": None, "deadline_at": None, "queued_at": db.history.decided_at,
    }  # fmt: skip
    return db.queue[key]


def _release(db: Database, releases: Sequence[ReleaseTasks]) -> None:
    for release in releases:
        for key, row in db.queue.items():
            if key[0] == release.job_id and row["state"] == "paused":
                is_due = row["due_at"] is None or row["due_at"] <= db.now
                row |= {"state": "ready" if is_due else "waiting", "id": db.new_id()}


def _pause(db: Database, paused: Sequence[str]) -> None:
    for job_id in paused:
        for key, row in db.queue.items():
            if key[0] == job_id and row["state"] in ("ready", "waiting"):
                row["state"] = "paused"


def _mark(db: Database, marks: Sequence[MarkJob]) -> None:
    for mark in marks:
        job = db.jobs[mark.job_id]
        if job["finished_at"] is not None and job["owner"] is None and job["error"] is None:
            job["error"] = mark.error
            db.dirty.add(mark.job_id)


def _write_events(db: Database, events: Sequence[Emit]) -> None:
    for event in events:
        log = db.events[event.job_id]
        assert event.seq == log[-1][0] + 1, f"event {event.seq} of {event.job_id} follows {log[-1][0]}"
        check_data(event.event, event.data)
        log.append(tuple(event[1:]))


def _answer(db: Database, answers: Sequence[AnswerSignal]) -> None:
    for answer in answers:
        db.answers.setdefault(answer.signal_id, SignalAnswer(answer.applied, answer.reason, answer.remedy))


def _write_breakers(db: Database, breakers: Sequence[Breaker]) -> None:
    for breaker in breakers:
        db.breakers[breaker.key] = replace(breaker, rules=db.breakers[breaker.key].rules)


def withdrawn(db: Database, withdrawal: WithdrawTasks) -> list[Key]:
    """The tasks that a withdrawal ends: those in the queue, those never queued, and those that wait after a reset."""
    tasks = db.tasks[withdrawal.job_id]
    keys = [k[1:] for k in db.queue if k[0] == withdrawal.job_id and withdrawal.node in (None, k[1])]
    keys = [k for k in keys if withdrawal.leases_too or db.queue[(withdrawal.job_id, *k)]["state"] != "leased"]
    for node, first, last in withdrawal.unqueued:
        keys += [(node, i) for i in range(first, last + 1) if (node, i) in tasks]
    keys += [key for key, task in tasks.items() if key[0] in withdrawal.waiting and task["waits"]]
    return [(withdrawal.job_id, *key) for key in dict.fromkeys(keys) if tasks[key]["status"] == "ready"]


def apply_withdrawal(db: Database, withdrawal: WithdrawTasks, keys: Sequence[Key]) -> None:
    for key in keys:
        row = _cut_short(db, key, "withdrawn")
        task = db.tasks[key[0]][key[1:]]
        assert task["status"] == "ready", f"{key} was withdrawn although it is {task['status']}"
        if task["undo"] is not None:
            _leave_done(task, withdrawal.error)
        else:
            task |= {"status": str(withdrawal.status), "error": withdrawal.error}
        task["waits"] = False
        task["attempt"] += row is not None
    db.dirty.add(withdrawal.job_id)


def _task(status: str, params: Any = None, error: Any = None) -> dict[str, Any]:
    return {
        "status": status, "epoch": 1, "attempt": 0, "retries": 0, "lost": 0, "crashes": 0, "requeues": 0,
        "params": params, "output": None, "error": error, "waits": False, "finished_at": None,
        "item_key": None, "gone": None, "is_given": False, "undo": None,
    }  # fmt: skip


def _json(value: Any) -> Any:
    if value is None:
        return None
    return orjson.loads(value if isinstance(value, bytes) else orjson.dumps(value))
