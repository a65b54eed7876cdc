"""Reads the state of an installation for people: its processes, its signals, its locks, its server. Never writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.store.connection import Connections
from holdfast.store.fleet import Fleet, JobsWithoutOwner, OrchestratorView, UnservedTasks, WorkerView
from holdfast.store.locks import HELD_SECONDS, LockHolder
from holdfast.store.payloads import Payloads
from holdfast.store.queries import query


class LongTransaction(NamedTuple):
    pid: int
    application: str
    state: str | None
    seconds: float


class ServerFacts(NamedTuple):
    version_number: int
    version: str
    now: float
    fsync: str
    synchronous_commit: str
    max_connections: int
    connections: int
    database: str
    size_bytes: int


class InstallationReader:
    """Reads one database, for one tenant or for all."""

    def __init__(self, connections: Connections, payloads: Payloads | None = None, tenant: str | None = None) -> None:
        """Without `payloads` large values are shown by their names. With a tenant only its jobs are found."""
        self._connections = connections
        self._payloads = payloads
        self._tenant = tenant

    async def orchestrators(self, job_id: str | None = None, *, everyone: bool = False) -> list[OrchestratorView]:
        """The live orchestrators that would drive this job, or any job; with `everyone` all of them."""
        rows = await self._fetch("live_orchestrators", job=job_id, everyone=everyone)
        return [OrchestratorView._make(row) for row in rows]

    async def workers(self) -> list[WorkerView]:
        """The workers whose lease has not run out."""
        return [WorkerView._make(row) for row in await self._fetch("live_workers")]

    async def fleet(self) -> Fleet:
        """The processes that serve this database, and the work that none of them serves."""
        return Fleet(
            await self.orchestrators(everyone=True),
            await self.workers(),
            [JobsWithoutOwner._make(row) for row in await self._fetch("jobs_without_owner")],
            [UnservedTasks._make(row) for row in await self._fetch("unserved_lanes")],
        )

    async def unread_signals(self, seconds: float) -> tuple[int, datetime | None]:
        """How many signals have waited longer than that, and since when the oldest."""
        row = (await self._fetch("unread_signals", seconds=seconds))[0]
        return int(row[0]), row[1]

    async def long_transactions(self, seconds: float) -> list[LongTransaction]:
        return [LongTransaction._make(row) for row in await self._fetch("long_transactions", seconds=seconds)]

    async def lock_holders(self) -> list[LockHolder]:
        """Sessions that keep rows of our tables locked."""
        return [LockHolder._make(row) for row in await self._fetch("lock_holders", held_seconds=HELD_SECONDS)]

    async def now(self) -> float:
        """By the database's clock."""
        return float((await self._fetch("clock"))[0][0])

    async def server_facts(self) -> ServerFacts:
        return ServerFacts._make((await self._fetch("server_facts"))[0])

    async def _fetch(self, statement: str, /, **parameters: Any) -> Sequence[tuple[Any, ...]]:
        async with self._connections.use("reading") as connection:
            values = {"tenant": self._tenant} | parameters
            cursor = await connection.execute(query(statement), values, prepare=True)
            return await cursor.fetchall()
