"""The details of one job: the map of a node, the timeline, the generations, one task, and results page by page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.core.states import Status
from holdfast.define.kinds import kind_of
from holdfast.define.node import Node
from holdfast.errors import InvalidInput
from holdfast.operations.data import OWN_TASK, check_task_status
from holdfast.operations.nodes import check_item, find_node, has_items, reached
from holdfast.operations.ports import OperationsStore
from holdfast.operations.reading import checked_limit
from holdfast.operations.scope import Scope
from holdfast.store.job_read_rows import WholeTaskRow
from holdfast.store.output_rows import RunningPart
from holdfast.store.read_rows import NodeView, Snapshot
from holdfast.views.data import result_view
from holdfast.views.details import (
    GenerationPage,
    ResultPage,
    TaskDetails,
    TaskMap,
    Timeline,
    details_view,
    generation_view,
    map_view,
    merged_runs,
    timeline_view,
)
from holdfast.views.history import Attempt, attempt_view, running_view
from holdfast.views.jobs import job_view

MOST_BUCKETS = 500
SHOWN_BUCKETS = 60
SHORTEST_SECONDS = 0.001
SHOWN_ATTEMPTS = 100
SHOWN_CHECKPOINTS = 100
SHOWN_PARTS = 100


async def task_map(scope: Scope, store: OperationsStore, job_id: str, node: str) -> TaskMap:
    """How all items of a node stand. One read, or none if all of them have ended in the same way."""
    snapshot = await store.reads(scope.tenant).snapshot(job_id, whole=False)
    known = find_node(snapshot, node)
    if not has_items(snapshot, known):
        return map_view(job_id, known.name, None, [(_status(snapshot, known), 1)])
    row = reached(snapshot, known)
    if row is None:
        return map_view(job_id, known.name, None, [])
    alike = _alike(row)
    if alike is not None:
        return map_view(job_id, known.name, row.numbers, [(alike, row.numbers)])
    runs = await store.job_reads(scope.tenant).task_runs(job_id, known.name)
    return map_view(job_id, known.name, row.numbers, merged_runs(runs, row.numbers))


def _alike(row: NodeView) -> str | None:
    """The status that all items of a node have, as far as its counters tell."""
    if row.numbers == 0 or row.gone:
        return None
    counts = {Status.COMPLETED: row.completed, Status.FAILED: row.failed, Status.SKIPPED: row.skipped}
    # Of a batched fan-in, the task behind the batches counts, too.
    return next((str(one) for one, number in counts.items() if number >= max(row.numbers, row.expanded)), None)


async def timeline(
    scope: Scope,
    store: OperationsStore,
    job_id: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    buckets: int = SHOWN_BUCKETS,
) -> Timeline:
    """When the nodes of a job ran, and when their tasks ended, in that many buckets between two times."""
    if not 1 <= buckets <= MOST_BUCKETS:
        raise InvalidInput(f"A timeline has 1 to {MOST_BUCKETS} buckets, not {buckets:,}.")
    reader = store.reads(scope.tenant)
    snapshot = await reader.snapshot(job_id, whole=False)
    job = snapshot.job
    begin = _in_utc(since) or job.created_at
    end = _in_utc(until) or job.finished_at or datetime.fromtimestamp(await reader.now(), UTC)
    if end < begin:
        raise InvalidInput("A timeline ends after it begins.", remedy="Give a `since` that is before `until`.")
    seconds = max((end - begin) / timedelta(seconds=buckets), SHORTEST_SECONDS)
    ended = await store.job_reads(scope.tenant).ended_by_time(job_id, begin, end, seconds, buckets)
    return timeline_view(snapshot, begin, end, seconds, ended)


def _in_utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


async def generations(
    scope: Scope, store: OperationsStore, job_id: str, *, limit: int = 100, after: int | None = None
) -> GenerationPage:
    """One page of the generations of a job, the first one first; `after` is the cursor of the page before."""
    rows = await store.job_reads(scope.tenant).generations(job_id, after or 0, checked_limit(limit))
    if not rows:
        await store.reads(scope.tenant).find_job(job_id)
    page = tuple(generation_view(row) for row in rows)
    return GenerationPage(page, rows[-1].seq if len(rows) == limit else None)


async def task_details(
    scope: Scope, store: OperationsStore, job_id: str, node: str, *, index: int | None = None
) -> TaskDetails:
    """One task with all that it was given, did and made; without an index the node's own."""
    reader, looks = store.reads(scope.tenant), store.job_reads(scope.tenant)
    snapshot = await reader.snapshot(job_id, whole=False)
    known = find_node(snapshot, node)
    if index is not None:
        check_item(snapshot, known, index)
    item = OWN_TASK if index is None else index
    row = await looks.task(job_id, known.name, item)
    attempts = [attempt_view(one) for one in await looks.latest_attempts(job_id, known.name, item, SHOWN_ATTEMPTS)]
    if row is not None and row.status == Status.RUNNING:
        parts = await store.output_reads(scope.tenant).running(job_id, known.name, item, {}, SHOWN_PARTS)
        attempts = [*_running(parts), *attempts]
    checkpoints = await looks.latest_checkpoints(job_id, known.name, item, SHOWN_CHECKPOINTS)
    if index is None:
        has_output, output = await _node_output(scope, store, snapshot, known)
    else:
        has_output = row is not None and row.status == Status.COMPLETED
        output = row.output if has_output and row is not None else None
    shown = row or _not_made(snapshot, known, index)
    return details_view(job_id, shown, has_output, output, attempts[::-1], checkpoints[::-1])


async def results_page(
    scope: Scope,
    store: OperationsStore,
    job_id: str,
    node: str,
    *,
    status: str | None = None,
    limit: int = 100,
    after: int | None = None,
) -> ResultPage:
    """One page of how the tasks of a node stand, by item, each with its output; a page ends early if it is large."""
    check_task_status(status)
    known = find_node(await store.reads(scope.tenant).snapshot(job_id, whole=False), node)
    behind = OWN_TASK - 1 if after is None else after
    looks = store.job_reads(scope.tenant)
    rows, has_more = await looks.results_page(job_id, known.name, status, behind, checked_limit(limit))
    page = tuple(result_view(job_id, known.name, row) for row in rows)
    return ResultPage(page, rows[-1].item if has_more else None)


async def _node_output(scope: Scope, store: OperationsStore, snapshot: Snapshot, node: Node) -> tuple[bool, Any]:
    has_output = _status(snapshot, node) == Status.COMPLETED and kind_of(node).has_output
    if not has_output:
        return False, None
    return True, await store.reads(scope.tenant).node_output(snapshot.job.job_id, node.name)


def _running(parts: Sequence[RunningPart]) -> list[Attempt]:
    return [running_view(parts)] if parts else []


def _not_made(snapshot: Snapshot, node: Node, index: int | None) -> WholeTaskRow:
    """A task that is not made yet has not begun, unless its node ended before."""
    status = _status(snapshot, node)
    is_open = index is not None and status not in (Status.SKIPPED, Status.CANCELLED, Status.FAILED)
    item = OWN_TASK if index is None else index
    return WholeTaskRow(node.name, item, str(Status.PENDING) if is_open else status)


def _status(snapshot: Snapshot, node: Node) -> str:
    return next((one.status for one in job_view(snapshot).nodes if one.node == node.name), str(Status.PENDING))
