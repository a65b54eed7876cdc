"""Events for those who follow them: of one job by number, of all jobs by what two snapshots see. Never writes.

It uses two connections of its own, and each only for one statement at a time: however many follow, and however slowly
they read, no other reader waits for a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from holdfast.errors import Unreachable
from holdfast.store.columns import by_name, records
from holdfast.store.connection import Answer, Connections, answer_of
from holdfast.store.queries import query
from holdfast.store.stream_rows import JobPage, Place, StreamRow

PRESENT, MISSED = "streams", "streams behind"
"""The connection that follows what happens now, and the one for those who come from before."""
ANSWER_SECONDS = 30.0
"""A connection that has gone dead is given up after this time."""


class PostgresStreams:
    """Keeps the promises of `operations.stream_ports.StreamStore`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def place(self) -> Place:
        """What is committed now."""
        (found,) = records(Place, await self._ask(PRESENT, "place"))
        return found

    async def newly_visible(
        self,
        old: str,
        new: str,
        *,
        after: tuple[str, int],
        limit: int,
        tenants: Sequence[str] | None = None,
        from_before: bool = False,
    ) -> list[StreamRow]:
        """The next events that the snapshot `new` sees and `old` does not, by job and number."""
        answer = await self._ask(
            MISSED if from_before else PRESENT,
            "newly_visible",
            old=old,
            new=new,
            running=[one for one in old.split(":")[2].split(",") if one],
            after_job=after[0],
            after_seq=after[1],
            tenants=list(tenants) if tenants is not None else None,
            limit=limit,
        )
        return records(StreamRow, answer)

    async def has_many_new(self, old: str, new: str, limit: int) -> bool:
        """Whether `new` sees more events than `limit` that `old` does not."""
        (row,) = by_name(await self._ask(MISSED, "has_many_new", old=old, new=new, limit=limit))
        return bool(row["has_many"])

    async def job_events(self, job_id: str, tenant: str | None, after: int, limit: int) -> JobPage | None:
        """The next events of a job; None if the tenant has no such job."""
        answer = await self._ask(MISSED, "stream_job", job=job_id, tenant=tenant, after=after, limit=limit)
        if not answer.rows:
            return None
        is_over, last_seq = answer.rows[0][:2]
        events = Answer([row[2:] for row in answer.rows if row[2] is not None], 0, answer.columns[2:])
        return JobPage(is_over, last_seq, records(StreamRow, events))

    async def _ask(self, role: str, statement: str, /, **parameters: Any) -> Answer:
        try:
            async with asyncio.timeout(ANSWER_SECONDS), self._connections.use(role) as connection:
                return await answer_of(await connection.execute(query(statement), parameters, prepare=True))
        except TimeoutError:
            raise Unreachable(f"The database did not answer within {ANSWER_SECONDS:g} s.") from None
