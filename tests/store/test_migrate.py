"""Migrations: a migrated schema equals a fresh one, no migration runs twice, and nothing is dropped by accident."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from holdfast.errors import Refused, SchemaMismatch
from holdfast.sql_files import Migration
from holdfast.store import migrate as migrating
from holdfast.store.connection import connect
from holdfast.store.migrate import apply_missing, ensure_schema, rebuild, status, tables
from holdfast.store.schema import ddl, migrations

pytestmark = pytest.mark.anyio

SQL = Path(migrating.__file__).parent / "sql"
TABLES = {
    "workflows", "jobs", "nodes", "tasks", "attempts", "queue", "inbox", "events", "workers", "orchestrators",
}  # fmt: skip


def schema_of(url: str) -> dict[str, list[Any]]:
    """The whole schema in a comparable form, without the table of applied migrations."""
    queries = {
        "columns": "select table_name, ordinal_position, column_name, data_type, collation_name, is_nullable,"
        " column_default, identity_generation from information_schema.columns"
        " where table_schema = 'holdfast' and table_name <> 'migrations' order by 1, 2",
        "constraints": "select c.conrelid::regclass::text, c.conname, pg_get_constraintdef(c.oid) from pg_constraint c"
        " join pg_namespace n on n.oid = c.connamespace where n.nspname = 'holdfast'"
        " and c.conrelid::regclass::text not like '%migrations' order by 1, 2",
        "indexes": "select tablename, indexname, indexdef from pg_indexes"
        " where schemaname = 'holdfast' and tablename <> 'migrations' order by 1, 2",
        "storage": "select relname, relkind::text, reloptions from pg_class c join pg_namespace n"
        " on n.oid = c.relnamespace where n.nspname = 'holdfast' and relname not like 'migrations%' order by 1",
        "views": "select viewname, definition from pg_views where schemaname = 'holdfast' order by 1",
        "functions": "select proname, pg_get_functiondef(p.oid) from pg_proc p join pg_namespace n"
        " on n.oid = p.pronamespace where n.nspname = 'holdfast' order by 1",
        "triggers": "select tgname, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal order by 1",
    }
    with psycopg.connect(url, autocommit=True) as connection:
        return {name: connection.execute(statement.encode()).fetchall() for name, statement in queries.items()}


async def applied(url: str) -> tuple[int, ...]:
    async with await connect(url) as connection:
        return (await status(connection)).applied


async def test_a_fresh_schema_has_the_tables_of_the_contract(empty_database_url: str) -> None:
    done = await apply_missing(empty_database_url)
    assert [m.number for m in done] == [m.number for m in migrations()]
    by_name = {one.table: one for one in await tables(empty_database_url)}
    assert set(by_name) >= TABLES
    assert by_name["jobs"].rows == 0
    assert by_name["migrations"].rows == len(migrations())


async def test_migrating_twice_is_harmless(empty_database_url: str) -> None:
    await apply_missing(empty_database_url)
    before = schema_of(empty_database_url)
    assert await apply_missing(empty_database_url) == []
    assert schema_of(empty_database_url) == before


async def test_two_migrations_at_once_apply_everything_once(empty_database_url: str) -> None:
    done = await asyncio.gather(*(apply_missing(empty_database_url) for _ in range(3)))
    assert sum(len(each) for each in done) == len(migrations())
    assert await applied(empty_database_url) == tuple(m.number for m in migrations())


async def test_a_schema_migrated_step_by_step_equals_a_fresh_one(
    empty_database_url: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = migrations()
    for number in range(1, len(everything) + 1):
        monkeypatch.setattr(migrating, "migrations", lambda number=number: everything[:number])
        await apply_missing(empty_database_url)
    assert schema_of(empty_database_url) == schema_of(database_url)


async def test_the_printed_statements_make_the_same_schema(empty_database_url: str, database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(ddl().encode())
    assert schema_of(empty_database_url) == schema_of(database_url)


async def test_schema_sql_and_the_functions_are_what_the_migrations_make(
    empty_database_url: str, database_url: str
) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("create schema holdfast")
        connection.execute("set search_path = holdfast")
        for file in (SQL / "schema.sql", *sorted((SQL / "functions").iterdir())):
            connection.execute(file.read_text(encoding="utf-8").encode())
    assert schema_of(empty_database_url) == schema_of(database_url)


def test_a_function_has_a_file_of_its_own_that_one_migration_names_unless_it_only_advises_people() -> None:
    files = {path.stem: path.read_text(encoding="utf-8") for path in (SQL / "functions").iterdir()}
    written = {path: path.read_text(encoding="utf-8") for path in (SQL / "migrations").iterdir()}
    named = [name for text in written.values() for name in re.findall(r"\{\{function (\w+)\}\}", text)]
    assert set(named) == set(files)
    # No process calls it: people read what it says in the answer of `explain_job`.
    assert {name for name in named if named.count(name) > 1} <= {"calls_for"}
    for name, text in files.items():
        assert re.findall(r"^create (?:or replace )?function (\w+)", text, re.MULTILINE) == [name]
    assert not [path.name for path, text in written.items() if re.search(r"\bfunction\s+\w+\s*\(", text)]


async def test_a_migration_that_fails_leaves_nothing_behind(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Migration(9999, "broken", "create table holdfast.half (n int); select 1 / 0;")
    monkeypatch.setattr(migrating, "migrations", lambda: [*migrations(), broken])
    with pytest.raises(psycopg.errors.DivisionByZero):
        await apply_missing(empty_database_url)
    assert 9999 not in await applied(empty_database_url)
    assert "half" not in {one.table for one in await tables(empty_database_url)}


async def test_a_database_of_a_newer_version_is_refused(empty_database_url: str) -> None:
    await apply_missing(empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("insert into holdfast.migrations (number, name) values (9999, 'from the future')")
    with pytest.raises(SchemaMismatch, match=r"does not know: \[9999\]"):
        await ensure_schema(empty_database_url, migrate=True)


async def test_a_database_that_lacks_migrations_is_refused_unless_asked(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await apply_missing(empty_database_url)
    newer = Migration(9999, "newer", "create table holdfast.newer (n int)")
    monkeypatch.setattr(migrating, "migrations", lambda: [*migrations(), newer])
    with pytest.raises(SchemaMismatch, match=r"lacks migrations \[9999\]") as refusal:
        await ensure_schema(empty_database_url, migrate=False)
    assert refusal.value.remedy == "Apply them with: holdfast migrate"
    await ensure_schema(empty_database_url, migrate=True)
    assert 9999 in await applied(empty_database_url)


async def test_an_empty_database_is_set_up_if_asked(empty_database_url: str) -> None:
    async with await connect(empty_database_url) as connection:
        schema = await status(connection)
    assert not schema.is_current
    assert schema.missing == tuple(m.number for m in migrations())
    with pytest.raises(SchemaMismatch, match="no schema holdfast") as refusal:
        await ensure_schema(empty_database_url, migrate=False)
    assert refusal.value.remedy == "Make it with: holdfast migrate"
    with psycopg.connect(empty_database_url, autocommit=True) as direct:
        direct.execute("create schema holdfast")
    await ensure_schema(empty_database_url, migrate=True)
    async with await connect(empty_database_url) as connection:
        assert (await status(connection)).is_current


@pytest.mark.parametrize(
    "theirs",
    [
        "create table holdfast.parts (n int)",
        "create table holdfast.migrations (id text); create table holdfast.parts (n int)",
        "create table holdfast.migrations (number int, name text); insert into holdfast.migrations values (1, 'init')",
    ],
)
async def test_a_schema_of_our_name_that_another_application_has_made_is_left_alone(
    empty_database_url: str, theirs: str
) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("create schema holdfast")
        connection.execute(theirs.encode())
        before = await tables(empty_database_url)
        for change in (
            apply_missing(empty_database_url),
            ensure_schema(empty_database_url, migrate=True),
            rebuild(empty_database_url, confirm=empty_database_url.rsplit("/", 1)[1]),
        ):
            with pytest.raises(SchemaMismatch, match="belongs to another application"):
                await change
        assert await tables(empty_database_url) == before


async def test_a_rebuild_needs_the_name_of_the_database_as_confirmation(empty_database_url: str) -> None:
    await apply_missing(empty_database_url)
    name = empty_database_url.rsplit("/", 1)[1]
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("insert into holdfast.lanes (queue, handler) values ('q', 'h')")
        for wrong in ("", "yes", "postgres", name.upper()):
            with pytest.raises(Refused, match=f"deletes every job in the database {name}"):
                await rebuild(empty_database_url, confirm=wrong)
        assert connection.execute("select count(*) from holdfast.lanes").fetchone() == (1,)
    await rebuild(empty_database_url, confirm=name)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        assert connection.execute("select count(*) from holdfast.lanes").fetchone() == (0,)


def test_each_migration_has_a_number_of_its_own() -> None:
    numbers = [m.number for m in migrations()]
    assert numbers == sorted(set(numbers)) and numbers[0] == 1


async def test_only_our_schema_is_touched(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("create table public.jobs (mine int)")
        await apply_missing(empty_database_url)
        await rebuild(empty_database_url, confirm=empty_database_url.rsplit("/", 1)[1])
        columns = connection.execute(
            sql.SQL("select column_name from information_schema.columns where table_schema = 'public'")
        ).fetchall()
    assert columns == [("mine",)]
