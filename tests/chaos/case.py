"""One case: a database, a workload, a fault, and the wait until all jobs have ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from holdfast.errors import Unreachable
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import NewJob
from tests.chaos import workload
from tests.chaos.checks import Verdict, judge
from tests.chaos.fleet import Fleet, OutOfTime, Process, Server, until

PATIENCE_SECONDS = 60.0
PORTION = 1000
_OPEN_JOBS = "select count(*) from jobs where finished_at is null"
_LEASED = "select job_id::text, node, item from queue where state = 'leased'"
_FINISHED = """
select min(extract(epoch from t.finished_at)) from tasks t
where t.status = 'completed' and t.finished_at > to_timestamp(%(at)s)
    and (%(any)s or exists (
        select 1 from unnest(%(jobs)s::uuid[], %(nodes)s::text[], %(items)s::int[]) as a (job_id, node, item)
        where a.job_id = t.job_id and a.node = t.node and a.item = t.item))
"""


@dataclass
class Outcome:
    """The result of a case. `recovery_seconds` is None if no task was completed after the fault."""

    fault: str
    verdict: Verdict
    recovery_seconds: float | None
    complaints: str = ""


class Case:
    """Everything that a fault needs: the server, the database, the processes and the jobs."""

    def __init__(self, server: Server, url: str, scratch: Path, number: int = 0) -> None:
        self.server = server
        self.url = url
        self.scratch = scratch
        self.number = number
        self.fleet = Fleet(url, scratch)
        self.jobs: list[NewJob] = []
        self._broken_at: float | None = None
        self._affected: list[tuple[Any, ...]] = []

    async def submit(self, jobs: Sequence[NewJob] | None = None) -> None:
        """Submit, and repeat it if the answer is lost: the key prevents a second job."""
        wanted = list(jobs) if jobs is not None else workload.jobs()
        self.jobs += wanted
        await self._send(wanted)

    async def submit_again(self) -> None:
        """Submit all jobs again, as clients do after a failover: they cannot know which of their jobs survived."""
        await self._send(self.jobs)

    async def _send(self, wanted: Sequence[NewJob]) -> None:
        store = PostgresStore(self.url, "holdfast chaos")

        async def submitted(portion: Sequence[NewJob]) -> bool:
            with suppress(Unreachable):
                return bool(await store.submit(portion))
            return False

        try:
            for first in range(0, len(wanted), PORTION):
                await until("the submission", partial(submitted, wanted[first : first + PORTION]))
        finally:
            await store.close()

    async def query(self, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a query; repeats it until Postgres answers."""

        async def rows() -> list[tuple[Any, ...]] | None:
            with suppress(psycopg.OperationalError):
                return [(), *await asyncio.to_thread(self._query, statement, parameters)]
            return None

        return (await until("an answer of Postgres", rows) or [])[1:]

    def _query(self, statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True, options="-c search_path=holdfast") as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    async def until_rows(self, what: str, statement: str) -> None:
        """Wait until the statement returns rows."""

        async def has_rows() -> bool:
            return bool(await self.query(statement))

        await until(what, has_rows)

    async def until_work_is_leased(self) -> None:
        await self.until_rows("leased work", "select 1 from queue where state = 'leased'")

    async def until_declared_dead(self, process: Process) -> None:
        """Wait until all leases of this process have ended."""
        mine = f"from {process.service}s where split_part(split_part(name, ':', 2), '/', 1) = '{process.popen.pid}'"
        await self.until_rows(
            f"the end of {process.popen.pid}", f"select 1 where (select bool_and(ended_at is not null) {mine})"
        )

    def broken(self, at: float | None = None) -> None:
        """Start to measure the recovery: the fault has just struck, or has just ended."""
        self._broken_at = at or time.time()

    async def note_leases(self) -> None:
        """Record the tasks that are leased now as affected by the fault. Without a call, all open tasks count."""
        self._affected = await self.query(_LEASED)

    def note(self, job_id: str, node: str, item: int) -> None:
        """Record that the fault affects this one task."""
        self._affected = [(job_id, node, item)]

    async def all_done(self) -> None:
        """Wait until every job has ended; restart processes that have died, as a supervisor does."""

        async def done() -> bool:
            self.fleet.replace_the_dead()
            return bool((await self.query(_OPEN_JOBS))[0][0] == 0)

        with suppress(OutOfTime):
            await until("the end of all jobs", done, PATIENCE_SECONDS)

    async def recovery_seconds(self) -> float | None:
        if self._broken_at is None:
            return None
        jobs, nodes, items = zip(*self._affected, strict=True) if self._affected else ((), (), ())
        ((finished,),) = await self.query(
            _FINISHED,
            at=self._broken_at,
            any=not self._affected,
            jobs=list(jobs),
            nodes=list(nodes),
            items=list(items),
        )
        return float(finished) - self._broken_at if finished is not None else None


async def run_case(
    name: str, fault: Callable[[Case], Awaitable[None]], server: Server, scratch: Path, number: int = 0
) -> Outcome:
    """Inject the fault, wait until all jobs have ended, and judge the result."""
    scratch.mkdir(parents=True)
    url = server.new_database()
    case = Case(server, url, scratch, number)
    delays: list[str] = []
    try:
        try:
            await fault(case)
        except OutOfTime as reason:
            delays.append(str(reason))
        await case.all_done()
        recovery = await case.recovery_seconds()
    finally:
        complaints = case.fleet.complaints()
        case.fleet.end()
    verdict = judge(url, case.jobs, scratch / "effects", server.lost)
    verdict.stuck += delays
    server.drop_database(url)
    return Outcome(name, verdict, recovery, complaints)
