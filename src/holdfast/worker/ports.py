"""What a worker needs from outside: a source of tasks, a way to renew its lease from another process, and a shortcut.

The composition root passes the implementations in; `store/postgres.py` has the one on Postgres. A worker knows no
database. Every call may raise Unreachable: then its outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from holdfast.core.breaking import Breaker
from holdfast.define.gates import BreakerRules
from holdfast.store.batch import Handover
from holdfast.store.leases import Held
from holdfast.store.output_rows import OutputPart
from holdfast.store.records import ItemResult, JobFacts, Lease, Report, WorkerIdentity

OnLocked = Callable[[Report], None]
"""Called for each report whose lease another session keeps locked: the worker can send the report again."""

Shortcut = Callable[[Handover], Awaitable[tuple[frozenset[int], list[Lease]] | None]]
"""Hands reports to the orchestrator in the same process that owns their jobs. Returns which reports it accepted, by
position, and the worker's next leases; None: no orchestrator looked at them."""


class TaskSource(Protocol):
    """Where a worker gets its tasks and sends its reports. Every write is refused unless the worker holds the lease."""

    # The worker's own lease

    async def register_worker(
        self,
        name: str,
        queues: Sequence[str] | None,
        handlers: Sequence[str],
        concurrency: int,
        lease_seconds: float,
    ) -> WorkerIdentity:
        """Start a lease of `lease_seconds` under a new id. No queues: the worker serves all of them."""
        ...

    async def renew_worker(
        self,
        worker: WorkerIdentity,
        lease_seconds: float,
        held: Sequence[Held],
        changed_files: Sequence[str] | None = None,
    ) -> list[Held] | None:
        """Renew the worker's lease. Returns which of the held tasks it still holds; None: its lease was ended.

        `changed_files` are shown to people: files of handlers that have changed since the worker imported them.
        """
        ...

    async def end_worker(self, worker: WorkerIdentity) -> None:
        """End the worker's lease now."""
        ...

    # Tasks

    async def report_and_claim(
        self,
        worker: WorkerIdentity,
        reports: Sequence[Report],
        queues: Sequence[str] | None,
        handlers: Sequence[str],
        limit: int,
        slots: int | None,
        on_locked: OnLocked,
    ) -> tuple[int, list[Lease]]:
        """Send reports and claim up to `limit` tasks. Returns how many reports were accepted, and the leases.

        `slots` of the claimed tasks can begin at once. Tasks behind a breaker or a limit are claimed only for these.
        """
        ...

    async def report(self, worker: WorkerIdentity, reports: Sequence[Report], on_locked: OnLocked = ...) -> int:
        """Send reports. Returns how many were accepted; a report that was accepted before counts again."""
        ...

    async def reject(self, worker: WorkerIdentity, reports: Sequence[Report], on_locked: OnLocked) -> int:
        """Record reports that a shortcut did not accept. Returns how many of them were accepted by no earlier call."""
        ...

    async def begin_late(self, worker: WorkerIdentity, held: Held) -> bool:
        """Whether a task that waited long after its claim may still begin. If so, its timeout starts now."""
        ...

    async def release_strays(self, worker: WorkerIdentity, held: Sequence[Held]) -> int:
        """Give back every task of the worker but these. Call it only while no claim is under way."""
        ...

    async def end_claims(self, worker: WorkerIdentity, held: Sequence[Held]) -> None:
        """The worker claims no more. What a claim that is still under way gets goes back; the worker keeps `held`."""
        ...

    async def cancelled_among(self, held: Sequence[Held]) -> list[Held]:
        """Which of these tasks belong to a job that a person cancelled."""
        ...

    # What attempts read and write

    async def job_facts(self, job_ids: Sequence[str]) -> dict[str, JobFacts]:
        """The inputs and the definition of each job."""
        ...

    async def definition(self, definition_hash: str) -> bytes:
        """A workflow definition as canonical JSON."""
        ...

    async def results_page(self, job_id: str, node: str, after: int, until: int, limit: int) -> list[ItemResult] | None:
        """The next completed items between `after` and `until`, exclusive; None: no such node, or it has not ended."""
        ...

    async def save_checkpoint(self, worker: WorkerIdentity, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        """Store a checkpoint; False: the worker no longer holds the lease."""
        ...

    async def save_progress(self, worker: WorkerIdentity, progress: Sequence[tuple[Held, bytes]]) -> None:
        """Store the progress of attempts as JSON."""
        ...

    # Breakers

    async def breaker(self, tenant: str, name: str) -> Breaker | None:
        """A breaker of a tenant as it is now; None: no workflow declares it."""
        ...

    async def claim_probe(self, handlers: Sequence[str], seconds: float) -> tuple[str, BreakerRules] | None:
        """Reserve, for `seconds`, a breaker whose probe is due and that no other worker probes; returns its key too."""
        ...

    async def probed(self, key: str, problem: str | None) -> None:
        """Record the result of a probe; no problem lets the first tasks through again."""
        ...


class OutputStore(Protocol):
    """Where a worker saves what running attempts print."""

    async def save(self, worker: WorkerIdentity, parts: Sequence[OutputPart], ended: Sequence[Held]) -> None:
        """Store parts of running attempts, and delete those of ended ones. Parts of a lost lease are not stored."""
        ...


class LeaseRenewal(Protocol):
    """Renews a worker's lease without an event loop, for the process that acts while the worker hangs."""

    def renew(self, worker: WorkerIdentity) -> bool:
        """Renew the lease; False: the lease was ended."""
        ...

    def release_all_but(self, worker: WorkerIdentity, held: Sequence[Held]) -> None:
        """Give back every task of the worker but these."""
        ...

    def disconnect(self) -> None:
        """Close the connection; the next call opens a new one."""
        ...


OpenRenewal = Callable[[], LeaseRenewal]
"""Makes the renewal in the other process: pickle carries it there, so it must be importable."""
