"""Breakers: they open by their share, stay shut for their cooldown, and let waves through that grow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.breaking import (
    Breaker,
    BreakerState,
    Call,
    close_breaker,
    feed,
    half_open,
    let_try,
    open_breaker,
)
from holdfast.core.failing import failure
from holdfast.core.holding import consult, notice
from holdfast.core.signals import BreakerSeen, Outcome, TaskReported, TaskView
from holdfast.define.gates import BreakerRules
from holdfast.define.workflow import Workflow
from tests.core.one_job import OneJob

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN
RULES = BreakerRules("gateway", window_calls=20, failure_share=0.5, min_calls=10, cooldown_seconds=30)


def told(breaker: Breaker, *failures: bool, at: float = 100.0) -> bool:
    return feed(breaker, [Call(failed, at) for failed in failures], at)


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 30), st.integers(1, 30), st.floats(0.05, 1.0))
def test_it_opens_exactly_when_the_share_of_its_window_is_reached(
    failures: list[bool], window: int, least: int, share: float
) -> None:
    rules = BreakerRules("b", window_calls=window, min_calls=min(least, window), failure_share=share)
    breaker = Breaker(rules)
    for number in range(len(failures)):
        seen = failures[: number + 1][-window:]
        told(breaker, failures[number])
        should = len(seen) >= rules.min_calls and sum(seen) >= share * len(seen)
        assert (breaker.state is OPEN) == should
        if should:
            break
        assert [failed for _, failed in breaker.window] == seen


def test_half_of_the_last_twenty_calls_open_it() -> None:
    breaker = Breaker(RULES)
    told(breaker, *[False] * 20)
    assert not told(breaker, *[True] * 9)
    assert told(breaker, True)
    assert (breaker.state, breaker.until, breaker.reason) == (OPEN, 130.0, "10 of the last 20 calls failed")


def test_calls_older_than_its_window_are_forgotten() -> None:
    breaker = Breaker(BreakerRules("b", min_calls=2, window_seconds=60))
    told(breaker, True, at=0.0)
    assert not told(breaker, True, at=61.0)
    assert told(breaker, True, at=62.0)


def test_late_news_change_nothing_while_it_is_open() -> None:
    breaker = Breaker(RULES)
    open_breaker(breaker, 100.0, "as told")
    assert not told(breaker, *[False] * 50, *[True] * 50)
    assert (breaker.state, breaker.until, breaker.permits) == (OPEN, 130.0, 0)


@pytest.mark.parametrize(
    ("now", "held", "probe", "tried"),
    [
        (129.9, False, None, False),
        (130.0, False, None, True),
        (1e9, True, None, False),
        (1e9, False, "http://x", False),
    ],
)
def test_it_is_tried_after_its_cooldown_unless_somebody_else_decides(
    now: float, held: bool, probe: str | None, tried: bool
) -> None:
    breaker = Breaker(BreakerRules("b", cooldown_seconds=30, probe_url=probe))
    open_breaker(breaker, 100.0, "as told", held=held)
    assert let_try(breaker, now) == tried
    assert (breaker.state is HALF_OPEN) == tried


def test_each_success_lets_one_more_run_until_it_closes() -> None:
    breaker = Breaker(BreakerRules("b", window_calls=4, min_calls=1, probes=2))
    half_open(breaker, 50.0, "as told")
    permits = [breaker.permits]
    for _ in range(4):
        told(breaker, False)
        permits.append(breaker.permits)
    assert permits == [2, 3, 4, 5, None]
    assert (breaker.state, breaker.window) == (CLOSED, [])


def test_one_failed_probe_opens_it_again() -> None:
    breaker = Breaker(RULES)
    half_open(breaker, 50.0, "as told")
    told(breaker, False, False)
    assert told(breaker, True, at=60.0)
    assert (breaker.state, breaker.until, breaker.successes) == (OPEN, 90.0, 0)


def test_calls_from_before_it_was_closed_do_not_open_it_again() -> None:
    breaker = Breaker(BreakerRules("b", min_calls=2, window_calls=2))
    close_breaker(breaker, 50.0, "mended")
    assert not feed(breaker, [Call(True, 49.0), Call(True, 48.0)], 60.0)
    assert breaker.window == []
    assert feed(breaker, [Call(True, 50.0), Call(True, 51.0)], 60.0)


def test_calls_from_before_it_was_half_open_are_no_probes() -> None:
    breaker = Breaker(RULES)
    half_open(breaker, 50.0, "as told")
    assert not feed(breaker, [Call(True, 49.9), Call(False, 10.0)], 60.0)
    assert (breaker.state, breaker.successes) == (HALF_OPEN, 0)


def test_closing_it_forgets_what_was() -> None:
    breaker = Breaker(RULES)
    open_breaker(breaker, 1.0, "as told", held=True)
    close_breaker(breaker, 2.0, "mended")
    assert (breaker.state, breaker.until, breaker.held, breaker.permits) == (CLOSED, None, False, None)


# What reports tell it


def report(
    outcome: Outcome = Outcome.FAILED, code: str = "BUSY", *, permanent: bool = False, **more: object
) -> TaskReported:
    error = failure(code, "no", permanent=permanent, at=1.0) if outcome is Outcome.FAILED else None
    task = TaskView("ready", 1, 1)
    made = TaskReported("n", -1, 1, 1, outcome, task, error=error, started_at=99.0)
    return made._replace(**more)  # type: ignore[arg-type]


def heard(given: TaskReported, rules: BreakerRules = RULES) -> list[bool]:
    breaker = Breaker(rules)
    consult(given, "gateway", {"gateway": breaker}, 100.0)
    return [failed for _, failed in breaker.window]


@pytest.mark.parametrize(
    ("given", "window"),
    [
        (report(Outcome.DONE), [False]),
        (report(code="BUSY"), [True]),
        (report(code="GW_4XX", permanent=True), [False]),
        (report(Outcome.LOST), []),
        (report(Outcome.GIVEN_BACK), []),
        (report(task=None), []),
        (report(task=TaskView("ready", 2, 1)), []),
        (report(task=TaskView("completed", 1, 1)), []),
        (report(calls={"gateway": [True, False], "other": [True]}), [True, False, True]),
    ],
)  # fmt: skip
def test_only_answers_of_the_dependency_count_and_each_once(given: TaskReported, window: list[bool]) -> None:
    assert heard(given) == window


def test_with_codes_only_these_count_as_failures() -> None:
    rules = BreakerRules("gateway", codes=("GW_5XX",))
    assert heard(report(code="GW_5XX", permanent=True), rules) == [True]
    assert heard(report(code="BUSY"), rules) == [False]
    assert heard(report(code="DEPENDENCY_DOWN"), rules) == [True]


def test_the_failure_that_opens_it_and_those_that_come_later_are_held() -> None:
    breaker = Breaker(BreakerRules("gateway", min_calls=2, window_calls=2))
    first, changes = consult(report(), "gateway", {"gateway": breaker}, 100.0)
    assert (first.held_by, changes) == (None, [])
    second, changes = consult(report(), "gateway", {"gateway": breaker}, 100.0)
    assert second.held_by == "gateway"
    assert [(change.name, change.state, change.until) for change in changes] == [("gateway", OPEN, 130.0)]
    late, changes = consult(report(), "gateway", {"gateway": breaker}, 101.0)
    assert (late.held_by, changes) == ("gateway", [])


@pytest.mark.parametrize(
    ("state", "began", "held"), [(HALF_OPEN, 70.0, True), (CLOSED, 70.0, True), (CLOSED, 95.0, False)]
)
def test_a_failure_that_met_the_outage_is_held_however_late_it_is_told(
    state: BreakerState, began: float, held: bool
) -> None:
    breaker = Breaker(RULES, state, changed_at=90.0)
    found, changes = consult(report(started_at=began), "gateway", {"gateway": breaker}, 100.0)
    assert (found.held_by == "gateway", changes) == (held, [])


def test_a_failure_that_does_not_count_is_not_held() -> None:
    breaker = Breaker(BreakerRules("gateway", codes=("GW_5XX",)))
    open_breaker(breaker, 90.0, "as told")
    assert consult(report(code="BUG"), "gateway", {"gateway": breaker}, 100.0)[0].held_by is None


def test_a_handler_that_found_a_breaker_open_is_held_until_it_may_be_tried() -> None:
    breaker = Breaker(BreakerRules("gateway", cooldown_seconds=30))
    open_breaker(breaker, 90.0, "as told")
    given = report(code="DEPENDENCY_DOWN", down="gateway")
    held, _ = consult(given, None, {"gateway": breaker}, 100.0)
    assert (held.held_by, held.held_until) == ("gateway", 120.0)
    close_breaker(breaker, 100.0, "mended")
    held, _ = consult(given, None, {"gateway": breaker}, 100.0)
    assert (held.held_by, held.held_until) == ("gateway", 101.0)


def held_job() -> OneJob:
    flow = Workflow("w", breakers={"gateway": {}})
    flow.task("a", handler="h")
    flow.task("b", handler="h", after=["a"], breaker="gateway")
    job = OneJob(flow)
    job.submit()
    return job


def test_a_job_is_told_once_that_a_breaker_holds_it_and_once_that_it_no_longer_does() -> None:
    job = held_job()
    shut = {"gateway": 120.0, "other": None}
    assert notice(job.state, shut) == [], "nothing of it waits there yet"
    job.done("a")
    (seen,) = notice(job.state, shut)
    job.send(seen)
    assert job.event("job_held").data == {"by": "breaker", "name": "gateway", "until": 120.0}
    assert notice(job.state, shut) == []
    assert notice(job.state, {"gateway": None}) == [], "half open, it lets only a few through"
    assert job.send(seen) == []
    (seen,) = notice(job.state, {})
    job.send(seen)
    assert (job.event("job_released").data or {})["name"] == "gateway"
    assert job.state.holds == [] and notice(job.state, {}) == []


def test_a_job_that_ends_is_not_told_of_breakers_any_more() -> None:
    job = held_job()
    job.done("a")
    job.send(*notice(job.state, {"gateway": None}))
    job.done("b")
    assert notice(job.state, {}) == []
    assert job.send(BreakerSeen("gateway", is_shut=False)) == []
