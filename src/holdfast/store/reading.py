"""Reads a job, its nodes and its events, for people. Never writes.

A look at a job is a few small statements in one snapshot; it never reads all tasks of a fan-out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from holdfast.core.advising import Advice
from holdfast.core.plans import RESUMABLE
from holdfast.core.states import TERMINAL, JobStatus, Status
from holdfast.define.definition import Definition, read_pinned
from holdfast.define.graph import Graph, build_graph
from holdfast.define.node import Node
from holdfast.errors import Refused
from holdfast.store.arrays import plain, texts
from holdfast.store.columns import by_name, failure_of, records
from holdfast.store.connection import Answer, Connections, answer_of
from holdfast.store.data import PostgresDataReader
from holdfast.store.delivering import Locations, scope_of
from holdfast.store.fleet import UnservedTasks, WorkerView
from holdfast.store.listing import PostgresJobLists, no_such_job
from holdfast.store.locks import HELD_SECONDS, LockHolder
from holdfast.store.payloads import value_or_name
from holdfast.store.plan_inputs import Look, looking_at
from holdfast.store.queries import query
from holdfast.store.read_rows import (
    AttemptView,
    Corrected,
    DecidedByHand,
    Deliverable,
    EventView,
    Hold,
    JobDiagnosis,
    JobView,
    NodeView,
    Pin,
    QueuedTasks,
    QueueView,
    Snapshot,
    Stages,
)

PAGE_SIZE = 1000
KEPT_DEFINITIONS = 500
_definitions: WeakKeyDictionary[Connections, dict[str, tuple[Definition, Graph]]] = WeakKeyDictionary()
"""The definitions of each database by their hash: they never change."""


class PostgresReadStore(PostgresJobLists, PostgresDataReader):
    """Keeps the promises of `operations.ports.ReadStore`."""

    async def snapshot(self, job_id: str, *, whole: bool = True) -> Snapshot:
        """The job as it is now; without `whole` its inputs and its result are left out."""
        snapshot = await self._snapshot(await self._look_at(job_id, whole=whole))
        return await self._with_advice(snapshot) if whole else snapshot

    async def advice(self, job_id: str) -> tuple[Advice, ...]:
        """Which verbs would continue a job that has ended, the best first."""
        async with looking_at(self._connections, job_id, tenant=self._tenant) as look:
            return await look.advice() if look is not None else ()

    @asynccontextmanager
    async def planning(self, job_id: str) -> AsyncIterator[Look]:
        """A look at the job that can plan verbs for as long as it is open."""
        async with looking_at(self._connections, job_id, tenant=self._tenant) as look:
            if look is None:
                raise no_such_job(job_id)
            yield look

    @asynccontextmanager
    async def correcting(self, job_id: str) -> AsyncIterator[Look]:
        """The same for a job that a person corrects, with what its nodes gave."""
        reading = looking_at(self._connections, job_id, self._payloads, tenant=self._tenant, has_outputs=True)
        async with reading as look:
            if look is None:
                raise no_such_job(job_id)
            yield look

    async def _with_advice(self, snapshot: Snapshot) -> Snapshot:
        is_in_doubt = snapshot.job.status == JobStatus.COMPLETED and snapshot.job.error is not None
        if snapshot.unreadable is not None or (snapshot.job.status not in RESUMABLE and not is_in_doubt):
            return snapshot
        return snapshot._replace(advice=await self.advice(snapshot.job.job_id))

    async def stages(self, job_ids: Sequence[str]) -> dict[str, Stages]:
        """The first stage that failed, and those that completed, of each job whose definition can be read."""
        stages: dict[str, Stages] = {}
        for row in await self._fetch("node_statuses", jobs=plain(job_ids)):
            try:
                _, graph = await self._readable(row["definition_hash"])
            except Refused:
                continue
            stages[row["job_id"]] = _stages(graph, orjson.loads(row["statuses"]))
        return stages

    async def diagnosis(self, job_id: str) -> JobDiagnosis:
        """The job as it is now, with everything that may keep it from continuing."""
        looks = ("why_job", "why_windows", "why_queue", "live_workers", "why_locks", "why_errors")
        answers = await self._look_at(job_id, *looks, whole=False)
        (job,) = by_name(answers["why_job"])
        return JobDiagnosis(
            snapshot=await self._with_advice(await self._snapshot(answers)),
            **job,
            enqueued={row["node"]: row["enqueued"] for row in by_name(answers["why_windows"])},
            queued=records(QueuedTasks, answers["why_queue"]),
            workers=records(WorkerView, answers["live_workers"]),
            locks=records(LockHolder, answers["why_locks"]),
            errors={row["node"]: failure_of(row["error"]) for row in by_name(answers["why_errors"])},
        )

    async def _look_at(self, job_id: str, *more: str, whole: bool) -> dict[str, Answer]:
        """The answers of the statements about a job, and of more statements, all of one moment."""
        statements = (
            "read_job",
            "read_nodes",
            "read_queue",
            "unserved_nodes",
            "read_holds",
            "read_deliverables",
            "read_by_hand",
            "read_corrected",
            *more,
        )
        parameters = {"job": job_id, "tenant": self._tenant, "whole": whole, "held_seconds": HELD_SECONDS}
        async with self._connections.use("reading") as connection:
            async with connection.pipeline():
                await connection.execute("begin isolation level repeatable read read only")
                cursors = [await connection.execute(query(s), parameters, prepare=True) for s in statements]
                await connection.execute("commit")
            answers = {name: await answer_of(cursor) for name, cursor in zip(statements, cursors, strict=True)}
        if not answers["read_job"].rows:
            raise no_such_job(job_id)
        return answers

    async def _snapshot(self, answers: Mapping[str, Answer]) -> Snapshot:
        (job,) = records(JobView, answers["read_job"])
        if job.result_ref is not None:
            job = job._replace(result=await value_or_name(self._payloads, job.job_id, job.result_ref))
        nodes = {node.node: node for node in records(NodeView, answers["read_nodes"])}
        definition, graph, unreadable = await self._definition(job, list(nodes))
        unserved = answers["unserved_nodes"]
        names = [row["node"] for row in by_name(unserved)]
        return Snapshot(
            job,
            definition,
            graph,
            unreadable,
            nodes,
            {queued.node: queued for queued in records(QueueView, answers["read_queue"])},
            dict(zip(names, records(UnservedTasks, unserved), strict=True)),
            {hold.node: hold for hold in records(Hold, answers["read_holds"])},
            records(Deliverable, answers["read_deliverables"]),
            await self._locations(job, definition, nodes) if job.inputs is not None else {},
            {one.node: one for one in records(DecidedByHand, answers["read_by_hand"])},
            corrected=next(iter(records(Corrected, answers["read_corrected"])), None),
        )

    async def _locations(
        self, job: JobView, definition: Definition, nodes: Mapping[str, NodeView]
    ) -> dict[str, str | None]:
        """Most jobs declare nothing, and of those that do most have no need of an output."""
        if not any(node.deliverable for node in definition.nodes):
            return {}
        locations = Locations(definition)
        ended = {name: view for name, view in nodes.items() if view.status in TERMINAL}
        wanted = [name for name in locations.outputs if name in ended and ended[name].status == Status.COMPLETED]
        outputs = await self.outputs(job.job_id, wanted) if wanted else {}
        facts = {
            "id": job.job_id,
            "workflow_id": job.workflow_id,
            "version": job.version,
            "run": job.run,
            "generation": job.generation,
        }
        seen = [(name, view.status, outputs.get(name)) for name, view in ended.items()]
        return locations.render(scope_of(facts, job.inputs, seen))

    async def pins(self, job_id: str) -> list[Pin]:
        """What the job follows, from each generation on at which that changed, the first one first."""
        found = await self._records(Pin, "read_pins", job=job_id)
        if not found:
            raise no_such_job(job_id)
        return found

    async def events(self, job_id: str, after: int = 0, node: str | None = None) -> AsyncIterator[EventView]:
        """The events of a job that have happened so far, page by page."""
        while True:
            page = await self._by_index(EventView, "read_events", job=job_id, after=after, node=node, limit=PAGE_SIZE)
            for event in page:
                yield event
            if len(page) < PAGE_SIZE:
                return
            after = page[-1].seq

    async def attempts(self, job_id: str, node: str | None, item: int | None, limit: int) -> list[AttemptView]:
        """Attempts that failed or printed something, oldest first."""
        return await self._records(AttemptView, "read_attempts", job=job_id, node=node, item=item, limit=limit)

    async def retries(self, job_id: str) -> tuple[int, int]:
        (count,) = await self._fetch("count_retries", job=job_id)
        return count["retries"], count["lost"]

    async def outputs(self, job_id: str, nodes: Iterable[str] | None = None) -> dict[str, Any]:
        """The outputs of the nodes that have begun, by name: of these, or of all."""
        wanted = texts(nodes) if nodes is not None else None
        rows = await self._fetch("node_outputs", job=job_id, nodes=wanted)
        return {row["node"]: await self._output(job_id, row) for row in rows}

    async def _output(self, job_id: str, row: dict[str, Any]) -> Any:
        if row["output_ref"] is not None:
            return await value_or_name(self._payloads, job_id, row["output_ref"])
        return None if row["output"] is None else orjson.loads(row["output"])

    async def _definition(self, job: JobView, begun: Sequence[str]) -> tuple[Definition, Graph, Refused | None]:
        try:
            return *await self._readable(job.definition_hash), None
        except Refused as problem:
            known = Definition(job.workflow_id, job.version, nodes=tuple(Node(name) for name in sorted(begun)))
            return known, build_graph(known), problem

    async def _readable(self, definition_hash: str) -> tuple[Definition, Graph]:
        """Refused if another version wrote it in a way that this one does not know."""
        known = _definitions.setdefault(self._connections, {})
        if definition_hash not in known:
            (row,) = await self._fetch("definition", hash=definition_hash)
            definition = read_pinned(row["definition"])
            if len(known) >= KEPT_DEFINITIONS:
                known.clear()
            known[definition_hash] = (definition, build_graph(definition))
        return known[definition_hash]


def _stages(graph: Graph, statuses: dict[str, str]) -> Stages:
    numbers = {name: number for name in statuses if (number := graph.stage_number(name)) is not None}
    names = sorted(numbers, key=numbers.__getitem__)
    return Stages(
        next((name for name in names if statuses[name] == Status.FAILED), None),
        tuple(name for name in names if statuses[name] == Status.COMPLETED),
    )
