"""The schema's life: what is applied, what is missing, and the rare rebuild. Forward only, under one lock."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

from psycopg import sql

from holdfast.errors import Refused, SchemaMismatch
from holdfast.store.connection import LOCK_SECONDS, Connection, connect

SCHEMA = "holdfast"
OLDEST_SERVER = 150_000
_LOCK_KEY = 0x686F6C64  # "hold"; any number will do as long as it never changes.


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """What the database has and what this version wants."""

    applied: tuple[int, ...]
    missing: tuple[int, ...]
    unknown: tuple[int, ...]

    @property
    def is_current(self) -> bool:
        return not self.missing and not self.unknown

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "applied": list(self.applied),
            "missing": list(self.missing),
            "unknown": list(self.unknown),
            "current": self.is_current,
        }


def migrations() -> list[Migration]:
    """All migrations of this version, in order."""
    found = []
    for file in resources.files("holdfast.store.sql").joinpath("migrations").iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda m: m.number)


def ddl() -> str:
    """The whole schema as statements, for those who want to see or run them by hand."""
    parts = [f"create schema if not exists {SCHEMA};", f"set search_path = {SCHEMA};"]
    parts += [f"-- {m.number:04d} {m.name}\n{m.text.strip()}" for m in migrations()]
    return "\n\n".join(parts) + "\n"


async def status(connection: Connection) -> SchemaStatus:
    cursor = await connection.execute(
        "select to_regclass('holdfast.migrations') is not null",
    )
    row = await cursor.fetchone()
    applied: set[int] = set()
    if row and row[0]:
        cursor = await connection.execute("select number from holdfast.migrations")
        applied = {r[0] for r in await cursor.fetchall()}
    known = {m.number for m in migrations()}
    return SchemaStatus(tuple(sorted(applied)), tuple(sorted(known - applied)), tuple(sorted(applied - known)))


async def migrate(url: str) -> list[Migration]:
    """Apply what is missing, each migration in one transaction; returns what was applied now."""
    async with await connect(url, "holdfast migrate") as connection:
        applied = []
        for migration in migrations():
            async with connection.transaction():
                await _take_turn(connection)
                if migration.number in (await status(connection)).applied:
                    continue
                await connection.execute("create schema if not exists holdfast")
                await connection.execute(
                    "create table if not exists holdfast.migrations (number int primary key, name text not null,"
                    " applied_at timestamptz not null default now())"
                )
                await connection.execute(migration.text.encode(), prepare=False)
                await connection.execute(
                    "insert into holdfast.migrations (number, name) values (%s, %s)",
                    (migration.number, migration.name),
                )
            applied.append(migration)
        return applied


async def _take_turn(connection: Connection) -> None:
    """Behind others that migrate, however long they take. The lock ends with the transaction: a kill leaves nothing.

    Tables that a session keeps locked are waited for as long as every lock is: all others would queue up behind us.
    """
    await connection.execute("set local lock_timeout = 0")
    await connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
    await connection.execute(f"set local lock_timeout = '{LOCK_SECONDS:g}s'".encode())


async def deploy(url: str) -> list[Migration]:
    """Set the schema up where there is none; one that is there stays as it is."""
    async with await connect(url) as connection:
        if (await status(connection)).applied:
            return []
    return await migrate(url)


async def ensure_schema(url: str, *, create: bool) -> None:
    """Refuse a database whose schema or version does not fit; an empty one is set up if `create` says so."""
    async with await connect(url) as connection:
        if connection.info.server_version < OLDEST_SERVER:
            raise SchemaMismatch(
                f"The database is Postgres {connection.info.server_version // 10_000}; holdfast needs 15 or newer.",
                remedy="Use a newer server, or leave HOLDFAST_DATABASE_URL unset for the embedded one.",
            )
        found = await status(connection)
    if found.unknown:
        raise SchemaMismatch(
            f"The database has migrations that this version does not know: {list(found.unknown)}.",
            remedy="Install the version of holdfast that made them, or a newer one.",
        )
    if found.missing and (create or not found.applied):
        await migrate(url)
    elif found.missing:
        raise SchemaMismatch(
            f"The database lacks migrations {list(found.missing)}.",
            remedy="Apply them with: holdfast migrate",
        )


async def tables(url: str) -> list[dict[str, Any]]:
    """Every table of the schema with its rows and its size."""
    async with await connect(url) as connection:
        cursor = await connection.execute(
            "select c.relname, pg_total_relation_size(c.oid) from pg_class c join pg_namespace n"
            " on n.oid = c.relnamespace where n.nspname = 'holdfast' and c.relkind = 'r' order by c.relname"
        )
        answer = []
        for name, size in await cursor.fetchall():
            counted = await connection.execute(sql.SQL("select count(*) from {}").format(sql.Identifier(SCHEMA, name)))
            row = await counted.fetchone()
            answer.append({"table": name, "rows": row[0] if row else 0, "bytes": size})
        return answer


async def rebuild(url: str, *, confirm: str) -> None:
    """Drop everything and start anew; only for who writes the database's own name as confirmation."""
    async with await connect(url) as connection:
        row = await (await connection.execute("select current_database()")).fetchone()
        name = row[0] if row else ""
        if confirm != name:
            raise Refused(
                f"A rebuild deletes every job in the database {name}.",
                remedy=f"If that is what you want, confirm with the database's name: {name}",
            )
        async with connection.transaction():
            await _take_turn(connection)
            await connection.execute("drop schema if exists holdfast cascade")
    await migrate(url)
