"""The database itself: whether it can be used, and its schema. Needs a URL only: there may be no schema yet."""

from __future__ import annotations

import time

from holdfast.errors import SchemaMismatch, Unreachable
from holdfast.sql_files import Migration
from holdfast.store import migrate as schema
from holdfast.store.connection import Connection, Connections, connect
from holdfast.store.installation import ServerFacts
from holdfast.store.reading import Reader
from holdfast.store.usable import refuse_shared_sessions, try_to_write
from holdfast.views.fleet import fleet_view
from holdfast.views.installation import DatabaseCheck, Delays, LockHolder, LongTransaction, SchemaState, Server

UNREAD_SECONDS = 10.0
TRANSACTION_SECONDS = 60.0


async def migrate(url: str) -> list[Migration]:
    """Apply the migrations that the database lacks; returns those that were applied now."""
    return await schema.migrate(url)


def ddl() -> str:
    """The whole schema as SQL statements."""
    return schema.ddl()


def foreign_schema() -> SchemaMismatch:
    """What is wrong with a database in which another application has made a schema of our name."""
    return schema.foreign_schema()


async def check(url: str) -> DatabaseCheck:
    """Look at the database as a whole and change nothing; Unreachable if it does not answer."""
    async with await connect(url, "holdfast doctor") as connection:
        await refuse_shared_sessions(connection, url)
    connections = Connections(url, "holdfast doctor")
    try:
        return await _check(connections)
    finally:
        await connections.close()


async def _check(connections: Connections) -> DatabaseCheck:
    reader = Reader(connections)
    asked = time.time()
    facts = await reader.server_facts()
    server = _server(facts, facts.now - (asked + time.time()) / 2)
    async with connections.use("reading") as connection:
        problem = await _write_problem(connection, connections.url)
        found = await schema.status(connection)
    state = SchemaState(found.applied, found.missing, found.unknown, found.is_foreign, found.is_current)
    if not state.is_current:
        return DatabaseCheck(server, problem, state, None, None)
    return DatabaseCheck(server, problem, state, fleet_view(await reader.fleet()), await _delays(reader))


def _server(facts: ServerFacts, skew_seconds: float) -> Server:
    return Server(
        facts.version_number,
        facts.version,
        facts.database,
        facts.size_bytes,
        facts.fsync,
        facts.synchronous_commit,
        facts.connections,
        facts.max_connections,
        skew_seconds,
    )


async def _write_problem(connection: Connection, url: str) -> str | None:
    try:
        await try_to_write(connection, url)
    except Unreachable as error:
        return error.message
    return None


async def _delays(reader: Reader) -> Delays:
    unread, since = await reader.unread_signals(UNREAD_SECONDS)
    return Delays(
        unread,
        since,
        tuple(
            LockHolder(one.pid, one.name, one.state, one.since, one.shown_query, tuple(one.tables), one.ending)
            for one in await reader.lock_holders()
        ),
        tuple(LongTransaction(*one) for one in await reader.long_transactions(TRANSACTION_SECONDS)),
    )
