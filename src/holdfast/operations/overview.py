"""What a tenant has: its workflows, its queues, and how many jobs ended in each hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.core.states import JobStatus
from holdfast.errors import InvalidInput
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.store.read_rows import EndedJobs, QueueLine
from holdfast.views.fleet import fleet_view
from holdfast.views.gates import queue_pause
from holdfast.views.overview import Hour, QueueState, WorkflowSummary

SHOWN_HOURS = 24
MOST_HOURS = 24 * 31


async def workflows(scope: Scope, store: OperationsStore) -> list[WorkflowSummary]:
    """The workflows of a tenant by id: the definition that was registered last, and the jobs by status."""
    reader = store.reads(scope.tenant)
    jobs: dict[str, dict[str, int]] = {}
    for count in await reader.count_jobs(None):
        jobs.setdefault(count.workflow_id, {})[count.status] = count.jobs
    return [
        WorkflowSummary(*row, {str(status): jobs.get(row.workflow_id, {}).get(status, 0) for status in JobStatus})
        for row in await reader.workflows()
    ]


async def queues(scope: Scope, store: OperationsStore) -> list[QueueState]:
    """The queues that have tasks of the tenant, that live workers name or that are paused, and who serves them."""
    reader = store.reads(scope.tenant)
    rows = {row.queue: row for row in await reader.queues()}
    fleet = fleet_view(await reader.fleet())
    named = {queue for worker in fleet.workers for queue in worker.queues or ()}
    limits = (row for row in await store.gates().limits(scope.tenant) if row.name.startswith("queue:"))
    pauses = {row.name.removeprefix("queue:"): queue_pause(row) for row in limits if row.paused_at is not None}
    return [
        QueueState(
            *rows.get(queue, QueueLine(queue, 0, 0, 0, None)),
            workers=tuple(one.name for one in fleet.workers if one.queues is None or queue in one.queues),
            unserved=tuple(one for one in fleet.unserved if one.queue == queue and queue in rows),
            paused=pauses.get(queue),
        )
        for queue in sorted(named | set(rows) | set(pauses))
    ]


async def hours(scope: Scope, store: OperationsStore, number: int = SHOWN_HOURS) -> list[Hour]:
    """How many jobs of a tenant ended in each of the last hours, oldest first; the last hour is not over."""
    if not 1 <= number <= MOST_HOURS:
        raise InvalidInput(f"A list has 1 to {MOST_HOURS} hours, not {number:,}.")
    reader = store.reads(scope.tenant)
    now = datetime.fromtimestamp(await reader.now(), UTC)
    last = now.replace(minute=0, second=0, microsecond=0)
    starts = [last - timedelta(hours=ago) for ago in range(number - 1, -1, -1)]
    rows = {row.start.astimezone(UTC): row for row in await reader.ended_by_hour(starts[0])}
    return [Hour(*rows.get(start, EndedJobs(start))) for start in starts]
