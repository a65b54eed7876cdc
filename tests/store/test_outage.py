"""A database that refuses statements: processes wait if waiting can help."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from holdfast.embedded.cluster import place_of_data
from holdfast.errors import Unreachable
from holdfast.store.connection import SYNC, Connections, Statement
from holdfast.store.listener import Listener
from holdfast.store.outage import CURED_BY_WAITING, error_of, is_cured_by_waiting, unreachable, words_for
from tests.chaos.fleet import Server
from tests.conftest import eventually
from tests.running import SHORT_LEASES, client_of, registry, serving

pytestmark = pytest.mark.anyio

WORK = "workflow_id: work\nnodes: {a: {handler: work, next: b}, b: {handler: echo}}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for this module alone, because the tests break it."""
    with Server(tmp_path_factory.mktemp("outage") / "home", durable=False) as started:
        yield started


def read_only(server: Server, value: str) -> None:
    with server.connect() as connection:
        connection.execute(f"alter system set default_transaction_read_only = {value}".encode())
        connection.execute("select pg_reload_conf()")


async def test_processes_wait_for_a_read_only_database_and_the_job_completes(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    url, go = server.new_database(), asyncio.Event()
    async with client_of(url) as engine, serving(url, registry(work=go.wait), **SHORT_LEASES) as services:
        job_id = await engine.submit(WORK)

        async def all_are_waiting() -> bool:
            return all(
                f"{name}: The database at" in caplog.text for name in ("orchestrator_retreats", "worker_retreats")
            )

        try:
            read_only(server, "on")
            go.set()
            await eventually(all_are_waiting)
        finally:
            read_only(server, "off")
        assert (await engine.finished(job_id))["status"] == "completed"
        assert not [task for task in (*services._orchestrating, services._working) if task is None or task.done()]
    assert "takes no writes" in caplog.text


async def test_a_listener_outlives_a_database_that_refuses_listen(server: Server) -> None:
    """A standby refuses LISTEN before its promotion."""
    url, was_called = server.new_database(), asyncio.Event()
    listener = Listener(url, {"in no way; a channel": lambda _: was_called.set()})
    await listener.start()
    await asyncio.wait_for(was_called.wait(), 10)
    assert listener._task is not None and not listener._task.done()
    await listener.stop()


async def test_a_backend_that_panics_within_an_exchange_is_a_lost_connection(server: Server) -> None:
    """The backend cannot write its log at the commit, after it has answered all statements. It sends PANIC and ends."""
    connections = Connections(server.new_database(), "line")
    log = place_of_data(server.home) / "pg_wal"
    hidden = log.with_name("pg_wal.hidden")
    one: Statement = (b"select 1", {})
    fill: Statement = (b"insert into filled values (1)", {})
    await connections.exchange("x", (b"create table filled (x int)", {}), SYNC, one, fill)
    await connections.exchange("x", (b"select pg_switch_wal()", {}))
    try:
        log.rename(hidden)
        with pytest.raises(psycopg.OperationalError):
            await connections.exchange("x", one, fill, SYNC, one, SYNC, one)
    finally:
        hidden.rename(log)
        await asyncio.to_thread(server.restart_at_once)
    assert (await connections.exchange("x", one))[0].rows == [(1,)]
    await connections.close()


@pytest.mark.parametrize("sqlstate", ["25006", "57P03", "57P01", "57P02", "53300", "53100", "53200", "08006", "58030"])
async def test_an_error_that_waiting_cures_is_an_operational_error_that_says_what_is_wrong(
    sqlstate: str,
) -> None:
    error = error_of(sqlstate, "ERROR", "no")
    assert isinstance(error, psycopg.OperationalError)
    assert is_cured_by_waiting(error)
    problem = unreachable("postgresql://u:secret@host/db", error)
    assert type(problem) is Unreachable
    assert str(problem) == f"The database at host:5432/db {words_for(sqlstate)}: no"


@pytest.mark.parametrize("sqlstate", ["42501", "42P01", "23505", "22012", "XX000"])
async def test_an_error_that_waiting_does_not_cure_stays_what_it_is(sqlstate: str) -> None:
    error = error_of(sqlstate, "ERROR", "no")
    assert type(error) is psycopg.errors.lookup(sqlstate)
    assert not is_cured_by_waiting(error)


async def test_postgres_knows_every_code_of_the_table() -> None:
    for code in CURED_BY_WAITING:
        assert len(code) == 2 or psycopg.errors.lookup(code)


async def test_a_person_who_writes_to_a_read_only_database_gets_an_error_that_says_so(server: Server) -> None:
    connections = Connections(server.new_database(), "person")

    async def write() -> None:
        async with connections.use("x") as connection:
            await connection.execute("set default_transaction_read_only = on")
            await connection.execute("create table nothing ()")

    with pytest.raises(Unreachable, match="takes no writes"):
        await write()
    await connections.close()
