"""Connections to Postgres: statements of any size in one exchange, errors, and lost connections."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator

import psycopg
import pytest

from holdfast.store.connection import SYNC, Connections, Statement, connect
from tests.chaos.proxy import Proxy, port_of
from tests.conftest import eventually
from tests.store.test_postgres import kill_connections

pytestmark = pytest.mark.anyio

ONE: Statement = (b"select 1", {})
LARGE = "x" * 20_000_000


@pytest.fixture
async def connections(database_url: str) -> AsyncIterator[Connections]:
    connections = Connections(database_url, "line")
    yield connections
    await connections.close()


async def test_answers_come_in_the_order_of_the_statements(connections: Connections) -> None:
    statement = b"select n from generate_series(1, %(n)s::int) n"
    answers = await connections.exchange("x", (statement, {"n": 2}), SYNC, ONE, (statement, {"n": 3}))
    assert [answer.rows for answer in answers] == [[(1,), (2,)], [(1,)], [(1,), (2,), (3,)]]
    assert [answer.row_count for answer in answers] == [2, 1, 3]


async def test_large_statements_and_large_answers_go_both_ways_at_once(connections: Connections) -> None:
    echo = (b"select %(text)s::text", {"text": LARGE})
    answers = await connections.exchange("x", echo, echo, echo)
    assert [len(answer.rows[0][0]) for answer in answers] == [len(LARGE)] * 3


async def test_after_an_error_the_connection_and_its_statements_can_be_used_again(connections: Connections) -> None:
    division = b"select 1 / %(by)s::int"
    with pytest.raises(psycopg.errors.DivisionByZero):
        await connections.exchange("x", ONE, (division, {"by": 0}), (b"select 2", {}))
    answers = await connections.exchange("x", (b"select 2", {}), (division, {"by": 1}), ONE)
    assert [answer.rows for answer in answers] == [[(2,)], [(1,)], [(1,)]]


async def test_the_first_error_is_raised_and_statements_after_a_sync_still_run(connections: Connections) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable, match="nowhere"):
        await connections.exchange(
            "x",
            (b"select * from nowhere", {}),
            (b"select * from elsewhere", {}),
            SYNC,
            (b"create temp table kept ()", {}),
        )
    assert await connections.exchange("x", (b"select from kept", {}))


async def test_an_error_of_the_commit_itself_is_raised_and_the_connection_stays_usable(
    connections: Connections,
) -> None:
    """The error comes after all answers, at the end of the implicit transaction of statements without `begin`."""
    checked = b"create temp table checked (x int unique deferrable initially deferred)"
    await connections.exchange("x", (checked, {}))
    twice: Statement = (b"insert into checked values (1), (1)", {})
    for _ in range(2):
        with pytest.raises(psycopg.errors.UniqueViolation):
            await connections.exchange("x", ONE, twice, SYNC, (b"select 2", {}))
    assert [a.rows for a in await connections.exchange("x", ONE, SYNC, (b"select 2", {}))] == [[(1,)], [(2,)]]


async def test_an_interrupted_exchange_costs_only_its_connection(connections: Connections) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await connections.exchange("x", (b"select pg_sleep(60)", {}))
    assert (await connections.exchange("x", ONE))[0].rows == [(1,)]


async def test_a_connection_that_was_lost_while_idle_is_replaced(connections: Connections, database_url: str) -> None:
    await connections.exchange("x", ONE)
    assert kill_connections(database_url, "line x") == 1
    await eventually(lambda: the_loss_was_noticed(connections), 5)
    assert (await connections.exchange("x", ONE))[0].rows == [(1,)]


async def the_loss_was_noticed(connections: Connections, role: str = "x") -> bool:
    return not connections._pipelined[role].is_usable


async def test_a_connection_that_was_lost_inside_a_transaction_raises_an_error(
    connections: Connections, database_url: str
) -> None:
    await connections.exchange("x", (b"begin", {}))
    assert kill_connections(database_url, "line x") == 1
    await eventually(lambda: the_loss_was_noticed(connections), 5)
    with pytest.raises(psycopg.OperationalError, match="inside a transaction"):
        await connections.exchange("x", (b"commit", {}))
    assert (await connections.exchange("x", ONE))[0].rows == [(1,)]


async def test_a_null_byte_in_a_parameter_is_dropped_and_the_rest_stays(connections: Connections) -> None:
    assert (await connections.exchange("x", (b"select %(a)s::text", {"a": "be\0fore"})))[0].rows == [("before",)]


async def test_a_lost_connection_does_not_disturb_the_one_that_reuses_its_socket(
    connections: Connections, database_url: str
) -> None:
    await connections.exchange("lost", ONE)
    socket = connections._pipelined["lost"]._socket
    assert kill_connections(database_url, "line lost") == 1
    await eventually(lambda: the_loss_was_noticed(connections, "lost"), 5)
    await connections.exchange("successor", ONE)
    assert connections._pipelined["successor"]._socket == socket
    await connections.exchange("lost", ONE)
    async with asyncio.timeout(5):
        assert (await connections.exchange("successor", ONE))[0].rows == [(1,)]


async def test_a_pool_that_closes_waits_for_the_end_of_a_statement(database_url: str) -> None:
    """A regression: another connection got the number of its socket, and both failed."""
    pool = Connections(database_url, "closing")
    has_begun = asyncio.Event()

    async def ask() -> object:
        async with pool.use("asking") as connection:
            has_begun.set()
            return await (await connection.execute("select pg_sleep(0.2), 1")).fetchone()

    asking = asyncio.create_task(ask())
    await has_begun.wait()
    await pool.close()
    assert asking.done() and asking.result() == ("", 1)
    assert await ask() == ("", 1), "it can be used again"
    await pool.close()


async def test_a_process_with_a_lease_does_not_wait_for_ever_on_a_dead_connection(database_url: str) -> None:
    port = port_of(database_url)
    async with Proxy(port) as proxy:
        holder = Connections(database_url.replace(f":{port}/", f":{proxy.port}/"), "line", lease_seconds=0.2)
        assert (await holder.exchange("x", ONE))[0].rows == [(1,)]
        proxy.swallow("to_client")
        with pytest.raises(psycopg.OperationalError, match="no answer within"):
            await holder.exchange("x", ONE)
        proxy.heal()
        assert (await holder.exchange("x", ONE))[0].rows == [(1,)]
        await holder.close()


async def test_an_idle_transaction_ends_with_the_lease_of_its_process(database_url: str) -> None:
    for lease_seconds, timeout in ((1.5, "1500ms"), (None, "20s")):
        connections = Connections(database_url, "line", lease_seconds)
        answers = await connections.exchange("x", (b"show idle_in_transaction_session_timeout", {}))
        assert answers[0].rows == [(timeout,)]
        await connections.close()


async def test_a_connection_whose_session_cannot_be_prepared_is_closed(database_url: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        await connect(database_url, lock_seconds=-1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    assert [str(warning.message) for warning in caught if warning.category is ResourceWarning] == []
