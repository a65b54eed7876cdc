"""The schema `stac` is created at its first use."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from holdfast import Refused
from holdfast.apps.catalog.postgres import SCHEMA, PostgresCatalog
from tests.apps.catalog.conftest import collection


def test_eight_clients_at_once_create_one_schema(empty_database_url: str) -> None:
    begin = threading.Barrier(8)

    def first_use(number: int) -> str:
        begin.wait()
        return PostgresCatalog(empty_database_url).ensure_collection(collection(f"c{number}"))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(first_use, range(8))) == ["created"] * 8
    with psycopg.connect(empty_database_url) as connection:
        applied = connection.execute("select number from stac.migrations order by number").fetchall()
    assert [number for (number,) in applied] == [migration.number for migration in SCHEMA.migrations()]
    assert len(PostgresCatalog(empty_database_url).summaries()) == 8


def test_a_schema_of_a_newer_version_is_refused(catalog: PostgresCatalog, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into stac.migrations (number, name) values (9999, 'later')")
    with pytest.raises(Refused, match="9999"):
        catalog.summaries()


def test_the_numbers_of_migrations_have_no_gaps() -> None:
    assert [migration.number for migration in SCHEMA.migrations()] == list(range(1, len(SCHEMA.migrations()) + 1))
