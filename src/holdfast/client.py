"""Submitting jobs and steering them, for programs: what the command line does, as functions."""

from __future__ import annotations

import getpass
import hashlib
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson
import uuid_utils

from holdfast.core.advising import Advice
from holdfast.core.breaking import Breaker, BreakerState, close_breaker, open_breaker
from holdfast.core.recovering import Refusal
from holdfast.core.signals import Request, Verb
from holdfast.core.states import JOB_TERMINAL, JobStatus, Status, StopCause
from holdfast.core.steering import OpenJob, OpenNode, SteeringVerb, make_steering
from holdfast.define.bounds import MAX_NAME_LENGTH, MAX_SECONDS, checked_queue
from holdfast.define.definition import Definition, read_pinned
from holdfast.define.inputs import check_inputs
from holdfast.define.named_file import shown_name
from holdfast.define.program import Program
from holdfast.errors import InvalidInput, NotFound, PayloadRefused, Refused
from holdfast.plans import JobPlan, SteeringPlan, refused, unknown_items
from holdfast.store.gates import BreakerView, Gates, LimitView
from holdfast.store.interface import NewJob, SubmitAnswer
from holdfast.store.migrate import ensure_schema
from holdfast.store.payloads import LIMIT_BYTES
from holdfast.store.planning import looking_at
from holdfast.store.postgres import PostgresStore
from holdfast.store.reading import Reader, Snapshot, Stages, Standing

MAX_LIMIT = 2_147_483_647
MIN_RATE_SECONDS = 0.001
MAX_KEY_LENGTH = 500
LAST_ITEM = 2**31 - 1
"""The last that a row can name."""

BreakerVerb = Literal["open", "close", "reset"]


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


def _node_name(program: Program, given: str | None) -> str | None:
    """A stage's number means its node."""
    if given is None or not given.isdecimal():
        return given
    return next((name for name in program.nodes if program.graph.stage_number(name) == int(given)), given)


def _open_job(standing: Standing) -> OpenJob:
    job = standing.snapshot.job
    stop = StopCause(standing.stop_cause) if standing.stop_cause is not None else None
    pause = job.pause or {}
    return OpenJob(job.job_id, job.generation, JobStatus(job.status), stop, pause.get("name"), pause.get("since"))


def _open_nodes(snapshot: Snapshot) -> list[OpenNode]:
    nodes = []
    for name in snapshot.graph.order:
        view, queued = snapshot.nodes.get(name), snapshot.queue.get(name)
        if view is None:
            nodes.append(OpenNode(name, Status.PENDING))
            continue
        running = queued.running if queued is not None else 0
        settled = view.completed + view.failed + view.skipped + view.cancelled
        waiting = max(0, view.width - settled - running)
        nodes.append(OpenNode(name, Status(view.status), view.completed, waiting, running))
    return nodes


