"""Many submissions at once: one transaction for all that are valid; one that is not stops no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast import tracing
from holdfast.define.definition import Definition
from holdfast.errors import HoldfastError, InvalidInput, Unreachable
from holdfast.operations.marks import check_marks
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.operations.submitting import Submission, new_job, newest_definition, resume_failed, submit_each
from holdfast.store.records import NewJob

LONGEST_BATCH = 1000


@dataclass(frozen=True, slots=True)
class SubmitRequest:
    """One of many submissions, with the arguments of `Client.submit`."""

    definition: Definition | str
    """A definition, or the id of a workflow that is registered."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    priority: int = 0
    resume: bool = False
    force: bool = False
    labels: Mapping[str, str] | None = None
    correlation_id: str | None = None
    external_ids: Mapping[str, str] | None = None
    callback_url: str | None = None
    notify: Sequence[Mapping[str, Any]] | None = None
    like: str | None = None


async def submit_batch(
    scope: Scope, store: OperationsStore, requests: Sequence[SubmitRequest]
) -> list[Submission | HoldfastError]:
    """What each submission has led to, in their order, or why it was refused. Those that are valid commit together."""
    if len(requests) > LONGEST_BATCH:
        raise InvalidInput(f"A batch has at most {LONGEST_BATCH:,} submissions, not {len(requests):,}.")
    outcomes: dict[int, Submission | HoldfastError] = {}
    jobs: dict[int, NewJob] = {}
    known: dict[str, Definition | HoldfastError] = {}
    with tracing.submitting(scope.traceparent, {"holdfast.submissions": len(requests)}) as traceparent:
        for number, request in enumerate(requests):
            try:
                jobs[number] = await _job(scope, store, request, known, traceparent)
            except Unreachable:
                raise
            except HoldfastError as problem:
                outcomes[number] = problem
        made = await submit_each(store, list(jobs.values())) if jobs else []
    for (number, job), outcome in zip(jobs.items(), made, strict=True):
        outcomes[number] = await _continued(scope, store, requests[number], job, outcome)
    return [outcomes[number] for number in range(len(requests))]


async def _job(
    scope: Scope,
    store: OperationsStore,
    request: SubmitRequest,
    known: dict[str, Definition | HoldfastError],
    traceparent: str | None,
) -> NewJob:
    if request.resume and request.force:
        raise InvalidInput(
            "A submission cannot both resume a job and force a new one.",
            remedy="Resume to keep what completed; force to start again.",
        )
    inputs = request.inputs
    if request.like is not None:
        inputs = {**(await store.reads(scope.tenant).snapshot(request.like)).job.inputs, **inputs}
    return new_job(
        await _definition(scope, store, request.definition, known),
        inputs,
        key=request.key,
        tenant=scope.tenant,
        priority=request.priority,
        force=request.force,
        labels=request.labels,
        marks=check_marks(request.correlation_id, request.external_ids, request.callback_url, request.notify),
        limit_bytes=store.payload_limit_bytes,
        submitter=scope.submitter,
        request_id=scope.origin.request_id,
        traceparent=traceparent,
    )


async def _definition(
    scope: Scope, store: OperationsStore, wanted: Definition | str, known: dict[str, Definition | HoldfastError]
) -> Definition:
    """That of an id is read once for all submissions of a batch."""
    if isinstance(wanted, Definition):
        return wanted
    if wanted not in known:
        try:
            known[wanted] = await newest_definition(scope, store, wanted)
        except Unreachable:
            raise
        except HoldfastError as problem:
            known[wanted] = problem
    found = known[wanted]
    if isinstance(found, HoldfastError):
        raise found
    return found


async def _continued(
    scope: Scope, store: OperationsStore, request: SubmitRequest, job: NewJob, outcome: Submission | HoldfastError
) -> Submission | HoldfastError:
    if isinstance(outcome, HoldfastError) or not request.resume or outcome.answer != "previously_failed":
        return outcome
    try:
        return await resume_failed(scope, store, job, outcome)
    except Unreachable:
        raise
    except HoldfastError as problem:
        return problem
