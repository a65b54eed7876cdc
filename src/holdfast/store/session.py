"""A store's way to Postgres: statements by name, and the wake-ups that follow a commit."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg

from holdfast import failpoint
from holdfast.errors import NotFound
from holdfast.store.columns import by_name
from holdfast.store.connection import Answer, Connections, Statement
from holdfast.store.lanes import LaneIds
from holdfast.store.listener import SIGNAL
from holdfast.store.outage import unreachable
from holdfast.store.payloads import LIMIT_BYTES, Payloads
from holdfast.store.queries import query
from holdfast.store.records import KnownDefaults


class PostgresSession:
    """What the parts of the store share. One per process; safe within one event loop."""

    def __init__(
        self,
        url: str,
        name: str = "holdfast",
        lease_seconds: float | None = None,
        payloads: Payloads | None = None,
        *,
        readers: int = 1,
    ) -> None:
        """Without `payloads` every value stays in its row, and those that do not are out of reach."""
        self.payloads = payloads
        self.connections = Connections(url, name, lease_seconds, readers=readers)
        self._lanes = LaneIds(self.connections)
        self._defaults: dict[str, KnownDefaults] = {}
        self.queues_of_tenants: dict[str, tuple[float, Sequence[str] | None]] = {}

    async def close(self) -> None:
        await self.connections.close()

    @property
    def url(self) -> str:
        """Where the database is."""
        return self.connections.url

    @property
    def payload_limit_bytes(self) -> int:
        """How large a value may be at most."""
        return self.payloads.limit_bytes if self.payloads is not None else LIMIT_BYTES

    def _draw_id(self) -> int:
        """An id that no other process has, nor had in what a failover or a restore has lost; exact in every JSON."""
        return 1 + secrets.randbelow(2**48)

    async def definition(self, definition_hash: str) -> bytes:
        """The canonical JSON of a definition that some job has pinned."""
        rows = await self._fetch("definition", hash=definition_hash)
        if not rows:
            raise NotFound(f"There is no definition {definition_hash[:12]} in the database.")
        return bytes(rows[0]["definition"].encode())

    # Wake-ups go out after the commit that they announce; polling covers a lost one.

    async def notify_orchestrators(self) -> None:
        """All of them, when it is not known whose signals these are."""
        await self._exchange("main", signalled([]))

    async def wake(self, owners: Iterable[int]) -> None:
        """The orchestrators that signals wait for, after their commit."""
        await self._exchange("main", signalled(owners))

    async def notify_workers(self) -> None:
        await failpoint.hit("notify.before")
        await self._exchange("main", (b"notify holdfast_task", {}))

    async def _fetch(self, statement: str, /, **parameters: Any) -> list[dict[str, Any]]:
        return by_name(await self._answer(statement, **parameters))

    async def _answer(self, statement: str, /, **parameters: Any) -> Answer:
        return (await self._exchange("main", (query(statement), parameters)))[0]

    async def _execute(self, statement: str, /, **parameters: Any) -> int:
        return (await self._exchange("main", (query(statement), parameters)))[0].row_count

    async def _exchange(self, role: str, *statements: Statement | None) -> list[Answer]:
        try:
            return await self.connections.exchange(role, *statements)
        except psycopg.OperationalError as error:
            raise unreachable(self.connections.url, error) from None


def signalled(owners: Iterable[int]) -> Statement:
    """Wakes those orchestrators; none named: all of them. Each that wakes for nothing costs two round trips."""
    return query("notify"), {"channel": SIGNAL, "payload": ",".join(map(str, sorted(owners)))}
