"""A job, its nodes, and the lines of a list of jobs. Pure: the rows were read before."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holdfast.core.plans import SET_BY_PERSON
from holdfast.core.states import JOB_TERMINAL, JobStatus, Status
from holdfast.core.undo_states import UNDOING, UNDONE
from holdfast.define.definition import Definition
from holdfast.define.kinds import kind_of
from holdfast.define.node import Node
from holdfast.store.read_rows import JobLine, JobView, NodeView, QueueView, Snapshot
from holdfast.views.definitions import Corrected, corrected_view
from holdfast.views.encoding import HIDDEN, IF_ANY, VERBATIM
from holdfast.views.fleet import UnservedTasks, unserved_view
from holdfast.views.held import PAUSED, STOPPING, Held, held_view, pause_that_counts, pause_view
from holdfast.views.history import Failure, failure_view
from holdfast.views.interventions import (
    Acknowledgement,
    ByHand,
    NodeUndone,
    acknowledgement_view,
    by_hand_view,
    undone_view,
)
from holdfast.views.outcome import Outcome, StageState, outcome_view

SET_ASIDE = "orchestrator_error: "
"""How the reason of a job begins that its owner cannot advance."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Tasks by status."""

    total: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    running: int = 0
    queued: int = 0


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node of a job. Start and end have no stage; without a readable definition type and stage are unknown."""

    node: str
    stage: int | None
    type: str | None
    status: str
    importance: str | None
    attempt: int | None
    counts: Counts
    progress: dict[str, Any] | None = field(metadata=VERBATIM)
    retry_at: datetime | None
    held: Held | None
    error: Failure | None
    started_at: datetime | None
    finished_at: datetime | None
    unserved: UnservedTasks | None
    by_hand: ByHand | None = None
    """A progress display leaves it out."""
    stale: bool = False
    """Whether it completed before a node ran again from which it has its data, directly or not."""
    retrying: int = field(default=0, metadata=HIDDEN)
    """How many of its tasks wait for their next attempt."""
    width: int = field(default=0, metadata=HIDDEN)
    """How many items or batches it has, if it has any."""
    has_task_per_item: bool = field(default=False, metadata=HIDDEN)
    began_at: datetime | None = field(default=None, metadata=HIDDEN)
    """When its first attempt began since it was queued last, at `started_at`."""
    gone: int = field(default=0, metadata=HIDDEN)
    """How many of its items a correction took away; `counts` has none of them."""
    undo: NodeUndone | None = field(default=None, metadata=IF_ANY)
    """How far it has been undone, if it has been."""
    corrected: int | None = field(default=None, metadata=IF_ANY)
    """To how many of its tasks a person gave their params, if to any. A progress display leaves it out."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The orchestrator that drives an open job, or did until its lease ran out."""

    id: int
    name: str | None
    since: datetime | None
    alive: bool


@dataclass(frozen=True, slots=True)
class Job:
    """A job at one moment."""

    job_id: str
    workflow_id: str
    status: str
    version: str
    run: int
    generation: int
    tenant: str
    inputs: Any = field(metadata=VERBATIM)
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    counts: Counts
    held: Held | None
    error: Failure | None
    result: Any = field(metadata=VERBATIM)
    nodes: tuple[NodeState, ...]
    outcome: Outcome
    owner: Owner | None
    reason: str | None
    unreadable: str | None
    """Why this version cannot read the job's definition. Then only nodes that have begun are known."""
    labels: dict[str, str]
    acknowledged: Acknowledgement | None
    corrected: Corrected | None
    """The last correction. A progress display leaves it out."""
    definition: Definition = field(metadata=HIDDEN)
    queued_at: datetime | None = field(default=None, metadata=HIDDEN)
    """When the present generation could begin."""
    began_at: datetime | None = field(default=None, metadata=HIDDEN)
    """When the first attempt of the present generation began."""
    correlation_id: str | None = field(default=None, metadata=IF_ANY)
    """What the caller calls the things of one cause."""
    external_ids: dict[str, str] | None = field(default=None, metadata=IF_ANY)
    """The ids that other systems have for the job, by their namespaces."""
    callback_url: str | None = field(default=None, metadata=IF_ANY)
    """Where the caller wants to be called back."""
    notify: list[dict[str, Any]] | None = field(default=None, metadata=IF_ANY)
    """The receivers that the submission names, and their events."""
    look_by_hand: dict[str, str] | None = field(default=None, metadata=IF_ANY)
    """The nodes at which a person must look after an undo, because no handler takes back what they did; and why."""

    @property
    def is_terminal(self) -> bool:
        return self.status in JOB_TERMINAL

    def node(self, text: str) -> NodeState | None:
        """The node of that name, or with that number of its stage."""
        return next((node for node in self.nodes if text in (node.node, str(node.stage))), None)

    @property
    def is_in_doubt(self) -> bool:
        """Whether it completed although its rows contradict each other."""
        return self.status == JobStatus.COMPLETED and self.error is not None

    @property
    def is_stopping(self) -> bool:
        return self.reason == STOPPING

    @property
    def is_undone(self) -> bool:
        """Whether it was undone, or is being undone."""
        return self.reason in (UNDOING, UNDONE)

    @property
    def pause(self) -> Held | None:
        """The pause of a job that would go on without it."""
        return pause_that_counts(self.held, self.status, self.reason)

    @property
    def state(self) -> str:
        """The status in the words of people: a job that runs may be paused."""
        return PAUSED if self.pause is not None else self.status

    @property
    def problem(self) -> str | None:
        """Why its owner cannot advance it, if that is so."""
        is_set_aside = self.reason is not None and self.reason.startswith(SET_ASIDE)
        return self.reason.removeprefix(SET_ASIDE) if self.reason is not None and is_set_aside else None


