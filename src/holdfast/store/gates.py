"""Breakers and limits as people see and change them. Claims enforce them, elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from holdfast import failpoint
from holdfast.core.breaking import Breaker, BreakerState
from holdfast.define.gates import breaker_key
from holdfast.define.notify import NotifyEvent
from holdfast.define.source import did_you_mean
from holdfast.errors import NotFound, Refused
from holdfast.remedies import Remedy
from holdfast.store.audit import Change, write_change
from holdfast.store.audit_rows import INSTALLATION, NOWHERE, Origin
from holdfast.store.breakers import ROLE, changing
from holdfast.store.columns import by_name, records
from holdfast.store.connection import Answer, Connection, answer_of
from holdfast.store.queries import query
from holdfast.store.read_rows import DECLARED, BreakerView, LimitView
from holdfast.store.reader import HASH_SETTINGS, ask_with
from holdfast.store.session import PostgresSession

SHOWN_NAMES = 10
_MOVES = {BreakerState.OPEN: NotifyEvent.BREAKER_OPENED, BreakerState.CLOSED: NotifyEvent.BREAKER_CLOSED}


class PostgresGates:
    """Keeps the promises of `operations.gate_ports.GateStore`."""

    def __init__(self, store: PostgresSession, origin: Origin = NOWHERE) -> None:
        self._store = store
        self._origin = origin

    async def breakers(self, tenant: str) -> list[BreakerView]:
        return records(BreakerView, await self._ask("read_breakers", tenant=tenant))

    async def change_breaker(
        self, tenant: str, name: str, verb: str, change: Callable[[Breaker, float], None], actor: str, reason: str
    ) -> BreakerView:
        """Change a breaker under its lock, leave a line that says who and why, and wake the workers."""

        before: dict[str, Any] = {}

        def apply(breaker: Breaker, now: float) -> bool:
            before.update(state=str(breaker.state), held=breaker.held)
            change(breaker, now)
            return True

        key = breaker_key(tenant, name)
        async with changing(self._store.connections, [key], apply, actor) as (connection, changed):
            if not changed:
                raise await self._no_such_breaker(tenant, name)
            await failpoint.hit("breaker.changed")
            after = {"state": str(changed[0].state), "held": changed[0].held}
            line = Change(f"breaker.{verb}", tenant, name, before, after)
            await write_change(connection, line, actor, self._origin, reason)
            event = _MOVES.get(changed[0].state)
            if event is not None and after["state"] != before["state"]:
                noted = {"tenant": tenant, "name": name, "event": str(event), "reason": changed[0].reason}
                await connection.execute(query("note_breaker"), noted)
            seen = await connection.execute(query("read_breakers"), {"tenant": tenant})
            views = records(BreakerView, await answer_of(seen))
        await self._store.notify_workers()
        return next(view for view in views if view.name == name)

    async def limits(self, tenant: str | None = None) -> list[LimitView]:
        async with self._store.connections.use(ROLE) as connection:
            return records(LimitView, await ask_with(connection, HASH_SETTINGS, "read_limits", {"tenant": tenant}))

    async def set_limit(
        self,
        tenant: str,
        name: str,
        actor: str,
        *,
        concurrency: int | None = None,
        rate: float | None = None,
        burst: int | None = None,
        backlog: int | None = None,
    ) -> LimitView:
        """Set a limit; values that are None stay. A limit that workflows declare must exist already."""
        if name.startswith(DECLARED):
            await self._limit(tenant, name)
        values = {"concurrency": concurrency, "rate": rate, "burst": burst, "backlog": backlog}
        await self._change("limit.set", tenant, name, "set_limit", actor, **values)
        await self._store.notify_workers()
        return await self._limit(tenant, name)

    async def drop_limit(self, tenant: str, name: str, actor: str) -> LimitView:
        """Remove the limit that a person has set; if a workflow declares it, the workflow decides again."""
        found = await self._limit(tenant, name)
        if found.is_declared and found.actor is None:
            raise Refused(
                f"Limit {name} is declared by a workflow, and no person has changed it.",
                remedy=Remedy("Set it with", "limits", flags=("set", name, "--concurrency", "N")),
                instance=name,
            )
        if found.paused_at is not None and not found.allows_less:
            raise Refused(
                f"{name} has no limit: the queue is paused.",
                remedy=Remedy("Let its tasks begin with", "unpause", flags=("--queue", name.partition(":")[2])),
                instance=name,
            )
        drop = "drop_limit" if found.paused_at is None else "drop_limit_of_paused_queue"
        await self._change("limit.drop", tenant, name, "give_limit_back" if found.is_declared else drop, actor)
        await self._store.notify_workers()
        return found

    async def pause_queue(self, queue: str, actor: str, reason: str) -> LimitView | None:
        """Let no task of the queue begin from now on; None if it is paused already."""
        name = f"queue:{queue}"
        if not await self._change("queue.pause", "", name, "pause_queue", actor, reason=reason or None):
            return None
        return await self._limit("", name)

    async def unpause_queue(self, queue: str, actor: str) -> LimitView | None:
        """Let the tasks of the queue begin again, as its limit allows; returns it as it was, None if not paused."""
        name = f"queue:{queue}"
        found = next((one for one in await self.limits() if (one.tenant, one.name) == ("", name)), None)
        if not await self._change("queue.unpause", "", name, "unpause_queue", actor):
            return None
        await self._store.notify_workers()
        return found

    async def _limit(self, tenant: str, name: str) -> LimitView:
        known = await self.limits()
        for one in known:
            if (one.tenant, one.name) == (tenant, name):
                return one
        names = [one.name for one in known if one.tenant == tenant]
        of = f" of tenant {tenant}" if tenant else ""
        remedy = _remedy(name, names, "There are none.")
        raise NotFound(f"There is no limit '{name}'{of}.", remedy=remedy, instance=name)

    async def _no_such_breaker(self, tenant: str, name: str) -> NotFound:
        async with self._store.connections.use("reading") as connection:
            found = await connection.execute(query("read_breakers"), {"tenant": tenant})
            known = [breaker.name for breaker in records(BreakerView, await answer_of(found))]
        remedy = _remedy(name, known, "No job of a workflow with breakers has begun here.")
        return NotFound(f"There is no breaker '{name}'.", remedy=remedy, instance=name)

    async def _change(self, action: str, tenant: str, name: str, statement: str, actor: str, **parameters: Any) -> bool:
        """Change a limit, with a line that says how it was and how it is. False: the statement has changed nothing."""
        key = {"tenant": tenant, "name": name}
        async with self._store.connections.use(ROLE) as connection, connection.transaction():
            before = await _values(connection, key)
            cursor = await connection.execute(query(statement), {**key, "actor": actor, **parameters})
            if cursor.rowcount == 0:
                return False
            line = Change(action, tenant or INSTALLATION, name, before, await _values(connection, key))
            await write_change(connection, line, actor, self._origin, parameters.get("reason"))
        return True

    async def _ask(self, statement: str, /, **parameters: Any) -> Answer:
        async with self._store.connections.use(ROLE) as connection:
            return await answer_of(await connection.execute(query(statement), parameters))


async def _values(connection: Connection, key: dict[str, str]) -> dict[str, Any] | None:
    """What a limit allows, locked until the commit; None if there is none."""
    found = by_name(await answer_of(await connection.execute(query("limit_values"), key)))
    return orjson.loads(found[0]["values"]) if found else None


def _remedy(name: str, known: list[str], otherwise: str) -> str:
    if not known:
        return otherwise
    shown = f"Known: {', '.join(known[:SHOWN_NAMES])}{', …' if len(known) > SHOWN_NAMES else ''}."
    return " ".join(part for part in (did_you_mean(name, known), shown) if part)
