"""Reads what people look at: jobs, nodes, events, and the state of the installation. Never writes.

A look at a job is a few small statements in one snapshot; it never reads all tasks of a fan-out.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from holdfast.core.advising import Advice
from holdfast.core.plans import RESUMABLE
from holdfast.core.states import TERMINAL, JobStatus, Status
from holdfast.define.definition import Definition, read_pinned
from holdfast.define.graph import Graph, build_graph
from holdfast.define.node import Node
from holdfast.errors import InvalidInput, NotFound, Refused
from holdfast.store.arrays import plain, texts
from holdfast.store.connection import Connections
from holdfast.store.delivering import Locations, scope_of
from holdfast.store.fleet import Fleet, JobsWithoutOwner, OrchestratorView, UnservedTasks, WorkerView
from holdfast.store.locks import HELD_SECONDS, LockHolder
from holdfast.store.payloads import Payloads, value_or_name
from holdfast.store.planning import looking_at
from holdfast.store.queries import query

PAGE_SIZE = 1000
MIN_ENDING = 6


class AttemptView(NamedTuple):
    """One try at a task that failed or printed something."""

    node: str
    item: int
    attempt: int
    outcome: str
    worker: str | None
    started_at: datetime | None
    finished_at: datetime
    error: dict[str, Any] | None
    log: str | None
    extra: dict[str, Any] | None


class JobView(NamedTuple):
    job_id: str
    workflow_id: str
    status: str
    reason: str | None
    version: str
    run: int
    generation: int
    tenant: str
    definition_hash: str
    inputs: Any
    result: Any
    error: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    owner_id: int | None
    owner: str | None
    owned_since: datetime | None
    owner_is_alive: bool
    pause: dict[str, Any] | None = None


class NodeView(NamedTuple):
    node: str
    status: str
    reason: str | None
    attempt: int
    width: int
    completed: int
    failed: int
    skipped: int
    cancelled: int
    retry_at: datetime | None
    error: dict[str, Any] | None
    started_at: datetime | None
    finished_at: datetime | None
    expanded: int = 0
    batch_size: int | None = None

    @property
    def total(self) -> int:
        """All its tasks, with the one behind its batches once that is there."""
        return max(self.width, self.expanded)


class QueueView(NamedTuple):
    """What of one node is in the queue: leased, claimable, and waiting for its time."""

    node: str
    running: int
    ready: int
    waiting: int
    due_at: datetime | None
    progress: dict[str, Any] | None
    claimed_at: datetime | None
    attempt: int


class Hold(NamedTuple):
    """What holds back all that is ready of one node: a breaker, or a limit."""

    node: str
    tasks: int
    by: str
    name: str
    since: datetime
    until: datetime | None
    details: dict[str, Any]


class Deliverable(NamedTuple):
    """What tasks that completed have delivered under one name, and the places of the first and the last of them."""

    name: str
    number: int
    first: str
    last: str


class Snapshot(NamedTuple):
    """A job at one moment. If its definition is `unreadable`, for that reason, the nodes that have begun stand in."""

    job: JobView
    definition: Definition
    graph: Graph
    unreadable: Refused | None
    nodes: dict[str, NodeView]
    queue: dict[str, QueueView]
    unserved: dict[str, UnservedTasks]
    holds: dict[str, Hold]
    deliverables: list[Deliverable]
    locations: dict[str, str | None]
    """Where the deliverables lie that the definition declares, by their names; nothing if inputs were left out."""
    advice: tuple[Advice, ...] = ()
    """What would continue a job that has not completed, the best first; not looked for if inputs were left out."""


class Stages(NamedTuple):
    """How far a job came, by the names of its nodes in the order of the file."""

    failed: str | None = None
    completed: tuple[str, ...] = ()


class QueuedTasks(NamedTuple):
    """Tasks of one node that wait, or run, for the same reason. `error` is that of the attempt before a retry."""

    node: str
    state: str
    queue: str
    handler: str
    tasks: int
    first: list[int]
    queued_at: datetime
    claimed_at: datetime | None
    due_at: datetime | None
    attempt: int
    workers: list[str] | None
    worker_is_alive: bool | None
    lease_until: datetime | None
    progress: dict[str, Any] | None
    error: dict[str, Any] | None


class Standing(NamedTuple):
    """A job at one moment, with everything that may keep it from going on."""

    snapshot: Snapshot
    epoch: int
    stop_cause: str | None
    stop_until: datetime | None
    owner_gone_at: datetime | None
    orchestrators: int
    unread: int
    unread_since: datetime | None
    enqueued: dict[str, int]
    """How many rows of a node were queued, by now or before."""
    queued: list[QueuedTasks]
    workers: list[WorkerView]
    locks: Sequence[LockHolder] = ()


class JobLine(NamedTuple):
    job_id: str
    workflow_id: str
    status: str
    reason: str | None
    version: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    total: int
    completed: int
    failed: int
    error: str | None


class EventView(NamedTuple):
    seq: int
    job_id: str
    event: str
    node: str | None
    item: int | None
    attempt: int | None
    at: datetime
    data: dict[str, Any] | None


class ArtifactView(NamedTuple):
    """A file that a task has published; item -1 is a node's own task."""

    node: str
    item: int
    name: str
    digest: str
    bytes: int
    attempt: int
    published_at: datetime


