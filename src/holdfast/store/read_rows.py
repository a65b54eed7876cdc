"""What people see of jobs, of breakers and limits, and of the server, as plain records. Reads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.core.advising import Advice
from holdfast.core.failing import Failure
from holdfast.define.definition import Definition
from holdfast.define.graph import Graph
from holdfast.errors import Refused
from holdfast.store.fleet import UnservedTasks, WorkerView
from holdfast.store.locks import LockHolder

DECLARED = ("node:", "key:")
"""How the names of limits begin that workflows declare."""


class AttemptView(NamedTuple):
    """One try at a task that failed or printed something."""

    node: str
    item: int
    attempt: int
    outcome: str
    worker: str | None
    started_at: datetime | None
    finished_at: datetime
    error: Failure | None
    log: str | None
    extra: dict[str, Any] | None
    log_times: list[list[int]] | None = None


class JobView(NamedTuple):
    job_id: str
    workflow_id: str
    status: str
    reason: str | None
    version: str
    run: int
    generation: int
    tenant: str
    definition_hash: str
    inputs: Any
    result: Any
    error: Failure | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    owner_id: int | None
    owner: str | None
    owned_since: datetime | None
    owner_is_alive: bool
    pause: dict[str, Any] | None = None
    result_ref: str | None = None
    """The digest of a result that is too large for its row."""
    labels: dict[str, str] | None = None
    acknowledged_by: str | None = None
    acknowledged_reason: str | None = None
    acknowledged_at: datetime | None = None
    recovered_at: datetime | None = None
    """When the present generation began; None: it is the first one."""
    correlation_id: str | None = None
    external_ids: dict[str, str] | None = None
    callback_url: str | None = None
    notify: list[dict[str, Any]] | None = None
    look_by_hand: dict[str, str] | None = None
    """The nodes at which a person must look after an undo, and why."""


class NodeView(NamedTuple):
    node: str
    status: str
    reason: str | None
    attempt: int
    width: int
    completed: int
    failed: int
    skipped: int
    cancelled: int
    retry_at: datetime | None
    error: Failure | None
    started_at: datetime | None
    finished_at: datetime | None
    expanded: int = 0
    batch_size: int | None = None
    began_at: datetime | None = None
    """When its first attempt began since it was queued last."""
    numbers: int = 0
    """How many numbers its items have: those that a correction took away keep theirs."""
    gone: int = 0
    """How many of its items a correction took away; no other number counts them."""
    undo: dict[str, Any] | None = None
    """How far it has been undone."""
    corrected: int = 0
    """To how many of its tasks a person gave their params."""

    @property
    def total(self) -> int:
        """All its tasks, with the one behind its batches once that is there."""
        return max(self.width, self.expanded)


class QueueView(NamedTuple):
    """What of one node is in the queue: leased, claimable, and waiting for its time."""

    node: str
    running: int
    ready: int
    waiting: int
    due_at: datetime | None
    progress: dict[str, Any] | None
    claimed_at: datetime | None
    attempt: int


class Hold(NamedTuple):
    """What holds back all that is ready of one node: a breaker, or a limit."""

    node: str
    tasks: int
    by: str
    name: str
    since: datetime
    until: datetime | None
    details: dict[str, Any]


class DecidedByHand(NamedTuple):
    """Who decided how a node ended, when and why."""

    node: str
    verb: str
    by: str
    at: datetime
    reason: str | None


class Corrected(NamedTuple):
    """A correction: the generation that it began, when, and the data of its event."""

    generation: int
    at: datetime
    data: dict[str, Any] | None


class Pin(NamedTuple):
    """What a job follows from a generation on, and the data of the event that began it; `present` is its generation."""

    workflow_id: str
    present: int
    generation: int
    definition_hash: str
    version: str
    inputs: dict[str, Any]
    at: datetime
    data: dict[str, Any] | None


class Deliverable(NamedTuple):
    """What tasks that completed have delivered under one name, and the places of the first and the last of them."""

    name: str
    number: int
    first: str
    last: str


class Snapshot(NamedTuple):
    """A job at one moment. If its definition is `unreadable`, only the nodes that have begun are known."""

    job: JobView
    definition: Definition
    graph: Graph
    unreadable: Refused | None
    nodes: dict[str, NodeView]
    queue: dict[str, QueueView]
    unserved: dict[str, UnservedTasks]
    holds: dict[str, Hold]
    deliverables: list[Deliverable]
    locations: dict[str, str | None]
    """The locations of the deliverables that the definition declares, by name; empty if inputs were left out."""
    by_hand: Mapping[str, DecidedByHand] = {}
    """The nodes whose end a person decided; empty if inputs were left out."""
    advice: tuple[Advice, ...] = ()
    """The verbs that would continue a job that has not completed, the best first; empty if inputs were left out."""
    corrected: Corrected | None = None
    """The last correction; None if inputs were left out."""


class Stages(NamedTuple):
    """How far a job came, by the names of its nodes in the order of the file."""

    failed: str | None = None
    completed: tuple[str, ...] = ()


class QueuedTasks(NamedTuple):
    """Tasks of one node that wait, or run, for the same reason. `error` is that of the attempt before a retry."""

    node: str
    state: str
    queue: str
    handler: str
    tasks: int
    first: list[int]
    queued_at: datetime
    claimed_at: datetime | None
    due_at: datetime | None
    attempt: int
    workers: list[str] | None
    worker_is_alive: bool | None
    lease_until: datetime | None
    progress: dict[str, Any] | None
    error: Failure | None


class JobDiagnosis(NamedTuple):
    """A job at one moment, with everything that may keep it from continuing."""

    snapshot: Snapshot
    epoch: int
    stop_cause: str | None
    stop_until: datetime | None
    owner_gone_at: datetime | None
    orchestrators: int
    unread: int
    unread_since: datetime | None
    enqueued: dict[str, int]
    """How many rows of a node have been queued so far."""
    queued: list[QueuedTasks]
    workers: list[WorkerView]
    locks: Sequence[LockHolder] = ()
    errors: Mapping[str, Failure] = {}
    """The error of the last failed attempt at each node that has tasks in the queue."""


class JobLine(NamedTuple):
    job_id: str
    workflow_id: str
    status: str
    reason: str | None
    version: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    total: int
    completed: int
    failed: int
    message: str | None
    """Why it failed."""
    labels: dict[str, str] | None
    acknowledged_by: str | None
    acknowledged_reason: str | None
    acknowledged_at: datetime | None
    pause: dict[str, Any] | None = None
    generation: int = 1
    recovered_at: datetime | None = None
    began_at: datetime | None = None
    """When the first attempt of the present generation began."""


class OpenJobLine(NamedTuple):
    """A job that has not ended, with what decides whether it can be paused."""

    job_id: str
    workflow_id: str
    status: str
    generation: int
    stop_cause: str | None
    paused_by: str | None


class WalkedJob(NamedTuple):
    """A job that a list has looked at."""

    job_id: str
    fits: bool


class JobLines(NamedTuple):
    """One page of jobs, and the job after which the next page begins; None: these were the last."""

    lines: list[JobLine]
    after: str | None


class JobCount(NamedTuple):
    """How many jobs of one workflow have one status."""

    workflow_id: str
    status: str
    jobs: int


class QueueCount(NamedTuple):
    """How many tasks wait in the queue, and how many run."""

    queued: int
    running: int


class WorkflowLine(NamedTuple):
    """The definition of a workflow that was registered last."""

    workflow_id: str
    version: str
    registered_at: datetime


class QueueLine(NamedTuple):
    """The tasks of one queue; `since` is when the oldest of those that do not run was queued."""

    queue: str
    queued: int
    held: int
    running: int
    since: datetime | None


class EndedJobs(NamedTuple):
    """How many jobs ended within one hour, by status; no person has acknowledged some of the failed and partial."""

    start: datetime
    completed: int = 0
    partial: int = 0
    failed: int = 0
    cancelled: int = 0
    unacknowledged: int = 0


class DefaultRow(NamedTuple):
    """A default that a person has set, or has reset to the built-in value: then `is_set` is false."""

    name: str
    value: Any
    actor: str
    reason: str
    set_at: datetime

    @property
    def is_set(self) -> bool:
        return self.value is not None


class AcknowledgementRow(NamedTuple):
    actor: str
    reason: str
    at: datetime


class EventView(NamedTuple):
    seq: int
    job_id: str
    event: str
    node: str | None
    item: int | None
    attempt: int | None
    at: datetime
    data: dict[str, Any] | None


class BreakerView(NamedTuple):
    """A breaker at one moment. `calls` and `failed` are of its window; `waiting` and `running` the tasks behind it."""

    name: str
    state: str
    held: bool
    since: datetime
    until: datetime | None
    has_probe: bool
    calls: int
    failed: int
    window_calls: int
    successes: int
    waiting: int
    running: int
    reason: str | None
    actor: str | None


class LimitView(NamedTuple):
    """A limit at one moment; `burst` tasks may begin at once, `rate` more each second. A person set it: `actor`."""

    tenant: str
    name: str
    concurrency: int | None
    rate: float | None
    burst: int | None
    backlog: int | None
    running: int
    waiting: int
    open_jobs: int | None
    changed_at: datetime
    actor: str | None
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None

    @property
    def allows_less(self) -> bool:
        """Whether it limits anything beside its pause."""
        return self.concurrency is not None or self.rate is not None or self.backlog is not None

    @property
    def is_declared(self) -> bool:
        """Whether its name is one that workflows give."""
        return self.name.startswith(DECLARED)


class LongTransaction(NamedTuple):
    """A session whose transaction has been open for long."""

    pid: int
    application: str
    state: str | None
    seconds: float


class UnreadSignals(NamedTuple):
    """How many signals have waited for long, and since when the oldest."""

    number: int
    since: datetime | None


class ServerFacts(NamedTuple):
    """The Postgres server: its version, its clock, the settings that matter, its connections and its size."""

    version_number: int
    version: str
    now: float
    fsync: str
    synchronous_commit: str
    max_connections: int
    connections: int
    database: str
    size_bytes: int
