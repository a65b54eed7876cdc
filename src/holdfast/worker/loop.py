"""The worker as a service: a loop that reports and claims in one round trip, until the worker is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from holdfast.define.registry import Registry
from holdfast.errors import Unreachable
from holdfast.log_events import EventLog, LastingTrouble
from holdfast.meters import Meters
from holdfast.outgoing import Outgoing
from holdfast.pacing import CrowdingMonitor
from holdfast.store.batch import Handover
from holdfast.store.leases import in_lock_order
from holdfast.store.payloads import Payloads
from holdfast.store.records import Lease, Report, WorkerIdentity
from holdfast.worker.capture import capture_output
from holdfast.worker.clock import lease_clock
from holdfast.worker.code_files import CodeFiles
from holdfast.worker.context import HandlerServices
from holdfast.worker.execute import Executor, begin
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.held_leases import HeldLeases
from holdfast.worker.known_jobs import KnownJobs
from holdfast.worker.options import WorkerOptions
from holdfast.worker.own_lease import OwnLease
from holdfast.worker.ports import OutputStore, Shortcut, TaskSource
from holdfast.worker.probing import BreakerProbes
from holdfast.worker.pulse import Pulse
from holdfast.worker.reports import given_back
from holdfast.worker.secrets import SecretValues
from holdfast.worker.slots import Slots
from holdfast.worker.streaming import OutputStream
from holdfast.worker.unsent_reports import UnsentReports, key_of
from holdfast.worker.workdir import Workplace

log = EventLog("holdfast.worker")

RETREAT_SECONDS = 0.5
END_ATTEMPTS = 20
NARROW_BATCH = 10
"""How many tasks a claim leases while a wide job runs beside others, which wait until the claim has ended."""
GATHER_SECONDS = 0.004
"""How long finished attempts may wait for others, so that one report carries many."""


class Worker:
    """Holds no more tasks than its slots can soon run. Everything that it does is fenced by its own lease."""

    def __init__(
        self,
        source: TaskSource,
        registry: Registry,
        options: WorkerOptions,
        *,
        wake: asyncio.Event,
        payloads: Payloads,
        workplace: Workplace,
        pulse: Pulse | None = None,
        shortcut: Shortcut | None = None,
        output: OutputStore | None = None,
        meters: Meters | None = None,
    ) -> None:
        """Without an `output` store, what attempts print can be seen when they have ended."""
        self._source = source
        self._registry = registry
        self._options = options
        self._wake = wake
        self._workplace = workplace
        self._meters = meters or Meters()
        self._pulse = pulse
        self._shortcut = shortcut
        self._crowding = CrowdingMonitor()
        self._trouble = LastingTrouble(log, "worker_retreats", "worker_recovered")
        self._reports = UnsentReports()
        self._leases = HeldLeases(self._reports, pulse, wake)
        self._own_lease = OwnLease(source, registry, options, pulse)
        self._jobs = KnownJobs(source, registry, self._leases)
        self._probes = BreakerProbes(source, registry, Outgoing(options.outgoing_allow))
        self._stream = OutputStream(output, self._own_lease, self._leases) if output is not None else None
        services = HandlerServices(
            self._own_lease.save_checkpoint,
            source.results_page,
            payloads.objects,
            workplace,
            self._probes.look,
            options.database_url,
        )
        secrets = SecretValues(options.secrets_dir)
        self._executor = Executor(registry, services, payloads, options.concurrency, secrets)
        self._slots = Slots(
            options.concurrency,
            self._executor,
            self._own_lease,
            self._leases,
            self._reports,
            self._jobs,
            wake,
            self._meters,
        )
        self._code = CodeFiles(registry.modules)
        self._heartbeat = Heartbeat(
            source, options, self._own_lease, self._leases, self._executor, self._probes, wake, self._code
        )

    @property
    def lease_count(self) -> int:
        return len(self._leases)

    @property
    def slot_count(self) -> int:
        return self._options.concurrency

    @property
    def is_registered(self) -> bool:
        """Whether other processes see this worker."""
        return self._own_lease.identity is not None

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then finish or give back what is held, within the grace."""
        capture_output()
        await asyncio.to_thread(self._workplace.sweep)
        beating = asyncio.create_task(self._heartbeat.run(), name="holdfast heartbeat")
        living = [beating, *([asyncio.create_task(self._pulse.keep())] if self._pulse is not None else [])]
        if self._stream is not None:
            living.append(asyncio.create_task(self._stream.run(), name="holdfast output"))
        waking = asyncio.create_task(self._wake_at(stop))
        watching = asyncio.create_task(self._code.watch(self._options.name), name="holdfast code files")
        for task in living:
            task.add_done_callback(lambda _: self._wake.set())
        try:
            while not stop.is_set():
                try:
                    _crash_with((*self._slots.crashed, *living))
                    await self._turn()
                except Unreachable as reason:
                    self._trouble.again(reason)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), RETREAT_SECONDS)
            with contextlib.suppress(Unreachable):
                await self._drain()
        finally:
            self._leases.waiting.clear()
            probing = [self._probes.running] if self._probes.running is not None else []
            await _end((*self._slots.running, *living, waking, watching, *probing))
            self._executor.close()
            await asyncio.to_thread(self._workplace.close)
            with contextlib.suppress(Unreachable):
                await self._own_lease.end()

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wake.set()

    async def _turn(self) -> None:
        """Report what has ended and claim what fits, in one round trip; wait only if there was nothing to do."""
        worker = self._own_lease.identity or await self._own_lease.register()
        # Cleared before looking: an announcement that comes while we look makes us look again.
        self._wake.clear()
        await self._gather()
        await self._release_strays(worker)
        reports = self._reports.take(time.monotonic())
        room = self._room(reported=len(reports))
        leases: list[Lease] = []
        if reports or room:
            began = time.perf_counter()
            try:
                accepted, leases = await self._report_and_claim(worker, reports, room)
            except Unreachable:
                # The claim may have succeeded: what it leased without our knowledge is a stray.
                if worker is self._own_lease.identity:
                    self._reports.put_back(reports)
                raise
            if worker is not self._own_lease.identity:
                # Meanwhile the lease has ended under which this was claimed.
                return
            self._trouble.over()
            if leases:
                self._meters.time("claim_seconds", time.perf_counter() - began)
                self._meters.count("tasks_claimed", by=len(leases))
            self._settle(reports, accepted)
            await self._accept(leases)
        if self._reports.ready:
            return
        until_due = self._reports.seconds_until_due(time.monotonic())
        if len(leases) < room:
            poll_seconds = self._options.poll_seconds
            await self._wait_for_wake(poll_seconds if until_due is None else min(until_due, poll_seconds))
        elif self._room(reported=0) == 0:
            await self._wait_for_wake(until_due)

    async def _wait_for_wake(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), seconds)

    async def _gather(self) -> None:
        """While slots keep finishing, let a few more reports come together."""
        until = time.monotonic() + GATHER_SECONDS
        while self._reports.ready and self._leases.waiting and time.monotonic() < until:
            before = len(self._reports.ready)
            await asyncio.sleep(0)
            if len(self._reports.ready) == before:
                break

    async def _release_strays(self, worker: WorkerIdentity) -> None:
        """Give back what the database says we hold and we do not.

        Only between two claims is that certain: otherwise the answer to a claim may be on its way.
        """
        if self._leases.may_have_strays:
            self._leases.may_have_strays = False
            await self._source.release_strays(worker, list(self._leases.by_key))

    async def _report_and_claim(
        self, worker: WorkerIdentity, reports: Sequence[Report], room: int
    ) -> tuple[int, list[Lease]]:
        """Through an idle orchestrator in this process that owns the jobs, else directly."""
        names, queues = self._registry.names, self._options.queues
        if reports and self._shortcut is not None:
            handover = Handover(worker, in_lock_order(reports), queues, names, room)
            answer = await self._shortcut(handover)
            if answer is not None:
                accepted, leases = answer
                left = [report for n, report in enumerate(handover.reports) if n not in accepted]
                return len(reports) - await self._source.reject(worker, left, self._send_later), leases
        slots = max(0, self._options.concurrency - self._busy + len(reports))
        return await self._source.report_and_claim(worker, reports, queues, names, room, slots, self._send_later)

    def _send_later(self, report: Report) -> None:
        item = report.item if report.item >= 0 else None
        log.write("report_waits", job=report.job_id, node=report.node, item=item, attempt=report.attempt)
        self._reports.hold(report, time.monotonic())

    def _settle(self, reports: Sequence[Report], accepted: int) -> None:
        settled = [key for key in map(key_of, reports) if not self._reports.is_locked(key)]
        for key in settled:
            self._leases.by_key.pop(key, None)
            self._reports.settle(key)
        if accepted < len(settled):
            log.write("reports_rejected", count=len(settled) - accepted, of=len(settled))

    async def _accept(self, leases: Sequence[Lease]) -> None:
        if not leases:
            return
        accepted_at = lease_clock()
        self._leases.add(leases)
        self._crowding.observe(Counter(lease.job_id for lease in leases), time.monotonic())
        try:
            await self._jobs.learn(leases)
        except Unreachable:
            self._reports.add(given_back(begin(lease)) for lease in leases)
            raise
        self._leases.let_wait(leases, accepted_at)
        self._slots.fill()

    @property
    def _busy(self) -> int:
        """How many leases need a slot: one whose report waits for a lock does not."""
        return len(self._leases) - self._reports.locked_count

    def _room(self, reported: int) -> int:
        """How many more leases: as many as slots are free, and as many as the slots finish in a moment."""
        batch, concurrency = self._options.claim_batch, self._options.concurrency
        if self._crowding.job_to_throttle(time.monotonic()) is not None:
            batch = min(batch, NARROW_BATCH)
        capacity = max(concurrency, min(batch, concurrency + self._slots.ahead()))
        return max(0, min(batch, capacity - self._busy + reported))

    async def _drain(self) -> None:
        """Claim nothing more. What waits goes back now; what runs may finish within the grace, then it goes back."""
        # The heartbeat may find meanwhile that our lease was ended: then nothing is held any more.
        worker = self._own_lease.identity
        if worker is None:
            return
        held = list(self._leases.by_key)
        self._leases.give_back_waiting()
        for _, attempt in self._leases.attempts():
            attempt.cancelled = True
        with contextlib.suppress(Unreachable):
            await self._source.end_claims(worker, held)
        until = time.monotonic() + self._options.grace_seconds
        while len(self._leases):
            reports = self._reports.take(time.monotonic())
            if reports:
                self._settle(reports, await self._source.report(worker, reports, self._send_later))
                continue
            self._wake.clear()
            remaining = until - time.monotonic()
            if remaining <= 0:
                break
            until_due = self._reports.seconds_until_due(time.monotonic())
            await self._wait_for_wake(remaining if until_due is None else min(until_due, remaining))
        await self._executor.end_children()
        unfinished = [given_back(attempt) for _, attempt in self._leases.attempts()]
        if unfinished:
            await self._source.report(worker, unfinished)
        await self._source.release_strays(worker, ())
        if self._stream is not None:
            await self._stream.end(worker)


def _crash_with(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Raise what ended an attempt's task or the heartbeat: only a bug of ours does, and it must not stay hidden."""
    for task in tasks:
        if task.done():
            task.result()


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel the tasks until all have ended: a handler may ignore that it is cancelled."""
    remaining = set(tasks)
    for _ in range(END_ATTEMPTS):
        for task in remaining:
            task.cancel()
        _, remaining = await asyncio.wait(remaining, timeout=0.1)
        if not remaining:
            return
    log.write("handlers_ignore_their_end", count=len(remaining))
