"""The schema of an app in the engine's database. It is created or migrated at its first use, under a lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import Refused
from holdfast.sql_files import Migration, migrations_in, statements_in

if TYPE_CHECKING:
    import psycopg

__all__ = ["Migration", "Schema", "statements_in"]


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one app. Migrations only go forward; processes of other versions may be running meanwhile."""

    name: str
    package: str
    """The package with the files `migrations/NNNN_name.sql`."""
    lock_key: int
    """A number that no other app uses and that never changes."""

    def migrations(self) -> list[Migration]:
        """All migrations of this version, in order."""
        return migrations_in(self.package)

    def ensure(self, connection: psycopg.Connection[Any]) -> None:
        """Apply the missing migrations. Several processes may call it at once: only the first applies them."""
        if not self._missing(connection):
            return
        with connection.transaction():
            # The lock ends with the transaction: a killed migration leaves nothing behind.
            connection.execute("select pg_advisory_xact_lock(%s)", (self.lock_key,))
            for migration in self._missing(connection):
                connection.execute(f"create schema if not exists {self.name}".encode())
                connection.execute(
                    f"create table if not exists {self.name}.migrations (number int primary key, name text not null,"
                    " applied_at timestamptz not null default now())".encode()
                )
                connection.execute(migration.text.encode(), prepare=False)
                connection.execute(
                    f"insert into {self.name}.migrations (number, name) values (%s, %s)".encode(),
                    (migration.number, migration.name),
                )

    def exists(self, connection: psycopg.Connection[Any]) -> bool:
        # Not to_regclass: a connection caches that the schema is missing, even after it has waited for the lock.
        statement = "select from pg_tables where schemaname = %s and tablename = 'migrations'"
        return connection.execute(statement, (self.name,)).fetchone() is not None

    def _missing(self, connection: psycopg.Connection[Any]) -> list[Migration]:
        known = self.migrations()
        if not self.exists(connection):
            return known
        numbers = f"select array_agg(number) as numbers from {self.name}.migrations".encode()
        row: Any = connection.execute(numbers).fetchone()
        applied = set((row["numbers"] if isinstance(row, dict) else row[0]) or ())
        if applied - {migration.number for migration in known}:
            raise Refused(
                f"The schema {self.name} has migrations that this version does not know: {sorted(applied)}.",
                remedy="Install the version that applied them, or a newer one.",
            )
        return [migration for migration in known if migration.number not in applied]
