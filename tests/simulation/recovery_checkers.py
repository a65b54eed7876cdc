"""Checks recoveries: which tasks run again, how often the janitor queues a task again, and which verbs are advised."""

from __future__ import annotations

from typing import Any

from holdfast.core.advance import advance
from holdfast.core.effects import AnswerSignal
from holdfast.core.outcome import counts, is_bad
from holdfast.core.states import Rules
from holdfast.define.node import Safe
from holdfast.define.program import Program, compile_pinned
from holdfast.store.loading import job_state
from tests.simulation.checker_memory import Memory
from tests.simulation.cycle import ModelCycle
from tests.simulation.database import Database, Key
from tests.simulation.selection import advise
from tests.simulation.undo_checkers import note_undo


def note_resets(db: Database, memory: Memory, requeue_limit: int) -> None:
    """The statuses of tasks that a verb has reset are no longer final; all others still are."""
    named: set[tuple[str, str]] = set()
    undo_named = set(memory.undo_named)
    for job_id in db.dirty:
        events = db.events[job_id]
        for _, event, *_, data in events[memory.events_seen[job_id] :]:
            if event == "job_recovered":
                memory.named_last = {one for one in memory.named_last if one[0] != job_id}
                memory.final_jobs.pop(job_id, None)
                undo_named |= note_undo(memory, job_id, data)
                for name in (*data["rerun"], *data.get("gone", ())):
                    named.add((job_id, name))
                    memory.named_last.add((job_id, name))
                    memory.final_nodes.pop((job_id, name), None)
                    memory.stale.discard((job_id, name))
                    for key in [key for key in memory.requeues if key[:2] == (job_id, name)]:
                        del memory.requeues[key]
            elif event == "janitor_acted":
                _count_requeues(memory, job_id, data, requeue_limit)
        memory.events_seen[job_id] = len(events)
    for key in db.history.undos[memory.undos_seen :]:
        assert key[:2] in undo_named, f"25: {key} was undone, and no plan had named its node"
        memory.final.pop(key, None)
    memory.undos_seen = len(db.history.undos)
    for key in db.history.resets[memory.resets_seen :]:
        node = db.nodes[key[0]][key[1]]
        # A fan-out that waited to match its items may turn out to be on a branch that is not taken any more.
        is_matched = node.matching is not None or (node.status == "skipped" and key[:2] in memory.named_last)
        assert key[:2] in named or is_matched, f"12: {key} was reset, and no plan had named its node"
        status, _ = memory.final.pop(key, ("ready", None))
        if status == "completed":
            _check_guard(db, memory, key)
    memory.resets_seen = len(db.history.resets)


def _count_requeues(memory: Memory, job_id: str, acted: dict[str, Any], requeue_limit: int) -> None:
    """9: a task that vanishes from the queue is queued again only as often as the limit allows."""
    for node, ranges in acted.get("requeued", {}).items():
        # A node's own task has no range.
        for item in [item for first, last in ranges for item in range(first, last + 1)] or [-1]:
            key = (job_id, node, item)
            memory.requeues[key] += 1
            assert memory.requeues[key] <= requeue_limit, (
                f"9: the janitor made {key} come back {memory.requeues[key]} times"
            )


def _check_guard(db: Database, memory: Memory, key: Key) -> None:
    """12: a completed task was reset only if its node's guard allows it. If a person set the node's result instead,
    no task runs; a task that may never run again does not run later either."""
    job = db.jobs[key[0]]
    program = compile_pinned(job["definition_hash"], db.definitions[job["definition_hash"]])
    if key[1] not in program.nodes:
        return  # A correction has taken the node away: nothing of it runs again.
    guard = program.nodes[key[1]].node.rerun
    if db.nodes[key[0]][key[1]].reason == "set_by_person":
        if guard.safe is Safe.NEVER:
            memory.never_again.add(key)
        return
    assert guard.safe is not Safe.NEVER, f"12: {key} ran again, and that is never safe"
    if guard.within_hours is not None:
        is_matched = db.nodes[key[0]][key[1]].matching is not None
        asked_at = job["recovered_at"] if is_matched else db.history.decided_at
        ago = asked_at - memory.completed_at[key]
        assert ago <= guard.within_hours * 3600, f"12: {key} ran again after {ago:.1f} s"


def check_advice(db: Database, job_id: str, program: Program) -> None:
    """22: the owner accepts every verb that is advised for an ended job. There is advice for every job that is not
    completed, unless a guard forbids running completed tasks again."""
    rows = ModelCycle(db, 0).committed_rows(job_id)
    state = job_state(*rows, program, Rules())
    advised, refused = advise(db, job_id, state)
    for recovery in advised:
        effects = advance(job_state(*rows, program, Rules()), recovery, db.now)
        answers = [effect for effect in effects if isinstance(effect, AnswerSignal)]
        assert [one.applied for one in answers] == [True], f"22: {job_id} refuses {recovery.request}: {answers}"
    bad = [name for name, node in state.nodes.items() if counts(state, name) and is_bad(node)]
    is_guarded = any("may never run" in one.reason or "these are over" in one.reason for one in refused)
    is_missing = state.status != "completed" and bool(bad or program.result is not None)
    assert advised or not is_missing or is_guarded, f"22: {job_id} is {state.status} and no verb is advised: {refused}"
