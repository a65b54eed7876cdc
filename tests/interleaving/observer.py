"""Observes a database from outside: empties it, reads every commit, sees lock waits, ends connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from holdfast.store.migrate import apply_missing

SEARCH_PATH = "backstage, pg_catalog, holdfast"
RECORDED = ("jobs", "nodes", "tasks", "queue", "inbox", "events", "outbox", "answers")


class Change(NamedTuple):
    """A row that a transaction wrote, before and after the write."""

    table: str
    old: dict[str, Any] | None
    new: dict[str, Any] | None


def prepare(url: str) -> None:
    """Give an empty database our schema, a clock that tests can set, and a log of all writes."""
    asyncio.run(apply_missing(url))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((Path(__file__).parent / "observer.sql").read_bytes())
    # All databases share roles, but not advisory locks. This lock must be in one common database.
    with psycopg.connect(url, dbname="postgres", autocommit=True) as connection:
        _make_logins_cheap(connection)


def _make_logins_cheap(connection: psycopg.Connection) -> None:
    """Reduce the cost of password checks: tests replace many connections, and half of that cost is the check."""
    info = connection.info
    alter = sql.SQL("alter role {} password {}").format(sql.Identifier(info.user), sql.Literal(info.password))
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(7301989)")
        connection.execute("set local scram_iterations = 1")
        connection.execute(alter)


class Observer:
    """A connection of its own to the database. It acts while all processes wait at their gates."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = psycopg.connect(url, autocommit=True, options="-c timezone=UTC")

    def close(self) -> None:
        self._connection.close()

    def empty(self) -> None:
        """Delete all rows, and restart all sequences."""
        tables = self._connection.execute(
            "select schemaname, tablename from pg_tables"
            " where schemaname in ('holdfast', 'backstage') and tablename <> 'migrations'"
        ).fetchall()
        names = sql.SQL(", ").join(sql.Identifier(*table) for table in tables)
        self._connection.execute(sql.SQL("truncate {} restart identity").format(names))

    def commits(self) -> list[list[Change]]:
        """The changes that were committed since the last call, by transaction.

        If there are several transactions, one has waited for the other, and has written its last row after it.
        """
        rows = self._connection.execute(
            "with read as (delete from backstage.log returning *)"
            " select xid, table_name, old, new from"
            " (select *, max(seq) over (partition by xid) as last from read) numbered order by last, seq"
        ).fetchall()
        return [[Change(*row[1:]) for row in group] for _, group in groupby(rows, key=lambda row: row[0])]

    def rows(self) -> list[Change]:
        """All rows, as if they had just been written."""
        return [
            Change(table, None, row[0])
            for table in RECORDED
            for row in self._connection.execute(
                sql.SQL("select to_jsonb(t) from holdfast.{} t order by t").format(sql.Identifier(table))
            )
        ]

    def waits(self, pids: Sequence[int]) -> dict[int, list[int]]:
        """Which of these connections wait for a lock, and which connections block each of them."""
        rows = self._connection.execute(
            "select pid, pg_blocking_pids(pid) from unnest(%s::int[]) pid where cardinality(pg_blocking_pids(pid)) > 0",
            (list(pids),),
        )
        return dict(rows.fetchall())

    def lapse(self, orchestrators: Sequence[int], workers: Sequence[int]) -> None:
        """End their leases, as if these processes had slept for a long time and no other process had run."""
        for table, ids in (("orchestrator", orchestrators), ("worker", workers)):
            statement = sql.SQL("update holdfast.{} set lease_until = to_timestamp(0) where {} = any(%s)")
            names = sql.Identifier(f"{table}s"), sql.Identifier(f"{table}_id")
            self._connection.execute(statement.format(*names), (list(ids),))

    def end(self, pids: Iterable[int]) -> None:
        """End connections, like a killed process or a broken network. On return their locks are released."""
        ended = list(pids)
        self._connection.execute("select pg_terminate_backend(pid) from unnest(%s::int[]) pid", (ended,))
        # pg_terminate_backend could wait itself, but it looks only ten times a second.
        alive = "select 1 from unnest(%s::int[]) pid, pg_stat_get_activity(pid)"
        while ended and self._connection.execute(alive, (ended,)).fetchone():
            pass
