"""Handing jobs in: what a submission is, and what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import uuid_utils

from holdfast.core.advising import Advice
from holdfast.core.signals import Request, Verb
from holdfast.core.states import JOB_TERMINAL, JobStatus
from holdfast.define.definition import Definition, read_pinned
from holdfast.define.inputs import check_inputs
from holdfast.errors import InvalidInput, NotFound, PayloadRefused, Refused
from holdfast.operations.recovering import plan, recover
from holdfast.operations.scope import DEFAULT_TENANT, Scope
from holdfast.store.interface import NewJob, SubmitAnswer
from holdfast.store.payloads import LIMIT_BYTES
from holdfast.store.postgres import PostgresStore
from holdfast.store.reading import Reader, Stages

MAX_KEY_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Submission:
    """What became of a submission, in the words of the contract."""

    job_id: str
    answer: str
    status: str
    workflow_id: str
    version: str
    identity: str
    run: int
    result: Any = None
    failed_stage: str | None = None
    completed_stages: tuple[str, ...] = ()
    signal_id: int | None = None
    """The signal that resumes the job, whose answer tells what came of it."""
    advice: Advice | None = None
    """What would continue a job that failed, if anything does."""

    @property
    def hint(self) -> str:
        if self.answer == "previously_failed" and self.advice is not None:
            return f"It ended {self.status}. Go on where it stopped with: holdfast {self.advice.words(self.job_id)}"
        if self.answer == "previously_failed":
            return f"It ended {self.status}. See how it ended with: holdfast status {self.job_id}"
        return f"Follow it with: holdfast watch {self.job_id}"

    def to_json(self) -> dict[str, Any]:
        return {
            "job_id": self.job_id,
            "answer": self.answer,
            "status": self.status,
            "workflow_id": self.workflow_id,
            "version": self.version,
            "identity": self.identity,
            "run": self.run,
            "result": self.result,
            "failed_stage": self.failed_stage,
            "completed_stages": list(self.completed_stages),
            "hint": self.hint,
        }


def new_job(
    definition: Definition,
    inputs: Mapping[str, Any],
    *,
    key: str | None = None,
    tenant: str = DEFAULT_TENANT,
    priority: int = 0,
    force: bool = False,
    limit_bytes: int = LIMIT_BYTES,
) -> NewJob:
    """A submission with its inputs checked, its defaults filled in and its identity computed."""
    checked = check_inputs(definition, inputs)
    written = orjson.dumps(checked, option=orjson.OPT_SORT_KEYS)
    if len(written) > limit_bytes:
        raise PayloadRefused(
            f"The inputs of workflow {definition.workflow_id} have {len(written):,} bytes; "
            f"at most {limit_bytes:,} are taken.",
            remedy="Put the data into a file or a store that the handlers can read, and pass its name; "
            "or raise HOLDFAST_PAYLOAD_LIMIT_BYTES.",
        )
    body = b"[%b,%b]" % (orjson.dumps(definition.workflow_id), written)
    body_hash = hashlib.sha256(body).hexdigest()
    named = f"key\n{key}" if key is not None else f"body\n{body_hash}"
    return NewJob(
        job_id=str(uuid_utils.uuid7()),
        tenant=tenant,
        workflow_id=definition.workflow_id,
        version=definition.version,
        definition_hash=definition.hash(),
        definition=definition.canonical_bytes(),
        identity=hashlib.sha256(f"{tenant}\n{definition.workflow_id}\n{named}".encode()).hexdigest(),
        body_hash=body_hash,
        inputs=checked,
        priority=priority,
        force=force,
    )


async def submit(
    scope: Scope,
    store: PostgresStore,
    definition: Definition,
    inputs: Mapping[str, Any],
    *,
    key: str | None = None,
    priority: int = 0,
    resume: bool = False,
    force: bool = False,
) -> Submission:
    """Make a job, or answer with the newest that the same submission made before.

    With `resume` a job that failed, is partial or was cancelled continues where it stopped. With `force` a new job is
    made, and the one before stays as it is.
    """
    if resume and force:
        raise InvalidInput(
            "A submission cannot both resume a job and force a new one.",
            remedy="Resume to keep what completed; force to start again.",
        )
    job = new_job(
        definition,
        inputs,
        key=key,
        tenant=scope.tenant,
        priority=priority,
        force=force,
        limit_bytes=store.payload_limit_bytes,
    )
    (submission,) = await submit_many(store, [job])
    if not resume or submission.answer != "previously_failed":
        return submission
    try:
        return await _resume(scope, store, submission)
    except (NotFound, Refused):
        # Another client may have resumed or pruned it in between.
        (again,) = await submit_many(store, [job])
        if again.answer == "previously_failed":
            raise
        return again


async def _resume(scope: Scope, store: PostgresStore, submission: Submission) -> Submission:
    """Exactly what was planned: of several clients that do this at once, one succeeds."""
    planned = await plan(scope, store, submission.job_id, Request(Verb.RESUME))
    if planned.asks:
        redone = ", ".join(step.node for step in planned.plan.steps if step.confirm)
        raise Refused(
            f"Job {planned.job_id} was not resumed: {redone} had completed and would run again.",
            remedy=f"Confirm with: holdfast resume {planned.job_id} --yes",
            instance=planned.job_id,
        )
    exactly = planned.request._replace(plan_id=planned.plan_id)
    signal_id = await recover(scope, store, planned.job_id, exactly, reason="submitted again")
    return replace(submission, answer="resumed", signal_id=signal_id)


async def submit_many(store: PostgresStore, jobs: Sequence[NewJob]) -> list[Submission]:
    """Many submissions in one transaction."""
    answers = await store.submit(jobs)
    submissions = [_submission(job, answer) for job, answer in zip(jobs, answers, strict=True)]
    failed = {one.job_id for one in submissions if one.answer == "previously_failed"}
    if not failed:
        return submissions
    reader = Reader(store.connections)
    stages = await reader.stages(sorted(failed))
    advice = {job_id: next(iter(await reader.advice(job_id)), None) for job_id in stages}
    return [
        _with_stages(one, stages[one.job_id], advice[one.job_id]) if one.job_id in stages else one
        for one in submissions
    ]


async def newest_definition(scope: Scope, store: PostgresStore, workflow_id: str) -> Definition:
    """The definition of that id that was submitted last."""
    found = await store.newest_definition(scope.tenant, workflow_id)
    if found is None:
        raise NotFound(
            f"There is no workflow '{workflow_id}' in this database and no file of that name.",
            remedy="Submit its file once, for example: holdfast submit workflow.yaml",
        )
    return read_pinned(found)


def _submission(job: NewJob, answer: SubmitAnswer) -> Submission:
    if not answer.same_body:
        raise Refused(
            f"The key of job {answer.job_id} was used with other inputs.",
            remedy="Use another key for other inputs, or leave the key out.",
            instance=answer.job_id,
        )
    if answer.created:
        word = "created" if answer.run == 1 else "forced"
    elif answer.status not in JOB_TERMINAL:
        word = "already_processing"
    elif answer.status == JobStatus.COMPLETED:
        word = "already_completed"
    else:
        word = "previously_failed"
    return Submission(
        job_id=answer.job_id,
        answer=word,
        status=answer.status,
        workflow_id=job.workflow_id,
        version=answer.version,
        identity=job.identity,
        run=answer.run,
        result=answer.result,
    )


def _with_stages(submission: Submission, stages: Stages, advice: Advice | None) -> Submission:
    return replace(submission, failed_stage=stages.failed, completed_stages=stages.completed, advice=advice)
