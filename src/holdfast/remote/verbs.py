"""The part of the client over a URL that submits jobs and carries out verbs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.define.definition import Definition
from holdfast.errors import Refused
from holdfast.operations.requests import Keyed
from holdfast.operations.submitting import Submission
from holdfast.operations.verbs import ANSWER_SECONDS, Plan, Verb, VerbRequest, VerbResult, answered
from holdfast.remote.base import path_of, query_of
from holdfast.remote.documents import body_of, brought, fields_of
from holdfast.remote.reads import RemoteReads
from holdfast.store.records import SignalAnswer
from holdfast.views.interventions import Acknowledgement
from holdfast.views.overview import Registration
from holdfast.views.signals import SignalState

LONGEST_WAIT_SECONDS = 30.0
"""How long one request waits for an owner's answer; then the next one does."""


class RemoteVerbs(RemoteReads):
    """What changes jobs."""

    async def submit(
        self,
        definition: Definition,
        inputs: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        priority: int = 0,
        resume: bool = False,
        force: bool = False,
        labels: Mapping[str, str] | None = None,
        correlation_id: str | None = None,
        external_ids: Mapping[str, str] | None = None,
        callback_url: str | None = None,
        notify: Sequence[Mapping[str, Any]] | None = None,
        like: str | None = None,
        refuse_changed: bool = False,
    ) -> Submission:
        given: dict[str, Any] = {
            "inputs": dict(inputs or {}),
            "key": key,
            "priority": priority,
            "resume": resume,
            "force": force,
            "labels": dict(labels or {}),
            "correlation_id": correlation_id,
            "external_ids": dict(external_ids or {}),
            "callback_url": callback_url,
            "notify": [dict(rule) for rule in notify or ()],
            "like": like,
            "refuse_changed": refuse_changed,
        }
        # The same submission is the same job, but not one that is forced.
        body = fields_of(definition) | given
        return self._read(Submission, await self._send("POST", "/jobs", body=body, is_repeatable=not force))

    async def settle_submission(self, submission: Submission, *, seconds: float = ANSWER_SECONDS) -> Submission:
        if submission.signal_id is None:
            return submission
        reply = await self.answer(submission.signal_id, seconds=seconds)
        if reply is None:
            return submission
        job = await self.job(submission.job_id, whole=False)
        if reply.applied:
            return replace(submission, status=job.status, signal_id=None)
        if job.is_terminal:
            raise Refused(f"Job {job.job_id} was not resumed: {reply.reason}.", instance=job.job_id)
        # Another client was faster.
        return replace(submission, answer="already_processing", status=job.status, signal_id=None)

    async def register(self, definition: Definition) -> Registration:
        name = definition.text.name if definition.text is not None else None
        query = query_of(file=name if definition.text is not None and definition.text.kind != "python" else None)
        sent = self._send("POST", "/workflows", query=query, text=body_of(definition), is_repeatable=True)
        return self._read(Registration, await sent)

    async def acknowledge(self, job_id: str, *, reason: str = "") -> Acknowledgement:
        path = path_of("jobs", job_id, "acknowledge")
        answer = await self._send("POST", path, body={"reason": reason}, is_repeatable=True)
        return self._read(Acknowledgement, answer)

    async def plan(self, job_id: str, request: VerbRequest) -> Plan:
        body = {"verb": str(request.verb), **_arguments(request)}
        answer = await self._send("POST", path_of("jobs", job_id, "plan"), body=body, is_repeatable=True)
        plan = self._read(Plan, answer)
        # A definition as it was written does not come back.
        return replace(plan, request=replace(request, node=plan.request.node))

    async def carry_out(
        self,
        plan: Plan,
        *,
        reason: str = "",
        exactly: bool = False,
        seconds: float = ANSWER_SECONDS,
        keyed: Keyed | None = None,
    ) -> VerbResult:
        if plan.refusal is not None:
            raise plan.refusal
        is_stored = plan.request.correction is not None
        wanted = plan.plan_id if exactly or is_stored else plan.request.plan_id
        request = replace(plan.request, plan_id=wanted)
        wait = min(seconds, LONGEST_WAIT_SECONDS)
        result = await self._carry_out(plan.job_id, request, reason=reason, seconds=wait, keyed=keyed)
        if result.is_applied or seconds <= wait:
            return result
        return await self.settle(result, seconds=seconds - wait)

    async def _carry_out(
        self, job_id: str, request: VerbRequest, *, reason: str, seconds: float, keyed: Keyed | None = None
    ) -> VerbResult:
        body = {**_arguments(request), "reason": reason, "confirm": True}
        answer = await self._send(
            "POST",
            path_of("jobs", job_id, request.verb),
            query=query_of(wait=seconds),
            body=body,
            # Under the same key a request that arrives twice is carried out once.
            headers={"Idempotency-Key": keyed.key if keyed is not None else uuid.uuid4().hex},
            is_repeatable=True,
            seconds=seconds,
        )
        return self._read(VerbResult, answer)

    async def settle(self, result: VerbResult, *, seconds: float | None = ANSWER_SECONDS) -> VerbResult:
        result = answered(result, await self.answer(result.signal_id, seconds=seconds))
        if result.verb is Verb.CANCEL:
            result = replace(result, status=(await self.job(result.job_id, whole=False)).status)
        return result

    async def send(self, job_id: str, request: VerbRequest, *, reason: str = "") -> int:
        return (await self._carry_out(job_id, request, reason=reason, seconds=0)).signal_id

    async def signal(self, job_id: str, signal_id: int) -> SignalState:
        return await self._get(SignalState, path_of("jobs", job_id, "signals", str(signal_id)))

    async def answer(self, signal_id: int, *, seconds: float | None = ANSWER_SECONDS) -> SignalAnswer | None:
        until = time.monotonic() + seconds if seconds is not None else None
        while True:
            left = until - time.monotonic() if until is not None else LONGEST_WAIT_SECONDS
            wait = max(0.0, min(left, LONGEST_WAIT_SECONDS))
            query = query_of(wait=round(wait, 3))
            path = path_of("signals", str(signal_id))
            found = await self._send("GET", path, query=query, is_repeatable=True, seconds=wait)
            if found["answer"] is not None:
                return self._read(SignalAnswer, found["answer"])
            if until is not None and time.monotonic() >= until:
                return None


def _arguments(request: VerbRequest) -> dict[str, Any]:
    """The arguments of a verb that say something."""
    given = {
        "node": request.node,
        "items": list(request.items) or None,
        "code": request.code,
        "fingerprint": request.fingerprint,
        "only": request.only or None,
        "plan_id": request.plan_id,
        "tolerated": request.tolerated or None,
        "params": request.params,
    }
    found: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if request.verb is Verb.SET:
        found["output"] = request.output
    correction = request.correction
    if correction is not None:
        found["inputs"] = dict(correction.inputs)
        found |= brought(correction.definition) if correction.definition is not None else {}
        found |= {"stale": str(correction.stale)} if correction.stale is not None else {}
    return found
