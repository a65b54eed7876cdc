"""How a job ends early: what stops it, what may still finish, what is told, and what changes nothing any more."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.advance import owed_rows
from holdfast.core.effects import AnswerSignal, EnqueueTasks, FinishTask, ReleaseTasks, RetryTask, WithdrawTasks
from holdfast.core.signals import Outcome, PauseRequested, ReportRejected, TasksWithdrawn, TimePassed
from holdfast.core.states import JobStatus, Rules, Status, Stop, StopCause
from holdfast.core.stopping import bound_deadlines
from holdfast.define.workflow import Workflow
from tests.core.driver import START, Driver

RULES = Rules(grace_seconds=30, drain_seconds=600, chunk_size=4, window_size=2)


def side_by_side(importance: str | None = None, timeout_seconds: float | None = None, after: bool = True) -> Driver:
    """Two tasks at once, `a` and `b`, and one that waits for both."""
    flow = Workflow("w", timeout_seconds=timeout_seconds)
    retry = {"max_retries": 2, "initial_delay_seconds": 1, "jitter": "none"}
    flow.task("a", handler="h", importance=importance, retry=retry)
    flow.task("b", handler="h", retry=retry)
    if after:
        flow.task("c", handler="h", after=["a", "b"], importance=importance)
    driver = Driver(flow, rules=RULES)
    driver.submit()
    return driver


def with_fan_out(width: int = 10, timeout_seconds: float | None = None, **more: Any) -> Driver:
    """A task `a` beside a fan-out `f` of which 4 items have rows and 2 are queued."""
    flow = Workflow("w", timeout_seconds=timeout_seconds, inputs={"items": {"type": "array"}})
    flow.task("a", handler="h")
    flow.fan_out("f", source="{{ inputs['items'] }}", handler="h", retry={"max_retries": 1}, **more)
    flow.fan_in("g", after="f")
    driver = Driver(flow, {"items": list(range(width))}, RULES)
    driver.submit()
    return driver


def withdrawals(effects: list[Any]) -> list[WithdrawTasks]:
    return [e for e in effects if isinstance(e, WithdrawTasks)]


# What stops a job


def test_a_critical_failure_stops_the_job() -> None:
    driver = side_by_side()
    driver.claim("b")
    (asked,) = withdrawals(driver.fail("a", permanent=True))
    assert (asked.status, asked.leases_too) == (Status.CANCELLED, False)
    assert driver.state.stop == Stop(StopCause.FAILED, START + 600)
    assert driver.statuses() == {"a": "failed", "b": "dispatched", "c": "cancelled"}
    assert driver.node("c").reason == "job_stopped"
    assert driver.state.status == "running"
    assert driver.state.next_deadline() == START + 600


@pytest.mark.parametrize("importance", ["important", "optional"])
def test_important_and_optional_failures_stop_nothing(importance: str) -> None:
    driver = side_by_side(importance)
    assert not withdrawals(driver.fail("a", permanent=True))
    assert driver.state.stop is None
    assert ("b", -1) in driver.queue
    driver.fail("b")
    assert ("b", -1) in driver.queue
    driver.run()
    assert driver.status_of("b") == "completed"
    assert driver.state.status == ("partial" if importance == "important" else "completed")


@pytest.mark.parametrize("importance", ["critical", "important", "optional"])
def test_what_is_cancelled_because_of_a_failure_above_it_counts_as_that_failure(importance: str) -> None:
    flow = Workflow("w")
    flow.task("a", handler="h", importance="important")
    flow.task("b", handler="h", after="a", importance=importance)
    flow.task("c", handler="h", after="b", importance=importance)
    flow.task("beside", handler="h")
    driver = Driver(flow)
    driver.submit()
    driver.fail("a", permanent=True)
    assert (driver.status_of("b"), driver.status_of("c"), driver.state.stop) == ("cancelled", "cancelled", None)
    driver.run()
    assert (driver.status_of("beside"), driver.state.status) == ("completed", "partial")


def test_a_failure_with_nothing_else_under_way_ends_the_job_at_once() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h", after="a")
    driver = Driver(flow)
    driver.submit()
    assert not withdrawals(driver.fail("a", permanent=True))
    assert driver.state.status == "failed"
    assert driver.told()[-3:] == ["node_failed", "node_cancelled", "job_failed"]


def test_tasks_that_wait_in_the_queue_are_withdrawn_and_the_job_ends_invariant_11() -> None:
    driver = side_by_side()
    driver.fail("a", permanent=True)
    assert driver.statuses() == {"a": "failed", "b": "cancelled", "c": "cancelled"}
    assert driver.node("b").reason == "job_stopped"
    assert driver.tasks[("b", -1)].status == "cancelled"
    assert driver.state.status == "failed"


def test_a_task_that_waits_for_its_retry_is_withdrawn_too_invariant_11() -> None:
    driver = side_by_side()
    driver.fail("b")
    assert driver.status_of("b") == "ready"
    driver.fail("a", permanent=True)
    assert driver.statuses()["b"] == "cancelled"
    assert driver.node("b").retry_at is None
    assert driver.state.status == "failed"


# What may still finish


def stopping() -> Driver:
    """`a` has failed, `b` is held by a worker."""
    driver = side_by_side()
    driver.claim("b")
    driver.fail("a", permanent=True)
    return driver


def test_while_the_job_drains_a_running_attempt_finishes_and_counts() -> None:
    driver = stopping()
    driver.now += 599
    driver.done("b", output=1)
    assert driver.statuses() == {"a": "failed", "b": "completed", "c": "cancelled"}
    assert driver.node("b").output == 1
    assert driver.state.status == "failed"


def test_while_the_job_drains_nothing_is_retried_invariant_11() -> None:
    driver = stopping()
    effects = driver.fail("b")
    assert not [e for e in effects if isinstance(e, RetryTask | EnqueueTasks)]
    assert driver.status_of("b") == "failed"
    assert driver.tasks[("b", -1)].retries == 0
    assert driver.state.status == "failed"


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.GIVEN_BACK])
def test_while_the_job_drains_a_lost_or_returned_attempt_is_cancelled_invariant_11(outcome: Outcome) -> None:
    driver = stopping()
    effects = driver.read(driver.hand_in("b", outcome=outcome))
    assert not [e for e in effects if isinstance(e, RetryTask | EnqueueTasks)]
    (ended,) = (e for e in effects if isinstance(e, FinishTask))
    assert ended.status is Status.CANCELLED
    assert ended.error is not None
    assert ended.error["code"] == "CANCELLED"
    assert driver.status_of("b") == "cancelled"
    assert driver.state.status == "failed"


def test_before_the_drain_is_over_time_changes_nothing() -> None:
    driver = stopping()
    assert driver.pass_time(599) == []
    assert driver.state.status == "running"


def test_when_the_drain_is_over_the_leases_end_invariant_11() -> None:
    driver = stopping()
    (asked,) = withdrawals(driver.pass_time(600))
    assert asked.leases_too
    assert driver.status_of("b") == "cancelled"
    assert driver.state.status == "failed"
    assert driver.state.stop is not None
    assert driver.state.stop.leases_ended


def test_the_leases_are_asked_for_once_even_if_a_report_is_still_unread() -> None:
    driver = stopping()
    unread = driver.hand_in("b", output=5)
    assert withdrawals(driver.pass_time(600))
    assert driver.state.status == "running"
    assert driver.state.next_deadline() is None
    assert driver.pass_time(100) == []
    driver.read(unread)
    assert driver.status_of("b") == "completed"
    assert driver.state.status == "failed"


def test_an_unread_report_of_a_finished_attempt_still_counts_after_a_stop() -> None:
    driver = side_by_side()
    unread = driver.hand_in("b", output=5)
    driver.fail("a", permanent=True)
    assert driver.status_of("b") == "dispatched"
    assert driver.state.status == "running"
    driver.read(unread)
    assert driver.status_of("b") == "completed"
    assert driver.tasks[("b", -1)].output == 5
    assert driver.state.status == "failed"


def test_a_second_failure_does_not_prolong_the_drain() -> None:
    flow = Workflow("w")
    for name in ("a", "b", "c"):
        flow.task(name, handler="h")
    driver = Driver(flow, rules=RULES)
    driver.submit()
    driver.claim_all()
    driver.fail("a", permanent=True)
    driver.now += 100
    assert not withdrawals(driver.fail("b", permanent=True))
    assert driver.state.stop == Stop(StopCause.FAILED, START + 600)


# Cancel


def test_cancelling_a_job_that_has_not_begun_ends_it_at_once() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    driver = Driver(flow)
    effects = driver.cancel()
    assert AnswerSignal(7, "job", True, "cancelled") in effects
    assert driver.state.status == "cancelled"
    assert driver.state.started_at == driver.state.finished_at == START
    assert driver.told() == ["node_cancelled", "job_cancelled"]
    assert driver.submit() == []
    assert not driver.tasks


def test_cancelling_a_running_job_ends_what_waits_and_gives_the_rest_its_grace() -> None:
    driver = side_by_side()
    driver.claim("a")
    (asked,) = withdrawals(driver.cancel())
    assert (asked.status, asked.leases_too) == (Status.CANCELLED, False)
    assert driver.statuses() == {"a": "dispatched", "b": "cancelled", "c": "cancelled"}
    assert driver.state.stop == Stop(StopCause.CANCELLED, START + 30)
    assert driver.answers == [AnswerSignal(7, "job", True, "cancelled")]
    driver.done("a", output=1)
    assert driver.status_of("a") == "completed"
    assert driver.state.status == "cancelled"
    assert driver.state.error is not None
    assert driver.state.error["code"] == "CANCELLED"
    assert driver.state.error["message"] == "cancelled by ann: enough"


def test_when_the_grace_is_over_a_cancelled_job_is_terminal_invariant_11() -> None:
    driver = side_by_side()
    driver.claim_all()
    driver.cancel()
    assert driver.pass_time(29) == []
    driver.pass_time(1)
    assert driver.statuses() == {"a": "cancelled", "b": "cancelled", "c": "cancelled"}
    assert driver.state.status == "cancelled"


def test_a_cancel_without_an_id_is_applied_and_answers_nobody() -> None:
    driver = side_by_side()
    driver.cancel(signal_id=None)
    assert driver.answers == []
    assert driver.state.status == "cancelled"


def last_one_runs(*, borders: bool = True) -> Driver:
    """`a` has completed, and `b`, the last, is held by a worker; perhaps an end is behind it."""
    flow = Workflow("w")
    if borders:
        flow.start("start", next="a")
    flow.task("a", handler="h")
    flow.task("b", handler="h", after="a")
    if borders:
        flow.end("end", after="b")
    driver = Driver(flow, rules=RULES)
    driver.submit()
    driver.done("a", output=1)
    driver.claim("b")
    return driver


@pytest.mark.parametrize("borders", [True, False])
def test_a_cancel_whose_last_tasks_finish_within_the_grace_came_too_late_and_the_job_is_completed(
    borders: bool,
) -> None:
    driver = last_one_runs(borders=borders)
    driver.cancel()
    assert driver.answers == [], "whether it ends anything is not known yet"
    assert driver.state.stop == Stop(StopCause.CANCELLED, START + 30, signal_id=7)
    driver.done("b", output=5)
    reason = "too late: its last tasks have finished, and it is completed"
    assert driver.answers == [AnswerSignal(7, "job", False, reason)]
    assert set(driver.statuses().values()) == {"completed"}
    assert (driver.state.status, driver.state.result, driver.state.error) == ("completed", 5, None)


def test_a_cancel_whose_last_task_does_not_finish_within_the_grace_is_carried_out() -> None:
    driver = last_one_runs()
    driver.cancel()
    driver.pass_time(30)
    assert driver.answers == [AnswerSignal(7, "job", True, "cancelled")]
    assert (driver.status_of("b"), driver.status_of("end")) == ("cancelled", "cancelled")
    assert driver.state.status == "cancelled"


def test_a_cancel_whose_last_task_fails_within_the_grace_came_too_late_and_the_job_is_failed() -> None:
    driver = last_one_runs()
    driver.cancel()
    driver.fail("b", message="no luck", permanent=True)
    (answer,) = driver.answers
    assert not answer.applied and "it is failed" in answer.reason
    assert driver.state.status == "failed"
    assert driver.state.error is not None and driver.state.error["message"] == "no luck"


def test_a_cancel_that_withdraws_items_of_a_fan_out_that_still_runs_is_answered_at_once() -> None:
    driver = with_fan_out(width=4)
    driver.done("a")
    driver.claim("f", 0)
    driver.cancel()
    assert driver.answers == [AnswerSignal(7, "job", True, "cancelled")]
    assert driver.state.status == "running"
    driver.done("f", 0)
    assert (driver.status_of("f"), driver.node("f").reason) == ("cancelled", "job_cancelled")
    assert driver.state.status == "cancelled"


@pytest.mark.parametrize("status", ["completed", "failed", "partial", "cancelled"])
def test_cancelling_a_finished_job_is_refused_with_the_reason_invariant_4(status: str) -> None:
    driver = side_by_side("important" if status == "partial" else None)
    if status == "cancelled":
        driver.cancel(signal_id=None)
    elif status != "completed":
        driver.fail("a", permanent=True)
    driver.run()
    before = (driver.state.error, driver.state.stop, len(driver.events))
    remedy = "See how it ended with: holdfast status JOB"
    assert driver.cancel() == [AnswerSignal(7, "job", False, f"too late, it is already {status}", remedy)]
    assert (driver.state.error, driver.state.stop, len(driver.events)) == before
    assert driver.state.status == status


def test_cancelling_twice_is_refused_the_second_time() -> None:
    driver = side_by_side()
    driver.claim_all()
    driver.cancel()
    driver.now += 10
    remedy = "Wait until it has ended: holdfast watch JOB"
    assert driver.cancel(8) == [AnswerSignal(8, "job", False, "it is already stopping (cancelled)", remedy)]
    assert driver.state.stop == Stop(StopCause.CANCELLED, START + 30)


def test_a_cancel_cuts_the_drain_of_a_failure_short_and_names_the_job() -> None:
    driver = stopping()
    driver.cancel()
    assert driver.state.stop == Stop(StopCause.CANCELLED, START + 30, signal_id=7)
    driver.pass_time(30)
    assert driver.state.status == "cancelled"


def test_a_failure_that_only_the_cancel_keeps_from_its_retry_leaves_the_job_cancelled() -> None:
    driver = last_one_runs()
    driver.cancel()
    driver.fail("b")
    assert driver.answers == [AnswerSignal(7, "job", True, "cancelled")]
    assert (driver.status_of("b"), driver.state.status) == ("failed", "cancelled")
    driver = with_fan_out(width=1)
    driver.done("a")
    driver.claim("f", 0)
    driver.cancel()
    driver.fail("f", 0)
    assert (driver.status_of("f"), driver.state.status) == ("failed", "cancelled")


def test_cancelling_withdraws_a_task_that_waits_for_its_retry() -> None:
    driver = side_by_side()
    driver.fail("a")
    driver.cancel()
    assert driver.status_of("a") == "cancelled"
    assert driver.state.status == "cancelled"


# Timeout


def test_a_timeout_fails_everything_that_is_open_at_once() -> None:
    driver = side_by_side(timeout_seconds=50)
    assert driver.state.deadline_at == driver.state.next_deadline() == START + 50
    driver.claim("b")
    assert driver.pass_time(49.9) == []
    (asked,) = withdrawals(driver.pass_time(0.1))
    assert (asked.status, asked.leases_too) == (Status.FAILED, True)
    assert asked.error["code"] == "JOB_TIMEOUT"
    assert driver.statuses() == {"a": "failed", "b": "failed", "c": "cancelled"}
    for name in ("a", "b"):
        error = driver.node(name).error
        assert error is not None
        assert (error["code"], error["class"]) == ("JOB_TIMEOUT", "transient")
        assert driver.tasks[(name, -1)].error == asked.error
    assert driver.state.status == "failed"
    assert driver.state.error is not None
    assert driver.state.error["message"] == "the job did not end within 50 s"


def test_a_report_that_was_unread_at_the_timeout_still_counts() -> None:
    driver = side_by_side(timeout_seconds=50)
    unread = driver.hand_in("a", output=1)
    driver.pass_time(50)
    assert driver.statuses() == {"a": "dispatched", "b": "failed", "c": "cancelled"}
    assert driver.state.next_deadline() is None
    driver.read(unread)
    assert driver.status_of("a") == "completed"
    assert driver.state.status == "failed"


def test_a_job_without_a_timeout_has_no_deadline() -> None:
    driver = side_by_side()
    assert driver.state.next_deadline() is None
    assert driver.pass_time(1e9) == []


def test_a_timeout_cuts_the_drain_of_a_failure_short() -> None:
    driver = side_by_side(timeout_seconds=50)
    driver.claim("b")
    driver.fail("a", permanent=True)
    assert driver.state.next_deadline() == START + 50
    driver.pass_time(50)
    assert driver.statuses() == {"a": "failed", "b": "failed", "c": "cancelled"}
    assert driver.state.status == "failed"
    assert driver.state.error is not None
    assert driver.state.error["node"] == "a"


def test_a_timeout_does_not_touch_a_job_that_is_being_cancelled() -> None:
    driver = side_by_side(timeout_seconds=10)
    driver.claim_all()
    driver.cancel()
    assert driver.pass_time(15) == []
    driver.pass_time(15)
    assert driver.state.status == "cancelled"


def test_time_changes_nothing_in_a_finished_job_invariant_4() -> None:
    driver = side_by_side(timeout_seconds=50).run()
    driver.now += 1000
    assert driver.send(TimePassed()) == []
    assert driver.state.status == "completed"


# Fan-outs


def test_rows_that_were_never_queued_are_withdrawn_and_items_without_a_row_never_get_one() -> None:
    driver = with_fan_out()
    driver.claim("f", 0)
    (asked,) = withdrawals(driver.fail("a", permanent=True))
    assert asked.unqueued == (("f", 2, 3),)
    assert not owed_rows(driver.state)
    assert driver.continue_work() == []
    assert driver.node("f").cancelled == 3
    assert driver.status_of("f") == "running"
    event = driver.event("task_cancelled")
    assert (event.node, event.data) == ("f", {"items": [[1, 3]], "count": 3, "reason": "job_stopped"})
    driver.done("f", 0)
    assert driver.status_of("f") == "cancelled"
    assert driver.node("f").reason == "job_stopped"
    assert (driver.node("f").width, driver.node("f").expanded, driver.node("f").completed) == (10, 4, 1)
    assert driver.statuses()["g"] == "cancelled"
    assert driver.state.status == "failed"


def test_items_in_the_window_that_are_leased_leave_ranges_with_holes() -> None:
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.fan_out("f", source="{{ inputs['items'] }}", handler="h")
    driver = Driver(flow, {"items": list(range(8))}, RULES.__class__(grace_seconds=30))
    driver.submit()
    driver.claim("f", 3)
    driver.claim("f", 4)
    driver.cancel()
    assert driver.event("task_cancelled").data == {"items": [[0, 2], [5, 7]], "count": 6, "reason": "job_cancelled"}
    driver.pass_time(30)
    assert [e.data["items"] for e in driver.events if e.event == "task_cancelled" and e.data] == [
        [[0, 2], [5, 7]],
        [[3, 4]],
    ]
    assert driver.state.status == "cancelled"


def test_an_item_that_was_lost_during_the_drain_is_cancelled_by_itself() -> None:
    driver = with_fan_out(width=2)
    driver.claim_all()
    driver.cancel()
    driver.done("f", 0)
    driver.lose("f", 1)
    assert driver.status_of("f") == "cancelled"
    assert driver.event("task_cancelled").item == 1
    assert (driver.node("f").completed, driver.node("f").cancelled) == (1, 1)


def test_a_fan_out_with_a_failed_item_that_a_stop_cuts_short_has_failed_by_that_item() -> None:
    driver = with_fan_out()
    driver.fail("f", 0, permanent=True, code="DISK", message="no disk")
    driver.cancel()
    error = driver.node("f").error
    assert driver.status_of("f") == "failed"
    assert error is not None
    assert error["code"] == "DISK"
    assert driver.state.status == "cancelled"


def test_a_timeout_fails_a_fan_out_with_all_its_open_items() -> None:
    driver = with_fan_out(timeout_seconds=50)
    driver.claim("f", 1)
    driver.done("f", 0)
    driver.pass_time(50)
    error = driver.node("f").error
    assert driver.status_of("f") == "failed"
    assert error is not None
    assert error["code"] == "JOB_TIMEOUT"
    assert (driver.node("f").completed, driver.node("f").failed, driver.node("f").cancelled) == (1, 3, 0)
    event = driver.event("task_failed")
    assert event.data == {"items": [[1, 3]], "count": 3, "code": "JOB_TIMEOUT"}


def test_a_fan_out_between_two_chunks_is_stopped_although_none_of_its_rows_is_open() -> None:
    driver = with_fan_out()
    for item in range(4):
        driver.done("f", item)
    assert driver.node("f").open_tasks == 0
    assert driver.status_of("f") == "running"
    driver.cancel()
    assert driver.status_of("f") == "cancelled"
    assert driver.state.status == "cancelled"


def test_a_fan_out_whose_items_all_completed_before_the_stop_has_completed() -> None:
    driver = with_fan_out(width=1)
    driver.claim_all()
    driver.fail("a", permanent=True)
    driver.done("f", 0)
    assert driver.statuses() == {"a": "failed", "f": "completed", "g": "cancelled"}


@pytest.mark.parametrize(("cause", "status"), [("cancel", "cancelled"), ("fail", "cancelled"), ("timeout", "failed")])
def test_a_fan_in_that_gathers_is_ended_by_a_stop(cause: str, status: str) -> None:
    driver = with_fan_out(width=1, timeout_seconds=50)
    driver.done("f", 0)
    assert driver.status_of("g") == "running"
    match cause:
        case "cancel":
            driver.cancel()
        case "fail":
            driver.fail("a", permanent=True)
        case _:
            driver.pass_time(50)
    assert driver.status_of("g") == status
    assert driver.state.is_terminal
    driver.gather()
    assert driver.status_of("g") == status


# What comes too late


def rejected(driver: Driver, effects: list[Any]) -> bool:
    """Whether the effects say that a report was rejected, and nothing else."""
    return len(effects) == 1 and effects[0].event == "report_rejected"


def test_late_report_after_cancel_changes_nothing_invariant_1() -> None:
    driver = side_by_side()
    driver.claim_all()
    driver.cancel()
    row = driver.queue[("a", -1)]
    driver.pass_time(30)
    before = driver.statuses()
    driver.queue[("a", -1)] = row
    effects = driver.read(driver.hand_in("a", output="late"))
    assert rejected(driver, effects)
    assert driver.statuses() == before
    assert driver.tasks[("a", -1)].status == "cancelled"
    assert driver.state.status == "cancelled"


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_report_of_an_older_epoch_changes_nothing_and_is_told_invariant_1(outcome: Outcome) -> None:
    driver = side_by_side()
    old = driver.hand_in("a", outcome=Outcome.LOST)
    driver.read(old)
    before = (driver.statuses(), driver.tasks[("a", -1)].view(), dict(driver.queue))
    effects = driver.read(old._replace(outcome=outcome, output="late"))
    assert rejected(driver, effects)
    assert (driver.statuses(), driver.tasks[("a", -1)].view(), dict(driver.queue)) == before
    assert driver.event("report_rejected").data == {"epoch": 1, "worker": "w"}


def test_a_report_of_a_newer_epoch_than_the_tasks_changes_nothing_invariant_1() -> None:
    driver = side_by_side()
    report = driver.hand_in("a")
    assert rejected(driver, driver.read(report._replace(epoch=2)))
    assert driver.status_of("a") == "dispatched"


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("status", ["completed", "failed", "skipped", "cancelled"])
def test_a_report_of_a_task_that_has_ended_changes_nothing_invariant_4(outcome: Outcome, status: str) -> None:
    driver = side_by_side()
    report = driver.hand_in("a", outcome=outcome)
    view = driver.tasks[("a", -1)].view()._replace(status=status)
    assert rejected(driver, driver.send(report._replace(task=view)))


def test_a_report_of_a_task_that_is_gone_changes_nothing() -> None:
    driver = side_by_side()
    report = driver.hand_in("a")
    assert rejected(driver, driver.send(report._replace(task=None)))


def test_the_same_report_read_twice_counts_once_invariant_1() -> None:
    driver = with_fan_out(width=2)
    report = driver.hand_in("f", 0, output=1)
    driver.read(report)
    assert rejected(driver, driver.read(report))
    assert driver.node("f").completed == 1


def test_a_rejection_by_the_store_is_told_with_its_item() -> None:
    driver = with_fan_out()
    driver.send(ReportRejected("f", 1, 3, "w9"))
    event = driver.event("report_rejected")
    assert (event.node, event.item, event.data) == ("f", 1, {"epoch": 3, "worker": "w9"})
    driver.send(ReportRejected("a", -1, 1, "w9"))
    assert driver.events[-1].item is None


def test_an_empty_withdrawal_of_leases_is_remembered() -> None:
    driver = stopping()
    driver.hand_in("b")
    driver.send(TasksWithdrawn({}, leases_too=True))
    assert driver.state.stop is not None
    assert driver.state.stop.leases_ended
    assert driver.state.job_touched
    assert driver.state.status is JobStatus.RUNNING


# The clock of the database steps back


def test_a_job_that_ends_after_the_clock_stepped_back_ends_no_earlier_than_it_began() -> None:
    driver = side_by_side()
    driver.now += 50
    driver.done("a")
    driver.now -= 600
    driver.done("b")
    driver.done("c")
    ended = [driver.node(name).finished_at for name in ("a", "b", "c")]
    assert ended == [START + 50] * 3
    assert (driver.state.started_at, driver.state.finished_at) == (START, START + 50)


def test_a_retry_is_due_by_the_clock_that_has_stepped_back() -> None:
    driver = side_by_side()
    driver.now -= 600
    (again,) = (e for e in driver.fail("a") if isinstance(e, RetryTask))
    assert again.due_at == START - 600 + 1


def test_no_deadline_is_further_away_than_its_own_time_once_the_clock_has_stepped_back() -> None:
    driver = side_by_side(timeout_seconds=100)
    bound_deadlines(driver.state, START + 40)
    assert driver.state.deadline_at == START + 100, "as long as the clock goes on, it stays as it is"
    bound_deadlines(driver.state, START - 600)
    assert driver.state.deadline_at == START - 500
    driver.claim("b")
    driver.cancel()
    assert driver.state.stop == Stop(StopCause.CANCELLED, START + 30)
    bound_deadlines(driver.state, START - 600)
    assert driver.state.stop == Stop(StopCause.CANCELLED, START - 570)


def test_a_pause_that_ends_before_it_began_takes_no_time_away() -> None:
    driver = side_by_side(timeout_seconds=100)
    driver.send(PauseRequested(1, "ann", "", is_paused=True))
    driver.now -= 600
    (released,) = (e for e in driver.send(PauseRequested(2, "ann", "", is_paused=False)) if isinstance(e, ReleaseTasks))
    assert (released.seconds, driver.state.deadline_at) == (0.0, START + 100)