class FailedItems(NamedTuple):
    """Items of a fan-out that failed in the same way."""

    number: int
    first: int
    code: str | None
    message: str | None


class LongTransaction(NamedTuple):
    pid: int
    application: str
    state: str | None
    seconds: float


class ServerFacts(NamedTuple):
    version_number: int
    version: str
    now: float
    fsync: str
    synchronous_commit: str
    max_connections: int
    connections: int
    database: str
    size_bytes: int


class Reader:
    """Looks at one database. Definitions are read once: they never change."""

    def __init__(self, connections: Connections, payloads: Payloads | None = None, tenant: str | None = None) -> None:
        """Without `payloads` large values are shown by their names. With a tenant only its jobs are found."""
        self._connections = connections
        self._payloads = payloads
        self._tenant = tenant
        self._definitions: dict[str, tuple[Definition, Graph]] = {}

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
                remedy=f"Give the whole id, or its last {MIN_ENDING} characters or more; "
                "list the jobs with: holdfast status",
            )
        rows = await self._fetch("jobs_ending_with", ending=wanted) if re.fullmatch("[0-9a-f-]+", wanted) else []
        if not rows:
            raise no_such_job(text)
        if len(rows) > 1:
            shown = ", ".join(f"{row[0]} ({row[1]}, {row[2]})" for row in rows[:5])
            raise Refused(
                f"Several jobs end with '{text}': {shown}{', …' if len(rows) > 5 else ''}",
                remedy="Give more characters of the one that you mean.",
            )
        return str(rows[0][0])

    async def snapshot(self, job_id: str, *, whole: bool = True) -> Snapshot:
        """The job as it is now; without `whole` its inputs and its result are left out."""
        snapshot = await self._snapshot(await self._look_at(job_id, whole=whole))
        return await self._with_advice(snapshot) if whole else snapshot

    async def advice(self, job_id: str) -> tuple[Advice, ...]:
        """Which verbs would continue a job that has ended, the best first."""
        async with looking_at(self._connections, job_id) as look:
            return await look.advice() if look is not None else ()

    async def _with_advice(self, snapshot: Snapshot) -> Snapshot:
        is_in_doubt = snapshot.job.status == JobStatus.COMPLETED and snapshot.job.error is not None
        if snapshot.unreadable is not None or (snapshot.job.status not in RESUMABLE and not is_in_doubt):
            return snapshot
        return snapshot._replace(advice=await self.advice(snapshot.job.job_id))

    async def stages(self, job_ids: Sequence[str]) -> dict[str, Stages]:
        """The first stage that failed, and those that completed, of each job whose definition can be read."""
        told: dict[str, Stages] = {}
        for job_id, definition_hash, statuses in await self._fetch("node_statuses", jobs=plain(job_ids)):
            try:
                _, graph = await self._readable(definition_hash)
            except Refused:
                continue
            told[job_id] = _stages(graph, _parsed(statuses))
        return told

    async def standing(self, job_id: str) -> Standing:
        """The job as it is now, with all that may keep it from going on."""
        looks = ("why_job", "why_windows", "why_queue", "live_workers", "why_locks")
        found = await self._look_at(job_id, *looks, whole=False)
        snapshot = await self._with_advice(await self._snapshot(found))
        job, windows, queued, workers, locks = found[6:]
        epoch, stop_cause, stop_until, owner_gone_at, orchestrators, unread, unread_since = job[0]
        return Standing(
            snapshot,
            epoch,
            stop_cause,
            stop_until,
            owner_gone_at,
            orchestrators,
            unread,
            unread_since,
            dict(windows),
            [QueuedTasks._make((*row[:13], _parsed(row[13]), _parsed(row[14]))) for row in queued],
            [WorkerView._make(row) for row in workers],
            [LockHolder._make(row) for row in locks],
        )

    async def _look_at(self, job_id: str, *more: str, whole: bool) -> list[list[tuple[Any, ...]]]:
        """The rows of a job, and of more statements, all of one moment."""
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
            found = [await cursor.fetchall() for cursor in cursors]
        if not found[0]:
            raise no_such_job(job_id)
        return found

    async def _snapshot(self, found: Sequence[Sequence[tuple[Any, ...]]]) -> Snapshot:
        (row,), nodes, queue, unserved, holds, deliverables = found[:6]
        *columns, reference = row
        job = JobView._make((*columns[:9], *map(_parsed, columns[9:12]), *columns[12:-1], _parsed(columns[-1])))
        if reference is not None:
            job = job._replace(result=await value_or_name(self._payloads, job.job_id, reference))
        definition, graph, unreadable = await self._definition(job, [r[0] for r in nodes])
        views = {r[0]: NodeView._make((*r[:10], _parsed(r[10]), *r[11:])) for r in nodes}
        return Snapshot(
            job,
            definition,
            graph,
            unreadable,
            views,
            {r[0]: QueueView._make((*r[:5], _parsed(r[5]), *r[6:])) for r in queue},
            {r[0]: UnservedTasks._make(r[1:]) for r in unserved},
            {r[0]: Hold._make((*r[:6], _parsed(r[6]))) for r in holds},
            [Deliverable._make(r) for r in deliverables],
            await self._locations(job, definition, views) if job.inputs is not None else {},
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

    async def jobs(self, limit: int) -> list[JobLine]:
        """The newest jobs, newest first."""
        return [JobLine._make(row) for row in await self._fetch("list_jobs", limit=limit)]

    async def events(self, job_id: str, after: int = 0, node: str | None = None) -> AsyncIterator[EventView]:
        """The events of a job that have happened so far, page by page."""
        while True:
            rows = await self._fetch("read_events", job=job_id, after=after, node=node, limit=PAGE_SIZE)
            for row in rows:
                yield EventView._make((*row[:7], _parsed(row[7])))
            if len(rows) < PAGE_SIZE:
                return
            after = rows[-1][0]

    async def attempts(self, job_id: str, node: str | None, item: int | None, limit: int) -> list[AttemptView]:
        """Attempts that failed or printed something, oldest first."""
        rows = await self._fetch("read_attempts", job=job_id, node=node, item=item, limit=limit)
        return [AttemptView._make((*row[:7], _parsed(row[7]), row[8], _parsed(row[9]))) for row in rows]

    async def retries(self, job_id: str) -> int:
        return int((await self._fetch("count_retries", job=job_id))[0][0])

    async def failed_items(self, job_id: str, node: str) -> list[FailedItems]:
        return [FailedItems._make(row) for row in await self._fetch("failed_items", job=job_id, node=node)]

    async def outputs(self, job_id: str, nodes: Iterable[str] | None = None) -> dict[str, Any]:
        """The outputs of the nodes that have begun, by name: of these, or of all."""
        wanted = texts(nodes) if nodes is not None else None
        return {
            node: _parsed(output) if reference is None else await value_or_name(self._payloads, job_id, reference)
            for node, output, reference in await self._fetch("node_outputs", job=job_id, nodes=wanted)
        }

    async def artifacts(self, job_id: str) -> list[ArtifactView]:
        """The files that the job's tasks have published, by node, item and name."""
        return [ArtifactView._make(row) for row in await self._fetch("read_artifacts", job=job_id)]

    async def orchestrators(self, job_id: str | None = None, *, everyone: bool = False) -> list[OrchestratorView]:
        """Those whose lease is running and who would drive this job, or any; or everyone."""
        rows = await self._fetch("live_orchestrators", job=job_id, everyone=everyone)
        return [OrchestratorView._make(row) for row in rows]

    async def workers(self) -> list[WorkerView]:
        """Those whose lease is running."""
        return [WorkerView._make(row) for row in await self._fetch("live_workers")]

    async def fleet(self) -> Fleet:
        """Who serves this database, and what nobody takes care of."""
        return Fleet(
            await self.orchestrators(everyone=True),
            await self.workers(),
            [JobsWithoutOwner._make(row) for row in await self._fetch("jobs_without_owner")],
            [UnservedTasks._make(row) for row in await self._fetch("unserved_lanes")],
        )

    async def unread_signals(self, seconds: float) -> tuple[int, datetime | None]:
        """How many signals have waited longer than that, and since when the oldest."""
        row = (await self._fetch("unread_signals", seconds=seconds))[0]
        return int(row[0]), row[1]

    async def long_transactions(self, seconds: float) -> list[LongTransaction]:
        return [LongTransaction._make(row) for row in await self._fetch("long_transactions", seconds=seconds)]

    async def lock_holders(self) -> list[LockHolder]:
        """Sessions that keep rows of our tables locked."""
        return [LockHolder._make(row) for row in await self._fetch("lock_holders", held_seconds=HELD_SECONDS)]

    async def now(self) -> float:
        """By the database's clock."""
        return float((await self._fetch("clock"))[0][0])

    async def server_facts(self) -> ServerFacts:
        return ServerFacts._make((await self._fetch("server_facts"))[0])

    async def _definition(self, job: JobView, begun: Sequence[str]) -> tuple[Definition, Graph, Refused | None]:
        try:
            return *await self._readable(job.definition_hash), None
        except Refused as problem:
            known = Definition(job.workflow_id, job.version, nodes=tuple(Node(name) for name in sorted(begun)))
            return known, build_graph(known), problem

    async def _readable(self, definition_hash: str) -> tuple[Definition, Graph]:
        """Refused if another version wrote it in a way that this one does not know."""
        if definition_hash not in self._definitions:
            rows = await self._fetch("definition", hash=definition_hash)
            definition = read_pinned(rows[0][0])
            self._definitions[definition_hash] = (definition, build_graph(definition))
        return self._definitions[definition_hash]

    async def _fetch(self, statement: str, /, **parameters: Any) -> Sequence[tuple[Any, ...]]:
        async with self._connections.use("reading") as connection:
            given = {"tenant": self._tenant} | parameters
            cursor = await connection.execute(query(statement), given, prepare=True)
            return await cursor.fetchall()


def no_such_job(text: str) -> NotFound:
    return NotFound(f"There is no job '{text}'.", remedy="List the jobs with: holdfast status", instance=text)


def _stages(graph: Graph, statuses: dict[str, str]) -> Stages:
    numbers = {name: number for name in statuses if (number := graph.stage_number(name)) is not None}
    names = sorted(numbers, key=numbers.__getitem__)
    return Stages(
        next((name for name in names if statuses[name] == Status.FAILED), None),
        tuple(name for name in names if statuses[name] == Status.COMPLETED),
    )


def _parsed(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)
