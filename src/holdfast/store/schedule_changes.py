"""Changing a schedule in a transaction that its caller has opened."""

from __future__ import annotations

from typing import Any

import orjson

from holdfast.store.audit import Change, write_change
from holdfast.store.audit_rows import Origin
from holdfast.store.columns import by_name, records
from holdfast.store.connection import Connection, answer_of
from holdfast.store.queries import query
from holdfast.store.schedule_rows import Decide, ScheduleRow

ROLE = "schedules"


async def change_schedule(
    connection: Connection,
    tenant: str,
    name: str,
    action: str,
    decide: Decide,
    actor: str,
    origin: Origin,
    reason: str = "",
) -> ScheduleRow | None:
    """Change a schedule in the transaction of a connection, with the line of the audit."""
    key = {"tenant": tenant, "name": name}
    await connection.execute(query("take_schedules_turn"), {"tenant": tenant})
    await connection.execute(query("lock_schedule"), key)
    counted = by_name(await answer_of(await connection.execute(query("count_schedules"), {"tenant": tenant})))
    before = await _read(connection, key)
    after = decide(before, counted[0]["number"], counted[0]["now"])
    if after is before:
        return before
    if after is None:
        await connection.execute(query("delete_schedule"), key)
    else:
        parameters = {
            **after._asdict(),
            "waiting": list(after.waiting),
            "inputs": orjson.dumps(after.inputs).decode(),
            "changed_by": actor,
        }
        await connection.execute(query("write_schedule"), parameters)
    line = Change(action, tenant, name, _shown(before), _shown(after))
    await write_change(connection, line, actor, origin, reason or None)
    return await _read(connection, key)


async def _read(connection: Connection, key: dict[str, str]) -> ScheduleRow | None:
    found = records(ScheduleRow, await answer_of(await connection.execute(query("read_schedule"), key)))
    return found[0] if found else None


def _shown(row: ScheduleRow | None) -> dict[str, Any] | None:
    """What a line of the audit says of a schedule. Inputs are data of jobs."""
    if row is None:
        return None
    names = ("workflow_id", "cron", "every_seconds", "time_zone", "overlap", "catch_up", "source")
    return {**{name: getattr(row, name) for name in names}, "paused": row.paused_at is not None}
