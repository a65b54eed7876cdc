"""Everything that can be read: jobs, their nodes, tasks, attempts, events and results, and the fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from holdfast.core.states import JOB_TERMINAL, JobStatus
from holdfast.define.definition import Definition, read_pinned
from holdfast.errors import InvalidInput, NotFound, Refused
from holdfast.operations.data import check_task_status
from holdfast.operations.labels import check_labels
from holdfast.operations.marks import check_correlation_id
from holdfast.operations.nodes import check_any_item, check_item, find_node
from holdfast.operations.ports import OperationsStore, ReadStore
from holdfast.operations.scope import Scope
from holdfast.operations.submitting import identity_of_key
from holdfast.remedies import Remedy
from holdfast.store.job_filter import JobFilter
from holdfast.views.definitions import JobDefinition, definition_view
from holdfast.views.fleet import Fleet, fleet_view
from holdfast.views.history import (
    Attempt,
    Event,
    FailedGroup,
    Retries,
    Task,
    attempt_view,
    event_view,
    failed_group,
    task_view,
)
from holdfast.views.jobs import Job, JobPage, Statistics, job_view, summary_view
from holdfast.views.why import Why, why_view

PAGE_LENGTH = 20
LONGEST_PAGE = 1000
SHOWN_GROUPS = 5
SHOWN_NODES = 20
ASKING = (JobStatus.FAILED, JobStatus.PARTIAL)
"""The statuses of jobs that ask for a person until one acknowledges them."""


async def find_job(scope: Scope, store: OperationsStore, text: str) -> str:
    """The id of a job, from its id, from an ending that no other job has, or from `last`: the newest."""
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
    code: str | None = None,
    fingerprint: str | None = None,
    labels: Mapping[str, str] | None = None,
    correlation_id: str | None = None,
    text: str | None = None,
    unacknowledged: bool = False,
    limit: int = PAGE_LENGTH,
    after: str | None = None,
) -> JobPage:
    """One page of jobs, newest first; `after` is the cursor of the page before.

    `since` and `until` bound the time of submission. `code` and `fingerprint` find jobs that failed with it, or in
    which a node or a task did. `text` is the beginning or the end of an id, a key, or the beginning of a correlation id
    or a workflow id. `unacknowledged` finds failed and partial jobs that no person has acknowledged.
    """
    reader = store.reads(scope.tenant)
    statuses = _checked_statuses(status) if status is not None else None
    if unacknowledged:
        statuses = [one for one in ASKING if statuses is None or one in statuses]
    only = JobFilter(
        statuses=statuses,
        workflow_id=workflow_id,
        identities=await identities_of_key(scope, reader, workflow_id, key) if key is not None else None,
        since=since,
        until=until,
        code=code,
        fingerprint=fingerprint,
        correlation_id=check_correlation_id(correlation_id) if correlation_id is not None else None,
        text=text,
        text_identities=await identities_of_key(scope, reader, workflow_id, text) if text is not None else (),
        labels=check_labels(labels) if labels else None,
        unacknowledged=unacknowledged,
    )
    before = job_of_cursor(after) if after is not None else None
    page = await reader.jobs(checked_limit(limit), before=before, only=only)
    return JobPage(tuple(summary_view(row) for row in page.lines), page.after)


async def identities_of_key(scope: Scope, reader: ReadStore, workflow_id: str | None, key: str) -> list[str]:
    """What a key makes of each workflow that the tenant has, or of one: a job has no other trace of its key."""
    workflow_ids = [workflow_id] if workflow_id is not None else await reader.workflow_ids()
    return [identity_of_key(scope.tenant, one, key) for one in workflow_ids]


async def tasks(
    scope: Scope,
    store: OperationsStore,
    job_id: str,
    *,
    node: str | None = None,
    status: str | None = None,
    fingerprint: str | None = None,
    limit: int = LONGEST_PAGE,
    after: tuple[str, int | None] | None = None,
) -> list[Task]:
    """One page of a job's tasks, by node and index; `after` is node and index of the last task of the page before.

    With a `fingerprint`, those that failed in this way.
    """
    reader = store.reads(scope.tenant)
    check_task_status(status)
    name = await check_node(reader, job_id, node)
    before = (name or "", -2) if after is None else (name or after[0], -1 if after[1] is None else after[1])
    rows = await reader.tasks(
        job_id, node=name, status=status, after=before, limit=checked_limit(limit), fingerprint=fingerprint
    )
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
    snapshot = await reader.snapshot(job_id, whole=False)
    known = find_node(snapshot, node) if node is not None else None
    if index is not None and known is not None:
        check_item(snapshot, known, index)
    elif index is not None:
        check_any_item(snapshot, index)
    name = known.name if known is not None else None
    return [attempt_view(row) for row in await reader.attempts(job_id, name, index, limit)]


async def failures(
    scope: Scope, store: OperationsStore, job_id: str, node: str, *, limit: int = SHOWN_GROUPS
) -> list[FailedGroup]:
    """The failed items of a node, those that failed in the same way together: the largest groups, at most `limit`."""
    reader = store.reads(scope.tenant)
    name = await check_node(reader, job_id, node)
    return [failed_group(row) for row in await reader.failed_items(job_id, name or node, limit)]


async def job_definition(
    scope: Scope, store: OperationsStore, job_id: str, *, generation: int | None = None
) -> JobDefinition:
    """The definition and the inputs that a generation of a job follows; None: the present generation."""
    pins = await store.reads(scope.tenant).pins(job_id)
    present = pins[0].present
    wanted = present if generation is None else generation
    if not 1 <= wanted <= present:
        there = f"generations 1 to {present}" if present > 1 else "generation 1 alone"
        raise NotFound(
            f"Job {job_id} has no generation {wanted}. It has {there}.",
            remedy=Remedy("See what the present one follows with", "definition", job_id),
            instance=job_id,
        )
    # Two at most: that of the generation, and the one before, with which it is compared.
    hashes = {pin.definition_hash for pin in [pin for pin in pins if pin.generation <= wanted][-2:]}
    stored = {one: await store.definition(one) for one in hashes}
    return definition_view(job_id, wanted, pins, stored, {one: _readable(stored[one]) for one in hashes})


def _readable(stored: bytes) -> Definition | Refused:
    try:
        return read_pinned(stored)
    except Refused as problem:
        return problem


async def retries(scope: Scope, store: OperationsStore, job_id: str) -> Retries:
    """How many attempts failed or were lost and were followed by another."""
    reader = store.reads(scope.tenant)
    number, lost = await reader.retries(job_id)
    if not number:
        await check_node(reader, job_id, None)
    return Retries(number, lost)


async def events(
    scope: Scope, store: OperationsStore, job_id: str, *, after: int = 0, node: str | None = None
) -> AsyncIterator[Event]:
    """The events of a job so far, in order, from the number `after` on."""
    reader = store.reads(scope.tenant)
    name = await check_node(reader, job_id, node)
    async for row in reader.events(job_id, after, name):
        yield event_view(row)


async def outputs(
    scope: Scope, store: OperationsStore, job_id: str, nodes: Sequence[str] | None = None
) -> dict[str, Any]:
    """The outputs of these nodes, or of all that have begun, by name."""
    reader = store.reads(scope.tenant)
    found = await reader.outputs(job_id, nodes)
    if not found:
        await check_node(reader, job_id, None)
    return found


async def why(scope: Scope, store: OperationsStore, job_id: str) -> Why:
    """Why a job is not finished, or why it ended as it did."""
    reader = store.reads(scope.tenant)
    diagnosis = await reader.diagnosis(job_id)
    failures = {}
    if diagnosis.snapshot.job.status in JOB_TERMINAL:
        for name, row in diagnosis.snapshot.nodes.items():
            if row.failed:
                rows = await reader.failed_items(job_id, name, SHOWN_GROUPS)
                failures[name] = tuple(failed_group(one) for one in rows)
    return why_view(diagnosis, failures)


async def fleet(scope: Scope, store: OperationsStore) -> Fleet:
    """The processes that serve the database, and the work that none of them serves.

    Processes serve all tenants. Who does not administer the installation sees only jobs and tasks of the own tenant
    with them.
    """
    return fleet_view(await store.reads(scope.looks_at).fleet())


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


async def check_node(reader: ReadStore, job_id: str, node: str | None) -> str | None:
    """The name of the node that is meant. Refuses a job that does not exist, and a node that its workflow lacks."""
    snapshot = await reader.snapshot(job_id, whole=False)
    return find_node(snapshot, node).name if node is not None else None


def checked_limit(limit: int) -> int:
    if not 1 <= limit <= LONGEST_PAGE:
        raise InvalidInput(f"A page has 1 to {LONGEST_PAGE:,} entries, not {limit:,}.")
    return limit


def _checked_statuses(status: str | Sequence[str]) -> list[str]:
    wanted = [status] if isinstance(status, str) else list(status)
    for one in wanted:
        if one not in set(JobStatus):
            raise InvalidInput(f"'{one}' is not the status of a job.", remedy=f"Use one of: {', '.join(JobStatus)}")
    return wanted


def job_of_cursor(cursor: str) -> str:
    try:
        return str(UUID(cursor))
    except ValueError:
        raise InvalidInput(f"'{cursor}' is not a cursor.", remedy="Use the cursor that the page before gave.") from None
