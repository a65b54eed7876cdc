"""The composition root: from settings to a database, a store and running services. Names the concrete classes."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial

from holdfast.client import Client
from holdfast.core.states import Rules
from holdfast.define.registry import Registry
from holdfast.embedded.server import use_embedded
from holdfast.janitor.service import Janitor
from holdfast.operations.scope import Scope
from holdfast.orchestrator.loop import Orchestrator
from holdfast.pacing import CrowdingMonitor
from holdfast.settings import Settings
from holdfast.store.batch import Handover
from holdfast.store.connection import check_url
from holdfast.store.installation import PostgresInstallation
from holdfast.store.listener import ANYBODY, SIGNAL, TASK, Listener
from holdfast.store.payloads import Payloads, open_objects
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import Lease
from holdfast.store.renewal import Renewal
from holdfast.worker.loop import Worker
from holdfast.worker.options import WorkerOptions
from holdfast.worker.pulse import Pulse
from holdfast.worker.workdir import Workplace

DESKS = 2
"""Orchestrators in one process: while one waits for its commit the other decides."""

HANDOVER_LIMIT = 16
"""How many reports a worker gives to an orchestrator in the same process without a transaction of their own."""


@contextmanager
def database(settings: Settings) -> Iterator[str]:
    """The URL of the database to use: the configured one, or the embedded one for as long as we are in here."""
    if settings.database_url is not None:
        check_url(settings.database_url)
        yield settings.database_url
    else:
        with use_embedded(settings.home, postgres_bin=settings.postgres_bin) as url:
            yield url


def open_payloads(settings: Settings) -> Payloads:
    """Where large values lie: the configured object store, or a folder at home."""
    objects = open_objects(settings.storage_url or str(settings.home / "payloads"))
    return Payloads(objects, settings.payload_inline_bytes, settings.payload_limit_bytes)


@asynccontextmanager
async def open_store(settings: Settings, *, create: bool = False) -> AsyncIterator[PostgresStore]:
    """A store on a database whose schema is current; on one of the user's it is made only if `create` says so."""
    with database(settings) as url:
        is_ours = settings.database_url is None
        payloads = open_payloads(settings)
        async with PostgresStore.open(url, payloads=payloads, create=create or is_ours, upgrade=is_ours) as store:
            yield store


@asynccontextmanager
async def open_client(settings: Settings, *, create: bool = False) -> AsyncIterator[Client]:
    """A client for the configured tenant, on a database as `open_store` prepares it."""
    async with open_store(settings, create=create) as store:
        yield Client(store, Scope(settings.tenant))


@asynccontextmanager
async def open_installation(settings: Settings) -> AsyncIterator[PostgresInstallation]:
    """The database itself, as it is: there may be no schema yet."""
    with database(settings) as url:
        installation = PostgresInstallation(url)
        try:
            yield installation
        finally:
            await installation.close()


