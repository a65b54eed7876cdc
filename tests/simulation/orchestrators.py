"""Orchestrators: they own jobs, alone or in one process with a worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.core.breaking import Breaker
from holdfast.core.effects import WithdrawTasks
from holdfast.core.signals import CancelRequested, Signal
from holdfast.core.states import JobState
from holdfast.errors import Fenced, LostRace, Unreachable
from holdfast.orchestrator.deciding import Decider
from holdfast.orchestrator.loop import KILLS
from holdfast.orchestrator.owner import Owner
from holdfast.store.batch import Batch, Handover
from holdfast.store.interface import Store
from holdfast.store.leases import in_lock_order
from holdfast.store.records import Lease, WorkerIdentity
from tests.simulation.environment import HANDLERS, LEASE_SECONDS, RENEW_SECONDS
from tests.simulation.workers import Workers

KILLER_SECONDS = 30.0


class TakeoverUnknown(Exception):
    """The answer to a takeover was lost."""


class Died(BaseException):
    """A process dies in the middle of a decision."""


class MortalOwner(Owner):
    """An owner that dies when it advances a deadly job, unless it cancels the job."""

    def __init__(self, deadly: set[str], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._decider = MortalDecider(deadly, self._cycle, self._rules, arguments[4], self._program)


class MortalDecider(Decider):
    def __init__(self, deadly: set[str], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._deadly = deadly

    async def advance(
        self,
        batch: Batch,
        state: JobState,
        signals: Iterable[Signal],
        owed: Iterable[str],
        breakers: dict[str, Breaker],
        now: float,
    ) -> list[WithdrawTasks]:
        signals = list(signals)
        cancels = any(isinstance(one, CancelRequested) for one in signals)
        is_open = state.stop is None and not state.is_terminal
        if state.job_id in self._deadly and is_open and not cancels:
            raise Died
        return await super().advance(batch, state, signals, owed, breakers, now)


class Orchestrators(Workers):
    """The processes that own jobs."""

    async def _orchestrate(self) -> None:
        """The loop of orchestrator/loop.py on virtual time."""
        store = self._new_store()
        former: int | None = None
        while True:
            try:
                if former is not None:
                    await store.end_orchestrator(former)
                    former = None
                orchestrator_id = await store.register_orchestrator("orchestrator", LEASE_SECONDS)
                owner = self._new_owner(store, orchestrator_id)
                self.current.cycles = [owner._cycle]
                await self._own(store, owner)
            except Fenced:
                self.trace.append(f"{self.db.time:.3f} fenced")
            except TakeoverUnknown:
                former = orchestrator_id
            except (Unreachable, LostRace):
                await self._sleep(0.2)

    def _new_owner(self, store: Store, orchestrator_id: int) -> Owner:
        return MortalOwner(self.deadly, store, orchestrator_id, f"o{orchestrator_id}", self.rules, self._chance_or_bug)

    async def _own(self, store: Store, owner: Owner) -> None:
        renew_at = sweep_at = scan_at = 0.0
        while True:
            try:
                if self.db.time >= renew_at:
                    if not await store.renew_orchestrator(owner.orchestrator_id, LEASE_SECONDS):
                        raise Fenced("ended by another")
                    renew_at = self.db.time + RENEW_SECONDS
                if self.db.time >= scan_at:
                    scan_at = self.db.time + 2.0
                    await self._take_over(store, owner)
                    owner.subscribe(await store.subscriptions())
                if self.db.time >= sweep_at:
                    sweep_at = self.db.time + 1.0
                    if self.mix.steps_back and owner.doubts_clock:
                        await store.follow_clock(LEASE_SECONDS)
                    await store.sweep_inbox()
                    await store.expire()
                    owner.notice((await store.open_gates()).shut)
                    await store.wake_due()
                result = await owner.run_cycle()
            except Fenced:
                raise
            except (Unreachable, LostRace):
                await self._sleep(0.2)
                continue
            if not result.more:
                deadline = owner.next_deadline()
                await self._idle(max(0.05, min(self.poll_seconds, (deadline or 1e18) - self.db.now)))

    async def _take_over(self, store: Store, owner: Owner) -> None:
        """Take over jobs. Without an answer the orchestrator does not know its jobs, and begins under a new id."""
        try:
            owner.adopt(await store.take_over(owner.orchestrator_id, 100))
        except Unreachable:
            raise TakeoverUnknown from None
        dangers = await store.dangers(KILLER_SECONDS)
        owner.beware(dangers)
        for job_id in dangers.killers:
            await store.set_aside(job_id, owner.orchestrator_id, KILLS)

    async def _work_and_own(self) -> None:
        """A worker and an owner in one process: the owner accepts the worker's reports and returns its next leases."""
        store = self._new_store()
        while True:
            try:
                orchestrator_id = await store.register_orchestrator("both", LEASE_SECONDS)
                owner = self._new_owner(store, orchestrator_id)
                self.current.cycles = [owner._cycle]
                started = self.db.time
                worker = await store.register_worker("worker", None, HANDLERS, 4, LEASE_SECONDS)
                await self._do_both(store, owner, worker, started)
            except (Unreachable, LostRace, Fenced, TakeoverUnknown):
                # The leases of the worker and of the orchestrator expire by themselves.
                await self._sleep(0.3)

    async def _do_both(self, store: Store, owner: Owner, worker: WorkerIdentity, started: float) -> None:
        renew_at, lease_ends, scan_at = started + RENEW_SECONDS, started + LEASE_SECONDS, 0.0
        held: list[Lease] = []
        while True:
            if self.db.time >= renew_at:
                asked_at, held_keys = self.db.time, [(*h[:3], h.epoch) for h in held]
                still = await store.renew_worker(worker, LEASE_SECONDS, held_keys)
                if still is None or not await store.renew_orchestrator(owner.orchestrator_id, LEASE_SECONDS):
                    return
                await store.release_strays(worker, held_keys)
                held = [h for h in held if (*h[:3], h.epoch) in still]
                lease_ends, renew_at = asked_at + LEASE_SECONDS, asked_at + RENEW_SECONDS
            if self.db.time >= lease_ends:
                return
            if self.db.time >= scan_at:
                scan_at = self.db.time + 2.0
                await self._take_over(store, owner)
                if self.mix.steps_back and owner.doubts_clock:
                    await store.follow_clock(LEASE_SECONDS)
                await store.sweep_inbox()
                owner.notice((await store.open_gates()).shut)
                await store.wake_due()
            if not held:
                held = await store.claim(worker, None, HANDLERS, 2)
            reports = in_lock_order(await self._execute_all(store, worker, held[:2], lease_ends))
            held = held[2:]
            if not reports:
                await self._advance_alone(owner)
                continue
            result = await owner.run_cycle(Handover(worker, reports, None, HANDLERS, 2))
            if result.accepted is None:
                await self._report(store, worker, reports)
            else:
                self.db.history.handed += len(result.accepted)
                held += result.leases

    async def _advance_alone(self, owner: Owner) -> None:
        if not (await owner.run_cycle()).more:
            await self._idle(self.poll_seconds)
