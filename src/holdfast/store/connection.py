"""Connections to Postgres: opened when needed, kept by role, replaced when they break."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any, NamedTuple

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.rows import tuple_row

from holdfast.meters import Sample
from holdfast.store.database_url import check_url
from holdfast.store.outage import error_of, is_cured_by_waiting, too_slow, unreachable
from holdfast.store.reader_pool import READING, ReaderPool

Connection = psycopg.AsyncConnection[tuple[Any, ...]]
Rows = list[tuple[Any, ...]]
Statement = tuple[bytes, dict[str, Any]]

CONNECT_TIMEOUT_SECONDS = 10
IDLE_SECONDS = 20.0
"""How long a transaction may stand still before Postgres ends it, for those who have no lease."""
LOCK_SECONDS = 10.0
"""How long a lock of another session is waited for, by those who have no lease."""
LEASE_LOCK_SECONDS = 0.5
"""The same for those who have one: their neighbours wait behind them. Our own transactions are much shorter."""
CLOSE_SECONDS = 1.0
"""For how long a connection that closes waits for the end of its statement."""
ANSWER_LEASES = 3
"""For how many leases an answer is waited for: a holder must not wait for ever on a connection that has gone dead."""

# Every statement of ours finds its rows by an index, one after the other. The hot tables are never analysed (they
# are empty one moment and full the next), so the planner guesses, and a guess for a hash join reads all dead rows.
SESSION_SETTINGS = {
    "search_path": "holdfast",
    "timezone": "UTC",
    "jit": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
}


def session_settings(idle_seconds: float, lock_seconds: float, statement_seconds: float = 0.0) -> bytes:
    """One statement that prepares a session: what it costs is paid once, at the connect."""
    settings = SESSION_SETTINGS | {
        "idle_in_transaction_session_timeout": f"{idle_seconds * 1000:.0f}ms",
        "lock_timeout": f"{lock_seconds * 1000:.0f}ms",
    }
    if statement_seconds:
        settings["statement_timeout"] = f"{statement_seconds * 1000:.0f}ms"
    calls = [f"set_config('{name}', '{value}', false)" for name, value in settings.items()]
    return f"select {', '.join(calls)}".encode()


async def connect(
    url: str,
    name: str = "holdfast",
    idle_seconds: float = IDLE_SECONDS,
    lock_seconds: float = LOCK_SECONDS,
    statement_seconds: float = 0.0,
) -> Connection:
    """An autocommit connection that finds our schema and speaks UTC.

    It cannot hold locks while its process sleeps, and does not wait for the locks of others without end.
    """
    check_url(url)
    try:
        connection = await psycopg.AsyncConnection.connect(
            url,
            row_factory=tuple_row,
            autocommit=True,
            prepare_threshold=0,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            application_name=name,
            # When the network says that the other side is gone, to one who only listens too.
            keepalives_idle=15,
            keepalives_interval=5,
            keepalives_count=3,
        )
        try:
            await connection.execute(session_settings(idle_seconds, lock_seconds, statement_seconds), prepare=False)
        except BaseException:
            await connection.close()
            raise
    except psycopg.OperationalError as error:
        raise unreachable(url, error) from None
    return connection


SYNC = None
"""Between two statements: the first is committed before the second begins."""


class Answer(NamedTuple):
    """What a statement gave: its rows, how many it touched, and the names of its columns."""

    rows: Rows
    row_count: int
    columns: tuple[str, ...] = ()


async def answer_of(cursor: psycopg.AsyncCursor[tuple[Any, ...]]) -> Answer:
    """What a statement gave that did not go out in an exchange."""
    columns = tuple(column.name for column in cursor.description or ())
    return Answer(await cursor.fetchall(), cursor.rowcount, columns)


class PipelinedConnection:
    """A connection that is spoken to only in exchanges: statements out in one write, their answers back.

    Written on libpq itself. The driver's own pipeline sends statement by statement, each with a switch to the server
    and back, and takes five times as much of our processor; on a chain of short tasks that is most of the time.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._pgconn.nonblocking = 1
        self._pgconn.enter_pipeline_mode()
        self._transformer = Transformer(connection)
        self._names: dict[bytes, bytes] = {}
        self._columns: dict[bytes, tuple[str, ...]] = {}
        self._prepared = 0
        self.is_in_transaction = False
        self._waiting: asyncio.Future[None] | None = None
        self._loss: psycopg.OperationalError | None = None
        self._loop, self._socket = asyncio.get_running_loop(), self._pgconn.socket
        self._loop.add_reader(self._socket, self._arrived)
        self._is_reading = True

    @property
    def is_usable(self) -> bool:
        return self._loss is None and self._pgconn.status == pq.ConnStatus.OK

    async def close(self) -> None:
        self._stop_reading()
        await self._connection.close()

    def _stop_reading(self) -> None:
        """Once only: a lost connection has given its socket's number back, and another may have it by now."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._socket)

    async def exchange(self, statements: Sequence[Statement | None]) -> list[Answer]:
        """One round trip. The first error is raised when all answers are in: the connection can be used again.

        An exchange that is interrupted in the middle leaves an unusable connection: it is closed.
        """
        try:
            expected = [self._send(statement) for statement in statements]
            self._pgconn.pipeline_sync()
            await self._flush()
            return await self._receive(expected)
        except BaseException as error:
            if not isinstance(error, psycopg.DatabaseError) or _costs_the_connection(error):
                self.is_in_transaction = False
                await self.close()
            raise

    def _send(self, statement: Statement | None) -> tuple[bytes, bytes | None] | None:
        """Give a statement to libpq, which keeps it. Returns the statement, and its name if it prepares it."""
        if statement is SYNC:
            self._pgconn.pipeline_sync()
            return SYNC
        sql, parameters = statement
        text, names = _numbered(sql)
        name = self._names.get(sql)
        preparing = None
        if name is None:
            self._prepared += 1
            name = preparing = b"holdfast_%d" % self._prepared
            self._pgconn.send_prepare(name, text)
        self._pgconn.send_query_prepared(name, [_encoded(parameters[n]) for n in names])
        return sql, preparing

    async def _flush(self) -> None:
        """Until all is written; the server may answer already, and would stop reading if we did not take it."""
        while self._pgconn.flush():
            await self._room()

    async def _receive(self, expected: Sequence[tuple[bytes, bytes | None] | None]) -> list[Answer]:
        answers: list[Answer] = []
        first_error: psycopg.Error | None = None
        for sent in (*expected, SYNC):
            if sent is SYNC:
                failure = await self._end()
                first_error = first_error or failure
                continue
            sql, preparing = sent
            results = [await self._results()] if preparing is None else [await self._results(), await self._results()]
            for result in results:
                if result.status == pq.ExecStatus.FATAL_ERROR and first_error is None:
                    first_error = self._error(result)
            if preparing is not None and results[0].status == pq.ExecStatus.COMMAND_OK:
                self._names[sql] = preparing
            answers.append(self._answer(sql, results[-1]))
        self.is_in_transaction = self._pgconn.transaction_status != pq.TransactionStatus.IDLE
        if first_error is not None:
            raise first_error
        return answers

    async def _results(self) -> pq.abc.PGresult:
        """The result of one statement, and the mark behind it."""
        result = await self._result()
        if result is None:
            raise psycopg.OperationalError("the server ended the exchange before its last answer")
        await self._result()
        return result

    async def _end(self) -> psycopg.Error | None:
        """The end of a transaction: what its commit failed of, when all statements had their answers already."""
        failure: psycopg.Error | None = None
        result = await self._result()
        while result is None or result.status != pq.ExecStatus.PIPELINE_SYNC:
            if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
                failure = failure or self._error(result)
                # The mark behind it. A server that has ended the connection sends no more.
                await self._result()
            result = await self._result()
            if result is None:
                raise failure or psycopg.OperationalError("the server ended the exchange before its end")
        return failure

    async def _result(self) -> pq.abc.PGresult | None:
        while self._pgconn.is_busy():
            await self._arrival()
        result = self._pgconn.get_result()
        if self._pgconn.status == pq.ConnStatus.BAD:
            raise psycopg.OperationalError(self._pgconn.error_message.decode(errors="replace"))
        return result

    def _answer(self, sql: bytes, result: pq.abc.PGresult) -> Answer:
        if result.status != pq.ExecStatus.TUPLES_OK:
            return Answer([], result.command_tuples or 0)
        self._transformer.set_pgresult(result)
        columns = self._columns.get(sql)
        if columns is None:
            columns = tuple((result.fname(place) or b"").decode() for place in range(result.nfields))
            self._columns[sql] = columns
        return Answer(self._transformer.load_rows(0, result.ntuples, tuple), result.ntuples, columns)

    def _error(self, result: pq.abc.PGresult) -> psycopg.Error:
        """A server that ends the connection says so in an error of its own: to the caller it is a lost connection."""
        sqlstate = result.error_field(pq.DiagnosticField.SQLSTATE) or b""
        severity = result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) or b""
        message = result.error_message.decode(errors="replace").strip()
        return error_of(sqlstate.decode(), severity.decode(), message)

    async def _arrival(self) -> None:
        """Until something has come in."""
        if self._loss is not None:
            raise self._loss
        self._waiting = asyncio.get_running_loop().create_future()
        await self._waiting

    def _arrived(self) -> None:
        """The socket can be read: take what is there. Registered once and for all, which spares two system calls."""
        try:
            self._pgconn.consume_input()
        except psycopg.OperationalError as error:
            self._loss = error
            self._stop_reading()
        self._go_on()

    def _go_on(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _room(self) -> None:
        """Until more can be written, or something has come in."""
        self._waiting = self._loop.create_future()
        self._loop.add_writer(self._socket, self._go_on)
        try:
            await self._waiting
        finally:
            self._loop.remove_writer(self._socket)


@cache
def _numbered(sql: bytes) -> tuple[bytes, tuple[str, ...]]:
    """From named places, as our statements have them, to numbered ones, as the server wants them."""
    names: dict[bytes, None] = {}

    def number(place: re.Match[bytes]) -> bytes:
        names.setdefault(place[1])
        return b"$%d" % (list(names).index(place[1]) + 1)

    text = re.sub(rb"%\((\w+)\)s", number, sql).replace(b"%%", b"%")
    return text, tuple(name.decode() for name in names)


def _encoded(value: Any) -> bytes | None:
    """A parameter as text. NUL cannot be stored by Postgres and is dropped."""
    if value is None:
        return None
    text = value if isinstance(value, str) else str(value)
    return text.replace("\0", "").encode() if "\0" in text else text.encode()


def _costs_the_connection(error: psycopg.DatabaseError) -> bool:
    """Whether a connection that met this is replaced: the next one may reach another server. A lock costs none."""
    return isinstance(error, psycopg.OperationalError) and not isinstance(error, psycopg.errors.LockNotAvailable)


class Connections:
    """One connection per role, and several for those who only look. A broken one is replaced at the next use.

    With a lease, no transaction stands still for longer than that, and an answer is not waited for without end.
    """

    def __init__(
        self,
        url: str,
        name: str = "holdfast",
        lease_seconds: float | None = None,
        *,
        readers: int = 1,
        read_seconds: float = 0.0,
    ) -> None:
        self.url = url
        self._name = name
        self._idle_seconds = lease_seconds or IDLE_SECONDS
        self._lock_seconds = min(LEASE_LOCK_SECONDS, lease_seconds / 4) if lease_seconds is not None else LOCK_SECONDS
        self._answer_seconds = lease_seconds * ANSWER_LEASES if lease_seconds is not None else None
        self._open: dict[str, Connection] = {}
        self._pipelined: dict[str, PipelinedConnection] = {}
        self._connection_numbers: Counter[str] = Counter()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._readers, self._read_seconds = ReaderPool(readers), read_seconds

    def connection_number(self, role: str) -> int:
        """How often the role has connected: another number says that this is not the same connection as before."""
        return self._connection_numbers[role]

    async def exchange(self, role: str, *statements: Statement | None) -> list[Answer]:
        """Send statements together on the role's pipelined connection and wait for all answers: one round trip.

        An OperationalError says that the connection was lost, and that the outcome of the statements is not known.
        """
        async with self._locks[role]:
            try:
                async with asyncio.timeout(self._answer_seconds):
                    return await self._exchange(role, statements)
            except TimeoutError:
                raise psycopg.OperationalError(f"no answer within {self._answer_seconds:g} s") from None

    async def _exchange(self, role: str, statements: Sequence[Statement | None]) -> list[Answer]:
        connection = self._pipelined.get(role)
        if connection is not None and not connection.is_usable:
            del self._pipelined[role]
            await connection.close()
            if connection.is_in_transaction:
                # On a new connection the rest of the transaction would be committed without its beginning.
                raise psycopg.OperationalError("the connection was lost inside a transaction")
            connection = None
        if connection is None:
            connection = self._pipelined[role] = PipelinedConnection(await self._connect(role))
            self._connection_numbers[role] += 1
        return await connection.exchange(statements)

    @asynccontextmanager
    async def use(self, role: str) -> AsyncIterator[Connection]:
        """An ordinary connection for one caller at a time: transactions do not mix."""
        if role == READING:
            async with self._readers.lend() as reader, self._use(reader, self._read_seconds) as connection:
                yield connection
            return
        async with self._use(role) as connection:
            yield connection

    def gauges(self) -> list[Sample]:
        """How the pool is used now."""
        pool = (self._name.removeprefix("holdfast ").strip(),)
        return [
            Sample("readers", self._readers.size, pool),
            Sample("readers_busy", self._readers.busy, pool),
            Sample("readers_waiting", self._readers.waiting, pool),
            Sample("connections", len(self._open) + len(self._pipelined), pool),
        ]

    @asynccontextmanager
    async def _use(self, role: str, statement_seconds: float = 0.0) -> AsyncIterator[Connection]:
        async with self._locks[role]:
            try:
                yield await self._get(role, statement_seconds)
            except psycopg.Error as error:
                if statement_seconds and isinstance(error, psycopg.errors.QueryCanceled):
                    raise too_slow(statement_seconds) from None
                if not is_cured_by_waiting(error):
                    raise
                raise unreachable(self.url, error) from None

    async def _get(self, role: str, statement_seconds: float) -> Connection:
        connection = self._open.get(role)
        if connection is None or connection.closed or connection.broken:
            connection = self._open[role] = await self._connect(role, statement_seconds)
        return connection

    async def _connect(self, role: str, statement_seconds: float = 0.0) -> Connection:
        seconds = (self._idle_seconds, self._lock_seconds, statement_seconds)
        return await connect(self.url, f"{self._name} {role}", *seconds)

    async def close(self) -> None:
        """A statement that runs is waited for: its socket would close, and others would get the number of it."""
        await asyncio.gather(*(self._close(role) for role in list(self._open)))
        for pipelined in self._pipelined.values():
            await pipelined.close()
        self._pipelined.clear()

    async def _close(self, role: str) -> None:
        lock = self._locks[role]
        is_ours = False
        with suppress(TimeoutError):
            is_ours = await asyncio.wait_for(lock.acquire(), CLOSE_SECONDS)
        await self._open.pop(role).close()
        if is_ours:
            lock.release()
