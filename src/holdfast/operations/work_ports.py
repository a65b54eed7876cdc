"""What operations need from a store about workers that reach it over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.define.gates import BreakerRules
from holdfast.store.bound_rows import BoundWorker, ClaimedOnce, NotClaimed, Wish
from holdfast.store.leases import Held
from holdfast.store.payloads import Payloads
from holdfast.store.records import Report, WorkerIdentity
from holdfast.worker.ports import OutputStore, TaskSource


class BoundWorkers(Protocol):
    """The workers, and what they alone need. The rest is what every worker needs of its source."""

    @property
    def source(self) -> TaskSource: ...

    @property
    def output(self) -> OutputStore: ...

    @property
    def payloads(self) -> Payloads | None:
        """Where large values are; None: every value stays in its row."""
        ...

    async def lease_secret(self) -> bytes:
        """With what leases are signed: the same in all processes of the installation."""
        ...

    async def register(self, worker: BoundWorker, concurrency: int, version: str = ...) -> bool:
        """Start the lease of a worker, or that of the same registration again; False: that one has ended."""
        ...

    async def find(self, worker_id: int) -> BoundWorker | None:
        """A worker, also one whose lease has ended."""
        ...

    async def report_and_claim(
        self, worker: BoundWorker, reports: Sequence[Report], wish: Wish | None
    ) -> tuple[list[str], ClaimedOnce | NotClaimed | None]:
        """The outcome of each report, and of the claim."""
        ...

    async def holds(self, worker: WorkerIdentity, held: Held) -> bool:
        """Whether the worker holds that lease now."""
        ...

    async def claim_probe(self, worker: BoundWorker, seconds: float) -> tuple[str, BreakerRules] | None:
        """Reserve a breaker of the worker's tenant whose probe is due and that it can probe; returns its key too."""
        ...

    async def release_unknown(self, worker: WorkerIdentity, held: Sequence[Held], until: int) -> None:
        """Give back what the worker does not know of, and has claimed until then."""
        ...

    async def leave(self, worker: WorkerIdentity) -> None:
        """End the worker's lease, and give back all that it holds."""
        ...


class WorkStore(Protocol):
    """What operations about such workers ask of a database."""

    def bound_workers(self) -> BoundWorkers: ...
