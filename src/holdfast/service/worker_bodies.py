"""What workers over HTTP send. A worker may be any program: everything has its limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from holdfast.define.bounds import HANDLER_NAME, MAX_NAME_LENGTH
from holdfast.errors import FailureClass
from holdfast.operations.lease_tokens import MOST_TOKEN_LENGTH
from holdfast.operations.task_reports import TaskReport
from holdfast.service.bodies import Body

MOST_AT_ONCE = 10_000
MOST_HANDLERS = 10_000
LONGEST_LEASE_SECONDS, LONGEST_WAIT_SECONDS = 120.0, 30.0
LATEST_SECONDS = 4e9
"""Seconds since 1970 that are still a time."""
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_DIGEST = r"^[0-9a-f]{64}$"

Token = Annotated[str, Field(min_length=1, max_length=MOST_TOKEN_LENGTH)]
WorkerId = Annotated[int, Field(ge=1, le=2**48)]
Small = Annotated[int, Field(ge=-1, le=2**31 - 1)]
QueueName = Annotated[str, Field(pattern=HANDLER_NAME, max_length=MAX_NAME_LENGTH)]
HandlerName = Annotated[str, Field(min_length=1, max_length=200)]
Names = Annotated[
    tuple[Annotated[str, Field(pattern=_UUID)], Annotated[str, Field(max_length=200)], Small, Small],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]
Listed = Token | Names
"""A lease by its token, or by job, node, item (-1: the node's own task) and epoch."""
Times = Annotated[list[list[Annotated[int, Field(ge=0, le=2**53)]]], Field(max_length=2000)]


class Register(Body):
    """A worker that begins."""

    model_config = ConfigDict(json_schema_extra={"example": {"name": "maps-1", "handlers": ["maps.draw"]}})
    name: str = Field(min_length=1, max_length=200)
    """What people see."""
    handlers: list[HandlerName] = Field(min_length=1, max_length=MOST_HANDLERS)
    """The names of the handlers that it has; it gets only their tasks."""
    queues: list[QueueName] | None = Field(None, min_length=1, max_length=1000)
    """The queues that it serves; null: all of them."""
    concurrency: int = Field(1, ge=1, le=MOST_AT_ONCE)
    """How many tasks it runs at once."""
    version: str = Field("", max_length=100)
    """What people see as its version."""
    lease_seconds: float = Field(30.0, gt=0, le=LONGEST_LEASE_SECONDS)
    """How long it lives after each renewal."""
    registration_id: str | None = Field(None, min_length=1, max_length=200)
    """A random text of yours: the same again, because the answer was lost, is the same worker."""


class Failure(Body):
    """Why an attempt failed."""

    code: str = Field("HANDLER_ERROR", max_length=1000)
    """A code: capital letters, digits and `_`."""
    message: str = Field("", max_length=1_000_000)
    """What happened, for people."""
    failure_class: Literal["transient", "permanent"] | None = Field(None, alias="class")
    """Whether another attempt may succeed; null: the rules of the node say so."""
    declared_class: Literal["transient", "permanent"] | None = None
    """The same as the program declares it for its code: rules of the node count more."""
    exit_code: int | None = Field(None, ge=0, le=2**32)
    """Of a program that has failed."""
    retry_after_seconds: float | None = Field(None, ge=0, le=366 * 86_400)
    """Not before this time may it be tried again."""
    down: str | None = Field(None, max_length=1000)
    """The breaker of the dependency that is down."""


class File(Body):
    """A file that was stored before."""

    artifact: str = Field(min_length=1, max_length=1024)
    """Its name."""
    digest: str = Field(pattern=_DIGEST)
    """Its sha256."""
    bytes: int = Field(ge=0, lt=2**53)
    """Its size."""


class Extra(Body):
    """What a result has beside its output."""

    warnings: list[Any] = Field([], max_length=10_000)
    deliverables: dict[str, Any] = Field({})
    metrics: dict[str, Any] = Field({})


class SentReport(Body):
    """How an attempt has ended."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"lease": "…", "outcome": "done", "output": {"sheets": 12}}}
    )
    lease: Token
    """The lease of the task."""
    outcome: Literal["done", "failed", "given_back", "lost"]
    """`given_back`: the task goes back to the queue at no cost. `lost`: what ran it has died."""
    output: Any = None
    """The result of a task that is done."""
    output_ref: str | None = Field(None, pattern=_DIGEST)
    """Instead of `output`: the digest of a large one that was stored before."""
    failure: Failure | None = None
    """Why it failed, or what died."""
    started_at: float | None = Field(None, ge=0, le=LATEST_SECONDS)
    """When it began, in seconds since 1970; null: when it was claimed. Send the same one if you send a report again."""
    artifacts: list[File] = Field([], max_length=10_000)
    """The files that it publishes."""
    extra: Extra | None = None
    """Warnings, deliverables and metrics."""
    calls: dict[Annotated[str, Field(max_length=1000)], Annotated[list[bool], Field(max_length=1000)]] = Field({})
    """By breaker, for each call of that dependency: whether it failed."""
    log: str = Field("", max_length=1_000_000)
    """What it has printed."""
    log_times: Times = Field([])
    """The numbers of lines, each with its time in milliseconds since the beginning."""
    alone: bool = False
    """Of a lost one: it died in a process of its own, so that nothing else can be the reason."""

    def made(self) -> TaskReport:
        failure = self.failure or Failure()
        classes = {"class": failure.failure_class, "declared_class": failure.declared_class}
        details: dict[str, Any] = {
            "code": failure.code,
            "message": failure.message,
            **{name: FailureClass(one) if one is not None else None for name, one in classes.items()},
            "exit_code": failure.exit_code,
            "retry_after_seconds": failure.retry_after_seconds,
            "down": failure.down,
            "extra": self.extra.model_dump() if self.extra is not None else None,
            "artifacts": [one.model_dump() for one in self.artifacts],
            "calls": self.calls,
        }
        return TaskReport(
            self.lease,
            self.outcome,
            self.output,
            self.output_ref,
            self.started_at,
            details,
            self.log,
            self.log_times,
            self.alone,
        )


class Claim(Body):
    """The wish for tasks."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"worker_id": 123, "claim_id": "1", "free": 4, "wait_seconds": 20}}
    )
    worker_id: WorkerId
    claim_id: str = Field(min_length=1, max_length=200)
    """A text of yours that is another one for each claim. Send the same again if the answer was lost."""
    free: int = Field(ge=1, le=MOST_AT_ONCE)
    """How many tasks at most."""
    slots: int | None = Field(None, ge=0, le=MOST_AT_ONCE)
    """How many of them can begin at once; null: all. Tasks behind a breaker or a limit are given only to these."""
    wait_seconds: float = Field(0.0, ge=0, le=LONGEST_WAIT_SECONDS)
    """How long to wait for a task, if there is none and the claim brings no reports."""
    reports: list[SentReport] = Field([], max_length=MOST_AT_ONCE)
    """Reports that come along; they are handled first."""
    inputs_once: bool = False
    """Whether the inputs of each job come once in the answer, and not with each of its tasks: ask for that if you claim
    many tasks of jobs with large inputs."""


