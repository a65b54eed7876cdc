"""Whether a database can be used at all: sessions that are ours alone, and room to write. Asked before work begins."""

from __future__ import annotations

import psycopg

from holdfast.errors import Unreachable
from holdfast.store.columns import by_name
from holdfast.store.connection import Connection, answer_of, connect
from holdfast.store.outage import is_cured_by_waiting, unreachable

LOOKS = 3


async def refuse_shared_sessions(connection: Connection, url: str) -> None:
    """Unreachable if a pooler lends our session to others between two transactions.

    Settings, prepared statements and LISTEN belong to a session: with another one for every transaction none of them
    would hold.
    """
    if await _are_shared(connection, url):
        raise Unreachable(
            "The database is behind a pooler that gives every transaction another session, as pgbouncer does with"
            " pool_mode = transaction or statement.",
            remedy="Give Holdfast a pool with pool_mode = session, or a URL that leads to Postgres itself.",
        )


async def _are_shared(connection: Connection, url: str) -> bool:
    # Without a pooler the session is the one that was opened.
    mine = {await _session(connection)}
    if mine == {connection.info.backend_pid}:
        return False
    try:
        async with await connect(url) as another:
            await another.execute("begin", prepare=False)
            theirs = await _session(another)
            mine |= {await _session(connection) for _ in range(LOOKS) if theirs not in mine}
            await another.execute("rollback", prepare=False)
    except psycopg.errors.ProtocolViolation:
        # In statement mode there are no transactions at all.
        return True
    return theirs in mine or len(mine) > 1


async def _session(connection: Connection) -> int:
    (row,) = by_name(await answer_of(await connection.execute("select pg_backend_pid() as pid", prepare=False)))
    return int(row["pid"])


async def try_to_write(connection: Connection, url: str) -> None:
    """Unreachable, with the reason, if nothing can be written. Nothing of it stays; who may not write is not asked."""
    fill = "create temporary table holdfast_probe as select repeat('x', 1000) as x from generate_series(1, 1000)"
    try:
        async with connection.transaction(force_rollback=True):
            await connection.execute(fill.encode(), prepare=False)
    except psycopg.errors.InsufficientPrivilege:
        return
    except psycopg.Error as error:
        if not is_cured_by_waiting(error):
            raise
        raise unreachable(url, error) from None
