"""The orchestrator as a service: when to run a cycle, renew the lease, sweep, and take over from the dead."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

from holdfast.core.states import Rules
from holdfast.errors import Fenced, Locked, LostRace, Unreachable
from holdfast.log_events import EventLog, LastingTrouble
from holdfast.meters import Meters
from holdfast.orchestrator.job_lines import count_cycle, log_cycle
from holdfast.orchestrator.owner import CycleResult, Owner
from holdfast.orchestrator.task_spans import send_task_spans
from holdfast.pacing import CrowdingMonitor
from holdfast.store.batch import Handover
from holdfast.store.interface import OwnerStore

log = EventLog("holdfast.orchestrator")

SWEEP_SECONDS = 1.0
UPKEEP_SHARE = 0.02
"""How much of its time an orchestrator spends at most on looking through all that waits, and through all open jobs."""
TAKE_LIMIT = 2000
RETREAT_SECONDS = 0.2
DUE_GRAIN_SECONDS = 0.02
KILLS = "orchestrators died whenever they advanced this job; it is tried once an hour, and can be cancelled"
KILLER_SECONDS = 3600.0
YIELD_SECONDS = 0.005
"""What a wide job leaves to others after each of its cycles, while there are others."""


class Orchestrator:
    """Runs until it is asked to stop, then hands its jobs over at once."""

    def __init__(
        self,
        store: OwnerStore,
        name: str,
        *,
        rules: Rules,
        lease_seconds: float,
        renew_seconds: float,
        scan_seconds: float,
        poll_seconds: float,
        crowding: CrowdingMonitor | None = None,
        only_job: str | None = None,
        hooks: Sequence[str] = (),
        meters: Meters | None = None,
        on_enqueued: Callable[[], None] = lambda: None,
        on_overflow: Callable[[], None] = lambda: None,
        on_finished: Callable[[str], None] = lambda job_id: None,
    ) -> None:
        self._store = store
        self._name = name
        self._rules = rules
        self._crowding = crowding
        self._only_job = only_job
        self._hooks = hooks
        self._meters = meters or Meters()
        self._lease_seconds = lease_seconds
        self._poll_seconds = poll_seconds
        self._wake = asyncio.Event()
        self._on_enqueued = on_enqueued
        self._on_overflow = on_overflow
        self._on_finished = on_finished
        self._owner: Owner | None = None
        self._former: int | None = None
        self._survived: int | None = None
        self._locked_out: int | None = None
        self._clock_offset = 0.0
        self._due: list[float] = []
        self._timers = {
            "renew": _Timer(renew_seconds),
            "sweep": _Timer(SWEEP_SECONDS),
            "inbox": _Timer(SWEEP_SECONDS),
            "clock": _Timer(SWEEP_SECONDS),
            "scan": _Timer(scan_seconds),
        }
        self.ready = asyncio.Event()
        self.is_idle = False
        self._handed: tuple[Handover, asyncio.Future[CycleResult | None]] | None = None
        self._trouble = LastingTrouble(log, "orchestrator_retreats", "orchestrator_recovered", orchestrator=name)

    @property
    def orchestrator_id(self) -> int | None:
        return self._owner.orchestrator_id if self._owner is not None else None

    @property
    def job_count(self) -> int:
        return len(self._owner.jobs) if self._owner is not None else 0

    def wake(self) -> None:
        self._wake.set()

    async def take(self, handover: Handover) -> CycleResult | None:
        """Run a cycle on the reports of a worker in this process; None: they were not looked at.

        Raises Unreachable if it is not known whether they were.
        """
        answer: asyncio.Future[CycleResult | None] = asyncio.get_running_loop().create_future()
        self._handed = handover, answer
        self._wake.set()
        self.is_idle = False
        return await answer

    async def run(self, stop: asyncio.Event) -> None:
        stopping = asyncio.create_task(self._wake_at(stop))
        try:
            while not stop.is_set():
                try:
                    await self._turn()
                except Fenced as reason:
                    log.write("orchestrator_fenced", reason=reason)
                    self._survived = self._owner.orchestrator_id if self._owner is not None else None
                    self._owner = None
                    self._decline()
                except (LostRace, Unreachable) as reason:
                    self._trouble.again(reason)
                    self._decline()
                    await _wait(stop, RETREAT_SECONDS)
        finally:
            stopping.cancel()
            self._decline()
            if self._owner is not None:
                with contextlib.suppress(Unreachable, LostRace):
                    await self._store.end_orchestrator(self._owner.orchestrator_id)

    def _decline(self) -> None:
        """A handover that the turn did not come to: the worker reports by itself."""
        if self._handed is not None:
            _, answer = self._handed
            self._handed = None
            if not answer.done():
                answer.set_result(None)

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wake.set()

    async def _turn(self) -> None:
        if self._owner is None:
            if self._former is not None:
                await self._store.end_orchestrator(self._former)
                self._former = None
            if self._survived is not None:
                # It was declared dead, but no job was the death of it.
                await self._store.forget_open_cycle(self._survived)
                self._survived = None
            orchestrator_id = await self._store.register_orchestrator(self._name, self._lease_seconds, self._only_job)
            await self._announce_hooks()
            self._owner = Owner(self._store, orchestrator_id, self._name, self._rules, random.random, self._crowding)
            self.ready.set()
        await self._inherit(self._owner)
        # Cleared before looking: what is announced while we look makes us look again.
        self._wake.clear()
        await self._upkeep(self._owner)
        began = time.perf_counter()
        try:
            result = await self._run_cycle(self._owner)
        except Locked:
            # No job is to blame. If it is our own row, no other process can end it, and we go on under another one.
            if await self._store.is_locked_out(self._owner.orchestrator_id):
                self._locked_out, self._owner = self._owner.orchestrator_id, None
            raise
        self._trouble.over()
        log_cycle(result)
        count_cycle(self._meters, result, time.perf_counter() - began)
        if result.traced:
            send_task_spans(result)
        self._announce(result)
        if result.yields:
            await asyncio.sleep(YIELD_SECONDS)
        if not result.more:
            self.is_idle = not self._wake.is_set()
            await _wait(self._wake, self._patience(self._owner))
            self.is_idle = False

    async def _run_cycle(self, owner: Owner) -> CycleResult:
        handed, self._handed = self._handed, None
        if handed is None:
            return await owner.run_cycle()
        handover, answer = handed
        try:
            result = await owner.run_cycle(handover)
        except BaseException as problem:
            if not answer.done():
                if isinstance(problem, Fenced):
                    answer.set_result(None)
                else:
                    answer.set_exception(
                        Unreachable(f"It is not known whether {len(handover.reports)} reports were accepted.")
                    )
            raise
        if not answer.done():
            answer.set_result(result if result.accepted is not None else None)
        return result

    async def _inherit(self, owner: Owner) -> None:
        """Take the jobs that we had under a row that another session keeps locked; none but we can."""
        while self._locked_out is not None:
            taken = await self._adopt(owner, self._store.inherit(owner.orchestrator_id, self._locked_out, TAKE_LIMIT))
            if len(taken) < TAKE_LIMIT:
                self._locked_out = None

    async def _upkeep(self, owner: Owner) -> None:
        """The periodic duties that are due, each one statement or two. One that meets a lock holds up no other."""
        if self._timers["renew"].is_due():
            await self._unless_locked(self._renew(owner))
        if self._timers["scan"].is_due():
            with self._timers["scan"].bounded():
                await self._unless_locked(self._take_over(owner))
                await self._unless_locked(self._subscribe(owner))
        if self._timers["inbox"].is_due():
            with self._timers["inbox"].bounded():
                await self._unless_locked(self._store.sweep_inbox())
        if self._timers["clock"].is_due() and owner.doubts_clock:
            with self._timers["clock"].bounded():
                await self._unless_locked(self._store.follow_clock(self._lease_seconds))
        if self._timers["sweep"].is_due():
            await self._unless_locked(self._store.raise_floors())
            await self._unless_locked(self._store.expire())
            await self._unless_locked(self._open_gates(owner))
            heapq.heappush(self._due, 0.0)
        now = time.time() + self._clock_offset
        if self._due and self._due[0] <= now:
            while self._due and self._due[0] <= now:
                heapq.heappop(self._due)
            if await self._store.wake_due():
                self._on_enqueued()

    @staticmethod
    async def _unless_locked(duty: Awaitable[object]) -> None:
        try:
            await duty
        except Locked as reason:
            log.write("upkeep_waits", reason=reason)

    async def _renew(self, owner: Owner) -> None:
        if not await self._store.renew_orchestrator(owner.orchestrator_id, self._lease_seconds):
            raise Fenced(f"the lease of orchestrator {owner.orchestrator_id} was ended by another")

    async def _open_gates(self, owner: Owner) -> None:
        gates = await self._store.open_gates()
        owner.notice(gates.shut)
        if gates.may_find:
            self._on_enqueued()

    async def _announce_hooks(self) -> None:
        """Before the first cycle: no job of ours ends before all who deliver know the hooks that get its end."""
        if self._hooks:
            await self._store.announce_hooks(self._hooks)

    async def _subscribe(self, owner: Owner) -> None:
        await self._announce_hooks()
        owner.subscribe(await self._store.subscriptions())

    async def _take_over(self, owner: Owner) -> None:
        """Adopt the jobs of the dead, and soon what was sent to them; beware of those that they died of."""
        if await self._adopt(owner, self._store.take_over(owner.orchestrator_id, TAKE_LIMIT)):
            self._timers["inbox"].hasten()
        dangers = await self._store.dangers(KILLER_SECONDS)
        owner.beware(dangers)
        for job_id in dangers.killers:
            await self._store.set_aside(job_id, owner.orchestrator_id, KILLS)

    async def _adopt(self, owner: Owner, taking: Awaitable[dict[str, str]]) -> dict[str, str]:
        """Without an answer it is unknown what is ours: end, and take it over again. A lock is an answer."""
        try:
            taken = await taking
        except Locked:
            raise
        except Unreachable:
            self._owner, self._former = None, owner.orchestrator_id
            raise
        owner.adopt(taken)
        return taken

    def _announce(self, result: CycleResult) -> None:
        """After the commit: wake the workers, here and elsewhere, and those who wait for a job's end."""
        self._clock_offset = result.now - time.time()
        if result.due_at is not None:
            # Rounded up, so that a thousand retries make a handful of wake-ups.
            heapq.heappush(self._due, (result.due_at // DUE_GRAIN_SECONDS + 1) * DUE_GRAIN_SECONDS)
        if result.enqueued:
            self._on_enqueued()
        if result.overflows:
            self._on_overflow()
        for job_id in result.finished:
            self._on_finished(job_id)

    def _patience(self, owner: Owner) -> float:
        """How long to wait without a wake-up."""
        now = time.time() + self._clock_offset
        moments = [self._poll_seconds, *(t.remaining() for t in self._timers.values())]
        deadline = owner.next_deadline()
        if deadline is not None:
            moments.append(deadline - now)
        if self._due:
            moments.append(self._due[0] - now)
        return max(0.0, min(moments))


class _Timer:
    """Fires at once, then at this interval of the process's own clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    def is_due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True

    @contextlib.contextmanager
    def bounded(self) -> Iterator[None]:
        """What takes long is done more seldom."""
        began = time.monotonic()
        yield
        ended = time.monotonic()
        self._next = max(self._next, ended + (ended - began) / UPKEEP_SHARE)

    def hasten(self) -> None:
        self._next = 0.0

    def remaining(self) -> float:
        return self._next - time.monotonic()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