@dataclass(frozen=True, slots=True)
class LineCounts:
    total: int
    completed: int
    failed: int


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job in a list."""

    job_id: str
    workflow_id: str
    status: str
    version: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    counts: LineCounts
    error: str | None
    labels: dict[str, str]
    acknowledged: Acknowledgement | None
    held: Held | None
    """The pause of the job; a list does not look for breakers and limits."""
    reason: str | None = field(default=None, metadata=HIDDEN)
    generation: int = field(default=1, metadata=HIDDEN)
    queued_at: datetime | None = field(default=None, metadata=HIDDEN)
    began_at: datetime | None = field(default=None, metadata=HIDDEN)

    @property
    def is_in_doubt(self) -> bool:
        return self.status == JobStatus.COMPLETED and self.error is not None

    @property
    def pause(self) -> Held | None:
        """The pause of a job that would go on without it."""
        return pause_that_counts(self.held, self.status, self.reason)

    @property
    def state(self) -> str:
        """The status in the words of people: a job that runs may be paused."""
        return PAUSED if self.pause is not None else self.status


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs, newest first, and the cursor that continues the list; None: these were the last.

    A page can have fewer jobs than it may, and a cursor: a page looks at a bounded number of jobs.
    """

    jobs: tuple[JobSummary, ...] = ()
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """How many jobs and waiting tasks there are."""

    jobs: dict[str, int]
    """Jobs by status."""
    workflows: dict[str, dict[str, int]]
    """Jobs by workflow and status."""
    queued: int
    """Tasks in the queue that do not run."""
    running: int
    """Tasks that run now."""


def job_view(snapshot: Snapshot) -> Job:
    job = snapshot.job
    defined = snapshot.definition.nodes
    stale = _stale(snapshot)
    nodes = tuple(_node(snapshot, node, is_stale=node.name in stale) for node in defined)
    return Job(
        job.job_id,
        job.workflow_id,
        job.status,
        job.version,
        job.run,
        job.generation,
        job.tenant,
        job.inputs,
        job.created_at,
        job.started_at,
        job.finished_at,
        _sum([node.counts for node in nodes]),
        _job_held(snapshot),
        failure_view(job.error),
        job.result,
        nodes,
        outcome_view(snapshot, [_stage_state(node, shown) for node, shown in zip(defined, nodes, strict=True)]),
        Owner(job.owner_id, job.owner, job.owned_since, job.owner_is_alive) if job.owner_id is not None else None,
        job.reason,
        snapshot.unreadable.message if snapshot.unreadable else None,
        job.labels or {},
        acknowledgement_view(job),
        corrected_view(snapshot.corrected),
        snapshot.definition,
        job.recovered_at or job.started_at,
        work_began(snapshot),
        job.correlation_id,
        job.external_ids,
        job.callback_url,
        [rule for rule in job.notify or () if "callback" not in rule] or None,
        job.look_by_hand or None,
    )


def summary_view(row: JobLine) -> JobSummary:
    return JobSummary(
        row.job_id,
        row.workflow_id,
        row.status,
        row.version,
        row.created_at,
        row.started_at,
        row.finished_at,
        LineCounts(row.total, row.completed, row.failed),
        row.message,
        row.labels or {},
        acknowledgement_view(row),
        pause_view(row.pause),
        row.reason,
        row.generation,
        row.recovered_at or row.started_at,
        row.began_at,
    )


def _stage_state(node: Node, shown: NodeState) -> StageState:
    counts = shown.counts
    return StageState(node, shown.stage, shown.status, shown.error, shown.finished_at, counts.total, counts.completed)


def _sum(counts: list[Counts]) -> Counts:
    return Counts(*(sum(getattr(one, name) for one in counts) for name in Counts.__slots__))


