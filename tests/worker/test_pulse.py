"""The watcher that renews a worker's lease while a handler holds the interpreter's lock; with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import HOLDFAST
from tests.conftest import eventually
from tests.running import SHORT_LEASES, Engine, client_of, serving

pytestmark = pytest.mark.anyio

LEASES = SHORT_LEASES | {"lease_seconds": 3.0, "renew_seconds": 0.5}
HANDLERS = """
import ctypes, os
from pathlib import Path
from holdfast import handler

@handler("hold")
def hold(seconds, started):
    "Sleeps inside C code without giving the interpreter's lock away."
    with Path(started).open("a") as file:
        file.write(f"{os.getpid()}\\n")
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    return "held"
"""
HOLD = """
workflow_id: hold
inputs: {started: {type: string}, seconds: {type: number}}
nodes: {a: {handler: hold, params: {seconds: "{{ inputs.seconds }}", started: "{{ inputs.started }}"}}}
"""


@asynccontextmanager
async def orchestrated(url: str) -> AsyncIterator[Engine]:
    async with client_of(url) as engine, serving(url, work=False, **LEASES):
        yield engine


@asynccontextmanager
async def worker(url: str, folder: Path) -> AsyncIterator[psutil.Process]:
    """A `holdfast worker` of its own process, with short leases."""
    (folder / "holding.py").write_text(HANDLERS)
    settings = {f"HOLDFAST_{name.upper()}": str(value) for name, value in LEASES.items()}
    process = await asyncio.create_subprocess_exec(
        *HOLDFAST, "worker", "--handlers", "holding",
        env=os.environ | settings | {"HOLDFAST_DATABASE_URL": url}, cwd=folder,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield psutil.Process(process.pid)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


async def started(file: Path) -> bool:
    return file.exists() and bool(file.read_text())


async def outcome(engine: Engine, job_id: str) -> tuple[str, list[str]]:
    status = await engine.finished(job_id, 60)
    return status["status"], [event["event"] for event in await engine.events(job_id)]


async def test_a_handler_that_holds_the_interpreters_lock_for_longer_than_the_lease_keeps_its_lease(
    database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "started"
    async with orchestrated(database_url) as engine, worker(database_url, tmp_path) as process:
        await eventually(lambda: has_watcher(process), 20)
        job_id = await engine.submit(HOLD, {"started": str(file), "seconds": 7})
        status, events = await outcome(engine, job_id)
    assert status == "completed"
    assert "worker_lost" not in events
    assert len(file.read_text().split()) == 1


async def has_watcher(process: psutil.Process) -> bool:
    return any("holdfast.worker.pulse" in child.cmdline() for child in process.children())


async def test_the_watcher_ends_with_a_worker_that_was_killed_and_the_task_runs_elsewhere(
    database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "started"
    async with orchestrated(database_url) as engine:
        async with worker(database_url, tmp_path) as process:
            await eventually(lambda: has_watcher(process), 20)
            (watcher,) = process.children()
            job_id = await engine.submit(HOLD, {"started": str(file), "seconds": 2})
            await eventually(lambda: started(file), 20)
            process.kill()
            await eventually(lambda: gone(watcher), 10)
        async with worker(database_url, tmp_path):
            status, events = await outcome(engine, job_id)
    assert status == "completed"
    assert events.count("worker_lost") >= 1


async def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


async def test_a_worker_that_was_stopped_gets_no_help_and_changes_nothing_when_it_goes_on(
    database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "started"
    async with orchestrated(database_url) as engine, worker(database_url, tmp_path) as process:
        await eventually(lambda: has_watcher(process), 20)
        job_id = await engine.submit(HOLD, {"started": str(file), "seconds": 1})
        await eventually(lambda: started(file), 20)
        process.suspend()
        async with worker(database_url, tmp_path):
            status, events = await outcome(engine, job_id)
        before = await engine.events(job_id)
        process.resume()

        async def it_has_noticed() -> bool:
            workers = await engine.query("select ended_at is null from holdfast.workers order by worker_id")
            return len(workers) == 3 and workers[2][0]

        await eventually(it_has_noticed, 20)
        after = await engine.events(job_id)
    assert status == "completed"
    assert events.count("worker_lost") >= 1
    assert [e for e in after if e["event"] != "report_rejected"] == before


async def test_a_watcher_that_dies_is_replaced(database_url: str, tmp_path: Path) -> None:
    async with worker(database_url, tmp_path) as process:
        await eventually(lambda: has_watcher(process), 20)
        (watcher,) = process.children()
        watcher.kill()

        async def has_another() -> bool:
            return any(child.pid != watcher.pid for child in process.children()) and await has_watcher(process)

        await eventually(has_another, 20)
