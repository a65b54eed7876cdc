"""Everything that can happen to a job, as its history keeps it: the names of the events, and the data that each has.

`Emitter.emit` says which data belongs to which event. The data are typed dictionaries, which cost no more than plain
ones: a wide job has a hundred thousand events.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, NotRequired, TypedDict, overload

from holdfast.core.effects import OWN_TASK, Effect, Emit
from holdfast.core.states import JobState, JobStatus, Status


class EventName(StrEnum):
    JOB_CREATED = "job_created"
    """Written by the submission itself: a job has no owner yet."""
    JOB_STARTED = "job_started"
    JOB_COMPLETED = "job_completed"
    JOB_PARTIAL = "job_partial"
    JOB_FAILED = "job_failed"
    JOB_CANCELLED = "job_cancelled"
    JOB_RECOVERED = "job_recovered"
    JOB_HELD = "job_held"
    JOB_RELEASED = "job_released"
    BREAKER_OPENED = "breaker_opened"
    BREAKER_CLOSED = "breaker_closed"
    NODE_READY = "node_ready"
    NODE_DISPATCHED = "node_dispatched"
    NODE_RETRY_SCHEDULED = "node_retry_scheduled"
    NODE_COMPLETED = "node_completed"
    NODE_FAILED = "node_failed"
    NODE_SKIPPED = "node_skipped"
    NODE_CANCELLED = "node_cancelled"
    TASK_READY = "task_ready"
    TASK_DISPATCHED = "task_dispatched"
    TASK_RETRY_SCHEDULED = "task_retry_scheduled"
    TASK_COMPLETED = "task_completed"
    TASK_FAILED = "task_failed"
    TASK_SKIPPED = "task_skipped"
    TASK_CANCELLED = "task_cancelled"
    NODE_UNDO_STARTED = "node_undo_started"
    NODE_UNDONE = "node_undone"
    NODE_UNDO_FAILED = "node_undo_failed"
    TASK_UNDONE = "task_undone"
    TASK_UNDO_FAILED = "task_undo_failed"
    WORKER_LOST = "worker_lost"
    OWNER_CHANGED = "owner_changed"
    JANITOR_ACTED = "janitor_acted"
    REPORT_REJECTED = "report_rejected"


JobEnd = Literal[EventName.JOB_COMPLETED, EventName.JOB_PARTIAL, EventName.JOB_FAILED, EventName.JOB_CANCELLED]
BreakerMove = Literal[EventName.BREAKER_OPENED, EventName.BREAKER_CLOSED]
NodeEnd = Literal[EventName.NODE_COMPLETED, EventName.NODE_FAILED, EventName.NODE_SKIPPED, EventName.NODE_CANCELLED]
NodeUndoEnd = Literal[EventName.NODE_UNDONE, EventName.NODE_UNDO_FAILED]
TaskUndoEnd = Literal[EventName.TASK_UNDONE, EventName.TASK_UNDO_FAILED]
Retry = Literal[EventName.NODE_RETRY_SCHEDULED, EventName.TASK_RETRY_SCHEDULED]
TaskEnd = Literal[EventName.TASK_COMPLETED, EventName.TASK_FAILED, EventName.TASK_CANCELLED]

END_OF_JOB: dict[JobStatus, JobEnd] = {
    JobStatus.COMPLETED: EventName.JOB_COMPLETED,
    JobStatus.PARTIAL: EventName.JOB_PARTIAL,
    JobStatus.FAILED: EventName.JOB_FAILED,
    JobStatus.CANCELLED: EventName.JOB_CANCELLED,
}
END_OF_NODE: dict[Status, NodeEnd] = {
    Status.COMPLETED: EventName.NODE_COMPLETED,
    Status.FAILED: EventName.NODE_FAILED,
    Status.SKIPPED: EventName.NODE_SKIPPED,
    Status.CANCELLED: EventName.NODE_CANCELLED,
}
END_OF_TASK: dict[Status, TaskEnd] = {
    Status.COMPLETED: EventName.TASK_COMPLETED,
    Status.FAILED: EventName.TASK_FAILED,
    Status.CANCELLED: EventName.TASK_CANCELLED,
}


class JobCreated(TypedDict):
    """The submission writes it, in SQL."""

    workflow_id: str
    version: str
    previous: NotRequired[str]
    request_id: NotRequired[str]
    """The HTTP request that submitted it."""


class JobEnded(TypedDict):
    code: str
    message: str
    request_id: NotRequired[str]
    """The HTTP request by which a person wanted it; the same below."""


class JobRecovered(TypedDict):
    verb: str
    actor: str
    reason: str
    generation: int
    plan_id: str
    tasks: int
    rerun: dict[str, int | None]
    unknown: NotRequired[int]
    evaluates_result: NotRequired[bool]
    corrected: NotRequired[list[str]]
    """What a person has changed: `inputs.NAME`, `workflow`, or `params` of one task."""
    stale: NotRequired[str]
    gone: NotRequired[list[str]]
    """The nodes that the corrected definition no longer has."""
    undo: NotRequired[dict[str, int | None]]
    """How many tasks of each node are undone."""
    by_hand: NotRequired[dict[str, str]]
    """The nodes at which a person must look after an undo, and why."""
    request_id: NotRequired[str]


class JobHeld(TypedDict):
    by: str
    name: str
    reason: NotRequired[str]
    until: float | None
    request_id: NotRequired[str]


class JobReleased(TypedDict):
    by: str
    name: str
    reason: NotRequired[str]
    since: float
    request_id: NotRequired[str]


class BreakerMoved(TypedDict):
    breaker: str
    reason: str
    until: float | None


class OwnerNames(TypedDict):
    owner: str
    previous: str | None


class Repairs(TypedDict, total=False):
    """The nodes that were repaired, each kind only if there are some; items are ranges."""

    recounted: list[str]
    requeued: dict[str, list[list[int]]]
    given_up: dict[str, list[list[int]]]
    """Tasks that vanished from the queue once too often, and failed."""
    withdrawn: dict[str, list[list[int]]]
    """Tasks that had vanished from the queue of a stopping job."""
    ended: list[str]
    disagreeing: list[str]
    """Nodes of an ended job, which stay as they are."""


class JanitorActed(Repairs):
    duty: str
    reason: str


class TasksReset(TypedDict):
    tasks: int


class TaskQueued(TypedDict):
    queue: str
    handler: str


class ItemsFixed(TypedDict):
    width: int
    batch_size: NotRequired[int]


class TaskCount(TypedDict):
    count: int


class ItemRange(TypedDict):
    first: int
    last: int


NodeDispatched = TaskQueued | ItemsFixed | TaskCount
"""Its own task, or its first items; or tasks that were reset."""
TasksDispatched = ItemRange | TaskCount
"""Items for the first time; or tasks that were reset."""


class RetryScheduled(TypedDict):
    outcome: str
    retry_at: float | None
    worker: str | None
    reason: NotRequired[str]
    breaker: NotRequired[str | None]
    code: NotRequired[str]
    message: NotRequired[str]


class TaskEnded(TypedDict, total=False):
    """One item, by its attempt, or refused before it had one."""

    worker: str | None
    started_at: float | None
    reason: str
    code: str
    message: str


_Class = TypedDict("_Class", {"class": str}, total=False)


class NodeEnded(TaskEnded, _Class, total=False):
    """A node, by its own task, its items, its branches, or a person."""

    width: int
    completed: int
    failed: int
    skipped: int
    cancelled: int
    taken: list[str]
    by: str


class TasksEnded(TypedDict):
    """Many items that a stop has ended, as ranges."""

    items: list[list[int]]
    count: int
    code: NotRequired[str]
    reason: NotRequired[str]


class TasksSkipped(TypedDict):
    """By a person; or because their items are gone after a correction."""

    count: int
    by: NotRequired[str]
    items: NotRequired[list[list[int]]]
    reason: NotRequired[str]


class TasksCorrected(TypedDict):
    """Tasks that run again with other params, as ranges."""

    items: list[list[int]]
    count: int


class UndoStarted(TypedDict):
    tasks: int
    queue: str
    handler: str


class NodeUndone(TypedDict):
    """How many of its tasks were undone, and of how many the undo failed, with the first of these failures."""

    undone: int
    failed: int
    status: str
    code: NotRequired[str]
    message: NotRequired[str]
    by: NotRequired[str]
    """The person who says that it counts as undone."""


class WorkerName(TypedDict):
    worker: str | None


class LateReport(TypedDict):
    epoch: int
    worker: str | None


class Emitter:
    """Appends events to the history of a job."""

    __slots__ = ()
    state: JobState
    effects: list[Effect]

    @overload
    def emit(self, event: Literal[EventName.JOB_STARTED]) -> None: ...
    @overload
    def emit(self, event: JobEnd, *, data: JobEnded | None) -> None: ...
    @overload
    def emit(self, event: Literal[EventName.JOB_RECOVERED], *, data: JobRecovered) -> None: ...
    @overload
    def emit(self, event: Literal[EventName.JOB_HELD], *, data: JobHeld) -> None: ...
    @overload
    def emit(self, event: Literal[EventName.JOB_RELEASED], *, data: JobReleased) -> None: ...
    @overload
    def emit(self, event: BreakerMove, *, data: BreakerMoved) -> None: ...
    @overload
    def emit(self, event: Literal[EventName.OWNER_CHANGED], *, data: OwnerNames) -> None: ...
    @overload
    def emit(self, event: Literal[EventName.JANITOR_ACTED], *, data: JanitorActed) -> None: ...
    @overload
    def emit(self, event: Literal[EventName.NODE_READY], node: str, *, data: TasksReset | None = None) -> None: ...
    @overload
    def emit(self, event: Literal[EventName.NODE_DISPATCHED], node: str, *, data: NodeDispatched) -> None: ...
    @overload
    def emit(self, event: NodeEnd, node: str, *, attempt: int | None, data: NodeEnded | None) -> None: ...
    @overload
    def emit(self, event: Retry, node: str, item: int, attempt: int, data: RetryScheduled) -> None: ...
    @overload
    def emit(self, event: Literal[EventName.TASK_READY], node: str, *, data: ItemRange | TasksCorrected) -> None: ...
    @overload
    def emit(self, event: Literal[EventName.TASK_DISPATCHED], node: str, *, data: TasksDispatched) -> None: ...
    @overload
    def emit(self, event: TaskEnd, node: str, item: int, attempt: int | None, data: TaskEnded) -> None: ...
    @overload
    def emit(self, event: TaskEnd, node: str, *, data: TasksEnded) -> None: ...
    @overload
    def emit(self, event: Literal[EventName.TASK_SKIPPED], node: str, *, data: TasksSkipped) -> None: ...
    @overload
    def emit(self, event: Literal[EventName.NODE_UNDO_STARTED], node: str, *, data: UndoStarted) -> None: ...
    @overload
    def emit(self, event: NodeUndoEnd, node: str, *, data: NodeUndone) -> None: ...
    @overload
    def emit(self, event: TaskUndoEnd, node: str, item: int, attempt: int | None, data: TaskEnded) -> None: ...
    @overload
    def emit(self, event: Literal[EventName.TASK_UNDO_FAILED], node: str, *, data: TasksEnded) -> None: ...
    @overload
    def emit(
        self, event: Literal[EventName.WORKER_LOST], node: str, item: int, attempt: int, data: WorkerName
    ) -> None: ...
    @overload
    def emit(self, event: Literal[EventName.REPORT_REJECTED], node: str, item: int, *, data: LateReport) -> None: ...
    def emit(
        self,
        event: EventName,
        node: str | None = None,
        item: int | None = None,
        attempt: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Append an event. A node's own task is no item."""
        state = self.state
        state.seq += 1
        item = None if item == OWN_TASK else item
        self.effects.append(Emit(state.job_id, state.seq, str(event), node, item, attempt, data))
