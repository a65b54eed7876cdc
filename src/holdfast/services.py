"""The services of one process, woken by each other and by the database: orchestrators with their duties, a
worker, or both."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from holdfast.janitor.service import Janitor
from holdfast.meters import Meters, Sample
from holdfast.notify.service import Notifier
from holdfast.orchestrator.loop import Orchestrator
from holdfast.schedules.service import Scheduler
from holdfast.store.batch import Handover
from holdfast.store.records import ANYBODY, Lease
from holdfast.worker.loop import Worker

HANDOVER_LIMIT = 16
"""How many reports a worker gives to an orchestrator in the same process without a transaction of their own."""


LOOK_SECONDS = 0.01


class Listener(Protocol):
    """Passes the wake-ups of other processes on."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Switchboard:
    """Connects the services of this process with each other."""

    def __init__(self) -> None:
        self.orchestrators: list[Orchestrator] = []
        self.tasks = asyncio.Event()
        """Set when work has come."""

    def wake_owners(self, owners: str) -> None:
        """Wake the orchestrators that signals wait for: these owners, or for a new job one that is idle."""
        if owners == str(ANYBODY):
            idle = [o for o in self.orchestrators if o.is_idle]
            woken = idle[:1] or self.orchestrators
        else:
            named = owners.split(",") if owners else None
            woken = [o for o in self.orchestrators if named is None or str(o.orchestrator_id) in named]
        for orchestrator in woken:
            orchestrator.wake()

    async def hand_over(self, handover: Handover) -> tuple[frozenset[int], list[Lease]] | None:
        """To the one orchestrator here that owns all these jobs, if it is idle; crowds are quicker side by side."""
        owners = {report.owner for report in handover.reports}
        if len(owners) > 1 or len(handover.reports) > HANDOVER_LIMIT:
            return None
        for orchestrator in self.orchestrators:
            if orchestrator.is_idle and orchestrator.orchestrator_id in owners:
                result = await orchestrator.take(handover)
                return (result.accepted, result.leases) if result is not None and result.accepted is not None else None
        return None


class Services:
    """Orchestrators, a janitor, a notifier and a worker, as far as there are any. The worker ends first."""

    def __init__(
        self,
        switchboard: Switchboard,
        listener: Listener,
        janitor: Janitor | None,
        notifier: Notifier | None,
        scheduler: Scheduler | None,
        worker: Worker | None,
        closing: Sequence[Callable[[], Awaitable[None]]],
        meters: Meters,
    ) -> None:
        """At the end `closing` is called: what the services alone have used."""
        self.meters = meters
        meters.watch(self._gauges)
        self.orchestrators = switchboard.orchestrators
        self.worker = worker
        self._listener = listener
        self._janitor = janitor
        self._duties = {"janitor": janitor, "notifier": notifier, "schedules": scheduler}
        self._closing = closing
        self._stop_worker, self._stop_orchestrator = asyncio.Event(), asyncio.Event()
        self._orchestrating: list[asyncio.Task[None]] = []
        self._working: asyncio.Task[None] | None = None

    @property
    def jobs(self) -> int:
        """How many jobs the orchestrators here own, as far as memory says."""
        return sum(orchestrator.job_count for orchestrator in self.orchestrators)

    @property
    def tasks(self) -> int:
        """How many leases the worker here holds."""
        return self.worker.lease_count if self.worker is not None else 0

    @property
    def are_ready(self) -> bool:
        """Whether other processes see all services here."""
        orchestrating = all(orchestrator.orchestrator_id is not None for orchestrator in self.orchestrators)
        return orchestrating and (self.worker is None or self.worker.is_registered)

    def _gauges(self) -> list[Sample]:
        samples = []
        if self.orchestrators:
            samples.append(Sample("jobs_owned", self.jobs))
        if self._janitor is not None:
            samples.append(Sample("janitor_leads", int(self._janitor.leads)))
        if self.worker is not None:
            samples += [Sample("slots", self.worker.slot_count), Sample("slots_busy", self.tasks)]
        return samples

    async def start(self) -> None:
        _tune_garbage_collection()
        await self._listener.start()
        self._orchestrating = [
            asyncio.create_task(orchestrator.run(self._stop_orchestrator), name="holdfast orchestrator")
            for orchestrator in self.orchestrators
        ]
        self._orchestrating += [
            asyncio.create_task(duty.run(self._stop_orchestrator), name=f"holdfast {name}")
            for name, duty in self._duties.items()
            if duty is not None
        ]
        if self.worker is not None:
            self._working = asyncio.create_task(self.worker.run(self._stop_worker), name="holdfast worker")

    @property
    def _running(self) -> list[asyncio.Task[None]]:
        return [*self._orchestrating, *([self._working] if self._working is not None else [])]

    async def until_registered(self, seconds: float) -> None:
        """Wait until other processes see the services here. At most that long: the database may be out of reach."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not any(task.done() for task in self._running):
            if self.are_ready:
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def wait(self) -> None:
        """Until a service ends, which it does only by our bug or because it was asked to stop."""
        done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    def request_stop(self) -> None:
        """Begin the end: the worker first, so that an orchestrator still reads what it reports."""
        (self._stop_worker if self.worker is not None else self._stop_orchestrator).set()

    async def stop(self) -> None:
        """Tell the services to stop and wait until they have handed over what they hold."""
        self._stop_worker.set()
        try:
            if self._working is not None:
                await self._working
        finally:
            self._stop_orchestrator.set()
            try:
                await asyncio.gather(*self._orchestrating)
            finally:
                await self._listener.stop()
                for close in self._closing:
                    await close()

    async def __aenter__(self) -> Services:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()


def _tune_garbage_collection() -> None:
    """What is imported lives for ever, and rows make no cycles: looking for garbage took a third of the time."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
