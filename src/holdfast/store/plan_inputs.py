"""Reads what a plan needs in one snapshot: a job, its nodes, and the tasks that a verb names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.core.advising import Advice, candidates
from holdfast.core.correcting import Corrected
from holdfast.core.planning import batches_asked, batches_planned, make_plan
from holdfast.core.plans import Plan, Refusal
from holdfast.core.signals import BatchesAsked, MatchedTask, Request, Selected
from holdfast.core.states import JobState, Rules, node_scope
from holdfast.define.program import compile_pinned
from holdfast.store.arrays import plain
from holdfast.store.columns import by_name, records
from holdfast.store.connection import Answer, Connection, Connections, answer_of
from holdfast.store.large import LargeValues
from holdfast.store.loading import job_state
from holdfast.store.payloads import Payloads
from holdfast.store.queries import query
from holdfast.store.records import JobRow, NodeRow
from holdfast.store.selecting import (
    batches_from,
    keys_from,
    matched_from,
    selected_from,
    selecting,
    selecting_batches,
)

ROLE = "plan"


class Look:
    """A job as one transaction sees it; outputs are left where they are."""

    def __init__(
        self,
        connection: Connection,
        state: JobState,
        now: float,
        large: LargeValues | None = None,
        references: Mapping[str, str] | None = None,
    ) -> None:
        self._connection = connection
        self._large = large or LargeValues(None)
        self._references = references or {}
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

    async def corrected_plan(self, after: JobState, request: Request, corrected: Corrected) -> Plan | Refusal:
        """The plan of a verb with a correction; `after` is the job as it would be."""
        selected = await self._select(request, is_corrected=True)
        plan = make_plan(after, request, selected, self.now, corrected.fresh())
        planned = batches_planned(self.state, plan) if isinstance(plan, Plan) else []
        if not planned:
            return plan
        for batches in planned:
            selected[batches.node] = await self._batches(batches)
        return make_plan(after, request, selected, self.now, corrected)

    async def read_outputs(self, nodes: Container[str]) -> None:
        """Complete the state with what these nodes gave, where that is too large for a row."""
        for name, reference in self._references.items():
            if name in nodes and name in self.state.nodes:
                node = self.state.nodes[name]
                node.output = await self._large.value(self.state.job_id, reference)
                self.state.scope["nodes"][name] = node_scope(node)

    async def own_params(self) -> dict[str, bytes | None]:
        """The params of each node's own task; None: they were refused."""
        answer = await self._fetch("own_params", {"job": self.state.job_id})
        return {row["node"]: await self._text(row["params"], row["params_ref"]) for row in by_name(answer)}

    async def item_keys(self, node: str) -> list[tuple[int, str]]:
        """The tasks of a fan-out, each with what its item is known by."""
        return keys_from(await self._fetch("item_keys", {"job": self.state.job_id, "node": node}))

    async def matched_tasks(self, node: str, items: Sequence[int]) -> dict[int, MatchedTask]:
        """These tasks of a fan-out as their rows say."""
        asked = {"job": self.state.job_id, "node": node, "items": plain(items)}
        answer = await self._fetch("matched_tasks", asked)
        return await matched_from(answer, lambda digest: self._large.text(self.state.job_id, digest))

    async def completed_outputs(self, node: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """The next outputs of a node's completed tasks, by item."""
        asked = {"job": self.state.job_id, "node": node, "after": after, "limit": limit}
        rows = by_name(await self._fetch("completed_outputs", asked))
        return [(row["item"], await self._text(row["output"], row["output_ref"]) or b"null") for row in rows]

    async def _text(self, value: str | None, reference: str | None) -> bytes | None:
        if reference is not None:
            return await self._large.text(self.state.job_id, reference)
        return value.encode() if value is not None else None

    async def _select(self, request: Request, *, is_corrected: bool = False) -> dict[str, Selected]:
        node = self.state.nodes.get(request.named or "")
        asked = selecting(self.state.job_id, request, node.enqueued if node is not None else 0)
        known = repr(asked)
        if known not in self._selected:
            self._selected[known] = selected_from(await self._fetch("select_tasks", asked))
        selected = dict(self._selected[known])
        for batches in batches_asked(self.state, request, is_corrected=is_corrected):
            selected[batches.node] = await self._batches(batches)
        return selected

    async def _batches(self, asked: BatchesAsked) -> Selected:
        return batches_from(await self._fetch("select_batches", selecting_batches(self.state.job_id, asked)))

    async def _fetch(self, statement: str, parameters: dict[str, Any]) -> Answer:
        return await answer_of(await self._connection.execute(query(statement), parameters))


@asynccontextmanager
async def looking_at(
    connections: Connections,
    job_id: str,
    payloads: Payloads | None = None,
    *,
    tenant: str | None = None,
    has_outputs: bool = False,
) -> AsyncIterator[Look | None]:
    """None: the tenant has no such job. What its nodes gave is left where it is, unless `has_outputs` asks for
    it; large outputs are read later."""
    async with connections.use(ROLE) as connection, connection.transaction():
        await connection.execute("set transaction isolation level repeatable read, read only")
        asked = {"job": job_id, "tenant": tenant}
        found = records(JobRow, await answer_of(await connection.execute(query("load_job"), asked)))
        if not found:
            yield None
            return
        (job,) = found
        pinned = await connection.execute(query("definition"), {"hash": job.definition_hash})
        (workflow,) = by_name(await answer_of(pinned))
        program = compile_pinned(job.definition_hash, workflow["definition"].encode())
        answer = await answer_of(await connection.execute(query("load_nodes"), {"jobs": plain([job_id])}))
        nodes = records(NodeRow, answer)
        if not has_outputs:
            nodes = [node._replace(output=None) for node in nodes]
        references = {row["node"]: row["output_ref"] for row in by_name(answer) if row["output_ref"] is not None}
        (clock,) = by_name(await answer_of(await connection.execute(query("clock"))))
        yield Look(connection, job_state(job, nodes, program, Rules()), clock["now"], LargeValues(payloads), references)
