"""The state of an installation for people: its processes, its signals, its locks, its server, its schema."""

from __future__ import annotations

from holdfast.errors import Unreachable
from holdfast.sql_files import Migration
from holdfast.store import migrate
from holdfast.store.connection import Connections, connect
from holdfast.store.fleet import Fleet, JobsWithoutOwner, OrchestratorView, UnservedTasks, WorkerView
from holdfast.store.locks import HELD_SECONDS, LockHolder
from holdfast.store.read_rows import LongTransaction, ServerFacts, UnreadSignals
from holdfast.store.reader import PostgresReader
from holdfast.store.schema import SchemaStatus, TableSize
from holdfast.store.usable import refuse_shared_sessions, try_to_write


class PostgresInstallationReader(PostgresReader):
    """Reads the state of one installation. Never writes."""

    async def orchestrators(self, job_id: str | None = None, *, everyone: bool = False) -> list[OrchestratorView]:
        """The live orchestrators that would drive this job, or any job; with `everyone` all of them."""
        return await self._records(OrchestratorView, "live_orchestrators", job=job_id, everyone=everyone)

    async def workers(self) -> list[WorkerView]:
        """The workers whose lease has not run out."""
        return await self._records(WorkerView, "live_workers")

    async def fleet(self) -> Fleet:
        """The processes that serve this database, and the work that none of them serves."""
        return Fleet(
            await self.orchestrators(everyone=True),
            await self.workers(),
            await self._records(JobsWithoutOwner, "jobs_without_owner"),
            await self._records(UnservedTasks, "unserved_lanes"),
        )

    async def unread_signals(self, seconds: float) -> UnreadSignals:
        """How many signals have waited longer than that, and since when the oldest."""
        (signals,) = await self._records(UnreadSignals, "unread_signals", seconds=seconds)
        return signals

    async def long_transactions(self, seconds: float) -> list[LongTransaction]:
        return await self._records(LongTransaction, "long_transactions", seconds=seconds)

    async def lock_holders(self) -> list[LockHolder]:
        """Sessions that keep rows of our tables locked."""
        return await self._records(LockHolder, "lock_holders", held_seconds=HELD_SECONDS)

    async def now(self) -> float:
        """By the database's clock."""
        (clock,) = await self._fetch("clock")
        return float(clock["now"])

    async def server_facts(self) -> ServerFacts:
        (facts,) = await self._records(ServerFacts, "server_facts")
        return facts


class PostgresInstallation(PostgresInstallationReader):
    """Keeps the promises of `operations.ports.Installation`."""

    def __init__(self, url: str) -> None:
        super().__init__(Connections(url, "holdfast installation"))

    async def close(self) -> None:
        await self._connections.close()

    async def migrate(self) -> list[Migration]:
        """Apply the migrations that the database lacks; returns those that were applied now."""
        return await migrate.apply_missing(self._connections.url)

    async def admit_operators(self) -> bool:
        """Let operators use the functions for people. False: there is no role for them, and we may not make it."""
        return await migrate.admit_operators(self._connections.url)

    async def tables(self) -> list[TableSize]:
        return await migrate.tables(self._connections.url)

    async def rebuild(self, confirm: str, *, while_jobs_are_open: bool = True) -> None:
        """Drop the schema with all jobs and make it again. Refused unless `confirm` is the name of the database."""
        await migrate.rebuild(self._connections.url, confirm=confirm, while_jobs_are_open=while_jobs_are_open)

    async def refuse_shared_sessions(self) -> None:
        """Unreachable if the database does not answer, or if a pooler lends our session to others."""
        url = self._connections.url
        async with await connect(url, "holdfast doctor") as connection:
            await refuse_shared_sessions(connection, url)

    async def write_problem(self) -> str | None:
        """Why nothing can be written now; None if it can. Leaves nothing behind."""
        async with self._connections.use("reading") as connection:
            try:
                await try_to_write(connection, self._connections.url)
            except Unreachable as error:
                return error.message
        return None

    async def schema(self) -> SchemaStatus:
        async with self._connections.use("reading") as connection:
            return await migrate.status(connection)
