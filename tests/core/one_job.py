"""One job, signal by signal: the core decides, and the simulation's model of the store applies the effects.

Each signal is a commit of its own. The rows are checked after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from holdfast.core.advance import advance, owed_results, owed_rows
from holdfast.core.effects import (
    OWN_TASK,
    AnswerSignal,
    Effect,
    Emit,
    EnqueueTasks,
    EnqueueWaiting,
    FinishTask,
    RetryTask,
    WithdrawTasks,
)
from holdfast.core.failing import failure
from holdfast.core.gathering import Gathering
from holdfast.core.item_keys import match_items
from holdfast.core.matching import chunk_size, item_keys, tasks_at
from holdfast.core.planning import batches_asked, batches_planned, make_plan
from holdfast.core.plans import Action, Correction, Plan, Refusal, Stale
from holdfast.core.signals import (
    CancelRequested,
    InconsistencyFound,
    ItemsAggregated,
    JobSubmitted,
    MatchedTask,
    Outcome,
    RecoveryRequested,
    Request,
    Selected,
    Signal,
    TaskReported,
    TasksWithdrawn,
    TimePassed,
    Verb,
    WorkContinued,
)
from holdfast.core.states import NodeState, Rules
from holdfast.define.definition import Definition
from holdfast.define.node import Aggregation
from holdfast.define.program import compile_definition
from holdfast.define.workflow import Workflow
from holdfast.orchestrator.commit import add_states
from holdfast.orchestrator.loading import correction
from holdfast.store.batch import Batch
from tests.core.stored_job import JOB_ID, START, Fails, Key, StoredJob
from tests.simulation import selection
from tests.simulation.correcting import plan_correction
from tests.simulation.database import Database
from tests.simulation.examination import examined
from tests.simulation.selection import select
from tests.simulation.writes import apply_batch, apply_withdrawal, withdrawn

__all__ = ["START", "Fails", "OneJob", "aggregate"]

OWNER = 1
Handler = Callable[[str, int, int, Any], Any]
"""Gets the node, the item, the attempt and the params; returns an output, an Outcome or Fails."""


class OneJob(StoredJob):
    """A job, its owner, and the people who send verbs."""

    def __init__(
        self, flow: Definition | Workflow, inputs: dict[str, Any] | None = None, rules: Rules | None = None
    ) -> None:
        super().__init__(flow.definition() if isinstance(flow, Workflow) else flow, inputs or {}, rules or Rules())
        self.effects: list[Effect] = []
        self.events: list[Emit] = []
        self.answers: list[AnswerSignal] = []
        self.written = Batch()
        """The last writes, with the rows of the job and of its nodes."""

    # What its owner remembers

    def node(self, name: str) -> NodeState:
        return self.state.nodes[name]

    def status_of(self, name: str) -> str:
        return str(self.state.nodes[name].status)

    def statuses(self) -> dict[str, str]:
        return {name: str(node.status) for name, node in self.state.nodes.items()}

    def event_names(self) -> list[str]:
        """The events, without those of start and end nodes."""
        borders = {name for name, node in self.state.program.nodes.items() if node.node.type in ("start", "end")}
        return [event.event for event in self.events if event.node not in borders]

    def events_of(self, name: str) -> list[str]:
        return [event.event for event in self.events if event.node == name]

    def event(self, name: str) -> Emit:
        """The one event of that name."""
        (event,) = (event for event in self.events if event.event == name)
        return event

    # What its owner does

    def send(self, signal: Signal) -> list[Effect]:
        """Commit what the core decides on one signal, as a cycle does; returns the effects."""
        before = len(self.effects)
        self.db.history.decided_at = self.now
        batch = Batch(handled=_inbox_ids(self.db, signal))
        while withdrawals := batch.add(self._decide(signal)):
            apply_batch(self.db, OWNER, batch)
            batch.clear()
            signal = _withdraw(self.db, withdrawals)
        add_states(batch, self.state, OWNER)
        apply_batch(self.db, OWNER, batch)
        self.written = batch
        self.check()
        return self.effects[before:]

    def _decide(self, signal: Signal) -> list[Effect]:
        was_stopped = self.state.stop is not None
        effects = advance(self.state, signal, self.now)
        _check_effects(effects, self.tasks, is_stopped=was_stopped)
        self.effects += effects
        self.events += [effect for effect in effects if isinstance(effect, Emit)]
        self.answers += [effect for effect in effects if isinstance(effect, AnswerSignal)]
        return effects

    def submit(self) -> list[Effect]:
        return self.send(JobSubmitted())

    def continue_work(self) -> list[Effect]:
        return self.send(WorkContinued(tasks=self._matched()))

    def _matched(self) -> dict[str, dict[int, MatchedTask]]:
        """The tasks of fan-outs that are matched with their items, as far as the next chunk concerns them."""
        matched = {}
        for node in self.state.nodes.values():
            if node.status == "running" and node.matching is not None and node.is_matching:
                if node.name not in self.state.matches:
                    keys = selection.item_keys(self.db, JOB_ID, node.name)
                    self.state.matches[node.name] = match_items(item_keys(self.state, node), keys)
                wanted = tasks_at(self.state.matches[node.name], node.matching.place, chunk_size(self.state))
                matched[node.name] = selection.matched_tasks(self.db, JOB_ID, node.name, wanted)
        return matched

    def pass_time(self, seconds: float = 0.0) -> list[Effect]:
        self.now += seconds
        return self.send(TimePassed())

    def doubt(self, duty: str = "stuck_tasks", reason: str = "as the test says") -> list[Effect]:
        """The janitor doubts the job: its owner reads and examines the rows."""
        self.state = self.load()
        rows = examined(self.db, JOB_ID, self.db.inbox.values())
        return self.send(InconsistencyFound(duty, reason, rows.counts, tuple(rows.unqueued), rows.ended))

    def gather(self) -> None:
        """Aggregate the results that fan-ins wait for."""
        for name in owed_results(self.state):
            fan_out = self.state.program.graph.fan_out_of[name]
            source = name if self.state.nodes[name].batch_size is not None else fan_out
            rows = sorted((item, node, task) for (node, item), task in self.tasks.items() if item >= 0)
            outputs = [task["output"] for _, node, task in rows if (node, task["status"]) == (source, "completed")]
            left_out = {
                status: [
                    item
                    for item, node, task in rows
                    if (node, task["status"]) == (fan_out, status) and task["gone"] is None
                ]
                for status in ("failed", "skipped")
            }
            try:
                output = aggregate(self.state.program.nodes[name].node.aggregation, outputs, left_out)
                self.send(ItemsAggregated(name, output))
            except ValueError as problem:
                error = failure("CONTRACT_VIOLATION", str(problem), permanent=True, at=self.now, node=name)
                self.send(ItemsAggregated(name, error=error))

    def read(self, report: TaskReported) -> list[Effect]:
        """Give a report to the core, with the task's row as it is now."""
        return self.send(report._replace(task=self.task_view(report.node, report.item)))

    # What people do

    def cancel(self, signal_id: int | None = 7, actor: str = "ann", reason: str = "enough") -> list[Effect]:
        return self.send(CancelRequested(signal_id, actor, reason))

    def plan(self, verb: str, node: str | None = None, **more: Any) -> Plan | Refusal:
        """What the verb would do; a plan that cannot be carried out is a refusal."""
        plan = self.shown_plan(verb, node, **more)
        return plan.refusal or plan if isinstance(plan, Plan) else plan

    def shown_plan(self, verb: str, node: str | None = None, **more: Any) -> Plan | Refusal:
        """What a person sees who asks for the plan."""
        request = Request(Verb(verb), node, **more)
        return make_plan(self.state, request, self._select(request), self.now)

    def recover(self, verb: str, node: str | None = None, **more: Any) -> AnswerSignal:
        """Send a verb that runs a part of the job again; returns the owner's answer."""
        request, plan = Request(Verb(verb), node, **more), self.plan(verb, node, **more)
        if isinstance(plan, Plan):
            self.checkers.remembered.stale |= {
                (JOB_ID, step.node) for step in plan.steps if step.action is Action.STALE
            }
        self.send(RecoveryRequested(9, "ann", "mended", request, self._select(request)))
        return self.answers[-1]

    def plan_correction(
        self,
        verb: str = "resume",
        node: str | None = None,
        *,
        inputs: dict[str, Any] | None = None,
        flow: Workflow | None = None,
        stale: str | None = None,
    ) -> tuple[Plan | Refusal, RecoveryRequested]:
        """What the verb would do with other inputs or another definition, and the signal that asks for it."""
        request = Request(Verb(verb), node)
        program = compile_definition(flow.definition()) if flow is not None else self.state.program
        given = {**self.state.inputs, **(inputs or {})}
        chosen = Stale(stale) if stale is not None else None
        plan, row = plan_correction(self.db, self.state, request, program, given, chosen)
        self.db.definitions[program.hash] = program.definition.canonical_bytes()
        corrected = correction(row, program)
        return plan, RecoveryRequested(9, "ann", "corrected", request, self._select(request, corrected), corrected)

    def correct(self, verb: str = "resume", node: str | None = None, **more: Any) -> AnswerSignal | Refusal:
        """Carry a correction out; returns the owner's answer, or why the plan is refused."""
        plan, asked = self.plan_correction(verb, node, **more)
        refusal = plan if isinstance(plan, Refusal) else plan.refusal
        if refusal is not None:
            return refusal
        self.send(asked)
        return self.answers[-1]

    def _select(self, request: Request, corrected: Correction | None = None) -> dict[str, Selected]:
        node = self.state.nodes.get(request.node or "")
        enqueued = node.enqueued if node is not None else 0
        asked = batches_asked(self.state, request, is_corrected=corrected is not None)
        asked += batches_planned(self.state, corrected.plan) if corrected is not None else []
        return select(self.db, JOB_ID, request, enqueued, asked)

    # Attempts from their claim to the owner's decision

    def done(self, node: str, item: int = OWN_TASK, output: Any = None) -> list[Effect]:
        return self.read(self.hand_in(node, item, output=output))

    def fail(self, node: str, item: int = OWN_TASK, **fails: Any) -> list[Effect]:
        return self.read(self.hand_in(node, item, fails=Fails(**fails)))

    def lose(self, node: str, item: int = OWN_TASK, *, alone: bool = False, message: str = "") -> list[Effect]:
        error = failure("WORKER_LOST", message, permanent=False, at=self.now) if message else None
        return self.read(self.hand_in(node, item, Outcome.LOST, alone=alone)._replace(error=error))

    def give_back(self, node: str, item: int = OWN_TASK) -> list[Effect]:
        return self.read(self.hand_in(node, item, Outcome.GIVEN_BACK))

    def run(self, handler: Handler | None = None, *, limit: int = 100_000) -> OneJob:
        """Run the job to its end, one attempt after the other."""
        if not self.events:
            self.submit()
        for _ in range(limit):
            if owed_rows(self.state):
                self.continue_work()
            elif owed_results(self.state):
                self.gather()
            elif self.state.is_terminal:
                return self
            else:
                self.run_attempt(handler)
        raise AssertionError(f"still {self.state.status} after {limit} steps")

    def run_attempt(self, handler: Handler | None) -> None:
        """Run the attempt that is due first."""
        queue = self.queue
        assert queue, f"7: the job is {self.state.status} and nothing is queued"
        key = min(queue, key=lambda key: (queue[key]["due_at"] or 0.0, key))
        self.now = max(self.now, queue[key]["due_at"] or 0.0)
        answer = handler(*key, queue[key]["attempt"], self.tasks[key]["params"]) if handler else None
        if isinstance(answer, Fails):
            self.read(self.hand_in(*key, fails=answer))
        elif isinstance(answer, Outcome):
            self.read(self.hand_in(*key, answer))
        else:
            self.read(self.hand_in(*key, output=answer))


