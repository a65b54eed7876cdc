"""Breakers open at a share of failures, stay open for their cooldown, and then let more and more tasks through."""

from __future__ import annotations

from dataclasses import replace

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
    probed,
)
from holdfast.core.failing import failure
from holdfast.core.holding import consult, notice
from holdfast.core.signals import BreakerSeen, Outcome, TaskReported, TaskView
from holdfast.define.gates import BreakerRules
from holdfast.define.workflow import Workflow
from tests.core.one_job import OneJob

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN
RULES = BreakerRules("gateway", window_calls=20, failure_share=0.5, min_calls=10, cooldown_seconds=30)


def feed_calls(breaker: Breaker, *failures: bool, at: float = 100.0) -> bool:
    return feed(breaker, [Call(failed, at) for failed in failures], at)


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 30), st.integers(1, 30), st.floats(0.05, 1.0))
def test_a_breaker_opens_exactly_when_its_window_reaches_the_share_of_failures(
    failures: list[bool], window: int, least: int, share: float
) -> None:
    rules = BreakerRules("b", window_calls=window, min_calls=min(least, window), failure_share=share)
    breaker = Breaker(rules)
    for number in range(len(failures)):
        seen = failures[: number + 1][-window:]
        feed_calls(breaker, failures[number])
        should = len(seen) >= rules.min_calls and sum(seen) >= share * len(seen)
        assert (breaker.state is OPEN) == should
        if should:
            break
        assert [failed for _, failed in breaker.window] == seen


def test_a_breaker_opens_when_half_of_the_last_twenty_calls_failed() -> None:
    breaker = Breaker(RULES)
    feed_calls(breaker, *[False] * 20)
    assert not feed_calls(breaker, *[True] * 9)
    assert feed_calls(breaker, True)
    assert (breaker.state, breaker.until, breaker.reason) == (OPEN, 130.0, "10 of the last 20 calls failed")


def test_calls_older_than_the_window_do_not_count() -> None:
    breaker = Breaker(BreakerRules("b", min_calls=2, window_seconds=60))
    feed_calls(breaker, True, at=0.0)
    assert not feed_calls(breaker, True, at=61.0)
    assert feed_calls(breaker, True, at=62.0)


def test_calls_change_nothing_while_the_breaker_is_open() -> None:
    breaker = Breaker(RULES)
    open_breaker(breaker, 100.0, "as the test says")
    assert not feed_calls(breaker, *[False] * 50, *[True] * 50)
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
def test_a_breaker_is_half_open_after_its_cooldown_unless_a_person_or_a_probe_decides(
    now: float, held: bool, probe: str | None, tried: bool
) -> None:
    breaker = Breaker(BreakerRules("b", cooldown_seconds=30, probe_url=probe))
    open_breaker(breaker, 100.0, "as the test says", held=held)
    assert let_try(breaker, now) == tried
    assert (breaker.state is HALF_OPEN) == tried


def test_a_probe_half_opens_a_breaker_or_begins_its_cooldown_again() -> None:
    breaker = Breaker(BreakerRules("b", cooldown_seconds=30, probe_url="http://x"))
    open_breaker(breaker, 100.0, "as the test says")
    assert probed(breaker, "no route " + "x" * 1000, 140.0)
    assert (breaker.state, breaker.changed_at, breaker.until) == (BreakerState.OPEN, 100.0, 170.0)
    assert breaker.reason is not None and breaker.reason.startswith("its probe failed: no route x")
    assert len(breaker.reason) < 400
    assert probed(breaker, None, 171.0)
    assert (breaker.state, breaker.changed_at, breaker.until) == (HALF_OPEN, 171.0, None)


@pytest.mark.parametrize("problem", [None, "no route"])
def test_a_probe_changes_nothing_after_a_person_has_decided(problem: str | None) -> None:
    breaker = Breaker(BreakerRules("b", probe_url="http://x"))
    open_breaker(breaker, 100.0, "kept open", held=True)
    before = replace(breaker)
    assert not probed(breaker, problem, 200.0)
    assert breaker == before
    close_breaker(breaker, 200.0, "by hand")
    assert not probed(breaker, problem, 300.0)
    assert breaker.state is BreakerState.CLOSED


def test_each_success_lets_one_more_task_run_until_the_breaker_closes() -> None:
    breaker = Breaker(BreakerRules("b", window_calls=4, min_calls=1, probes=2))
    half_open(breaker, 50.0, "as the test says")
    permits = [breaker.permits]
    for _ in range(4):
        feed_calls(breaker, False)
        permits.append(breaker.permits)
    assert permits == [2, 3, 4, 5, None]
    assert (breaker.state, breaker.window) == (CLOSED, [])


