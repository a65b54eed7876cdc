"""What travels between a store and its users, as plain records.

Times are seconds since 1970 by the database's clock. JSON values travel as Python values or, where nothing looks into
them, as JSON bytes.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from holdfast.core.failing import Failure
from holdfast.core.signals import REQUEST_ID, EndedTask, TaskCounts, UnqueuedTask
from holdfast.define.gates import DEFAULT_TENANT
from holdfast.define.source import DefinitionText
from holdfast.remedies import Remedy

FIRST_JOB = str(uuid.UUID(int=0))
"""An id before that of every job: where a walk over jobs begins."""
ANYBODY = 0
"""The owner of a signal whose job has no owner yet: one orchestrator of each process is enough to look at it."""
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
    error: Failure | None
    created_at: float
    started_at: float | None
    deadline_at: float | None
    stop_cause: str | None
    stop_until: float | None
    stop_leases_ended: bool
    stop_signal: int | None
    holds: list[dict[str, Any]]
    last_seq: int
    recovered_at: float | None = None
    undo: dict[str, Any] | None = None
    notify: list[dict[str, Any]] | None = None
    traceparent: str | None = None


class NodeRow(NamedTuple):
    """A node of a job; nodes that never began have no row."""

    job_id: str
    node: str
    status: str
    reason: str | None
    importance: str
    output: Any
    error: Failure | None
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
    matching: dict[str, Any] | None = None
    undo: dict[str, Any] | None = None


class PlanRow(NamedTuple):
    """The plan of a correction: what the job is to have from its next generation on, and what that means for it."""

    plan_id: str
    job_id: str
    generation: int
    last_seq: int
    definition_hash: str
    inputs: dict[str, Any]
    content: dict[str, Any]


ASKED_KINDS = ("cancel", "pause", "unpause", "recover", "recheck")
"""Signals of people and of the janitor. Owners read them also for jobs that are set aside."""


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
    def request_id(self) -> str | None:
        """The HTTP request that sent it; the events that it causes name it."""
        return (self.data or {}).get(REQUEST_ID)

    @property
    def is_asked(self) -> bool:
        """Whether a person or the janitor sent it."""
        return self.kind in ASKED_KINDS

    @property
    def lacks_its_output(self) -> bool:
        return self.data is not None and "output_ref" in self.data and self.item == -1


class SignalAnswer(NamedTuple):
    """What a job's owner answered to a person's signal."""

    applied: bool
    reason: str
    remedy: Remedy | None = None
    """What else can be done, if the signal was refused."""


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
    is_undo: bool = False
    """It undoes what the task has done: `params` has the task's own under `params`, and its output under `output`."""
    output_ref: str | None = None
    """The digest of an output that is undone and too large for a row."""
    secrets: tuple[tuple[tuple[str | int, ...], tuple[str, ...]], ...] = ()
    """For a worker that cannot read the definition: where the params refer to secrets, and their names in order."""


class JobFacts(NamedTuple):
    """What a handler may ask of its job, and where the contracts of the job stand."""

    generation: int
    inputs: dict[str, Any]
    definition_hash: str = ""
    tenant: str = DEFAULT_TENANT
    correlation_id: str | None = None
    external_ids: dict[str, str] | None = None
    traceparent: str | None = None
    """The place in a trace from which the job was submitted."""


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
    output_ref: str | None = None
    """The digest of an output that was too large for the row."""


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
    labels: dict[str, str] | None = None
    resolved: tuple[str, bytes] | None = None
    """The definition with the defaults of the installation filled in, and its hash, if there are any to fill in."""
    correlation_id: str | None = None
    external_ids: dict[str, str] | None = None
    callback_url: str | None = None
    notify: list[dict[str, Any]] | None = None
    """The rules of the submission's receivers, the callback included."""
    text: DefinitionText | None = None
    """The text from which the definition was read."""
    submitter: str | None = None
    request_id: str | None = None
    """The HTTP request that submits it; its first event names it."""
    """The identity that may cancel the job because it submitted it, if there is one."""
    defaults_mark: str | None = None
    """Which defaults these were. The store refuses the submission if they are others by now; None: any will do."""
    traceparent: str | None = None
    """The place in a trace from which it is submitted."""

    @property
    def pinned_hash(self) -> str:
        """The definition that the job pins; the one as written is registered."""
        return self.resolved[0] if self.resolved is not None else self.definition_hash

    @property
    def pinned(self) -> bytes:
        return self.resolved[1] if self.resolved is not None else self.definition


class KnownDefaults(NamedTuple):
    """The defaults of a tenant that people have set, by name, and a mark that changes with them."""

    mark: str = ""
    values: Mapping[str, Any] = MappingProxyType({})


class SubmitAnswer(NamedTuple):
    """The answer to a submission: the job that now stands for its identity, and whether it is new."""

    job_id: str
    created: bool
    same_body: bool
    status: str
    run: int
    result: Any
    version: str
    definition_hash: str | None = None
    """What a job that existed before has pinned."""
