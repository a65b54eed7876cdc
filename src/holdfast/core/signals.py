"""What comes into the core, through a job's inbox or from its owner. Past tense; plain data."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.core.breaking import BreakerState
from holdfast.core.failing import Failure

if TYPE_CHECKING:
    from holdfast.core.plans import Correction

REQUEST_ID = "request_id"
"""The key under which a signal names the HTTP request that sent it, as do the events that it causes."""


class Outcome(StrEnum):
    """How an attempt ended, as the report says."""

    DONE = "done"
    FAILED = "failed"
    LOST = "lost"
    GIVEN_BACK = "given_back"


class TaskView(NamedTuple):
    """A task's row at the moment its report is read: the fence and the budgets."""

    status: str
    epoch: int
    attempt: int
    retries: int = 0
    lost: int = 0
    crashes: int = 0
    requeues: int = 0
    """How often it was queued again because it had vanished from the queue; known when the owner rechecks the job."""


class JobSubmitted(NamedTuple):
    """An owner took the job for the first time."""


class OwnerChanged(NamedTuple):
    """Another orchestrator took the job over."""

    owner: str
    previous: str | None = None


class TaskReported(NamedTuple):
    """An attempt ended. `chance` in [0, 1) is the randomness that jitter needs."""

    node: str
    item: int
    epoch: int
    attempt: int
    outcome: Outcome
    task: TaskView | None
    output: Any = None
    error: Failure | None = None
    worker: str | None = None
    started_at: float | None = None
    chance: float = 0.5
    retry_after_seconds: float | None = None
    alone: bool = False
    signal_id: int | None = None
    log: str | None = None
    log_times: list[list[int]] | None = None
    extra: dict[str, Any] | None = None
    calls: dict[str, list[bool]] | None = None
    """What the attempt found out about dependencies, by breaker: whether each call failed."""
    down: str | None = None
    """The breaker that the handler itself found open."""
    held_by: str | None = None
    """The open breaker behind which the task waits; it did not fail by itself."""
    held_until: float | None = None


class ReportRejected(NamedTuple):
    """A report came from a lease that was no longer held; it changed nothing."""

    node: str
    item: int
    epoch: int
    worker: str


class BreakerChanged(NamedTuple):
    """A report of this job opened a breaker, or closed it."""

    name: str
    state: BreakerState
    reason: str
    until: float | None = None


class BreakerSeen(NamedTuple):
    """The owner saw that a breaker holds tasks of this job, or no longer does."""

    name: str
    is_shut: bool
    until: float | None = None


class CancelRequested(NamedTuple):
    """A person wants the job to end."""

    signal_id: int | None = None
    actor: str = ""
    reason: str = ""
    plan_id: str | None = None
    request_id: str | None = None
    """The HTTP request that sent it; the event of what it causes names it."""


class PauseRequested(NamedTuple):
    """A person wants nothing new of the job to begin, or wants it to go on."""

    signal_id: int | None
    actor: str
    reason: str
    is_paused: bool
    plan_id: str | None = None
    request_id: str | None = None


class TimePassed(NamedTuple):
    """One of the job's own deadlines may have come."""


class MatchedTask(NamedTuple):
    """A task of a corrected fan-out as its row says. Params that were refused are none."""

    status: str
    params: bytes | None
    gone: str | None = None
    """How it had ended when its item went away; None: it has its item."""
    is_given: bool = False
    """Whether a person gave its params: they stay, whatever the workflow says."""


class WorkContinued(NamedTuple):
    """The owner has time for the next chunk of what a fan-out still owes; `limit`: a smaller one than usual.

    `tasks`: by fan-out that is matched, the tasks that this chunk concerns.
    """

    limit: int | None = None
    tasks: Mapping[str, Mapping[int, MatchedTask]] = {}


class TasksWithdrawn(NamedTuple):
    """The answer to `WithdrawTasks`: these tasks left the queue (or never were in it) and are terminal now."""

    items: dict[str, list[int]]
    leases_too: bool = False


class ItemsAggregated(NamedTuple):
    """The results of a fan-out for a fan-in that gathers them, or why it cannot have them."""

    node: str
    output: Any = None
    error: Failure | None = None


