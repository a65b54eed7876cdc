"""A long test under faults: `python -m tests.chaos.soak --minutes 30 --jobs 20000`.

Three orchestrators and four workers run while jobs are submitted. Every five seconds one process is killed or stopped
past its lease, some rows are locked, or the database is read-only for a while. Every minute Postgres is restarted in
immediate mode; every third time a standby that lacks its last commits replaces it. Afterwards every result must be the
same as without faults.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from holdfast.store.records import NewJob
from tests.chaos import workload
from tests.chaos.case import Case
from tests.chaos.checks import Verdict, judge
from tests.chaos.faults import ORCHESTRATOR, WORKER
from tests.chaos.fleet import LEASE_SECONDS, OutOfTime, until
from tests.chaos.replicated import ReplicatedServer

FLEET = (*[ORCHESTRATOR] * 3, *[WORKER] * 4)
TROUBLE_SECONDS = 5.0
RESTART_SECONDS = 60.0
RESTARTS_PER_FAILOVER = 3
LACK_SECONDS = 0.5
SPELL_SECONDS = 4.0
LOCKABLE = ("jobs", "nodes", "tasks", "queue", "inbox", "workers", "orchestrators", "lanes")
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
    """The number of injected faults by kind, and of processes that were started again."""

    done: Counter[str] = field(default_factory=Counter)
    starts: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, metavar="M")
    parser.add_argument("--jobs", type=int, default=20_000, metavar="N")
    parser.add_argument(
        "--seed", type=int, default=None, metavar="S", help="decides which process is struck when (default: random)"
    )
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(2**32)
    print(f"{arguments.jobs} jobs in {arguments.minutes:g} minutes, seed {seed}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-soak-", ignore_cleanup_errors=True) as scratch,
        ReplicatedServer(Path(scratch) / "home") as server,
    ):
        calm = asyncio.run(_calm(server, Path(scratch) / "calm"))
        if calm.wrongs:
            print("There are errors even without faults:", *calm.wrongs[:10], sep="\n  ")
            return 1
        return asyncio.run(_soak(server, Path(scratch) / "soak", arguments.minutes * 60, arguments.jobs, seed))


async def _calm(server: ReplicatedServer, scratch: Path) -> Verdict:
    """Run the same jobs without faults, to check the expected results."""
    scratch.mkdir()
    case = Case(server, server.new_database(), scratch)
    try:
        await case.fleet.up(ORCHESTRATOR, WORKER)
        await case.submit(workload.jobs(copies=CALM_COPIES))
        await case.all_done()
    finally:
        case.fleet.end()
    return judge(case.url, case.jobs, scratch / "effects")


async def _soak(server: ReplicatedServer, scratch: Path, seconds: float, count: int, seed: int) -> int:
    scratch.mkdir()
    case = Case(server, server.new_database(), scratch)
    copies = -(-count // len(workload.MIXED))
    jobs = workload.jobs(copies=copies)[:count]
    troubles, began = Troubles(), time.monotonic()
    try:
        await case.fleet.up(*FLEET)
        making = asyncio.create_task(_make_trouble(case, server, random.Random(seed), seconds, troubles))
        await _submit_over(case, jobs, seconds * SUBMITTING_SHARE)
        await making
        stormy = time.monotonic() - began
        await _finish(case)
        ((pause,),) = await case.query(_PAUSES)
    finally:
        case.fleet.end()
    verdict = judge(case.url, jobs, scratch / "effects", server.lost)
    calm = time.monotonic() - began - stormy
    print(
        f"{len(jobs)} jobs, {verdict.executions} executions in {stormy:.0f} s with faults and {calm:.0f} s without:"
        f" {', '.join(f'{count} {kind}' for kind, count in sorted(troubles.done.items()))},"
        f" {troubles.starts} processes started again"
    )
    print(
        f"lost {len(verdict.lost)}, doubled {len(verdict.doubled)}, stuck {len(verdict.stuck)},"
        f" stale writes rejected {verdict.rejected}; longest pause without a completed task {float(pause):.1f} s"
    )
    for wrong in verdict.wrongs[:20]:
        print(f"    {wrong}")
    return 1 if verdict.wrongs else 0


async def _submit_over(case: Case, jobs: list[NewJob], seconds: float) -> None:
    """Submit the jobs in equal portions, one each second."""
    portion = max(1, round(len(jobs) / max(1.0, seconds)))
    began = time.monotonic()
    for number, first in enumerate(range(0, len(jobs), portion)):
        await asyncio.sleep(max(0.0, began + number - time.monotonic()))
        await case.submit(jobs[first : first + portion])


async def _make_trouble(
    case: Case, server: ReplicatedServer, chance: random.Random, seconds: float, troubles: Troubles
) -> None:
    began = time.monotonic()
    next_trouble, next_restart = began + TROUBLE_SECONDS, began + RESTART_SECONDS
    await asyncio.to_thread(server.add_standby)
    restarts = 0
    async with asyncio.TaskGroup() as spells:
        while (now := time.monotonic()) < began + seconds:
            troubles.starts += case.fleet.replace_the_dead()
            if now >= next_restart:
                next_restart = now + RESTART_SECONDS
                restarts += 1
                kind = "failovers" if restarts % RESTARTS_PER_FAILOVER == 0 else "restarts of Postgres"
                troubles.done[kind] += 1
                await (_fail_over(case, server) if kind == "failovers" else asyncio.to_thread(server.restart_at_once))
            elif now >= next_trouble:
                next_trouble = now + TROUBLE_SECONDS
                kind, make = chance.choice(TROUBLES)
                troubles.done[kind] += 1
                spells.create_task(make(case, chance))
            await asyncio.sleep(0.1)


async def _kill(case: Case, chance: random.Random) -> None:
    chance.choice(case.fleet.kept).send(signal.SIGKILL)


async def _stop(case: Case, chance: random.Random) -> None:
    """Stop a process for longer than its lease; then let it continue as if nothing had happened."""
    victim = chance.choice(case.fleet.kept)
    victim.send(signal.SIGSTOP)
    await asyncio.sleep(2 * LEASE_SECONDS)
    victim.send(signal.SIGCONT)


async def _lock(case: Case, chance: random.Random) -> None:
    """Lock some rows of one table, like a person who forgets to commit."""
    table = chance.choice(LOCKABLE)
    with suppress(psycopg.Error):
        async with await psycopg.AsyncConnection.connect(case.url) as connection:
            rows = f"select 1 from holdfast.{table} order by random() limit 5 for update skip locked"
            await connection.execute(rows.encode())
            await asyncio.sleep(SPELL_SECONDS)


async def _read_only(case: Case, chance: random.Random) -> None:
    """Make the database read-only, like an administrator, or a provider whose disk is nearly full."""
    for value in ("on", "off"):
        await case.query(f"alter system set default_transaction_read_only = {value}")
        await case.query("select pg_reload_conf()")
        await asyncio.sleep(SPELL_SECONDS if value == "on" else 0)


async def _fail_over(case: Case, server: ReplicatedServer) -> None:
    await asyncio.to_thread(server.cut_off_standby)
    await asyncio.sleep(LACK_SECONDS)
    await asyncio.to_thread(server.fail_over)
    await case.submit_again()
    await asyncio.to_thread(server.add_standby)


TROUBLES: list[tuple[str, Callable[[Case, random.Random], Coroutine[Any, Any, None]]]] = [
    ("kills", _kill),
    ("kills", _kill),
    ("kills", _kill),
    ("stops past the lease", _stop),
    ("row locks", _lock),
    ("read-only periods", _read_only),
]


async def _finish(case: Case) -> None:
    async def done() -> bool:
        case.fleet.replace_the_dead()
        return bool((await case.query(_OPEN))[0][0] == 0)

    try:
        await until("the end of all jobs", done, PATIENCE_SECONDS)
    except OutOfTime:
        print(case.fleet.complaints()[-6000:], file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
