"""What the engine asks of a store. Two keep these promises: Postgres, and the simulator's model.

Times are seconds since 1970 by the database's clock. JSON values travel as Python values or, where
nothing looks into them, as JSON bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol

from holdfast.core.breaking import Breaker, BreakerState
from holdfast.core.effects import (
    AnswerSignal,
    CreateTasks,
    Effect,
    Emit,
    EnqueueTasks,
    EnqueueWaiting,
    FailTask,
    FinishTask,
    Lane,
    MarkJob,
    RecordAttempt,
    ReleaseTasks,
    ResetTasks,
    RestartNode,
    RetryTask,
    SkipTasks,
    WithdrawTasks,
)
from holdfast.core.signals import BatchesAsked, EndedTask, Request, Selected, TaskCounts, UnqueuedTask
from holdfast.define.gates import BreakerRules
from holdfast.store.dangers import Dangers

RANK_LIMIT = 100
"""Beyond this many queued tasks of one job its tasks go by age alone, else the last of a window would never come."""


class JobRow(NamedTuple):
    """A job as its owner loads it."""

    job_id: str
    tenant: str
    definition_hash: str
    status: str
    priority: int
    run: int
    generation: int
    owner: int | None
    epoch: int
    inputs: dict[str, Any]
    error: dict[str, Any] | None
    created_at: float
    started_at: float | None
    deadline_at: float | None
    stop_cause: str | None
    stop_until: float | None
    stop_leases_ended: bool
    stop_signal: int | None
    holds: list[dict[str, Any]]
    last_seq: int


class NodeRow(NamedTuple):
    """A node of a job; nodes that never began have no row."""

    job_id: str
    node: str
    status: str
    reason: str | None
    importance: str
    output: Any
    error: dict[str, Any] | None
    attempt: int
    width: int
    expanded: int
    enqueued: int
    completed: int
    failed: int
    skipped: int
    cancelled: int
    taken: list[str]
    retry_at: float | None
    started_at: float | None
    finished_at: float | None
    spent: dict[str, int] | None = None
    waiting: int = 0
    base_epoch: int = 0
    base_attempt: int = 0
    batch_size: int | None = None


class SignalRow(NamedTuple):
    """A signal as its owner reads it, with what the core needs of the task that it speaks of.

    Of a fan-out's item the output is left where it is; `FinishTask` moves it from the signal to the task. A large
    output lies elsewhere: `data` says so, and `Cycle.with_full_output` reads it.
    """

    id: int
    job_id: str
    kind: str
    node: str | None = None
    item: int | None = None
    epoch: int | None = None
    attempt: int | None = None
    outcome: str | None = None
    worker: str | None = None
    alone: bool = False
    started_at: float | None = None
    output: Any = None
    data: dict[str, Any] | None = None
    actor: str | None = None
    reason: str | None = None
    task_status: str | None = None
    task_epoch: int | None = None
    task_attempt: int | None = None
    task_retries: int = 0
    task_lost: int = 0
    task_crashes: int = 0

    @property
    def lacks_its_output(self) -> bool:
        return self.data is not None and "output_ref" in self.data and self.item == -1


class JobUpdate(NamedTuple):
    """What an owner writes of a job."""

    job_id: str
    owner: int | None
    epoch: int
    status: str
    reason: str | None
    generation: int
    result: Any
    error: dict[str, Any] | None
    started_at: float | None
    finished_at: float | None
    deadline_at: float | None
    stop_cause: str | None
    stop_until: float | None
    stop_leases_ended: bool
    stop_signal: int | None
    holds: list[dict[str, Any]]


class SignalAnswer(NamedTuple):
    """What a job's owner answered to a person's signal."""

    applied: bool
    reason: str
    remedy: str | None = None
    """What else can be done, if the signal was refused; JOB stands for the job's id."""


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
    resets: list[ResetTasks] = field(default_factory=list)
    restarts: list[RestartNode] = field(default_factory=list)
    skips: list[SkipTasks] = field(default_factory=list)
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

    survived: list[str] = field(default_factory=list)
    closes_cycle: bool = False
    """Whether the note of this cycle's jobs goes with its commit, and which job was advanced alone by it."""
    made_work: bool = False
    made_due: float | None = None

    def add(self, effects: Iterable[Effect]) -> list[WithdrawTasks]:
        """Put effects into the batch; returns the withdrawals, which wait until the batch is written."""
        withdrawals = []
        for effect in effects:
            if type(effect) is WithdrawTasks:
                withdrawals.append(effect)
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
        for rows in fields(self):
            if isinstance(written := getattr(self, rows.name), list):
                written.clear()


