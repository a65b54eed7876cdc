"""A simulated world on a real database: the same processes and faults, but each of their statements is real.

All processes are tasks of one event loop, which runs only while the scheduler lets a process run. The scheduler's
clock is the only one, in Postgres too.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import Awaitable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from holdfast.store.interface import Store
from holdfast.store.records import Lease, NewJob
from tests.interleaving.gate import GatedConnections, GatedStore
from tests.interleaving.mirror import Mirror
from tests.interleaving.observer import RECORDED, Observer
from tests.simulation.database import IDLE_IN_TRANSACTION_SECONDS, Database
from tests.simulation.environment import HANDLERS, Process
from tests.simulation.world import World, check_results

PATIENCE_SECONDS = 0.01
"""How long the scheduler waits for a running process before it checks whether the process waits for a lock."""

NOTIFIED_SHARE = 0.7
"""How often an idle process gets the notification of a commit; the others are lost."""

STEPS = 20_000


@dataclass
class Place:
    """Where a process is: at its gate, between two gates, or blocked by a lock between the two."""

    process: Process
    connections: list[GatedConnections] = field(default_factory=list)
    gate: asyncio.Future[None] | None = None
    waits_for: tuple[GatedConnections, str] | None = None
    is_idle: bool = False
    is_blocked: bool = False
    was_blocked: bool = False

    @property
    def is_moving(self) -> bool:
        return self.gate is None and not self.process.running.done()

    def pids(self) -> list[int]:
        return self.waits_for[0].pids(self.waits_for[1]) if self.waits_for is not None else []


_here: ContextVar[Place] = ContextVar("_here")


class GatedWorld(World):
    """Runs one seed on the database of the observer, which must be prepared."""

    handlers = HANDLERS
    poll_seconds = 3.0

    def __init__(self, seed: int, observer: Observer) -> None:
        self.observer = observer
        self.observer.empty()
        self.dice = random.Random(f"interleaving {seed}")
        self._finely = self.dice.choice([0.0, 0.3, 1.0])
        self._ahead = self.dice.choice([0.0, 0.5])
        self._drowsiness = self.dice.choice([0.0, 0.02, 0.1])
        self._loop = asyncio.new_event_loop()
        self._moved = asyncio.Event()
        self._places: dict[str, Place] = {}
        self.blocked = 0
        self.has_news = False
        super().__init__(seed)
        self.mix.pauses_queues = 0.0
        # No job is deadly here: only the scheduler ends processes.
        self.deadly.clear()
        self.mirror = Mirror(self.db)
        self.db.definitions = {job.definition_hash: job.definition for job in self.jobs}

    def _draw_subscriptions(self) -> dict[str, frozenset[str]]:
        """None: the webhooks of a real database outlive a world."""
        super()._draw_subscriptions()
        return {}

    def _draw_jobs(self) -> list[NewJob]:
        return [job._replace(job_id=str(uuid.UUID(int=n))) for n, job in enumerate(super()._draw_jobs(), 1)]

    def run(self, limit: int = STEPS) -> None:
        try:
            super().run(limit)
            self._observe()
            self._compare_with_the_tables()
        finally:
            self._loop.close()

    def _compare_with_the_tables(self) -> None:
        """Check that the mirror, which followed each commit, equals the tables."""
        tables = Mirror(Database())
        tables.follow(self.observer.rows())
        for table in RECORDED:
            here, there = ({k: v for k, v in getattr(db, table).items() if v} for db in (self.db, tables.db))
            assert here == there, f"the mirror of {table} differs from the table"

    def _lose_a_row(self) -> None:
        """Nothing outside the engine changes this database."""

    def _save_or_go_back(self) -> None:
        """This database is never restored to an earlier state."""

    # Random choices

    def draw_fault(self) -> str:
        fault = self._commit_outcome()
        self.db.history.commits_failed += fault == "failed"
        self.db.history.commits_unknown += fault == "unknown"
        return fault

    def is_interleaved(self) -> bool:
        return self.dice.random() < self._finely

    def draw_nap(self, seconds: Sequence[float]) -> float:
        return self.dice.choice(seconds) if self.troubled and self.dice.random() < self._drowsiness else 0.0

    def claims_ahead(self) -> bool:
        return self.dice.random() < self._ahead

    # The store and the time of the processes

    def _new_store(self) -> Store:
        return GatedStore(self.observer.url, self, _here.get())

    async def _sleep(self, seconds: float) -> None:
        place = _here.get()
        place.process.wake_at = self.db.time + seconds
        await self.gate(place)

    async def _idle(self, seconds: float) -> None:
        place = _here.get()
        place.is_idle = True
        await self._sleep(seconds)
        place.is_idle = False

    async def _breathe(self) -> None:
        await self.gate(_here.get())

    def _spent(self, lease: Lease) -> tuple[int, int]:
        self._observe()
        return super()._spent(lease)

    async def gate(self, place: Place) -> None:
        """Wait until the scheduler lets the process of this place run."""
        place.gate = self._loop.create_future()
        place.waits_for = None
        self._moved.set()
        try:
            await place.gate
        finally:
            place.gate = None

    def _begin(self, process: Process) -> None:
        place = self._places[process.name] = Place(process)
        process.running = self._loop.create_task(self._live(place))
        self._wait(self._settle())

    async def _live(self, place: Place) -> None:
        _here.set(place)
        try:
            await self.gate(place)
            await place.process.start()
        finally:
            self._moved.set()

    def _kill(self, process: Process) -> None:
        """End the process and its connections; it can send nothing more."""
        place = self._places.pop(process.name)
        for connections in place.connections:
            connections.is_dead = True
            self.observer.end(connections.pids())
        process.running.cancel()
        self._wait(asyncio.wait([process.running]))
        self._close(place)
        process.running = None
        self._wait(self._settle())

    def _close(self, place: Place) -> None:
        for connections in place.connections:
            self._wait(connections.close())

    def _end_idle_transactions(self) -> None:
        for place in self._places.values():
            for connections in place.connections:
                if not place.is_moving and self.db.time - connections.active_at > IDLE_IN_TRANSACTION_SECONDS:
                    self.observer.end(connections.idle_in_transaction())
        self._wait(self._settle())

    # The scheduler

    def _take_step(self) -> None:
        if self.troubled and self._is_done():
            self._calm_down()
        super()._take_step()
        self._observe()

    def _calm_down(self) -> None:
        super()._calm_down()
        for place in self._places.values():
            if place.is_blocked:
                place.process.wake_at = float("inf")

    def _advance(self, process: Process) -> None:
        place = self._places[process.name]
        assert place.gate is not None
        place.gate.set_result(None)
        place.gate = None
        self.current = process
        self._wait(self._settle())
        self.trace.append(f"{self.db.time:.3f} {process.name}")
        for other in list(self._places.values()):
            if other.process.running.done():
                self._leave(other)

    def _leave(self, place: Place) -> None:
        """Clean up after a process that ended, and raise its error if it has one."""
        del self._places[place.process.name]
        self._close(place)
        finished, place.process.running = place.process.running, None
        place.process.wake_at = float("inf")
        finished.result()

    def _wait(self, until: Awaitable[Any]) -> None:
        self._loop.run_until_complete(until)

    async def _settle(self) -> None:
        """Wait until each running process is at its next gate, or waits for a lock of a process at its gate."""
        while moving := [place for place in self._places.values() if place.is_moving]:
            if not all(place.is_blocked for place in moving):
                await self._movement()
            moving = [place for place in moving if place.is_moving]
            if not moving:
                break
            waits = self.observer.waits([pid for place in moving for pid in place.pids()])
            for place in moving:
                self._note(place, any(pid in waits for pid in place.pids()))
            if all(place.is_blocked for place in moving):
                check_for_circles(waits)
                break
        for place in self._places.values():
            if place.is_blocked and not place.is_moving:
                place.is_blocked = False
                place.process.wake_at = self.db.time

    async def _movement(self) -> None:
        self._moved.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._moved.wait(), PATIENCE_SECONDS)

    def _note(self, place: Place, is_blocked: bool) -> None:
        if is_blocked and not place.is_blocked:
            self.blocked += 1
            place.was_blocked = True
            place.process.wake_at = float("inf")
        elif place.is_blocked and not is_blocked:
            # The lock is free: the process runs again, and gets its turn at its next gate.
            place.process.wake_at = self.db.time
        place.is_blocked = is_blocked

    def _observe(self) -> None:
        """Read and check new commits, and notify most of the idle processes."""
        if not self.has_news:
            return
        self.has_news = False
        for commit in self.observer.commits():
            self.mirror.follow(commit)
            self.checkers.check_step()
            for place in self._places.values():
                if place.is_idle and self.dice.random() < NOTIFIED_SHARE:
                    place.process.wake_at = min(place.process.wake_at, self.db.time)


def check_for_circles(waits: dict[int, list[int]]) -> None:
    """Check that every chain of waits ends at a process that does not wait."""
    while free := {pid for pid, blockers in waits.items() if not all(blocker in waits for blocker in blockers)}:
        waits = {pid: blockers for pid, blockers in waits.items() if pid not in free}
    assert not waits, f"a deadlock: {waits}"


def run_seed(seed: int, observer: Observer) -> GatedWorld:
    """Run one seed on the real store, and compare its results with those of a model without faults."""
    world = GatedWorld(seed, observer)
    world.run()
    check_results(world)
    return world
