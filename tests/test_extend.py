"""The public interface for apps: a separate schema, named statements, settings."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import psycopg
import pytest

import holdfast
from holdfast import Refused
from holdfast.extend.database import Schema, statements_in
from holdfast.extend.settings import home, is_set, variable

SOURCES = Path(holdfast.__file__).parent
MAY_TOUCH_THE_ENVIRONMENT = {"environment.py", "worker/confinement.py"}
"""The one that reads it, and a handler's process, which gives itself a temporary directory."""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "tides" / "sql"
    (folder / "migrations").mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "migrations" / "0001_levels.sql").write_text("create table tides.levels (at int primary key, cm int);")
    (folder / "levels.sql").write_text("-- name: add_level\n-- One.\ninsert into tides.levels values (%s, %s);\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tides", raising=False)
    monkeypatch.delitem(sys.modules, "tides.sql", raising=False)
    return "tides.sql"


def test_an_app_has_its_own_schema_and_statements(database_url: str, package: str) -> None:
    schema, statements = Schema("tides", package, lock_key=77), statements_in(package)
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert not schema.exists(connection)
        schema.ensure(connection)
        schema.ensure(connection)
        connection.execute(statements["add_level"], (1, 240))
        assert connection.execute("select cm from tides.levels").fetchall() == [(240,)]
        assert connection.execute("select number, name from tides.migrations").fetchall() == [(1, "levels")]
        connection.execute("insert into tides.migrations (number, name) values (2, 'later')")
        with pytest.raises(Refused, match="tides has migrations that this version does not know"):
            schema.ensure(connection)


def test_two_statements_of_one_name_are_refused(package: str, tmp_path: Path) -> None:
    (tmp_path / "tides" / "sql" / "more.sql").write_text("-- name: add_level\nselect 1;\n")
    with pytest.raises(ValueError, match="two statements are named add_level"):
        statements_in(package)


def test_an_empty_variable_is_the_same_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TIDES", "high")
    monkeypatch.setenv("HOLDFAST_HOME", "")
    assert (variable("TIDES"), variable("EBB"), home()) == ("high", "", Path(".holdfast"))
    assert is_set("EBB", "HOLDFAST_TIDES") and not is_set("EBB", "HOLDFAST_HOME")


def test_one_file_reads_the_environment() -> None:
    readers = {
        file.relative_to(SOURCES).as_posix()
        for file in SOURCES.rglob("*.py")
        if re.search(r"os\.environ|os\.getenv", file.read_text(encoding="utf-8"))
    }
    assert readers == MAY_TOUCH_THE_ENVIRONMENT