def _inbox_ids(db: Database, signal: Signal) -> list[int]:
    """The inbox rows of a signal. The verbs of these tests have none."""
    if isinstance(signal, JobSubmitted):
        return [signal_id for signal_id, row in db.inbox.items() if row["kind"] == "submitted"]
    return [signal.signal_id] if isinstance(signal, TaskReported) and signal.signal_id is not None else []


def _withdraw(db: Database, withdrawals: Sequence[WithdrawTasks]) -> TasksWithdrawn:
    items: dict[str, list[int]] = {}
    for withdrawal in withdrawals:
        keys = withdrawn(db, withdrawal)
        apply_withdrawal(db, withdrawal, keys)
        for _, node, item in keys:
            items.setdefault(node, []).append(item)
    return TasksWithdrawn(items, any(withdrawal.leases_too for withdrawal in withdrawals))


def _check_effects(effects: Iterable[Effect], tasks: Mapping[Key, Mapping[str, Any]], *, is_stopped: bool) -> None:
    """Refuse work after a stop, and writes that come too late, which the model ignores as Postgres does."""
    for effect in effects:
        if isinstance(effect, WithdrawTasks) and effect.node is None:
            is_stopped = True
        elif isinstance(effect, Emit) and effect.event == "job_recovered":
            is_stopped = False
        elif isinstance(effect, EnqueueTasks | EnqueueWaiting | RetryTask):
            assert not is_stopped, f"11: {effect.node} was queued after the stop"
        if isinstance(effect, RetryTask | FinishTask):
            task = tasks[(effect.node, effect.item)]
            assert task["status"] == "ready", f"4: {effect} comes after the end of its task"
            if isinstance(effect, RetryTask):
                assert effect.epoch > task["epoch"], f"2: {effect} does not raise epoch {task['epoch']}"
            else:
                assert effect.epoch == task["epoch"], f"1: {effect} ends a task of epoch {task['epoch']}"


def aggregate(
    mode: Aggregation, outputs: Iterable[Any], left_out: Mapping[str, list[int]], limit_bytes: int = 1 << 30
) -> Any:
    """Gather outputs one by one."""
    gathering = Gathering(mode, limit_bytes, "each")
    for item, output in enumerate(outputs):
        gathering.add(output, len(orjson.dumps(output)), item)
    return gathering.answer(left_out)
