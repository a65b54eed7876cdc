"""What attempts print: a worker saves it while they run, and people read it, with the logs of ended attempts."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from holdfast.store.arrays import jsons, plain, texts
from holdfast.store.connection import Connections, Statement
from holdfast.store.installation import PostgresInstallationReader
from holdfast.store.leases import Held, held_columns
from holdfast.store.outage import unreachable
from holdfast.store.output_rows import AfterAttempt, OutputPart, RunningPart, Seen
from holdfast.store.queries import query
from holdfast.store.read_rows import AttemptView
from holdfast.store.records import WorkerIdentity

ROLE = "output"
"""A connection of its own: a large output must not delay a renewal or a report."""


class PostgresOutput:
    """Keeps the promise of `worker.ports.OutputStore`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def save(self, worker: WorkerIdentity, parts: Sequence[OutputPart], ended: Sequence[Held]) -> None:
        """One round trip. Parts of a task that the worker no longer holds are not stored."""
        statements: list[Statement] = []
        if ended:
            statements.append((query("delete_output"), held_columns(ended)))
        if parts:
            columns = held_columns([part.held for part in parts]) | {
                "part": plain(part.part for part in parts),
                "started_at": plain(part.started_at for part in parts),
                "log": texts(part.log for part in parts),
                "log_times": jsons(part.log_times for part in parts),
            }
            statements.append((query("save_output"), {"me": worker.worker_id, **columns}))
        try:
            await self._connections.exchange(ROLE, *statements)
        except psycopg.OperationalError as error:
            raise unreachable(self._connections.url, error) from None


class PostgresOutputReader(PostgresInstallationReader):
    """Keeps the promises of `operations.ports.OutputReads`."""

    async def running(
        self, job_id: str, node: str | None, item: int | None, seen: Seen, limit: int
    ) -> list[RunningPart]:
        """The next parts of running attempts that the reader has not seen."""
        keys = list(seen)
        return await self._records(
            RunningPart,
            "running_output",
            job=job_id,
            node=node,
            item=item,
            limit=limit,
            seen_node=texts(key[0] for key in keys),
            seen_item=plain(key[1] for key in keys),
            seen_attempt=plain(key[2] for key in keys),
            seen_part=plain(seen[key] for key in keys),
        )

    async def ended(
        self, job_id: str, node: str | None, item: int | None, after: AfterAttempt, limit: int
    ) -> list[AttemptView]:
        """The next attempts that failed or printed something, in the order in which they ended."""
        return await self._records(
            AttemptView,
            "ended_attempts",
            job=job_id,
            node=node,
            item=item,
            limit=limit,
            after_time=after.time.isoformat() if after.time is not None else "-infinity",
            after_node=after.node,
            after_item=after.item,
            after_attempt=after.attempt,
        )
