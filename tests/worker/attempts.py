"""Attempts without a database: a lease as a worker gets it, run by an executor."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from holdfast.define.gates import BreakerRules
from holdfast.define.registry import Registry, describe
from holdfast.errors import ErrorCode
from holdfast.store.payloads import Folder, Objects, Payloads
from holdfast.store.records import ItemResult, JobFacts, Lease, Report
from holdfast.worker.context import Attempt, CheckpointStore, HandlerServices
from holdfast.worker.dependencies import SeenBreaker
from holdfast.worker.execute import Executor, begin
from holdfast.worker.workdir import Workplace
from tests.running import HOME
from tests.running import registry as installed

JOB_ID = str(uuid.uuid4())
DATABASE_URL = "postgresql://user@host/database"


def lease(handler: str = "under_test", params: dict[str, Any] | None = None, **changes: Any) -> Lease:
    made = Lease(JOB_ID, "n", -1, 1, 1, handler, 60.0, False, params or {}, None, 0)
    return made._replace(**changes)


def executor(registry: Registry, save: CheckpointStore, objects: Objects | None = None, **sizes: int) -> Executor:
    """An executor as a worker has it. The objects are in a folder by default."""
    payloads = Payloads(objects or Folder(HOME / "payloads"), **sizes)
    return Executor(registry, replace(services(save), objects=payloads.objects), payloads, 4)


def services(save: CheckpointStore, results: list[ItemResult] | None = None, home: Path = HOME) -> HandlerServices:
    """The services of a worker; the node `before` has these results."""

    async def pages(job_id: str, node: str, after: int, until: int, limit: int) -> list[ItemResult] | None:
        if results is None or node != "before":
            return None
        return [r for r in results if after < r.item < until][:limit]

    async def breaker(tenant: str, name: str) -> SeenBreaker | None:
        rules = BreakerRules("gateway", codes=("BUSY", "HANDLER_ERROR"))
        return {"gateway": SeenBreaker(rules, is_open=False), "down": SeenBreaker(rules, is_open=True)}.get(name)

    return HandlerServices(save, pages, Folder(home / "payloads"), Workplace(home / "work"), breaker, DATABASE_URL)


@dataclass
class Bench:
    """Runs handlers and keeps their checkpoints; `holds` says whether the lease is still held."""

    registry: Registry
    holds: bool = True
    checkpoints: list[tuple[int, str, Any]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    async def _save(self, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        if self.holds:
            self.checkpoints.append((seq, name, orjson.loads(data)))
        return self.holds

    async def run(self, attempt: Attempt) -> Report | None:
        running = executor(self.registry, self._save, None, **self.sizes)
        try:
            return await asyncio.create_task(running.run(attempt))
        finally:
            running.close()

    async def result(self, params: dict[str, Any] | None = None, handler: str = "under_test", **changes: Any) -> Report:
        report = await self.run(begin(lease(handler, params, **changes), JobFacts(1, {"region": "CIV"})))
        assert report is not None
        return report


def bench(function: Callable[..., Any], codes: Iterable[ErrorCode] = (), **sizes: int) -> Bench:
    registry = Registry([describe(function, "under_test")])
    registry.codes |= {declared.code: declared for declared in codes}
    return Bench(registry, sizes=sizes)


def builtin() -> Bench:
    return Bench(installed())


def output(report: Report) -> Any:
    assert report.outcome == "done", data_of(report)
    assert report.output is not None
    return orjson.loads(report.output)


def data_of(report: Report) -> dict[str, Any]:
    return orjson.loads(report.data) if report.data is not None else {}


async def started(task: asyncio.Task[Any], event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), 10)
    assert not task.done()