def new_job(
    definition: Definition,
    inputs: Mapping[str, Any],
    *,
    key: str | None = None,
    tenant: str = "default",
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


class Client:
    """An asynchronous client of one database: `async with Client.connect(url) as client: …`."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._limit_bytes = store.payloads.limit_bytes if store.payloads is not None else LIMIT_BYTES

    @classmethod
    @asynccontextmanager
    async def connect(cls, database_url: str) -> AsyncIterator[Client]:
        """A client of the database at that URL, whose schema must be there."""
        await ensure_schema(database_url, create=False)
        store = PostgresStore(database_url, "holdfast client")
        try:
            yield cls(store)
        finally:
            await store.close()

    async def submit(
        self,
        definition: Definition,
        inputs: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        priority: int = 0,
        resume: bool = False,
        force: bool = False,
    ) -> Submission:
        """Make a job, or answer with the newest that the same submission made before.

        With `resume` a job that failed, is partial or was cancelled goes on where it stopped. With `force` a new job is
        made whatever became of the one before, which stays.
        """
        if resume and force:
            raise InvalidInput(
                "A submission cannot both resume a job and force a new one.",
                remedy="Resume to keep what completed; force to begin anew.",
            )
        job = new_job(definition, inputs or {}, key=key, priority=priority, force=force, limit_bytes=self._limit_bytes)
        (submission,) = await self.submit_many([job])
        if not resume or submission.answer != "previously_failed":
            return submission
        try:
            return await self._resume(submission)
        except (NotFound, Refused):
            # It may have been resumed, or pruned, by somebody else in between.
            (again,) = await self.submit_many([job])
            if again.answer == "previously_failed":
                raise
            return again

    async def _resume(self, submission: Submission) -> Submission:
        """Exactly what was planned, so that of several who do this at once one does it."""
        plan = await self.plan(submission.job_id, Request(Verb.RESUME))
        if plan.asks:
            redone = ", ".join(step.node for step in plan.plan.steps if step.confirm)
            raise Refused(
                f"Job {plan.job_id} was not resumed: {redone} had completed and would run again.",
                remedy=f"Say that you mean it with: holdfast resume {plan.job_id} --yes",
                instance=plan.job_id,
            )
        exactly = plan.request._replace(plan_id=plan.plan_id)
        signal_id = await self.recover(plan.job_id, exactly, reason="submitted again")
        return replace(submission, answer="resumed", signal_id=signal_id)

    async def submit_many(self, jobs: Sequence[NewJob]) -> list[Submission]:
        """Many submissions in one transaction."""
        answers = await self._store.submit(jobs)
        submissions = [_submission(job, answer) for job, answer in zip(jobs, answers, strict=True)]
        failed = {one.job_id for one in submissions if one.answer == "previously_failed"}
        if not failed:
            return submissions
        reader = Reader(self._store.connections)
        stages = await reader.stages(sorted(failed))
        advice = {job_id: next(iter(await reader.advice(job_id)), None) for job_id in stages}
        return [
            _with_stages(one, stages[one.job_id], advice[one.job_id]) if one.job_id in stages else one
            for one in submissions
        ]

    async def definition(self, workflow_id: str) -> Definition:
        """The definition of that id that was submitted last."""
        found = await self._store.newest_definition("default", workflow_id)
        if found is None:
            raise NotFound(
                f"There is no workflow '{workflow_id}' in this database and no file of that name.",
                remedy="Submit its file once, for example: holdfast submit workflow.yaml",
            )
        return read_pinned(found)

    async def cancel(
        self, job_id: str, *, reason: str = "", actor: str | None = None, plan_id: str | None = None
    ) -> int:
        """Ask the job's owner to stop it; returns the signal's id, whose answer tells what came of it.

        With the id of a plan it does exactly that, or refuses because the job has moved.
        """
        return await self._steer(job_id, SteeringVerb.CANCEL, reason, actor, plan_id)

    async def pause(
        self, job_id: str, *, reason: str = "", actor: str | None = None, plan_id: str | None = None
    ) -> int:
        """Ask the job's owner to begin nothing new of it; returns the signal's id."""
        return await self._steer(job_id, SteeringVerb.PAUSE, reason, actor, plan_id)

    async def unpause(
        self, job_id: str, *, reason: str = "", actor: str | None = None, plan_id: str | None = None
    ) -> int:
        """Ask the job's owner to let it go on; returns the signal's id."""
        return await self._steer(job_id, SteeringVerb.UNPAUSE, reason, actor, plan_id)

    async def _steer(self, job_id: str, verb: SteeringVerb, reason: str, actor: str | None, plan_id: str | None) -> int:
        given = {"plan_id": plan_id} if plan_id is not None else None
        return await self._store.send(job_id, str(verb), actor or current_actor(), reason, given)

    async def plan(self, job_id: str, request: Request) -> JobPlan:
        """What a verb would keep and run again now; nothing is changed. Refused where it cannot be done."""
        async with looking_at(self._store.connections, job_id) as look:
            if look is None:
                raise NotFound(f"There is no job {job_id}.", remedy="List the jobs with: holdfast status")
            request = request._replace(node=_node_name(look.state.program, request.node))
            known = tuple(item for item in request.items if 0 <= item <= LAST_ITEM)
            plan = await look.plan(request._replace(items=known))
        problem = unknown_items(look.state, request)
        if problem is not None:
            raise problem
        if isinstance(plan, Refusal):
            raise refused(job_id, request.verb, plan)
        return JobPlan(job_id, look.state.generation, look.now, request, plan)

    async def plan_steering(self, job_id: str, verb: SteeringVerb) -> SteeringPlan:
        """What a cancel, a pause or an unpause would stop, hold or let go on now. Refused where it cannot be done."""
        reader = Reader(self._store.connections)
        standing, now = await reader.standing(job_id), await reader.now()
        job, nodes = _open_job(standing), _open_nodes(standing.snapshot)
        plan = make_steering(job, nodes, verb)
        if isinstance(plan, Refusal):
            raise refused(job_id, verb, plan)
        return SteeringPlan(job_id, job.generation, now, job, plan)

    async def recover(self, job_id: str, request: Request, *, reason: str = "", actor: str | None = None) -> int:
        """Ask the job's owner to carry out a verb; returns the signal's id, whose answer tells what came of it."""
        given = {field: value for field, value in request._asdict().items() if value}
        if request.verb is Verb.SET:
            given["output"] = request.output
            size = len(orjson.dumps(request.output))
            if size > self._limit_bytes:
                raise PayloadRefused(
                    f"The output of {request.node} has {size:,} bytes; at most {self._limit_bytes:,} are taken.",
                    remedy="Put the data into a file or a store that the handlers can read, and give its name.",
                    instance=job_id,
                )
        return await self._store.send(job_id, "recover", actor or current_actor(), reason, given)

    async def breakers(self) -> list[BreakerView]:
        """All breakers that workflows have declared, by name."""
        return await Gates(self._store).breakers()

    async def change_breaker(
        self, name: str, verb: BreakerVerb, *, reason: str = "", actor: str | None = None
    ) -> BreakerView:
        """Open a breaker until a person closes it, close it, or close it with an empty window; who and why is kept."""

        def steer(breaker: Breaker, now: float) -> None:
            _steer(breaker, verb, now, reason)

        return await Gates(self._store).change_breaker(name, steer, actor or current_actor())

    async def limits(self) -> list[LimitView]:
        """All limits: those that workflows have declared, and those that people have set."""
        return await Gates(self._store).limits()

    async def set_limit(
        self,
        name: str,
        *,
        tenant: str | None = None,
        concurrency: int | None = None,
        rate: tuple[int, float] | None = None,
        backlog: int | None = None,
        actor: str | None = None,
    ) -> LimitView:
        """Limit a queue (`queue:NAME`), a tenant (`tenant`), or otherwise than its workflow a node or a key.

        `rate` is how many tasks may begin in how many seconds; `backlog` how many jobs of a tenant may be open.
        """
        owner = check_limit(name, tenant, concurrency=concurrency, rate=rate, backlog=backlog)
        burst, seconds = rate or (None, None)
        return await Gates(self._store).set_limit(
            owner,
            name,
            actor or current_actor(),
            concurrency=concurrency,
            rate=burst / seconds if burst is not None and seconds is not None else None,
            burst=burst,
            backlog=backlog,
        )

    async def drop_limit(self, name: str, *, tenant: str | None = None) -> LimitView:
        """Take a limit away that a person has set; returns it as it was."""
        return await Gates(self._store).drop_limit(_tenant_of_limit(name, tenant), name)


def check_limit(
    name: str,
    tenant: str | None,
    *,
    concurrency: int | None = None,
    rate: tuple[int, float] | None = None,
    backlog: int | None = None,
) -> str:
    """Refuse what no limit can be; returns whose limit it is."""
    owner = _tenant_of_limit(name, tenant)
    if concurrency is None and rate is None and backlog is None:
        raise InvalidInput(f"What is the limit {name} to be?", remedy="Give a concurrency, a rate or a backlog.")
    if backlog is not None and name != "tenant":
        raise InvalidInput(
            f"The limit {name} has no backlog: only a tenant's jobs are counted.",
            remedy="Use: holdfast limits set tenant --backlog N",
        )
    burst, seconds = rate or (None, None)
    if any(number is not None and number <= 0 for number in (concurrency, burst, seconds, backlog)):
        raise InvalidInput(
            f"The limit {name} must be above zero.",
            remedy="Hold everything back with a breaker: holdfast breakers open NAME",
        )
    if any(number is not None and number > MAX_LIMIT for number in (concurrency, burst, backlog)):
        raise InvalidInput(f"The limit {name} is too large.", remedy=f"Give at most {MAX_LIMIT:,}, or no limit.")
    # Written so that NaN, which is neither, is refused too.
    if seconds is not None and not MIN_RATE_SECONDS <= seconds <= MAX_SECONDS:
        raise InvalidInput(
            f"The rate of the limit {name} is not over a time that can be measured.",
            remedy=f"Give between {MIN_RATE_SECONDS:g} and {MAX_SECONDS:,} seconds: 100/60",
        )
    return owner


def _tenant_of_limit(name: str, tenant: str | None) -> str:
    """Whose limit it is; a queue is everybody's."""
    if tenant is not None and not (0 < len(tenant) <= MAX_NAME_LENGTH and tenant.isprintable()):
        raise InvalidInput(
            f"'{shown_name(tenant)}' is not the name of a tenant.",
            remedy=f"It has 1 to {MAX_NAME_LENGTH} characters that can be printed.",
        )
    kind, _, rest = name.partition(":")
    if kind == "queue" and rest:
        checked_queue(rest)
        if tenant is not None:
            raise InvalidInput(f"The limit {name} is one for all tenants.", remedy="Leave the tenant out.")
        return ""
    if name == "tenant" or (kind in ("node", "key") and rest):
        return tenant or "default"
    raise InvalidInput(
        f"'{shown_name(name)}' is not the name of a limit.",
        remedy="Use queue:QUEUE, tenant, node:WORKFLOW.NODE or key:KEY; list them with: holdfast limits",
    )


def _steer(breaker: Breaker, verb: BreakerVerb, now: float, reason: str) -> None:
    if verb == "open":
        if breaker.held:
            raise Refused(
                f"Breaker {breaker.name} is held open already.",
                remedy=f"Close it with: holdfast breakers close {breaker.name}",
                instance=breaker.name,
            )
        open_breaker(breaker, now, reason or "opened by hand", held=True)
        return
    if verb == "close" and breaker.state is BreakerState.CLOSED:
        raise Refused(
            f"Breaker {breaker.name} is closed already.",
            remedy=f"Make it forget the failures that it has counted with: holdfast breakers reset {breaker.name}",
            instance=breaker.name,
        )
    close_breaker(breaker, now, reason or ("closed by hand" if verb == "close" else "reset by hand"))


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


def current_actor() -> str:
    """Who acts: the account and the machine, as people know them."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return f"unknown@{socket.gethostname()}"
