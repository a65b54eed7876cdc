"""Breakers and limits as people see and change them. How they hold tasks back is the claim's business."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.core.breaking import Breaker
from holdfast.define.source import did_you_mean
from holdfast.errors import NotFound
from holdfast.store.arrays import jsons, plain, texts
from holdfast.store.cycle import breaker_of
from holdfast.store.postgres import PostgresStore
from holdfast.store.queries import query

ROLE = "gates"
SHOWN_NAMES = 10


class BreakerView(NamedTuple):
    """A breaker at one moment. `calls` and `failed` are of its window; `waiting` and `running` the tasks behind it."""

    name: str
    state: str
    held: bool
    since: datetime
    until: datetime | None
    has_probe: bool
    calls: int
    failed: int
    window_calls: int
    successes: int
    waiting: int
    running: int
    reason: str | None
    actor: str | None


class Gates:
    """A person's part of what holds tasks back."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def breakers(self) -> list[BreakerView]:
        return [BreakerView._make(row) for row in await self._fetch("read_breakers")]

    async def change_breaker(self, name: str, change: Callable[[Breaker, float], None], actor: str) -> BreakerView:
        """Change a breaker under its lock, leave a line that says who and why, and wake the workers."""
        async with self._store.connections.use(ROLE) as connection, connection.transaction():
            rows = await (await connection.execute(query("load_breakers"), {"names": texts([name])})).fetchall()
            if not rows:
                raise await self._no_such_breaker(name)
            (now,) = (await (await connection.execute(query("clock"))).fetchall())[0]
            breaker = breaker_of(rows[0])
            change(breaker, now)
            await connection.execute(query("write_breakers"), _columns(breaker, actor))
            rows = await (await connection.execute(query("read_breakers"))).fetchall()
        await self._store.notify_workers()
        return next(BreakerView._make(row) for row in rows if row[0] == name)

    async def _no_such_breaker(self, name: str) -> NotFound:
        async with self._store.connections.use("reading") as connection:
            known = [row[0] for row in await (await connection.execute(query("read_breakers"))).fetchall()]
        shown = f"Known: {', '.join(known[:SHOWN_NAMES])}{', …' if len(known) > SHOWN_NAMES else ''}."
        nothing = "No job of a workflow with breakers has begun here."
        remedy = " ".join(part for part in (did_you_mean(name, known), shown if known else nothing) if part)
        return NotFound(f"There is no breaker '{name}'.", remedy=remedy, instance=name)

    async def _fetch(self, statement: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
        async with self._store.connections.use(ROLE) as connection:
            return await (await connection.execute(query(statement), parameters)).fetchall()


def _columns(breaker: Breaker, actor: str) -> dict[str, str]:
    return {
        "name": texts([breaker.name]),
        "state": plain([breaker.state]),
        "calls": jsons([breaker.window]),
        "successes": plain([breaker.successes]),
        "changed_at": plain([breaker.changed_at]),
        "until": plain([breaker.until]),
        "held": plain([breaker.held]),
        "reason": texts([breaker.reason]),
        "actor": texts([actor]),
    }
