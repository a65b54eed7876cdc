"""The worker's own lease: its identity, and until when it may work by its own clock."""

from __future__ import annotations

import asyncio

from holdfast.define.registry import Registry
from holdfast.errors import Unreachable
from holdfast.log_events import EventLog
from holdfast.store.leases import Held
from holdfast.store.records import Lease, WorkerIdentity
from holdfast.worker.clock import lease_clock
from holdfast.worker.options import WorkerOptions
from holdfast.worker.ports import TaskSource
from holdfast.worker.pulse import Pulse

log = EventLog("holdfast.worker")

CHECKPOINT_PAUSE_SECONDS = 0.5


class OwnLease:
    """Every task that the worker holds is held under this lease; when it ends, the worker holds nothing."""

    def __init__(self, source: TaskSource, registry: Registry, options: WorkerOptions, pulse: Pulse | None) -> None:
        self._source = source
        self._registry = registry
        self._options = options
        self._lease_seconds = options.lease_seconds
        self._pulse = pulse
        self._ends_at = 0.0
        self.identity: WorkerIdentity | None = None
        """None before the worker has registered, and after its lease has ended."""

    async def register(self) -> WorkerIdentity:
        """Start a new lease. It ends by a clock that starts before the request, so never later than in the database."""
        asked_at = lease_clock()
        options = self._options
        self.identity = await self._source.register_worker(
            options.name, options.queues, self._registry.names, options.concurrency, options.lease_seconds
        )
        self.extend(asked_at)
        return self.identity

    def extend(self, asked_at: float) -> None:
        """The lease was renewed; the request left at `asked_at`."""
        self._ends_at = asked_at + self._lease_seconds
        if self._pulse is not None and self.identity is not None:
            self._pulse.beat(self.identity, asked_at)

    def is_live(self) -> bool:
        """Whether the lease lives by the worker's own clock. Handlers call this too, from their threads.

        The pulse may have renewed while the worker could not.
        """
        now = lease_clock()
        return now < self._ends_at or (self._pulse is not None and now < self._pulse.renewed_at + self._lease_seconds)

    def seconds_left(self) -> float:
        """How long to wait for an answer at most: one that comes after the lease has ended is of no use."""
        if self._pulse is not None:
            self._ends_at = max(self._ends_at, self._pulse.renewed_at + self._lease_seconds)
        return max(0.1, self._ends_at - lease_clock())

    async def begin_late(self, key: Held) -> bool:
        """Whether a task that waited long after its claim may still begin."""
        try:
            return self.identity is not None and await self._source.begin_late(self.identity, key)
        except Unreachable:
            return False

    async def save_checkpoint(self, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        """Store a checkpoint. While the database is out of reach, try again for as long as the lease lives."""
        worker = self.identity
        while worker is not None and worker is self.identity and self.is_live():
            try:
                async with asyncio.timeout(self.seconds_left()):
                    return await self._source.save_checkpoint(worker, lease, seq, name, data)
            except (Unreachable, TimeoutError) as reason:
                why = str(reason) or "no answer came in time"
                item = lease.item if lease.item >= 0 else None
                log.write("checkpoint_waits", reason=why, checkpoint=name, job=lease.job_id, node=lease.node, item=item)
                await asyncio.sleep(CHECKPOINT_PAUSE_SECONDS)
        return False

    async def end(self) -> None:
        worker, self.identity = self.identity, None
        if worker is not None:
            await self._source.end_worker(worker)
