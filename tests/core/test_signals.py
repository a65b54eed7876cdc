"""Every signal in every situation of a job: nothing falls over, counters stay right, and what has ended stays ended."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from holdfast.core.effects import EnqueueTasks, RetryTask
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
from tests.core.driver import Driver, Fails

RULES = Rules(grace_seconds=30, drain_seconds=600, chunk_size=3, window_size=2, lost_limit=2, crash_limit=2)


def new(timeout_seconds: float | None = None) -> Driver:
    """A task, a fan-out of five items in chunks of three, and what follows them."""
    flow = Workflow("w", timeout_seconds=timeout_seconds, inputs={"items": {"type": "array"}})
    flow.task("a", handler="h", retry={"max_retries": 1})
    flow.task("b", handler="h", importance="important", retry={"max_retries": 1})
    flow.fan_out("f", source="{{ inputs['items'] }}", handler="h", importance="optional")
    flow.fan_in("g", after="f", importance="important")
    flow.task("c", handler="h", after=["a"])
    return Driver(flow, {"items": [1, 2, 3, 4, 5]}, RULES)


def submitted() -> Driver:
    driver = new()
    driver.submit()
    return driver


def retrying() -> Driver:
    driver = submitted()
    driver.fail("a")
    driver.lose("f", 0)
    return driver


def gathering() -> Driver:
    driver = submitted()
    while driver.status_of("f") != "completed":
        driver.continue_work()
        for node, item in [key for key in driver.queue if key[0] == "f"]:
            driver.done(node, item)
    assert driver.status_of("g") == "running"
    return driver


def draining() -> Driver:
    driver = submitted()
    driver.claim("b")
    driver.claim("f", 0)
    driver.fail("a", permanent=True)
    return driver


def cancelling() -> Driver:
    driver = submitted()
    driver.claim("a")
    driver.claim("f", 1)
    driver.cancel()
    return driver


def timed_out() -> Driver:
    """Its timeout has come, but one report was handed in before and is still unread."""
    driver = new(timeout_seconds=1000)
    driver.submit()
    driver.unread.append(driver.hand_in("b"))
    driver.pass_time(1000)
    assert not driver.state.is_terminal
    return driver


def ended(status: str) -> Callable[[], Driver]:
    def make() -> Driver:
        driver = new()
        if status == "cancelled":
            driver.cancel()
        else:
            bad = {"failed": "a", "partial": "b"}.get(status)
            driver.run(lambda node, *_: Fails(permanent=True) if node == bad else {"of": node})
        assert driver.state.status == status
        return driver

    return make


SITUATIONS: dict[str, Callable[[], Driver]] = {
    "pending": new,
    "running": submitted,
    "retrying": retrying,
    "gathering": gathering,
    "draining": draining,
    "cancelling": cancelling,
    "timed out": timed_out,
    **{status: ended(status) for status in ("completed", "partial", "failed", "cancelled")},
}


def report(outcome: Outcome, node: str, item: int) -> Callable[[Driver], None]:
    """A report of that task's lease, if it has one; else of a lease that it had."""

    def send(driver: Driver) -> None:
        key = (node, item)
        if key in driver.queue:
            fails = Fails("no") if outcome is Outcome.FAILED else None
            driver.read(driver.hand_in(node, item, outcome, fails=fails))
        else:
            elsewhere = submitted().hand_in("a")
            driver.read(elsewhere._replace(node=node, item=item, outcome=outcome, epoch=99))

    return send


SIGNALS: dict[str, Callable[[Driver], object]] = {
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
        ItemsAggregated("g", error={"code": "E", "message": "m", "class": "permanent"})
    ),
    **{f"{o} of a task": report(o, "a", -1) for o in Outcome},
    **{f"{o} of an item": report(o, "f", 0) for o in Outcome},
}


@pytest.mark.parametrize(("situation", "signal"), list(product(SITUATIONS, SIGNALS)))
def test_every_signal_is_heard_in_every_situation_invariants_4_5_8_11(situation: str, signal: str) -> None:
    driver = SITUATIONS[situation]()
    was_terminal, was_stopping = driver.state.is_terminal, driver.state.stop is not None
    status, result, heard = driver.state.status, driver.state.result, len(driver.effects)
    SIGNALS[signal](driver)
    driver.check()
    if was_terminal:
        assert (driver.state.status, driver.state.result) == (status, result)
    if was_terminal or was_stopping:
        assert not [e for e in driver.effects[heard:] if isinstance(e, EnqueueTasks | RetryTask)]


@pytest.mark.parametrize(("situation", "signal"), list(product(SITUATIONS, SIGNALS)))
def test_no_signal_leaves_a_job_stuck_invariant_7(situation: str, signal: str) -> None:
    """Whatever was heard: when everything that is queued, owed and unread has been done, the job has ended."""
    driver = SITUATIONS[situation]()
    SIGNALS[signal](driver)
    if driver.state.status == "pending":
        driver.submit()
    for unread in driver.unread:
        driver.read(unread)
    driver.run(lambda node, *_: {"of": node})
    assert driver.state.is_terminal
