"""The verbs: what one would do to a job now, sending it to the job's owner, and the owner's answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from holdfast.core.plans import MOVED, Refusal, Stale
from holdfast.core.states import JobStatus, Status, StopCause
from holdfast.core.steering import OpenJob, OpenNode, SteeringVerb, make_steering
from holdfast.define.program import Program
from holdfast.errors import PayloadRefused
from holdfast.operations.answering import is_answered
from holdfast.operations.correcting import plan_correction
from holdfast.operations.ports import OperationsStore
from holdfast.operations.requests import Keyed, signal_of
from holdfast.operations.scope import Scope
from holdfast.remedies import Remedy
from holdfast.store.read_rows import JobDiagnosis, Snapshot
from holdfast.store.records import SignalAnswer
from holdfast.views.verbs import (
    APPLIED,
    PENDING,
    Correction,
    Plan,
    Verb,
    VerbRequest,
    VerbResult,
    recovery_plan,
    refused,
    steering_plan,
    unknown_items,
)

__all__ = [
    "ANSWER_SECONDS",
    "Correction",
    "Plan",
    "Stale",
    "Verb",
    "VerbRequest",
    "VerbResult",
    "answer",
    "carry_out",
    "plan",
    "send",
    "settle",
]

LAST_ITEM = 2**31 - 1
"""The last item that a row can name."""
ANSWER_SECONDS = 5.0


async def plan(scope: Scope, store: OperationsStore, job_id: str, request: VerbRequest) -> Plan:
    """What a verb would do now. Changes nothing.

    Refused where the verb would be refused. Only if a step is blocked, the plan is returned and has a `refusal`.
    """
    if request.correction is not None:
        return await plan_correction(scope, store, job_id, await _with_node_name(scope, store, job_id, request))
    make = _plan_steering if request.verb.is_steering else _plan_recovery
    return await make(scope, store, job_id, request)


async def send(scope: Scope, store: OperationsStore, job_id: str, request: VerbRequest, *, reason: str = "") -> int:
    """Ask the job's owner to apply a verb; returns the id of the signal that the owner answers."""
    if request.correction is None:
        return await _send(scope, store, job_id, request, reason)
    planned = await plan(scope, store, job_id, request)
    if planned.refusal is not None:
        raise planned.refusal
    if request.plan_id not in (None, planned.plan_id):
        raise refused(job_id, request.verb, MOVED)
    return await _send_planned(scope, store, planned, reason)


async def _send_planned(
    scope: Scope,
    store: OperationsStore,
    planned: Plan,
    reason: str,
    *,
    exactly: bool = False,
    keyed: Keyed | None = None,
) -> int:
    """Send the verb of a plan. That of a correction is kept for the owner, who does exactly that or nothing."""
    if planned.kept is not None:
        await store.keep_plan(*planned.kept)
    is_corrected = planned.request.correction is not None
    request = replace(planned.request, plan_id=planned.plan_id) if exactly or is_corrected else planned.request
    return await _send(scope, store, planned.job_id, request, reason, keyed, _tasks(planned))


def _tasks(planned: Plan) -> int | None:
    return None if planned.verb.is_steering else planned.tasks


async def _send(
    scope: Scope,
    store: OperationsStore,
    job_id: str,
    request: VerbRequest,
    reason: str,
    keyed: Keyed | None = None,
    tasks: int | None = None,
) -> int:
    """Send a verb; a request with a key is sent once: a later one has the same signal. `tasks`: as its plan says."""
    kind, data = _signal(store, job_id, request)
    if keyed is None:
        return await store.send(job_id, kind, scope.actor, reason, data, tenant=scope.tenant, origin=scope.origin)
    once = keyed.once(request.verb, tasks)
    found = await store.requests(scope.tenant).send(job_id, once, kind, scope.actor, reason, data, scope.origin)
    return signal_of(job_id, keyed, found)


def _signal(store: OperationsStore, job_id: str, request: VerbRequest) -> tuple[str, dict[str, Any] | None]:
    """The kind and the data of a verb's signal."""
    if request.verb.is_steering:
        return str(request.verb), {"plan_id": request.plan_id} if request.plan_id is not None else None
    arguments = {field: value for field, value in request.to_core()._asdict().items() if value}
    if request.correction is not None:
        arguments["correction"] = request.plan_id
    if request.verb is Verb.SET:
        arguments["output"] = request.output
        _check_size(store, job_id, f"The output of {request.node} has", request.output)
    if request.params is not None:
        arguments["params"] = request.params
        _check_size(store, job_id, f"The params of {request.node} have", request.params)
    return "recover", arguments


def _check_size(store: OperationsStore, job_id: str, what: str, value: Any) -> None:
    size, limit = len(orjson.dumps(value)), store.payload_limit_bytes
    if size > limit:
        raise PayloadRefused(
            f"{what} {size:,} bytes; the limit is {limit:,}.",
            remedy="Put the data into a file or a store that the handlers can read, and give its name.",
            instance=job_id,
        )


