"""The verbs: what one would do to a job, and doing it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Header, Path, Query, Response
from pydantic import ValidationError

from holdfast.errors import InvalidInput, NotFound, Refused
from holdfast.operations.identity import Permission
from holdfast.operations.requests import KEY_LENGTH, Keyed, keyed
from holdfast.operations.verbs import Plan, Verb, VerbRequest, VerbResult
from holdfast.service.bodies import (
    BODIES,
    Because,
    Clear,
    PlanOf,
    Reasoned,
    Resume,
    Retry,
    Set,
    Skip,
    Undo,
    details_of,
)
from holdfast.service.call import Call, CallContext, JobId
from holdfast.service.table import RouteTable
from holdfast.views.interventions import Acknowledgement
from holdfast.views.signals import SignalState

table = RouteTable("verbs")
LONGEST_WAIT_SECONDS = 60
Wait = Annotated[
    float,
    Query(ge=0, le=LONGEST_WAIT_SECONDS, description="Wait that many seconds for the owner's answer."),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=KEY_LENGTH,
        description="Names this request to the job. Sent again under its key, it has the same signal and does nothing"
        " twice; another request under the key is refused. The key is kept as long as the job.",
    ),
]
SENT = {202: "The verb was sent; the job's owner has not answered yet."}


@table.post("/jobs/{job_id}/plan", Permission.READ, answers=Plan, errors=(Refused,))
async def plan_verb(call: Call, job_id: JobId, body: PlanOf) -> Response:
    """What a verb would do to a job now. Changes nothing."""
    verb = Verb(body.verb)
    try:
        arguments = BODIES[verb].model_validate(body.model_extra or {})
    except ValidationError as error:
        details = details_of(error.errors(), "body")
        raise InvalidInput(f"This is not what {verb} takes.", errors=details) from None
    plan = await call.client.plan(job_id, await _request(call, verb, arguments))
    if plan.refusal is not None and not call.is_ours:
        raise plan.refusal
    return call.answer(plan)


async def _request(call: CallContext, verb: Verb, body: Reasoned) -> VerbRequest:
    if body.brings_definition:
        return await call.state.beside.run(lambda: body.request(verb))
    return body.request(verb)


async def carry_out_verb(
    call: CallContext, job_id: str, verb: Verb, body: Reasoned, wait: float, key: str | None = None
) -> Response:
    """Send a verb to a job; with a key, unless the same request was sent before."""
    request = await _request(call, verb, body)
    if key is None:
        result = await _carry_out(call, job_id, request, body, wait)
        return call.answer(result, 200 if result.is_applied else 202)
    named = keyed(key, request, body.reason)
    earlier = await call.client.earlier(job_id, named)
    if earlier is None:
        try:
            result = await _carry_out(call, job_id, request, body, wait, named)
            return call.answer(result, 200 if result.is_applied else 202)
        except (Refused, NotFound):
            # The same request may have been sent in between, so that the job has changed.
            earlier = await call.client.earlier(job_id, named)
            if earlier is None:
                raise
    result = await call.client.settle(earlier, seconds=wait)
    return call.answer(result, 200 if result.is_applied else 202)


async def _carry_out(
    call: CallContext, job_id: str, request: VerbRequest, body: Reasoned, wait: float, named: Keyed | None = None
) -> VerbResult:
    verb = request.verb
    plan = await call.client.plan(job_id, replace(request, plan_id=None))
    if plan.refusal is not None:
        raise plan.refusal
    if plan.asks and not body.confirm and body.plan_id is None:
        names = ", ".join(dict.fromkeys(step.node for step in plan.steps if step.confirm))
        raise Refused(
            f"Job {job_id} was not changed by {verb}: what would be done to {names} must be confirmed.",
            remedy="Look at the plan, then send `confirm: true`, or its `plan_id`.",
            instance=job_id,
        )
    if body.plan_id not in (None, plan.plan_id):
        raise Refused(
            f"Job {job_id} was not changed: the job has changed since this plan was made.",
            remedy="Look at the plan again, and use its new id.",
            instance=job_id,
        )
    exactly = body.plan_id is not None
    return await call.client.carry_out(plan, reason=body.reason, exactly=exactly, seconds=wait, keyed=named)


def _verb(verb: Verb, kind: Any, text: str) -> None:
    async def endpoint(
        call: Call, job_id: JobId, body: Any, wait: Wait = 0, idempotency_key: IdempotencyKey = None
    ) -> Response:
        return await carry_out_verb(call, job_id, verb, body, wait, idempotency_key)

    endpoint.__name__ = f"{verb}_job"
    endpoint.__doc__ = text
    endpoint.__annotations__["body"] = kind
    path = f"/jobs/{{job_id}}/{verb}"
    declare = table.post(path, Permission.OPERATE, answers=VerbResult, also=SENT, errors=(Refused,))
    declare(endpoint)


_verb(Verb.RESUME, Resume, "Continue a job that has failed, is partial or was cancelled. Completed work stays.")
_verb(Verb.RETRY, Retry, "Run the failed tasks of a node again, and what follows it.")
_verb(Verb.CLEAR, Clear, "Run some tasks of a node again, and what follows it.")
_verb(Verb.RERUN, Retry, "Run a node and everything that follows it again.")
_verb(Verb.SKIP, Skip, "Let a job continue without a node.")
_verb(Verb.SET, Set, "Give a node its result by hand.")
_verb(Verb.UNDO, Undo, "Undo what a job has completed, from its end to its beginning.")
_verb(Verb.PAUSE, Reasoned, "Start no more tasks of a job; running ones go on.")
_verb(Verb.UNPAUSE, Reasoned, "Let a paused job go on.")


@table.post("/jobs/{job_id}/cancel", Permission.SUBMIT, answers=VerbResult, also=SENT, errors=(Refused,))
async def cancel_job(
    call: Call, job_id: JobId, body: Reasoned, wait: Wait = 0, idempotency_key: IdempotencyKey = None
) -> Response:
    """Stop a job. Running tasks have the grace period to finish.

    Who may submit and not operate may stop only jobs that they have submitted themselves, with the same key.
    """
    if Permission.OPERATE not in call.identity.permissions:
        await call.client.refuse_foreign_cancel(job_id)
    return await carry_out_verb(call, job_id, Verb.CANCEL, body, wait, idempotency_key)


@table.post("/jobs/{job_id}/acknowledge", Permission.OPERATE, answers=Acknowledgement, errors=(Refused,))
async def acknowledge_job(call: Call, job_id: JobId, body: Because) -> Response:
    """Note that a failed or partial job needs nothing more."""
    return call.answer(await call.client.acknowledge(job_id, reason=body.reason))


@table.get("/jobs/{job_id}/signals/{signal_id}", Permission.READ, answers=SignalState)
async def show_signal(
    call: Call,
    job_id: JobId,
    signal_id: Annotated[int, Path(ge=1, le=2**63 - 1, description="`signal_id` of a verb's answer.")],
) -> Response:
    """What the owner of a job has answered to a verb, or that it has not answered yet.

    An answer is kept for a day; that to a request with an `Idempotency-Key`, as long as the job.
    """
    return call.answer(await call.client.signal(job_id, signal_id))
