"""The slots of a worker: at most `concurrency` attempts at a time, each a task of its own, each under a time limit."""

from __future__ import annotations

import asyncio
import time

from holdfast.store.leases import Held
from holdfast.store.records import Lease
from holdfast.worker.clock import lease_clock
from holdfast.worker.context import Attempt
from holdfast.worker.execute import Executor, begin
from holdfast.worker.held_leases import WAIT_SECONDS, HeldLeases, key_of
from holdfast.worker.known_jobs import KnownJobs
from holdfast.worker.own_lease import OwnLease
from holdfast.worker.reports import given_back
from holdfast.worker.unsent_reports import UnsentReports

AHEAD_SECONDS = 0.1
"""How much work may lie claimed and not begun: as much as the slots finish in this time. Longer tasks are not claimed
ahead: for them the time in which a slot waits for the next claim does not matter."""


class Slots:
    """Begins what waits whenever a slot is free. Nothing begins once the worker's own lease has ended."""

    def __init__(
        self,
        concurrency: int,
        executor: Executor,
        own_lease: OwnLease,
        leases: HeldLeases,
        reports: UnsentReports,
        jobs: KnownJobs,
        wake: asyncio.Event,
    ) -> None:
        self._concurrency = concurrency
        self._executor = executor
        self._own_lease = own_lease
        self._leases = leases
        self._reports = reports
        self._jobs = jobs
        self._wake = wake
        self.running: set[asyncio.Task[None]] = set()
        self.crashed: list[asyncio.Task[None]] = []
        """Tasks that ended with an exception, which only a bug of ours can cause."""
        self.mean_seconds: float | None = None
        """How long attempts take, as a moving average; None before the first one has ended."""

    def fill(self) -> None:
        """Begin what waits, as far as slots are free."""
        leases, running = self._leases, self.running
        while leases.waiting and len(running) < self._concurrency:
            lease, accepted_at = leases.waiting.popleft()
            key = key_of(lease)
            if leases.by_key.get(key) is not lease:
                continue
            if not self._own_lease.is_live():
                leases.discard(key, lease)
                continue
            attempt = begin(lease, self._jobs.facts(lease.job_id))
            if not leases.begin(key, attempt):
                continue
            task = asyncio.create_task(self._attempt(key, attempt, accepted_at))
            running.add(task)
            task.add_done_callback(self._free)

    def ahead(self) -> int:
        """How many tasks may wait for a slot: none without experience, and none for a slot that is busy for longer."""
        if self.mean_seconds is None or self.mean_seconds > AHEAD_SECONDS:
            return 0
        since = time.monotonic() - AHEAD_SECONDS
        slow = sum(_runs_since(held, since) for held in self._leases.by_key.values())
        return int((self._concurrency - slow) * AHEAD_SECONDS / max(self.mean_seconds, 1e-4))

    def _free(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.crashed.append(task)
            self._wake.set()
        self.fill()

    async def _attempt(self, key: Held, attempt: Attempt, accepted_at: float) -> None:
        # It begins late if the event loop stood still: its job may have been paused meanwhile.
        may_begin = lease_clock() - accepted_at <= WAIT_SECONDS or await self._own_lease.begin_late(key)
        if not may_begin or attempt.cancelled or self._leases.by_key.get(key) is not attempt:
            self._leases.discard(key, attempt)
            return
        lease = attempt.lease
        if lease.has_contract:
            attempt.contract = self._jobs.contract(lease)
        task = asyncio.current_task()
        assert task is not None
        attempt.cancel_running = task.cancel
        attempt.holds_lease = self._own_lease.is_live
        attempt.limit_seconds = self._executor.time_limit(lease)
        limit = asyncio.get_running_loop().call_later(attempt.limit_seconds, _time_out, attempt)
        try:
            report = await self._executor.run(attempt)
        except asyncio.CancelledError:
            report = given_back(attempt) if not attempt.lost else None
        finally:
            limit.cancel()
            attempt.cancel_running = None
        seconds = time.monotonic() - attempt.started_monotonic
        mean = self.mean_seconds if self.mean_seconds is not None else seconds
        self.mean_seconds = mean + 0.1 * (seconds - mean)
        if report is not None and not attempt.lost:
            self._reports.ready.append(report)
        elif self._leases.by_key.get(key) is attempt:
            del self._leases.by_key[key]
        self._wake.set()
        if attempt.has_workdir:
            await self._executor.remove_workdir(attempt)


def _runs_since(held: Lease | Attempt, moment: float) -> bool:
    """Whether it is an attempt that began before that moment and has not ended."""
    return isinstance(held, Attempt) and held.cancel_running is not None and held.started_monotonic < moment


def _time_out(attempt: Attempt) -> None:
    attempt.timed_out = attempt.cancelled = True
    if attempt.cancel_running is not None:
        attempt.cancel_running()
