"""All that one cycle of an owner writes, and what a worker of the same process hands over to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from holdfast.core.breaking import Breaker, BreakerState
from holdfast.core.effects import (
    AcceptUndo,
    AnswerSignal,
    CorrectTasks,
    CreateTasks,
    DropTasks,
    Effect,
    Emit,
    EnqueueTasks,
    EnqueueWaiting,
    FailTask,
    FinishTask,
    FinishUndo,
    GiveParams,
    Lane,
    MarkJob,
    Notice,
    PinJob,
    RecordAttempt,
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
from holdfast.core.notifying import merged
from holdfast.store.records import NodeRow, Report, WorkerIdentity


class JobUpdate(NamedTuple):
    """What an owner writes of a job."""

    job_id: str
    owner: int | None
    epoch: int
    status: str
    reason: str | None
    generation: int
    result: Any
    error: Failure | None
    started_at: float | None
    finished_at: float | None
    deadline_at: float | None
    stop_cause: str | None
    stop_until: float | None
    stop_leases_ended: bool
    stop_signal: int | None
    holds: list[dict[str, Any]]
    recovered_at: float | None = None
    undo: dict[str, Any] | None = None


@dataclass(slots=True)
class Batch:
    """All that one cycle writes: the core's effects by kind, and the rows of jobs and nodes that it touched.

    A store applies the lists in this order.
    """

    jobs: list[JobUpdate] = field(default_factory=list)
    new_nodes: list[NodeRow] = field(default_factory=list)
    nodes: list[NodeRow] = field(default_factory=list)
    finished: list[FinishTask] = field(default_factory=list)
    handled: list[int] = field(default_factory=list)
    pins: list[PinJob] = field(default_factory=list)
    given: list[GiveParams] = field(default_factory=list)
    resets: list[ResetTasks] = field(default_factory=list)
    restarts: list[RestartNode] = field(default_factory=list)
    skips: list[SkipTasks] = field(default_factory=list)
    undos: list[UndoTasks] = field(default_factory=list)
    ended_undos: list[FinishUndo] = field(default_factory=list)
    accepted: list[AcceptUndo] = field(default_factory=list)
    corrections: list[CorrectTasks] = field(default_factory=list)
    refusals: list[RefuseTask] = field(default_factory=list)
    drops: list[DropTasks] = field(default_factory=list)
    revivals: list[ReviveTasks] = field(default_factory=list)
    tasks: list[CreateTasks] = field(default_factory=list)
    failed_tasks: list[FailTask] = field(default_factory=list)
    enqueued: list[EnqueueTasks] = field(default_factory=list)
    waiting: list[EnqueueWaiting] = field(default_factory=list)
    retried: list[RetryTask] = field(default_factory=list)
    releases: list[ReleaseTasks] = field(default_factory=list)
    paused: list[str] = field(default_factory=list)
    marks: list[MarkJob] = field(default_factory=list)
    attempts: list[RecordAttempt] = field(default_factory=list)
    events: list[Emit] = field(default_factory=list)
    answers: list[AnswerSignal] = field(default_factory=list)
    breakers: list[Breaker] = field(default_factory=list)

    notices: dict[tuple[str, str | None, str], Notice] = field(default_factory=dict)
    """By job, node and event. They are written once, with the commit: one row for all that a cycle has to tell."""
    survived: list[str] = field(default_factory=list)
    closes_cycle: bool = False
    """Whether the note of this cycle's jobs goes with its commit, and which job was advanced alone by it."""
    made_work: bool = False
    made_due: float | None = None
    ended_tasks: dict[tuple[str, str], int] = field(default_factory=dict)
    retries: dict[tuple[str, str], int] = field(default_factory=dict)
    """What the cycle did, by outcome and code of the failure: for the counters of the process."""
    traced: list[Emit] | None = None
    """The events that end a single task; None: no trace needs them."""

    def add(self, effects: Iterable[Effect]) -> list[WithdrawTasks]:
        """Put effects into the batch; returns the withdrawals, which wait until the batch is written."""
        withdrawals = []
        for effect in effects:
            if type(effect) is WithdrawTasks:
                withdrawals.append(effect)
            elif type(effect) is Notice:
                key = effect.job_id, effect.node, effect.event
                before = self.notices.get(key)
                self.notices[key] = effect if before is None else merged(before, effect)
            else:
                getattr(self, _FIELD_OF[type(effect)]).append(effect)
        return withdrawals

    @property
    def makes_work(self) -> bool:
        """Whether workers find something new to claim once the cycle is committed."""
        if (
            self.made_work
            or self.enqueued
            or self.waiting
            or self.releases
            or any(row.due_at is None for row in self.retried)
        ):
            return True
        # A breaker that is not shut may let more through than before.
        return any(row.state is not BreakerState.OPEN for row in self.breakers)

    @property
    def lanes(self) -> set[Lane]:
        """Where the cycle puts tasks into the queue."""
        queued: list[EnqueueTasks | EnqueueWaiting | RetryTask] = [*self.enqueued, *self.waiting, *self.retried]
        return {row.lane for row in queued}

    def earliest_due(self) -> float | None:
        """When the first of the cycle's retries may be claimed."""
        due = [row.due_at for row in self.retried if row.due_at is not None]
        return min([*due, *([self.made_due] if self.made_due is not None else [])], default=None)

    def clear(self) -> None:
        """Forget rows that are written but not committed; the workers still have to be woken for them."""
        self.made_work, self.made_due = self.makes_work, self.earliest_due()
        self.tally()
        for rows in fields(self):
            if rows.name != "traced" and isinstance(written := getattr(self, rows.name), list):
                written.clear()

    def tally(self) -> None:
        """Count what the events say about tasks. Call it once for the events that are in the batch at the end."""
        completed = 0
        for event in self.events:
            outcome = _ENDS_OF_TASKS.get(event.event)
            if outcome is None:
                if event.event in _RETRIES:
                    self._count_retry(event.data or {})
            elif event.item is not None or event.attempt is not None:
                # An item, or the own task of a node. Most of all events are these: they are counted at once.
                if outcome == "completed":
                    completed += 1
                else:
                    self._count_end(outcome, event.data or {}, 1)
                if self.traced is not None:
                    self.traced.append(event)
            elif event.event in _ENDS_OF_ITEMS:
                self._count_end(outcome, event.data or {}, int((event.data or {}).get("count", 0)))
        if completed:
            self.ended_tasks["completed", ""] = self.ended_tasks.get(("completed", ""), 0) + completed

    def _count_end(self, outcome: str, data: Mapping[str, Any], number: int) -> None:
        key = outcome, str(data.get("code") or "") if outcome == "failed" else ""
        self.ended_tasks[key] = self.ended_tasks.get(key, 0) + number

    def _count_retry(self, data: Mapping[str, Any]) -> None:
        key = str(data.get("outcome")), str(data.get("code") or "")
        if key[0] in _SPENT:
            self.retries[key] = self.retries.get(key, 0) + 1


