"""What operations need from outside: a store that takes submissions and signals, and that people can read.

The composition root passes the implementations in; `store/postgres.py` has the one on Postgres. Operations know no
database. Every call may raise Unreachable: then its outcome is unknown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol

from holdfast.core.advising import Advice
from holdfast.define.definition import Definition
from holdfast.errors import BacklogFull
from holdfast.janitor.ports import JanitorStore, PruneStore
from holdfast.operations.audit_ports import AuditStore
from holdfast.operations.data_ports import DataStore, OutputReads
from holdfast.operations.definition_ports import DefinitionStore
from holdfast.operations.gate_ports import GateStore
from holdfast.operations.identity_ports import IdentityStore
from holdfast.operations.job_read_ports import JobReadStore
from holdfast.operations.looks import CorrectingLook, PlanningLook
from holdfast.operations.notify_ports import HasNotifications
from holdfast.operations.oversight_ports import FigureStore, OversightStore
from holdfast.operations.request_ports import RequestStore
from holdfast.operations.schedule_ports import HasSchedules
from holdfast.operations.stream_ports import StreamStore
from holdfast.operations.work_ports import WorkStore
from holdfast.sql_files import Migration
from holdfast.store.audit_rows import Origin
from holdfast.store.fleet import Fleet, OrchestratorView
from holdfast.store.interface import SubmissionStore
from holdfast.store.job_filter import JobFilter, Wanted
from holdfast.store.locks import LockHolder
from holdfast.store.read_rows import (
    AcknowledgementRow,
    AttemptView,
    DefaultRow,
    EndedJobs,
    EventView,
    JobCount,
    JobDiagnosis,
    JobLines,
    LongTransaction,
    OpenJobLine,
    Pin,
    QueueCount,
    QueueLine,
    ServerFacts,
    Snapshot,
    Stages,
    UnreadSignals,
    WorkflowLine,
)
from holdfast.store.records import KnownDefaults, NewJob, SignalAnswer, SubmitAnswer
from holdfast.store.schedule_rows import Registered, ScheduleRow
from holdfast.store.schema import SchemaStatus, TableSize


class ReadStore(DataStore, Protocol):
    """What can be read of the jobs of one tenant, or of all. Never writes.

    Nothing of another tenant's job is found. Only `advice` does not look at the tenant: ask it for jobs that exist.
    """

    async def find_job(self, text: str) -> str:
        """The id of a job, from its id, from an ending that no other job has, or from `last`: the newest."""
        ...

    async def snapshot(self, job_id: str, *, whole: bool = True) -> Snapshot:
        """The job as it is now; without `whole` inputs, result and advice are left out."""
        ...

    async def advice(self, job_id: str) -> tuple[Advice, ...]:
        """Which verbs would continue a job that has ended, the best first."""
        ...

    async def stages(self, job_ids: Sequence[str]) -> dict[str, Stages]:
        """The first stage that failed, and those that completed, of each job whose definition can be read."""
        ...

    async def diagnosis(self, job_id: str) -> JobDiagnosis:
        """The job as it is now, with everything that may keep it from continuing."""
        ...

    def planning(self, job_id: str) -> AbstractAsyncContextManager[PlanningLook]:
        """A look at the job that can plan verbs for as long as it is open."""
        ...

    def correcting(self, job_id: str) -> AbstractAsyncContextManager[CorrectingLook]:
        """The same for a job that a person corrects."""
        ...

    async def jobs(self, limit: int, *, before: str | None = None, only: JobFilter | None = None) -> JobLines:
        """One page of jobs, newest first: those older than the job `before`, and those that fit the filter."""
        ...

    async def find_jobs(self, limit: int, wanted: Wanted, *, before: str | None = None) -> JobLines:
        """One page of the jobs that a mark or a published file points to, newest first."""
        ...

    async def open_jobs(
        self, workflow_id: str | None = None, job_ids: Sequence[str] | None = None
    ) -> list[OpenJobLine]:
        """The jobs that have not ended, or those of one workflow, or those among some jobs, oldest first."""
        ...

    async def workflow_ids(self) -> list[str]:
        """The ids of all workflows of the tenant."""
        ...

    async def workflows(self) -> list[WorkflowLine]:
        """The definition of each workflow of the tenant that was registered last, by id."""
        ...

    async def queues(self) -> list[QueueLine]:
        """The tasks of the tenant, by queue."""
        ...

    async def ended_by_hour(self, since: datetime) -> list[EndedJobs]:
        """How many jobs ended since that time, by hour; hours without any are left out."""
        ...

    async def count_jobs(self, since: datetime | None) -> list[JobCount]:
        """How many jobs there are of each workflow with each status."""
        ...

    async def count_queue(self) -> QueueCount:
        """How many tasks wait in the queue, and how many run."""
        ...

    async def pins(self, job_id: str) -> list[Pin]:
        """What the job follows, from each generation on at which that changed, the first one first."""
        ...

    def events(self, job_id: str, after: int = 0, node: str | None = None) -> AsyncIterator[EventView]:
        """The events of a job that have happened so far."""
        ...

    async def attempts(self, job_id: str, node: str | None, item: int | None, limit: int) -> list[AttemptView]:
        """Attempts that failed or printed something, oldest first."""
        ...

    async def retries(self, job_id: str) -> tuple[int, int]:
        """How many attempts failed or were lost and were followed by another, and how many of these were lost."""
        ...

    async def outputs(self, job_id: str, nodes: Iterable[str] | None = None) -> dict[str, Any]:
        """The outputs of these nodes, or of all that have begun, by name."""
        ...

    async def orchestrators(self, job_id: str | None = None) -> list[OrchestratorView]:
        """The live orchestrators that would drive this job, or any job."""
        ...

    async def fleet(self) -> Fleet:
        """The processes that serve the database, with what they do for the tenant, and the work that none serves."""
        ...

    async def now(self) -> float:
        """The time by the store's clock."""
        ...


