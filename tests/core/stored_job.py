"""A job in the simulation's model of the store: its rows, the worker that claims and reports, and what must hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from holdfast.core.effects import OWN_TASK
from holdfast.core.failing import failure
from holdfast.core.signals import Outcome, TaskReported, TaskView
from holdfast.core.states import JobState, Rules
from holdfast.define.definition import Definition
from holdfast.define.program import Program, compile_pinned
from holdfast.operations.submitting import new_job
from holdfast.store.loading import job_state
from holdfast.store.records import NodeRow, Report
from tests.simulation.checkers import Checkers
from tests.simulation.cycle import ModelCycle
from tests.simulation.database import Database
from tests.simulation.leases import lease
from tests.simulation.reports import apply_report, report_row
from tests.simulation.stage import finish
from tests.simulation.store import ModelStore

START = 1000.0
JOB_ID = "job"
Key = tuple[str, int]
"""A node and an item."""


@dataclass
class Fails:
    """How an attempt fails, as the handler of a test says it."""

    message: str = "it failed"
    permanent: bool = False
    code: str = "HANDLER_ERROR"
    retry_after_seconds: float | None = None


class StoredJob:
    """A submitted job, and `state`, its owner's memory of it. The test sets the time, `now`."""

    def __init__(self, definition: Definition, inputs: dict[str, Any], rules: Rules) -> None:
        self.db = Database()
        self.now = START
        self.chance = 0.5
        self.rules = rules
        self.reports: list[TaskReported] = []
        self.most_queued = 0
        self.checkers = _Checkers(self.db, self.rules.crash_limit)
        store = ModelStore(self.db)
        finish(store.submit([new_job(definition, inputs)._replace(job_id=JOB_ID)]))
        self._worker = finish(store.register_worker("w", None, (), 1, float("inf")))
        self.state = self.load()

    def load(self) -> JobState:
        """The state of the job, read from its rows."""
        job, nodes = ModelCycle(self.db, 0).committed_rows(JOB_ID)
        program = compile_pinned(job.definition_hash, self.db.definitions[job.definition_hash])
        return job_state(job, nodes, program, self.rules)

    # Its rows

    @property
    def now(self) -> float:
        return self.db.now

    @now.setter
    def now(self, moment: float) -> None:
        self.db.now = moment

    @property
    def row(self) -> dict[str, Any]:
        return self.db.jobs[JOB_ID]

    @property
    def node_rows(self) -> dict[str, NodeRow]:
        return self.db.nodes[JOB_ID]

    @property
    def tasks(self) -> dict[Key, dict[str, Any]]:
        return self.db.tasks[JOB_ID]

    @property
    def queue(self) -> dict[Key, dict[str, Any]]:
        """The rows of the queue. `remove_from_queue` takes one away."""
        return {key[1:]: row for key, row in self.db.queue.items()}

    @property
    def unread(self) -> list[TaskReported]:
        """The reports that wait in the inbox."""
        return [report for report in self.reports if report.signal_id in self.db.inbox]

    def is_leased(self, node: str, item: int = OWN_TASK) -> bool:
        return bool(self.queue[(node, item)]["state"] == "leased")

    def task_view(self, node: str, item: int = OWN_TASK) -> TaskView | None:
        """What the core sees of a task's row."""
        task = self.tasks.get((node, item))
        return TaskView(**{name: task[name] for name in TaskView._fields}) if task is not None else None

    def remove_from_queue(self, node: str, item: int = OWN_TASK) -> dict[str, Any]:
        """Lose a queue row, as only a fault can; returns the row."""
        row = self.db.unqueue((JOB_ID, node, item), "vanished")
        assert row is not None
        return row

    # Its worker

    def claim(self, node: str, item: int = OWN_TASK) -> None:
        """Lease a task. A retry is leased at once, whenever it is due: most tests do not wait."""
        assert not self.is_leased(node, item)
        self.queue[(node, item)]["due_at"] = None
        lease(self.db, self._worker, (JOB_ID, node, item))
        self.check()

    def claim_all(self) -> None:
        for key in self.queue:
            self.claim(*key)

    def report(
        self,
        node: str,
        item: int = OWN_TASK,
        outcome: Outcome = Outcome.DONE,
        output: Any = None,
        fails: Fails | None = None,
        **more: Any,
    ) -> TaskReported:
        """Build the report of the queued attempt. It is not in the store yet, and the lease stays."""
        row, error = self.queue[(node, item)], None
        if fails is not None:
            outcome = Outcome.FAILED
            more.setdefault("retry_after_seconds", fails.retry_after_seconds)
            error = failure(
                fails.code, fails.message, permanent=fails.permanent, at=self.now, node=node, item=item,
                attempt=row["attempt"],
            )  # fmt: skip
        # The output of an item stays in its report; the core only sees that of a node's own task.
        output = output if item == OWN_TASK else None
        return TaskReported(
            node, item, row["epoch"], row["attempt"], outcome, None, output, error, worker=self._worker.name,
            started_at=self.now, signal_id=self.db.new_id(), **{"chance": self.chance, **more},
        )  # fmt: skip

    def hand_in(
        self, node: str, item: int = OWN_TASK, outcome: Outcome = Outcome.DONE, output: Any = None, **more: Any
    ) -> TaskReported:
        """End the lease with a report that waits in the inbox. A task without a lease is claimed first."""
        if not self.is_leased(node, item):
            self.claim(node, item)
        report = self.report(node, item, outcome, output, **more)
        assert report.signal_id is not None
        sent = Report(JOB_ID, *report[:4], report.outcome, self.now, orjson.dumps(output), alone=report.alone)
        apply_report(self.db, self._worker, sent, report_row(self.db, self._worker, sent), report.signal_id)
        self.reports.append(report)
        return report

    # What must hold

    def check(self) -> None:
        """Run the simulation's checkers, then check what they leave out: waiting tasks, and the owner's memory."""
        self.most_queued = max(self.most_queued, len(self.db.queue))
        self.db.dirty.add(JOB_ID)
        self.checkers.check_step()
        for name, row in self.node_rows.items():
            waiting = sum(task["waits"] for (node, _), task in self.tasks.items() if node == name)
            assert row.waiting == waiting, f"8: {name} counts {row.waiting} tasks that wait, and has {waiting}"
        assert self.state.nodes == self.load().nodes, "the owner's memory differs from the rows that it wrote"


class _Checkers(Checkers):
    def result_fails(self, job: dict[str, Any], program: Program) -> bool:
        """Whether the job has an error that names no node: its result failed, or the job was stopped."""
        return job["error"] is not None and job["error"].node is None
