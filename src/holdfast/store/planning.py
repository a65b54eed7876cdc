"""What a plan is made of, read in one look: a job, its nodes, and the tasks that a verb names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from holdfast.core.signals import BatchesAsked, Request, Selected
from holdfast.store.arrays import plain
from holdfast.store.cycle import batches_from, job_row, node_row, selected_from, selecting, selecting_batches
from holdfast.store.interface import JobRow, NodeRow
from holdfast.store.postgres import PostgresStore
from holdfast.store.queries import query

ROLE = "plan"


class Looked(NamedTuple):
    """A job as it is now; outputs are left where they are."""

    now: float
    job: JobRow
    definition: bytes
    nodes: list[NodeRow]
    selected: dict[str, Selected]


class Ask(Protocol):
    """What is to be known of the batches of a job, as its owner would ask."""

    def __call__(self, job: JobRow, nodes: list[NodeRow], definition: bytes) -> Sequence[BatchesAsked]: ...


async def look(store: PostgresStore, job_id: str, request: Request, ask: Ask) -> Looked | None:
    """None: there is no such job."""
    async with store.connections.use(ROLE) as connection, connection.transaction():
        await connection.execute("set transaction isolation level repeatable read, read only")
        jobs = {"jobs": plain([job_id]), "me": None}
        found = await (await connection.execute(query("load_jobs"), jobs)).fetchall()
        if not found:
            return None
        job = job_row(found[0])
        definition = await store.definition(job.definition_hash)
        nodes = [node_row(row) for row in await (await connection.execute(query("load_nodes"), jobs)).fetchall()]
        enqueued = next((node.enqueued for node in nodes if node.node == request.node), 0)
        chosen = await connection.execute(query("select_tasks"), selecting(job_id, request, enqueued))
        selected = selected_from(await chosen.fetchall())
        for asked in ask(job, nodes, definition):
            rows = await connection.execute(query("select_batches"), selecting_batches(job_id, asked))
            selected[asked.node] = batches_from(await rows.fetchall())
        (now,) = (await (await connection.execute(query("clock"))).fetchall())[0]
    return Looked(now, job, definition, nodes, selected)
