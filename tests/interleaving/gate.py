"""Connections to Postgres with a gate: statements wait for the scheduler, which makes some of them fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import psycopg

from holdfast.errors import Unreachable
from holdfast.orchestrator.loop import KILLS
from holdfast.store.connection import SYNC, Answer, Connection, Connections, Statement
from holdfast.store.lanes import LaneIds
from holdfast.store.postgres import PostgresStore
from holdfast.store.queries import query
from holdfast.store.records import Lease, Report, WorkerIdentity
from holdfast.worker.ports import OnLocked
from tests.interleaving.observer import SEARCH_PATH

if TYPE_CHECKING:
    from tests.interleaving.world import GatedWorld, Place

SCRIPTED_BUG = "ArithmeticError: as scripted"

_FENCED = frozenset({b"begin", query("report")})
_CLOCK = b"select set_config('search_path', %(path)s, false), set_config('backstage.now', %(now)s, false)"


class GatedConnections(Connections):
    """The connections of one process. Other processes may run between its statements wherever the server allows it:
    between two statements of a transaction, between two transactions, or not at all."""

    def __init__(self, url: str, world: GatedWorld, place: Place) -> None:
        super().__init__(url)
        self._world, self._place = world, place
        self.is_dead = False
        self.active_at = 0.0
        self.orchestrators: list[int] = []
        self.workers: list[int] = []

    async def exchange(self, role: str, *statements: Statement | None) -> list[Answer]:
        answers: list[Answer] = []
        for part in self._parts(role, statements):
            answers += await self._pass(role, part)
        return answers

    @asynccontextmanager
    async def use(self, role: str) -> AsyncIterator[Connection]:
        """What is done on an ordinary connection is one step."""
        if self.is_dead:
            raise Unreachable("This process is dead.")
        await self._world.gate(self._place)
        self._place.waits_for = (self, role)
        try:
            async with super().use(role) as connection:
                await connection.execute(_CLOCK, self._clock())
                yield connection
        finally:
            self._world.has_news = True
            await self._take_turn()

    def _parts(self, role: str, statements: Sequence[Statement | None]) -> list[list[Statement | None]]:
        if not self._world.is_interleaved():
            return [list(statements)]
        if self._is_in_transaction(role) or statements[0] == (b"begin", {}):
            return [[statement] for statement in statements]
        parts: list[list[Statement | None]] = [[]]
        for statement in statements:
            if statement is SYNC:
                parts.append([])
            else:
                parts[-1].append(statement)
        return parts

    async def _pass(self, role: str, statements: Sequence[Statement | None]) -> list[Answer]:
        if self.is_dead:
            raise psycopg.OperationalError("this process is dead")
        self._place.process.wake_at = self._world.db.time + self._nap(role, statements)
        await self._world.gate(self._place)
        fault = self._world.draw_fault()
        if fault == "failed":
            await self._cut(role)
        clock: list[Statement | None] = []
        if not self._is_in_transaction(role):
            clock = [(_CLOCK, self._clock()), SYNC]
        self._place.waits_for = (self, role)
        try:
            answers = await super().exchange(role, *clock, *statements)
        finally:
            self._world.has_news = self._world.has_news or not self._is_in_transaction(role)
            await self._take_turn()
        if fault == "unknown":
            await self._lose(role)
            raise psycopg.OperationalError("the connection broke before the answer")
        return answers[len(clock) // 2 :]

    def _clock(self) -> dict[str, str]:
        return {"path": SEARCH_PATH, "now": repr(self._world.db.now)}

    async def _take_turn(self) -> None:
        """After a wait for a lock another process runs: read the answer when it is our turn."""
        self.active_at = self._world.db.time
        if self._place.was_blocked:
            self._place.was_blocked = False
            await self._world.gate(self._place)

    def _nap(self, role: str, statements: Sequence[Statement | None]) -> float:
        """How long to sleep at a dangerous moment: with locks that others need, or until the own lease has expired."""
        if self._is_in_transaction(role):
            return self._world.draw_nap((1.0, 1.0, 12.0))
        if not _FENCED & {statement[0] for statement in statements if statement is not SYNC}:
            return 0.0
        seconds = self._world.draw_nap((0.5, 2.5, 12.0))
        if seconds:
            self._world.observer.lapse(self.orchestrators, self.workers)
        return seconds

    def _is_in_transaction(self, role: str) -> bool:
        line = self._pipelined.get(role)
        return line is not None and line.is_in_transaction

    async def _cut(self, role: str) -> None:
        """Break the connection. Chance decides whether the process notices before it sends its next statement."""
        line = self._pipelined.get(role)
        if line is None:
            raise Unreachable("The database cannot be reached.")
        self._world.observer.end(self.pids(role))
        if self._world.chance.random() < 0.5:
            while line.is_usable:
                await asyncio.sleep(0)

    async def _lose(self, role: str) -> None:
        """Break the connection after the statements have run."""
        self._world.observer.end(self.pids(role))
        line = self._pipelined.pop(role)
        await line.close()

    def pids(self, role: str | None = None) -> list[int]:
        """The server's processes behind these connections, or behind one of them."""
        connections = [*self._open.items(), *((name, line._connection) for name, line in self._pipelined.items())]
        return [
            connection.pgconn.backend_pid
            for name, connection in connections
            if role in (None, name) and not connection.closed
        ]

    def idle_in_transaction(self) -> list[int]:
        return [pid for role in list(self._pipelined) if self._is_in_transaction(role) for pid in self.pids(role)]


