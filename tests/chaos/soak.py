"""A long time of trouble: `python -m tests.chaos.soak --minutes 30 --jobs 20000`.

Three orchestrators and four workers; one of them is killed every five seconds, Postgres is restarted without a farewell
every minute, and jobs keep coming. Afterwards every result must be what a calm run gives.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast.store.interface import NewJob
from tests.chaos import workload
from tests.chaos.case import Case
from tests.chaos.checks import Verdict, judge
from tests.chaos.faults import ORCHESTRATOR, WORKER
from tests.chaos.fleet import OutOfTime, Server, until

FLEET = (*[ORCHESTRATOR] * 3, *[WORKER] * 4)
KILL_SECONDS = 5.0
RESTART_SECONDS = 60.0
CALM_COPIES = 20
SUBMITTING_SHARE = 0.9
PATIENCE_SECONDS = 600.0
_OPEN = "select count(*) filter (where finished_at is null), count(*) from jobs"
_PAUSES = """
select coalesce(max(pause), 0) from (
    select extract(epoch from finished_at - lag(finished_at) over (order by finished_at)) as pause
    from tasks where finished_at is not null) p
"""


@dataclass
class Troubles:
    kills: int = 0
    restarts: int = 0
    starts: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, metavar="M")
    parser.add_argument("--jobs", type=int, default=20_000, metavar="N")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="who is killed when (default: by chance)")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(2**32)
    print(f"{given.jobs} jobs in {given.minutes:g} minutes, seed {seed}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-soak-", ignore_cleanup_errors=True) as scratch,
        Server(Path(scratch) / "home") as server,
    ):
        calm = asyncio.run(_calm(server, Path(scratch) / "calm"))
        if calm.wrongs:
            print("Even a calm run is not right:", *calm.wrongs[:10], sep="\n  ")
            return 1
        return asyncio.run(_soak(server, Path(scratch) / "soak", given.minutes * 60, given.jobs, seed))


async def _calm(server: Server, scratch: Path) -> Verdict:
    """The same jobs without any trouble: what they give is what is expected later."""
    scratch.mkdir()
    case = Case(server, server.new_database(), scratch)
    try:
        await case.fleet.up(ORCHESTRATOR, WORKER)
        await case.submit(workload.jobs(copies=CALM_COPIES))
        await case.all_done()
    finally:
        case.fleet.end()
    return judge(case.url, case.jobs, scratch / "effects")


async def _soak(server: Server, scratch: Path, seconds: float, count: int, seed: int) -> int:
    scratch.mkdir()
    case = Case(server, server.new_database(), scratch)
    copies = -(-count // len(workload.MIXED))
    jobs = workload.jobs(copies=copies)[:count]
    troubles, began = Troubles(), time.monotonic()
    try:
        await case.fleet.up(*FLEET)
        making = asyncio.create_task(_make_trouble(case, random.Random(seed), seconds, troubles))
        await _submit_over(case, jobs, seconds * SUBMITTING_SHARE)
        await making
        stormy = time.monotonic() - began
        await _finish(case)
        ((pause,),) = await case.query(_PAUSES)
    finally:
        case.fleet.end()
    verdict = judge(case.url, jobs, scratch / "effects")
    calm = time.monotonic() - began - stormy
    print(
        f"{len(jobs)} jobs, {verdict.executions} executions in {stormy:.0f} s of trouble and {calm:.0f} s of calm:"
        f" {troubles.kills} kills, {troubles.restarts} restarts of Postgres, {troubles.starts} processes started again"
    )
    print(
        f"lost {len(verdict.lost)}, doubled {len(verdict.doubled)}, stuck {len(verdict.stuck)},"
        f" stale writes rejected {verdict.rejected}; longest pause without a completed task {float(pause):.1f} s"
    )
    for wrong in verdict.wrongs[:20]:
        print(f"    {wrong}")
    return 1 if verdict.wrongs else 0


async def _submit_over(case: Case, jobs: list[NewJob], seconds: float) -> None:
    """In even portions, one a second."""
    portion = max(1, round(len(jobs) / max(1.0, seconds)))
    began = time.monotonic()
    for number, first in enumerate(range(0, len(jobs), portion)):
        await asyncio.sleep(max(0.0, began + number - time.monotonic()))
        await case.submit(jobs[first : first + portion])


async def _make_trouble(case: Case, chance: random.Random, seconds: float, troubles: Troubles) -> None:
    began = time.monotonic()
    next_kill, next_restart = began + KILL_SECONDS, began + RESTART_SECONDS
    while (now := time.monotonic()) < began + seconds:
        troubles.starts += case.fleet.replace_the_dead()
        if now >= next_restart:
            next_restart += RESTART_SECONDS
            troubles.restarts += 1
            await asyncio.to_thread(case.server.restart_at_once)
        elif now >= next_kill:
            next_kill += KILL_SECONDS
            troubles.kills += 1
            chance.choice(case.fleet.kept).send(signal.SIGKILL)
        await asyncio.sleep(0.1)


async def _finish(case: Case) -> None:
    async def done() -> bool:
        case.fleet.replace_the_dead()
        return (await case.query(_OPEN))[0][0] == 0

    try:
        await until("the end of all jobs", done, PATIENCE_SECONDS)
    except OutOfTime:
        print(case.fleet.complaints()[-6000:], file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
