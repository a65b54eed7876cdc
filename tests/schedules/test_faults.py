"""One job for each tick whatever dies: real processes, killed and stopped between every two steps, with wrong
clocks."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from tests.chaos.fleet import SETTINGS, Process
from tests.conftest import eventually
from tests.marks import IN_CHAOS, rest_in_chaos
from tests.schedules.stage import Stage

pytestmark = pytest.mark.anyio

POINTS = ("tick.decided", "tick.moved", "tick.written", "tick.after_commit")
SHIFTED = '''
"""Shifts the clock of a process: what Python and its libraries take for the time is wrong by that many seconds."""
import datetime, os, time
_shift = float(os.environ["CLOCK_SHIFT_SECONDS"])
_time = time.time
time.time = lambda: _time() + _shift
_datetime = datetime.datetime
class Shifted(_datetime):
    @classmethod
    def now(cls, tz=None):
        return _datetime.now(tz) + datetime.timedelta(seconds=_shift)
    @classmethod
    def utcnow(cls):
        return _datetime.utcnow() + datetime.timedelta(seconds=_shift)
datetime.datetime = Shifted
open(os.path.join(os.environ["CLOCK_MARKS"], str(os.getpid())), "w").close()
'''


@contextmanager
def orchestrator(stage: Stage, scratch: Path, **environment: str) -> Iterator[Process]:
    process = Process("orchestrator", stage.engine.url, scratch, {**SETTINGS, **environment})
    try:
        yield process
    finally:
        process.kill()


async def jobs_with_ticks(stage: Stage) -> list[str]:
    """Which tick each job of the schedule has, the oldest one first."""
    found = await stage.engine.query("select correlation_id from holdfast.jobs order by job_id")
    return [correlation for (correlation,) in found]


async def last_answer(stage: Stage) -> str | None:
    return (await stage.client.schedule("s")).last_answer


@pytest.mark.parametrize("point", rest_in_chaos(POINTS, "tick.written"))
async def test_a_process_that_dies_in_a_tick_leaves_one_job_of_it(stage: Stage, tmp_path: Path, point: str) -> None:
    await stage.add()
    await stage.pass_time("1 second")
    with orchestrator(stage, tmp_path, HOLDFAST_FAILPOINT=f"{point}:kill") as victim:

        async def is_dead() -> bool:
            return victim.popen.poll() is not None

        await eventually(is_dead)
        assert victim.popen.poll() == -signal.SIGKILL, victim.log.read_text()
    survived = len(await stage.jobs())
    assert survived == (1 if point == "tick.after_commit" else 0)
    with orchestrator(stage, tmp_path):
        await eventually(lambda: _started(stage))
        # Another tick, to see that nothing of the first one is left over.
        await stage.engine.query("update holdfast.jobs set status = 'completed', finished_at = now()")
        await stage.pass_time("1 second")
        await eventually(lambda: _has_jobs(stage, 2))
    assert len(set(await jobs_with_ticks(stage))) == 2


@pytest.mark.parametrize("point", rest_in_chaos(POINTS, "tick.moved"))
async def test_a_process_that_stands_still_in_a_tick_keeps_it_from_no_other(
    stage: Stage, tmp_path: Path, point: str
) -> None:
    await stage.add()
    await stage.pass_time("1 second")
    with orchestrator(stage, tmp_path, HOLDFAST_FAILPOINT=f"{point}:stop") as victim:
        await eventually(lambda: _stands_still(victim))
        with orchestrator(stage, tmp_path) as other:
            await eventually(lambda: _started(stage))
            victim.popen.send_signal(signal.SIGCONT)
            await stage.engine.query("update holdfast.jobs set status = 'completed', finished_at = now()")
            await stage.pass_time("1 second")
            await eventually(lambda: _has_jobs(stage, 2))
            assert other.popen.poll() is None
    assert len(await stage.jobs()) == 2


@pytest.mark.parametrize("point", rest_in_chaos(POINTS, "tick.after_commit"))
async def test_a_lost_connection_in_a_tick_loses_no_tick_and_doubles_none(
    stage: Stage, tmp_path: Path, point: str
) -> None:
    await stage.add()
    await stage.pass_time("1 second")
    once = {"HOLDFAST_FAILPOINT": f"{point}:error", "HOLDFAST_FAILPOINT_ONCE": str(tmp_path / "once")}
    with orchestrator(stage, tmp_path, **once) as one:
        await eventually(lambda: _started(stage))
        assert one.popen.poll() is None, one.log.read_text()
    assert (tmp_path / "once" / point).exists()
    assert len(await stage.jobs()) == 1


@IN_CHAOS
async def test_a_queue_has_a_job_of_each_tick_although_the_leader_is_killed(stage: Stage, tmp_path: Path) -> None:
    await stage.add(every_seconds=1, overlap="queue")

    async def has_ended(number: int) -> bool:
        await stage.engine.query("update holdfast.jobs set status = 'completed', finished_at = now()")
        return await _has_jobs(stage, number)

    with orchestrator(stage, tmp_path) as leader:
        await eventually(partial(has_ended, 2))
        leader.popen.kill()
    with orchestrator(stage, tmp_path):
        await eventually(partial(has_ended, 10))
    ticks = [datetime.fromisoformat(one.partition("@")[2]) for one in await jobs_with_ticks(stage)]
    assert {later - earlier for earlier, later in pairwise(ticks)} == {timedelta(seconds=1)}


@IN_CHAOS
async def test_processes_whose_clocks_are_wrong_make_one_job_of_each_tick_at_its_time(
    stage: Stage, tmp_path: Path
) -> None:
    """One clock is a day ahead, one is a day behind; that of the database counts."""
    site = tmp_path / "site"
    marks = tmp_path / "marks"
    site.mkdir()
    marks.mkdir()
    (site / "sitecustomize.py").write_text(SHIFTED)
    await stage.add("s", every_seconds=2, overlap="queue")
    await stage.add("tomorrow", every_seconds=3600)

    def wrong(seconds: int) -> dict[str, str]:
        return {"PYTHONPATH": str(site), "CLOCK_MARKS": str(marks), "CLOCK_SHIFT_SECONDS": str(seconds)}

    async with both(stage, tmp_path, wrong(86_400), wrong(-86_400)) as processes:
        for number in range(1, 5):
            await eventually(partial(_has_jobs, stage, number))
            await stage.engine.query("update holdfast.jobs set status = 'completed', finished_at = now()")
            # The leader changes each time.
            await stage.engine.query("update holdfast.leaders set lease_until = '-infinity' where role = 'schedules'")
        assert all(one.popen.poll() is None for one in processes)
        assert {mark.name for mark in marks.iterdir()} >= {str(one.popen.pid) for one in processes}
    assert len(set(await jobs_with_ticks(stage))) == len(await jobs_with_ticks(stage))
    assert await stage.jobs("tomorrow") == []
    lateness = await stage.engine.query(
        "select extract(epoch from created_at - split_part(correlation_id, '@', 2)::timestamptz) from holdfast.jobs"
    )
    assert all(-1 <= seconds < 60 for (seconds,) in lateness), lateness


@asynccontextmanager
async def both(
    stage: Stage, scratch: Path, one: dict[str, str], two: dict[str, str]
) -> AsyncIterator[tuple[Process, Process]]:
    with orchestrator(stage, scratch, **one) as first, orchestrator(stage, scratch, **two) as second:
        yield first, second


async def _started(stage: Stage) -> bool:
    return await last_answer(stage) == "started"


async def _has_jobs(stage: Stage, number: int) -> bool:
    return len(await stage.jobs()) >= number


async def _stands_still(process: Process) -> bool:
    return Path(f"/proc/{process.popen.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