def work_began(snapshot: Snapshot) -> datetime | None:
    """When the first attempt of the present generation began."""
    since = snapshot.job.recovered_at or snapshot.job.started_at
    times = ((row.started_at, row.began_at) for row in snapshot.nodes.values())
    begun = (began for queued, began in times if began and queued and (since is None or queued >= since))
    return min(begun, default=None)


def _stale(snapshot: Snapshot) -> set[str]:
    """The completed nodes that began before a node above them ended: that node ran again, and they did not.

    A result that a person has set is never stale.
    """
    stale: set[str] = set()
    for name in snapshot.graph.order:
        row = snapshot.nodes.get(name)
        if row is None or row.status != Status.COMPLETED or row.reason == SET_BY_PERSON or row.started_at is None:
            continue
        for source in snapshot.graph.sources[name]:
            above = snapshot.nodes.get(source)
            if above is None:
                continue
            is_newer = above.finished_at is None or above.finished_at > row.started_at
            if source in stale or is_newer:
                stale.add(name)
    return stale


def _node(snapshot: Snapshot, node: Node, *, is_stale: bool) -> NodeState:
    row, queued = snapshot.nodes.get(node.name), snapshot.queue.get(node.name)
    unserved = snapshot.unserved.get(node.name)
    status = _node_status(row, queued)
    is_readable = snapshot.unreadable is None
    return NodeState(
        node.name,
        snapshot.graph.stage_number(node.name) if is_readable else None,
        str(node.type) if is_readable else None,
        status,
        str(node.importance) if is_readable and not kind_of(node).is_border else None,
        queued.attempt if queued and status == Status.RUNNING and queued.attempt else _attempt(row),
        _counts(row, queued),
        _progress(node, row, queued),
        _retry_at(row, queued),
        held_view(snapshot.holds.get(node.name)),
        (_doubt(snapshot.job, node.name) or failure_view(row.error)) if row else None,
        _started_at(node, row, queued),
        row.finished_at if row else None,
        unserved_view(unserved) if unserved is not None else None,
        by_hand_view(snapshot, node.name),
        is_stale,
        queued.waiting if queued else 0,
        row.width if row is not None and kind_of(node).has_items(node) else 0,
        kind_of(node).has_task_per_item,
        row.began_at if row is not None else None,
        row.gone if row is not None else 0,
        undone_view(row.undo) if row is not None else None,
        (row.corrected or None) if row is not None else None,
    )


def _job_held(snapshot: Snapshot) -> Held | None:
    """A job is held if a person has paused it, or if nothing of it runs and all of it that is ready is held."""
    pause = pause_view(snapshot.job.pause)
    if pause is not None:
        return pause
    queue = snapshot.queue.values()
    if any(row.running or (row.ready and row.node not in snapshot.holds) for row in queue):
        return None
    holds = (snapshot.holds.get(node.name) for node in snapshot.definition.nodes)
    return held_view(next((hold for hold in holds if hold is not None), None))


def _node_status(row: NodeView | None, queued: QueueView | None) -> str:
    """As stored, but whether the task of a node waits, is queued or runs is known to its queue row only."""
    if row is None:
        return str(Status.PENDING)
    if row.status in (Status.READY, Status.DISPATCHED) and queued is not None:
        if queued.running:
            return str(Status.RUNNING)
        return str(Status.READY if queued.waiting else Status.DISPATCHED)
    return row.status


def _attempt(row: NodeView | None) -> int | None:
    return row.attempt or None if row else None


def _counts(row: NodeView | None, queued: QueueView | None) -> Counts:
    """The counters of the rows that exist; a node that has not begun has none."""
    if row is None:
        return Counts()
    return Counts(
        row.total,
        row.completed,
        row.failed,
        row.skipped,
        row.cancelled,
        queued.running if queued else 0,
        queued.ready + queued.waiting if queued else 0,
    )


def _progress(node: Node, row: NodeView | None, queued: QueueView | None) -> dict[str, Any] | None:
    if kind_of(node).has_items(node):
        return {"done": min(_settled(row), row.width), "total": row.width} if row else None
    return queued.progress if queued else None


def _settled(row: NodeView) -> int:
    return row.completed + row.failed + row.skipped + row.cancelled


def _retry_at(row: NodeView | None, queued: QueueView | None) -> datetime | None:
    """When the node, or the next of its items, starts its next attempt."""
    if queued is not None and queued.waiting:
        return queued.due_at
    return row.retry_at if row is not None and queued is None else None


def _started_at(node: Node, row: NodeView | None, queued: QueueView | None) -> datetime | None:
    if row is not None and row.started_at is not None:
        return row.started_at
    return queued.claimed_at if queued is not None and not kind_of(node).has_task_per_item else None


def _doubt(job: JobView, node: str) -> Failure | None:
    """Why a node of a job that completed is in doubt, if it is."""
    error = failure_view(job.error) if job.status == JobStatus.COMPLETED else None
    return error if error is not None and error.node == node else None
