"""Runs one job in memory: does with the core's effects what an owner and its store do, and checks it at every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from holdfast.core.advance import advance, owed_results, owed_rows
from holdfast.core.effects import (
    OWN_TASK,
    AnswerSignal,
    CreateTasks,
    Effect,
    Emit,
    EnqueueTasks,
    EnqueueWaiting,
    FailTask,
    FinishTask,
    MarkJob,
    RecordAttempt,
    ReleaseTasks,
    ResetTasks,
    RestartNode,
    RetryTask,
    SkipTasks,
    WithdrawTasks,
)
from holdfast.core.failing import failure
from holdfast.core.gathering import Gathering
from holdfast.core.planning import batches_asked, make_plan
from holdfast.core.plans import Plan, Refusal
from holdfast.core.signals import (
    BatchesAsked,
    CancelRequested,
    EndedTask,
    InconsistencyFound,
    ItemsAggregated,
    JobSubmitted,
    Outcome,
    RecoveryRequested,
    Request,
    Selected,
    Selection,
    Signal,
    TaskCounts,
    TaskReported,
    TasksWithdrawn,
    TaskView,
    TimePassed,
    UnqueuedTask,
    Verb,
    WorkContinued,
)
from holdfast.core.states import TERMINAL, JobState, NodeState, Rules, Status
from holdfast.define.definition import Definition
from holdfast.define.load import load_text
from holdfast.define.node import Aggregation
from holdfast.define.program import compile_definition
from holdfast.define.workflow import Workflow

START = 1000.0
Key = tuple[str, int]


@dataclass
class Task:
    params: Any = None
    status: str = "ready"
    epoch: int = 1
    attempt: int = 0
    retries: int = 0
    lost: int = 0
    crashes: int = 0
    output: Any = None
    error: dict[str, Any] | None = None
    waits: bool = False
    finished_at: float = 0.0

    def view(self) -> TaskView:
        return TaskView(self.status, self.epoch, self.attempt, self.retries, self.lost, self.crashes)


@dataclass
class Queued:
    epoch: int
    attempt: int
    due_at: float | None = None
    leased: bool = False
    suspect: bool = False
    rank: int = 0
    paused: bool = False


@dataclass
class Fails:
    """How an attempt fails, as a handler of these tests says it."""

    message: str = "it failed"
    permanent: bool = False
    code: str = "HANDLER_ERROR"
    retry_after_seconds: float | None = None


Handler = Callable[[str, int, int, Any], Any]


class Driver:
    """One job, its task rows, its queue and its events. `now` is set by the test."""

    def __init__(
        self,
        flow: Definition | Workflow | str,
        inputs: dict[str, Any] | None = None,
        rules: Rules | None = None,
        chance: float = 0.5,
    ) -> None:
        definition = load_text(flow) if isinstance(flow, str) else flow
        definition = definition.definition() if isinstance(definition, Workflow) else definition
        self.now = START
        self.chance = chance
        self.state = JobState(
            job_id="job", program=compile_definition(definition), inputs=inputs or {}, created_at=self.now
        )
        if rules is not None:
            self.state.rules = rules
        self.tasks: dict[Key, Task] = {}
        self.queue: dict[Key, Queued] = {}
        self.events: list[Emit] = []
        self.effects: list[Effect] = []
        self.answers: list[AnswerSignal] = []
        self.unread: list[TaskReported] = []
        self.most_queued = 0
        self._outputs: dict[int | None, Any] = {}
        self._stopped = False
        self._final: dict[Key, tuple[str, Any]] = {}
        self._final_nodes: dict[str, tuple[Status, Any]] = {}

    # What happened

    def node(self, name: str) -> NodeState:
        return self.state.nodes[name]

    def status_of(self, name: str) -> str:
        return str(self.state.nodes[name].status)

    def statuses(self) -> dict[str, str]:
        return {name: str(node.status) for name, node in self.state.nodes.items()}

    def told(self) -> list[str]:
        """The events without start and end nodes, in their order."""
        silent = {n for n, p in self.state.program.nodes.items() if p.node.type in ("start", "end")}
        return [e.event for e in self.events if e.node not in silent]

    def events_of(self, name: str) -> list[str]:
        return [e.event for e in self.events if e.node == name]

    def event(self, name: str) -> Emit:
        """The one event of that name."""
        (found,) = (e for e in self.events if e.event == name)
        return found

    # What an owner does

    def send(self, signal: Signal) -> list[Effect]:
        """Hear one signal and do all that follows from it; gives back what the core decided."""
        self.state.made_bytes = 0
        signals: list[Signal] = [signal]
        decided: list[Effect] = []
        while signals:
            self._stopped = self.state.stop is not None
            effects = advance(self.state, signals.pop(0), self.now)
            for effect in effects:
                answer = self._apply(effect)
                if answer is not None:
                    signals.append(answer)
            decided += effects
            if self.state.pause is not None:
                for row in self.queue.values():
                    row.paused = not row.leased
        self.effects += decided
        self.check()
        return decided

    def submit(self) -> list[Effect]:
        return self.send(JobSubmitted())

    def cancel(self, signal_id: int | None = 7, actor: str = "ann", reason: str = "enough") -> list[Effect]:
        return self.send(CancelRequested(signal_id, actor, reason))

    def pass_time(self, seconds: float = 0.0) -> list[Effect]:
        self.now += seconds
        return self.send(TimePassed())

    def doubt(self, duty: str = "stuck_tasks", reason: str = "as the test says") -> list[Effect]:
        """The janitor doubts the job, and its owner looks at what the rows say."""
        unread = {(report.node, report.item): report.epoch for report in self.unread}
        nodes = self.state.nodes
        is_open = {name for name, node in nodes.items() if node.status not in (*TERMINAL, Status.PENDING)}
        counts = {}
        for name in {node for node, _ in self.tasks}:
            found = [task.status for (node, _), task in self.tasks.items() if node == name]
            reached = [item for node, item in (*self.queue, *unread) if node == name]
            completed, failed, skipped, cancelled = (
                found.count(status) for status in ("completed", "failed", "skipped", "cancelled")
            )
            last = max(item for node, item in self.tasks if node == name)
            waiting = sum(task.waits for (node, _), task in self.tasks.items() if node == name)
            counts[name] = TaskCounts(
                len(found), last, completed, failed, skipped, cancelled, max(reached, default=-1), waiting
            )
        unqueued = tuple(
            UnqueuedTask(*key, task.view(), task.error)
            for key, task in self.tasks.items()
            if key[0] in is_open and task.status == "ready" and key[1] < nodes[key[0]].enqueued and not task.waits
            and key not in self.queue and unread.get(key) != task.epoch
        )  # fmt: skip
        ended = {
            name: EndedTask(task.status, task.attempt, task.output, task.error)
            for (name, item), task in self.tasks.items()
            if name in is_open and item == OWN_TASK and task.status != "ready"
        }
        return self.send(InconsistencyFound(duty, reason, counts, unqueued, ended))

    def select(self, request: Request) -> dict[str, Selected]:
        """What the rows say of the tasks that a verb names."""
        found: dict[str, Selected] = {}
        meant = self.state.nodes.get(request.node or "")
        for (node, item), task in self.tasks.items():
            known, queued = found.setdefault(node, Selected({})), self.queue.get((node, item))
            is_named = request.named in (None, node) and _names(request, item, task)
            can_run = _can_be_reset(task, item, meant.enqueued if meant else 0)
            known.chosen[task.status] = known.chosen.get(task.status, 0) + (is_named and can_run)
            meant_too = is_named and can_run
            found[node] = Selected(
                known.chosen,
                known.refused + (is_named and not can_run and task.status != "ready"),
                max(known.last_epoch, task.epoch),
                max(known.last_attempt, task.attempt + bool(queued and queued.leased)),
                completed_since=_earlier(known.completed_since, task) if meant_too else known.completed_since,
                node_completed_since=_earlier(known.node_completed_since, task),
            )
        for asked in batches_asked(self.state, request):
            found[asked.node] = self._select_batches(asked, found[asked.node])
        return found

    def _select_batches(self, asked: BatchesAsked, known: Selected) -> Selected:
        touched = {
            item // asked.page_size
            for (node, item), task in self.tasks.items()
            if asked.of_fan_out is not None and node == asked.fan_out and _is_selected(asked.of_fan_out, item, task)
            and _can_be_reset(task, item, asked.fan_out_enqueued)
        }  # fmt: skip
        touched &= {item for node, item in self.tasks if node == asked.node}
        selection = asked.selection._replace(also=tuple(sorted(touched)))
        meant: Counter[str] = Counter()
        since = None
        for (node, item), task in self.tasks.items():
            if node != asked.node:
                continue
            is_meant = _is_selected(selection, item, task) and _can_be_reset(task, item, asked.enqueued)
            meant[task.status] += is_meant
            since = _earlier(since, task) if is_meant or item < 0 else since
        return known._replace(chosen=+meant, touched=selection.also, completed_since=since)

    def plan(self, verb: str, node: str | None = None, **more: Any) -> Plan | Refusal:
        request = Request(Verb(verb), node, **more)
        return make_plan(self.state, request, self.select(request), self.now)

    def recover(self, verb: str, node: str | None = None, **more: Any) -> AnswerSignal:
        """A person wants a part of the job to run again; gives back what the owner answers."""
        request = Request(Verb(verb), node, **more)
        self.send(RecoveryRequested(9, "ann", "mended", request, self.select(request)))
        return self.answers[-1]

    def claim(self, node: str, item: int = OWN_TASK) -> None:
        row = self.queue[(node, item)]
        assert not row.leased
        row.leased = True

    def claim_all(self) -> None:
        for row in self.queue.values():
            row.leased = True

    def hand_in(
        self,
        node: str,
        item: int = OWN_TASK,
        outcome: Outcome = Outcome.DONE,
        output: Any = None,
        fails: Fails | None = None,
        **more: Any,
    ) -> TaskReported:
        """The lease ends and its report waits to be read: what a worker or the sweep does."""
        row = self.queue.pop((node, item))
        error = None
        if fails is not None:
            error = failure(
                fails.code, fails.message, permanent=fails.permanent, at=self.now, node=node, item=item,
                attempt=row.attempt,
            )  # fmt: skip
            more.setdefault("retry_after_seconds", fails.retry_after_seconds)
            outcome = Outcome.FAILED
        more.setdefault("chance", self.chance)
        more["signal_id"] = 100 + len(self._outputs)
        self._outputs[more["signal_id"]] = output
        # The output of an item stays in its report; the core only sees that of a node's own task.
        seen = output if item == OWN_TASK else None
        return TaskReported(
            node, item, row.epoch, row.attempt, outcome, None, seen, error, worker="w", started_at=self.now, **more
        )

    def read(self, report: TaskReported) -> list[Effect]:
        task = self.tasks.get((report.node, report.item))
        return self.send(report._replace(task=task.view() if task else None))

    def done(self, node: str, item: int = OWN_TASK, output: Any = None) -> list[Effect]:
        return self.read(self.hand_in(node, item, output=output))

    def fail(self, node: str, item: int = OWN_TASK, **fails: Any) -> list[Effect]:
        return self.read(self.hand_in(node, item, fails=Fails(**fails)))

    def lose(self, node: str, item: int = OWN_TASK, *, alone: bool = False, message: str = "") -> list[Effect]:
        report = self.hand_in(node, item, Outcome.LOST, alone=alone)
        if message:
            report = report._replace(error=failure("WORKER_LOST", message, permanent=False, at=self.now))
        return self.read(report)

    def give_back(self, node: str, item: int = OWN_TASK) -> list[Effect]:
        return self.read(self.hand_in(node, item, Outcome.GIVEN_BACK))

    def gather(self) -> None:
        for name in owed_results(self.state):
            is_batched = self.state.nodes[name].batch_size is not None
            source = name if is_batched else self.state.program.graph.fan_out_of[name]
            rows = sorted((i, t) for (n, i), t in self.tasks.items() if n == source and i >= 0)
            outputs = [t.output for _, t in rows if t.status == "completed"]
            fan_out = self.state.program.graph.fan_out_of[name]
            items = sorted((i, t.status) for (n, i), t in self.tasks.items() if n == fan_out)
            left_out = {how: [i for i, status in items if status == how] for how in ("failed", "skipped")}
            try:
                output = aggregate(self.state.program.nodes[name].node.aggregation, outputs, left_out)
                self.send(ItemsAggregated(name, output))
            except ValueError as problem:
                error = failure("CONTRACT_VIOLATION", str(problem), permanent=True, at=self.now, node=name)
                self.send(ItemsAggregated(name, error=error))

    def continue_work(self) -> list[Effect]:
        return self.send(WorkContinued())

    def run(self, handler: Handler | None = None, *, limit: int = 100_000) -> Driver:
        """To the end, one attempt after the other; `handler` answers with an output or with Fails."""
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
                self._run_one(handler)
        raise AssertionError(f"still {self.state.status} after {limit} steps")

    def _run_one(self, handler: Handler | None) -> None:
        assert self.queue, f"7: the job is {self.state.status} and nothing is queued"
        key = min(self.queue, key=lambda k: (self.queue[k].due_at or 0.0, k))
        row = self.queue[key]
        self.now = max(self.now, row.due_at or 0.0)
        answer = handler(*key, row.attempt, self.tasks[key].params) if handler else None
        if isinstance(answer, Fails):
            self.read(self.hand_in(*key, fails=answer))
        elif isinstance(answer, Outcome):
            self.read(self.hand_in(*key, answer))
        else:
            self.read(self.hand_in(*key, output=answer))

    # What a store does

    def _apply(self, effect: Effect) -> Signal | None:
        match effect:
            case CreateTasks(_, node, first, rendered, epoch, attempt):
                params = [orjson.loads(one) for one in rendered]
                for number, value in enumerate(params):
                    self._create((node, first + number), Task(value, epoch=epoch, attempt=attempt))
            case FailTask(_, node, item, error, epoch, attempt):
                self._create((node, item), Task(status="failed", error=error, epoch=epoch, attempt=attempt))
            case EnqueueTasks(_, node, first, last, _, _, rank):
                assert not self._stopped, f"11: {node} was queued after the stop"
                for item in range(first, last + 1):
                    task = self.tasks[(node, item)]
                    if task.status == "ready":
                        row = Queued(task.epoch, task.attempt + 1, rank=rank + item - first)
                        self._enqueue((node, item), row)
            case ResetTasks(_, node, selection, enqueued):
                self._reset(node, selection, enqueued)
            case RestartNode(_, name, own_only):
                for key in [key for key in self.tasks if key[0] == name and (key[1] < 0 or not own_only)]:
                    del self.tasks[key]
                    self.queue.pop(key, None)
                    self._final.pop(key, None)
            case SkipTasks(_, name):
                for key, task in self.tasks.items():
                    if key[0] == name and task.status != "completed":
                        self.queue.pop(key, None)
                        self._final.pop(key, None)
                        task.status, task.waits = "skipped", False
            case EnqueueWaiting(_, node, count, _, _, rank):
                waiting = sorted(key for key, task in self.tasks.items() if key[0] == node and task.waits)[:count]
                assert len(waiting) == count, f"8: {node} counts on {count} tasks that wait, and has {len(waiting)}"
                for place, key in enumerate(waiting):
                    task = self.tasks[key]
                    task.waits = False
                    self._enqueue(key, Queued(task.epoch, task.attempt + 1, rank=rank + place))
            case RetryTask():
                task = self.tasks[(effect.node, effect.item)]
                assert task.status == "ready", "4: a terminal task cannot run again"
                assert effect.epoch > task.epoch, "2: an epoch only grows"
                task.epoch, task.attempt, task.error = effect.epoch, effect.attempt, effect.error
                task.retries, task.lost, task.crashes = effect.retries, effect.lost, effect.crashes
                row = Queued(effect.epoch, effect.attempt + 1, effect.due_at, suspect=effect.suspect, rank=effect.rank)
                self._enqueue((effect.node, effect.item), row)
            case FinishTask():
                task = self.tasks[(effect.node, effect.item)]
                assert task.status == "ready" and task.epoch == effect.epoch, "1: only the current epoch ends a task"
                task.status, task.attempt = str(effect.status), effect.attempt
                task.output = self._outputs[effect.signal_id] if effect.status is Status.COMPLETED else None
                task.error, task.retries = effect.error, effect.retries
                task.lost, task.crashes = effect.lost, effect.crashes
                task.finished_at = self.now
            case WithdrawTasks():
                self._stopped = self._stopped or effect.node is None
                return self._withdraw(effect)
            case Emit():
                wanted = self.events[-1].seq + 1 if self.events else 2
                assert effect.seq == wanted, f"5: event {effect.seq} follows {wanted - 1}"
                self.events.append(effect)
                if effect.event == "job_recovered":
                    self._stopped = False
                    for name in (effect.data or {})["rerun"]:
                        self._final_nodes.pop(name, None)
            case AnswerSignal():
                self.answers.append(effect)
            case ReleaseTasks():
                for row in self.queue.values():
                    row.paused = False
            case RecordAttempt() | MarkJob():
                pass
        return None

    def _reset(self, node: str, selection: Selection, enqueued: int) -> None:
        for key, task in self.tasks.items():
            if key[0] != node or not _is_selected(selection, key[1], task):
                continue
            if _can_be_reset(task, key[1], enqueued):
                row = self.queue.pop(key, None)
                task.status, task.waits, task.epoch = "ready", True, task.epoch + 1
                task.attempt += bool(row and row.leased)
                task.retries = task.lost = task.crashes = 0
                task.output = task.error = None
                self._final.pop(key, None)

    def _create(self, key: Key, task: Task) -> None:
        assert key not in self.tasks, f"8: {key} was made twice"
        self.tasks[key] = task

    def _enqueue(self, key: Key, row: Queued) -> None:
        assert key not in self.queue, f"2: {key} was queued twice"
        assert not self._stopped, f"11: {key} was queued after the stop"
        self.queue[key] = row
        self.most_queued = max(self.most_queued, len(self.queue))

    def _withdraw(self, wanted: WithdrawTasks) -> TasksWithdrawn:
        keys = [k for k, row in self.queue.items() if not row.leased or wanted.leases_too]
        keys = [key for key in keys if wanted.node in (None, key[0])]
        for node, first, last in wanted.unqueued:
            keys += [(node, item) for item in range(first, last + 1) if self.tasks[(node, item)].status == "ready"]
        keys += [key for key, task in self.tasks.items() if key[0] in wanted.waiting and task.waits]
        items: dict[str, list[int]] = {}
        for key in keys:
            self.queue.pop(key, None)
            self.tasks[key].waits = False
            self.tasks[key].status, self.tasks[key].error = str(wanted.status), wanted.error
            items.setdefault(key[0], []).append(key[1])
        return TasksWithdrawn(items, wanted.leases_too)

    # What must hold

    def check(self) -> None:
        """Counters equal counts, what is terminal stays so, and an open job has something under way."""
        counted: dict[str, Counter[str]] = {name: Counter() for name in self.state.nodes}
        for (name, item), task in self.tasks.items():
            counted[name][task.status] += 1
            if task.status in TERMINAL:
                found = self._final.setdefault((name, item), (task.status, task.output))
                assert found == (task.status, task.output), f"4: {name}/{item} changed after its end"
        for name, node in self.state.nodes.items():
            tasks = counted[name]
            assert (node.completed, node.failed, node.skipped, node.cancelled, node.expanded) == (
                tasks["completed"], tasks["failed"], tasks["skipped"], tasks["cancelled"], tasks.total()
            ), f"8: the counters of {name}"  # fmt: skip
            if node.status in TERMINAL:
                found_node = self._final_nodes.setdefault(name, (node.status, node.output))
                assert found_node == (node.status, node.output), f"4: node {name} changed after its end"
        self._check_ends()

    def _check_ends(self) -> None:
        ends: Counter[str | None] = Counter()
        told = 0
        for e in self.events:
            if e.event == "job_recovered":
                told = 0
                for name in (e.data or {})["rerun"]:
                    ends[name] = 0
            ends[e.node] += e.event in {f"node_{s}" for s in TERMINAL}
            told += e.event in ("job_completed", "job_partial", "job_failed", "job_cancelled")
        for name, node in self.state.nodes.items():
            assert ends[name] == (node.status in TERMINAL), f"5: the terminal events of {name}"
            waiting = sum(task.waits for (who, _), task in self.tasks.items() if who == name)
            assert node.waiting == waiting, f"8: {name} counts {node.waiting} tasks that wait, and has {waiting}"
        assert told == self.state.is_terminal, "5: the terminal event of the job"
        if self.state.is_terminal:
            assert not self.queue, f"11: the job ended and {list(self.queue)} are queued"
            assert all(n.status in TERMINAL for n in self.state.nodes.values()), "13: all nodes have ended"


def _names(wanted: Request | Selection, item: int, task: Task) -> bool:
    error = task.error or {}
    return (
        (not wanted.items or item in wanted.items)
        and wanted.code in (None, error.get("code"))
        and wanted.fingerprint in (None, error.get("fingerprint"))
    )


def _earlier(since: float | None, task: Task) -> float | None:
    if task.status != "completed":
        return since
    return task.finished_at if since is None else min(since, task.finished_at)


def _is_selected(selection: Selection, item: int, task: Task) -> bool:
    if item < 0 and selection.items_only:
        return False
    return item in selection.also or (task.status in selection.statuses and _names(selection, item, task))


def _can_be_reset(task: Task, item: int, enqueued: int) -> bool:
    return task.params is not None and not task.waits and (task.status != "ready" or item < enqueued)


def aggregate(
    mode: Aggregation, outputs: Iterable[Any], left_out: Mapping[str, list[int]], limit_bytes: int = 1 << 30
) -> Any:
    """Outputs that are all at hand, gathered one by one."""
    gathering = Gathering(mode, limit_bytes)
    for output in outputs:
        gathering.add(output, len(orjson.dumps(output)))
    return gathering.answer(left_out)
