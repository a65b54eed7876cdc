"""What a worker over HTTP sees: its registration, its tasks, and what the service does with its reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holdfast.views.encoding import VERBATIM


@dataclass(frozen=True, slots=True)
class Registration:
    """A worker that was registered."""

    worker_id: int
    name: str
    tenant: str | None
    """Whose tasks it gets; null: those of all tenants."""
    lease_seconds: float
    """How long it lives after each renewal. Renew three times as often."""
    payload_inline_bytes: int
    """Up to this size a value is best sent in its report. Store a larger one as an object."""
    payload_limit_bytes: int
    """The largest size of a value."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The last checkpoint of a task."""

    name: str
    data: Any = field(metadata=VERBATIM)


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """A text in params that refers to secrets: the worker replaces each `{{ secrets.NAME }}` there, and no other."""

    path: tuple[Any, ...]
    """The keys and numbers that lead to the text, within the task's own params."""
    names: tuple[str, ...]
    """The names in the order in which they stand there."""


@dataclass(frozen=True, slots=True)
class ClaimedTask:
    """A task that the worker holds now."""

    lease: str
    """Shows that the worker holds the task; send it with all that concerns it."""
    handler: str
    params: Any = field(metadata=VERBATIM)
    inputs: Any = field(metadata=VERBATIM)
    """Those of the job; null if the claim asks for them once."""
    attempt: int
    """Counted from 1."""
    resume_point: ResumePoint | None
    """Where an earlier attempt has got to."""
    timeout_seconds: float
    """How long the attempt may take from its beginning on."""
    deadline: datetime
    """When the lease ends at the latest, by the database's clock."""
    job_id: str
    node: str
    index: int | None
    """Of an item; null for the node's own task."""
    epoch: int
    generation: int
    definition_hash: str
    """Of the definition that the job follows."""
    job_traceparent: str | None
    """The place in a trace from which the job was submitted."""
    tenant: str
    correlation_id: str | None
    external_ids: Any
    traceparent: str | None
    """The place of the task in the trace of its job: the span of an attempt lies below it."""
    checkpoint_seq: int
    """The number of the last checkpoint; the next one has the next number."""
    suspect: bool
    """A worker has died with it: run it in a process of its own."""
    undo: bool
    """The handler undoes the task: `params` has the task's own under `params`, and its output under `output`."""
    owner: int
    """The orchestrator that drives the job."""
    params_ref: str | None
    """The digest of params that are too large to come along; `params` is null then."""
    output_ref: str | None
    """The same of an output that is undone."""
    secrets: tuple[SecretPlace, ...]
    """Where the params refer to secrets. The service has no values."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The tasks that a claim got, and the fate of each report that came with it."""

    tasks: tuple[ClaimedTask, ...]
    reports: tuple[str, ...]
    """For each report: `taken`, `rejected`, or `locked`: send it again."""
    claimed_at: int
    """Send it back with the next renewal: what was claimed until then and the renewal does not list goes back."""
    inputs: Any = field(default=None, metadata=VERBATIM)
    """Those of each job, by its id, if the claim asks for them once."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The fates of reports."""

    reports: tuple[str, ...]
    """For each report: `taken`, `rejected`, or `locked`: send it again."""


@dataclass(frozen=True, slots=True)
class Callback:
    """The fate of a report."""

    result: str
    """`taken`, `rejected`, or `locked`: send it again."""


@dataclass(frozen=True, slots=True)
class RenewedWorker:
    """A lease that was renewed, and what has happened to the tasks that the worker listed."""

    lost: tuple[Any, ...]
    """The worker does not hold them any more: stop them, and report nothing. Each as it was listed."""
    cancelled: tuple[Any, ...]
    """A person has cancelled their jobs: end them, and give them back. Each as it was listed."""
    may_begin: tuple[Any, ...]
    """Those of `begin` that may begin."""


@dataclass(frozen=True, slots=True)
class Left:
    """A worker that has ended."""

    worker_id: int


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """Whether a checkpoint was stored."""

    saved: bool
    """false: the worker does not hold the lease any more."""


@dataclass(frozen=True, slots=True)
class Noted:
    """How much of what was sent has been noted: only what belongs to leases of the worker."""

    noted: int


@dataclass(frozen=True, slots=True)
class ItemOutput:
    """The output of a completed item."""

    index: int
    """-1: the node's own task."""
    output: Any = field(metadata=VERBATIM)
    output_ref: str | None
    """The digest of an output that is too large to come along; `output` is null then."""


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """The definition that a job follows."""

    definition_hash: str
    definition: Any = field(metadata=VERBATIM)


@dataclass(frozen=True, slots=True)
class BreakerSight:
    """A breaker, as a handler sees it before it calls the dependency."""

    is_open: bool
    """Do not call: end the attempt with a failure whose `down` names the breaker."""
    rules: Any = field(metadata=VERBATIM)
    """What counts as a failed call."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A breaker to probe."""

    breaker: str | None
    """null: none is due."""
    rules: Any = field(metadata=VERBATIM)
    """What to call."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object that was stored."""

    digest: str
    bytes: int
