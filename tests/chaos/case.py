"""One case: a database and a workload, something that breaks, and the wait until all is done."""

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
from holdfast.store.interface import NewJob
from holdfast.store.postgres import PostgresStore
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
    """What a case came to. No recovery: nothing was completed after the fault, because nothing was left to do."""

    fault: str
    verdict: Verdict
    recovery_seconds: float | None
    complaints: str = ""


class Case:
    """What a fault works with."""

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
        """Submit, again and again if the answer is lost: the key makes that one job."""
        wanted = list(jobs) if jobs is not None else workload.jobs()
        self.jobs += wanted
        await self._send(wanted)

    async def submit_again(self) -> None:
        """What its clients do after a failover: they cannot know which of their jobs survived."""
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
        """Rows, as soon as Postgres gives them."""

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
        """Until the statement finds something."""

        async def found() -> bool:
            return bool(await self.query(statement))

        await until(what, found)

    async def until_work_is_leased(self) -> None:
        await self.until_rows("leased work", "select 1 from queue where state = 'leased'")

    async def until_declared_dead(self, process: Process) -> None:
        """Until all leases of that process are ended."""
        mine = f"from {process.service}s where split_part(split_part(name, ':', 2), '/', 1) = '{process.popen.pid}'"
        await self.until_rows(
            f"the end of {process.popen.pid}", f"select 1 where (select bool_and(ended_at is not null) {mine})"
        )

    def broken(self, at: float | None = None) -> None:
        """The fault is there, or over: from here on the recovery is measured."""
        self._broken_at = at or time.time()

    async def note_leases(self) -> None:
        """The tasks that are leased now are those that the fault affects; without a call: all that are open."""
        self._affected = await self.query(_LEASED)

    def note(self, job_id: str, node: str, item: int) -> None:
        """This one task is what the fault affects."""
        self._affected = [(job_id, node, item)]

    async def all_done(self) -> None:
        """Until every job is terminal, with a supervisor that starts again what has died."""

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
    """Let it break, wait until all is done, and judge."""
    scratch.mkdir(parents=True)
    url = server.new_database()
    case = Case(server, url, scratch, number)
    hindered: list[str] = []
    try:
        try:
            await fault(case)
        except OutOfTime as reason:
            hindered.append(str(reason))
        await case.all_done()
        recovery = await case.recovery_seconds()
    finally:
        complaints = case.fleet.complaints()
        case.fleet.end()
    verdict = judge(url, case.jobs, scratch / "effects", server.lost)
    verdict.stuck += hindered
    server.drop_database(url)
    return Outcome(name, verdict, recovery, complaints)
