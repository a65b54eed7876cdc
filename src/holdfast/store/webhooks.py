"""Webhooks and deliveries as people see and change them, in Postgres. Processes that send use `store/notify.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from holdfast.store.audit_rows import NOWHERE, Origin
from holdfast.store.columns import by_name, records
from holdfast.store.connection import Answer, answer_of
from holdfast.store.notify_rows import DeliveryFilter, DeliveryRow, WebhookRow
from holdfast.store.queries import query
from holdfast.store.session import PostgresSession

ROLE = "webhooks"
LATEST = 2**63 - 1


class PostgresWebhooks:
    """Keeps the promises of `operations.notify_ports.NotificationStore`, for one tenant."""

    def __init__(self, store: PostgresSession, tenant: str, origin: Origin = NOWHERE) -> None:
        self._store = store
        self._tenant = tenant
        self._origin = origin

    async def webhooks(self, name: str | None = None) -> list[WebhookRow]:
        return records(WebhookRow, await self._ask("read_webhooks", name=name))

    async def keep_webhook(
        self, name: str, url: str, events: Sequence[str], secret: str, actor: str
    ) -> tuple[WebhookRow, bool]:
        answer = await self._change("keep_webhook", actor, name=name, url=url, events=list(events), secret=secret)
        (made,), (row,) = records(WebhookRow, answer), by_name(answer)
        return made, row["is_new"]

    async def drop_webhook(self, name: str, actor: str) -> WebhookRow | None:
        return next(iter(records(WebhookRow, await self._change("drop_webhook", actor, name=name))), None)

    async def enable_webhook(self, name: str, actor: str) -> WebhookRow | None:
        return next(iter(records(WebhookRow, await self._change("enable_webhook", actor, name=name))), None)

    async def rotate_webhook(self, name: str, secret: str, seconds: float, actor: str) -> WebhookRow | None:
        answer = await self._change("rotate_webhook", actor, name=name, secret=secret, seconds=seconds)
        return next(iter(records(WebhookRow, answer)), None)

    async def rotate_callback_secret(self, secret: str, seconds: float, actor: str) -> datetime | None:
        (row,) = by_name(await self._change("rotate_callback_secret", actor, secret=secret, seconds=seconds))
        until: datetime | None = row["former_secret_until"]
        return until

    async def mail_domains(self) -> tuple[str, ...]:
        return next((tuple(row["mail_domains"]) for row in by_name(await self._ask("read_mail_domains"))), ())

    async def keep_mail_domains(self, domains: Sequence[str], actor: str) -> tuple[str, ...]:
        (row,) = by_name(await self._change("keep_mail_domains", actor, domains=list(domains)))
        return tuple(row["mail_domains"])

    async def deliveries(self, wanted: DeliveryFilter, before: int | None, limit: int) -> list[DeliveryRow]:
        page = {"before": before if before is not None else LATEST, "limit": limit}
        return records(DeliveryRow, await self._ask("read_deliveries", **wanted._asdict(), **page))

    async def delivery(self, delivery_id: str) -> DeliveryRow | None:
        return next(iter(records(DeliveryRow, await self._ask("read_delivery", delivery_id=delivery_id))), None)

    async def find(self, ending: str) -> list[str]:
        return [row["delivery_id"] for row in by_name(await self._ask("find_delivery", ending=ending))]

    async def redrive(self, delivery_id: str, actor: str) -> DeliveryRow | None:
        answer = await self._change("redrive_delivery", actor, delivery_id=delivery_id)
        return next(iter(records(DeliveryRow, answer)), None)

    async def send_test(self, kind: str, target: str, data: Mapping[str, Any], actor: str) -> DeliveryRow:
        receiver = f"{kind}:{target}"
        answer = await self._change(
            "send_test",
            actor,
            kind=kind,
            receiver=receiver,
            destination=kind if kind == "email" else receiver,
            data=orjson.dumps(data).decode(),
        )
        (row,) = records(DeliveryRow, answer)
        return row

    async def _change(self, statement: str, actor: str, /, **parameters: Any) -> Answer:
        return await self._ask(statement, **parameters, **self._origin.signed(actor))

    async def _ask(self, statement: str, /, **parameters: Any) -> Answer:
        async with self._store.connections.use(ROLE) as connection:
            cursor = await connection.execute(query(statement), {"tenant": self._tenant, **parameters})
            return await answer_of(cursor)
