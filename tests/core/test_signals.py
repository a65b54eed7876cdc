"""Every signal in every situation of a job: none crashes the core, and a job that has ended stays ended."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from holdfast.core.effects import EnqueueTasks, RetryTask
from holdfast.core.failing import failure
from holdfast.core.signals import (
    ItemsAggregated,
    JobSubmitted,
    Outcome,
    OwnerChanged,
    ReportRejected,
    TimePassed,
    WorkContinued,
)
from holdfast.core.states import Rules
from holdfast.define.workflow import Workflow
from tests.core.one_job import Fails, OneJob

RULES = Rules(grace_seconds=30, drain_seconds=600, chunk_size=3, window_size=2, lost_limit=2, crash_limit=2)


def new(timeout_seconds: float | None = None) -> OneJob:
    """Two tasks, a fan-out of five items in chunks of three with its fan-in, and a task at the end."""
    flow = Workflow("w", timeout_seconds=timeout_seconds, inputs={"items": {"type": "array"}})
    flow.task("a", handler="h", retry={"max_retries": 1})
    flow.task("b", handler="h", importance="important", retry={"max_retries": 1})
    flow.fan_out("f", source="{{ inputs['items'] }}", handler="h", importance="optional")
    flow.fan_in("g", after="f", importance="important")
    flow.task("c", handler="h", after=["a"])
    return OneJob(flow, {"items": [1, 2, 3, 4, 5]}, RULES)


def submitted() -> OneJob:
    job = new()
    job.submit()
    return job


def retrying() -> OneJob:
    job = submitted()
    job.fail("a")
    job.lose("f", 0)
    return job


def gathering() -> OneJob:
    job = submitted()
    while job.status_of("f") != "completed":
        job.continue_work()
        for node, item in [key for key in job.queue if key[0] == "f"]:
            job.done(node, item)
    assert job.status_of("g") == "running"
    return job


def draining() -> OneJob:
    job = submitted()
    job.claim("b")
    job.claim("f", 0)
    job.fail("a", permanent=True)
    return job


def cancelling() -> OneJob:
    job = submitted()
    job.claim("a")
    job.claim("f", 1)
    job.cancel()
    return job


def timed_out() -> OneJob:
    """The timeout is over, and one report of before is still unread."""
    job = new(timeout_seconds=1000)
    job.submit()
    job.hand_in("b")
    job.pass_time(1000)
    assert not job.state.is_terminal
    return job


def ended(status: str) -> Callable[[], OneJob]:
    def make() -> OneJob:
        job = new()
        if status == "cancelled":
            job.cancel()
        else:
            bad = {"failed": "a", "partial": "b"}.get(status)
            job.run(lambda node, *_: Fails(permanent=True) if node == bad else {"of": node})
        assert job.state.status == status
        return job

    return make


SITUATIONS: dict[str, Callable[[], OneJob]] = {
    "pending": new,
    "running": submitted,
    "retrying": retrying,
    "gathering": gathering,
    "draining": draining,
    "cancelling": cancelling,
    "timed out": timed_out,
    **{status: ended(status) for status in ("completed", "partial", "failed", "cancelled")},
}


def report(outcome: Outcome, node: str, item: int) -> Callable[[OneJob], None]:
    """A report of the task that is queued; if it is not, a report of an epoch that the job does not know."""

    def send(job: OneJob) -> None:
        key = (node, item)
        if key in job.queue:
            fails = Fails("no") if outcome is Outcome.FAILED else None
            job.read(job.hand_in(node, item, outcome, fails=fails))
        else:
            elsewhere = submitted().hand_in("a")
            job.read(elsewhere._replace(node=node, item=item, outcome=outcome, epoch=99, signal_id=None))

    return send


SIGNALS: dict[str, Callable[[OneJob], object]] = {
    "submitted": lambda d: d.send(JobSubmitted()),
    "owner changed": lambda d: d.send(OwnerChanged("o2", "o1")),
    "report rejected": lambda d: d.send(ReportRejected("f", 0, 1, "w")),
    "cancel": lambda d: d.cancel(),
    "time passed": lambda d: d.send(TimePassed()),
    "much time passed": lambda d: d.pass_time(5000),
    "inconsistency found": lambda d: d.doubt(),
    "work continued": lambda d: d.send(WorkContinued()),
    "items aggregated": lambda d: d.send(ItemsAggregated("g", {"results": [], "count": 0})),
    "aggregation failed": lambda d: d.send(
        ItemsAggregated("g", error=failure("E", "m", permanent=True, at=d.now, node="g"))
    ),
    **{f"{o} of a task": report(o, "a", -1) for o in Outcome},
    **{f"{o} of an item": report(o, "f", 0) for o in Outcome},
}


@pytest.mark.parametrize(("situation", "signal"), list(product(SITUATIONS, SIGNALS)))
def test_every_signal_can_come_in_every_situation_invariants_4_5_8_11(situation: str, signal: str) -> None:
    job = SITUATIONS[situation]()
    was_terminal, was_stopping = job.state.is_terminal, job.state.stop is not None
    status, result, before = job.row["status"], job.row["result"], len(job.effects)
    SIGNALS[signal](job)
    job.check()
    if was_terminal:
        assert (job.row["status"], job.row["result"]) == (status, result)
    if was_terminal or was_stopping:
        assert not [e for e in job.effects[before:] if isinstance(e, EnqueueTasks | RetryTask)]


@pytest.mark.parametrize(("situation", "signal"), list(product(SITUATIONS, SIGNALS)))
def test_no_signal_leaves_a_job_stuck_invariant_7(situation: str, signal: str) -> None:
    """After any signal: the job ends once everything that is queued, owed and unread is done."""
    job = SITUATIONS[situation]()
    SIGNALS[signal](job)
    if job.state.status == "pending":
        job.submit()
    for unread in job.unread:
        job.read(unread)
    job.run(lambda node, *_: {"of": node})
    assert job.state.is_terminal
