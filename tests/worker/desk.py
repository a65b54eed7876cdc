"""Attempts of handlers in processes, run as a worker does, and whether the processes still live."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import psutil

from holdfast.define.registry import Registry
from holdfast.store.payloads import Objects
from holdfast.store.records import JobFacts, Lease, Report
from holdfast.worker.context import Attempt
from holdfast.worker.execute import begin
from tests.conftest import eventually
from tests.worker.attempts import executor, lease


class Desk:
    """Runs attempts as a worker does, without a database; `holds` says whether the lease is still held."""

    def __init__(self, registry: Registry, objects: Objects | None = None) -> None:
        self.executor = executor(registry, self._save, objects)
        self.checkpoints: list[tuple[int, str, Any]] = []
        self.holds = True

    async def _save(self, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        if name == "unlucky":
            raise OSError("the disk is full")
        if self.holds:
            self.checkpoints.append((seq, name, orjson.loads(data)))
        return self.holds

    async def result(self, name: str, params: dict[str, Any] | None = None, **changes: Any) -> Report:
        attempt = begin(lease(name, params, **changes), JobFacts(3, {"region": "CIV"}))
        report = await asyncio.wait_for(self.executor.run(attempt), 60)
        assert report is not None
        return report

    def begin(self, name: str, params: dict[str, Any]) -> tuple[Attempt, asyncio.Task[Report | None]]:
        attempt = begin(lease(name, params, timeout_seconds=7.0))
        task = asyncio.create_task(self.executor.run(attempt))
        attempt.cancel_running = task.cancel
        return attempt, task


def lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def all_gone(pids: list[int]) -> None:
    async def gone() -> bool:
        return not any(lives(pid) for pid in pids)

    assert pids
    await eventually(gone)
