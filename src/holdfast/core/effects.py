"""What the core decides. Imperative; plain data; the orchestrator commits all effects of a cycle together.

An effect is what the store writes: nothing copies it into another shape on its way. Effects are named tuples, because a
wide job makes a hundred thousand of them and a tuple costs a third of a frozen dataclass.

Changes of job and node rows are not listed one by one: the state marks what it touched, and the owner
writes those rows once per cycle, however often they changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.core.failing import Failure
from holdfast.core.signals import Selection
from holdfast.core.states import Status
from holdfast.define.gates import Limit
from holdfast.remedies import Remedy

OWN_TASK = -1
"""The item number of a node's own task; items of a fan-out count from 0."""


class Lane(NamedTuple):
    """The tasks that share a queue, a handler, a tenant, a breaker and limits."""

    queue: str
    handler: str
    tenant: str = "default"
    breaker: str = ""
    limits: tuple[Limit, ...] = ()

    @property
    def limit_key(self) -> str:
        return "\n".join(sorted(limit.name for limit in self.limits))

    @property
    def is_gated(self) -> bool:
        return bool(self.breaker or self.limits)


class CreateTasks(NamedTuple):
    """Make task rows for items first, first + 1, …; params in item order, each as JSON.

    Epochs and attempts count on from where an earlier run of the node has ended.
    """

    job_id: str
    node: str
    first: int
    params: list[bytes]
    epoch: int = 1
    attempt: int = 0
    has_contract: bool = False
    """Whether the output of the tasks must match a schema."""
    keys: list[str] | None = None
    """What the items are known by, in item order."""


class FailTask(NamedTuple):
    """Make a task row that has already failed: it was refused before dispatch."""

    job_id: str
    node: str
    item: int
    error: Failure
    epoch: int = 1
    attempt: int = 0
    item_key: str | None = None


class CorrectTasks(NamedTuple):
    """Tasks of a fan-out back to ready with other params, each as a new epoch with whole budgets; they wait to be
    queued."""

    job_id: str
    node: str
    items: list[int]
    params: list[bytes]
    has_contract: bool = False


class GiveParams(NamedTuple):
    """What a person gives a task instead of the params that it has."""

    job_id: str
    node: str
    item: int
    params: dict[str, Any]
    has_contract: bool = False


class RefuseTask(NamedTuple):
    """A task of a corrected fan-out has failed: its new params were refused."""

    job_id: str
    node: str
    item: int
    error: Failure


class DropTasks(NamedTuple):
    """Tasks of a corrected fan-out without an item: skipped, and not missed. They keep what they have come to."""

    job_id: str
    node: str
    items: list[int]


class ReviveTasks(NamedTuple):
    """The items of these tasks are there again: they are what they were before."""

    job_id: str
    node: str
    items: list[int]


class PinJob(NamedTuple):
    """The definition and the inputs of a job from this generation on."""

    job_id: str
    generation: int
    definition_hash: str
    version: str
    inputs: dict[str, Any]


class EnqueueTasks(NamedTuple):
    """Queue the first attempt of items first … last."""

    job_id: str
    node: str
    first: int
    last: int
    lane: Lane
    priority: int
    rank: int
    timeout_seconds: float
    queue_timeout_seconds: float | None


class RetryTask(NamedTuple):
    """Queue the next attempt of a task as a new epoch, due at `due_at` (None: at once)."""

    job_id: str
    node: str
    item: int
    epoch: int
    attempt: int
    error: Failure | None
    retries: int
    lost: int
    crashes: int
    lane: Lane
    due_at: float | None
    priority: int
    rank: int
    suspect: bool
    timeout_seconds: float
    queue_timeout_seconds: float | None
    requeued: bool = False
    """Whether it had vanished from the queue, which is counted."""


class ResetTasks(NamedTuple):
    """Some tasks of a node back to ready, each as a new epoch with whole budgets; they wait to be queued.

    Ready ones that were never queued, items from `enqueued` on, stay as they are.
    """

    job_id: str
    node: str
    selection: Selection
    enqueued: int
    has_contract: bool = False


class RestartNode(NamedTuple):
    """Delete all tasks of a node, so that it begins again. Their attempts stay in the history."""

    job_id: str
    node: str
    own_only: bool = False
    """Only its own task, behind its batches."""


class SkipTasks(NamedTuple):
    """End what has not completed of a node's tasks: a person wants the job to go on without it."""

    job_id: str
    node: str


