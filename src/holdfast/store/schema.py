"""The schema as this version wants it: its migrations, and how a database differs from it. Talks to no database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.errors import SchemaMismatch
from holdfast.sql_files import Migration, migrations_in

SCHEMA = "holdfast"


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
    return migrations_in("holdfast.store.sql")


def ddl() -> str:
    """The whole schema as statements, for those who want to see or run them by hand."""
    parts = [f"create schema if not exists {SCHEMA};", f"set search_path = {SCHEMA};"]
    parts += [f"-- {m.number:04d} {m.name}\n{m.text.strip()}" for m in migrations()]
    return "\n\n".join(parts) + "\n"


def foreign_schema() -> SchemaMismatch:
    return SchemaMismatch(
        f"The schema {SCHEMA} in this database belongs to another application. Nothing was changed.",
        remedy="Give Holdfast a database in which no schema of that name exists.",
    )