_FIELD_OF: dict[type, str] = {
    FinishTask: "finished",
    ResetTasks: "resets",
    RestartNode: "restarts",
    SkipTasks: "skips",
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


class Lease(NamedTuple):
    """A worker's right to one attempt."""

    job_id: str
    node: str
    item: int
    epoch: int
    attempt: int
    handler: str
    timeout_seconds: float
    suspect: bool
    params: Any
    resume_point: tuple[str, Any] | None
    checkpoint_seq: int
    owner: int = 0
    params_ref: str | None = None
    """The digest of the params where they are too large for a row; `params` is None until they are read."""
    has_contract: bool = False
    """The output must keep the schema that the job's definition has for the node."""


class JobFacts(NamedTuple):
    """What a handler may ask of its job, and where the contracts of the job stand."""

    generation: int
    inputs: dict[str, Any]
    definition_hash: str = ""


class Report(NamedTuple):
    """How an attempt ended, as the worker tells it. `output` and `data` are JSON bytes or None."""

    job_id: str
    node: str
    item: int
    epoch: int
    attempt: int
    outcome: str
    started_at: float
    output: bytes | None = None
    data: bytes | None = None
    owner: int = 0
    """Whom to wake; whose inbox the report goes to is for the store to know."""
    alone: bool = False
    """The attempt died in a process of its own: nothing else can have killed it."""


class WorkerIdentity(NamedTuple):
    worker_id: int
    name: str


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


class Wide(NamedTuple):
    """A wide job that others wait beside: their signals come first, then at most `limit` of its own."""

    job_id: str
    limit: int


LEFT_OUT = ("failed", "skipped")
GATHERED = ("completed", *LEFT_OUT)
"""How items may have ended of which a fan-in tells: it lists those that it leaves out."""


class Gathered(NamedTuple):
    """How an item of a fan-out ended; its output and the size of that as JSON."""

    item: int
    status: str
    output: Any
    size_bytes: int


class ItemResult(NamedTuple):
    """The output of a completed item as JSON, or where that is too large, its digest."""

    item: int
    output: bytes | None
    output_ref: str | None


class OpenedGates(NamedTuple):
    """Whether workers may find something behind a gate now, and the breakers that are not closed, each until when."""

    may_find: bool
    shut: dict[str, float | None]


class Examined(NamedTuple):
    """What the rows of a job say, whatever its owner believes."""

    counts: dict[str, TaskCounts]
    unqueued: list[UnqueuedTask]
    ended: dict[str, EndedTask]


class Opened(NamedTuple):
    """What an owner finds at the start of a cycle.

    `claimed` are jobs that had no owner, locked until the commit; `signals` are theirs and those of the jobs
    that are owned already, oldest first; those of a wide job come last.
    """

    now: float
    claimed: list[JobRow]
    signals: list[SignalRow]
    accepted: frozenset[int] = frozenset()
    """Which reports of a handover were accepted, by their place."""


class Committed(NamedTuple):
    """What a commit gave to the worker of a handover, and whether it left work for others."""

    leases: list[Lease]
    work_left: bool


class Cycle(Protocol):
    """One transaction of an owner. What is neither committed nor rolled back is undone by the next `open`."""

    async def open(
        self,
        claim_limit: int,
        drain_limit: int,
        aside: Sequence[str] = (),
        handover: Handover | None = None,
        wide: Wide | None = None,
        *,
        is_hurried: bool = False,
    ) -> Opened:
        """Lock the owner's own row, claim new jobs, read waiting signals; of jobs that were set aside only those that
        a person or the janitor has sent.

        The reports of a handover are taken first, as if the worker had reported, but inside this transaction.
        Raises Fenced if someone took over, Locked if another session keeps the owner's own row locked, and
        HistoryChanged if what the owner remembers may not be what is here. A hurried cycle waits hardly at all for rows
        that are locked.
        """
        ...

    async def owned(self, after: str | None, limit: int) -> list[str]:
        """The next open jobs of this owner behind `after`, by id."""
        ...

    async def with_full_output(self, report: SignalRow) -> SignalRow:
        """The report of a node's own task with its output, where that was too large for its row."""
        ...

    async def load(self, job_ids: Sequence[str]) -> tuple[list[JobRow], list[NodeRow]]:
        """Jobs that belong to the owner, with the nodes that have begun."""
        ...

    async def breakers(self, names: Sequence[str]) -> list[Breaker]:
        """Those that are known, locked until the commit."""
        ...

    async def examine(self, job_ids: Sequence[str]) -> dict[str, Examined]:
        """The tasks, queue rows and unread reports of jobs of which this cycle has written nothing yet."""
        ...

    async def select(
        self, job_id: str, request: Request, enqueued: int, batches: Sequence[BatchesAsked] = ()
    ) -> dict[str, Selected]:
        """What the rows say of the tasks that a verb names, by node; of ready ones it means those below `enqueued`.

        What is asked of batches is answered under the name of their fan-in.
        """
        ...

    async def results(
        self, job_id: str, node: str, after: int, statuses: Sequence[str] = GATHERED
    ) -> tuple[list[Gathered], bool]:
        """A node's next items behind `after` that ended so, in item order, and whether there may be more."""
        ...

    async def write(self, batch: Batch) -> None:
        """Apply a batch before something inside the same transaction needs to see it."""
        ...

    async def withdraw(self, withdrawals: Sequence[WithdrawTasks]) -> dict[str, dict[str, list[int]]]:
        """End tasks that wait in the queue; returns job -> node -> items that are terminal now."""
        ...

    async def commit(self, batch: Batch, handover: Handover | None = None) -> Committed:
        """Apply a batch, make all durable, then wake the workers if it makes work for them.

        The worker of a handover gets its next leases in the same transaction. LostRace: the outcome is unknown,
        forget everything and reload.
        """
        ...

    async def rollback(self) -> None: ...


class NewJob(NamedTuple):
    """A submission that has passed all checks."""

    job_id: str
    tenant: str
    workflow_id: str
    version: str
    definition_hash: str
    definition: bytes
    identity: str
    body_hash: str
    inputs: dict[str, Any]
    priority: int = 0
    force: bool = False
    """Make a job although the same submission has made one before; the new one is its next run."""


class SubmitAnswer(NamedTuple):
    """The answer to a submission: the job that now stands for its identity, and whether it is new."""

    job_id: str
    created: bool
    same_body: bool
    status: str
    run: int
    result: Any
    version: str


class Store(Protocol):
    """Everything outside an owner's cycle; each call is one transaction of its own."""

    async def submit(self, jobs: Sequence[NewJob]) -> list[SubmitAnswer]:
        """Insert jobs whose identity is free, and forced ones; an equal submission answers with the newest job.

        A forced job is the next run of its identity and knows the one before; another body is refused to it, too.
        """
        ...

    async def definition(self, definition_hash: str) -> bytes:
        """The canonical JSON of a definition that some job has pinned."""
        ...

    async def register_orchestrator(self, name: str, lease_seconds: float, only_job: str | None = None) -> int:
        """With `only_job` it drives that job and takes no other."""
        ...

    async def renew_orchestrator(self, orchestrator_id: int, lease_seconds: float) -> bool:
        """False if the row was ended by someone else: everything that was owned is lost."""
        ...

    async def end_orchestrator(self, orchestrator_id: int) -> None:
        """Hand everything over at once."""
        ...

    async def take_over(self, orchestrator_id: int, limit: int) -> dict[str, str]:
        """End orchestrators whose lease has run out and take up to `limit` of the jobs of ended ones.

        Returns the jobs, each with the name of its former owner.
        """
        ...

    async def dangers(self, patience_seconds: float) -> Dangers:
        """Note the jobs in whose cycles orchestrators died, and return all that are known.

        A job of which no orchestrator has died for that long is a suspect again.
        """
        ...

    async def note_open_cycle(self, orchestrator_id: int, job_ids: Sequence[str]) -> None:
        """The jobs of a cycle that is about to be decided, for those who come after if we die of it."""
        ...

    async def forget_open_cycle(self, orchestrator_id: int) -> None:
        """The cycle came to nothing, and we live."""
        ...

    async def is_locked_out(self, orchestrator_id: int) -> bool:
        """Whether another session keeps this orchestrator's own row locked: no cycle can begin."""
        ...

    async def inherit(self, orchestrator_id: int, former: int, limit: int) -> dict[str, str]:
        """Take up to `limit` of the jobs of an orchestrator that this process was: its row cannot be ended just now."""
        ...

    async def set_aside(self, job_id: str, orchestrator_id: int, problem: str) -> None:
        """Tell people why nothing happens with a job; its owner, or anyone if it has none, may say so."""
        ...

    def cycle(self, orchestrator_id: int) -> Cycle: ...

    async def declare_breakers(self, breakers: Sequence[BreakerRules]) -> None:
        """Make breakers known; one that exists keeps its state."""
        ...

    async def open_gates(self) -> OpenedGates:
        """Let breakers be tried whose cooldown is over."""
        ...

    async def sweep_inbox(self) -> int:
        """Hand signals whose owner is dead or changed to the right one; returns how many."""
        ...

    async def raise_floors(self) -> int:
        """Let claims pass over what is long gone; returns how many lanes moved. Changes no answer, only its price."""
        ...

    async def wake_due(self) -> int:
        """Make queue rows claimable whose time has come."""
        ...

    async def follow_clock(self, lease_seconds: float) -> int:
        """The clock may have stepped back: what is further away than its own time, counted from now, comes nearer.

        Returns how many rows did. A leader of so long a lease is given that.
        """
        ...

    async def expire(self) -> int:
        """Turn leases that ran out, and rows that waited past their limit, into reports; returns how many."""
        ...

    async def register_worker(
        self,
        name: str,
        queues: Sequence[str] | None,
        handlers: Sequence[str],
        concurrency: int,
        lease_seconds: float,
    ) -> WorkerIdentity: ...

    async def renew_worker(
        self, worker: WorkerIdentity, lease_seconds: float, held: Sequence[tuple[str, str, int, int]]
    ) -> list[tuple[str, str, int, int]] | None:
        """Those of the held leases that are still ours; None if the worker itself was declared gone."""
        ...

    async def release_strays(self, worker: WorkerIdentity, held: Sequence[tuple[str, str, int, int]]) -> int:
        """Give back the leases of this worker that it does not hold. None of its claims may be under way."""
        ...

    async def end_worker(self, worker: WorkerIdentity) -> None: ...

    async def report(self, worker: WorkerIdentity, reports: Sequence[Report]) -> int:
        """Hand in reports; those whose lease is no longer held change nothing. Returns how many were taken."""
        ...

    async def claim(
        self, worker: WorkerIdentity, queues: Sequence[str] | None, handlers: Sequence[str], limit: int
    ) -> list[Lease]:
        """Lease up to `limit` tasks by priority, rank and age."""
        ...

    async def job_facts(self, job_ids: Sequence[str]) -> dict[str, JobFacts]:
        """What handlers may ask of these jobs."""
        ...

    async def results_page(self, job_id: str, node: str, after: int, until: int, limit: int) -> list[ItemResult] | None:
        """The next completed items between `after` and `until`, both left out; an empty page is the last one.

        A node's own task counts as item -1. None: there is no such node, or it has not ended.
        """
        ...

    async def save_checkpoint(self, worker: WorkerIdentity, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        """Keep a checkpoint if the lease is still held."""
        ...

    async def send(self, job_id: str, kind: str, actor: str, reason: str, data: dict[str, Any] | None = None) -> int:
        """Put a person's signal into a job's inbox; returns its id."""
        ...

    async def answer(self, signal_id: int) -> SignalAnswer | None:
        """What the owner answered, or None while it has not."""
        ...