class UndoTasks(NamedTuple):
    """The completed tasks of a node back to ready, each as a new epoch with whole budgets, with what they have given:
    their effects are taken back. They wait to be queued."""

    job_id: str
    node: str
    own_only: bool
    """Only its own task; else only its items or batches."""


class FinishUndo(NamedTuple):
    """The undo of a task has ended: it is cancelled, or completed as before with the error of its undo."""

    job_id: str
    node: str
    item: int
    epoch: int
    attempt: int
    error: Failure
    """Why it counts no more, or why it could not be undone."""
    is_undone: bool
    worker: str | None
    started_at: float | None


class AcceptUndo(NamedTuple):
    """The tasks of a node that could not be undone count as undone: a person says so."""

    job_id: str
    node: str
    error: Failure


class EnqueueWaiting(NamedTuple):
    """Queue the next `number` of a node's tasks that were reset and wait, in item order."""

    job_id: str
    node: str
    number: int
    lane: Lane
    priority: int
    rank: int
    timeout_seconds: float
    queue_timeout_seconds: float | None


class FinishTask(NamedTuple):
    """A task is terminal; if it completed, its output is that of the report with `signal_id`."""

    job_id: str
    node: str
    item: int
    status: Status
    epoch: int
    attempt: int
    signal_id: int | None
    error: Failure | None
    worker: str | None
    started_at: float | None
    retries: int
    lost: int
    crashes: int


class RecordAttempt(NamedTuple):
    """Keep an attempt that failed or printed something; for a quiet success its task row is enough."""

    job_id: str
    node: str
    item: int
    attempt: int
    epoch: int
    outcome: str
    worker: str | None
    started_at: float | None
    error: Failure | None
    log: str | None
    extra: dict[str, Any] | None
    log_times: list[list[int]] | None = None
    """When the lines of the log were printed, as in `worker/output.py`."""


class WithdrawTasks(NamedTuple):
    """End the tasks of the job that wait in the queue, and with `leases_too` the leased ones as well.

    `unqueued` names the rows that never were in the queue: (node, first item, last item); `waiting` the nodes of which
    tasks wait that were reset. The owner does it inside the transaction and answers with `TasksWithdrawn`.
    """

    job_id: str
    status: Status
    leases_too: bool
    error: Failure
    unqueued: tuple[tuple[str, int, int], ...]
    waiting: tuple[str, ...] = ()
    node: str | None = None
    """Only tasks of this node."""


class MarkJob(NamedTuple):
    """Keep an error with a job that is over, and change nothing else of it."""

    job_id: str
    error: Failure


class ReleaseTasks(NamedTuple):
    """Let the tasks go on that a pause of this length stopped."""

    job_id: str
    seconds: float


class Emit(NamedTuple):
    """Append an event; the state has already given it its number."""

    job_id: str
    seq: int
    event: str
    node: str | None = None
    item: int | None = None
    attempt: int | None = None
    data: Mapping[str, Any] | None = None


class Notice(NamedTuple):
    """Put an event into the outbox, for its receivers; many items of a node share one notice."""

    tenant: str
    job_id: str
    workflow_id: str
    node: str | None
    event: str
    """The name of a `NotifyEvent`."""
    generation: int
    seq: int
    """The number of its event in the history; the last one, if there are several."""
    event_count: int
    items: list[int]
    """The first of the items that it concerns."""
    data: dict[str, Any]
    rules: list[dict[str, str]]
    """Whom the rules of the job name; the webhooks of the tenant come on top."""


class AnswerSignal(NamedTuple):
    """Store the answer to a person's signal: applied, or refused, why, and what else can be done."""

    signal_id: int
    job_id: str
    applied: bool
    reason: str
    remedy: Remedy | None = None


Effect = (
    CreateTasks
    | FailTask
    | EnqueueTasks
    | RetryTask
    | CorrectTasks
    | GiveParams
    | RefuseTask
    | DropTasks
    | ReviveTasks
    | PinJob
    | ResetTasks
    | RestartNode
    | SkipTasks
    | UndoTasks
    | FinishUndo
    | AcceptUndo
    | EnqueueWaiting
    | FinishTask
    | RecordAttempt
    | WithdrawTasks
    | MarkJob
    | ReleaseTasks
    | Emit
    | Notice
    | AnswerSignal
)