def test_one_failed_probe_opens_the_breaker_again() -> None:
    breaker = Breaker(RULES)
    half_open(breaker, 50.0, "as the test says")
    feed_calls(breaker, False, False)
    assert feed_calls(breaker, True, at=60.0)
    assert (breaker.state, breaker.until, breaker.successes) == (OPEN, 90.0, 0)


def test_calls_that_began_before_the_breaker_closed_do_not_open_it() -> None:
    breaker = Breaker(BreakerRules("b", min_calls=2, window_calls=2))
    close_breaker(breaker, 50.0, "mended")
    assert not feed(breaker, [Call(True, 49.0), Call(True, 48.0)], 60.0)
    assert breaker.window == []
    assert feed(breaker, [Call(True, 50.0), Call(True, 51.0)], 60.0)


def test_calls_that_began_before_the_breaker_was_half_open_are_no_probes() -> None:
    breaker = Breaker(RULES)
    half_open(breaker, 50.0, "as the test says")
    assert not feed(breaker, [Call(True, 49.9), Call(False, 10.0)], 60.0)
    assert (breaker.state, breaker.successes) == (HALF_OPEN, 0)


def test_closing_a_breaker_resets_it() -> None:
    breaker = Breaker(RULES)
    open_breaker(breaker, 1.0, "as the test says", held=True)
    close_breaker(breaker, 2.0, "mended")
    assert (breaker.state, breaker.until, breaker.held, breaker.permits) == (CLOSED, None, False, None)


# What reports say about a dependency


def report(
    outcome: Outcome = Outcome.FAILED, code: str = "BUSY", *, permanent: bool = False, **more: object
) -> TaskReported:
    error = failure(code, "no", permanent=permanent, at=1.0) if outcome is Outcome.FAILED else None
    task = TaskView("ready", 1, 1)
    made = TaskReported("n", -1, 1, 1, outcome, task, error=error, started_at=99.0)
    return made._replace(**more)  # type: ignore[arg-type]


def window_after(reported: TaskReported, rules: BreakerRules = RULES) -> list[bool]:
    breaker = Breaker(rules)
    consult(reported, "gateway", {"gateway": breaker}, 100.0)
    return [failed for _, failed in breaker.window]


@pytest.mark.parametrize(
    ("reported", "window"),
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
def test_only_answers_of_the_dependency_count_and_each_once(reported: TaskReported, window: list[bool]) -> None:
    assert window_after(reported) == window


def test_a_breaker_with_codes_counts_only_these_as_failures() -> None:
    rules = BreakerRules("gateway", codes=("GW_5XX",))
    assert window_after(report(code="GW_5XX", permanent=True), rules) == [True]
    assert window_after(report(code="BUSY"), rules) == [False]
    assert window_after(report(code="DEPENDENCY_DOWN"), rules) == [True]


def test_the_failure_that_opens_a_breaker_and_later_ones_are_held() -> None:
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
def test_a_failure_during_the_outage_is_held_even_if_it_is_reported_later(
    state: BreakerState, began: float, held: bool
) -> None:
    breaker = Breaker(RULES, state, changed_at=90.0)
    consulted, changes = consult(report(started_at=began), "gateway", {"gateway": breaker}, 100.0)
    assert (consulted.held_by == "gateway", changes) == (held, [])


def test_a_failure_that_does_not_count_is_not_held() -> None:
    breaker = Breaker(BreakerRules("gateway", codes=("GW_5XX",)))
    open_breaker(breaker, 90.0, "as the test says")
    assert consult(report(code="BUG"), "gateway", {"gateway": breaker}, 100.0)[0].held_by is None


def test_a_task_whose_handler_met_an_open_breaker_is_held_until_the_next_try() -> None:
    breaker = Breaker(BreakerRules("gateway", cooldown_seconds=30))
    open_breaker(breaker, 90.0, "as the test says")
    reported = report(code="DEPENDENCY_DOWN", down="gateway")
    held, _ = consult(reported, None, {"gateway": breaker}, 100.0)
    assert (held.held_by, held.held_until) == ("gateway", 120.0)
    close_breaker(breaker, 100.0, "mended")
    held, _ = consult(reported, None, {"gateway": breaker}, 100.0)
    assert (held.held_by, held.held_until) == ("gateway", 101.0)


def held_job() -> OneJob:
    flow = Workflow("w", breakers={"gateway": {}})
    flow.task("a", handler="h")
    flow.task("b", handler="h", after=["a"], breaker="gateway")
    job = OneJob(flow)
    job.submit()
    return job


def test_a_job_has_one_event_when_a_breaker_holds_it_and_one_when_the_breaker_releases_it() -> None:
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


def test_a_job_that_has_ended_has_no_more_events_of_breakers() -> None:
    job = held_job()
    job.done("a")
    job.send(*notice(job.state, {"gateway": None}))
    job.done("b")
    assert notice(job.state, {}) == []
    assert job.send(BreakerSeen("gateway", is_shut=False)) == []
