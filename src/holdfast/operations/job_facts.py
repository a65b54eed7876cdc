"""How a job stands, for those who get mails and webhooks about it."""

from __future__ import annotations

from holdfast.errors import NotFound, PayloadUnavailable
from holdfast.operations import reading
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.store.notify_rows import JobFacts
from holdfast.views.encoding import to_json
from holdfast.views.history import Failure
from holdfast.views.jobs import Job

LONGEST_LINE = 300
SHOWN_DELIVERABLES = 5


async def job_facts(store: OperationsStore, tenant: str, job_id: str) -> JobFacts | None:
    """The facts of a job; None if it is gone, or if a large value of it cannot be read now."""
    scope = Scope(tenant, "holdfast")
    try:
        job = await reading.job(scope, store, job_id)
        failed = _line(job.error) if job.error is not None else await _failed(scope, store, job)
    except (NotFound, PayloadUnavailable):
        return None
    recovery = job.outcome.recovery
    return JobFacts(
        job.status,
        job.generation,
        to_json(job.outcome),
        failed,
        _survived(job),
        recovery[0].command if recovery else "",
    )


async def _failed(scope: Scope, store: OperationsStore, job: Job) -> str:
    """What failed in a job that goes on, or that ended without an error of its own: its first node with a failure."""
    nodes = [node for node in job.nodes if node.counts.failed]
    if not nodes:
        return ""
    node, more = nodes[0], len(nodes) - 1
    line = f"{node.counts.failed:,} of {node.counts.total:,} tasks failed in {node.node}"
    if node.error is not None:
        line = _line(node.error)
    elif groups := await reading.failures(scope, store, job.job_id, node.node, limit=1):
        one, first = groups[0], groups[0].items[0]
        what = "batches" if not node.has_task_per_item and node.width else "items"
        message = f"{node.counts.failed:,} of {node.counts.total:,} {what} failed; the first: {one.message}"
        line = f"{one.code} in {node.node}[{first}]: {message}"
    line = _cut(line)
    return f"{line}; and in {more} more {'nodes' if more > 1 else 'node'}" if more else line


def _line(error: Failure) -> str:
    """`NOT_A_PHOTO in shrink[1]: 1 of 3 items failed; the first: letter.txt is not a photo`"""
    place = f" in {error.node}" if error.node is not None else ""
    place += f"[{error.index}]" if error.index is not None and error.index >= 0 else ""
    return _cut(f"{error.code}{place}: {error.message or ''}")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def _survived(job: Job) -> str:
    """`2 of 3 tasks are done and stay; cogs: 234 in silver/flood`"""
    parts = [f"{job.counts.completed:,} of {job.counts.total:,} tasks are done and stay"] if job.counts.total else []
    for name, made in list(job.outcome.deliverables.items())[:SHOWN_DELIVERABLES]:
        if made.usable:
            parts.append(f"{name}: {made.count:,}" + (f" in {made.location}" if made.location is not None else ""))
    return "; ".join(parts)
