"""The cost of the indexes that only readers need, for W1: rounds with these indexes, and with a copy of each beside.

Without an index the duties that read by it would read whole tables, and be measured, too. A copy costs writers the
same, and readers nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import psutil
import psycopg
from psycopg.sql import SQL, Identifier

from bench.fleet import Fleet
from bench.workloads import jobs_of, one_task, run_jobs
from holdfast.store.postgres import PostgresStore

FOR_READERS = (
    "events_by_transaction",
    "events_of_generations",
    "jobs_by_correlation",
    "jobs_by_tenant",
    "jobs_that_ended_with_an_error",
)
"""Those that a job of W1 passes."""
ROLES = ("orchestrator", "worker")


@dataclass(frozen=True, slots=True)
class Rounds:
    """Of each round the jobs per second, and the processor time of Postgres for a job, in microseconds."""

    rates: list[float]
    postgres: list[float]


async def with_and_with_copies(url: str, store: PostgresStore, jobs: int, rounds: int) -> tuple[Rounds, Rounds]:
    """In turns, because the machine's speed varies."""
    plain, copied = Rounds([], []), Rounds([], [])
    with Fleet(url, ROLES), psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as connection:
        await _round(connection, store, jobs // 10)
        for number in range(2 * rounds):
            # The second of two rounds meets larger tables: each kind is the second as often as the first.
            has_copies = number % 4 in (1, 2)
            if has_copies:
                _copy(connection)
            rate, postgres = await _round(connection, store, jobs)
            found = copied if has_copies else plain
            found.rates.append(rate)
            found.postgres.append(postgres)
            _drop_copies(connection)
    return plain, copied


async def _round(connection: psycopg.Connection, store: PostgresStore, jobs: int) -> tuple[float, float]:
    before = _used(connection)
    seconds = await run_jobs(store, jobs_of(one_task(), [{"i": i} for i in range(jobs)]))
    after = _used(connection)
    return jobs / seconds, 1e6 * sum(after[pid] - before[pid] for pid in after.keys() & before.keys()) / jobs


def _used(connection: psycopg.Connection) -> dict[int, float]:
    """The processor time of each process of Postgres that serves one of ours."""
    used = {}
    for (pid,) in connection.execute("select pid from pg_stat_activity where backend_type = 'client backend'"):
        times = psutil.Process(pid).cpu_times()
        used[pid] = times.user + times.system
    return used


def _copy(connection: psycopg.Connection) -> None:
    for name in FOR_READERS:
        row = connection.execute("select pg_get_indexdef(%s::regclass)", (name,)).fetchone()
        assert row is not None
        connection.execute(re.sub(rf"\b{name}\b", f"{name}_copy", row[0], count=1).encode())


def _drop_copies(connection: psycopg.Connection) -> None:
    for name in FOR_READERS:
        connection.execute(SQL("drop index if exists {}").format(Identifier(f"{name}_copy")))
