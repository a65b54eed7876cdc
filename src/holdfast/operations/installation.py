"""The database itself: whether it can be used, and its schema. There may be no schema yet."""

from __future__ import annotations

import time

from holdfast.errors import SchemaMismatch
from holdfast.operations.ports import Installation
from holdfast.sql_files import Migration
from holdfast.store import schema
from holdfast.store.read_rows import ServerFacts
from holdfast.views.fleet import fleet_view
from holdfast.views.installation import (
    DatabaseCheck,
    Delays,
    LockHolder,
    LongTransaction,
    SchemaState,
    Server,
    TableSize,
)

UNREAD_SECONDS = 10.0
TRANSACTION_SECONDS = 60.0


async def migrate(installation: Installation) -> list[Migration]:
    """Apply the migrations that the database lacks; returns those that were applied now."""
    return await installation.migrate()


async def admit_operators(installation: Installation) -> bool:
    """Let the role `holdfast_operator` use the functions for people. False: there is no such role, and the login may
    not make it."""
    return await installation.admit_operators()


async def schema_state(installation: Installation) -> SchemaState:
    """Which migrations the database has and lacks."""
    found = await installation.schema()
    return SchemaState(found.applied, found.missing, found.unknown, found.is_foreign, found.is_current)


async def tables(installation: Installation) -> list[TableSize]:
    """The tables of the schema, with their rows and their sizes."""
    return [TableSize(one.table, one.rows, one.bytes) for one in await installation.tables()]


async def rebuild(installation: Installation, confirm: str, *, while_jobs_are_open: bool = True) -> None:
    """Drop the schema with all jobs and make it again. Refused unless `confirm` is the name of the database."""
    await installation.rebuild(confirm, while_jobs_are_open=while_jobs_are_open)


def ddl() -> str:
    """The whole schema as SQL statements."""
    return schema.ddl()


def foreign_schema() -> SchemaMismatch:
    """What is wrong with a database in which another application has made a schema of our name."""
    return schema.foreign_schema()


async def check(installation: Installation) -> DatabaseCheck:
    """Look at the database as a whole and change nothing; Unreachable if it does not answer."""
    await installation.refuse_shared_sessions()
    asked = time.time()
    facts = await installation.server_facts()
    server = _server(facts, facts.now - (asked + time.time()) / 2)
    problem = await installation.write_problem()
    state = await schema_state(installation)
    if not state.is_current:
        return DatabaseCheck(server, problem, state, None, None)
    return DatabaseCheck(server, problem, state, fleet_view(await installation.fleet()), await _delays(installation))


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


async def _delays(installation: Installation) -> Delays:
    unread = await installation.unread_signals(UNREAD_SECONDS)
    return Delays(
        unread.number,
        unread.since,
        tuple(
            LockHolder(one.pid, one.name, one.state, one.since, one.shown_query, tuple(one.tables), one.ending)
            for one in await installation.lock_holders()
        ),
        tuple(LongTransaction(**one._asdict()) for one in await installation.long_transactions(TRANSACTION_SECONDS)),
    )
