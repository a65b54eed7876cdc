"""How a job stands, for those who get mails and webhooks about it."""

from __future__ import annotations

from holdfast.errors import NotFound, PayloadUnavailable
from holdfast.operations import reading
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.store.notify_rows import JobFacts
from holdfast.views.encoding import to_json
from holdfast.views.jobs import Job

LONGEST_LINE = 300
SHOWN_DELIVERABLES = 5


async def job_facts(store: OperationsStore, tenant: str, job_id: str) -> JobFacts | None:
    """The facts of a job; None if it is gone, or if a large value of it cannot be read now."""
    try:
        job = await reading.job(Scope(tenant, "holdfast"), store, job_id)
    except (NotFound, PayloadUnavailable):
        return None
    recovery = job.outcome.recovery
    return JobFacts(
        job.status,
        job.generation,
        to_json(job.outcome),
        _failed(job),
        _survived(job),
        recovery[0].command if recovery else "",
    )


def _failed(job: Job) -> str:
    """`NOT_A_PHOTO in shrink[1]: 1 of 3 items failed; the first: letter.txt is not a photo`"""
    error = job.error
    if error is None:
        return f"{job.counts.failed:,} of {job.counts.total:,} tasks failed" if job.counts.failed else ""
    place = f" in {error.node}" if error.node is not None else ""
    place += f"[{error.index}]" if error.index is not None and error.index >= 0 else ""
    message = " ".join((error.message or "").split())
    line = f"{error.code}{place}: {message}"
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def _survived(job: Job) -> str:
    """`2 of 3 tasks are done and stay; cogs: 234 in silver/flood`"""
    parts = [f"{job.counts.completed:,} of {job.counts.total:,} tasks are done and stay"] if job.counts.total else []
    for name, made in list(job.outcome.deliverables.items())[:SHOWN_DELIVERABLES]:
        if made.usable:
            parts.append(f"{name}: {made.count:,}" + (f" in {made.location}" if made.location is not None else ""))
    return "; ".join(parts)
