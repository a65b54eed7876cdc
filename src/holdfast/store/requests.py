"""Requests of people that have a key: the key, the signal and its owner's name for it commit together, once."""

from __future__ import annotations

from typing import Any

import psycopg

from holdfast import failpoint
from holdfast.store.audit import audit_of_verb, signal_data
from holdfast.store.audit_rows import NOWHERE, Origin
from holdfast.store.columns import by_name, records, remedy_of
from holdfast.store.outage import unreachable
from holdfast.store.queries import query
from holdfast.store.reader import PostgresReader
from holdfast.store.request_rows import Once, RequestRow, SignalRow
from holdfast.store.session import PostgresSession, signalled

ROLE = "main"


class PostgresRequests(PostgresReader):
    """Keeps the promises of `operations.request_ports.RequestStore`."""

    def __init__(self, store: PostgresSession, tenant: str) -> None:
        super().__init__(store.connections, store.payloads, tenant)

    async def send(
        self,
        job_id: str,
        once: Once,
        kind: str,
        actor: str,
        reason: str,
        data: dict[str, Any] | None,
        origin: Origin = NOWHERE,
    ) -> RequestRow | None:
        """Put a signal into the inbox of a job, unless the key was used before; None if there is no such job."""
        key: dict[str, Any] = {"job": job_id, "key": once.key, "tenant": self._tenant}
        signal = {
            "kind": kind,
            "reason": reason,
            "data": signal_data(data, origin),
            **audit_of_verb(kind, data),
            **origin.signed(actor),
        }
        try:
            _, sent, read = await self._connections.exchange(
                ROLE,
                (query("take_request"), key | {"digest": once.digest, "verb": once.verb, "tasks": once.tasks}),
                (query("send_request"), key | signal),
                (query("read_request"), key),
            )
            await failpoint.hit("request.after_commit")
            owners = [row["owner"] for row in by_name(sent)]
            if owners:
                await self._connections.exchange(ROLE, signalled(owners))
        except psycopg.OperationalError as error:
            raise unreachable(self._connections.url, error) from None
        return next(iter(records(RequestRow, read)), None)

    async def request(self, job_id: str, key: str) -> RequestRow | None:
        """The request to a job that has that key, or None."""
        return next(iter(await self._records(RequestRow, "read_request", job=job_id, key=key)), None)

    async def signal(self, job_id: str, signal_id: int) -> SignalRow | None:
        """A person's signal to a job, or None."""
        rows = await self._records(SignalRow, "read_signal", job=job_id, signal_id=signal_id)
        return rows[0]._replace(remedy=remedy_of(rows[0].remedy)) if rows else None

    async def submitter(self, job_id: str) -> str | None:
        """Who submitted a job, if it came with an identity."""
        return next((row["submitter"] for row in await self._fetch("read_submitter", job=job_id)), None)
