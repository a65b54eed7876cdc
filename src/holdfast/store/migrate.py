"""The schema's life: what is applied, what is missing, and the rare rebuild. Forward only, under one lock."""

from __future__ import annotations

from psycopg import sql

from holdfast.errors import Refused, SchemaMismatch
from holdfast.remedies import Remedy
from holdfast.sql_files import Migration
from holdfast.store.columns import by_name
from holdfast.store.connection import LOCK_SECONDS, Connection, answer_of, connect
from holdfast.store.schema import MAKE_RECORDS, SCHEMA, SchemaStatus, TableSize, foreign_schema, migrations
from holdfast.store.usable import refuse_shared_sessions

OLDEST_SERVER = 150_000
_LOCK_KEY = 0x686F6C64  # "hold"; any number will do as long as it never changes.


async def status(connection: Connection) -> SchemaStatus:
    known = {m.number: m.name for m in migrations()}
    relations = await connection.execute(
        "select c.relname, array_agg(a.attname::text) as columns"
        " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0"
        " where n.nspname = 'holdfast' and c.relkind in ('r', 'p', 'v', 'm', 'f') group by c.oid, c.relname",
        prepare=False,
    )
    columns = {row["relname"]: set(row["columns"]) for row in by_name(await answer_of(relations))}
    applied: dict[int, str] = {}
    is_foreign = bool(columns) and not columns.get("migrations", set()) >= {"number", "name"}
    if columns and not is_foreign:
        made = await connection.execute("select number, name from holdfast.migrations", prepare=False)
        applied = {row["number"]: row["name"] for row in by_name(await answer_of(made))}
        is_foreign = known[1] != applied.get(1, known[1])
    if is_foreign:
        return SchemaStatus((), tuple(sorted(known)), (), is_foreign=True)
    missing, unknown = known.keys() - applied.keys(), applied.keys() - known.keys()
    return SchemaStatus(tuple(sorted(applied)), tuple(sorted(missing)), tuple(sorted(unknown)))


async def apply_missing(url: str) -> list[Migration]:
    """Apply what is missing, each migration in one transaction; returns what was applied now."""
    async with await connect(url, "holdfast migrate") as connection:
        applied = []
        for migration in migrations():
            async with connection.transaction():
                await _take_turn(connection)
                found = await status(connection)
                if found.is_foreign:
                    raise foreign_schema()
                if migration.number in found.applied:
                    continue
                for statement in MAKE_RECORDS:
                    await connection.execute(statement.encode())
                await connection.execute(migration.text.encode(), prepare=False)
                await connection.execute(
                    "insert into holdfast.migrations (number, name) values (%s, %s)",
                    (migration.number, migration.name),
                )
            applied.append(migration)
        return applied


async def admit_operators(url: str) -> bool:
    """Let operators use the functions for people, if they cannot yet: a restore leaves privileges out, and an
    administrator may have made their role since. False: there is no such role, and this login may not make it.

    A login that does not own the schema changes nothing.
    """
    async with await connect(url, "holdfast migrate") as connection, connection.transaction():
        await _take_turn(connection)
        found = await connection.execute(
            "select pg_has_role(p.proowner, 'usage') and (p.proacl is null or not exists (select from pg_roles r"
            " where r.rolname = 'holdfast_operator' and has_function_privilege(r.oid, p.oid, 'execute'))) as lacks"
            " from pg_proc p where p.oid = to_regprocedure('holdfast.answer(bigint)')"
        )
        if not any(row["lacks"] for row in by_name(await answer_of(found))):
            return True
        (row,) = by_name(await answer_of(await connection.execute("select holdfast.admit_operators() as is_there")))
        return bool(row["is_there"])


async def _take_turn(connection: Connection) -> None:
    """Behind others that migrate, however long they take. The lock ends with the transaction: a kill leaves nothing.

    Tables that a session keeps locked are waited for as long as every lock is: all others would queue up behind us.
    """
    await connection.execute("set local lock_timeout = 0")
    await connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
    await connection.execute(f"set local lock_timeout = '{LOCK_SECONDS:g}s'".encode())


async def ensure_schema(url: str, *, migrate: bool) -> None:
    """Refuse a database that cannot be used, or whose schema does not fit; with `migrate`, make what it lacks."""
    async with await connect(url) as connection:
        await refuse_shared_sessions(connection, url)
        if connection.info.server_version < OLDEST_SERVER:
            raise SchemaMismatch(
                f"The database is Postgres {connection.info.server_version // 10_000}; Holdfast needs 15 or newer.",
                remedy="Use a newer server, or leave HOLDFAST_DATABASE_URL unset for the embedded one.",
            )
        found = await status(connection)
    if found.is_foreign:
        raise foreign_schema()
    if found.unknown:
        raise SchemaMismatch(
            f"The database has migrations that this version does not know: {list(found.unknown)}.",
            remedy="Install the version of Holdfast that made them, or a newer one.",
        )
    if not found.missing:
        return
    if migrate:
        await apply_missing(url)
    elif not found.applied:
        raise SchemaMismatch(
            f"There is no schema {SCHEMA} in this database: Holdfast has not been set up in it.",
            remedy=Remedy("Make it with", "migrate"),
        )
    else:
        raise SchemaMismatch(
            f"The database lacks migrations {list(found.missing)}.",
            remedy=Remedy("Apply them with", "migrate"),
        )


async def tables(url: str) -> list[TableSize]:
    """Every table of the schema with its rows and its size."""
    async with await connect(url) as connection:
        cursor = await connection.execute(
            "select c.relname, pg_total_relation_size(c.oid) as bytes from pg_class c join pg_namespace n"
            " on n.oid = c.relnamespace where n.nspname = 'holdfast' and c.relkind = 'r' order by c.relname"
        )
        sizes = []
        for table in by_name(await answer_of(cursor)):
            name = sql.Identifier(SCHEMA, table["relname"])
            counting = await connection.execute(sql.SQL("select count(*) as rows from {}").format(name))
            (count,) = by_name(await answer_of(counting))
            sizes.append(TableSize(table["relname"], count["rows"], table["bytes"]))
        return sizes


async def rebuild(url: str, *, confirm: str, while_jobs_are_open: bool = True) -> None:
    """Drop everything and migrate again; the caller confirms with the database's own name."""
    async with await connect(url) as connection:
        (row,) = by_name(await answer_of(await connection.execute("select current_database() as name")))
        name = row["name"]
        if confirm != name:
            raise Refused(
                f"A rebuild deletes every job in the database {name}.",
                remedy=Remedy("If that is what you want, confirm with", "bootstrap", flags=("rebuild", name)),
            )
        if (await status(connection)).is_foreign:
            raise foreign_schema()
        async with connection.transaction():
            await _take_turn(connection)
            if not while_jobs_are_open:
                await _refuse_open_jobs(connection, name)
            await connection.execute("drop schema if exists holdfast cascade")
    await apply_missing(url)


async def _refuse_open_jobs(connection: Connection, name: str) -> None:
    """Until the transaction ends, no job is made."""
    (there,) = by_name(await answer_of(await connection.execute("select to_regclass('holdfast.jobs') as jobs")))
    if there["jobs"] is None:
        return
    await connection.execute("lock table holdfast.jobs in share row exclusive mode")
    counted = await connection.execute("select count(*) as jobs from holdfast.jobs where finished_at is null")
    (row,) = by_name(await answer_of(counted))
    if row["jobs"]:
        raise Refused(
            f"The database {name} was not rebuilt: {row['jobs']:,} of its jobs are open.",
            remedy="Cancel them, or wait until they have ended.",
            instance=name,
        )
