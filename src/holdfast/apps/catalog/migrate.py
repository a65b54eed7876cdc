"""The schema `stac`: made and brought up to date at first use, forward only, under one lock. Never the engine's."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

import psycopg

from holdfast import Refused

_LOCK_KEY = 0x73746163  # "stac"; any number will do as long as it never changes.


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    text: str


def migrations() -> list[Migration]:
    """All migrations of this version, in order."""
    found = []
    for file in resources.files("holdfast.apps.catalog.sql").joinpath("migrations").iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda migration: migration.number)


def ensure_schema(connection: psycopg.Connection[Any]) -> None:
    """Apply what is missing; many may do so at once, and all but the first find it done."""
    if not _missing(connection):
        return
    with connection.transaction():
        # The lock ends with the transaction: a killed migration leaves nothing behind.
        connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
        for migration in _missing(connection):
            connection.execute("create schema if not exists stac")
            connection.execute(
                "create table if not exists stac.migrations (number int primary key, name text not null,"
                " applied_at timestamptz not null default now())"
            )
            connection.execute(migration.text.encode(), prepare=False)
            connection.execute(
                "insert into stac.migrations (number, name) values (%s, %s)", (migration.number, migration.name)
            )


def has_schema(connection: psycopg.Connection[Any]) -> bool:
    # Not by to_regclass: a session that has not found the schema remembers so, also after it has waited for the lock.
    wanted = "select from pg_tables where schemaname = 'stac' and tablename = 'migrations'"
    return connection.execute(wanted).fetchone() is not None


def _missing(connection: psycopg.Connection[Any]) -> list[Migration]:
    known = migrations()
    if not has_schema(connection):
        return known
    applied = {row["number"] for row in connection.execute("select number from stac.migrations").fetchall()}
    if applied - {migration.number for migration in known}:
        raise Refused(
            f"The catalog has migrations that this version does not know: {sorted(applied)}.",
            remedy="Install the version of holdfast that made them, or a newer one.",
        )
    return [migration for migration in known if migration.number not in applied]
