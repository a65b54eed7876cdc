"""Reads what a plan needs in one snapshot: a job, its nodes, and the tasks that a verb names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.core.advising import Advice, candidates
from holdfast.core.planning import batches_asked, make_plan
from holdfast.core.plans import Plan, Refusal
from holdfast.core.signals import Request, Selected
from holdfast.core.states import JobState, Rules
from holdfast.define.program import compile_pinned
from holdfast.store.arrays import plain
from holdfast.store.columns import by_name, records
from holdfast.store.connection import Answer, Connection, Connections, answer_of
from holdfast.store.loading import job_state
from holdfast.store.queries import query
from holdfast.store.records import JobRow, NodeRow
from holdfast.store.selecting import batches_from, selected_from, selecting, selecting_batches

ROLE = "plan"


class Look:
    """A job as one transaction sees it; outputs are left where they are."""

    def __init__(self, connection: Connection, state: JobState, now: float) -> None:
        self._connection = connection
        self._selected: dict[str, dict[str, Selected]] = {}
        self.state = state
        self.now = now

    async def plan(self, request: Request) -> Plan | Refusal:
        """The plan that the owner would make of the verb now."""
        return make_plan(self.state, request, await self._select(request), self.now)

    async def advice(self) -> tuple[Advice, ...]:
        """The verbs that the owner would accept now."""
        found = []
        for group in candidates(self.state):
            for request in group:
                plan = await self.plan(request)
                if isinstance(plan, Plan) and plan.refusal is None:
                    found.append(Advice(request, plan))
                    break
        return tuple(found)

    async def _select(self, request: Request) -> dict[str, Selected]:
        node = self.state.nodes.get(request.named or "")
        asked = selecting(self.state.job_id, request, node.enqueued if node is not None else 0)
        known = repr(asked)
        if known not in self._selected:
            self._selected[known] = selected_from(await self._fetch("select_tasks", asked))
        selected = dict(self._selected[known])
        for batches in batches_asked(self.state, request):
            found = await self._fetch("select_batches", selecting_batches(self.state.job_id, batches))
            selected[batches.node] = batches_from(found)
        return selected

    async def _fetch(self, statement: str, parameters: dict[str, Any]) -> Answer:
        return await answer_of(await self._connection.execute(query(statement), parameters))


@asynccontextmanager
async def looking_at(connections: Connections, job_id: str) -> AsyncIterator[Look | None]:
    """None: there is no such job."""
    async with connections.use(ROLE) as connection, connection.transaction():
        await connection.execute("set transaction isolation level repeatable read, read only")
        jobs = {"jobs": plain([job_id]), "me": None}
        found = records(JobRow, await answer_of(await connection.execute(query("load_jobs"), jobs)))
        if not found:
            yield None
            return
        (job,) = found
        pinned = await connection.execute(query("definition"), {"hash": job.definition_hash})
        (workflow,) = by_name(await answer_of(pinned))
        program = compile_pinned(job.definition_hash, workflow["definition"].encode())
        nodes = records(NodeRow, await answer_of(await connection.execute(query("load_nodes"), jobs)))
        nodes = [node._replace(output=None) for node in nodes]
        (clock,) = by_name(await answer_of(await connection.execute(query("clock"))))
        yield Look(connection, job_state(job, nodes, program, Rules()), clock["now"])
