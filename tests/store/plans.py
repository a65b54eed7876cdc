"""Explains how Postgres runs a statement of ours: prepared once, as in the services, and rolled back afterwards."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from holdfast.store.connection import SESSION_SETTINGS
from holdfast.store.queries import query

HOT_TABLES = ("tasks", "queue", "inbox", "events")


@contextmanager
def own_database(server_url: str, template_database: str) -> Iterator[str]:
    """A database whose hot tables are never vacuumed automatically; it is dropped afterwards."""
    name = f"plans_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute(f"create database {name} template {template_database}".encode())
        url = server_url.rsplit("/", 1)[0] + "/" + name
        with psycopg.connect(url, autocommit=True) as connection:
            for table in HOT_TABLES:
                connection.execute(f"alter table holdfast.{table} set (autovacuum_enabled = false)".encode())
        yield url
        admin.execute(f"drop database {name} with (force)".encode())


@contextmanager
def planner(url: str) -> Iterator[Planner]:
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        for setting, value in SESSION_SETTINGS.items():
            connection.execute("select set_config(%s, %s, false)", (setting, value))
        yield Planner(connection)


class Planner:
    """A connection with the settings of our services, on which every statement is prepared once."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self._prepared: dict[str, list[str]] = {}

    def plan_of(self, name: str, parameters: dict[str, Any], options: str = "") -> str:
        """The plan with which the statement runs now. Its changes are rolled back."""
        values = [parameters.get(parameter) for parameter in self._parameters(name)]
        placeholders = f"({', '.join(['%s'] * len(values))})" if values else ""
        with self.connection.transaction(force_rollback=True):
            cursor = psycopg.ClientCursor(self.connection)
            explain = f"explain (analyze, timing off, summary off{options}) execute {name}{placeholders}"
            cursor.execute(explain.encode(), values)
            return "\n".join(row[0] for row in cursor.fetchall())

    def pages_of(self, name: str, parameters: dict[str, Any]) -> int:
        """How many pages the statement reads, from memory or from disk; planning does not count."""
        plan = self.plan_of(name, parameters, ", buffers")
        match = re.search(r"Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?", plan)
        assert match is not None, plan
        return sum(int(number) for number in match.groups() if number)

    def _parameters(self, name: str) -> list[str]:
        if name not in self._prepared:
            numbers: dict[str, int] = {}

            def number(parameter: re.Match[str]) -> str:
                return f"${numbers.setdefault(parameter.group(1), len(numbers) + 1)}"

            statement = re.sub(r"%\((\w+)\)s", number, query(name).decode()).replace("%%", "%")
            result = self.connection.pgconn.prepare(name.encode(), statement.encode())
            assert result.status == psycopg.pq.ExecStatus.COMMAND_OK, result.error_message.decode()
            self._prepared[name] = list(numbers)
        return self._prepared[name]
