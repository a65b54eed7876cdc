"""A running worker on a real Postgres, for tests that play the orchestrator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from holdfast.define.registry import Registry, describe
from holdfast.store.payloads import Folder, Payloads
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import SignalRow
from holdfast.worker.loop import Worker
from holdfast.worker.options import WorkerOptions
from holdfast.worker.workdir import Workplace
from tests.conftest import eventually
from tests.running import HOME, streams_kept
from tests.store.stage import Stage
from tests.worker.attempts import lease as lease_of


class Service:
    """A running worker, its events, and the store that it uses."""

    def __init__(self, store: PostgresStore, handler: Callable[..., Any], **settings: Any) -> None:
        self.store = store
        self.wake, self.stopping = asyncio.Event(), asyncio.Event()
        defaults: dict[str, Any] = {
            "queues": None, "concurrency": 4, "claim_batch": 100, "lease_seconds": 10.0, "renew_seconds": 0.1,
            "poll_seconds": 0.05, "grace_seconds": 5.0,
        }  # fmt: skip
        self.worker = Worker(
            store,
            Registry([describe(handler, "work")]),
            WorkerOptions("under test", **(defaults | settings)),
            wake=self.wake,
            payloads=Payloads(Folder(HOME / "payloads")),
            workplace=Workplace(HOME / "work"),
        )
        self.task = asyncio.create_task(self.worker.run(self.stopping))

    async def stop(self) -> None:
        self.stopping.set()
        await asyncio.wait_for(self.task, 20)


@asynccontextmanager
async def serving(url: str, handler: Callable[..., Any], **settings: Any) -> AsyncIterator[Service]:
    store = settings.pop("store", None) or PostgresStore(url, "holdfast worker")
    with streams_kept():
        service = Service(store, handler, **settings)
        try:
            yield service
        finally:
            await service.stop()
            await store.close()


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
