"""Everything that can be read: jobs, their nodes, tasks, attempts, events and results, and the fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from holdfast.core.states import JobStatus
from holdfast.define.source import did_you_mean
from holdfast.errors import InvalidInput, NotFound
from holdfast.operations.ports import OperationsStore, ReadStore
from holdfast.operations.scope import Scope
from holdfast.operations.submitting import identity_of_key
from holdfast.views.fleet import Fleet, fleet_view
from holdfast.views.history import (
    Artifact,
    Attempt,
    Event,
    FailedGroup,
    Task,
    artifact_view,
    attempt_view,
    event_view,
    failed_group,
    task_view,
)
from holdfast.views.jobs import Job, JobPage, Statistics, job_view, summary_view
from holdfast.views.why import Why, why_view

PAGE_LENGTH = 20
LONGEST_PAGE = 1000
SHOWN_NODES = 20


async def find_job(scope: Scope, store: OperationsStore, text: str) -> str:
    """The id of a job, from its id or from an ending that no other job has."""
    return await store.reads(scope.tenant).find_job(text)


async def job(scope: Scope, store: OperationsStore, job_id: str, *, whole: bool = True) -> Job:
    """A job with its nodes and its outcome as it is now; without `whole` inputs, result and advice are left out."""
    return job_view(await store.reads(scope.tenant).snapshot(job_id, whole=whole))


async def jobs(
    scope: Scope,
    store: OperationsStore,
    *,
    status: str | Sequence[str] | None = None,
    workflow_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    key: str | None = None,
    limit: int = PAGE_LENGTH,
    after: str | None = None,
) -> JobPage:
    """One page of jobs, newest first. `since` and `until` bound the time of submission; `key` needs a workflow.

    `after` is the cursor of the page before.
    """
    if key is not None and workflow_id is None:
        raise InvalidInput("A key belongs to a workflow.", remedy="Name the workflow whose key it is.")
    rows = await store.reads(scope.tenant).jobs(
        _checked_limit(limit) + 1,
        before=_job_of_cursor(after) if after is not None else None,
        statuses=_checked_statuses(status) if status is not None else None,
        workflow_id=workflow_id,
        identity=identity_of_key(scope.tenant, workflow_id, key) if key is not None and workflow_id else None,
        since=since,
        until=until,
    )
    shown = tuple(summary_view(row) for row in rows[:limit])
    return JobPage(shown, shown[-1].job_id if len(rows) > limit else None)


async def tasks(
    scope: Scope,
    store: OperationsStore,
    job_id: str,
    *,
    node: str | None = None,
    status: str | None = None,
    limit: int = LONGEST_PAGE,
    after: tuple[str, int | None] | None = None,
) -> list[Task]:
    """One page of a job's tasks, by node and index; `after` is node and index of the last task of the page before."""
    reader = store.reads(scope.tenant)
    await _check_node(reader, job_id, node)
    before = ("", -1) if after is None else (after[0], -1 if after[1] is None else after[1])
    rows = await reader.tasks(job_id, node=node, status=status, after=before, limit=_checked_limit(limit))
    return [task_view(row) for row in rows]


async def attempts(
    scope: Scope,
    store: OperationsStore,
    job_id: str,
    *,
    node: str | None = None,
    index: int | None = None,
    limit: int = LONGEST_PAGE,
) -> list[Attempt]:
    """Attempts that failed or printed something, in the order in which they ended."""
    reader = store.reads(scope.tenant)
    await _check_node(reader, job_id, node)
    return [attempt_view(row) for row in await reader.attempts(job_id, node, index, limit)]


async def failures(scope: Scope, store: OperationsStore, job_id: str, node: str) -> list[FailedGroup]:
    """The failed items of a fan-out, those that failed in the same way together; at most five groups."""
    return [failed_group(row) for row in await store.reads(scope.tenant).failed_items(job_id, node)]


async def retries(scope: Scope, store: OperationsStore, job_id: str) -> int:
    """How many attempts failed or were lost and were followed by another."""
    return await store.reads(scope.tenant).retries(job_id)


async def events(
    scope: Scope, store: OperationsStore, job_id: str, *, after: int = 0, node: str | None = None
) -> AsyncIterator[Event]:
    """The events of a job so far, in order, from the number `after` on."""
    reader = store.reads(scope.tenant)
    await _check_node(reader, job_id, node)
    async for row in reader.events(job_id, after, node):
        yield event_view(row)


async def outputs(
    scope: Scope, store: OperationsStore, job_id: str, nodes: Sequence[str] | None = None
) -> dict[str, Any]:
    """The outputs of these nodes, or of all that have begun, by name."""
    return await store.reads(scope.tenant).outputs(job_id, nodes)


async def artifacts(scope: Scope, store: OperationsStore, job_id: str) -> list[Artifact]:
    """The files that a job's tasks have published, by node, index and name."""
    return [artifact_view(row) for row in await store.reads(scope.tenant).artifacts(job_id)]


async def why(scope: Scope, store: OperationsStore, job_id: str) -> Why:
    """Why a job is not finished, or why it ended as it did."""
    return why_view(await store.reads(scope.tenant).diagnosis(job_id))


async def fleet(store: OperationsStore) -> Fleet:
    """The processes that serve the database, for all tenants, and the work that none of them serves."""
    return fleet_view(await store.reads().fleet())


async def is_served(store: OperationsStore, job_id: str | None = None) -> bool:
    """Whether a live orchestrator would drive this job, or any job."""
    return bool(await store.reads().orchestrators(job_id))


async def statistics(scope: Scope, store: OperationsStore, *, since: datetime | None = None) -> Statistics:
    """How many jobs there are by status and by workflow, and how many tasks wait and run; `since` bounds the jobs."""
    reader = store.reads(scope.tenant)
    by_status: Counter[str] = Counter()
    workflows: dict[str, dict[str, int]] = {}
    for count in await reader.count_jobs(since):
        by_status[count.status] += count.jobs
        workflows.setdefault(count.workflow_id, {})[count.status] = count.jobs
    queue = await reader.count_queue()
    return Statistics({str(status): by_status[status] for status in JobStatus}, workflows, queue.queued, queue.running)


async def _check_node(reader: ReadStore, job_id: str, node: str | None) -> None:
    """Refuse a job that does not exist, and a node that its workflow does not have, if the workflow can be read."""
    snapshot = await reader.snapshot(job_id, whole=False)
    known = [one.name for one in snapshot.definition.nodes]
    if node is None or node in known or snapshot.unreadable is not None:
        return
    shown = ", ".join(known[:SHOWN_NODES])
    meant = did_you_mean(node, known)
    raise NotFound(
        f"The job's workflow has no node '{node}'.{f' {meant}' if meant else ''}", remedy=f"Its nodes are: {shown}"
    )


def _checked_limit(limit: int) -> int:
    if not 1 <= limit <= LONGEST_PAGE:
        raise InvalidInput(f"A page has 1 to {LONGEST_PAGE:,} entries, not {limit:,}.")
    return limit


def _checked_statuses(status: str | Sequence[str]) -> list[str]:
    wanted = [status] if isinstance(status, str) else list(status)
    for one in wanted:
        if one not in set(JobStatus):
            raise InvalidInput(f"'{one}' is not the status of a job.", remedy=f"Use one of: {', '.join(JobStatus)}")
    return wanted


def _job_of_cursor(cursor: str) -> str:
    try:
        return str(UUID(cursor))
    except ValueError:
        raise InvalidInput(f"'{cursor}' is not a cursor.", remedy="Use the cursor that the page before gave.") from None
