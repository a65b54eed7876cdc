"""The store of the janitor: its findings, its signals, the lease of its leader, and its log."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import orjson
import psycopg

from holdfast.define.definition import Definition
from holdfast.define.graph import Graph, build_graph
from holdfast.store.arrays import jsons, plain, texts
from holdfast.store.connection import Rows
from holdfast.store.listener import SIGNAL
from holdfast.store.outage import unreachable
from holdfast.store.ownership import PostgresOwnership
from holdfast.store.pruning import PostgresPruning
from holdfast.store.queries import query
from holdfast.store.upkeep_rows import ActionView, Fact, Finding, LeaderView

ROLE = "janitor"


class PostgresJanitorStore:
    """Keeps the promises of `janitor.ports.JanitorStore`."""

    def __init__(self, store: PostgresOwnership) -> None:
        self._store = store
        self.pruning = PostgresPruning(store)
        self._graphs: dict[str, Graph] = {}

    # Who leads

    async def lead(self, holder: str, lease_seconds: float) -> bool:
        """Take or keep the lead; False while another process has it."""
        return bool(await self._fetch("lead", role=ROLE, me=holder, lease=lease_seconds))

    async def resign(self, holder: str) -> None:
        await self._fetch("resign", role=ROLE, me=holder)

    async def leader(self) -> LeaderView | None:
        rows = await self._fetch("leader", role=ROLE)
        return LeaderView._make(rows[0]) if rows else None

    # What is wrong

    async def patrol(self, after: str, jobs: int, tasks: int) -> list[str]:
        """The next open jobs: at most `jobs` of them, or as many as have `tasks` tasks."""
        return [row[0] for row in await self._fetch("patrol", after=after, jobs=jobs, tasks=tasks)]

    async def completed(
        self, after: tuple[datetime, str], jobs: int, tasks: int, patience: float
    ) -> list[tuple[str, datetime]]:
        """The next jobs that completed lately, at most `jobs` or as many as have `tasks` tasks, each with its end."""
        since, job_id = after
        rows = await self._fetch(
            "patrol_completed", since=since, after=job_id, jobs=jobs, tasks=tasks, patience=patience
        )
        return [(row[0], row[1]) for row in rows]

    async def look(self, statement: str, /, jobs: Sequence[str] | None = None, **parameters: Any) -> list[Fact]:
        """What one of the looks in `sql/janitor.sql` finds."""
        if jobs is not None:
            parameters["jobs"] = plain(jobs)
        rows = await self._fetch(statement, **parameters)
        return [Fact(row[0], row[1], row[2], orjson.loads(row[3])) for row in rows]

    async def nodes_of(self, jobs: Sequence[str]) -> list[tuple[str, Graph, dict[str, str]]]:
        """The graph of each of these jobs that is still open, and the status of each node."""
        rows = await self._fetch("nodes_of_open_jobs", jobs=plain(jobs))
        return [(row[0], await self._graph(row[1]), orjson.loads(row[2])) for row in rows]

    async def _graph(self, definition_hash: str) -> Graph:
        if definition_hash not in self._graphs:
            definition = Definition.from_json(orjson.loads(await self._store.definition(definition_hash)))
            self._graphs[definition_hash] = build_graph(definition)
        return self._graphs[definition_hash]

    # What is done

    async def tried(self, jobs: Iterable[str]) -> dict[tuple[str, str, str | None], int]:
        """How often owners had to recheck these jobs lately: by duty, job and node."""
        rows = await self._fetch("rechecks_tried", jobs=plain(set(jobs)))
        return {(row[0], row[1], row[2]): row[3] for row in rows}

    async def recheck(self, run: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        """Make the owners of these jobs look again; returns what was sent: a job with an unread signal needs no other.

        Two who act at once come one after the other, and the second sees what the first has sent.
        """
        sent = await self._act("send_rechecks", run, findings)
        owners = {str((finding.after or {}).get("sent_to") or 0) for finding in sent}
        if owners:
            await self._fetch("notify", channel=SIGNAL, payload=",".join(sorted(owners)))
        return sent

    async def alert(self, run: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        """Store what needs a person; returns what was not reported within the last hour."""
        return await self._act("write_alerts", run, findings)

    async def expire(self) -> int:
        """End leases that have run out; the lines of the log come with them."""
        return await self._store.expire()

    async def delete(self, statement: str, run: uuid.UUID, duty: str, /, **parameters: Any) -> list[Finding]:
        """Delete what a statement of `sql/janitor.sql` finds; it looks again, and writes its lines itself."""
        return _findings(await self._fetch(statement, run=run, duty=duty, **parameters))

    async def _act(self, statement: str, run: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        if not findings:
            return []
        columns = {
            "run": run,
            "duty": texts(f.duty for f in findings),
            "reason": texts(f.reason for f in findings),
            "job_id": plain(f.job_id for f in findings),
            "node": texts(f.node for f in findings),
            "item": plain(f.item for f in findings),
            "before": jsons(f.before for f in findings),
        }
        return _findings(await self._fetch(statement, takes_turn=True, **columns))

    async def actions(self, limit: int) -> list[ActionView]:
        """What was done last, newest first."""
        rows = await self._fetch("read_janitor_actions", limit=limit)
        return [ActionView._make((*row[:7], _parsed(row[7]), _parsed(row[8]), row[9])) for row in rows]

    async def _fetch(self, statement: str, /, *, takes_turn: bool = False, **parameters: Any) -> Rows:
        turn = [(query("take_turn"), {"role": ROLE})] if takes_turn else []
        try:
            answers = await self._store.connections.exchange("main", *turn, (query(statement), parameters))
        except psycopg.OperationalError as error:
            raise unreachable(self._store.connections.url, error) from None
        return answers[-1].rows


def _findings(rows: Rows) -> list[Finding]:
    return [Finding._make((*row[:6], _parsed(row[6]), _parsed(row[7]))) for row in rows]


def _parsed(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)
