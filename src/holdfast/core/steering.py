"""The plan of a cancel, a pause or an unpause, and why one is refused. `stopping` and `holding` carry it out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import orjson

from holdfast.core.plans import MOVED, RESUMABLE, Refusal
from holdfast.core.states import JOB_TERMINAL, TERMINAL, JobState, JobStatus, Status, StopCause
from holdfast.remedies import Remedy


class SteeringVerb(StrEnum):
    CANCEL = "cancel"
    PAUSE = "pause"
    UNPAUSE = "unpause"


class Change(StrEnum):
    """What happens to the tasks of a step."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    KEEP = "keep"


class OpenJob(NamedTuple):
    """As much of a job as decides what may be done with it."""

    job_id: str
    generation: int
    status: JobStatus
    stop: StopCause | None = None
    paused_by: str | None = None
    paused_at: float | None = None


class OpenNode(NamedTuple):
    """What is left of a node: `queued` are all its tasks that have not ended and that no worker runs."""

    name: str
    status: Status
    completed: int = 0
    queued: int = 0
    running: int = 0


class SteeringStep(NamedTuple):
    """What happens to some tasks of a node. A node of which some tasks run and others wait has two steps."""

    node: str
    action: Change
    items: int
    reason: str
    confirm: bool = False


class Steering(NamedTuple):
    verb: SteeringVerb
    steps: tuple[SteeringStep, ...]
    running: int

    @property
    def tasks(self) -> int:
        return sum(step.items for step in self.steps if step.action is not Change.KEEP)


_CHANGES = {
    SteeringVerb.CANCEL: (Change.CANCEL, "they are archived", "they run and have the grace period to finish"),
    SteeringVerb.PAUSE: (Change.HOLD, "they are held back", "they run and go on to their end"),
    SteeringVerb.UNPAUSE: (Change.RELEASE, "they go on", "they run already"),
}


def make_steering(job: OpenJob, nodes: Sequence[OpenNode], verb: SteeringVerb) -> Steering | Refusal:
    """What the verb would do now, node by node."""
    refusal = steering_refusal(job, verb)
    if refusal is not None:
        return refusal
    steps = tuple(step for node in nodes for step in _steps(node, verb))
    return Steering(verb, steps, sum(node.running for node in nodes))


def open_job(state: JobState) -> OpenJob:
    pause = state.pause
    stop = state.stop.cause if state.stop is not None else None
    paused_by, paused_at = (pause.name, pause.since) if pause is not None else (None, None)
    return OpenJob(state.job_id, state.generation, state.status, stop, paused_by, paused_at)


def refusal_now(state: JobState, verb: SteeringVerb, plan_id: str | None) -> Refusal | None:
    """Why its owner does not carry out the verb; with a plan's id it does exactly that or nothing."""
    job = open_job(state)
    refusal = steering_refusal(job, verb)
    if refusal is None and plan_id is not None and plan_id != steering_id(job, verb):
        return MOVED
    return refusal


def steering_refusal(job: OpenJob, verb: SteeringVerb) -> Refusal | None:
    """Why the verb cannot be carried out, and what else can be done."""
    if job.status in JOB_TERMINAL:
        is_meant_to_go_on = verb is SteeringVerb.UNPAUSE and job.status in RESUMABLE
        go_on = Remedy("Continue it with", "resume", job.job_id)
        look = Remedy("See how it ended with", "status", job.job_id)
        late = "too late, " if verb is SteeringVerb.CANCEL else ""
        return Refusal(f"{late}it is already {job.status}", go_on if is_meant_to_go_on else look)
    wait = Remedy("Wait until it has ended", "watch", job.job_id)
    if verb is SteeringVerb.CANCEL:
        is_ending = job.stop is not None and job.stop is not StopCause.FAILED
        return Refusal(f"it is already stopping ({job.stop})", wait) if is_ending else None
    if job.stop is not None:
        return Refusal(f"it is stopping ({job.stop})", wait)
    if verb is SteeringVerb.PAUSE and job.paused_by is not None:
        go_on = Remedy("Let it go on with", "unpause", job.job_id)
        return Refusal(f"{job.paused_by} has paused it already", go_on)
    if verb is SteeringVerb.UNPAUSE and job.paused_by is None:
        return Refusal("it is not paused", Remedy("See what it waits for", "why", job.job_id))
    return None


def steering_id(job: OpenJob, verb: SteeringVerb) -> str:
    """The hash of what is done to what: this generation, as it is stopped or paused now. What it runs changes by
    itself while the job goes on, and is no part of it."""
    content = [job.job_id, job.generation, verb, job.stop, job.paused_by, job.paused_at]
    return hashlib.sha256(orjson.dumps(content)).hexdigest()[:16]


def _steps(node: OpenNode, verb: SteeringVerb) -> Iterator[SteeringStep]:
    action, queued, running = _CHANGES[verb]
    asks = verb is SteeringVerb.CANCEL
    if node.status in TERMINAL:
        yield SteeringStep(node.name, Change.KEEP, node.completed, f"it is {node.status}")
        return
    if node.queued or not node.running:
        reason = queued if node.queued else f"it is {node.status}"
        changes = node.queued or verb is not SteeringVerb.UNPAUSE
        yield SteeringStep(node.name, action if changes else Change.KEEP, node.queued, reason, confirm=asks)
    if node.running:
        yield SteeringStep(node.name, Change.KEEP, node.running, running)
