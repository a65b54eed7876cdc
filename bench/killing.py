"""W5: kills a process in the middle of a fan-out. Other processes do its tasks, and nothing may be lost."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.fleet import Fleet, now
from bench.workloads import all_finished, jobs_of, noted_fan, run_jobs
from holdfast.client import Client
from holdfast.store.postgres import PostgresStore


@dataclass(frozen=True, slots=True)
class Killed:
    """The cost of a kill: seconds until another process did one of its tasks, and seconds more than without a kill."""

    role: str
    affected: int
    first_seconds: float
    extra_seconds: float
    twice: int
    lost: int


async def kill_each(url: str, store: PostgresStore, width: int) -> list[Killed]:
    with Fleet(url, ("orchestrator", "worker", "worker")) as fleet:
        await _run(store, width)
        calm, _ = await _run(store, width)
        worker = await _killed(store, fleet, width, calm, "worker", _a_busy_worker)
    with Fleet(url, ("orchestrator", "orchestrator", "worker", "worker")) as fleet:
        orchestrator = await _killed(store, fleet, width, calm, "orchestrator", _the_owner)
    return [worker, orchestrator]


async def _run(store: PostgresStore, width: int) -> tuple[float, Counter[str]]:
    """Run the job without a kill; returns its seconds, and how often each item was executed."""
    with tempfile.NamedTemporaryFile(prefix="holdfast-bench-") as notes:
        jobs = jobs_of(noted_fan(), [{"items": list(range(width)), "notes": notes.name}])
        seconds = await run_jobs(store, jobs)
        return seconds, _executions(notes.name)


def _executions(notes: str) -> Counter[str]:
    return Counter(Path(notes).read_text().split())


Victim = Callable[[PostgresStore, str], Awaitable[int]]


async def _killed(store: PostgresStore, fleet: Fleet, width: int, calm: float, role: str, victim: Victim) -> Killed:
    """Run the same job, with a kill when a third of the items is done.

    The kill of an orchestrator affects all remaining items; the kill of a worker affects the items that it has leased.
    """
    with tempfile.NamedTemporaryFile(prefix="holdfast-bench-") as notes:
        (job,) = jobs_of(noted_fan(), [{"items": list(range(width)), "notes": notes.name}])
        started = now()
        await Client(store).submit_many([job])
        while sum(_executions(notes.name).values()) < width / 3:
            assert now() - started < 600, "the benchmark does not end"
            await asyncio.sleep(0.02)
        pid = await victim(store, job.job_id)
        ((killed_at,),) = await _ask(store, "select clock_timestamp()")
        fleet.kill(pid)
        leased = await _leased(store, job.job_id, pid) if role == "worker" else None
        await all_finished(store, [job], started)
        seconds = now() - started
        first = await _first_done(store, job.job_id, killed_at, leased)
        executions = _executions(notes.name)
        ((completed,),) = await _ask(
            store, "select count(*) from tasks where job_id = %s and status = 'completed'", job.job_id
        )
    return Killed(
        role=role,
        affected=width - width // 3 if leased is None else len(leased),
        first_seconds=first,
        extra_seconds=seconds - calm,
        twice=sum(count - 1 for count in executions.values()),
        lost=width - min(completed, len(executions)),
    )


async def _a_busy_worker(store: PostgresStore, job_id: str) -> int:
    """The pid of a worker that has leased items of the job."""
    rows: list[tuple[Any, ...]] = []
    while not rows:
        rows = await _ask(
            store,
            "select w.name from queue q join workers w on w.worker_id = q.holder where q.job_id = %s limit 1",
            job_id,
        )
    return _pid(rows[0][0])


async def _the_owner(store: PostgresStore, job_id: str) -> int:
    ((name,),) = await _ask(
        store, "select o.name from jobs j join orchestrators o on o.orchestrator_id = j.owner where job_id = %s", job_id
    )
    return _pid(name)


def _pid(name: str) -> int:
    """The pid in the name of a service, which is host, pid, and the number within the process."""
    return int(name.rsplit(":", 1)[1].split("/")[0])


async def _leased(store: PostgresStore, job_id: str, pid: int) -> list[int]:
    rows = await _ask(
        store,
        "select q.item from queue q join workers w on w.worker_id = q.holder where q.job_id = %s and w.name like %s",
        job_id,
        f"%:{pid}",
    )
    return [row[0] for row in rows]


async def _first_done(store: PostgresStore, job_id: str, killed_at: datetime, leased: list[int] | None) -> float:
    """Seconds from the kill to the first commit that finished one of these items.

    The time of a commit is that of its beginning, so a commit that the dead process had begun does not count.
    """
    ((finished_at,),) = await _ask(
        store,
        "select min(finished_at) from tasks where job_id = %s and finished_at > %s"
        " and (%s::int[] is null or item = any(%s::int[]))",
        job_id,
        killed_at,
        leased,
        leased,
    )
    return (finished_at - killed_at).total_seconds() if finished_at is not None else 0.0


async def _ask(store: PostgresStore, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    async with store.connections.use("bench") as connection:
        cursor = await connection.execute(statement.encode(), parameters)
        return await cursor.fetchall()
