"""Events that have receivers, and their deliveries, in Postgres."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import orjson
import psycopg

from holdfast import failpoint
from holdfast.store.arrays import plain
from holdfast.store.columns import by_name
from holdfast.store.connection import SYNC, Answer, Statement
from holdfast.store.notify_rows import ClaimedDelivery, Mark, NotedEvent
from holdfast.store.outage import unreachable
from holdfast.store.queries import query
from holdfast.store.session import PostgresSession

ROLE = "notify"
ACTOR = "holdfast"
MOST_EVENTS = 500
"""How many events one statement gives their receivers."""
MOST_FORGOTTEN = 5_000


class PostgresNotify:
    """Keeps the promises of `notify.ports.NotifyStore`."""

    def __init__(self, store: PostgresSession) -> None:
        self._store = store

    async def claim(
        self, holder: str, ways: Sequence[str], most: int, *, at_once: int, lease_seconds: float, mail_seconds: float
    ) -> tuple[int, list[ClaimedDelivery]]:
        """Three transactions in one round trip: a process that dies between two leaves what the next one continues."""
        taken = {"me": holder, "ways": plain(ways), "most": most, "at_once": at_once, "lease": lease_seconds}
        expanded, _, claimed = await self._exchange(
            (query("expand_outbox"), {"most": MOST_EVENTS}),
            SYNC,
            (query("gather_mails"), {"seconds": mail_seconds}),
            SYNC,
            (query("claim_deliveries"), taken),
        )
        rows = by_name(claimed)
        await failpoint.hit("delivery.claimed")
        return expanded.row_count, await self._with_events(rows) if rows else []

    async def _with_events(self, rows: Sequence[dict[str, Any]]) -> list[ClaimedDelivery]:
        events: defaultdict[str, list[NotedEvent]] = defaultdict(list)
        for row in by_name(await self._ask("delivered_events", deliveries=plain(row["delivery_id"] for row in rows))):
            delivery_id = row.pop("delivery_id")
            read = {name: orjson.loads(row.pop(name) or "null") for name in ("items", "data")}
            events[delivery_id].append(NotedEvent(**row, items=tuple(read["items"] or ()), data=read["data"]))
        return [
            ClaimedDelivery(
                **{**row, "mail_domains": tuple(orjson.loads(row["mail_domains"] or "[]"))},
                events=tuple(events[row["delivery_id"]]),
            )
            for row in rows
        ]

    async def mark(self, delivery: ClaimedDelivery, holder: str, mark: Mark) -> float | None:
        answer = await self._ask(
            "mark_delivery",
            delivery_id=delivery.delivery_id,
            me=holder,
            tries=delivery.tries,
            status=mark.status,
            pause=mark.pause_seconds,
            held=mark.held_seconds,
            answer=mark.answer,
            error=mark.error,
        )
        return next((float(row["failing_seconds"]) for row in by_name(answer)), None)

    async def callback_secret(self, tenant: str, made: str) -> str:
        (row,) = by_name(await self._ask("make_callback_secret", tenant=tenant, secret=made))
        return str(row["secret"])

    async def disable_webhook(self, tenant: str, name: str, reason: str) -> bool:
        signed = {"actor": ACTOR, "key_prefix": None, "address": None, "request_id": None}
        return bool(by_name(await self._ask("disable_webhook", tenant=tenant, name=name, reason=reason, **signed)))

    async def forget(self, kept_seconds: float, unsent_seconds: float) -> None:
        await self._ask("end_unsent", seconds=unsent_seconds)
        await self._ask("forget_hooks", seconds=unsent_seconds)
        for statement in ("forget_deliveries", "forget_events"):
            while (await self._ask(statement, seconds=kept_seconds, most=MOST_FORGOTTEN)).row_count == MOST_FORGOTTEN:
                pass

    async def _ask(self, statement: str, /, **parameters: Any) -> Answer:
        return (await self._exchange((query(statement), parameters)))[0]

    async def _exchange(self, *statements: Statement | None) -> list[Answer]:
        try:
            return await self._store.connections.exchange(ROLE, *statements)
        except psycopg.OperationalError as error:
            raise unreachable(self._store.url, error) from None
