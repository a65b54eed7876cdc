"""The worker as a service: claim, run, report, renew; batches that are wide when busy and immediate when idle."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence

import orjson

from holdfast import failpoint
from holdfast.core.breaking import BreakerState
from holdfast.core.company import Company
from holdfast.define.contract import Contracts
from holdfast.define.registry import Registry
from holdfast.errors import Unreachable
from holdfast.store.interface import Handover, JobFacts, Lease, Report, WorkerIdentity
from holdfast.store.leases import Held, in_lock_order
from holdfast.store.payloads import Payloads
from holdfast.worker.clock import lease_clock
from holdfast.worker.context import Attempt, Means
from holdfast.worker.dependencies import PROBE_SECONDS, SeenBreaker, probe
from holdfast.worker.execute import NO_FACTS, Executor, begin, capture_output, given_back
from holdfast.worker.kept import KeptReports, key_of
from holdfast.worker.ports import Shortcut, TaskSource
from holdfast.worker.pulse import Pulse
from holdfast.worker.workdir import Workplace

logger = logging.getLogger("holdfast.worker")

RETREAT_SECONDS = 0.5
END_ATTEMPTS = 20
KNOWN_JOBS = 256
KNOWN_DEFINITIONS = 256
AHEAD_SECONDS = 0.1
"""How much work may lie claimed and not begun: what the slots finish in this time. Longer tasks are not claimed ahead:
a slot that waits for its next claim then loses next to nothing."""
WAIT_SECONDS = 0.5
"""How long a claimed task may wait for its slot, if the tasks before it take longer than expected. Then it
goes back: somebody else may be free, and its job may have been paused."""
NARROW_BATCH = 10
"""How much is claimed at a time while a wide job has others beside it, which wait for the end of the claim."""
BREAKER_MEMORY_SECONDS = 1.0
GATHER_SECONDS = 0.004
"""How long finished attempts may wait for others, so that one report carries many."""


class Worker:
    """Holds at most what its slots can soon run; everything it does is fenced by its lease."""

    def __init__(
        self,
        source: TaskSource,
        name: str,
        registry: Registry,
        *,
        queues: Sequence[str] | None,
        concurrency: int,
        claim_batch: int,
        lease_seconds: float,
        renew_seconds: float,
        poll_seconds: float,
        grace_seconds: float,
        wake: asyncio.Event,
        payloads: Payloads,
        workplace: Workplace,
        database_url: str | None = None,
        pulse: Pulse | None = None,
        shortcut: Shortcut | None = None,
    ) -> None:
        self._source = source
        self._name = name
        self._registry = registry
        self._queues = queues
        self._concurrency = concurrency
        self._claim_batch = claim_batch
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._poll_seconds = poll_seconds
        self._grace_seconds = grace_seconds
        self._wake = wake
        self._worker: WorkerIdentity | None = None
        self._held: dict[Held, Lease | Attempt] = {}
        """In the order of their claims: what has begun, then what waits for its slot, as it was claimed."""
        self._waiting: deque[tuple[Lease, float]] = deque()
        """What is claimed and has no slot yet, and when it was accepted."""
        self._attempts: set[asyncio.Task[None]] = set()
        """The slots that are taken: each attempt is a task of its own."""
        self._crashed: list[asyncio.Task[None]] = []
        self._overdue: asyncio.TimerHandle | None = None
        self._reports: list[Report] = []
        self._kept = KeptReports()
        self._facts: dict[str, JobFacts] = {}
        self._contracts: dict[str, Contracts] = {}
        self._with_context = frozenset(registry.with_context)
        self._mean_seconds: float | None = None
        self._company = Company()
        self._lease_ends = 0.0
        self._may_have_strays = False
        self._pulse = pulse
        self._shortcut = shortcut
        self._probing: asyncio.Task[None] | None = None
        self._breakers: dict[str, tuple[float, SeenBreaker | None]] = {}
        self._workplace = workplace
        means = Means(
            self._save_checkpoint,
            source.results_page,
            payloads.objects,
            workplace,
            self._look_at_breaker,
            database_url,
        )
        self._executor = Executor(registry, means, payloads, concurrency)

    @property
    def lease_count(self) -> int:
        return len(self._held)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; then finish or give back what is held, within the grace."""
        capture_output()
        await asyncio.to_thread(self._workplace.sweep)
        beating = asyncio.create_task(self._beat(), name="holdfast heartbeat")
        living = [beating, *([asyncio.create_task(self._pulse.keep())] if self._pulse is not None else [])]
        waking = asyncio.create_task(self._wake_at(stop))
        for task in living:
            task.add_done_callback(lambda _: self._wake.set())
        try:
            while not stop.is_set():
                try:
                    _crash_with((*self._crashed, *living))
                    await self._turn()
                except Unreachable as reason:
                    logger.warning("worker_retreats: %s", reason)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), RETREAT_SECONDS)
            with contextlib.suppress(Unreachable):
                await self._drain()
        finally:
            self._waiting.clear()
            await _end((*self._attempts, *living, waking, *([self._probing] if self._probing is not None else [])))
            self._executor.close()
            await asyncio.to_thread(self._workplace.close)
            worker, self._worker = self._worker, None
            if worker is not None:
                with contextlib.suppress(Unreachable):
                    await self._source.end_worker(worker)

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wake.set()

    async def _turn(self) -> None:
        """Report what is done and claim what fits, in one round trip; wait only when there was nothing."""
        worker = self._worker or await self._register()
        # Cleared before looking: what is announced while we look makes us look again.
        self._wake.clear()
        await self._gather()
        await self._release_strays(worker)
        reports, self._reports = [*self._reports, *self._kept.take_due(time.monotonic())], []
        room = self._room(reported=len(reports))
        leases: list[Lease] = []
        if reports or room:
            try:
                taken, leases = await self._report_and_claim(worker, reports, room)
            except Unreachable:
                # The claim may have been made: what it leased without our knowledge is a stray.
                if worker is self._worker:
                    self._reports = reports + self._reports
                raise
            if worker is not self._worker:
                # Meanwhile the lease has ended under which this was claimed.
                return
            self._settle(reports, taken)
            await self._accept(leases)
        again = self._kept.seconds_left(time.monotonic())
        if len(leases) < room and not self._reports:
            with contextlib.suppress(TimeoutError):
                patience = self._poll_seconds if again is None else min(again, self._poll_seconds)
                await asyncio.wait_for(self._wake.wait(), patience)
        elif not self._reports and self._room(reported=0) == 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), again)

    async def _report_and_claim(
        self, worker: WorkerIdentity, reports: Sequence[Report], room: int
    ) -> tuple[int, list[Lease]]:
        """By way of the owner, if it is in this process and has time: one transaction for its step and ours."""
        names = self._registry.names
        if reports and self._shortcut is not None:
            handover = Handover(worker, in_lock_order(reports), self._queues, names, room)
            answer = await self._shortcut(handover)
            if answer is not None:
                taken, leases = answer
                left = [report for n, report in enumerate(handover.reports) if n not in taken]
                return len(reports) - await self._source.reject(worker, left, self._keep), leases
        slots = max(0, self._concurrency - self._busy + len(reports))
        return await self._source.report_and_claim(worker, reports, self._queues, names, room, slots, self._keep)

    def _keep(self, report: Report) -> None:
        """Another session keeps its lease locked: the others go on, and it is sent again later."""
        logger.warning("report_waits: %s/%s: another session keeps its lease locked", report.job_id, report.node)
        self._kept.keep(report, time.monotonic())

    @property
    def _busy(self) -> int:
        """How many leases are in the way of others: a report that waits for a lock has no slot."""
        return len(self._held) - len(self._kept)

    async def _accept(self, leases: Sequence[Lease]) -> None:
        if not leases:
            return
        accepted = lease_clock()
        for lease in leases:
            self._supersede(_key(lease))
            self._held[_key(lease)] = lease
        self._show_held()
        self._company.saw(Counter(lease.job_id for lease in leases), time.monotonic())
        try:
            await self._learn_facts(leases)
        except Unreachable:
            self._reports += [given_back(begin(lease)) for lease in leases]
            raise
        for lease in leases:
            if self._held.get(_key(lease)) is lease:
                self._waiting.append((lease, accepted))
        self._fill_slots()
        if self._overdue is None:
            self._overdue = asyncio.get_running_loop().call_later(WAIT_SECONDS, self._forget_overdue)

    def _supersede(self, key: Held) -> None:
        """A claim gives us what we hold: the database went back to an earlier state, and the older attempt is lost."""
        if key in self._held:
            self._reports = [report for report in self._reports if key_of(report) != key]
            self._kept.drop(key)
            self._lose(key)

    def _forget_overdue(self) -> None:
        """What has waited for too long goes back to the queue."""
        self._overdue = None
        latest = lease_clock() - WAIT_SECONDS
        while self._waiting and self._waiting[0][1] <= latest:
            lease, _ = self._waiting.popleft()
            self._forget(_key(lease), lease)
        if self._waiting:
            self._overdue = asyncio.get_running_loop().call_later(WAIT_SECONDS / 2, self._forget_overdue)

    def _forget(self, key: Held, held: Lease | Attempt) -> None:
        """It will not begin here: we hold it no longer, and what the rows still say of it goes as a stray."""
        if self._held.get(key) is held:
            del self._held[key]
            self._show_held()
            self._may_have_strays = True
            self._wake.set()

    def _show_held(self) -> None:
        """To the pulse, which gives back what has not begun while we stand still. What it gave back we forget."""
        if self._pulse is None:
            return
        begun = [key for key, held in self._held.items() if isinstance(held, Attempt)]
        waiting = [key for key, held in self._held.items() if not isinstance(held, Attempt)]
        if not self._pulse.show([*begun, *waiting], len(begun)):
            for key in waiting:
                del self._held[key]
            self._may_have_strays = True
            self._show_held()

    async def _release_strays(self, worker: WorkerIdentity) -> None:
        """Leases that the rows give to us and that we do not hold go back to the queue, unspent.

        Only between two claims is it certain that we do not hold them: else the answer may be on its way.
        """
        if self._may_have_strays:
            self._may_have_strays = False
            await self._source.release_strays(worker, list(self._held))

    async def _learn_facts(self, leases: Sequence[Lease]) -> None:
        """Of jobs whose handlers may ask for their inputs, or have contracts; once per job. What is held is kept."""
        asked = {lease.job_id for lease in leases if lease.has_contract or lease.handler in self._with_context}
        unknown = [job_id for job_id in asked if job_id not in self._facts]
        if unknown:
            if len(self._facts) + len(unknown) > KNOWN_JOBS:
                held = {key[0] for key in self._held}
                self._facts = {job_id: facts for job_id, facts in self._facts.items() if job_id in held}
            self._facts |= await self._source.job_facts(unknown)
        await self._learn_contracts({lease.job_id for lease in leases if lease.has_contract})

    async def _learn_contracts(self, job_ids: Iterable[str]) -> None:
        """Once per definition."""
        for definition_hash in {self._facts[job_id].definition_hash for job_id in job_ids if job_id in self._facts}:
            if definition_hash in self._contracts:
                continue
            if len(self._contracts) >= KNOWN_DEFINITIONS:
                needed = {facts.definition_hash for facts in self._facts.values()}
                self._contracts = {known: found for known, found in self._contracts.items() if known in needed}
            self._contracts[definition_hash] = Contracts(await self._source.definition(definition_hash))

    async def _register(self) -> WorkerIdentity:
        """Take a lease of our own; the clock that ends it starts before it was asked for."""
        asked = lease_clock()
        self._worker = await self._source.register_worker(
            self._name, self._queues, self._registry.names, self._concurrency, self._lease_seconds
        )
        self._lease_ends = asked + self._lease_seconds
        self._tell_pulse(asked)
        return self._worker

    def _tell_pulse(self, asked: float) -> None:
        if self._pulse is not None and self._worker is not None:
            self._pulse.beat(self._worker, asked)

    async def _gather(self) -> None:
        """While slots keep finishing, let a few more reports come together."""
        until = time.monotonic() + GATHER_SECONDS
        while self._reports and self._waiting and time.monotonic() < until:
            before = len(self._reports)
            await asyncio.sleep(0)
            if len(self._reports) == before:
                break

    def _room(self, reported: int) -> int:
        """How many leases more: the free slots, and what the slots will finish in a moment."""
        batch = self._claim_batch
        if self._company.wide_job(time.monotonic()) is not None:
            batch = min(batch, NARROW_BATCH)
        capacity = max(self._concurrency, min(batch, self._concurrency + self._ahead()))
        return max(0, min(batch, capacity - self._busy + reported))

    def _ahead(self) -> int:
        """How many may wait for a slot: none without experience, and none for slots that are busy for longer."""
        if self._mean_seconds is None or self._mean_seconds > AHEAD_SECONDS:
            return 0
        since = time.monotonic() - AHEAD_SECONDS
        slow = sum(_runs_since(held, since) for held in self._held.values())
        return int((self._concurrency - slow) * AHEAD_SECONDS / max(self._mean_seconds, 1e-4))

    def _settle(self, reports: Sequence[Report], taken: int) -> None:
        settled = [key for key in map(key_of, reports) if key not in self._kept]
        for key in settled:
            self._held.pop(key, None)
            self._kept.forget(key)
        if taken < len(settled):
            logger.warning(
                "reports_rejected: %d of %d came after their lease had ended",
                len(settled) - taken,
                len(settled),
            )

    def _fill_slots(self) -> None:
        """Begin what waits, as far as slots are free. Nothing begins when our lease is over."""
        while self._waiting and len(self._attempts) < self._concurrency:
            lease, accepted = self._waiting.popleft()
            key = _key(lease)
            if self._held.get(key) is not lease:
                continue
            self._held[key] = attempt = begin(lease, self._facts.get(lease.job_id, NO_FACTS))
            if not self._is_live() or (self._pulse is not None and not self._pulse.begin()):
                self._forget(key, attempt)
                continue
            task = asyncio.create_task(self._attempt(key, attempt, accepted))
            self._attempts.add(task)
            task.add_done_callback(self._free_slot)

    def _free_slot(self, attempt: asyncio.Task[None]) -> None:
        self._attempts.discard(attempt)
        if not attempt.cancelled() and attempt.exception() is not None:
            self._crashed.append(attempt)
            self._wake.set()
        self._fill_slots()

    async def _attempt(self, key: Held, attempt: Attempt, accepted: float) -> None:
        if await self._still_may_begin(key, attempt, accepted):
            await self._run(key, attempt)
        else:
            self._forget(key, attempt)

    async def _still_may_begin(self, key: Held, attempt: Attempt, accepted: float) -> bool:
        """What comes late, because the loop stood still, asks whether it may."""
        worker, may = self._worker, True
        if lease_clock() - accepted > WAIT_SECONDS:
            try:
                may = worker is not None and await self._source.begin_late(worker, key)
            except Unreachable:
                return False
        return may and not attempt.cancelled and self._held.get(key) is attempt

    def _is_live(self) -> bool:
        """Whether our lease lives by our own clock, which began before its last renewal was asked for.

        While we could not renew, the pulse may have done so in our place. Handlers ask too, from their threads.
        """
        now = lease_clock()
        return now < self._lease_ends or (
            self._pulse is not None and now < self._pulse.renewed_at + self._lease_seconds
        )

    async def _run(self, key: Held, attempt: Attempt) -> None:
        lease = attempt.lease
        if lease.has_contract and lease.job_id in self._facts:
            attempt.contract = self._contracts[attempt.facts.definition_hash].of(lease.node, lease.item)
        task = asyncio.current_task()
        assert task is not None
        attempt.cancel_running = task.cancel
        attempt.holds_lease = self._is_live
        attempt.limit_seconds = self._time_limit(lease)
        limit = asyncio.get_running_loop().call_later(attempt.limit_seconds, self._time_out, attempt)
        try:
            report = await self._executor.run(attempt)
        except asyncio.CancelledError:
            report = given_back(attempt) if not attempt.lost else None
        finally:
            limit.cancel()
            attempt.cancel_running = None
        seconds = time.monotonic() - attempt.started_monotonic
        mean = self._mean_seconds if self._mean_seconds is not None else seconds
        self._mean_seconds = mean + 0.1 * (seconds - mean)
        if report is None or attempt.lost:
            if self._held.get(key) is attempt:
                del self._held[key]
        else:
            self._reports.append(report)
        self._wake.set()
        if attempt.has_workdir:
            await asyncio.to_thread(self._workplace.remove, lease)

    def _time_limit(self, lease: Lease) -> float:
        """The node's, or the handler's own if that is shorter."""
        handler = self._registry.get(lease.handler)
        own = handler.timeout_seconds if handler is not None else None
        return lease.timeout_seconds if own is None else min(own, lease.timeout_seconds)

    def _time_out(self, attempt: Attempt) -> None:
        attempt.timed_out = attempt.cancelled = True
        if attempt.cancel_running is not None:
            attempt.cancel_running()

    async def _beat(self) -> None:
        """Renew in time; if that fails until the lease is over, stop everything by our own clock."""
        while True:
            await asyncio.sleep(self._renew_seconds)
            worker = self._worker
            if worker is None:
                continue
            asked, held = lease_clock(), list(self._held)
            if self._pulse is not None:
                self._lease_ends = max(self._lease_ends, self._pulse.renewed_at + self._lease_seconds)
            try:
                # A renewal that hangs must not outlive the lease: our own clock ends it.
                async with asyncio.timeout(max(0.1, self._lease_ends - asked)):
                    still = await self._source.renew_worker(worker, self._lease_seconds, held)
                    await self._send_progress()
                    cancelled = await self._source.cancelled_among(held)
            except (Unreachable, TimeoutError) as reason:
                logger.warning("heartbeat_failed: %s", reason)
                if worker is self._worker and not self._is_live():
                    self._lose_everything()
                continue
            if worker is not self._worker:
                continue
            if still is None:
                logger.warning("worker_declared_gone: %s; starting again under a new lease", self._name)
                self._lose_everything()
                continue
            self._lease_ends = asked + self._lease_seconds
            self._tell_pulse(asked)
            self._may_have_strays = True
            self._wake.set()
            self._begin_probe()
            # Only what was asked about: a lease that was claimed meanwhile is not missing.
            for key in set(held) - set(still):
                self._lose(key)
            for key in cancelled:
                self._tell_cancelled(key)

    def _begin_probe(self) -> None:
        """Between two beats, if the last one is over: a probe may take longer than a beat."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe(), name="holdfast probe")

    async def _probe(self) -> None:
        """Look after a breaker whose cooldown is over and that nobody else probes just now."""
        try:
            rules = await self._source.claim_probe(self._registry.names, 2 * PROBE_SECONDS)
            if rules is not None:
                await failpoint.hit("probe.claimed")
                problem = await probe(rules, self._registry)
                await failpoint.hit("probe.asked")
                await self._source.probed(rules.name, problem)
        except Unreachable as reason:
            logger.warning("probe_failed: %s", reason)

    async def _look_at_breaker(self, name: str) -> SeenBreaker | None:
        """As it was a second ago at most: a handler may ask for every call that it makes."""
        seen = self._breakers.get(name)
        if seen is not None and time.monotonic() < seen[0]:
            return seen[1]
        found = await self._source.breaker(name)
        view = SeenBreaker(found.rules, found.state is BreakerState.OPEN) if found is not None else None
        self._breakers[name] = (time.monotonic() + BREAKER_MEMORY_SECONDS, view)
        return view

    def _tell_cancelled(self, key: Held) -> None:
        """The job was cancelled: a coroutine of ours is ended at once, all else sees `ctx.cancelled`."""
        attempt = self._held.get(key)
        if isinstance(attempt, Attempt) and not attempt.cancelled:
            attempt.cancelled = True
            if attempt.cancel_running is not None and self._is_on_the_loop(attempt.lease):
                attempt.cancel_running()

    def _is_on_the_loop(self, lease: Lease) -> bool:
        handler = self._registry.get(lease.handler)
        return handler is not None and handler.is_async and not self._executor.is_isolated(lease)

    async def _send_progress(self) -> None:
        news = [
            (key, attempt)
            for key, attempt in self._held.items()
            if isinstance(attempt, Attempt) and attempt.progress is not attempt.progress_sent
        ]
        if news and self._worker is not None:
            for _, attempt in news:
                attempt.progress_sent = attempt.progress
            rows = [(key, orjson.dumps(attempt.progress)) for key, attempt in news]
            await self._source.save_progress(self._worker, rows)

    def _lose(self, key: Held) -> None:
        """A lease that is gone: the attempt hears of it and will report to nobody."""
        if key in self._kept or any(key_of(report) == key for report in self._reports):
            return
        attempt = self._held.pop(key, None)
        if isinstance(attempt, Attempt):
            attempt.lost = attempt.cancelled = True
            if attempt.cancel_running is not None:
                attempt.cancel_running()

    def _lose_everything(self) -> None:
        self._worker = None
        self._waiting.clear()
        self._reports.clear()
        self._kept.clear()
        for key in list(self._held):
            self._lose(key)
        self._held.clear()
        self._wake.set()

    async def _save_checkpoint(self, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        """While the database is out of reach, try again for as long as we have our lease; the heartbeat ends it."""
        worker = self._worker
        while worker is not None and worker is self._worker and self._is_live():
            try:
                # An answer that does not come is waited for no longer than our lease lasts.
                async with asyncio.timeout(max(0.1, self._lease_ends - lease_clock())):
                    return await self._source.save_checkpoint(worker, lease, seq, name, data)
            except (Unreachable, TimeoutError) as reason:
                why = str(reason) or "the database does not answer"
                logger.warning("checkpoint_waits: '%s' of %s/%s: %s", name, lease.job_id, lease.node, why)
                await asyncio.sleep(RETREAT_SECONDS)
        return False

    async def _drain(self) -> None:
        """No new claims; what waits goes back at once, what runs may finish within the grace, then goes back too."""
        # The heartbeat may find meanwhile that the worker was declared gone: then nothing is held any more.
        worker = self._worker
        if worker is None:
            return
        for lease, _ in self._waiting:
            if self._held.get(_key(lease)) is lease:
                self._reports.append(given_back(begin(lease)))
        self._waiting.clear()
        for attempt in self._held.values():
            if isinstance(attempt, Attempt):
                attempt.cancelled = True
        until = time.monotonic() + self._grace_seconds
        while self._held:
            reports, self._reports = [*self._reports, *self._kept.take_due(time.monotonic())], []
            if reports:
                self._settle(reports, await self._source.report(worker, reports, self._keep))
                continue
            self._wake.clear()
            remaining = until - time.monotonic()
            if remaining <= 0:
                break
            again = self._kept.seconds_left(time.monotonic())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), remaining if again is None else min(again, remaining))
        await self._executor.end_children()
        leftover = [given_back(a) for a in self._held.values() if isinstance(a, Attempt)]
        if leftover:
            await self._source.report(worker, leftover)
        await self._source.release_strays(worker, ())


def _crash_with(tasks: Iterable[asyncio.Task[None]]) -> None:
    """An attempt or the heartbeat ends so only by our own bug: it must not do so in silence."""
    for task in tasks:
        if task.done():
            task.result()


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """A handler may ignore that it is cancelled: cancel until all are gone."""
    remaining = set(tasks)
    for _ in range(END_ATTEMPTS):
        for task in remaining:
            task.cancel()
        _, remaining = await asyncio.wait(remaining, timeout=0.1)
        if not remaining:
            return
    logger.warning("handlers_ignore_their_end: %d are left behind", len(remaining))


def _key(lease: Lease) -> Held:
    return (lease.job_id, lease.node, lease.item, lease.epoch)


def _runs_since(held: Lease | Attempt, moment: float) -> bool:
    """Whether it has begun before that moment and has not ended."""
    return isinstance(held, Attempt) and held.cancel_running is not None and held.started_monotonic < moment
