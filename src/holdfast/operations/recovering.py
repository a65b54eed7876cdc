"""The verbs: what they would do to a job now, and having its owner do it."""

from __future__ import annotations

import asyncio
import time

import orjson

from holdfast.core.plans import Refusal
from holdfast.core.signals import Request, Verb
from holdfast.core.states import JobStatus, Status, StopCause
from holdfast.core.steering import OpenJob, OpenNode, SteeringVerb, make_steering
from holdfast.define.program import Program
from holdfast.errors import PayloadRefused
from holdfast.operations.scope import Scope
from holdfast.store.interface import SignalAnswer
from holdfast.store.planning import looking_at
from holdfast.store.postgres import PostgresStore
from holdfast.store.reading import Reader, Snapshot, Standing, no_such_job
from holdfast.views.plans import JobPlan, SteeringPlan, refused, unknown_items

LAST_ITEM = 2**31 - 1
"""The last item that a row can name."""
ANSWER_SECONDS = 5.0
LOOK_SECONDS = 0.05


async def plan(scope: Scope, store: PostgresStore, job_id: str, request: Request) -> JobPlan:
    """What a verb would keep and run again now. Changes nothing. Refused where the verb would be."""
    async with looking_at(store.connections, job_id) as look:
        if look is None or look.state.tenant != scope.tenant:
            raise no_such_job(job_id)
        request = request._replace(node=_node_name(look.state.program, request.node))
        known = tuple(item for item in request.items if 0 <= item <= LAST_ITEM)
        planned = await look.plan(request._replace(items=known))
    problem = unknown_items(look.state, request)
    if problem is not None:
        raise problem
    if isinstance(planned, Refusal):
        raise refused(job_id, request.verb, planned)
    return JobPlan(job_id, look.state.generation, look.now, request, planned)


async def recover(scope: Scope, store: PostgresStore, job_id: str, request: Request, *, reason: str = "") -> int:
    """Ask the job's owner to apply a verb; returns the id of the signal that the owner answers."""
    given = {field: value for field, value in request._asdict().items() if value}
    if request.verb is Verb.SET:
        given["output"] = request.output
        size, limit = len(orjson.dumps(request.output)), store.payload_limit_bytes
        if size > limit:
            raise PayloadRefused(
                f"The output of {request.node} has {size:,} bytes; at most {limit:,} are taken.",
                remedy="Put the data into a file or a store that the handlers can read, and give its name.",
                instance=job_id,
            )
    return await store.send(job_id, "recover", scope.actor, reason, given, tenant=scope.tenant)


async def plan_steering(scope: Scope, store: PostgresStore, job_id: str, verb: SteeringVerb) -> SteeringPlan:
    """What a cancel, a pause or an unpause would do now. Changes nothing. Refused where the verb would be."""
    reader = Reader(store.connections, tenant=scope.tenant)
    standing, now = await reader.standing(job_id), await reader.now()
    job, nodes = _open_job(standing), _open_nodes(standing.snapshot)
    planned = make_steering(job, nodes, verb)
    if isinstance(planned, Refusal):
        raise refused(job_id, verb, planned)
    return SteeringPlan(job_id, job.generation, now, job, planned)


async def steer(
    scope: Scope,
    store: PostgresStore,
    job_id: str,
    verb: SteeringVerb,
    *,
    reason: str = "",
    plan_id: str | None = None,
) -> int:
    """Ask the job's owner for a cancel, a pause or an unpause; returns the id of the signal that the owner answers.

    With the id of a plan the owner does exactly that, or refuses because the job has changed.
    """
    given = {"plan_id": plan_id} if plan_id is not None else None
    return await store.send(job_id, str(verb), scope.actor, reason, given, tenant=scope.tenant)


async def answer(
    scope: Scope, store: PostgresStore, signal_id: int, *, seconds: float = ANSWER_SECONDS
) -> SignalAnswer | None:
    """What the owner answers to a signal; None if it does not answer in that time."""
    until = time.monotonic() + seconds
    while True:
        found = await store.answer(signal_id, tenant=scope.tenant)
        if found is not None or time.monotonic() >= until:
            return found
        await asyncio.sleep(LOOK_SECONDS)


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