def _tune_garbage_collection() -> None:
    """What is imported lives for ever, and rows make no cycles: looking for garbage took a third of the time."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def process_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _new_pulse(url: str, settings: Settings) -> Pulse:
    return Pulse(
        partial(Renewal, url, settings.lease_seconds),
        lease_seconds=settings.lease_seconds,
        renew_seconds=settings.renew_seconds,
        grace_seconds=settings.grace_seconds,
        hang_seconds=settings.hang_seconds,
    )


def _worker_options(
    url: str, settings: Settings, queues: Sequence[str] | None, concurrency: int | None
) -> WorkerOptions:
    return WorkerOptions(
        name=process_name(),
        queues=queues,
        concurrency=concurrency or settings.concurrency,
        claim_batch=settings.claim_batch,
        lease_seconds=settings.lease_seconds,
        renew_seconds=settings.renew_seconds,
        poll_seconds=settings.poll_seconds,
        grace_seconds=settings.grace_seconds,
        database_url=url,
    )


def _rules(settings: Settings) -> Rules:
    return Rules(
        lost_limit=settings.lost_limit,
        crash_limit=settings.crash_limit,
        grace_seconds=settings.grace_seconds,
        payload_limit_bytes=settings.payload_limit_bytes,
    )


def new_janitor(store: PostgresStore, settings: Settings) -> Janitor:
    return Janitor(
        store.janitor(),
        process_name(),
        lease_seconds=settings.owner_lease_seconds,
        retention_days=settings.retention_days,
    )


class Services:
    """An orchestrator, a worker, or both, in this process, woken by each other and by the database."""

    def __init__(
        self,
        url: str,
        settings: Settings,
        *,
        registry: Registry | None = None,
        orchestrate: bool = True,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        pulse: bool = False,
        on_finished: Callable[[str], None] = lambda job_id: None,
        desks: int = DESKS,
        store: PostgresStore | None = None,
        only_job: str | None = None,
    ) -> None:
        """With a `store` of the caller all services share its connections: fewer connections, less parallelism. With
        `only_job` the orchestrators here drive no other job."""
        self._shared = store
        self._payloads = open_payloads(settings)
        self._stop_worker, self._stop_orchestrator = asyncio.Event(), asyncio.Event()
        tasks = asyncio.Event()
        self._stores: list[PostgresStore] = []
        self._orchestrating: list[asyncio.Task[None]] = []
        self._working: asyncio.Task[None] | None = None
        self._listener = Listener(url, {SIGNAL: self._signalled, TASK: lambda _: tasks.set()})
        self.orchestrators: list[Orchestrator] = []
        self.worker: Worker | None = None
        crowding = CrowdingMonitor()
        for number in range(1, desks + 1 if orchestrate else 1):
            orchestrator = Orchestrator(
                self._store(url, "orchestrator", settings.owner_lease_seconds),
                process_name() if number == 1 else f"{process_name()}/{number}",
                rules=_rules(settings),
                lease_seconds=settings.owner_lease_seconds,
                renew_seconds=settings.owner_renew_seconds,
                scan_seconds=settings.owner_scan_seconds,
                poll_seconds=settings.poll_seconds,
                crowding=crowding,
                only_job=only_job,
                on_enqueued=tasks.set,
                on_overflow=lambda: self._signalled(str(ANYBODY)),
                on_finished=on_finished,
            )
            self.orchestrators.append(orchestrator)
        self._janitor: Janitor | None = None
        if orchestrate:
            self._janitor = new_janitor(self._store(url, "janitor", settings.owner_lease_seconds), settings)
        if registry is not None:
            self.worker = Worker(
                self._store(url, "worker", settings.lease_seconds),
                registry,
                _worker_options(url, settings, queues, concurrency),
                wake=tasks,
                payloads=self._payloads,
                workplace=Workplace(settings.home / "work"),
                shortcut=self._hand_over if orchestrate else None,
                pulse=_new_pulse(url, settings) if pulse else None,
            )

    def _signalled(self, owners: str) -> None:
        """Wake the orchestrators that these signals wait for: the owners, or for a new job one that is idle."""
        if owners == str(ANYBODY):
            idle = [o for o in self.orchestrators if o.is_idle]
            woken = idle[:1] or self.orchestrators
        else:
            named = owners.split(",") if owners else None
            woken = [o for o in self.orchestrators if named is None or str(o.orchestrator_id) in named]
        for orchestrator in woken:
            orchestrator.wake()

    async def _hand_over(self, handover: Handover) -> tuple[frozenset[int], list[Lease]] | None:
        """To the one orchestrator here that owns all these jobs, if it is idle; crowds are quicker side by side."""
        owners = {report.owner for report in handover.reports}
        if len(owners) > 1 or len(handover.reports) > HANDOVER_LIMIT:
            return None
        for orchestrator in self.orchestrators:
            if orchestrator.is_idle and orchestrator.orchestrator_id in owners:
                result = await orchestrator.take(handover)
                return (result.accepted, result.leases) if result is not None and result.accepted is not None else None
        return None

    def _store(self, url: str, name: str, lease_seconds: float) -> PostgresStore:
        if self._shared is not None:
            return self._shared
        store = PostgresStore(url, f"holdfast {name}", lease_seconds, self._payloads)
        self._stores.append(store)
        return store

    @property
    def jobs(self) -> int:
        """How many jobs the orchestrators here own, as far as memory says."""
        return sum(orchestrator.job_count for orchestrator in self.orchestrators)

    @property
    def tasks(self) -> int:
        """How many leases the worker here holds."""
        return self.worker.lease_count if self.worker is not None else 0

    async def start(self) -> None:
        _tune_garbage_collection()
        await self._listener.start()
        self._orchestrating = [
            asyncio.create_task(orchestrator.run(self._stop_orchestrator), name="holdfast orchestrator")
            for orchestrator in self.orchestrators
        ]
        if self._janitor is not None:
            cleaning = asyncio.create_task(self._janitor.run(self._stop_orchestrator), name="holdfast janitor")
            self._orchestrating.append(cleaning)
        if self.worker is not None:
            self._working = asyncio.create_task(self.worker.run(self._stop_worker), name="holdfast worker")

    async def wait(self) -> None:
        """Until a service ends, which it does only by our bug or because it was asked to stop."""
        running = [*self._orchestrating, *([self._working] if self._working is not None else [])]
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
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
                for store in self._stores:
                    await store.close()

    async def __aenter__(self) -> Services:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()
