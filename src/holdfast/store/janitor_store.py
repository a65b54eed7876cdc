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
from holdfast.store.columns import by_name, records
from holdfast.store.connection import Answer
from holdfast.store.listener import SIGNAL
from holdfast.store.outage import unreachable
from holdfast.store.ownership import PostgresOwnership
from holdfast.store.pruning import PostgresPruning
from holdfast.store.queries import query
from holdfast.store.upkeep_rows import ActionView, CompletedJob, Fact, Finding, LeaderView, OpenJob

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
        return (await self._ask("lead", role=ROLE, me=holder, lease=lease_seconds)).row_count == 1

    async def resign(self, holder: str) -> None:
        await self._ask("resign", role=ROLE, me=holder)

    async def leader(self) -> LeaderView | None:
        leaders = records(LeaderView, await self._ask("leader", role=ROLE))
        return leaders[0] if leaders else None

    # What is wrong

    async def patrol(self, after: str, jobs: int, tasks: int) -> list[str]:
        """The next open jobs: at most `jobs` of them, or as many as have `tasks` tasks."""
        return [row["job_id"] for row in by_name(await self._ask("patrol", after=after, jobs=jobs, tasks=tasks))]

    async def completed(
        self, after: tuple[datetime, str], jobs: int, tasks: int, patience: float
    ) -> list[CompletedJob]:
        """The next jobs that completed lately: at most `jobs` of them, or as many as have `tasks` tasks."""
        since, job_id = after
        answer = await self._ask(
            "patrol_completed", since=since, after=job_id, jobs=jobs, tasks=tasks, patience=patience
        )
        return records(CompletedJob, answer)

    async def look(self, statement: str, /, jobs: Sequence[str] | None = None, **parameters: Any) -> list[Fact]:
        """What one of the looks in `sql/janitor.sql` finds."""
        if jobs is not None:
            parameters["jobs"] = plain(jobs)
        return records(Fact, await self._ask(statement, **parameters))

    async def nodes_of(self, jobs: Sequence[str]) -> list[OpenJob]:
        """Those of these jobs that are still open, with their graphs and the statuses of their nodes."""
        rows = by_name(await self._ask("nodes_of_open_jobs", jobs=plain(jobs)))
        return [
            OpenJob(row["job_id"], await self._graph(row["definition_hash"]), orjson.loads(row["statuses"]))
            for row in rows
        ]

    async def _graph(self, definition_hash: str) -> Graph:
        if definition_hash not in self._graphs:
            definition = Definition.from_json(orjson.loads(await self._store.definition(definition_hash)))
            self._graphs[definition_hash] = build_graph(definition)
        return self._graphs[definition_hash]

    # What is done

    async def tried(self, jobs: Iterable[str]) -> dict[tuple[str, str, str | None], int]:
        """How often owners had to recheck these jobs lately: by duty, job and node."""
        rows = by_name(await self._ask("rechecks_tried", jobs=plain(set(jobs))))
        return {(row["duty"], row["job_id"], row["node"]): row["rechecks"] for row in rows}

    async def recheck(self, run: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        """Make the owners of these jobs look again; returns what was sent: a job with an unread signal needs no other.

        Two who act at once come one after the other, and the second sees what the first has sent.
        """
        sent = await self._act("send_rechecks", run, findings)
        owners = {str((finding.after or {}).get("sent_to") or 0) for finding in sent}
        if owners:
            await self._ask("notify", channel=SIGNAL, payload=",".join(sorted(owners)))
        return sent

    async def alert(self, run: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        """Store what needs a person; returns what was not reported within the last hour."""
        return await self._act("write_alerts", run, findings)

    async def expire(self) -> int:
        """End leases that have run out; the lines of the log come with them."""
        return await self._store.expire()

    async def delete(self, statement: str, run: uuid.UUID, duty: str, /, **parameters: Any) -> list[Finding]:
        """Delete what a statement of `sql/janitor.sql` finds; it looks again, and writes its lines itself."""
        return records(Finding, await self._ask(statement, run=run, duty=duty, **parameters))

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
        return records(Finding, await self._ask(statement, takes_turn=True, **columns))

    async def roll_up(self) -> None:
        """Count the events that no pass has counted yet, each once: passes take turns."""
        await self._ask("roll_up", takes_turn=True)

    async def actions(self, limit: int, *, tenant: str | None = None, before: int | None = None) -> list[ActionView]:
        """What was done last, newest first: before that line, and about jobs of that tenant, if they are given."""
        return records(ActionView, await self._ask("read_janitor_actions", limit=limit, tenant=tenant, before=before))

    async def _ask(self, statement: str, /, *, takes_turn: bool = False, **parameters: Any) -> Answer:
        turn = [(query("take_turn"), {"role": ROLE})] if takes_turn else []
        try:
            answers = await self._store.connections.exchange("main", *turn, (query(statement), parameters))
        except psycopg.OperationalError as error:
            raise unreachable(self._store.connections.url, error) from None
        return answers[-1]
