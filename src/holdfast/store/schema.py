"""The schema as this version wants it: its migrations, and how a database differs from it. Talks to no database."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from holdfast.errors import SchemaMismatch
from holdfast.sql_files import Migration, migrations_in

SCHEMA = "holdfast"
MAKE_RECORDS = (
    f"create schema if not exists {SCHEMA}",
    f"create table if not exists {SCHEMA}.migrations (number int primary key, name text not null,"
    " applied_at timestamptz not null default now())",
)
"""Where it is recorded which migrations were applied."""


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """What the database has and what this version wants."""

    applied: tuple[int, ...]
    missing: tuple[int, ...]
    unknown: tuple[int, ...]
    is_foreign: bool = False
    """Whether there is a schema of our name that somebody else has made."""

    @property
    def is_current(self) -> bool:
        return not self.missing and not self.unknown and not self.is_foreign


class TableSize(NamedTuple):
    """How much a table of the schema has."""

    table: str
    rows: int
    bytes: int


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations of this version, in order."""
    return tuple(migrations_in("holdfast.store.sql"))


def ddl() -> str:
    """The whole schema as statements, for those who want to see or run them by hand.

    They are one transaction and record the migrations, so that `migrate` finds what was applied by hand.
    """
    parts = ["begin;", *(f"{statement};" for statement in MAKE_RECORDS), f"set local search_path = {SCHEMA};"]
    for migration in migrations():
        record = f"insert into migrations (number, name) values ({migration.number}, '{migration.name}');"
        parts.append(f"-- {migration.number:04d} {migration.name}\n{migration.text.strip()}\n\n{record}")
    return "\n\n".join([*parts, "commit;"]) + "\n"


def foreign_schema() -> SchemaMismatch:
    return SchemaMismatch(
        f"The schema {SCHEMA} in this database belongs to another application. Nothing was changed.",
        remedy="Give Holdfast a database in which no schema of that name exists.",
    )
