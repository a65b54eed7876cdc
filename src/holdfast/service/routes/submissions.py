"""Submitting jobs: one, or many at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
from fastapi import Header, Response
from pydantic import ValidationError

from holdfast.define.definition import Definition
from holdfast.errors import (
    BacklogFull,
    HoldfastError,
    InvalidDefinition,
    InvalidInput,
    NotFound,
    PayloadRefused,
    Refused,
)
from holdfast.operations.batches import SubmitRequest
from holdfast.operations.identity import Permission
from holdfast.operations.submitting import Submission
from holdfast.service.bodies import Batch, Submit, details_of
from holdfast.service.call import Call, CallContext
from holdfast.service.definitions import definition_from, definition_of
from holdfast.service.table import ListOf, RouteTable
from holdfast.views.encoding import VERBATIM

table = RouteTable("jobs")
SubmissionKey = Annotated[
    str | None,
    Header(min_length=1, max_length=500, description="The name of this submission: another way to give `key`."),
]
SUBMIT_ERRORS = (InvalidDefinition, NotFound, Refused, BacklogFull, PayloadRefused)


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What one of many submissions has led to."""

    status: int
    """What `POST /jobs` would have answered."""
    submission: Submission | None
    problem: dict[str, Any] | None = field(metadata=VERBATIM)
    """Why it was refused, if it was: the problem object."""


@table.post(
    "/jobs",
    Permission.SUBMIT,
    answers=Submission,
    status=201,
    also={200: "The same submission made this job before, or it continues."},
    errors=SUBMIT_ERRORS,
)
async def submit_job(call: Call, body: Submit, idempotency_key: SubmissionKey = None) -> Response:
    """Make a job, or find the one that the same submission made before.

    The same workflow with the same inputs, or with the same key, is the same job: send a submission again if you do not
    know whether it arrived. Labels, the correlation id, external ids and the callback's address are no part of that:
    those of the first submission hold.
    """
    submission = await submitted(call, body, idempotency_key)
    if not call.is_ours:
        submission = await call.client.settle_submission(submission)
    headers = {"Location": f"{call.request.url.path}/{submission.job_id}"}
    return call.answer(submission, status_of(submission), headers)


def status_of(submission: Submission) -> int:
    return 201 if submission.answer in ("created", "forced") else 200


async def submit_and_settle(call: CallContext, body: Submit, idempotency_key: str | None) -> Submission:
    """The submission, once a resume that it asks for is answered."""
    return await call.client.settle_submission(await submitted(call, body, idempotency_key))


async def submitted(call: CallContext, body: Submit, idempotency_key: str | None) -> Submission:
    _refuse_ambiguous(body, idempotency_key)
    client = call.client
    return await client.submit(
        await _definition(call, body),
        body.inputs,
        key=body.key if body.key is not None else idempotency_key,
        **_options(body),
        refuse_changed=body.refuse_changed,
    )


async def _definition(call: CallContext, body: Submit) -> Any:
    if body.brings_definition:
        return await call.state.beside.run(lambda: _brought(body))
    if body.definition_hash is not None:
        known = await call.client.workflow(str(body.workflow), definition_hash=body.definition_hash)
        return Definition.from_json(known.definition)
    return await call.client.definition(str(body.workflow))


def _brought(body: Submit) -> Definition:
    if body.source is not None:
        definition = definition_from(body.source.text, body.definition)
    else:
        definition = definition_of(body.definition or {})
    # It is kept with the definition. Of a large one it takes long, too.
    definition.canonical_bytes()
    return definition


def _refuse_ambiguous(body: Submit, idempotency_key: str | None = None) -> None:
    if (body.workflow is None) == (not body.brings_definition):
        raise InvalidInput("A submission names a `workflow`, or brings a `definition`.")
    if body.definition_hash is not None and body.workflow is None:
        raise InvalidInput("`definition_hash` chooses a version of a `workflow`: name it, too.")
    if None not in (body.key, idempotency_key) and body.key != idempotency_key:
        raise InvalidInput("`key` and the header `Idempotency-Key` differ.", remedy="Give one of them.")


@table.post("/jobs/batch", Permission.SUBMIT, answers=ListOf(BatchOutcome))
async def submit_batch(call: Call, body: Batch) -> Response:
    """Make many jobs, at most 1,000, in one transaction.

    The answers stand in the order of the submissions. One that is refused is answered with its problem, and stops no
    other. A job that resumes is not waited for.
    """
    outcomes: dict[int, BatchOutcome] = {}
    requests: dict[int, SubmitRequest] = {}
    known: dict[bytes, Definition | HoldfastError] = {}
    for number, given in enumerate(body.jobs):
        try:
            requests[number] = await _request(call, given, f"body.jobs.{number}", known)
        except HoldfastError as problem:
            outcomes[number] = _refused(problem)
            # A submission may have many mistakes: others are answered before the next one.
            await asyncio.sleep(0)
    made = await call.client.submit_batch(list(requests.values())) if requests else []
    for number, outcome in zip(requests, made, strict=True):
        outcomes[number] = _refused(outcome) if isinstance(outcome, HoldfastError) else _made(outcome)
    return call.items([outcomes[number] for number in range(len(body.jobs))])


async def _request(
    call: CallContext, given: dict[str, Any], place: str, known: dict[bytes, Definition | HoldfastError]
) -> SubmitRequest:
    try:
        body = Submit.model_validate(given)
    except ValidationError as error:
        details = details_of(error.errors(), place)
        raise InvalidInput("The submission is not valid.", errors=details) from None
    _refuse_ambiguous(body)
    if body.definition_hash is not None or body.refuse_changed:
        raise InvalidInput("A batch takes neither `definition_hash` nor `refuse_changed`.")
    return SubmitRequest(
        await _read_once(call, body, known) if body.brings_definition else str(body.workflow),
        body.inputs,
        key=body.key,
        **_options(body),
    )


def _options(body: Submit) -> dict[str, Any]:
    """What one submission and each of a batch may say."""
    return {
        "priority": body.priority,
        "resume": body.resume,
        "force": body.force,
        "labels": body.labels,
        "correlation_id": body.correlation_id,
        "external_ids": body.external_ids,
        "callback_url": body.callback_url,
        "notify": [receiver.rule() for receiver in body.notify],
        "like": body.like,
    }


async def _read_once(call: CallContext, body: Submit, known: dict[bytes, Definition | HoldfastError]) -> Definition:
    """That of many submissions of a batch is read once."""
    written = orjson.dumps(body.model_dump(include={"definition", "source"}))
    if written not in known:
        try:
            known[written] = await call.state.beside.run(lambda: _brought(body))
        except HoldfastError as problem:
            known[written] = problem
    found = known[written]
    if isinstance(found, HoldfastError):
        raise found
    return found


def _refused(problem: HoldfastError) -> BatchOutcome:
    return BatchOutcome(problem.http_status, None, problem.to_problem())


def _made(submission: Submission) -> BatchOutcome:
    return BatchOutcome(status_of(submission), submission, None)
