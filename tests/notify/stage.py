"""Events in the outbox of a test's database, and a process that sends them, step by step."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from holdfast.notify.deciding import DISABLE_SECONDS
from holdfast.notify.http_sender import HttpSender
from holdfast.notify.service import Channel, Notifier
from holdfast.operations.job_facts import job_facts
from holdfast.outgoing import Outgoing
from holdfast.store.postgres import PostgresStore

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
FORMER = "whsec_" + base64.b64encode(b"f" * 32).decode()
HERE = Outgoing(["127.0.0.0/8"])


class Stage:
    """One database. Events are written here as owners write them."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.job_id = str(uuid.uuid4())
        self._seq = 0

    def notifier(
        self,
        *,
        seconds: float = 5.0,
        outgoing: Outgoing = HERE,
        hooks: Mapping[str, Channel] | None = None,
        **channels: Channel,
    ) -> Notifier:
        sender = HttpSender(outgoing, "https://jobs.example.org", seconds=seconds)
        return Notifier(
            self.store.notify(),
            {"webhook": sender, "callback": sender, **channels, **(hooks or {})},
            partial(job_facts, self.store),
        )

    async def send(self, notifier: Notifier | None = None) -> None:
        """Send what is due until nothing is."""
        sending = notifier or self.notifier()
        while await sending.begin_due():
            await sending.until_sent()

    async def webhook(
        self, url: str, name: str = "hook", events: Sequence[str] = ("job_failed",), tenant: str = "default"
    ) -> None:
        await self.sql(
            "insert into webhooks (tenant, name, url, events, secret, created_by) values (%s, %s, %s, %s, %s, 'ann')",
            tenant,
            name,
            url,
            list(events),
            SECRET,
        )

    async def note(
        self,
        event: str = "job_failed",
        *,
        rules: Sequence[dict[str, Any]] = (),
        job_id: str | None = "",
        tenant: str = "default",
        data: dict[str, Any] | None = None,
        node: str | None = None,
        items: Sequence[int] = (),
    ) -> int:
        """An event, as an owner commits it; returns its number."""
        self._seq += 1
        rows = await self.sql(
            "insert into outbox (tenant, job_id, workflow_id, node, event, generation, seq, count, items, data, rules)"
            " values (%s, %s::uuid, 'maps', %s, %s, 1, %s, %s, %s::int[], %s::jsonb, %s::jsonb) returning outbox_id",
            tenant,
            self.job_id if job_id == "" else job_id,
            node,
            event,
            self._seq,
            max(len(items), 1),
            list(items),
            orjson.dumps(data or {}).decode(),
            orjson.dumps(list(rules)).decode(),
        )
        return int(rows[0][0])

    async def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        async with self.store.connections.use("test") as connection:
            cursor = await connection.execute(statement.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []

    async def all_sent(self) -> bool:
        return {status for status, *_ in await self.deliveries()} == {"sent"}

    async def deliveries(self, columns: str = "status, tries, error") -> list[tuple[Any, ...]]:
        return await self.sql(f"select {columns} from deliveries order by outbox_id, receiver")

    async def pass_time(self, seconds: float = DISABLE_SECONDS) -> None:
        """Let everything that has been noted be so much older."""
        step = f"interval '{seconds} seconds'"
        await self.sql(
            f"update deliveries set next_at = next_at - {step}, due_since = due_since - {step},"
            f" created_at = created_at - {step}"
        )
        await self.sql(
            f"update failing_destinations set failing_since = failing_since - {step}, held_until = held_until - {step}"
        )
        await self.sql(f"update mail_threads set mailed_at = mailed_at - {step}")
        await self.sql(f"update outbox set created_at = created_at - {step}")

    async def retry_now(self) -> None:
        """Let what waits for its next try be due, and no other time pass."""
        await self.sql("update deliveries set next_at = now() where status = 'waiting' and holder is null")
        await self.sql("update failing_destinations set held_until = now()")
