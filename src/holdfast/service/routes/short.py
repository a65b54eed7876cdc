"""Short forms: submitting a workflow by its name with its inputs as the body, and trying again what has failed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response

from holdfast.errors import Refused
from holdfast.operations.identity import Permission
from holdfast.operations.submitting import Submission
from holdfast.operations.verbs import Verb, VerbResult
from holdfast.service.bodies import Correcting, Resume, Retry, Submit
from holdfast.service.call import Call, JobId
from holdfast.service.routes.submissions import SUBMIT_ERRORS, SubmissionKey, status_of, submit_and_settle
from holdfast.service.routes.verbs import SENT, IdempotencyKey, Wait, carry_out_verb
from holdfast.service.table import RouteTable
from holdfast.views.encoding import to_json

PREFIX = "/api"
table = RouteTable("short forms")
stage_table = RouteTable("verbs")
JobEnding = Annotated[
    str, Path(description="The id of a job, or an ending of it that no other job has.", max_length=64)
]
Stage = Annotated[str, Path(description="The number of a stage, or the name of its node.", max_length=200)]


@table.post(
    "/jobs/submit/{workflow}",
    Permission.SUBMIT,
    answers=Submission,
    status=201,
    also={200: "The same submission made this job before, or it continues."},
    errors=SUBMIT_ERRORS,
)
async def submit_by_name(
    call: Call,
    workflow: Annotated[str, Path(description="The id of a workflow that is registered.", max_length=200)],
    inputs: dict[str, Any],
    resume: Annotated[bool, Query(description="If the same submission failed before, continue that job.")] = False,
    force: Annotated[bool, Query(description="Make a new job even if the same submission has made one.")] = False,
    idempotency_key: SubmissionKey = None,
) -> Response:
    """Submit a workflow with the inputs that are the body.

    The answer is that of `POST /jobs`, but its `status` says what the submission has led to: `created`,
    `already_processing`, `already_completed`, `previously_failed`, `resumed` or `forced`.
    """
    body = Submit(workflow=workflow, inputs=inputs, resume=resume, force=force)
    submission = await submit_and_settle(call, body, idempotency_key)
    return call.answer({**to_json(submission), "status": submission.answer}, status_of(submission))


@table.post("/jobs/{job}/retry", Permission.OPERATE, answers=VerbResult, also=SENT, errors=(Refused,))
async def retry_job_short(
    call: Call, job: JobEnding, body: Resume, wait: Wait = 0, idempotency_key: IdempotencyKey = None
) -> Response:
    """Continue a job that has failed, is partial or was cancelled, where it stopped. The same as `resume`."""
    return await carry_out_verb(call, await call.client.find_job(job), Verb.RESUME, body, wait, idempotency_key)


@table.post("/jobs/retry-stage/{job}/{stage}", Permission.OPERATE, answers=VerbResult, also=SENT, errors=(Refused,))
async def retry_stage_short(
    call: Call, job: JobEnding, stage: Stage, body: Correcting, wait: Wait = 0, idempotency_key: IdempotencyKey = None
) -> Response:
    """Run the failed tasks of a stage again, and what follows it."""
    job_id = await call.client.find_job(job)
    return await carry_out_verb(call, job_id, Verb.RETRY, Retry(node=stage, **dict(body)), wait, idempotency_key)


@stage_table.post("/jobs/{job_id}/retry-stage", Permission.OPERATE, answers=VerbResult, also=SENT, errors=(Refused,))
async def retry_stage_of_job(
    call: Call, job_id: JobId, body: Retry, wait: Wait = 0, idempotency_key: IdempotencyKey = None
) -> Response:
    """Run the failed tasks of a stage again, and what follows it. The same as `retry`."""
    return await carry_out_verb(call, job_id, Verb.RETRY, body, wait, idempotency_key)
