"""Breakers as rows, and their changes outside of an owner's cycle: under their locks, by the rules of the core."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson

from holdfast.core.breaking import Breaker, BreakerState
from holdfast.define.gates import BreakerRules
from holdfast.store.arrays import jsons, plain, texts
from holdfast.store.breaker_lines import log_move
from holdfast.store.columns import by_name
from holdfast.store.connection import Connection, Connections, answer_of
from holdfast.store.queries import query

ROLE = "gates"


def breaker_of(row: dict[str, Any]) -> Breaker:
    """From the columns of `load_breakers`."""
    return Breaker(
        rules=rules_of(row),
        tenant=row["tenant"],
        state=BreakerState(row["state"]),
        window=[(at, failed) for at, failed in orjson.loads(row["calls"])],
        successes=row["successes"],
        changed_at=row["changed_at"],
        until=row["until"],
        held=row["held"],
        reason=row["reason"],
    )


def rules_of(row: dict[str, Any]) -> BreakerRules:
    return BreakerRules.from_json({"name": row["key"], **orjson.loads(row["settings"])})


def breaker_columns(breakers: Sequence[Breaker], actor: str | None = None) -> dict[str, str]:
    """The parameters of `write_breakers`; `actor` is the person who changed them, if one did."""
    return {
        "key": texts(breaker.key for breaker in breakers),
        "state": plain(breaker.state for breaker in breakers),
        "calls": jsons(breaker.window for breaker in breakers),
        "successes": plain(breaker.successes for breaker in breakers),
        "changed_at": plain(breaker.changed_at for breaker in breakers),
        "until": plain(breaker.until for breaker in breakers),
        "held": plain(breaker.held for breaker in breakers),
        "reason": texts(breaker.reason for breaker in breakers),
        "actor": texts([actor] * len(breakers)),
    }


@asynccontextmanager
async def changing(
    connections: Connections,
    keys: Sequence[str],
    change: Callable[[Breaker, float], bool],
    actor: str | None = None,
    *,
    leave_locked: bool = False,
) -> AsyncIterator[tuple[Connection, list[Breaker]]]:
    """Lock these breakers, apply the change and write those that it says it has changed.

    Yields the connection, before the commit, and the breakers that were changed. `actor` is the person who does it.
    With `leave_locked` it passes over breakers that another session has locked.
    """
    statement = query("load_free_breakers" if leave_locked else "load_breakers")
    async with connections.use(ROLE) as connection, connection.transaction():
        found = await connection.execute(statement, {"keys": texts(keys)})
        breakers = [breaker_of(row) for row in by_name(await answer_of(found))]
        # The time after the wait for the lock, which is not that of the beginning of the transaction.
        (row,) = by_name(await answer_of(await connection.execute(query("clock"))))
        before = {breaker.key: breaker.state for breaker in breakers}
        changed = [breaker for breaker in breakers if change(breaker, row["now"])]
        if changed:
            await connection.execute(query("write_breakers"), breaker_columns(changed, actor))
        yield connection, changed
    if actor is None:
        # A person who changes a breaker sees the answer of the command.
        for breaker in changed:
            if breaker.state is not before[breaker.key]:
                log_move(breaker)
