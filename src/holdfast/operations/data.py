"""The data of a job: the params and the output of a node, its results, its files and its checkpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from holdfast.core.states import Status
from holdfast.define.kinds import kind_of
from holdfast.define.node import Node
from holdfast.errors import InvalidInput, NotFound
from holdfast.operations.nodes import check_item, find_node, has_items, reached
from holdfast.operations.ports import OperationsStore, ReadStore
from holdfast.operations.scope import Scope
from holdfast.remedies import Remedy
from holdfast.store.read_rows import Snapshot
from holdfast.views.data import Checkpoint, DataValue, TaskResult, checkpoint_view, result_view
from holdfast.views.history import Artifact, artifact_view
from holdfast.views.jobs import job_view
from holdfast.views.verbs import items_text

OWN_TASK = -1
"""The item of a node's own task."""
TASK_STATUSES = tuple(str(status) for status in Status if status is not Status.PENDING)


async def output(
    scope: Scope, store: OperationsStore, job_id: str, node: str, *, index: int | None = None
) -> DataValue:
    """The output of a node, or of one of its items. A large value is read from the object store."""
    reader = store.reads(scope.tenant)
    snapshot, known = await _look(reader, job_id, node, index)
    if index is None:
        status = _status(snapshot, known)
        is_there = status == Status.COMPLETED and kind_of(known).has_output
        value = await reader.node_output(job_id, known.name) if is_there else None
        return DataValue(job_id, known.name, None, status, value, is_there, _number_of_items(snapshot, known))
    status, value = await reader.task_output(job_id, known.name, index) or (str(Status.PENDING), None)
    return DataValue(job_id, known.name, index, status, value, status == Status.COMPLETED)


async def params(
    scope: Scope, store: OperationsStore, job_id: str, node: str, *, index: int | None = None
) -> DataValue:
    """The params of a node, or of one of its items, as its attempts get them: after all templates."""
    reader = store.reads(scope.tenant)
    snapshot, known = await _look(reader, job_id, node, index)
    if not known.tasks and snapshot.unreadable is None:
        raise NotFound(
            f"Job {job_id} has no params of {known.name}: it is a {known.type} node without a handler.",
            remedy=Remedy("See its nodes with", "status", job_id),
            instance=job_id,
        )
    number = _number_of_items(snapshot, known)
    if index is None and number is not None and kind_of(known).has_task_per_item:
        raise InvalidInput(
            f"Each item of {known.name} has params of its own. {items_text(known.name, number)}",
            remedy="Name one of them: --item 0",
            instance=job_id,
        )
    task = await reader.task_params(job_id, known.name, _item(index))
    status, value = task or (_without_task(snapshot, known), None)
    return DataValue(job_id, known.name, index, status, value, value is not None, number if index is None else None)


async def results(
    scope: Scope, store: OperationsStore, job_id: str, node: str, *, status: str | None = None
) -> AsyncIterator[TaskResult]:
    """How all tasks of a node stand, by item, each with its output; they are read page by page."""
    check_task_status(status)
    reader = store.reads(scope.tenant)
    _, known = await _look(reader, job_id, node)
    async for row in reader.results(job_id, known.name, status):
        yield result_view(job_id, known.name, row)


async def checkpoints(
    scope: Scope, store: OperationsStore, job_id: str, node: str, *, index: int | None = None
) -> AsyncIterator[Checkpoint]:
    """The checkpoints that the tasks of a node have saved, by item and number; they are read page by page."""
    reader = store.reads(scope.tenant)
    _, known = await _look(reader, job_id, node, index)
    async for row in reader.checkpoints(job_id, known.name, index):
        yield checkpoint_view(row)


async def artifacts(
    scope: Scope,
    store: OperationsStore,
    job_id: str,
    *,
    node: str | None = None,
    index: int | None = None,
    name: str | None = None,
    limit: int | None = None,
    after: Artifact | None = None,
) -> list[Artifact]:
    """The files that a job's tasks have published, by node, index and name.

    With a `limit` one page of them; `after` is the last file of the page before.
    """
    reader = store.reads(scope.tenant)
    if node is not None:
        _, known = await _look(reader, job_id, node, index)
        node = known.name
    place = ("", OWN_TASK, "") if after is None else (after.node, _item(after.index), after.name)
    rows = await reader.artifacts(job_id, node=node, item=index, name=name, after=place, limit=limit)
    if not rows and node is None:
        # Refuses a job that does not exist.
        await reader.snapshot(job_id, whole=False)
    return [artifact_view(row) for row in rows]


async def fetch_artifact(scope: Scope, store: OperationsStore, job_id: str, artifact: Artifact, target: Path) -> None:
    """Copy a file that a task has published to `target`. Its content is verified."""
    reader = store.reads(scope.tenant)
    rows = await reader.artifacts(job_id, node=artifact.node, item=_item(artifact.index), name=artifact.name)
    if not rows:
        raise NotFound(
            f"Job {job_id} has no artifact '{artifact.name}' of {artifact.node}.",
            remedy=Remedy("List the artifacts with", "artifacts", job_id),
            instance=job_id,
        )
    await reader.copy_artifact(job_id, rows[0].digest, target)


def check_task_status(status: str | None) -> None:
    if status is not None and status not in TASK_STATUSES:
        raise InvalidInput(f"'{status}' is not the status of a task.", remedy=f"Use one of: {', '.join(TASK_STATUSES)}")


async def _look(reader: ReadStore, job_id: str, text: str, index: int | None = None) -> tuple[Snapshot, Node]:
    """The job, and the node that is meant; refuses a node or an item that the job does not have."""
    snapshot = await reader.snapshot(job_id, whole=False)
    node = find_node(snapshot, text)
    if index is not None:
        check_item(snapshot, node, index)
    return snapshot, node


def _item(index: int | None) -> int:
    return OWN_TASK if index is None else index


def _number_of_items(snapshot: Snapshot, node: Node) -> int | None:
    row = reached(snapshot, node)
    return row.numbers if row is not None and has_items(snapshot, node) else None


def _status(snapshot: Snapshot, node: Node) -> str:
    return next((one.status for one in job_view(snapshot).nodes if one.node == node.name), str(Status.PENDING))


def _without_task(snapshot: Snapshot, node: Node) -> str:
    """The status of a task that is not made yet: it has not begun, unless its node ended before."""
    status = _status(snapshot, node)
    return status if status in (Status.SKIPPED, Status.CANCELLED, Status.FAILED) else str(Status.PENDING)
