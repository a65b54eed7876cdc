"""Migrations only add: processes of the older version continue to work after the newer version has migrated."""

from __future__ import annotations

from typing import NamedTuple

import psycopg
import pytest

from holdfast.store import migrate as migrating
from holdfast.store.migrate import apply_missing
from holdfast.store.schema import migrations

pytestmark = pytest.mark.anyio

COLUMNS = """
select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
    a.atthasdef or a.attidentity <> ''
from pg_attribute a
join pg_class c on c.oid = a.attrelid
where c.relnamespace = 'holdfast'::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
"""
UNIQUE = """
select t.relname, c.relname, array(
    select a.attname::text from pg_attribute a where a.attrelid = t.oid and a.attnum = any(i.indkey::int2[])
    order by 1)
from pg_index i
join pg_class c on c.oid = i.indexrelid
join pg_class t on t.oid = i.indrelid
where c.relnamespace = 'holdfast'::regnamespace and i.indisunique
"""


class Column(NamedTuple):
    type: str
    is_required: bool
    has_default: bool

    @property
    def may_be_left_out(self) -> bool:
        return self.has_default or not self.is_required


class Schema(NamedTuple):
    columns: dict[tuple[str, str], Column]
    unique: dict[tuple[str, str], list[str]]

    @property
    def tables(self) -> set[str]:
        return {table for table, _ in self.columns}


def schema_of(connection: psycopg.Connection) -> Schema:
    columns = connection.execute(COLUMNS.encode()).fetchall()
    unique = connection.execute(UNIQUE.encode()).fetchall()
    return Schema({(row[0], row[1]): Column(*row[2:]) for row in columns}, {(row[0], row[1]): row[2] for row in unique})


def broken_promises(before: Schema, after: Schema) -> list[str]:
    """What no longer works for a process that knows only the schema from before."""
    wrong = [f"{table} is gone" for table in before.tables - after.tables]
    for (table, name), old in before.columns.items():
        new = after.columns.get((table, name))
        if new is None:
            wrong.append(f"{table}.{name} is gone")
            continue
        if new.type != old.type:
            wrong.append(f"{table}.{name} was {old.type} and is {new.type}")
        if new.is_required and not old.is_required:
            wrong.append(f"{table}.{name} may no longer be null")
        if old.may_be_left_out and not new.may_be_left_out:
            wrong.append(f"{table}.{name} may no longer be left out")
    added = {key: column for key, column in after.columns.items() if key not in before.columns}
    wrong += [
        f"{table}.{name} is new and may not be left out"
        for (table, name), column in added.items()
        if table in before.tables and not column.may_be_left_out
    ]
    wrong += [f"{index} on {table} is gone" for table, index in before.unique.keys() - after.unique.keys()]
    wrong += [
        f"{index} makes unique what was not: {table} {names}"
        for (table, index), names in after.unique.items()
        if table in before.tables and before.unique.get((table, index)) != names
    ]
    return wrong


async def test_every_migration_keeps_everything_that_the_version_before_it_uses(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = migrations()
    before: Schema | None = None
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for number, migration in enumerate(everything, 1):
            monkeypatch.setattr(migrating, "migrations", lambda number=number: everything[:number])
            assert await apply_missing(empty_database_url) == [migration]
            after = schema_of(connection)
            if before is not None:
                assert broken_promises(before, after) == [], f"{migration.number:04d}_{migration.name}"
            before = after


def broken_by(url: str, statement: str) -> list[str]:
    """What a migration with this statement would break. The statement is rolled back."""
    with psycopg.connect(url, options="-c search_path=holdfast") as connection:
        before = schema_of(connection)
        connection.execute(statement.encode())
        after = schema_of(connection)
        connection.rollback()
    return broken_promises(before, after)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("drop table attempts", "attempts is gone"),
        ("alter table jobs drop column body_hash", "jobs.body_hash is gone"),
        ("alter table jobs rename column reason to cause", "jobs.reason is gone"),
        ("alter table jobs rename to work", "jobs.reason is gone"),
        ("alter table jobs alter column deaths type bigint", "jobs.deaths was integer and is bigint"),
        ("alter table jobs alter column reason set not null", "jobs.reason may no longer be null"),
        ("alter table jobs alter column run drop default", "jobs.run may no longer be left out"),
        ("alter table jobs add column colour text not null", "jobs.colour is new and may not be left out"),
        ("alter table lanes drop constraint lanes_are_unique", "lanes_are_unique on lanes is gone"),
        ("create unique index hasty on jobs (workflow_id)", "hasty makes unique what was not: jobs ['workflow_id']"),
    ],
)
def test_a_migration_that_removes_something_is_noticed(database_url: str, statement: str, problem: str) -> None:
    assert problem in broken_by(database_url, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "create table colours (name text not null primary key)",
        "alter table jobs add column colour text",
        "alter table jobs add column colour text not null default 'grey'",
        "create index by_workflow on jobs (workflow_id)",
        "alter table jobs alter column identity drop not null",
    ],
)
def test_a_migration_that_only_adds_breaks_nothing(database_url: str, statement: str) -> None:
    assert broken_by(database_url, statement) == []