class DefaultsStore(Protocol):
    """The defaults of a tenant, as people see and change them."""

    async def read(self, tenant: str) -> list[DefaultRow]:
        """What people have set or reset, by name."""
        ...

    async def change(
        self, tenant: str, decide: Callable[[Mapping[str, Any]], Mapping[str, Any]], actor: str, reason: str
    ) -> list[DefaultRow]:
        """Change defaults, all or none, while no other change runs; returns all as they are now.

        `decide` gets the values that are set, by name, and returns those to write; None resets one. It may raise to
        change nothing.
        """
        ...


class OperationsStore(HasNotifications, HasSchedules, SubmissionStore, WorkStore, Protocol):
    """All that operations ask of a database whose schema is current."""

    @property
    def url(self) -> str:
        """Where the database is."""
        ...

    @property
    def payload_limit_bytes(self) -> int:
        """The largest size of a value."""
        ...

    def known_defaults(self, tenant: str) -> KnownDefaults:
        """The defaults of a tenant, as far as this process knows.

        `submit` raises DefaultsChanged and makes no job if they are others by now; then this process knows them.
        """
        ...

    async def submit_each(self, jobs: Sequence[NewJob]) -> list[SubmitAnswer | BacklogFull]:
        """The same as `submit`. One that a full backlog refuses has the refusal as its answer, and stops no other."""
        ...

    async def newest_definition(self, tenant: str, workflow_id: str) -> bytes | None:
        """The definition of that id that was registered last, or None."""
        ...

    async def register(
        self,
        tenant: str,
        definition: Definition,
        actor: str,
        origin: Origin = ...,
        apply: Callable[[ScheduleRow | None, int, datetime], ScheduleRow | None] | None = None,
    ) -> Registered:
        """Make a definition the current one of its id; `apply` changes the schedule of that name with it."""
        ...

    async def acknowledge(
        self, tenant: str, job_id: str, actor: str, reason: str, origin: Origin = ...
    ) -> AcknowledgementRow | None:
        """Note that a person has seen a failed or partial job; None if the tenant has no such job."""
        ...

    async def send(
        self,
        job_id: str,
        kind: str,
        actor: str,
        reason: str,
        data: dict[str, Any] | None = None,
        *,
        tenant: str | None = None,
        origin: Origin = ...,
    ) -> int:
        """Put a person's signal into the inbox of a job, of that tenant if one is named; returns the signal's id."""
        ...

    async def send_many(
        self, job_ids: Sequence[str], kind: str, actor: str, reason: str, *, tenant: str, origin: Origin = ...
    ) -> dict[int, str]:
        """Put the same signal into the inboxes of jobs that have not ended; returns the job of each signal."""
        ...

    async def answers(self, signal_ids: Sequence[int]) -> dict[int, SignalAnswer]:
        """What the owners have answered so far to these signals."""
        ...

    async def answer(self, signal_id: int, *, tenant: str | None = None) -> SignalAnswer | None:
        """What the owner answered to a signal, of that tenant if one is named; None while it has not."""
        ...

    def reads(self, tenant: str | None = None) -> ReadStore:
        """What can be read of the jobs of that tenant, or of all."""
        ...

    def output_reads(self, tenant: str | None = None) -> OutputReads:
        """What attempts of the jobs of that tenant have printed, or of all."""
        ...

    def job_reads(self, tenant: str) -> JobReadStore:
        """The details of the jobs of a tenant."""
        ...

    def definitions(self, tenant: str) -> DefinitionStore:
        """The definitions of a tenant, as people see them."""
        ...

    def requests(self, tenant: str) -> RequestStore:
        """The requests of a tenant that have a key, and its signals."""
        ...

    def streams(self) -> StreamStore: ...

    def oversight(self, tenant: str | None) -> OversightStore: ...

    def figures(self, tenant: str | None) -> FigureStore: ...

    def gates(self, origin: Origin = ...) -> GateStore: ...

    def defaults(self, origin: Origin = ...) -> DefaultsStore: ...

    def identities(self, origin: Origin = ...) -> IdentityStore: ...

    def audit(self) -> AuditStore: ...

    def pruning(self) -> PruneStore: ...

    def janitor(self) -> JanitorStore: ...


