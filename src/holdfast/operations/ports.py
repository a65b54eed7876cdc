"""What operations need from outside: a store that takes submissions and signals, and that people can read.

The composition root passes the implementations in; `store/postgres.py` has the one on Postgres. Operations know no
database. Every call may raise Unreachable: then its outcome is unknown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol

from holdfast.core.advising import Advice
from holdfast.core.breaking import Breaker
from holdfast.core.plans import Plan, Refusal
from holdfast.core.signals import Request
from holdfast.core.states import JobState
from holdfast.janitor.ports import JanitorStore, PruneStore
from holdfast.sql_files import Migration
from holdfast.store.fleet import Fleet, OrchestratorView
from holdfast.store.interface import SubmissionStore
from holdfast.store.locks import LockHolder
from holdfast.store.read_rows import (
    ArtifactView,
    AttemptView,
    BreakerView,
    EventView,
    FailedItems,
    JobCount,
    JobDiagnosis,
    JobLine,
    LimitView,
    LongTransaction,
    QueueCount,
    ServerFacts,
    Snapshot,
    Stages,
    TaskRow,
    UnreadSignals,
)
from holdfast.store.records import SignalAnswer
from holdfast.store.schema import SchemaStatus


class PlanningLook(Protocol):
    """A job as one transaction sees it."""

    @property
    def state(self) -> JobState: ...

    @property
    def now(self) -> float:
        """When that was, by the store's clock."""
        ...

    async def plan(self, request: Request) -> Plan | Refusal:
        """The plan that the owner would make of the verb now."""
        ...


class ReadStore(Protocol):
    """What can be read of the jobs of one tenant, or of all. Never writes.

    Nothing of another tenant's job is found. Only `advice` does not look at the tenant: ask it for jobs that exist.
    """

    async def find_job(self, text: str) -> str:
        """The id of a job, from its id or from an ending that no other job has."""
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

    async def jobs(
        self,
        limit: int,
        *,
        before: str | None = None,
        statuses: Sequence[str] | None = None,
        workflow_id: str | None = None,
        identity: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[JobLine]:
        """The newest jobs, newest first: those older than the job `before`, and those that fit the filters."""
        ...

    async def tasks(
        self, job_id: str, *, node: str | None, status: str | None, after: tuple[str, int], limit: int
    ) -> list[TaskRow]:
        """One page of a job's tasks after that node and item."""
        ...

    async def count_jobs(self, since: datetime | None) -> list[JobCount]:
        """How many jobs there are of each workflow with each status."""
        ...

    async def count_queue(self) -> QueueCount:
        """How many tasks wait in the queue, and how many run."""
        ...

    def events(self, job_id: str, after: int = 0, node: str | None = None) -> AsyncIterator[EventView]:
        """The events of a job that have happened so far."""
        ...

    async def attempts(self, job_id: str, node: str | None, item: int | None, limit: int) -> list[AttemptView]:
        """Attempts that failed or printed something, oldest first."""
        ...

    async def retries(self, job_id: str) -> int:
        """How many attempts failed or were lost and were followed by another."""
        ...

    async def failed_items(self, job_id: str, node: str) -> list[FailedItems]:
        """The failed items of a fan-out, those that failed in the same way together."""
        ...

    async def outputs(self, job_id: str, nodes: Iterable[str] | None = None) -> dict[str, Any]:
        """The outputs of these nodes, or of all that have begun, by name."""
        ...

    async def artifacts(self, job_id: str) -> list[ArtifactView]:
        """The files that the job's tasks have published, by node, item and name."""
        ...

    async def orchestrators(self, job_id: str | None = None) -> list[OrchestratorView]:
        """The live orchestrators that would drive this job, or any job."""
        ...

    async def fleet(self) -> Fleet:
        """The processes that serve the database, for all tenants, and the work that none of them serves."""
        ...

    async def now(self) -> float:
        """The time by the store's clock."""
        ...


class GateStore(Protocol):
    """Breakers and limits, as people see and change them. Each change wakes the workers."""

    async def breakers(self, tenant: str) -> list[BreakerView]:
        """All breakers that workflows of a tenant have declared, by name."""
        ...

    async def change_breaker(
        self, tenant: str, name: str, change: Callable[[Breaker, float], None], actor: str
    ) -> BreakerView:
        """Change a breaker under its lock. `change` gets the breaker and the time; it may raise to change nothing."""
        ...

    async def limits(self) -> list[LimitView]:
        """All limits: those that workflows have declared, and those that people have set."""
        ...

    async def set_limit(
        self,
        tenant: str,
        name: str,
        actor: str,
        *,
        concurrency: int | None = None,
        rate: float | None = None,
        burst: int | None = None,
        backlog: int | None = None,
    ) -> LimitView:
        """Set a limit; values that are None stay. A limit that workflows declare must exist already."""
        ...

    async def drop_limit(self, tenant: str, name: str) -> LimitView:
        """Remove the limit that a person has set; returns it as it was."""
        ...


class OperationsStore(SubmissionStore, Protocol):
    """All that operations ask of a database whose schema is current."""

    @property
    def url(self) -> str:
        """Where the database is."""
        ...

    @property
    def payload_limit_bytes(self) -> int:
        """The largest size of a value."""
        ...

    async def newest_definition(self, tenant: str, workflow_id: str) -> bytes | None:
        """The definition of that id that was registered last, or None."""
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
    ) -> int:
        """Put a person's signal into the inbox of a job, of that tenant if one is named; returns the signal's id."""
        ...

    async def answer(self, signal_id: int, *, tenant: str | None = None) -> SignalAnswer | None:
        """What the owner answered to a signal, of that tenant if one is named; None while it has not."""
        ...

    def reads(self, tenant: str | None = None) -> ReadStore:
        """What can be read of the jobs of that tenant, or of all."""
        ...

    def gates(self) -> GateStore: ...

    def pruning(self) -> PruneStore: ...

    def janitor(self) -> JanitorStore: ...


class Installation(Protocol):
    """The database itself, as an operator sees it. It may have no schema yet."""

    async def migrate(self) -> list[Migration]:
        """Apply the migrations that the database lacks; returns those that were applied now."""
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