async def carry_out(
    scope: Scope,
    store: OperationsStore,
    planned: Plan,
    *,
    reason: str = "",
    exactly: bool = False,
    seconds: float = ANSWER_SECONDS,
    keyed: Keyed | None = None,
) -> VerbResult:
    """Send the verb of a plan and wait that long for the owner's answer; Refused if the owner refuses.

    With `exactly` the owner refuses unless it would do exactly what is planned. With a key it is sent once.
    """
    if planned.refusal is not None:
        raise planned.refusal
    signal_id = await _send_planned(scope, store, planned, reason, exactly=exactly, keyed=keyed)
    pending = VerbResult(planned.job_id, planned.verb, signal_id, PENDING, None, _tasks(planned))
    return await settle(scope, store, pending, seconds=seconds)


async def settle(
    scope: Scope, store: OperationsStore, result: VerbResult, *, seconds: float | None = ANSWER_SECONDS
) -> VerbResult:
    """The same result once the owner has answered, or after that time; None: however long it takes.

    Refused if the owner refuses.
    """
    result = answered(result, await answer(scope, store, result.signal_id, seconds=seconds))
    if result.verb is Verb.CANCEL:
        snapshot = await store.reads(scope.tenant).snapshot(result.job_id, whole=False)
        result = replace(result, status=snapshot.job.status)
    return result


def answered(result: VerbResult, reply: SignalAnswer | None) -> VerbResult:
    """The result with the owner's answer, if there is one; Refused if the owner refuses."""
    if reply is None:
        return result
    if not reply.applied:
        remedy = reply.remedy or Remedy("See how it is now", "status", result.job_id)
        raise refused(result.job_id, result.verb, Refusal(reply.reason, remedy))
    return replace(result, answer=APPLIED, reason=reply.reason)


async def answer(
    scope: Scope, store: OperationsStore, signal_id: int, *, seconds: float | None = ANSWER_SECONDS
) -> SignalAnswer | None:
    """What the owner answers to a signal; None if it does not answer in that time."""
    reply = await store.answer(signal_id, tenant=scope.tenant)
    if reply is None and seconds != 0 and await is_answered(store, signal_id, seconds):
        reply = await store.answer(signal_id, tenant=scope.tenant)
    return reply


async def _plan_recovery(scope: Scope, store: OperationsStore, job_id: str, request: VerbRequest) -> Plan:
    async with store.reads(scope.tenant).planning(job_id) as look:
        request = replace(request, node=_node_name(look.state.program, request.node))
        possible = tuple(item for item in request.items if 0 <= item <= LAST_ITEM)
        planned = await look.plan(replace(request, items=possible).to_core())
    problem = unknown_items(look.state, request.node, request.verb, request.items)
    if problem is not None:
        raise problem
    if isinstance(planned, Refusal):
        raise refused(job_id, request.verb, planned)
    return recovery_plan(job_id, look.state.generation, look.now, request, planned)


async def _plan_steering(scope: Scope, store: OperationsStore, job_id: str, request: VerbRequest) -> Plan:
    reader = store.reads(scope.tenant)
    diagnosis, now = await reader.diagnosis(job_id), await reader.now()
    job = _open_job(diagnosis)
    planned = make_steering(job, _open_nodes(diagnosis.snapshot), SteeringVerb(request.verb))
    if isinstance(planned, Refusal):
        raise refused(job_id, request.verb, planned)
    return replace(steering_plan(job, now, planned), request=request)


async def _with_node_name(scope: Scope, store: OperationsStore, job_id: str, request: VerbRequest) -> VerbRequest:
    if request.node is None:
        return request
    async with store.reads(scope.tenant).planning(job_id) as look:
        return replace(request, node=_node_name(look.state.program, request.node))


def _node_name(program: Program, name: str | None) -> str | None:
    """The number of a stage means its node."""
    if name is None or not name.isdecimal():
        return name
    return next((node for node in program.nodes if program.graph.stage_number(node) == int(name)), name)


def _open_job(diagnosis: JobDiagnosis) -> OpenJob:
    job = diagnosis.snapshot.job
    stop = StopCause(diagnosis.stop_cause) if diagnosis.stop_cause is not None else None
    pause = job.pause or {}
    return OpenJob(job.job_id, job.generation, JobStatus(job.status), stop, pause.get("name"), pause.get("since"))


def _open_nodes(snapshot: Snapshot) -> list[OpenNode]:
    nodes = []
    for name in snapshot.graph.order:
        row, queued = snapshot.nodes.get(name), snapshot.queue.get(name)
        if row is None:
            nodes.append(OpenNode(name, Status.PENDING))
            continue
        running = queued.running if queued is not None else 0
        settled = row.completed + row.failed + row.skipped + row.cancelled
        waiting = max(0, row.width - settled - running)
        nodes.append(OpenNode(name, Status(row.status), row.completed, waiting, running))
    return nodes
