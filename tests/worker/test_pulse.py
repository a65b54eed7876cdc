"""Workers that hang, and the watcher that acts for them, with real processes."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.store.renewal import Renewal, renewal_statements
from holdfast.worker.pulse import Pulse
from tests import sources
from tests.cli.conftest import HOLDFAST
from tests.conftest import eventually
from tests.marks import HTTP_IN_CHAOS, IN_CHAOS
from tests.running import SHORT_LEASES, Engine, client_of, serving
from tests.service.serving import serving_http

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("each_source")]

LEASES = SHORT_LEASES | {"lease_seconds": 3.0, "renew_seconds": 0.5}
HANDLERS = """
import ctypes, os
from pathlib import Path
from holdfast import Context, handler

@handler("hold")
def hold(seconds, started):
    "Sleeps inside C code without giving the interpreter's lock away."
    with Path(started).open("a") as file:
        file.write(f"{os.getpid()}\\n")
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    return "held"

@handler("note")
def note(notes, *, ctx: Context):
    with Path(notes).open("a") as file:
        file.write(f"{os.getpid()} {ctx.index}\\n")

@handler("hold_once")
def hold_once(notes, *, ctx: Context):
    "Its first attempt holds the interpreter's lock for ever, as an expression that backtracks does."
    note(notes, ctx=ctx)
    if ctx.index == 0 and ctx.attempt == 1:
        ctypes.PyDLL(None).usleep(600_000_000)
"""
HOLD = """
workflow_id: hold
inputs: {started: {type: string}, seconds: {type: number}}
nodes: {a: {handler: hold, params: {seconds: "{{ inputs.seconds }}", started: "{{ inputs.started }}"}}}
"""
FAN = """
workflow_id: fan
inputs: {notes: {type: string}, items: {type: array}}
nodes:
  f:
    type: fan_out
    source: "{{ inputs['items'] }}"
    task: {handler: HANDLER, params: {notes: "{{ inputs.notes }}"}}
