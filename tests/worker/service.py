"""A running worker on a real Postgres, for tests that play the orchestrator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from holdfast.define.registry import Registry, describe
from holdfast.remote.objects import RemoteObjects
from holdfast.remote.task_source import RemoteTaskSource
from holdfast.store.payloads import Folder, Payloads
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import SignalRow
from holdfast.worker.loop import Worker
from holdfast.worker.options import WorkerOptions
from holdfast.worker.workdir import Workplace
from tests import sources
from tests.conftest import eventually
from tests.running import HOME, streams_kept
from tests.service.serving import serving_http
from tests.store.stage import Stage
from tests.worker.attempts import lease as lease_of


class Between:
    """Stands before a worker's source of tasks. What a subclass does not change goes through."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Service:
    """A running worker, its events, and the source that it uses."""

    def __init__(self, source: Any, objects: Any, wake: asyncio.Event, handler: Callable[..., Any], **settings: Any):
        self.source = source
        self.wake, self.stopping = wake, asyncio.Event()
        self.worker = Worker(
            source,
            Registry([describe(handler, "work")]),
            WorkerOptions("under test", **(DEFAULTS | settings)),
            wake=self.wake,
            payloads=Payloads(objects),
            workplace=Workplace(HOME / "work"),
        )
        self.task = asyncio.create_task(self.worker.run(self.stopping))

    async def stop(self) -> None:
        self.stopping.set()
        await asyncio.wait_for(self.task, 20)


DEFAULTS: dict[str, Any] = {
    "queues": None, "concurrency": 4, "claim_batch": 100, "lease_seconds": 10.0, "renew_seconds": 0.1,
    "poll_seconds": 0.05, "grace_seconds": 5.0,
}  # fmt: skip


@asynccontextmanager
async def serving(
    url: str, handler: Callable[..., Any], between: Callable[[Any], Any] = lambda source: source, **settings: Any
) -> AsyncIterator[Service]:
    """A worker at the database or, in the tests that run over both, one over HTTP; `between` stands before it."""
    wake = asyncio.Event()
    async with _source(url, wake, settings.get("poll_seconds", 0.05)) as (source, objects):
        with streams_kept():
            service = Service(between(source), objects, wake, handler, **settings)
            try:
                yield service
            finally:
                await service.stop()


@asynccontextmanager
async def _source(url: str, wake: asyncio.Event, poll_seconds: float) -> AsyncIterator[tuple[Any, Any]]:
    if sources.kind == sources.DATABASE:
        store = PostgresStore(url, "holdfast worker")
        try:
            yield store, Folder(HOME / "payloads")
        finally:
            await store.close()
        return
    async with serving_http(url) as service:
        key = await service.key("worker")
        source = RemoteTaskSource(service.url, key, wake=wake.set, wait_seconds=poll_seconds)
        objects = RemoteObjects(service.url, key, source.tokens)
        try:
            yield source, objects
        finally:
            await source.close()
            objects.close()


async def reports(stage: Stage, me: int, number: int = 1) -> list[SignalRow]:
    """The signals of the owner once there are that many."""

    async def enough() -> list[SignalRow]:
        signals = await stage.signals(me)
        return signals if len(signals) >= number else []

    return await eventually(enough)


async def leases(stage: Stage, job_id: str) -> int:
    return sum(row["state"] == "leased" for row in await stage.behind.queue(job_id))


def report_lease(signal: SignalRow) -> Any:
    return lease_of(
        job_id=signal.job_id, node=signal.node, item=signal.item, epoch=signal.epoch, attempt=signal.attempt
    )
