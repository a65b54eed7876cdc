"""The tasks that a worker over HTTP has claimed, as the service shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.define.secrets import Secrets, may_have_secrets
from holdfast.operations.lease_tokens import LeaseFacts, token_of
from holdfast.store.bound_rows import BoundWorker
from holdfast.store.leases import LEASE_SLACK_SECONDS
from holdfast.store.records import JobFacts, Lease
from holdfast.tracing import Place
from holdfast.views.work import ClaimedTask, ResumePoint, SecretPlace
from holdfast.worker.ports import TaskSource

NO_FACTS = JobFacts(1, {})
"""Of a job that was pruned since the claim."""
MOST_DEFINITIONS = 256
_secrets: dict[str, Secrets] = {}
"""By the hash of a definition, which no other one has."""


async def claimed_tasks(
    source: TaskSource,
    secret: bytes,
    worker: BoundWorker,
    leases: Sequence[Lease],
    claimed_at: int,
    *,
    inputs_once: bool = False,
) -> tuple[tuple[ClaimedTask, ...], dict[str, Any] | None]:
    """The tasks of one claim, each with its signed lease and with what its handler may ask of its job.

    With `inputs_once` the tasks have no inputs; those of each job come behind them. A job may have large ones, and many
    tasks.
    """
    facts = await source.job_facts(sorted({lease.job_id for lease in leases})) if leases else {}
    tasks = []
    for lease in leases:
        job = facts.get(lease.job_id, NO_FACTS)
        places = await _places(source, lease, job)
        tasks.append(_task(secret, worker, lease, job, claimed_at, places, None if inputs_once else job.inputs))
    return tuple(tasks), {job_id: job.inputs for job_id, job in facts.items()} if inputs_once else None


async def _places(source: TaskSource, lease: Lease, job: JobFacts) -> tuple[SecretPlace, ...]:
    """Where the params of a task refer to secrets."""
    if not job.definition_hash or not may_have_secrets(lease.params, lease.params_ref):
        return ()
    if job.definition_hash not in _secrets:
        while len(_secrets) >= MOST_DEFINITIONS:
            del _secrets[next(iter(_secrets))]
        _secrets[job.definition_hash] = Secrets(await source.definition(job.definition_hash))
    found = _secrets[job.definition_hash].of(lease.node, lease.item)
    return tuple(SecretPlace(path, names) for path, names in found.places) if found is not None else ()


def _task(
    secret: bytes,
    worker: BoundWorker,
    lease: Lease,
    job: JobFacts,
    claimed_at: int,
    places: tuple[SecretPlace, ...],
    inputs: dict[str, Any] | None,
) -> ClaimedTask:
    signed = LeaseFacts(
        lease.job_id,
        lease.node,
        lease.item,
        lease.epoch,
        worker.worker_id,
        lease.attempt,
        claimed_at,
        lease.handler,
        job.tenant,
        lease.owner,
        job.definition_hash,
        lease.has_contract,
    )
    place = Place.parse(job.traceparent)
    ends_after = timedelta(seconds=lease.timeout_seconds + LEASE_SLACK_SECONDS)
    return ClaimedTask(
        lease=token_of(secret, signed),
        handler=lease.handler,
        params=lease.params,
        inputs=inputs,
        attempt=lease.attempt,
        resume_point=ResumePoint(*lease.resume_point) if lease.resume_point is not None else None,
        timeout_seconds=lease.timeout_seconds,
        deadline=datetime.fromtimestamp(claimed_at / 1_000_000, UTC) + ends_after,
        job_id=lease.job_id,
        node=lease.node,
        index=lease.item if lease.item >= 0 else None,
        epoch=lease.epoch,
        generation=job.generation,
        definition_hash=job.definition_hash,
        job_traceparent=job.traceparent,
        tenant=job.tenant,
        correlation_id=job.correlation_id,
        external_ids=job.external_ids or {},
        traceparent=str(place.of_task(lease.job_id, lease.node, lease.item, job.generation)) if place else None,
        checkpoint_seq=lease.checkpoint_seq,
        suspect=lease.suspect,
        undo=lease.is_undo,
        owner=lease.owner,
        params_ref=lease.params_ref,
        output_ref=lease.output_ref,
        secrets=places,
    )
