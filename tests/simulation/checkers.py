"""Checks what must hold after every step: in the state of the database, and in the history, which no state shows.

The checks are in `task_checkers`, `node_checkers`, `job_checkers`, `event_checkers`, `recovery_checkers`,
`correction_checkers` and `undo_checkers`. `checker_memory` has what they remember of earlier steps. The numbers are
those of the invariants in docs/explanation/invariants.md.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from holdfast.define.program import Program, compile_pinned
from holdfast.store.records import NewJob
from tests.simulation.checker_memory import Memory
from tests.simulation.correction_checkers import is_corrected
from tests.simulation.database import Database, Key, code_of
from tests.simulation.event_checkers import check_events, check_holds, check_task_events, repeated_failures
from tests.simulation.job_checkers import check_cancels, check_owner, check_progress, check_status
from tests.simulation.node_checkers import check_batches, check_counters, check_nodes
from tests.simulation.notice_checkers import check_notices
from tests.simulation.recovery_checkers import note_resets
from tests.simulation.task_checkers import check_budgets, check_history, check_tasks
from tests.simulation.undo_checkers import check_undoing, is_undone_by, was_ever_undone


class Checkers:
    """Checks each step, and remembers earlier states to notice forbidden changes."""

    def __init__(self, database: Database, crash_limit: int = 2, requeue_limit: int = 5) -> None:
        self.db = database
        self._crash_limit = crash_limit
        self._requeue_limit = requeue_limit
        self.remembered = Memory()

    def memory(self) -> Memory:
        """A copy of what the checkers remember, for the case that the database goes back to this moment."""
        return copy.deepcopy(self.remembered)

    def go_back_to(self, memory: Memory) -> None:
        self.remembered = copy.deepcopy(memory)
        self.remembered.has_gone_back = True

    def executed(self, key: Key, epoch: int) -> None:
        self.remembered.executions[key] += 1

    def begun(self, worker_id: int, key: Key, epoch: int) -> None:
        """3: a handler begins only while its worker's lease lives. A mirror of a real database has no workers."""
        worker = self.db.workers.get(worker_id)
        if self.remembered.has_gone_back:
            # The database went back: it may have lost a renewal that the worker relies on.
            return
        assert worker is None or (not worker["ended"] and worker["until"] > self.db.now), (
            f"3: epoch {epoch} of {key} began after the lease of worker {worker_id} had ended"
        )

    def check_step(self) -> None:
        history = self.db.history
        if self.db.dirty:
            note_resets(self.db, self.remembered, self._requeue_limit)
        check_history(self.db, self.remembered, self._crash_limit)
        assert not history.passed_over, f"10: a job began without reading signals {history.passed_over} of people"
        for job_id in self.db.dirty:
            if job_id in self.db.jobs:
                self._check_job(job_id)
        self.db.dirty.clear()

    def _check_job(self, job_id: str) -> None:
        job, program = self.db.jobs[job_id], self._program(job_id)
        nodes = self.db.nodes[job_id]
        check_owner(self.remembered, job_id, job)
        check_counters(self.db, job_id, nodes)
        check_tasks(self.db, self.remembered, job_id, self._crash_limit)
        check_nodes(self.db, self.remembered, job_id, job, nodes, program)
        check_status(
            self.db, self.remembered, job_id, job, nodes, program, result_fails=self.result_fails(job, program)
        )
        check_events(self.db, self.remembered, job_id, job, nodes)
        check_undoing(self.db, job_id, job, nodes, program)
        check_progress(self.db, job_id, job, nodes, program)

    def _program(self, job_id: str) -> Program:
        pinned = self.db.jobs[job_id]["definition_hash"]
        return compile_pinned(pinned, self.db.definitions[pinned])

    def result_fails(self, job: dict[str, Any], program: Program) -> bool:
        """Whether the job fails in its result: every result that the simulation draws reads a missing value."""
        return program.result is not None

    def check_end(self, jobs: Sequence[NewJob]) -> None:
        assert not self.db.queue, f"11: rows are left in the queue: {list(self.db.queue)[:5]}"
        unanswered = self.db.history.requests - set(self.db.answers)
        assert not unanswered, f"signals of people were never answered: {unanswered}"
        check_cancels(self.db)
        events = sum(event == "report_rejected" for log in self.db.events.values() for _, event, *_ in log)
        assert events >= self.db.history.rejected, "1: a report was rejected, and there is no event about it"
        for job in jobs:
            self._check_job(job.job_id)
            check_task_events(self.db, job.job_id)
            check_holds(self.db, job.job_id)
            check_budgets(self.db, job.job_id)
            check_batches(self.db, job.job_id)
            check_notices(self.db, job.job_id, self._program(job.job_id).definition.notify)

    def check_ended_job(self, job_id: str) -> None:
        """Check what the rows of an ended job show; for databases whose history was not recorded."""
        assert self.db.events[job_id], f"5: {job_id} has no events"
        job, nodes, program = self.db.jobs[job_id], self.db.nodes[job_id], self._program(job_id)
        check_counters(self.db, job_id, nodes)
        check_nodes(self.db, self.remembered, job_id, job, nodes, program)
        check_status(
            self.db, self.remembered, job_id, job, nodes, program, result_fails=self.result_fails(job, program)
        )
        check_events(self.db, self.remembered, job_id, job, nodes)
        check_task_events(self.db, job_id)
        numbers = [seq for seq, *_ in self.db.events[job_id]]
        assert numbers == list(range(1, len(numbers) + 1)), f"5: the events of {job_id} have gaps: {numbers}"

    def lost_work(self, job_id: str) -> bool:
        """Whether a stop, a verb, lost leases or repeated failures make the results a matter of timing."""
        if self.db.jobs[job_id]["stop_cause"] in ("timeout", "cancelled") or repeated_failures(self.db, job_id):
            return True
        if self._program(job_id).definition.timeout_seconds and was_ever_undone(
            self.db, job_id, "on_failure: compensate"
        ):
            return True  # It may have timed out; the undo has forgotten that stop.
        event_data = [data or {} for *_, data in self.db.events[job_id]]
        if is_corrected(self.db, job_id) or is_undone_by(self.db, job_id, "someone"):
            return True
        if any(data.get("reason") == "too_many_failed" or data.get("verb") in ("skip", "set") for data in event_data):
            return True
        if any(node.expanded < node.width for node in self.db.nodes[job_id].values()):
            return True  # Too many items failed before the rows of the others were made.
        codes = {code_of(task) for task in self.db.tasks[job_id].values()}
        was_cut_short = "CANCELLED" in codes and self.ran_to_its_end(job_id)
        return was_cut_short or not codes.isdisjoint(("LEASE_LOST", "REQUEUE_LIMIT", "TIMEOUT", "JOB_TIMEOUT"))

    def ran_to_its_end(self, job_id: str) -> bool:
        """Whether nothing stopped the job. Of a stopped job only the status can be compared."""
        return self.db.jobs[job_id]["stop_cause"] is None and not was_ever_undone(self.db, job_id)