_RETRIES = frozenset({"task_retry_scheduled", "node_retry_scheduled"})
_SPENT = frozenset({"failed", "lost"})
"""An attempt that was given back is no retry."""
_OUTCOMES = ("completed", "failed", "skipped", "cancelled")
_ENDS_OF_ITEMS = frozenset(f"task_{outcome}" for outcome in _OUTCOMES)
"""Without an item they are about several, and say how many."""
_ENDS_OF_TASKS = {f"{of}_{outcome}": outcome for of in ("task", "node") for outcome in _OUTCOMES}


def outcome_of(event: Emit) -> str:
    """How the tasks ended that an event ends."""
    return _ENDS_OF_TASKS[event.event]


_FIELD_OF: dict[type, str] = {
    FinishTask: "finished",
    ResetTasks: "resets",
    RestartNode: "restarts",
    SkipTasks: "skips",
    UndoTasks: "undos",
    FinishUndo: "ended_undos",
    AcceptUndo: "accepted",
    PinJob: "pins",
    GiveParams: "given",
    CorrectTasks: "corrections",
    RefuseTask: "refusals",
    DropTasks: "drops",
    ReviveTasks: "revivals",
    CreateTasks: "tasks",
    FailTask: "failed_tasks",
    EnqueueTasks: "enqueued",
    EnqueueWaiting: "waiting",
    RetryTask: "retried",
    ReleaseTasks: "releases",
    MarkJob: "marks",
    RecordAttempt: "attempts",
    Emit: "events",
    AnswerSignal: "answers",
}


class Handover(NamedTuple):
    """A worker's reports for the owner of their jobs in the same process, and what it would like to lease next."""

    worker: WorkerIdentity
    reports: Sequence[Report]
    queues: Sequence[str] | None
    handlers: Sequence[str]
    limit: int
    slots: int | None = None
    """How many could begin at once; None: all. What lies behind a gate is not claimed ahead of its time."""

    def leaves(self, batch: Batch, leases: int) -> bool:
        """Whether the batch makes work that this many leases did not take: with fewer than it could have had, all
        that the worker serves is its own by now."""
        if not batch.makes_work:
            return False
        lanes = batch.lanes
        if batch.made_work or leases >= self.limit or any(row.state is not BreakerState.OPEN for row in batch.breakers):
            return True
        return not all(self._serves(lane) and not lane.is_gated for lane in lanes)

    def _serves(self, lane: Lane) -> bool:
        return lane.handler in self.handlers and (self.queues is None or lane.queue in self.queues)
