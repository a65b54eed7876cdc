"""Acknowledging: a person has seen that a job failed or is partial, and the job asks for nothing more."""

from __future__ import annotations

from holdfast.errors import Refused
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.remedies import Remedy
from holdfast.views.interventions import Acknowledgement


async def acknowledge(scope: Scope, store: OperationsStore, job_id: str, *, reason: str = "") -> Acknowledgement:
    """Note who has seen a failed or partial job, and why it needs nothing. A recovery of the job ends it."""
    row = await store.acknowledge(scope.tenant, job_id, scope.actor, reason, scope.origin)
    if row is not None:
        return Acknowledgement(row.actor, row.reason, row.at)
    status = (await store.reads(scope.tenant).snapshot(job_id, whole=False)).job.status
    raise Refused(
        f"Job {job_id} was not acknowledged: it is {status}. Only failed and partial jobs can be acknowledged.",
        remedy=Remedy("List the jobs that can be acknowledged with", "status", flags=("--unacknowledged",)),
        instance=job_id,
    )
