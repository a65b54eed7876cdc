"""Pausing and unpausing many jobs, or a whole queue.

Each job gets the ordinary signal, and its owner answers. A paused queue is a limit that lets nothing begin.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.states import JobStatus, StopCause
from holdfast.core.steering import OpenJob, SteeringVerb, steering_refusal
from holdfast.define.bounds import checked_queue
from holdfast.define.source import did_you_mean
from holdfast.errors import InvalidInput, NotFound, Refused
from holdfast.operations.answering import LOOK_SECONDS, is_ending
from holdfast.operations.ports import OperationsStore, ReadStore
from holdfast.operations.scope import Scope
from holdfast.operations.verbs import ANSWER_SECONDS
from holdfast.remedies import Remedy
from holdfast.store.read_rows import OpenJobLine
from holdfast.store.records import SignalAnswer
from holdfast.views.gates import PausedQueue, paused_queue_view
from holdfast.views.pausing import JobsPlan, JobsResult, RefusedJob
from holdfast.views.verbs import Verb

BATCH_LENGTH = 500
"""How many jobs get the signal in one transaction."""


async def plan_jobs(scope: Scope, store: OperationsStore, verb: Verb, *, workflow_id: str | None = None) -> JobsPlan:
    """Which jobs of the tenant that have not ended a pause or an unpause would change now. Changes nothing."""
    steering = _steering(verb)
    reader = store.reads(scope.tenant)
    lines = await reader.open_jobs(workflow_id)
    if not lines and workflow_id is not None:
        await _refuse_unknown_workflow(reader, workflow_id)
    already = [line for line in lines if _is_so_already(line, steering)]
    others = [(line, _refusal(line, steering)) for line in lines if not _is_so_already(line, steering)]
    changed = [line for line, why in others if why is None]
    refused = tuple(RefusedJob(line.job_id, why) for line, why in others if why is not None)
    workflows = dict(sorted(Counter(line.workflow_id for line in changed).items()))
    ids = tuple(line.job_id for line in changed)
    return JobsPlan(verb, workflow_id, len(changed), len(already), refused, workflows, ids)


async def change_jobs(
    scope: Scope, store: OperationsStore, plan: JobsPlan, *, reason: str = "", seconds: float = ANSWER_SECONDS
) -> JobsResult:
    """Send the verb of a plan to each of its jobs and wait for the owners' answers, as long as some arrive.

    A job that ends meanwhile, or that another person changes in the same way, is no error.
    """
    result = plan.to_result()
    for first in range(0, len(plan.job_ids), BATCH_LENGTH):
        batch = plan.job_ids[first : first + BATCH_LENGTH]
        sent = await store.send_many(
            batch, str(plan.verb), scope.actor, reason, tenant=scope.tenant, origin=scope.origin
        )
        answers = await _answers(store, tuple(sent), seconds)
        unsent = len(batch) - len(sent)
        result = replace(
            result,
            jobs=result.jobs + sum(answer.applied for answer in answers.values()),
            ended=result.ended + unsent,
            pending=result.pending + tuple(job_id for signal, job_id in sent.items() if signal not in answers),
        )
        no = {sent[signal]: answer.reason for signal, answer in answers.items() if not answer.applied}
        result = await _with_refusals(store.reads(scope.tenant), result, no) if no else result
    return result


async def pause_queue(scope: Scope, store: OperationsStore, queue: str, *, reason: str = "") -> PausedQueue:
    """Let no worker start a task of the queue, for all tenants, until it is unpaused; running tasks continue."""
    checked_queue(queue)
    scope.refuse_unless_administrator(f"queue {queue}")
    paused = await store.gates(scope.origin).pause_queue(queue, scope.actor, reason)
    if paused is None:
        raise Refused(
            f"Queue {queue} is paused already.",
            remedy=Remedy("Let its tasks begin with", "unpause", flags=("--queue", queue)),
            instance=queue,
        )
    return paused_queue_view(paused)


async def unpause_queue(scope: Scope, store: OperationsStore, queue: str) -> PausedQueue:
    """Let workers start the tasks of the queue again; returns the queue as it was."""
    checked_queue(queue)
    scope.refuse_unless_administrator(f"queue {queue}")
    found = await store.gates(scope.origin).unpause_queue(queue, scope.actor)
    if found is None:
        raise Refused(f"Queue {queue} is not paused.", remedy=Remedy("See the queues with", "queues"), instance=queue)
    return paused_queue_view(found)


async def _answers(store: OperationsStore, signals: Sequence[int], seconds: float) -> dict[int, SignalAnswer]:
    """The answers that arrive; it waits that long for the next one."""
    answers: dict[int, SignalAnswer] = {}
    until = time.monotonic() + seconds
    while len(answers) < len(signals):
        new = await store.answers([signal for signal in signals if signal not in answers])
        answers |= new
        if new:
            until = time.monotonic() + seconds
        elif time.monotonic() >= until or is_ending(store):
            break
        else:
            await asyncio.sleep(LOOK_SECONDS)
    return answers


async def _with_refusals(reader: ReadStore, result: JobsResult, refusals: dict[str, str]) -> JobsResult:
    """Count the jobs whose owners refused: some have ended, or another person has changed them."""
    found = {line.job_id: line for line in await reader.open_jobs(job_ids=tuple(refusals))}
    already = {job_id for job_id, line in found.items() if _is_so_already(line, SteeringVerb(result.verb))}
    refused = (RefusedJob(job_id, why) for job_id, why in refusals.items() if job_id in found and job_id not in already)
    return replace(
        result,
        already=result.already + len(already),
        ended=result.ended + len(refusals) - len(found),
        refused=(*result.refused, *refused),
    )


def _steering(verb: Verb) -> SteeringVerb:
    if verb not in (Verb.PAUSE, Verb.UNPAUSE):
        raise InvalidInput(
            f"{verb} is about one job.", remedy="Many jobs at once can be paused and unpaused: holdfast pause --all"
        )
    return SteeringVerb(verb)


def _is_so_already(line: OpenJobLine, verb: SteeringVerb) -> bool:
    return (line.paused_by is not None) == (verb is SteeringVerb.PAUSE)


def _refusal(line: OpenJobLine, verb: SteeringVerb) -> str | None:
    stop = StopCause(line.stop_cause) if line.stop_cause is not None else None
    job = OpenJob(line.job_id, line.generation, JobStatus(line.status), stop, line.paused_by)
    refusal = steering_refusal(job, verb)
    return refusal.reason if refusal is not None else None


async def _refuse_unknown_workflow(reader: ReadStore, workflow_id: str) -> None:
    known = await reader.workflow_ids()
    if workflow_id not in known:
        remedy = did_you_mean(workflow_id, known) or "List the workflows with: holdfast workflows"
        raise NotFound(f"There is no workflow '{workflow_id}'.", remedy=remedy, instance=workflow_id)
