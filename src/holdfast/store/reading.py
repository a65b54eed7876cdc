"""Reads jobs, nodes, events and the state of the installation, for people. Never writes.

A look at a job is a few small statements in one snapshot; it never reads all tasks of a fan-out.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from holdfast.core.advising import Advice
from holdfast.core.plans import RESUMABLE
from holdfast.core.states import TERMINAL, JobStatus, Status
from holdfast.define.definition import Definition, read_pinned
from holdfast.define.graph import Graph, build_graph
from holdfast.define.node import Node
from holdfast.errors import InvalidInput, NotFound, Refused
from holdfast.remedies import Remedy
from holdfast.store.arrays import plain, texts
from holdfast.store.columns import by_name, records
from holdfast.store.connection import Answer, Connections, answer_of
from holdfast.store.delivering import Locations, scope_of
from holdfast.store.fleet import UnservedTasks, WorkerView
from holdfast.store.installation import PostgresInstallationReader
from holdfast.store.locks import HELD_SECONDS, LockHolder
from holdfast.store.payloads import value_or_name
from holdfast.store.plan_inputs import Look, looking_at
from holdfast.store.queries import query
from holdfast.store.read_rows import (
    ArtifactView,
    AttemptView,
    Deliverable,
    EventView,
    FailedItems,
    Hold,
    JobCount,
    JobDiagnosis,
    JobLine,
    JobView,
    NodeView,
    QueueCount,
    QueuedTasks,
    QueueView,
    Snapshot,
    Stages,
    TaskRow,
)
from holdfast.store.records import FIRST_JOB

PAGE_SIZE = 1000
MIN_ENDING = 6
LAST_JOB = str(uuid.UUID(int=2**128 - 1))
CLOCK_SECONDS = 86_400
"""How far the clock of a submitting machine may be off that of the database."""
WALK_LENGTH = 1000
"""How many jobs a list looks at in one statement, after those that fill a page if all of them fit."""
KEPT_DEFINITIONS = 500
_definitions: WeakKeyDictionary[Connections, dict[str, tuple[Definition, Graph]]] = WeakKeyDictionary()
"""The definitions of each database by their hash: they never change."""


class PostgresReadStore(PostgresInstallationReader):
    """Keeps the promises of `operations.ports.ReadStore`."""

    async def find_job(self, text: str) -> str:
        """The id of the job that is meant: its id, or an ending of it that no other job has."""
        wanted = text.strip().lower()
        try:
            return str(uuid.UUID(wanted))
        except ValueError:
            pass
        if len(wanted) < MIN_ENDING:
            raise InvalidInput(
                f"'{text}' is too short for a job id.",
                remedy=Remedy(
                    f"Give the whole id, or its last {MIN_ENDING} characters or more; list the jobs with", "status"
                ),
            )
        rows = await self._fetch("jobs_ending_with", ending=wanted) if re.fullmatch("[0-9a-f-]+", wanted) else []
        if not rows:
            raise _no_such_job(text)
        if len(rows) > 1:
            shown = ", ".join(f"{row['job_id']} ({row['workflow_id']}, {row['status']})" for row in rows[:5])
            raise Refused(
                f"Several jobs end with '{text}': {shown}{', …' if len(rows) > 5 else ''}",
                remedy="Give more characters of the one that you mean.",
            )
        return str(rows[0]["job_id"])

    async def snapshot(self, job_id: str, *, whole: bool = True) -> Snapshot:
        """The job as it is now; without `whole` its inputs and its result are left out."""
        snapshot = await self._snapshot(await self._look_at(job_id, whole=whole))
        return await self._with_advice(snapshot) if whole else snapshot

    async def advice(self, job_id: str) -> tuple[Advice, ...]:
        """Which verbs would continue a job that has ended, the best first."""
        async with looking_at(self._connections, job_id) as look:
            return await look.advice() if look is not None else ()

    @asynccontextmanager
    async def planning(self, job_id: str) -> AsyncIterator[Look]:
        """A look at the job that can plan verbs for as long as it is open."""
        async with looking_at(self._connections, job_id) as look:
            if look is None or (self._tenant is not None and look.state.tenant != self._tenant):
                raise _no_such_job(job_id)
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
        looks = ("why_job", "why_windows", "why_queue", "live_workers", "why_locks")
        answers = await self._look_at(job_id, *looks, whole=False)
        (job,) = by_name(answers["why_job"])
        return JobDiagnosis(
            snapshot=await self._with_advice(await self._snapshot(answers)),
            **job,
            enqueued={row["node"]: row["enqueued"] for row in by_name(answers["why_windows"])},
            queued=records(QueuedTasks, answers["why_queue"]),
            workers=records(WorkerView, answers["live_workers"]),
            locks=records(LockHolder, answers["why_locks"]),
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
            raise _no_such_job(job_id)
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

    async def jobs(
        self,
        limit: int,
        *,
        before: str | None = None,
        statuses: Sequence[str] | None = None,
        workflow_id: str | None = None,
        identity: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[JobLine]:
        """The newest jobs, newest first: those older than the job `before`, and those that fit the filters."""
        wanted = texts(statuses) if statuses is not None else None
        filters = {"statuses": wanted, "since": since, "until": until}
        start = before or LAST_JOB
        if identity is not None:
            rows = await self._fetch("jobs_of_identity", identity=identity, before=start, limit=limit, **filters)
            ids = [row["job_id"] for row in rows]
        else:
            first = _first_job_since(since) if since is not None else FIRST_JOB
            ids = await self._walk(start, first, limit, filters | {"workflow": workflow_id})
        return await self._records(JobLine, "job_lines", jobs=plain(ids)) if ids else []

    async def _walk(self, before: str, first: str, limit: int, filters: dict[str, Any]) -> list[str]:
        """The newest jobs that fit, from the job before `before` back to `first`."""
        ids: list[str] = []
        length = limit
        while len(ids) < limit:
            rows = await self._fetch("newest_jobs", before=before, walk=length, **filters)
            ids += [row["job_id"] for row in rows if row["fits"]]
            if len(rows) < length or rows[-1]["job_id"] < first:
                break
            before, length = rows[-1]["job_id"], WALK_LENGTH
        return ids[:limit]

    async def tasks(
        self, job_id: str, *, node: str | None, status: str | None, after: tuple[str, int], limit: int
    ) -> list[TaskRow]:
        """One page of a job's tasks after that node and item."""
        place = {"after_node": after[0], "after_item": after[1]}
        return await self._records(TaskRow, "read_tasks", job=job_id, node=node, status=status, limit=limit, **place)

    async def count_jobs(self, since: datetime | None) -> list[JobCount]:
        """How many jobs there are of each workflow with each status."""
        return await self._records(JobCount, "count_jobs", since=since)

    async def count_queue(self) -> QueueCount:
        """How many tasks wait in the queue, and how many run."""
        (count,) = await self._records(QueueCount, "count_queue")
        return count

    async def events(self, job_id: str, after: int = 0, node: str | None = None) -> AsyncIterator[EventView]:
        """The events of a job that have happened so far, page by page."""
        while True:
            page = await self._records(EventView, "read_events", job=job_id, after=after, node=node, limit=PAGE_SIZE)
            for event in page:
                yield event
            if len(page) < PAGE_SIZE:
                return
            after = page[-1].seq

    async def attempts(self, job_id: str, node: str | None, item: int | None, limit: int) -> list[AttemptView]:
        """Attempts that failed or printed something, oldest first."""
        return await self._records(AttemptView, "read_attempts", job=job_id, node=node, item=item, limit=limit)

    async def retries(self, job_id: str) -> int:
        (count,) = await self._fetch("count_retries", job=job_id)
        return int(count["retries"])

    async def failed_items(self, job_id: str, node: str) -> list[FailedItems]:
        return await self._records(FailedItems, "failed_items", job=job_id, node=node)

    async def outputs(self, job_id: str, nodes: Iterable[str] | None = None) -> dict[str, Any]:
        """The outputs of the nodes that have begun, by name: of these, or of all."""
        wanted = texts(nodes) if nodes is not None else None
        rows = await self._fetch("node_outputs", job=job_id, nodes=wanted)
        return {row["node"]: await self._output(job_id, row) for row in rows}

    async def _output(self, job_id: str, row: dict[str, Any]) -> Any:
        if row["output_ref"] is not None:
            return await value_or_name(self._payloads, job_id, row["output_ref"])
        return None if row["output"] is None else orjson.loads(row["output"])

    async def artifacts(self, job_id: str) -> list[ArtifactView]:
        """The files that the job's tasks have published, by node, item and name."""
        return await self._records(ArtifactView, "read_artifacts", job=job_id)

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


def _first_job_since(since: datetime) -> str:
    """The lowest id of a job that was made then. Ids have the time of the machine that submitted it."""
    milliseconds = round((since.timestamp() - CLOCK_SECONDS) * 1000)
    return str(uuid.UUID(int=min(max(0, milliseconds), 2**48 - 1) << 80))


def _no_such_job(text: str) -> NotFound:
    return NotFound(f"There is no job '{text}'.", remedy=Remedy("List the jobs with", "status"), instance=text)


def _stages(graph: Graph, statuses: dict[str, str]) -> Stages:
    numbers = {name: number for name in statuses if (number := graph.stage_number(name)) is not None}
    names = sorted(numbers, key=numbers.__getitem__)
    return Stages(
        next((name for name in names if statuses[name] == Status.FAILED), None),
        tuple(name for name in names if statuses[name] == Status.COMPLETED),
    )
