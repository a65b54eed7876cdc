"""The slots of a worker: at most `concurrency` attempts at a time, each a task of its own, each under a time limit."""

from __future__ import annotations

import asyncio
import contextvars
import time

from holdfast.meters import Meters
from holdfast.store.leases import Held
from holdfast.store.records import Lease
from holdfast.worker.attempt_lines import begin_span, log_start, note_end
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
        meters: Meters,
    ) -> None:
        self._concurrency = concurrency
        self._meters = meters
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
        self._limits: dict[asyncio.Task[None], tuple[float, Attempt]] = {}
        self._limit: asyncio.TimerHandle | None = None
        # Asked once: `asyncio.get_running_loop` is a system call, and this is done for every attempt.
        self._loop: asyncio.AbstractEventLoop | None = None
        # An attempt may begin as another one ends: it must not get the context variables of that one's handler.
        self._context = contextvars.copy_context()

    def fill(self) -> None:
        """Begin what waits, as far as slots are free."""
        leases, running = self._leases, self.running
        loop = self._loop = self._loop or asyncio.get_running_loop()
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
            # Not by `create_task`: its factory is for the tasks of handlers.
            work = self._attempt(key, attempt, accepted_at)
            attempt.task = asyncio.Task(work, loop=loop, context=self._context.copy())
            running.add(attempt.task)

    def ahead(self) -> int:
        """How many tasks may wait for a slot: none without experience, and none for a slot that is busy for longer."""
        if self.mean_seconds is None or self.mean_seconds > AHEAD_SECONDS:
            return 0
        since = time.monotonic() - AHEAD_SECONDS
        slow = sum(_runs_since(held, since) for held in self._leases.by_key.values())
        return int((self._concurrency - slow) * AHEAD_SECONDS / max(self.mean_seconds, 1e-4))

    async def _attempt(self, key: Held, attempt: Attempt, accepted_at: float) -> None:
        """One attempt, and then the next one. Done here: a callback of the task would cost a turn of the loop."""
        assert attempt.task is not None
        try:
            await self._run(key, attempt, accepted_at, attempt.task)
        except Exception:
            self.crashed.append(attempt.task)
            self._wake.set()
            raise
        finally:
            self.running.discard(attempt.task)
            self.fill()

    async def _run(self, key: Held, attempt: Attempt, accepted_at: float, task: asyncio.Task[None]) -> None:
        # It begins late if the event loop stood still: its job may have been paused meanwhile.
        may_begin = lease_clock() - accepted_at <= WAIT_SECONDS or await self._own_lease.begin_late(key)
        if not may_begin or attempt.cancelled or self._leases.by_key.get(key) is not attempt:
            self._leases.discard(key, attempt)
            return
        lease = attempt.lease
        attempt.contract, attempt.secrets = self._jobs.contract(lease), self._jobs.secrets(lease)
        attempt.cancel_running = task.cancel
        attempt.holds_lease = self._own_lease.is_live
        attempt.limit_seconds = self._executor.time_limit(lease)
        self._limit_time(task, attempt)
        log_start(attempt)
        begin_span(attempt)
        try:
            report = await self._executor.run(attempt)
        except asyncio.CancelledError:
            report = given_back(attempt) if not attempt.lost else None
        finally:
            del self._limits[task]
            attempt.cancel_running = None
        seconds = time.monotonic() - attempt.started_monotonic
        mean = self.mean_seconds if self.mean_seconds is not None else seconds
        self.mean_seconds = mean + 0.1 * (seconds - mean)
        note_end(self._meters, attempt, report if not attempt.lost else None, seconds)
        if report is not None and not attempt.lost:
            self._reports.ready.append(report)
        elif self._leases.by_key.get(key) is attempt:
            del self._leases.by_key[key]
        self._wake.set()
        if attempt.has_workdir:
            await self._executor.remove_workdir(attempt)

    def _limit_time(self, task: asyncio.Task[None], attempt: Attempt) -> None:
        """One timer serves all attempts: it fires for the earliest limit, and usually finds its attempt ended."""
        assert self._loop is not None
        due = self._loop.time() + attempt.limit_seconds
        self._limits[task] = (due, attempt)
        if self._limit is None or due < self._limit.when():
            self._arm(self._loop, due)

    def _arm(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._limit = loop.call_at(due, self._time_out)

    def _time_out(self) -> None:
        loop, self._limit = asyncio.get_running_loop(), None
        now = loop.time()
        for due, attempt in list(self._limits.values()):
            if due <= now and not attempt.timed_out:
                attempt.timed_out = attempt.cancelled = True
                if attempt.cancel_running is not None:
                    attempt.cancel_running()
        later = [due for due, attempt in self._limits.values() if not attempt.timed_out]
        if later:
            self._arm(loop, min(later))


def _runs_since(held: Lease | Attempt, moment: float) -> bool:
    """Whether it is an attempt that began before that moment and has not ended."""
    return isinstance(held, Attempt) and held.cancel_running is not None and held.started_monotonic < moment