class Renew(Body):
    """A sign of life, with what the worker holds."""

    model_config = ConfigDict(json_schema_extra={"example": {"worker_id": 123, "leases": []}})
    worker_id: WorkerId
    leases: list[Listed] | None = Field(None, max_length=MOST_AT_ONCE)
    """Everything that the worker holds. What it has claimed before and does not list goes back; null: only renew."""
    claimed_at: int | None = Field(None, ge=0, le=2**53)
    """`claimed_at` of the last claim whose answer has arrived: what was claimed later stays. null: the last of
    `leases`."""
    begin: list[Listed] = Field([], max_length=MOST_AT_ONCE)
    """Tasks that have waited for a while since their claim. The answer says which of them may begin now."""
    changed_files: list[Annotated[str, Field(max_length=4096)]] | None = Field(None, max_length=10_000)
    """Files of handlers that have changed since the worker read them, for people."""


class Report(Body):
    """Reports of one worker."""

    worker_id: WorkerId
    reports: list[SentReport] = Field(min_length=1, max_length=MOST_AT_ONCE)


class Leave(Body):
    """A worker that ends."""

    model_config = ConfigDict(json_schema_extra={"example": {"worker_id": 123}})
    worker_id: WorkerId


class Checkpoint(Body):
    """A point from which a later attempt can continue."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"worker_id": 123, "lease": "…", "seq": 1, "name": "half", "data": {"page": 7}}}
    )
    worker_id: WorkerId
    lease: Token
    seq: int = Field(ge=1, lt=2**31)
    """Its number: one more than `checkpoint_seq` of the task, then one more each time."""
    name: str = Field(max_length=1000)
    data: Any = None


class OneProgress(Body):
    """How far an attempt has got."""

    lease: Token
    done: Any
    total: Any
    text: str = Field("", max_length=100_000)


class Printed(Body):
    """Lines that an attempt has printed."""

    lease: Token
    part: int = Field(ge=1, lt=2**31)
    """Its number, from 1."""
    started_at: float = Field(ge=0, le=LATEST_SECONDS)
    """When the attempt began, in seconds since 1970."""
    log: str = Field(max_length=1_000_000)
    log_times: Times = Field([])
    """The numbers of lines, each with its time in milliseconds since the beginning."""


class Progress(Body):
    """What running attempts show."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"worker_id": 123, "progress": [{"lease": "…", "done": 3, "total": 12}]}}
    )
    worker_id: WorkerId
    progress: list[OneProgress] = Field([], max_length=MOST_AT_ONCE)
    printed: list[Printed] = Field([], max_length=MOST_AT_ONCE)
    """What they have printed since the last time; a report has it all again."""
    ended: list[Token] = Field([], max_length=MOST_AT_ONCE)
    """Attempts that have reported: what they had printed before is deleted."""


class ProbeWish(Body):
    """The wish for a breaker to probe."""

    model_config = ConfigDict(json_schema_extra={"example": {"worker_id": 123}})
    worker_id: WorkerId
    seconds: float = Field(20.0, gt=0, le=600)
    """For how long no other worker probes it."""


class Probed(Body):
    """How a probe has ended."""

    worker_id: WorkerId
    breaker: str = Field(min_length=1, max_length=400)
    problem: str | None = Field(None, max_length=10_000)
    """What is wrong; null: the dependency works again."""
