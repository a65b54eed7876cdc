"""What clients, orchestrators and workers ask of a store. Postgres keeps these promises, and so does the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from holdfast.core.breaking import Breaker
from holdfast.core.effects import (
    WithdrawTasks,
)
from holdfast.core.signals import BatchesAsked, MatchedTask, Request, Selected
from holdfast.define.gates import BreakerRules
from holdfast.store.batch import Batch, Handover
from holdfast.store.dangers import Dangers
from holdfast.store.records import (
    GATHERED,
    Committed,
    Examined,
    Gathered,
    ItemResult,
    JobFacts,
    JobRow,
    Lease,
    NewJob,
    NodeRow,
    Opened,
    OpenedGates,
    PlanRow,
    Report,
    SignalAnswer,
    SignalRow,
    SubmitAnswer,
    Wide,
    WorkerIdentity,
)


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

    async def breakers(self, keys: Sequence[str]) -> list[Breaker]:
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

    async def plan_of_correction(self, job_id: str, plan_id: str) -> PlanRow | None:
        """The plan that a person wants to be carried out; None: it is gone."""
        ...

    async def item_keys(self, job_id: str, node: str) -> list[tuple[int, str]]:
        """The tasks of a fan-out, each with what its item is known by."""
        ...

    async def matched_tasks(self, job_id: str, node: str, items: Sequence[int]) -> dict[int, MatchedTask]:
        """These tasks of a fan-out as their rows say."""
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


class SubmissionStore(Protocol):
    """What clients need: jobs go in, people send signals. Each call is one transaction."""

    async def submit(self, jobs: Sequence[NewJob]) -> list[SubmitAnswer]:
        """Insert jobs whose identity is free, and forced ones; an equal submission answers with the newest job.

        A forced job is the next run of its identity and knows the one before; another body is refused to it, too.
        """
        ...

    async def definition(self, definition_hash: str) -> bytes:
        """The canonical JSON of a definition that some job has pinned."""
        ...

    async def keep_plan(self, plan: PlanRow, definition: bytes) -> None:
        """Keep the plan of a correction, and the definition that it brings, until its owner carries it out."""
        ...

    async def send(self, job_id: str, kind: str, actor: str, reason: str, data: dict[str, Any] | None = None) -> int:
        """Put a person's signal into a job's inbox; returns its id."""
        ...

    async def answer(self, signal_id: int) -> SignalAnswer | None:
        """What the owner answered, or None while it has not."""
        ...


class OwnerStore(Protocol):
    """What orchestrators need outside of a cycle. Each call is one transaction."""

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

    async def declare_breakers(self, tenant: str, breakers: Sequence[BreakerRules]) -> None:
        """Make breakers of a tenant known; one that exists keeps its state."""
        ...

    async def subscriptions(self) -> dict[str, frozenset[str]]:
        """The events that the webhooks of each tenant subscribe to; tenants without any are left out.

        `EVERY_TENANT` stands for all: the ends of their jobs, if any process has made a hook known.
        """
        ...

    async def announce_hooks(self, hooks: Sequence[str]) -> None:
        """Make hooks that this process has known to all owners."""
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

    async def definition(self, definition_hash: str) -> bytes:
        """The canonical JSON of a definition that some job has pinned."""
        ...


class TaskStore(Protocol):
    """What workers need at least; `worker/ports.py` has all of it."""

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


class Store(SubmissionStore, OwnerStore, TaskStore, Protocol):
    """All of it, as the simulation's model keeps it too."""
