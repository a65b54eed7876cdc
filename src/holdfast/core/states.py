"""The statuses, the one table of transitions, and what is kept in memory of a job: nodes and counters, never tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from holdfast.core.failing import Failure
from holdfast.core.match_states import Matches, Matching
from holdfast.core.undo_states import NodeUndo, Undo
from holdfast.define.notify import EVERY_TENANT, NotifyRule, events_of
from holdfast.define.program import Program
from holdfast.errors import Bug


class JobStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Status(StrEnum):
    """The status of a node or a task. `running` of a task is read from its lease, not stored."""

    PENDING = "pending"
    READY = "ready"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


JOB_ENDS = (JobStatus.COMPLETED, JobStatus.PARTIAL, JobStatus.FAILED, JobStatus.CANCELLED)
JOB_TERMINAL = frozenset(JOB_ENDS)
ENDS = (Status.COMPLETED, Status.FAILED, Status.SKIPPED, Status.CANCELLED)
TERMINAL = frozenset(ENDS)


class Trigger(StrEnum):
    """Why a node moves. The words are those of the diagram in the documentation."""

    DEPENDENCIES_HOLD = "dependencies hold"
    DEPENDENCIES_ABSENT = "all dependencies absent"
    UPSTREAM_FAILED = "upstream failed"
    JOB_STOPPED = "job stopped"
    DECIDED = "decided without a worker"
    REFUSED = "refused before dispatch"
    DISPATCHED = "task queued"
    EXPANDED = "items fixed"
    GATHERING = "results gathered"
    ATTEMPT_COMPLETED = "attempt completed"
    ATTEMPT_FAILED = "attempt failed, budget spent"
    RETRY_SCHEDULED = "attempt failed, budget left"
    ITEMS_SETTLED = "all items terminal"
    TOO_MANY_FAILED = "too many items failed"
    OPEN_TASKS_ENDED = "open tasks ended by a stop"
    RESTARTED = "a person runs it again"
    TASK_RESET = "its task reset by a person"
    ITEMS_RESET = "items reset by a person"
    SKIPPED = "skipped by a person"
    SET = "its result given by a person"
    UNDO_OWN = "its own task to be undone"
    UNDO_ITEMS = "its items to be undone"
    UNDONE = "undone"
    BACK_TO_COMPLETED = "not undone, completed as before"
    BACK_TO_FAILED = "undone as far as it had completed"
    BACK_TO_SKIPPED = "not undone, skipped as before"


_OPEN = (Status.READY, Status.DISPATCHED, Status.RUNNING)
_ENDS_OF_UNDO = {
    Trigger.UNDONE: Status.CANCELLED,
    Trigger.BACK_TO_COMPLETED: Status.COMPLETED,
    Trigger.BACK_TO_FAILED: Status.FAILED,
    Trigger.BACK_TO_SKIPPED: Status.SKIPPED,
}
NODE_TRANSITIONS: dict[tuple[Status, Trigger], Status] = {
    (Status.PENDING, Trigger.DEPENDENCIES_HOLD): Status.READY,
    (Status.PENDING, Trigger.DEPENDENCIES_ABSENT): Status.SKIPPED,
    (Status.PENDING, Trigger.UPSTREAM_FAILED): Status.CANCELLED,
    (Status.PENDING, Trigger.JOB_STOPPED): Status.CANCELLED,
    (Status.READY, Trigger.DECIDED): Status.COMPLETED,
    (Status.READY, Trigger.REFUSED): Status.FAILED,
    (Status.READY, Trigger.DISPATCHED): Status.DISPATCHED,
    (Status.READY, Trigger.EXPANDED): Status.RUNNING,
    (Status.READY, Trigger.GATHERING): Status.RUNNING,
    (Status.READY, Trigger.ATTEMPT_COMPLETED): Status.COMPLETED,
    (Status.READY, Trigger.ATTEMPT_FAILED): Status.FAILED,
    (Status.READY, Trigger.RETRY_SCHEDULED): Status.READY,
    (Status.READY, Trigger.JOB_STOPPED): Status.CANCELLED,
    (Status.READY, Trigger.OPEN_TASKS_ENDED): Status.FAILED,
    (Status.DISPATCHED, Trigger.ATTEMPT_COMPLETED): Status.COMPLETED,
    (Status.DISPATCHED, Trigger.ATTEMPT_FAILED): Status.FAILED,
    (Status.DISPATCHED, Trigger.RETRY_SCHEDULED): Status.READY,
    (Status.DISPATCHED, Trigger.JOB_STOPPED): Status.CANCELLED,
    (Status.DISPATCHED, Trigger.OPEN_TASKS_ENDED): Status.FAILED,
    (Status.RUNNING, Trigger.ITEMS_SETTLED): Status.COMPLETED,
    (Status.RUNNING, Trigger.DISPATCHED): Status.DISPATCHED,
    (Status.RUNNING, Trigger.TOO_MANY_FAILED): Status.FAILED,
    (Status.RUNNING, Trigger.DECIDED): Status.COMPLETED,
    (Status.RUNNING, Trigger.REFUSED): Status.FAILED,
    (Status.RUNNING, Trigger.JOB_STOPPED): Status.CANCELLED,
    (Status.RUNNING, Trigger.OPEN_TASKS_ENDED): Status.FAILED,
    **{(status, Trigger.RESTARTED): Status.PENDING for status in Status if status is not Status.PENDING},
    **{(status, Trigger.TASK_RESET): Status.DISPATCHED for status in (Status.READY, Status.DISPATCHED, *ENDS)},
    **{(status, Trigger.SKIPPED): Status.SKIPPED for status in Status if status is not Status.COMPLETED},
    **{(status, Trigger.SET): Status.COMPLETED for status in Status if status is not Status.COMPLETED},
    (Status.COMPLETED, Trigger.UNDO_OWN): Status.DISPATCHED,
    **{(status, Trigger.UNDO_ITEMS): Status.RUNNING for status in (Status.READY, Status.DISPATCHED, *ENDS)},
    **{(status, trigger): end for status in _OPEN for trigger, end in _ENDS_OF_UNDO.items()},
    **{(status, Trigger.UNDONE): Status.CANCELLED for status in (Status.COMPLETED, Status.SKIPPED, Status.CANCELLED)},
    **{(status, Trigger.ITEMS_RESET): Status.RUNNING for status in (*_OPEN, *ENDS)},
}

JOB_TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.PENDING: frozenset({JobStatus.RUNNING, *JOB_TERMINAL}),
    JobStatus.RUNNING: JOB_TERMINAL,
    **{status: frozenset({JobStatus.RUNNING}) for status in JOB_ENDS},
}
"""A finished job runs again only when a person wants a part of it to."""


class StopCause(StrEnum):
    """Why a job takes on nothing new."""

    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"


JOB_STOPPED = "job_stopped"
JOB_CANCELLED = "job_cancelled"
UPSTREAM_FAILED = "upstream_failed"
"""Why a node ended early: by the stop of its job, by a person's cancel of its job, by a failure above it."""
REMOVED = "removed"
"""Why a node that had run has no tasks any more: a correction took it out of the workflow."""


