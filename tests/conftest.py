"""One real Postgres for all test processes, and an empty database for every test that needs one."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from psycopg import sql

from holdfast import masking
from holdfast.embedded.server import use_embedded
from holdfast.store.migrate import apply_missing
from holdfast.store.postgres import PostgresStore
from tests import sources, stores

Answer = TypeVar("Answer")

_TEMPLATE_LOCK = 7_301_988

# Most tables are empty, and to look is twice as fast as to delete nothing.
_DELETE_ROWS = """
do $$
declare
    name text;
    has_rows bool;
begin
    for name in select tablename from pg_tables where schemaname = 'holdfast'
        and tablename not in ('migrations', 'installation_secrets') order by tablename = 'workflows'
    loop
        execute format('select exists (select from holdfast.%I)', name) into has_rows;
        if has_rows then
            execute format('delete from holdfast.%I', name);
        end if;
    end loop;
end $$
"""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many cases the tests made that generate them, and what they did not test."""
    skipped = {report.longrepr[2] for report in terminalreporter.getreports("skipped") if len(report.longrepr) == 3}
    for reason in sorted(one for one in skipped if "NOT TESTED" in one):
        terminalreporter.write_line(reason.removeprefix("Skipped: "), yellow=True, bold=True)
    properties = [one for report in terminalreporter.getreports("passed") for one in report.user_properties]
    number = sum(int(str(value)) for name, value in properties if name == "generated")
    if number:
        terminalreporter.write_line(f"{number:,} requests were generated from the routes of the application")


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test has masked is forgotten after it: the beginning of a secret may be any letter."""
    for name in ("_secrets", "_of_tasks", "_in_json", "_pattern", "_task_pattern"):
        monkeypatch.setattr(masking, name, getattr(masking, name))


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("HOLDFAST_"):
            monkeypatch.delenv(name)
    # A service that a test starts serves HTTP if the test says so: its libraries take a second to import.
    monkeypatch.setenv("HOLDFAST_API", "0")


@pytest.fixture(params=[sources.DATABASE, sources.HTTP])
def each_source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The test runs with a worker at the database, and with one over HTTP."""
    monkeypatch.setattr(sources, "kind", request.param)
    kind: str = request.param
    return kind


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An embedded server. Parallel test processes share it, and the last of them stops it."""
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "shared-postgres"
    with use_embedded(home) as url:
        hurry(url)
        yield url


def hurry(url: str) -> None:
    """Write no full pages to the WAL: test data need not survive a power cut.

    Other settings that would help are on the server's command line, which cannot be overridden.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("alter system set full_page_writes = off")
        connection.execute("select pg_reload_conf()")


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], stores.Bucket]]:
    """Object stores by kind; each is started at its first use."""
    with ExitStack() as running:

        @cache
        def start(kind: str) -> stores.Bucket:
            return running.enter_context(stores.started(kind, tmp_path_factory.mktemp(kind)))

        yield start


@pytest.fixture(scope="session")
def template_database(server_url: str) -> str:
    """A database with the current schema, which tests clone. The first test process creates it."""
    name = "holdfast_template"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(%s)", (_TEMPLATE_LOCK,))
        known = connection.execute("select 1 from pg_database where datname = %s", (name,)).fetchone()
        if known is None:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
            asyncio.run(_migrate(with_database(server_url, name)))
        connection.execute("select pg_advisory_unlock(%s)", (_TEMPLATE_LOCK,))
    return name


async def _migrate(url: str) -> None:
    await apply_missing(url)


@pytest.fixture(scope="session")
def free_databases() -> list[str]:
    """Databases of this process for reuse: emptying one is faster than creating one."""
    return []


@pytest.fixture
def database_url(server_url: str, template_database: str, free_databases: list[str]) -> Iterator[str]:
    """A database for this test alone, with the schema and without rows."""
    if free_databases:
        name = free_databases.pop()
    else:
        name = f"test_{uuid.uuid4().hex[:16]}"
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute("select pg_advisory_lock(%s)", (_TEMPLATE_LOCK,))
            connection.execute(
                sql.SQL("create database {} template {}").format(
                    sql.Identifier(name), sql.Identifier(template_database)
                )
            )
    url = with_database(server_url, name)
    yield url
    with psycopg.connect(url, autocommit=True) as connection:
        _empty(connection)
    free_databases.append(name)


def _empty(connection: psycopg.Connection) -> None:
    """End all other connections, delete every row that no migration has made, and drop the schemas of apps."""
    connection.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    connection.execute("drop schema if exists stac cascade")
    connection.execute(_DELETE_ROWS)


@pytest.fixture
def empty_database_url(server_url: str) -> Iterator[str]:
    """A database without our schema."""
    name = f"empty_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        yield with_database(server_url, name)
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    opened = PostgresStore(database_url)
    yield opened
    await opened.close()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def with_database(url: str, name: str) -> str:
    return url.rsplit("/", 1)[0] + "/" + name


async def eventually(look: Callable[[], Awaitable[Answer | None]], seconds: float = 60.0) -> Answer:
    """Call `look` until its answer is true, and return the answer; fails after the deadline."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        answer = await look()
        if answer:
            return answer
        assert loop.time() < until, f"{look} did not become true within {seconds} s"
        await asyncio.sleep(0.01)


def examples() -> Path:
    return Path(__file__).parent.parent / "examples"
