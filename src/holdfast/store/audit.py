"""Lines of the audit: writing them with the changes that they are about, and reading them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from holdfast.core.signals import REQUEST_ID
from holdfast.store.audit_rows import NOWHERE, AuditFilter, AuditRow, Origin
from holdfast.store.columns import by_name, records
from holdfast.store.connection import Connection, answer_of
from holdfast.store.queries import query
from holdfast.store.reader_pool import READING
from holdfast.store.session import PostgresSession

ROLE = "audit"
LATEST = 2**63 - 1
MOST_ITEMS = 20
"""Of how many items a line names each."""
_DATA = frozenset({"verb", "output", "params"})
"""What a verb brings that no line has: its name, and data of the job."""


class Change(NamedTuple):
    """What was changed: before None: it was not there; after None: it is gone."""

    action: str
    tenant: str
    instance: str | None = None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


async def write_change(
    connection: Connection, change: Change, actor: str, origin: Origin = NOWHERE, reason: str | None = None
) -> int:
    """Write a line on the connection of the change: in its transaction, if one is open. Returns the line's id."""
    parameters = {
        "tenant": change.tenant,
        "action": change.action,
        "instance": change.instance,
        "before": _json(change.before),
        "after": _json(change.after),
        "reason": reason,
        **origin.signed(actor),
    }
    (row,) = by_name(await answer_of(await connection.execute(query("write_audit"), parameters)))
    return int(row["audit_id"])


async def extend_change(connection: Connection, audit_id: int, after: Mapping[str, Any]) -> None:
    """Add the outcome of a change to its line."""
    await connection.execute(query("extend_audit"), {"audit_id": audit_id, "after": _json(after)})


def audit_of_verb(kind: str, data: Mapping[str, Any] | None) -> dict[str, str]:
    """What a line says of a signal to a job: the verb, and its arguments without data of the job."""
    given = dict(data or {})
    asked = {name: value for name, value in given.items() if name not in _DATA and value}
    items = asked.get("items", ())
    if len(items) > MOST_ITEMS:
        asked["items"] = len(items)
    return {"action": f"job.{given.get('verb', kind)}", "asked": _json(asked) or "{}"}


def signal_data(data: Mapping[str, Any] | None, origin: Origin) -> str | None:
    """The data of a person's signal, with the request that sends it."""
    if origin.request_id is None:
        return _json(data)
    return _json({**(data or {}), REQUEST_ID: origin.request_id})


def _json(value: Mapping[str, Any] | None) -> str | None:
    return orjson.dumps(value).decode() if value is not None else None


class PostgresAudit:
    """Keeps the promises of `operations.audit_ports.AuditStore`."""

    def __init__(self, store: PostgresSession) -> None:
        self._store = store

    async def read(self, wanted: AuditFilter, before: int | None, limit: int) -> list[AuditRow]:
        parameters = {**wanted._asdict(), "before": before if before is not None else LATEST, "limit": limit}
        statement = query("read_audit" if wanted.tenant is not None else "read_audit_of_all")
        async with self._store.connections.use(READING) as connection:
            return records(AuditRow, await answer_of(await connection.execute(statement, parameters)))

    async def write(
        self,
        action: str,
        tenant: str,
        actor: str,
        origin: Origin,
        *,
        instance: str | None = None,
        after: Mapping[str, Any],
        reason: str = "",
    ) -> None:
        async with self._store.connections.use(ROLE) as connection:
            await write_change(connection, Change(action, tenant, instance, after=after), actor, origin, reason)
