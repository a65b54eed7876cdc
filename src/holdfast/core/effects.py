"""What the core decides. Imperative; plain data; the orchestrator commits all effects of a cycle together.

Named tuples, because a wide job makes a hundred thousand of them and a tuple costs a third of a frozen dataclass.

Changes of job and node rows are not listed one by one: the state marks what it touched, and the owner
writes those rows once per cycle, however often they changed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.core.signals import Selection
from holdfast.core.states import Status
from holdfast.define.gates import Limit
from holdfast.define.node import TaskSpec

OWN_TASK = -1
"""The item number of a node's own task; items of a fan-out count from 0."""


class CreateTasks(NamedTuple):
    """Make task rows for items first, first + 1, …; params in item order, each as JSON.

    Epochs and attempts count on from where an earlier run of the node has ended.
    """

    node: str
    first: int
    params: list[bytes]
    base_epoch: int = 0
    base_attempt: int = 0


class FailTask(NamedTuple):
    """Make a task row that has already failed: it was refused before dispatch."""

    node: str
    item: int
    error: dict[str, Any]
    base_epoch: int = 0
    base_attempt: int = 0


class EnqueueTasks(NamedTuple):
    """Queue the first attempt of items first … last."""

    node: str
    spec: TaskSpec
    first: int
    last: int
    rank: int
    limits: tuple[Limit, ...] = ()


class RetryTask(NamedTuple):
    """Queue the next attempt of a task as a new epoch, due at `due_at` (None: at once)."""

    node: str
    item: int
    spec: TaskSpec
    epoch: int
    attempt: int
    due_at: float | None
    retries: int
    lost: int
    crashes: int
    suspect: bool
    error: dict[str, Any] | None
    rank: int
    limits: tuple[Limit, ...] = ()


class ResetTasks(NamedTuple):
    """Some tasks of a node back to ready, each as a new epoch with whole budgets; they wait to be queued.

    Ready ones that were never queued, items from `enqueued` on, stay as they are.
    """

    node: str
    selection: Selection
    enqueued: int


class RestartNode(NamedTuple):
    """Take away all tasks of a node: it begins anew. What they came to stays in the history of their attempts."""

    node: str
    own_only: bool = False
    """Only its own task, behind its batches."""


class SkipTasks(NamedTuple):
    """End what has not completed of a node's tasks: a person wants the job to go on without it."""

    node: str


class EnqueueWaiting(NamedTuple):
    """Queue the next of a node's tasks that were reset and wait, in item order."""

    node: str
    spec: TaskSpec
    number: int
    rank: int
    limits: tuple[Limit, ...] = ()


class FinishTask(NamedTuple):
    """A task is terminal; if it completed, its output is that of the report with `signal_id`."""

    node: str
    item: int
    status: Status
    epoch: int
    attempt: int
    signal_id: int | None
    error: dict[str, Any] | None
    worker: str | None
    started_at: float | None
    retries: int
    lost: int
    crashes: int


class RecordAttempt(NamedTuple):
    """Keep an attempt that failed or printed something; a quiet success is told by its task row alone."""

    node: str
    item: int
    attempt: int
    epoch: int
    outcome: str
    worker: str | None
    started_at: float | None
    error: dict[str, Any] | None
    log: str | None
    extra: dict[str, Any] | None


class WithdrawTasks(NamedTuple):
    """End the tasks of the job that wait in the queue, and with `leases_too` the held ones as well.

    `unqueued` names the rows that never were in the queue: (node, first item, last item); `waiting` the nodes of which
    tasks wait that were reset. The owner does it inside the transaction and answers with `TasksWithdrawn`.
    """

    status: Status
    leases_too: bool
    error: dict[str, Any]
    unqueued: tuple[tuple[str, int, int], ...]
    waiting: tuple[str, ...] = ()
    node: str | None = None
    """Only tasks of this node."""


class MarkJob(NamedTuple):
    """Keep an error with a job that is over, and change nothing else of it."""

    error: dict[str, Any]


class ReleaseTasks(NamedTuple):
    """Let what a pause held back go on; so long did it last."""

    paused_seconds: float


class AggregateItems(NamedTuple):
    """Read the results of a fan-out after the commit and answer with `ItemsAggregated`."""

    node: str


class Emit(NamedTuple):
    """Append an event; the state has already given it its number."""

    seq: int
    event: str
    node: str | None
    item: int | None
    attempt: int | None
    data: dict[str, Any] | None


class AnswerSignal(NamedTuple):
    """Store the answer to a person's signal: applied, or refused, why, and what else can be done."""

    signal_id: int
    applied: bool
    reason: str
    remedy: str | None = None


Effect = (
    CreateTasks
    | FailTask
    | EnqueueTasks
    | RetryTask
    | ResetTasks
    | RestartNode
    | SkipTasks
    | EnqueueWaiting
    | FinishTask
    | RecordAttempt
    | WithdrawTasks
    | MarkJob
    | ReleaseTasks
    | AggregateItems
    | Emit
    | AnswerSignal
)