class Installation(Protocol):
    """The database itself, as an operator sees it. It may have no schema yet."""

    async def migrate(self) -> list[Migration]:
        """Apply the migrations that the database lacks; returns those that were applied now."""
        ...

    async def admit_operators(self) -> bool:
        """Let operators use the functions for people. False: there is no role for them, and we may not make it."""
        ...

    async def tables(self) -> list[TableSize]:
        """The tables of the schema, with their rows and their sizes."""
        ...

    async def rebuild(self, confirm: str, *, while_jobs_are_open: bool = True) -> None:
        """Drop the schema with all jobs and make it again. Refused unless `confirm` is the name of the database."""
        ...

    async def refuse_shared_sessions(self) -> None:
        """Unreachable if the database does not answer, or if a pooler lends our session to others."""
        ...

    async def server_facts(self) -> ServerFacts: ...

    async def write_problem(self) -> str | None:
        """Why nothing can be written now; None if it can."""
        ...

    async def schema(self) -> SchemaStatus:
        """Which migrations the database has and lacks. The methods below need a current schema."""
        ...

    async def fleet(self) -> Fleet:
        """The processes that serve the database, and the work that none of them serves."""
        ...

    async def unread_signals(self, seconds: float) -> UnreadSignals:
        """How many signals have waited longer than that, and since when the oldest."""
        ...

    async def long_transactions(self, seconds: float) -> list[LongTransaction]:
        """The transactions that have been open longer than that."""
        ...

    async def lock_holders(self) -> list[LockHolder]:
        """Sessions that keep rows of our tables locked."""
        ...