class GatedStore(PostgresStore):
    """The real store behind the gate. A worker's name contains its id, so that each report names its worker."""

    def __init__(self, url: str, world: GatedWorld, place: Place) -> None:
        super().__init__(url)
        self.connections: GatedConnections = GatedConnections(url, world, place)
        self._lanes = LaneIds(self.connections)
        self._world = world
        self._ahead: dict[int, list[Lease]] = {}
        place.connections.append(self.connections)

    def _draw_id(self) -> int:
        """An id that depends on the seed alone: events contain the names of owners."""
        return self._world.db.draw()

    async def register_orchestrator(self, name: str, lease_seconds: float, only_job: str | None = None) -> int:
        orchestrator_id = await super().register_orchestrator(name, lease_seconds, only_job)
        self.connections.orchestrators.append(orchestrator_id)
        return orchestrator_id

    async def register_worker(
        self,
        name: str,
        queues: Sequence[str] | None,
        handlers: Sequence[str],
        concurrency: int,
        lease_seconds: float,
    ) -> WorkerIdentity:
        worker = await super().register_worker(name, queues, handlers, concurrency, lease_seconds)
        self.connections.workers.append(worker.worker_id)
        return worker._replace(name=f"w{worker.worker_id}")

    async def set_aside(self, job_id: str, orchestrator_id: int, problem: str) -> None:
        """Check the reason: only a scripted bug, or kills that all happened in cycles of one job, set a job aside.

        With any other reason, the first fence failed and a second one, such as the event numbers, stopped the writer.
        """
        assert problem in (SCRIPTED_BUG, KILLS), f"2: {job_id} was set aside by {orchestrator_id}: {problem}"
        self._world.db.history.set_aside += 1
        await super().set_aside(job_id, orchestrator_id, problem)

    async def report(
        self, worker: WorkerIdentity, reports: Sequence[Report], on_locked: OnLocked = lambda report: None
    ) -> int:
        """Report alone, or together with a claim, as the real worker does. The next claim returns these leases."""
        if not self._world.claims_ahead():
            return await super().report(worker, reports, on_locked)
        accepted, leases = await super().report_and_claim(
            worker, reports, None, self._world.handlers, 1, on_locked=on_locked
        )
        self._ahead.setdefault(worker.worker_id, []).extend(leases)
        return accepted

    async def claim(
        self, worker: WorkerIdentity, queues: Sequence[str] | None, handlers: Sequence[str], limit: int
    ) -> list[Lease]:
        ahead = self._ahead.pop(worker.worker_id, [])
        return ahead or await super().claim(worker, queues, handlers, limit)
