"""What a plan is made of, read in one look: a job, its nodes, and the tasks that a verb names."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.signals import Request, Selected
from holdfast.store.arrays import plain
from holdfast.store.cycle import job_row, node_row, selected_from, selecting
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


async def look(store: PostgresStore, job_id: str, request: Request) -> Looked | None:
    """None: there is no such job."""
    async with store.connections.use(ROLE) as connection, connection.transaction():
        await connection.execute("set transaction isolation level repeatable read, read only")
        jobs = {"jobs": plain([job_id]), "me": None}
        found = await (await connection.execute(query("load_jobs"), jobs)).fetchall()
        if not found:
            return None
        nodes = [node_row(row) for row in await (await connection.execute(query("load_nodes"), jobs)).fetchall()]
        enqueued = next((node.enqueued for node in nodes if node.node == request.node), 0)
        chosen = await connection.execute(query("select_tasks"), selecting(job_id, request, enqueued))
        selected = selected_from(await chosen.fetchall())
        (now,) = (await (await connection.execute(query("clock"))).fetchall())[0]
    job = job_row(found[0])
    return Looked(now, job, await store.definition(job.definition_hash), nodes, selected)