class TaskCounts(NamedTuple):
    """What a node's task rows say. The last item is -1 where there is none but the node's own task.

    `last_queued` is the last item that is in the queue, or whose report is unread.
    """

    rows: int = 0
    last: int = -1
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    last_queued: int = -1
    waiting: int = 0
    """Reset and not queued again yet."""


class UnqueuedTask(NamedTuple):
    """A task that was queued and has not ended, but has neither a queue row nor an unread report."""

    node: str
    item: int
    task: TaskView
    error: Failure | None = None


class EndedTask(NamedTuple):
    """The own task of a node that has ended while its node has not."""

    status: str
    attempt: int
    output: Any = None
    error: Failure | None = None


class InconsistencyFound(NamedTuple):
    """The janitor doubts the job. What it found makes the owner look; what the rows say now is what counts."""

    duty: str
    reason: str
    counts: dict[str, TaskCounts]
    unqueued: tuple[UnqueuedTask, ...] = ()
    ended: dict[str, EndedTask] = {}  # noqa: RUF012


class Verb(StrEnum):
    """What a person can do with a job that has stopped, or with a part of it."""

    RESUME = "resume"
    RETRY = "retry"
    CLEAR = "clear"
    RERUN = "rerun"
    SKIP = "skip"
    SET = "set"
    UNDO = "undo"


class Request(NamedTuple):
    """A verb with its arguments; with a plan's id it does exactly that or nothing."""

    verb: Verb
    node: str | None = None
    items: tuple[int, ...] = ()
    code: str | None = None
    fingerprint: str | None = None
    only: bool = False
    plan_id: str | None = None
    output: Any = None
    tolerated: bool = False
    """For `resume`: also the tolerated failures of completed nodes."""
    params: dict[str, Any] | None = None
    """For `clear`: what the one task that it names is given from now on."""

    @property
    def named(self) -> str | None:
        """The node whose tasks it may name; None: any. A retry may take along what the failure had stopped."""
        return None if self.verb is Verb.RETRY and not self.only else self.node


class Selection(NamedTuple):
    """Some tasks of a node, by their status and, where these are given, by index, code and fingerprint."""

    statuses: tuple[str, ...]
    items: tuple[int, ...] | None = None
    code: str | None = None
    fingerprint: str | None = None
    also: tuple[int, ...] = ()
    """These in any case, whatever their status."""
    items_only: bool = False
    """Not the node's own task."""


class BatchesAsked(NamedTuple):
    """Which batches of a fan-in a verb means: a selection of them and, with a `page_size`, also those whose page holds
    a task of the fan-out that the verb sends back."""

    node: str
    selection: Selection
    enqueued: int
    fan_out: str | None = None
    of_fan_out: Selection | None = None
    fan_out_enqueued: int = 0
    page_size: int = 1


class Selected(NamedTuple):
    """What the rows say of a node's tasks: how many of each status the request names and could run again."""

    chosen: dict[str, int] = {}  # noqa: RUF012
    refused: int = 0
    """Named, but without params: they were refused before they could be queued."""
    last_epoch: int = 0
    last_attempt: int = 0
    touched: tuple[int, ...] = ()
    """Batches whose page holds a task that is sent back; they are among the chosen."""
    completed_since: float | None = None
    """When the first of the chosen tasks that completed did so; the one behind batches goes back with any of them."""
    node_completed_since: float | None = None
    """When the first of all its tasks that completed did so."""

    def number(self, selection: Selection) -> int:
        return sum(self.chosen_of(selection, status) for status in self.chosen)

    def chosen_of(self, selection: Selection, status: str) -> int:
        is_meant = status in selection.statuses or bool(selection.also)
        return self.chosen.get(status, 0) if is_meant else 0


class RecoveryRequested(NamedTuple):
    """A person wants a part of the job to run again, with a correction or without one."""

    signal_id: int | None
    actor: str
    reason: str
    request: Request
    selected: dict[str, Selected]
    correction: Correction | None = None
    request_id: str | None = None


Signal = (
    JobSubmitted
    | OwnerChanged
    | TaskReported
    | ReportRejected
    | BreakerChanged
    | BreakerSeen
    | CancelRequested
    | PauseRequested
    | TimePassed
    | WorkContinued
    | TasksWithdrawn
    | ItemsAggregated
    | InconsistencyFound
    | RecoveryRequested
)
