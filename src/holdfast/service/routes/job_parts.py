"""Parts of a job: its tasks of all nodes, what its attempts printed, and its values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Query, Response

from holdfast.operations.identity import Permission
from holdfast.operations.reading import LONGEST_PAGE
from holdfast.service.call import Call, JobId, NodeName
from holdfast.service.table import ListOf, RouteTable
from holdfast.views.data import Checkpoint, DataValue
from holdfast.views.encoding import VERBATIM
from holdfast.views.history import Attempt, Retries, Task

table = RouteTable("job parts")
LARGEST_INDEX = 2**31 - 1
OneNode = Annotated[str | None, Query(max_length=200, description="Only those of this node.")]
OneItem = Annotated[int | None, Query(ge=0, le=LARGEST_INDEX, description="Only those of this item.")]
Length = Annotated[int, Query(ge=1, le=LONGEST_PAGE + 1, description="How many entries the list has at most.")]


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of nodes, by name."""

    outputs: dict[str, Any] = field(metadata=VERBATIM)


@table.get("/jobs/{job_id}/tasks", Permission.READ, answers=ListOf(Task))
async def list_tasks_of_job(
    call: Call,
    job_id: JobId,
    node: OneNode = None,
    status: Annotated[str | None, Query(max_length=50, description="Only tasks with this status.")] = None,
    fingerprint: Annotated[str | None, Query(max_length=64, description="Only tasks that failed in this way.")] = None,
    after_node: Annotated[str | None, Query(max_length=200, description="The node of the last task seen.")] = None,
    after_index: Annotated[
        int, Query(ge=-1, le=LARGEST_INDEX, description="Its index; -1: it was the node's own.")
    ] = -1,
    limit: Length = LONGEST_PAGE,
) -> Response:
    """The tasks of a job, by node and index, behind the last one seen."""
    after = (after_node, None if after_index < 0 else after_index) if after_node is not None else None
    only = {"node": node, "status": status, "fingerprint": fingerprint}
    return call.items(await call.client.tasks(job_id, **only, limit=limit, after=after))


@table.get("/jobs/{job_id}/attempts", Permission.READ, answers=ListOf(Attempt))
async def list_attempts(
    call: Call,
    job_id: JobId,
    node: OneNode = None,
    index: OneItem = None,
    running: Annotated[bool, Query(description="Those that run now, with their output so far.")] = False,
    limit: Length = LONGEST_PAGE,
) -> Response:
    """The attempts that failed or printed something, in the order in which they ended."""
    if running:
        return call.items(await call.client.running_attempts(job_id, node=node, index=index))
    return call.items(await call.client.attempts(job_id, node=node, index=index, limit=limit))


@table.get("/jobs/{job_id}/retries", Permission.READ, answers=Retries)
async def count_retries(call: Call, job_id: JobId) -> Response:
    """How many attempts of a job failed or were lost and were followed by another."""
    return call.answer(await call.client.retries(job_id))


@table.get("/jobs/{job_id}/outputs", Permission.READ, answers=Outputs)
async def show_outputs(
    call: Call,
    job_id: JobId,
    node: Annotated[list[str] | None, Query(description="Only of this node; may be repeated.")] = None,
) -> Response:
    """The outputs of the nodes of a job that have begun, by name."""
    return call.answer(Outputs(await call.client.outputs(job_id, node)))


@table.get("/jobs/{job_id}/nodes/{node}/output", Permission.READ, answers=DataValue)
async def show_output(call: Call, job_id: JobId, node: NodeName, index: OneItem = None) -> Response:
    """The output of a node, or of one of its items."""
    return call.answer(await call.client.output(job_id, node, index=index))


@table.get("/jobs/{job_id}/nodes/{node}/params", Permission.READ, answers=DataValue)
async def show_params(call: Call, job_id: JobId, node: NodeName, index: OneItem = None) -> Response:
    """The params of a node, or of one of its items, as its attempts get them: after all templates."""
    return call.answer(await call.client.params(job_id, node, index=index))


@table.get("/jobs/{job_id}/nodes/{node}/checkpoints", Permission.READ, answers=ListOf(Checkpoint))
async def list_checkpoints(
    call: Call, job_id: JobId, node: NodeName, index: OneItem = None, limit: Length = LONGEST_PAGE
) -> Response:
    """The first checkpoints that the tasks of a node have saved, by item and number."""
    found: list[Checkpoint] = []
    async for one in call.client.checkpoints(job_id, node, index=index):
        found.append(one)
        if len(found) == limit:
            break
    return call.items(found)