"""


@asynccontextmanager
async def orchestrated(url: str) -> AsyncIterator[Engine]:
    async with client_of(url) as engine, serving(url, work=False, **LEASES):
        yield engine


@asynccontextmanager
async def worker(url: str, folder: Path, **settings: Any) -> AsyncIterator[psutil.Process]:
    """A `holdfast worker` in a process of its own, with short leases: at the database, or over HTTP."""
    if sources.kind == sources.HTTP:
        async with serving_http(url) as api:
            own = {"HOLDFAST_URL": api.url, "HOLDFAST_API_KEY": await api.key("worker")}
            async with _worker(own, folder, **settings) as process:
                yield process
        return
    async with _worker({"HOLDFAST_DATABASE_URL": url}, folder, **settings) as process:
        yield process


@asynccontextmanager
async def _worker(place: dict[str, str], folder: Path, **settings: Any) -> AsyncIterator[psutil.Process]:
    (folder / "holding.py").write_text(HANDLERS)
    settings = {f"HOLDFAST_{name.upper()}": str(value) for name, value in (LEASES | settings).items()}
    process = await asyncio.create_subprocess_exec(
        *HOLDFAST, "worker", "--handlers", "holding",
        env=os.environ | settings | place, cwd=folder,
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


@IN_CHAOS
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


@HTTP_IN_CHAOS
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


@IN_CHAOS
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
            workers = await engine.query("select ended_at is null from holdfast.workers order by started_at")
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


def begun_by(notes: Path) -> dict[int, set[int]]:
    """Which items each process has begun."""
    begun: dict[int, set[int]] = {}
    for line in notes.read_text().splitlines() if notes.exists() else []:
        pid, item = map(int, line.split())
        begun.setdefault(pid, set()).add(item)
    return begun


@IN_CHAOS
async def test_invariant_3_a_worker_that_wakes_past_its_lease_begins_nothing(database_url: str, tmp_path: Path) -> None:
    """One is stopped with tasks that it has just claimed, the other one when it is about to call a handler."""
    notes, once = tmp_path / "notes", {"failpoint_once": tmp_path / "once", "concurrency": 1}
    claimed, called = (once | {"failpoint": f"{point}:stop"} for point in ("claim.after_commit", "run.before"))
    async with (
        orchestrated(database_url) as engine,
        worker(database_url, tmp_path, **claimed) as first,
        worker(database_url, tmp_path, **called) as second,
    ):
        job_id = await engine.submit(FAN.replace("HANDLER", "note"), {"items": [0, 1], "notes": str(notes)})

        async def both_are_stopped() -> bool:
            return {first.status(), second.status()} == {psutil.STATUS_STOPPED}

        await eventually(both_are_stopped, 30)
        async with worker(database_url, tmp_path) as third:
            status = await engine.finished(job_id, 60)
        first.resume()
        second.resume()

        async def both_have_noticed() -> bool:
            live = await engine.query("select 1 from holdfast.workers where ended_at is null and lease_until > now()")
            return len(live) == 2

        await eventually(both_have_noticed, 30)
    assert status["status"] == "completed"
    assert not {first.pid, second.pid} & begun_by(notes).keys()
    assert set.union(*begun_by(notes).values()) == {0, 1}
    assert third.pid not in (first.pid, second.pid)


@HTTP_IN_CHAOS
async def test_invariant_20_what_waits_in_a_worker_that_hangs_runs_elsewhere_unspent_and_a_signal_ends_it(
    database_url: str, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    quick = {"concurrency": 2, "hang_seconds": 2, "grace_seconds": 1}
    async with orchestrated(database_url) as engine, worker(database_url, tmp_path, **quick) as hangs:
        inputs = {"items": list(range(40)), "notes": str(notes)}
        await engine.finished(await engine.submit(FAN.replace("HANDLER", "note"), inputs), 30)
        notes.unlink()
        job_id = await engine.submit(FAN.replace("HANDLER", "hold_once"), inputs | {"items": list(range(12))})

        async def holds() -> bool:
            return 0 in begun_by(notes).get(hangs.pid, ())

        await eventually(holds, 30)
        async with worker(database_url, tmp_path, **quick):
            status = await engine.finished(job_id, 60)
        rows = await engine.query("select item from holdfast.tasks where job_id = %s and lost_count > 0", job_id)
        hangs.terminate()
        await eventually(lambda: gone(hangs), 20)
    assert status["status"] == "completed"
    lost = {item for (item,) in rows}
    assert 0 in lost
    # The other slot may have run some items before the worker hung, and begun one. What had not begun is not lost.
    assert len(lost - set(begun_by(notes)[hangs.pid])) <= 1
    assert len(begun_by(notes)[hangs.pid]) < 12


async def test_a_pulse_closes_its_files_when_its_worker_ends(database_url: str) -> None:
    this = psutil.Process()
    open_files, children = this.num_fds(), len(this.children())
    pulse = Pulse(
        partial(Renewal, database_url, 3.0, renewal_statements()),
        lease_seconds=3.0,
        renew_seconds=0.5,
        grace_seconds=1.0,
        hang_seconds=60.0,
    )
    keeping = asyncio.create_task(pulse.keep())

    async def has_a_watcher() -> bool:
        return len(this.children()) > children

    await eventually(has_a_watcher)
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping
    # The memory of the board stays for as long as the worker may write to it.
    assert this.num_fds() == open_files + 1


def test_a_pulse_whose_worker_never_began_closes_its_files(database_url: str) -> None:
    this = psutil.Process()
    open_files = this.num_fds()
    pulse = Pulse(
        partial(Renewal, database_url, 3.0, renewal_statements()),
        lease_seconds=3.0,
        renew_seconds=0.5,
        grace_seconds=1.0,
        hang_seconds=60.0,
    )
    del pulse
    # An open file that is collected is a warning, and a warning fails the test.
    gc.collect()
    assert this.num_fds() == open_files