@dataclass(slots=True)
class Stop:
    """A job on its way to its end: what is leased may finish until `until`, then its leases end too."""

    cause: StopCause
    until: float
    leases_ended: bool = False
    signal_id: int | None = None
    """The cancel that has no answer yet: it has ended nothing so far, and may come too late."""


PAUSE = "pause"


class Hold(NamedTuple):
    """What holds a job back, as its last `job_held` event says."""

    by: str
    name: str
    since: float
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers behind the decisions, from the settings; the same for all jobs of an orchestrator."""

    lost_limit: int = 10
    crash_limit: int = 2
    requeue_limit: int = 5
    """How often a task that vanished from the queue is queued again before it fails."""
    grace_seconds: float = 30.0
    drain_seconds: float = 600.0
    chunk_size: int = 2000
    chunk_bytes: int = 16 * 1024 * 1024
    """Once the params of a job have this many bytes together, it makes no more of them in the same cycle."""
    window_size: int = 1000
    repeat_limit: int = 20
    """After this many items have spent their retries on one fingerprint, and none has completed, none is retried."""
    payload_limit_bytes: int = 16 * 1024 * 1024


@dataclass(slots=True)
class NodeState:
    """One node of one job. Counters count its task rows; a fan-out's width is fixed when it is expanded.

    `has_row` says whether the store knows the node: one that never began has no row.
    """

    name: str
    status: Status = Status.PENDING
    reason: str | None = None
    output: Any = None
    error: Failure | None = None
    attempt: int = 0
    width: int = 0
    expanded: int = 0
    enqueued: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    taken: tuple[str, ...] = ()
    retry_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    spent: dict[str, int] = field(default_factory=dict)
    """How many items failed for good, by fingerprint; kept until the first item completes."""
    waiting: int = 0
    """Tasks that were reset and are not queued yet."""
    batch_size: int | None = None
    """How many items of its fan-out a batch has; its width then counts the batches, without the task behind them."""
    base_epoch: int = 0
    base_attempt: int = 0
    """Where the epochs and attempts of an earlier run of the node ended."""
    matching: Matching | None = None
    undo: NodeUndo | None = None
    has_row: bool = False

    @property
    def settled(self) -> int:
        return self.completed + self.failed + self.skipped + self.cancelled

    @property
    def queued(self) -> int:
        """Tasks that are in the queue, or whose report is unread."""
        return self.enqueued - self.settled - self.waiting

    @property
    def is_matching(self) -> bool:
        """Whether it is not known yet which of its tasks belong to its items."""
        return self.matching is not None and not self.matching.is_done

    @property
    def is_undoing(self) -> bool:
        """Whether its open tasks take back what they had done."""
        return self.undo is not None and not self.undo.is_over

    @property
    def gone(self) -> int:
        """How many of its tasks have no item any more."""
        return self.matching.gone if self.matching is not None else 0

    @property
    def items(self) -> int:
        """How many items it has: tasks without one do not count."""
        return self.width - self.gone

    @property
    def missed(self) -> int:
        """How many of its tasks were skipped although they have an item."""
        return self.skipped - self.gone

    def uncount(self, status: Status) -> None:
        """One task less that has ended so; one that is open is in no such counter."""
        match status:
            case Status.COMPLETED:
                self.completed -= 1
            case Status.FAILED:
                self.failed -= 1
            case Status.CANCELLED:
                self.cancelled -= 1
            case Status.SKIPPED:
                self.skipped -= 1
            case _:
                pass

    @property
    def has_last_task(self) -> bool:
        """Whether the task behind its batches is there."""
        return self.batch_size is not None and self.expanded > self.width

    @property
    def has_only_completed(self) -> bool:
        """Whether it has tasks, and all of them have completed."""
        return 0 < self.expanded == self.completed

    @property
    def open_tasks(self) -> int:
        """Task rows that exist and are not terminal."""
        return self.expanded - self.settled

    def move(self, trigger: Trigger) -> None:
        """Follow the table; a move that is not in it is our bug."""
        target = NODE_TRANSITIONS.get((self.status, trigger))
        if target is None:
            raise Bug(f"node {self.name} cannot move from {self.status} by '{trigger}'")
        self.status = target


@dataclass(slots=True)
class JobState:
    """What the core needs to know of a job; everything else comes with the signal."""

    job_id: str
    program: Program
    inputs: dict[str, Any]
    created_at: float
    rules: Rules = field(default_factory=Rules)
    tenant: str = "default"
    priority: int = 0
    status: JobStatus = JobStatus.PENDING
    run: int = 1
    generation: int = 1
    epoch: int = 0
    seq: int = 1
    started_at: float | None = None
    finished_at: float | None = None
    deadline_at: float | None = None
    recovered_at: float | None = None
    """When the present generation began; None: it is the first one."""
    stop: Stop | None = None
    undo: Undo | None = None
    error: Failure | None = None
    result: Any = None
    nodes: dict[str, NodeState] = field(default_factory=dict)
    retired: dict[str, NodeState] = field(default_factory=dict)
    """Nodes that the definition had before a correction: they have no tasks, and only their epochs count."""
    holds: list[Hold] = field(default_factory=list)
    awaits_withdrawal: bool = False
    """Whether tasks are about to be taken out of the queue: nothing may be put into it before that is done."""
    touched: set[str] = field(default_factory=set)
    job_touched: bool = False
    made_bytes: int = 0
    """How large all params are that were made since the last commit."""
    scope: dict[str, Any] = field(default_factory=dict)
    matches: dict[str, Matches] = field(default_factory=dict)
    """By fan-out that is matched now: which task each item has. Can be made again from the rows at any time."""
    notify: tuple[NotifyRule, ...] = ()
    """The receivers that the submission names, beside those of the definition."""
    subscriptions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The events that the webhooks of each tenant subscribe to, and of every tenant those that hooks get. The owner
    keeps it up to date, for all its jobs."""
    own_events: frozenset[str] = frozenset()
    """The events that the rules of the job name."""
    traceparent: str | None = None
    """The place in a trace from which the job was submitted; no decision needs it."""
    latest_at: float = 0.0
    """The latest time that the job's rows tell. The clock of the database may step back, a job's times never do."""

    def __post_init__(self) -> None:
        latest = max(self.created_at, self.started_at or 0.0, self.recovered_at or 0.0)
        for node in self.nodes.values():
            latest = max(latest, node.started_at or 0.0, node.finished_at or 0.0)
        self.latest_at = latest
        self._complete()

    def correct(self, program: Program, inputs: dict[str, Any]) -> list[NodeState]:
        """Follow another definition and other inputs from now on; returns the nodes that the definition lacks."""
        self.program, self.inputs = program, inputs
        before = set(self.nodes)
        self._complete()
        return [node for name, node in self.retired.items() if name in before and node.has_row]

    def _complete(self) -> None:
        """Every node of the definition has a state, and templates see all that has ended."""
        if self.retired or not self.nodes.keys() <= self.program.nodes.keys():
            known = self.retired | self.nodes
            self.nodes = {name: node for name, node in known.items() if name in self.program.nodes}
            self.retired = {name: node for name, node in known.items() if name not in self.program.nodes}
        for name in self.program.graph.order:
            if name not in self.nodes:
                self.nodes[name] = NodeState(name)
        self.own_events = events_of((*(rule for rule, _ in self.program.notify), *self.notify))
        self.scope = {
            "inputs": self.inputs,
            "input": self.inputs,
            "job": {
                "id": self.job_id,
                "workflow_id": self.program.definition.workflow_id,
                "version": self.program.definition.version,
                "run": self.run,
                "generation": self.generation,
            },
            "nodes": {n.name: node_scope(n) for n in self.nodes.values() if n.status in TERMINAL},
        }

    @property
    def is_terminal(self) -> bool:
        return self.status in JOB_TERMINAL

    @property
    def has_audience(self) -> bool:
        """Whether any event of the job has a receiver."""
        return bool(self.own_events or self._subscribed())

    def wants(self, event: str) -> bool:
        """Whether an event has a receiver."""
        return event in self.own_events or any(event in events for events in self._subscribed())

    def _subscribed(self) -> list[frozenset[str]]:
        """What the webhooks of the tenant want, and what the hooks of apps get of every tenant."""
        of = self.subscriptions
        return [of[tenant] for tenant in (self.tenant, EVERY_TENANT) if tenant in of] if of else []

    @property
    def is_undoing(self) -> bool:
        return self.undo is not None and not self.undo.is_over

    @property
    def pause(self) -> Hold | None:
        """Since when a person has held the job back, if one does; whatever is queued of it waits."""
        return next((hold for hold in self.holds if hold.by == PAUSE), None)

    @property
    def has_made_enough(self) -> bool:
        """Whether whatever has params to be made waits for the next cycle: memory holds them until the commit."""
        return self.made_bytes >= self.rules.chunk_bytes

    @property
    def stop_reason(self) -> str:
        """Why whatever the stop ends early does not come to its own end."""
        is_cancelled = self.stop is not None and self.stop.cause is StopCause.CANCELLED
        return JOB_CANCELLED if is_cancelled else JOB_STOPPED

    @property
    def queued_now(self) -> int:
        """How many of the job's tasks are in the queue: what the next one's rank counts."""
        return max(0, sum(n.queued for n in self.nodes.values() if n.status not in TERMINAL))

    def touch(self, node: NodeState) -> None:
        self.touched.add(node.name)

    def move(self, status: JobStatus) -> None:
        if status not in JOB_TRANSITIONS[self.status]:
            raise Bug(f"job {self.job_id} cannot move from {self.status} to {status}")
        self.status = status
        self.job_touched = True

    def next_deadline(self) -> float | None:
        """When the job needs `TimePassed`, if nothing else happens before."""
        if self.is_terminal:
            return None
        moments: list[float] = []
        draining = self.stop is not None and self.stop.cause is StopCause.FAILED and not self.stop.leases_ended
        if (self.stop is None or draining) and self.deadline_at is not None and self.pause is None:
            moments.append(self.deadline_at)
        if self.stop is not None and not self.stop.leases_ended:
            moments.append(self.stop.until)
        return min(moments, default=None)


def node_scope(node: NodeState) -> dict[str, Any]:
    """What templates see of a finished node."""
    return {"output": node.output if node.status is Status.COMPLETED else None, "status": str(node.status)}
