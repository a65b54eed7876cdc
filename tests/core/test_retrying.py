"""When a failed attempt is retried, and which budget it spends (invariants 9 and 10)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.effects import FinishTask, RecordAttempt, RetryTask
from holdfast.core.reporting import FINGERPRINTS_LIMIT
from holdfast.core.retrying import delay_seconds
from holdfast.core.signals import CancelRequested, Outcome
from holdfast.core.states import Rules, Status
from holdfast.define.gates import DEFAULT_COOLDOWN_SECONDS
from holdfast.define.retry import Backoff, Jitter, Retry
from holdfast.define.workflow import Workflow
from tests.core.one_job import START, Fails, OneJob

NONE = Jitter.NONE


def delays(retry: Retry, count: int, chance: float = 0.5) -> list[float]:
    return [delay_seconds(retry, number, chance) for number in range(1, count + 1)]


# Delays


def test_fixed_delays_are_all_the_same() -> None:
    assert delays(Retry(backoff=Backoff.FIXED, initial_delay_seconds=7, jitter=NONE), 3) == [7, 7, 7]


def test_linear_delays_grow_by_the_first_until_the_bound() -> None:
    retry = Retry(backoff=Backoff.LINEAR, initial_delay_seconds=2, max_delay_seconds=7, jitter=NONE)
    assert delays(retry, 5) == [2, 4, 6, 7, 7]


def test_exponential_delays_double_until_the_bound() -> None:
    retry = Retry(backoff=Backoff.EXPONENTIAL, initial_delay_seconds=1, max_delay_seconds=30, jitter=NONE)
    assert delays(retry, 7) == [1, 2, 4, 8, 16, 30, 30]


def test_a_schedule_repeats_its_last_delay() -> None:
    retry = Retry(backoff=Backoff.SCHEDULE, schedule=(60, 5, 900), max_delay_seconds=10, jitter=NONE)
    assert delays(retry, 5) == [60, 5, 900, 900, 900]


def test_a_first_delay_above_the_bound_is_cut_to_it() -> None:
    for backoff in (Backoff.FIXED, Backoff.LINEAR, Backoff.EXPONENTIAL):
        retry = Retry(backoff=backoff, initial_delay_seconds=100, max_delay_seconds=10, jitter=NONE)
        assert delays(retry, 2) == [10, 10]


@pytest.mark.parametrize(
    ("jitter", "chance", "wanted"),
    [
        (Jitter.NONE, 0.0, 8), (Jitter.NONE, 0.999, 8),
        (Jitter.FULL, 0.0, 0), (Jitter.FULL, 0.5, 4), (Jitter.FULL, 0.75, 6),
        (Jitter.EQUAL, 0.0, 4), (Jitter.EQUAL, 0.5, 6), (Jitter.EQUAL, 0.75, 7),
    ],
)  # fmt: skip
def test_jitter_takes_its_share_of_the_delay(jitter: Jitter, chance: float, wanted: float) -> None:
    retry = Retry(backoff=Backoff.FIXED, initial_delay_seconds=8, jitter=jitter)
    assert delay_seconds(retry, 1, chance) == wanted


seconds = st.floats(min_value=0, max_value=1e9, allow_nan=False)
policies = st.builds(
    Retry,
    max_retries=st.integers(0, 10_000),
    backoff=st.sampled_from([Backoff.FIXED, Backoff.LINEAR, Backoff.EXPONENTIAL]),
    initial_delay_seconds=seconds,
    max_delay_seconds=seconds,
    jitter=st.sampled_from(Jitter),
)
schedules = st.builds(
    Retry,
    backoff=st.just(Backoff.SCHEDULE),
    schedule=st.lists(seconds, min_size=1, max_size=5).map(tuple),
    jitter=st.sampled_from(Jitter),
)
numbers = st.integers(1, 10_000)
chances = st.floats(min_value=0, max_value=1, exclude_max=True)


@given(policies, numbers, chances)
def test_a_delay_is_never_negative_and_never_above_its_bound_invariant_10(
    retry: Retry, number: int, chance: float
) -> None:
    assert 0 <= delay_seconds(retry, number, chance) <= retry.max_delay_seconds


@given(schedules, numbers, chances)
def test_a_scheduled_delay_is_never_above_its_step_invariant_10(retry: Retry, number: int, chance: float) -> None:
    assert 0 <= delay_seconds(retry, number, chance) <= max(retry.schedule)


@given(policies, numbers, chances)
def test_equal_jitter_keeps_at_least_half_of_the_delay(retry: Retry, number: int, chance: float) -> None:
    def with_jitter(jitter: Jitter) -> float:
        values = {**retry.to_json(), "jitter": jitter}
        return delay_seconds(Retry.from_json(values), number, chance)

    assert with_jitter(Jitter.NONE) / 2 <= with_jitter(Jitter.EQUAL) <= with_jitter(Jitter.NONE)


@given(policies, st.integers(1, 9_999))
def test_delays_without_jitter_never_shrink(retry: Retry, number: int) -> None:
    plain = Retry.from_json({**retry.to_json(), "jitter": "none"})
    assert delay_seconds(plain, number, 0.0) <= delay_seconds(plain, number + 1, 0.0)


def test_the_ten_thousandth_delay_does_not_overflow() -> None:
    for backoff in (Backoff.FIXED, Backoff.LINEAR, Backoff.EXPONENTIAL):
        retry = Retry(backoff=backoff, initial_delay_seconds=1e9, max_delay_seconds=1e9, jitter=NONE)
        assert delay_seconds(retry, 10_000, 0.0) == 1e9


def test_jitter_in_a_range_is_added_to_the_delay() -> None:
    retry = Retry(initial_delay_seconds=5, jitter=Jitter.RANGE, jitter_seconds=(0, 5))
    assert delays(retry, 3, chance=0.0) == [5, 10, 20]
    assert delays(retry, 3, chance=0.5) == [7.5, 12.5, 22.5]


def test_a_schedule_of_one_five_and_fifteen_minutes() -> None:
    retry = Retry(backoff=Backoff.SCHEDULE, jitter=NONE, schedule=(60, 300, 900))
    assert delays(retry, 4) == [60, 300, 900, 900]


# Budgets


def one(retry: dict[str, Any] | None = None, rules: Rules | None = None, **more: Any) -> OneJob:
    flow = Workflow("w")
    policy = {"backoff": "fixed", "initial_delay_seconds": 10, "jitter": "none", **(retry or {})}
    flow.task("a", handler="h", retry=policy, **more)
    job = OneJob(flow, rules=rules)
    job.submit()
    return job


def retried(effects: list[Any]) -> RetryTask:
    (retry,) = (e for e in effects if isinstance(e, RetryTask))
    return retry


@pytest.mark.parametrize("retries", [0, 1, 3, 7])
def test_n_retries_are_n_and_one_attempts_invariant_9(retries: int) -> None:
    job = one({"max_retries": retries})
    attempts: list[int] = []

    def fails(node: str, item: int, attempt: int, params: Any) -> Fails:
        attempts.append(attempt)
        return Fails("not yet")

    job.run(fails)
    assert attempts == list(range(1, retries + 2))
    assert job.state.status == "failed"
    assert job.node("a").attempt == retries + 1
    assert job.tasks[("a", -1)]["retries"] == retries
    error = job.node("a").error
    assert error is not None
    assert error.failure_class == "transient"


def test_a_retry_waits_its_time_and_the_node_says_until_when_invariant_10() -> None:
    job = one({"max_retries": 2})
    effect = retried(job.fail("a"))
    assert effect.due_at == job.node("a").retry_at == START + 10
    assert job.queue[("a", -1)]["due_at"] == START + 10
    assert (effect.epoch, effect.attempt, effect.retries, effect.suspect) == (2, 1, 1, False)
    assert job.status_of("a") == "ready"
    job.now = START + 10
    job.done("a", output=1)
    assert job.node("a").retry_at is None
    assert job.node("a").error is None
    assert job.status_of("a") == "completed"


def test_the_number_of_the_retry_chooses_its_delay() -> None:
    job = one({"backoff": "exponential", "max_retries": 3, "initial_delay_seconds": 2})
    waits = []
    for _ in range(3):
        due = retried(job.fail("a")).due_at
        assert due is not None
        waits.append(due - job.now)
        job.now = due
    assert waits == [2, 4, 8]


def test_chance_is_the_jitter_of_the_delay() -> None:
    job = one({"jitter": "full"})
    job.chance = 0.25
    assert retried(job.fail("a")).due_at == START + 2.5


@pytest.mark.parametrize(("asked", "waited"), [(25.0, 25.0), (3.0, 10.0), (0.0, 10.0), (10_000.0, 10_000.0)])
def test_retry_after_is_honoured_but_never_shortens_the_delay_invariant_10(asked: float, waited: float) -> None:
    job = one()
    assert retried(job.fail("a", retry_after_seconds=asked)).due_at == START + waited


def test_retry_after_spends_the_budget_of_retries() -> None:
    job = one({"max_retries": 1})
    job.fail("a", retry_after_seconds=99)
    job.fail("a", retry_after_seconds=99)
    assert job.state.status == "failed"


def test_a_permanent_failure_is_never_retried_invariant_9() -> None:
    job = one({"max_retries": 5})
    job.fail("a", permanent=True)
    assert job.state.status == "failed"
    assert not job.queue
    assert job.event_names() == ["node_ready", "node_dispatched", "job_started", "node_failed", "job_failed"]


def test_a_lost_lease_spends_its_own_budget_and_not_the_retries_invariant_9() -> None:
    job = one({"max_retries": 1}, Rules(lost_limit=3))
    for number in (1, 2, 3):
        effect = retried(job.lose("a"))
        assert (effect.retries, effect.lost, effect.crashes) == (0, number, 0)
        assert effect.due_at is None
        assert effect.suspect
        assert (effect.epoch, effect.attempt) == (number + 1, number)
    effect = retried(job.fail("a"))
    assert (effect.retries, effect.lost) == (1, 3)
    job.done("a")
    assert job.state.status == "completed"
    assert job.node("a").attempt == 5


def test_one_lost_lease_more_than_the_limit_is_lease_lost_invariant_9() -> None:
    job = one({"max_retries": 0}, Rules(lost_limit=2))
    job.lose("a")
    job.lose("a")
    assert job.state.status == "running"
    job.lose("a")
    error = job.node("a").error
    assert job.state.status == "failed"
    assert error is not None
    assert (error.code, error.failure_class) == ("LEASE_LOST", "transient")
    assert job.tasks[("a", -1)]["lost"] == 3


def test_a_task_that_kills_its_worker_while_alone_is_quarantined_invariant_9() -> None:
    job = one({"max_retries": 9}, Rules(lost_limit=100, crash_limit=2))
    job.lose("a")
    effect = retried(job.lose("a", alone=True))
    assert (effect.lost, effect.crashes) == (2, 1)
    job.lose("a", alone=True)
    error = job.node("a").error
    assert job.state.status == "failed"
    assert error is not None
    assert (error.code, error.failure_class) == ("QUARANTINED", "permanent")
    assert job.tasks[("a", -1)]["crashes"] == 2


def test_the_signal_that_killed_the_process_is_in_the_events_of_crash_and_quarantine_invariant_9() -> None:
    job = one({"max_retries": 0}, Rules(lost_limit=100, crash_limit=2))
    died = "the handler's process was killed by signal 11 (SIGSEGV)"
    effects = job.lose("a", alone=True, message=died)
    assert (retried(effects).retries, retried(effects).crashes, retried(effects).suspect) == (0, 1, True)
    (recorded,) = (e for e in effects if isinstance(e, RecordAttempt))
    assert recorded.error is not None and recorded.error.message == died
    assert (job.event("node_retry_scheduled").data or {})["message"] == died
    assert "worker_lost" not in job.events_of("a")
    job.lose("a", alone=True, message=died)
    error = job.node("a").error
    assert error is not None
    assert (error.code, error.failure_class) == ("QUARANTINED", "permanent")
    assert error.message == f"{died}; it has crashed 2 times"
    assert (job.event("node_failed").data or {})["message"] == error.message


def test_losses_beside_other_tasks_are_no_crashes_of_the_task_invariant_9() -> None:
    job = one(rules=Rules(lost_limit=100, crash_limit=2))
    for _ in range(20):
        assert retried(job.lose("a")).crashes == 0
    assert job.state.status == "running"


def test_an_attempt_given_back_spends_nothing_invariant_9() -> None:
    job = one({"max_retries": 0}, Rules(lost_limit=0, crash_limit=1))
    for number in range(1, 6):
        effect = retried(job.give_back("a"))
        assert (effect.retries, effect.lost, effect.crashes, effect.suspect) == (0, 0, 0, False)
        assert effect.due_at is None
        assert (effect.epoch, effect.attempt) == (number + 1, number)
        assert job.node("a").retry_at is None
    job.done("a")
    assert job.state.status == "completed"


def test_a_task_that_is_given_back_again_and_again_waits_longer_each_time_and_never_fails() -> None:
    job = one({"max_retries": 0}, Rules(lost_limit=0, crash_limit=1))
    pauses = []
    for _ in range(200):
        effect = retried(job.give_back("a"))
        assert (effect.retries, effect.lost, effect.crashes) == (0, 0, 0)
        pauses.append(None if effect.due_at is None else effect.due_at - job.now)
        job.now = max(job.now, effect.due_at or 0.0)
    assert pauses[:100] == [None] * 100
    assert pauses[100:103] == [1.0, 2.0, 3.0]
    assert pauses[160:] == [60.0] * 40
    job.done("a")
    assert job.state.status == "completed"


def test_giving_back_keeps_what_was_spent_before() -> None:
    job = one({"max_retries": 2}, Rules(lost_limit=5))
    job.fail("a")
    job.lose("a")
    effect = retried(job.give_back("a"))
    assert (effect.retries, effect.lost, effect.suspect) == (1, 1, True)


def test_every_attempt_is_a_new_epoch_invariant_2() -> None:
    job = one({"max_retries": 5})
    epochs = [job.queue[("a", -1)]["epoch"]]
    for again in (job.fail, job.lose, job.give_back, job.fail):
        again("a")
        epochs.append(job.queue[("a", -1)]["epoch"])
    assert epochs == [1, 2, 3, 4, 5]


def test_failed_lost_and_given_back_attempts_have_rows_and_events() -> None:
    job = one({"max_retries": 1})
    effects = job.fail("a") + job.lose("a") + job.give_back("a") + job.fail("a")
    recorded = [e for e in effects if isinstance(e, RecordAttempt)]
    assert [(e.attempt, e.epoch, e.outcome) for e in recorded] == [
        (1, 1, "failed"), (2, 2, "lost"), (3, 3, "given_back"), (4, 4, "failed"),
    ]  # fmt: skip
    assert job.events_of("a") == [
        "node_ready", "node_dispatched", "node_retry_scheduled", "worker_lost", "node_retry_scheduled",
        "node_retry_scheduled", "node_failed",
    ]  # fmt: skip


def test_a_success_has_a_row_of_its_own_only_if_it_printed_something() -> None:
    quiet = one()
    assert not [e for e in quiet.done("a") if isinstance(e, RecordAttempt)]
    talking = one()
    (recorded,) = (e for e in talking.read(talking.hand_in("a", log="hello")) if isinstance(e, RecordAttempt))
    assert recorded.log == "hello"


def test_the_event_of_a_retry_says_when_and_why() -> None:
    job = one()
    job.fail("a", message="no disk", code="DISK")
    event = job.event("node_retry_scheduled")
    assert event.attempt == 1
    assert event.data == {
        "outcome": "failed", "retry_at": START + 10, "worker": "w", "code": "DISK", "message": "no disk",
    }  # fmt: skip


def test_items_of_a_fan_out_have_budgets_of_their_own() -> None:
    flow = Workflow("w")
    retry = {"max_retries": 1, "backoff": "fixed", "initial_delay_seconds": 1, "jitter": "none"}
    flow.fan_out("f", source="{{ [1, 2] }}", handler="h", retry=retry)
    job = OneJob(flow)
    job.submit()
    job.fail("f", 0)
    job.lose("f", 1)
    job.fail("f", 1)
    assert (job.tasks[("f", 0)]["retries"], job.tasks[("f", 0)]["lost"]) == (1, 0)
    assert (job.tasks[("f", 1)]["retries"], job.tasks[("f", 1)]["lost"]) == (1, 1)
    job.done("f", 0)
    (finished,) = (e for e in job.fail("f", 1) if isinstance(e, FinishTask))
    assert finished.status is Status.FAILED
    assert job.events_of("f").count("task_retry_scheduled") == 3


def test_the_event_of_a_retried_item_names_it_and_its_node_stays_running() -> None:
    flow = Workflow("w")
    flow.fan_out("f", source="{{ [1] }}", handler="h")
    job = OneJob(flow)
    job.submit()
    job.read(job.hand_in("f", 0, Outcome.GIVEN_BACK))
    assert job.status_of("f") == "running"
    assert job.event("task_retry_scheduled").item == 0


# Codes


def test_a_code_that_is_not_named_is_not_retried() -> None:
    job = one({"max_retries": 3, "retry_on": ["BUSY"]})
    job.fail("a", code="BUSY")
    assert job.status_of("a") == "ready"
    job.fail("a", code="GONE")
    assert (job.state.status, job.tasks[("a", -1)]["retries"]) == ("failed", 1)


# Repeated failures


def wide(items: int, **rules: int) -> OneJob:
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    retry = {"max_retries": 2, "backoff": "fixed", "initial_delay_seconds": 1, "jitter": "none"}
    flow.fan_out("f", source="{{ inputs['items'] }}", handler="h", retry=retry)
    job = OneJob(flow, {"items": list(range(items))}, Rules(**rules))
    job.submit()
    return job


def spend(job: OneJob, items: Iterable[int], attempts: int = 3) -> None:
    for item in items:
        for _ in range(attempts):
            job.now += 1
            job.fail("f", item, message=f"item {item} cannot be read")


def test_when_many_items_spent_their_budget_on_one_bug_the_others_get_one_attempt_invariant_9() -> None:
    job = wide(9, repeat_limit=5)
    spend(job, range(4))
    job.now += 1
    job.fail("f", 8, message="item 8 cannot be read")
    assert job.tasks[("f", 8)]["status"] == "ready"
    spend(job, [4])
    spend(job, range(5, 9), attempts=1)
    assert [job.tasks[("f", item)]["retries"] for item in range(9)] == [2, 2, 2, 2, 2, 0, 0, 0, 1]
    events = [e for e in job.events if e.event == "task_failed" and e.data and "reason" in e.data]
    assert [(e.item, e.data["reason"]) for e in events if e.data] == [(n, "REPEATED_FAILURE") for n in range(5, 9)]
    assert job.state.status == "failed"
    error = job.tasks[("f", 7)]["error"]
    assert error is not None
    assert (error.code, error.failure_class) == ("HANDLER_ERROR", "transient")
    assert error.hint == "Not retried: 5 items failed in the same way and none has completed."


def test_one_completed_item_resets_the_count_of_repeated_failures() -> None:
    job = wide(5, repeat_limit=2)
    spend(job, range(2))
    job.done("f", 2)
    assert job.node("f").spent == {}
    spend(job, [3])
    assert job.tasks[("f", 3)]["retries"] == 2


def test_different_failures_do_not_add_up() -> None:
    job = wide(4, repeat_limit=2)
    for item, bug in enumerate(("one", "two", "one")):
        for _ in range(3):
            job.fail("f", item, message=bug)
    job.fail("f", 3, message="two")
    assert job.tasks[("f", 3)]["status"] == "ready"


def test_the_number_of_remembered_fingerprints_is_limited() -> None:
    job = wide(FINGERPRINTS_LIMIT + 10, repeat_limit=2)
    for item in range(FINGERPRINTS_LIMIT + 9):
        job.fail("f", item, message="x" * (item + 1), permanent=True)
    assert len(job.node("f").spent) == FINGERPRINTS_LIMIT


# Dependencies that are down


def test_a_task_behind_an_open_breaker_waits_and_spends_nothing_invariant_9() -> None:
    job = one({"max_retries": 0})
    report = job.hand_in("a", -1, fails=Fails("no answer", code="GW_5XX"))._replace(held_by="gateway")
    effect = retried(job.read(report))
    assert (effect.due_at, effect.retries, effect.epoch) == (None, 0, 2)
    event = job.events[-1]
    assert event.event == "node_retry_scheduled"
    assert event.data is not None
    assert (event.data["reason"], event.data["breaker"]) == ("DEPENDENCY_DOWN", "gateway")


def test_a_task_whose_handler_says_that_a_dependency_is_down_waits_and_spends_nothing_invariant_9() -> None:
    job = one({"max_retries": 0})
    effect = retried(job.fail("a", code="DEPENDENCY_DOWN"))
    assert (effect.due_at, effect.retries) == (START + DEFAULT_COOLDOWN_SECONDS, 0)


def test_a_permanent_failure_is_final_even_behind_an_open_breaker() -> None:
    job = one({"max_retries": 3})
    report = job.hand_in("a", -1, fails=Fails("no", permanent=True))._replace(held_by="gateway")
    job.read(report)
    assert job.state.status == "failed"


def test_a_held_task_of_a_stopping_job_is_cancelled() -> None:
    job = one({"max_retries": 3})
    report = job.hand_in("a", -1, fails=Fails("no"))._replace(held_by="gateway")
    job.send(CancelRequested(None, "someone", "enough"))
    job.read(report)
    assert job.state.status == "cancelled"
