"""Plans of a cancel, a pause and an unpause, which are refused exactly where the owner refuses the verb."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.core.plans import Refusal
from holdfast.core.signals import CancelRequested, PauseRequested, Signal
from holdfast.core.states import JobStatus, Rules, Status, StopCause
from holdfast.core.steering import OpenJob, OpenNode, Steering, SteeringVerb, make_steering, open_job, steering_id
from holdfast.define.workflow import Workflow
from tests.core.one_job import OneJob

CANCEL, PAUSE, UNPAUSE = SteeringVerb
RUNNING = OpenJob("j", 1, JobStatus.RUNNING)
NODES = [
    OpenNode("a", Status.COMPLETED, completed=1),
    OpenNode("b", Status.RUNNING, completed=2, queued=5, running=3),
    OpenNode("c", Status.DISPATCHED, running=1),
    OpenNode("d", Status.PENDING),
]


def running() -> OneJob:
    flow = Workflow("w", timeout_seconds=60)
    flow.task("a", handler="h", retry={"max_retries": 0})
    flow.task("b", handler="h")
    job = OneJob(flow, rules=Rules(grace_seconds=30, drain_seconds=600))
    job.submit()
    return job


def paused() -> OneJob:
    job = running()
    job.send(PauseRequested(1, "ann", "", is_paused=True))
    return job


def failing() -> OneJob:
    job = running()
    job.claim("b")
    job.fail("a", permanent=True)
    return job


def stopping() -> OneJob:
    job = running()
    job.claim("b")
    job.cancel()
    return job


def completed() -> OneJob:
    job = running()
    job.done("a")
    job.done("b")
    return job


def failed() -> OneJob:
    job = failing()
    job.done("b")
    return job


def timed_out() -> OneJob:
    job = running()
    job.pass_time(61)
    return job


def signal(verb: SteeringVerb, plan_id: str | None = None) -> Signal:
    if verb is CANCEL:
        return CancelRequested(99, "ben", "", plan_id)
    return PauseRequested(99, "ben", "", is_paused=verb is PAUSE, plan_id=plan_id)


@pytest.mark.parametrize("verb", SteeringVerb)
@pytest.mark.parametrize("made", [running, paused, failing, stopping, completed, failed, timed_out])
def test_a_plan_is_refused_exactly_if_the_owner_refuses_and_for_the_same_reason(
    made: Callable[[], OneJob], verb: SteeringVerb
) -> None:
    job = made()
    plan = make_steering(open_job(job.state), [], verb)
    job.send(signal(verb))
    if not job.answers or job.answers[-1].signal_id != 99:
        job.pass_time(job.state.rules.grace_seconds)  # The running tasks do not finish within the grace period.
    answer = job.answers[-1]
    assert answer.signal_id == 99
    assert answer.applied == isinstance(plan, Steering)
    if isinstance(plan, Refusal):
        assert answer.reason == plan.reason
        assert plan.remedy.verb is not None and plan.remedy.job == "job"


def is_paused(job: OneJob) -> None:
    job.send(PauseRequested(1, "cleo", "", is_paused=True))


def is_paused_again(job: OneJob) -> None:
    job.send(PauseRequested(1, "cleo", "", is_paused=False))
    job.now += 1
    is_paused(job)


def is_recovered(job: OneJob) -> None:
    assert job.recover("clear", "a").applied


@pytest.mark.parametrize(
    ("verb", "made", "moves"),
    [
        (CANCEL, running, is_paused),
        (CANCEL, running, is_recovered),
        (PAUSE, running, is_recovered),
        (UNPAUSE, paused, is_paused_again),
    ],
)
def test_an_owner_refuses_an_outdated_plan_invariant_12(
    verb: SteeringVerb, made: Callable[[], OneJob], moves: Callable[[OneJob], None]
) -> None:
    job = made()
    shown = steering_id(open_job(job.state), verb)
    moves(job)
    before = len(job.events)
    job.send(signal(verb, shown))
    answer = job.answers[-1]
    assert (answer.applied, answer.reason) == (False, "the job has changed since this plan was made")
    assert len(job.events) == before
    job.send(signal(verb, steering_id(open_job(job.state), verb)))
    assert job.answers[-1].applied


def steps(verb: SteeringVerb) -> list[tuple[str, str, int]]:
    plan = make_steering(RUNNING if verb is not UNPAUSE else RUNNING._replace(paused_by="ann"), NODES, verb)
    assert isinstance(plan, Steering)
    assert (plan.tasks, plan.running) == (5, 4)
    return [(step.node, str(step.action), step.items) for step in plan.steps]


def test_a_cancel_cancels_queued_tasks_and_keeps_running_ones() -> None:
    assert steps(CANCEL) == [
        ("a", "keep", 1),
        ("b", "cancel", 5),
        ("b", "keep", 3),
        ("c", "keep", 1),
        ("d", "cancel", 0),
    ]


def test_a_pause_holds_queued_tasks_and_nodes_that_have_not_begun() -> None:
    assert steps(PAUSE) == [("a", "keep", 1), ("b", "hold", 5), ("b", "keep", 3), ("c", "keep", 1), ("d", "hold", 0)]


def test_an_unpause_releases_what_the_pause_held() -> None:
    assert steps(UNPAUSE) == [
        ("a", "keep", 1),
        ("b", "release", 5),
        ("b", "keep", 3),
        ("c", "keep", 1),
        ("d", "keep", 0),
    ]


def test_only_a_cancel_needs_a_confirmation() -> None:
    plans = [make_steering(RUNNING, NODES, CANCEL), make_steering(RUNNING, NODES, PAUSE)]
    asks = [any(step.confirm for step in plan.steps) for plan in plans if isinstance(plan, Steering)]
    assert asks == [True, False]


def test_a_verb_outdates_a_plan_and_progress_does_not() -> None:
    """A plan survives the start of its job, but no other generation, stop or pause."""
    mine = steering_id(RUNNING, CANCEL)
    assert steering_id(RUNNING._replace(status=JobStatus.PENDING), CANCEL) == mine
    others = [
        steering_id(RUNNING, PAUSE),
        steering_id(RUNNING._replace(job_id="other"), CANCEL),
        steering_id(RUNNING._replace(generation=2), CANCEL),
        steering_id(RUNNING._replace(stop=StopCause.FAILED), CANCEL),
        steering_id(RUNNING._replace(paused_by="ann", paused_at=1.0), CANCEL),
        steering_id(RUNNING._replace(paused_by="ann", paused_at=2.0), CANCEL),
    ]
    assert len({mine, *others}) == len(others) + 1
