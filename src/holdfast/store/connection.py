"""Connections to Postgres: opened when needed, kept by role, replaced when they break."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import psycopg
import psycopg.conninfo
from psycopg.rows import tuple_row

from holdfast.errors import InvalidInput, Unreachable

Connection = psycopg.AsyncConnection[tuple[Any, ...]]
BlockingConnection = psycopg.Connection[tuple[Any, ...]]
Answer = TypeVar("Answer")

CONNECT_TIMEOUT_SECONDS = 10

# Every statement of ours finds its rows by an index, one after the other. The hot tables are never analysed (they
# are empty one moment and full the next), so the planner guesses, and a guess for a hash join reads all dead rows.
SESSION_SETTINGS = {
    "search_path": "holdfast",
    "timezone": "UTC",
    "idle_in_transaction_session_timeout": "20s",
    "jit": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
}
_SETTINGS_STATEMENT = (
    "select " + ", ".join(f"set_config('{setting}', '{value}', false)" for setting, value in SESSION_SETTINGS.items())
).encode()


async def connect(url: str, name: str = "holdfast") -> Connection:
    """An autocommit connection that finds our schema, speaks UTC and cannot hold locks while its process sleeps."""
    check_url(url)
    try:
        connection = await psycopg.AsyncConnection.connect(url, row_factory=tuple_row, **_options(name))
        await connection.execute(_SETTINGS_STATEMENT, prepare=False)
    except psycopg.OperationalError as error:
        raise unreachable(url, error) from None
    return connection


def connect_blocking(url: str, name: str = "holdfast") -> BlockingConnection:
    """The same for a thread of its own: a pipeline costs a fifth of what it costs on an event loop."""
    check_url(url)
    try:
        connection = psycopg.Connection.connect(url, row_factory=tuple_row, **_options(name))
        connection.execute(_SETTINGS_STATEMENT, prepare=False)
    except psycopg.OperationalError as error:
        raise unreachable(url, error) from None
    return connection


def _options(name: str) -> dict[str, Any]:
    return {
        "autocommit": True,
        "prepare_threshold": 0,
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "application_name": name,
    }


SYNC = None
"""Between two statements: the first is committed before the second begins."""


def exchange(
    connection: BlockingConnection, statements: Sequence[tuple[bytes, dict[str, Any]] | None]
) -> list[list[tuple[Any, ...]]]:
    """Send statements together and return the rows of each: one round trip.

    Psycopg sends every statement of a pipeline as soon as it is given; here all are kept until the end, so that a
    cycle of ten statements costs one write and not ten, each with a switch to the server and back.
    """
    cursors = []
    try:
        with connection.pipeline() as pipeline:
            pipeline._exit_gen = partial(_leave, pipeline)  # type: ignore[method-assign]
            pipeline._communicate_gen = _keep  # type: ignore[method-assign]
            for statement in statements:
                if statement is SYNC:
                    pipeline._enqueue_sync()
                else:
                    cursors.append(connection.execute(statement[0], statement[1], prepare=True))
    except psycopg.DatabaseError as error:
        # Leaving the pipeline of a dead connection fails once more, with a less telling class.
        if connection.closed or connection.broken:
            raise psycopg.OperationalError(str(error)) from error
        raise _first_error(error) from None
    return [cursor.fetchall() if cursor.description is not None else [] for cursor in cursors]


def _first_error(error: psycopg.Error) -> psycopg.Error:
    """What went wrong, not that the statements behind it were left out because of it."""
    first: BaseException | None = error
    while isinstance(first, psycopg.errors.PipelineAborted) and first.__context__ is not None:
        first = first.__context__
    return first if isinstance(first, psycopg.Error) else error


def _keep() -> Generator[Any, Any, None]:
    yield from ()


def _leave(pipeline: psycopg.Pipeline) -> Generator[Any, Any, None]:
    """Leave with a sync and nothing behind it.

    Psycopg sends a flush after its last sync. Postgres takes it for the next command: it stops the clock of
    idle_in_transaction_session_timeout, and a stopped process would keep its locks for ever.
    """
    del pipeline._communicate_gen
    try:
        pipeline._enqueue_sync()
        yield from pipeline._communicate_gen()
    finally:
        yield from pipeline._fetch_gen(flush=False)


def check_url(url: str) -> None:
    """Refuse what is no Postgres URL before anything is tried; the message never shows a password."""
    try:
        parsed = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        parsed = {}
    if not parsed or not url.startswith(("postgresql://", "postgres://")):
        raise InvalidInput(
            "The database URL is not valid.",
            remedy="Write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE.",
        )


def unreachable(url: str, error: Exception) -> Unreachable:
    parsed = psycopg.conninfo.conninfo_to_dict(url)
    where = f"{parsed.get('host') or 'localhost'}:{parsed.get('port') or 5432}/{parsed.get('dbname') or ''}"
    why = " ".join(str(error).split())
    return Unreachable(
        f"The database at {where} cannot be reached: {why}",
        remedy="Check that it runs and that the URL is right, then look again with: holdfast doctor",
    )


class Connections:
    """One connection per role. A broken one is replaced at the next use."""

    def __init__(self, url: str, name: str = "holdfast") -> None:
        self.url = url
        self._name = name
        self._open: dict[str, Connection] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._blocking: dict[str, BlockingConnection] = {}
        self._threads: dict[str, ThreadPoolExecutor] = {}

    async def run(self, role: str, work: Callable[[BlockingConnection], Answer]) -> Answer:
        """Do blocking work on the role's connection, in the role's own thread, one at a time.

        An OperationalError drops the connection, whose state nobody knows, and is raised.
        """
        thread = self._threads.get(role)
        if thread is None:
            thread = self._threads[role] = ThreadPoolExecutor(1, thread_name_prefix=f"holdfast-{role}")
        return await asyncio.get_running_loop().run_in_executor(thread, self._work, role, work)

    def _work(self, role: str, work: Callable[[BlockingConnection], Answer]) -> Answer:
        connection = self._blocking.get(role)
        if connection is None or connection.closed or connection.broken:
            connection = self._blocking[role] = connect_blocking(self.url, f"{self._name} {role}")
        try:
            return work(connection)
        except psycopg.OperationalError:
            self._blocking.pop(role).close()
            raise

    @asynccontextmanager
    async def use(self, role: str) -> AsyncIterator[Connection]:
        """The role's connection for one caller at a time: transactions and pipelines do not mix."""
        async with self._locks[role]:
            try:
                yield await self.get(role)
            except psycopg.OperationalError as error:
                raise unreachable(self.url, error) from None

    async def get(self, role: str) -> Connection:
        connection = self._open.get(role)
        if connection is None or connection.closed or connection.broken:
            connection = await connect(self.url, f"{self._name} {role}")
            self._open[role] = connection
        return connection

    async def drop(self, role: str) -> None:
        connection = self._open.pop(role, None)
        if connection is not None:
            await connection.close()

    async def close(self) -> None:
        for role in list(self._open):
            await self.drop(role)
        for thread in self._threads.values():
            thread.shutdown(wait=True)
        for connection in self._blocking.values():
            connection.close()
        self._threads.clear()
        self._blocking.clear()
