"""Submitting jobs: when two submissions are the same, and what a submission leads to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson
import uuid_utils

from holdfast import tracing
from holdfast.core.states import JOB_TERMINAL, JobStatus, Status
from holdfast.define.changes import differences, shown
from holdfast.define.definition import Definition, read_pinned
from holdfast.define.gates import DEFAULT_TENANT
from holdfast.define.inputs import check_inputs
from holdfast.errors import (
    BacklogFull,
    DefaultsChanged,
    DefinitionChanged,
    InvalidInput,
    NotFound,
    PayloadRefused,
    Refused,
    cut,
)
from holdfast.operations.defaults import resolved
from holdfast.operations.labels import check_labels
from holdfast.operations.marks import Marks
from holdfast.operations.ports import OperationsStore, ReadStore
from holdfast.operations.scope import Scope
from holdfast.operations.tenants import refusals
from holdfast.operations.verbs import ANSWER_SECONDS, Verb, VerbRequest, answer, plan, send
from holdfast.outgoing import warning_of
from holdfast.remedies import Remedy
from holdfast.store.payloads import LIMIT_BYTES
from holdfast.store.read_rows import Stages
from holdfast.store.records import NewJob, SubmitAnswer
from holdfast.views.encoding import HIDDEN, LOCAL, VERBATIM
from holdfast.views.outcome import Recovery, recovery_view

MAX_KEY_LENGTH = 500
NO_MARKS = Marks()


@dataclass(frozen=True, slots=True)
class Submission:
    """What a submission has led to: a new job, or the job that the same submission made before."""

    job_id: str
    answer: str
    status: str
    workflow_id: str
    version: str
    identity: str
    run: int
    result: Any = field(default=None, metadata=VERBATIM)
    failed_stage: str | None = None
    completed_stages: tuple[str, ...] = ()
    definition_changed: bool = False
    """Whether the job that was made before has another definition than this submission."""
    hint: str = field(init=False, default="")
    """What to do next, as a command."""
    changes: tuple[str, ...] = field(default=(), metadata=HIDDEN)
    """How the definitions differ, in words."""
    signal_id: int | None = field(default=None, metadata=HIDDEN)
    """The signal that resumes the job; its owner answers it."""
    advice: Recovery | None = field(default=None, metadata=HIDDEN)
    """What would continue a job that failed, if anything does."""
    misses_only_tolerated: bool = field(default=False, metadata=HIDDEN)
    """Whether it should resume a job that lacks nothing but tolerated items, with completed work behind them."""
    warning: str | None = field(default=None, metadata=HIDDEN)
    """What keeps the callback of a new job from its address, as far as that is known. The hint says it."""
    submitted: NewJob | None = field(default=None, repr=False, metadata=LOCAL)

    @property
    def is_open(self) -> bool:
        """Whether the job runs, or will."""
        return self.answer in ("created", "already_processing", "resumed", "forced")

    def __post_init__(self) -> None:
        object.__setattr__(self, "hint", self._hint())

    def _hint(self) -> str:
        if self.misses_only_tolerated and self.advice is not None:
            missing = "nothing is missing but items whose failure the workflow tolerates"
            return f"It ended {self.status}: {missing}. Run them again with: holdfast {self.advice.words(self.job_id)}"
        if self.answer == "previously_failed" and self.advice is not None:
            return f"It ended {self.status}. Continue it with: holdfast {self.advice.words(self.job_id)}"
        if self.answer == "previously_failed":
            return f"It ended {self.status}. See how it ended with: holdfast status {self.job_id}"
        beware = f". Its callback: {self.warning}" if self.warning is not None else ""
        return f"Follow it with: holdfast watch {self.job_id}{beware}"


def new_job(
    definition: Definition,
    inputs: Mapping[str, Any],
    *,
    key: str | None = None,
    tenant: str = DEFAULT_TENANT,
    priority: int = 0,
    force: bool = False,
    labels: Mapping[str, str] | None = None,
    marks: Marks = NO_MARKS,
    limit_bytes: int = LIMIT_BYTES,
    submitter: str | None = None,
    request_id: str | None = None,
    traceparent: str | None = None,
) -> NewJob:
    """A submission with its inputs checked, its defaults filled in and its identity computed."""
    check_key(key)
    checked = check_inputs(definition, inputs)
    written = orjson.dumps(checked, option=orjson.OPT_SORT_KEYS)
    if len(written) > limit_bytes:
        raise PayloadRefused(
            f"The inputs of workflow {definition.workflow_id} have {len(written):,} bytes; "
            f"the limit is {limit_bytes:,}.",
            remedy="Put the data into a file or a store that the handlers can read, and pass its name; "
            "or raise HOLDFAST_PAYLOAD_LIMIT_BYTES.",
        )
    body = b"[%b,%b]" % (orjson.dumps(definition.workflow_id), written)
    body_hash = hashlib.sha256(body).hexdigest()
    return NewJob(
        job_id=str(uuid_utils.uuid7()),
        tenant=tenant,
        workflow_id=definition.workflow_id,
        version=definition.version,
        definition_hash=definition.hash(),
        definition=definition.canonical_bytes(),
        identity=identity_of_key(tenant, definition.workflow_id, key)
        if key is not None
        else _identity(tenant, definition.workflow_id, f"body\n{body_hash}"),
        body_hash=body_hash,
        inputs=checked,
        priority=priority,
        force=force,
        labels=check_labels(labels) if labels else None,
        correlation_id=marks.correlation_id,
        external_ids=marks.external_ids,
        callback_url=marks.callback_url,
        notify=marks.rules,
        text=definition.text,
        submitter=submitter,
        request_id=request_id,
        traceparent=traceparent,
    )


def check_key(key: str | None) -> None:
    """Refuse what is no name for a submission: all that forget theirs would be the same job."""
    if key is not None and not 0 < len(key) <= MAX_KEY_LENGTH:
        raise InvalidInput(f"A key has 1 to {MAX_KEY_LENGTH} characters; this one has {len(key)}.")


def of_tick(job: NewJob, schedule_id: str, tick: datetime) -> NewJob:
    """The job of a tick: no submission is the same."""
    name = f"schedule\n{schedule_id}\n{tick.isoformat()}"
    return job._replace(identity=_identity(job.tenant, job.workflow_id, name))


def identity_of_key(tenant: str, workflow_id: str, key: str) -> str:
    """What the jobs that one key has made have in common."""
    return _identity(tenant, workflow_id, f"key\n{key}")


def _identity(tenant: str, workflow_id: str, name: str) -> str:
    return hashlib.sha256(f"{tenant}\n{workflow_id}\n{name}".encode()).hexdigest()


async def submit(
    scope: Scope,
    store: OperationsStore,
    definition: Definition,
    inputs: Mapping[str, Any],
    *,
    key: str | None = None,
    priority: int = 0,
    resume: bool = False,
    force: bool = False,
    labels: Mapping[str, str] | None = None,
    marks: Marks = NO_MARKS,
    like: str | None = None,
    refuse_changed: bool = False,
) -> Submission:
    """Make a job, or answer with the newest that the same submission made before.

    With `resume` a job that failed, is partial or was cancelled continues where it stopped. With `force` a new job is
    made, and the one before stays as it is. `like` is a job whose inputs are used where `inputs` has none. With
    `refuse_changed` a job that has ended and was made by another definition is refused.
    """
    if resume and force:
        raise InvalidInput(
            "A submission cannot both resume a job and force a new one.",
            remedy="Resume to keep what completed; force to start again.",
        )
    if like is not None:
        inputs = {**(await store.reads(scope.tenant).snapshot(like)).job.inputs, **inputs}
    named = {"holdfast.workflow_id": definition.workflow_id, "holdfast.tenant": scope.tenant}
    with tracing.submitting(scope.traceparent, named) as traceparent:
        job = new_job(
            definition,
            inputs,
            key=key,
            tenant=scope.tenant,
            priority=priority,
            force=force,
            labels=labels,
            marks=marks,
            limit_bytes=store.payload_limit_bytes,
            submitter=scope.submitter,
            request_id=scope.origin.request_id,
            traceparent=traceparent,
        )
        (submission,) = await submit_many(store, [job])
    if refuse_changed and submission.definition_changed and not submission.is_open:
        raise _changed(submission)
    if not resume or submission.answer != "previously_failed":
        return submission
    return await resume_failed(scope, store, job, submission)


async def resume_failed(scope: Scope, store: OperationsStore, job: NewJob, submission: Submission) -> Submission:
    """Continue the job that the same submission made before and that failed, is partial or was cancelled."""
    try:
        return await _resume(scope, store, replace(submission, submitted=job))
    except (NotFound, Refused):
        # Another client may have resumed or pruned it in between.
        (again,) = await submit_many(store, [job])
        if again.answer == "previously_failed":
            raise
        return again


async def _resume(scope: Scope, store: OperationsStore, submission: Submission) -> Submission:
    """Exactly what was planned: of several clients that do this at once, one succeeds."""
    planned = await plan(scope, store, submission.job_id, VerbRequest(Verb.RESUME))
    if (planned.asks or planned.refusal is not None) and await _misses_only_tolerated(scope, store, planned.job_id):
        return replace(submission, misses_only_tolerated=True, advice=_naming_tolerated(submission.advice))
    if planned.refusal is not None:
        raise planned.refusal
    if planned.asks:
        redone = ", ".join(step.node for step in planned.steps if step.confirm)
        raise Refused(
            f"Job {planned.job_id} was not resumed: {redone} had completed and would run again.",
            remedy=f"Confirm with: holdfast resume {planned.job_id} --yes",
            instance=planned.job_id,
        )
    exactly = replace(planned.request, plan_id=planned.plan_id)
    signal_id = await send(scope, store, planned.job_id, exactly, reason="submitted again")
    return replace(submission, answer="resumed", signal_id=signal_id)


async def _misses_only_tolerated(scope: Scope, store: OperationsStore, job_id: str) -> bool:
    """Whether no node is unfinished: then the job is partial because of items that failed and were tolerated."""
    snapshot = await store.reads(scope.tenant).snapshot(job_id, whole=False)
    bad = (Status.FAILED, Status.CANCELLED)
    return snapshot.job.status == JobStatus.PARTIAL and not any(one.status in bad for one in snapshot.nodes.values())


def _naming_tolerated(advice: Recovery | None) -> Recovery | None:
    """A resume that says what it is for. Where none is possible, the advice is to retry a node."""
    if advice is None or not advice.is_resume:
        return advice
    return replace(advice, advice=advice.advice._replace(request=advice.advice.request._replace(tolerated=True)))


async def settle(
    scope: Scope, store: OperationsStore, submission: Submission, *, seconds: float = ANSWER_SECONDS
) -> Submission:
    """A submission that resumes its job, once the owner has answered; others, and after that time, as they are.

    If the owner refuses because another client was faster, the answer is the job as it is now.
    """
    if submission.signal_id is None or submission.submitted is None:
        return submission
    reply = await answer(scope, store, submission.signal_id, seconds=seconds)
    if reply is None:
        return submission
    if reply.applied:
        snapshot = await store.reads(scope.tenant).snapshot(submission.job_id, whole=False)
        return replace(submission, status=snapshot.job.status, signal_id=None, submitted=None)
    (again,) = await submit_many(store, [submission.submitted])
    if again.answer == "previously_failed":
        raise Refused(f"Job {again.job_id} was not resumed: {reply.reason}.", instance=again.job_id)
    return again


async def submit_many(store: OperationsStore, jobs: Sequence[NewJob]) -> list[Submission]:
    """Many submissions in one transaction. Each job pins its definition with the defaults of its tenant."""
    submissions: list[Submission] = []
    for outcome in await submit_each(store, jobs):
        if isinstance(outcome, Refused):
            raise outcome
        submissions.append(outcome)
    return submissions


async def submit_each(store: OperationsStore, jobs: Sequence[NewJob]) -> list[Submission | Refused]:
    """The same; one that is refused stops no other."""
    refused = await refusals(store, jobs)
    if refused:
        allowed = [job for number, job in enumerate(jobs) if number not in refused]
        made = iter(await submit_each(store, allowed) if allowed else [])
        return [refused[number] if number in refused else next(made) for number in range(len(jobs))]
    jobs, answers = await _submit(store, jobs)
    changes = _Changes(store)
    outcomes: list[Submission | Refused] = []
    for job, found in zip(jobs, answers, strict=True):
        if isinstance(found, BacklogFull):
            outcomes.append(found)
        else:
            outcomes.append(_other_body(found) or _submission(job, found, await changes.of(job, found)))
    ended = {
        one.job_id: one
        for one in outcomes
        if isinstance(one, Submission) and one.answer in ("previously_failed", "already_completed")
    }
    if not ended:
        return outcomes
    reader = store.reads()
    stages = await reader.stages(sorted(ended))
    failed = [job_id for job_id in stages if ended[job_id].answer == "previously_failed"]
    advice = {job_id: await _best_advice(reader, job_id) for job_id in failed}
    return [
        _with_stages(one, stages[one.job_id], advice.get(one.job_id))
        if isinstance(one, Submission) and one.job_id in stages
        else one
        for one in outcomes
    ]


async def _submit(
    store: OperationsStore, jobs: Sequence[NewJob]
) -> tuple[list[NewJob], list[SubmitAnswer | BacklogFull]]:
    """Submit with the defaults that this process knows, and once more if a person has changed them."""
    while True:
        pinned = resolved(store, jobs)
        with suppress(DefaultsChanged):
            return pinned, await store.submit_each(pinned)


def no_workflow(workflow_id: str) -> NotFound:
    return NotFound(
        f"This database has no workflow '{cut(workflow_id)}'.",
        remedy=Remedy("Register its file with", "register", flags=("FILE",)),
        instance=cut(workflow_id),
    )


async def newest_definition(scope: Scope, store: OperationsStore, workflow_id: str) -> Definition:
    """The definition of that id that was registered last. The first submission of a definition registers it."""
    stored = await store.newest_definition(scope.tenant, workflow_id)
    if stored is None:
        raise no_workflow(workflow_id)
    return read_pinned(stored)


class _Changes:
    """How the definitions of submissions differ from those that existing jobs have pinned; each is read once."""

    def __init__(self, store: OperationsStore) -> None:
        self._store = store
        self._known: dict[tuple[str, str], tuple[str, ...]] = {}

    async def of(self, job: NewJob, answer: SubmitAnswer) -> tuple[str, ...]:
        if answer.definition_hash in (None, job.pinned_hash):
            return ()
        assert answer.definition_hash is not None
        key = (answer.definition_hash, job.definition_hash)
        if key not in self._known:
            pinned = await self._store.definition(answer.definition_hash)
            self._known[key] = _differences(pinned, job.definition)
        return self._known[key]


def _differences(pinned: bytes, submitted: bytes) -> tuple[str, ...]:
    try:
        return tuple(differences(read_pinned(pinned), read_pinned(submitted)))
    except Refused:
        return ("this version cannot read the definition of the job",)


def _changed(submission: Submission) -> DefinitionChanged:
    return DefinitionChanged(
        f"Nothing was run: the same submission made job {submission.job_id} before, which is {submission.status}, and"
        f" the workflow has changed since: {shown(list(submission.changes))}.",
        remedy=Remedy(
            "Run the changed workflow as a new job with --force. Name another piece of work with --key NAME. Continue"
            " this job with the changed workflow",
            "resume",
            submission.job_id,
            flags=("--workflow", "FILE"),
        ),
        instance=submission.job_id,
    )


def _other_body(answer: SubmitAnswer) -> Refused | None:
    if answer.same_body:
        return None
    return Refused(
        f"The key of job {answer.job_id} was used with other inputs.",
        remedy="Use another key for other inputs, or leave the key out.",
        instance=answer.job_id,
    )


def _submission(job: NewJob, answer: SubmitAnswer, changes: tuple[str, ...] = ()) -> Submission:
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
        definition_changed=bool(changes),
        changes=changes,
        warning=warning_of(job.callback_url) if answer.created and job.callback_url is not None else None,
    )


async def _best_advice(reader: ReadStore, job_id: str) -> Recovery | None:
    best = next(iter(await reader.advice(job_id)), None)
    return recovery_view(job_id, best) if best is not None else None


def _with_stages(submission: Submission, stages: Stages, advice: Recovery | None) -> Submission:
    return replace(submission, failed_stage=stages.failed, completed_stages=stages.completed, advice=advice)
