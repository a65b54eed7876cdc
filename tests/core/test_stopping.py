"""How a job ends early: what stops it, which tasks may still finish, and which reports come too late."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from holdfast.core.advance import owed_rows
from holdfast.core.effects import AnswerSignal, EnqueueTasks, FinishTask, ReleaseTasks, RetryTask, WithdrawTasks
from holdfast.core.signals import Outcome, PauseRequested, ReportRejected, TasksWithdrawn, TimePassed
from holdfast.core.states import JobStatus, Rules, Status, Stop, StopCause
from holdfast.core.stopping import bound_deadlines
from holdfast.define.workflow import Workflow
from holdfast.remedies import Remedy
from tests.core.one_job import START, OneJob

RULES = Rules(grace_seconds=30, drain_seconds=600, chunk_size=4, window_size=2)


def side_by_side(importance: str | None = None, timeout_seconds: float | None = None, after: bool = True) -> OneJob:
    """Two tasks at once, `a` and `b`, and one that waits for both."""
    flow = Workflow("w", timeout_seconds=timeout_seconds)
    retry = {"max_retries": 2, "initial_delay_seconds": 1, "jitter": "none"}
    flow.task("a", handler="h", importance=importance, retry=retry)
    flow.task("b", handler="h", retry=retry)
    if after:
        flow.task("c", handler="h", after=["a", "b"], importance=importance)
    job = OneJob(flow, rules=RULES)
    job.submit()
    return job


def with_fan_out(width: int = 10, timeout_seconds: float | None = None, **more: Any) -> OneJob:
    """A task `a` beside a fan-out `f` of which 4 items have rows and 2 are queued."""
    flow = Workflow("w", timeout_seconds=timeout_seconds, inputs={"items": {"type": "array"}})
    flow.task("a", handler="h")
    flow.fan_out("f", source="{{ inputs['items'] }}", handler="h", retry={"max_retries": 1}, **more)
    flow.fan_in("g", after="f")
    job = OneJob(flow, {"items": list(range(width))}, RULES)
    job.submit()
    return job


def withdrawals(effects: list[Any]) -> list[WithdrawTasks]:
    return [e for e in effects if isinstance(e, WithdrawTasks)]


# What stops a job


def test_a_critical_failure_stops_the_job() -> None:
    job = side_by_side()
    job.claim("b")
    (withdrawal,) = withdrawals(job.fail("a", permanent=True))
    assert (withdrawal.status, withdrawal.leases_too) == (Status.CANCELLED, False)
    assert job.state.stop == Stop(StopCause.FAILED, START + 600)
    assert job.statuses() == {"a": "failed", "b": "dispatched", "c": "cancelled"}
    assert job.node("c").reason == "job_stopped"
    assert job.state.status == "running"
    assert job.state.next_deadline() == START + 600


@pytest.mark.parametrize("importance", ["important", "optional"])
def test_important_and_optional_failures_stop_nothing(importance: str) -> None:
    job = side_by_side(importance)
    assert not withdrawals(job.fail("a", permanent=True))
    assert job.state.stop is None
    assert ("b", -1) in job.queue
    job.fail("b")
    assert ("b", -1) in job.queue
    job.run()
    assert job.status_of("b") == "completed"
    assert job.state.status == ("partial" if importance == "important" else "completed")


@pytest.mark.parametrize("importance", ["critical", "important", "optional"])
def test_a_node_that_is_cancelled_after_a_failure_counts_with_the_importance_of_that_failure(importance: str) -> None:
    flow = Workflow("w")
    flow.task("a", handler="h", importance="important")
    flow.task("b", handler="h", after="a", importance=importance)
    flow.task("c", handler="h", after="b", importance=importance)
    flow.task("beside", handler="h")
    job = OneJob(flow)
    job.submit()
    job.fail("a", permanent=True)
    assert (job.status_of("b"), job.status_of("c"), job.state.stop) == ("cancelled", "cancelled", None)
    job.run()
    assert (job.status_of("beside"), job.state.status) == ("completed", "partial")


def test_a_failure_with_nothing_else_under_way_ends_the_job_at_once() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h", after="a")
    job = OneJob(flow)
    job.submit()
    assert not withdrawals(job.fail("a", permanent=True))
    assert job.state.status == "failed"
    assert job.event_names()[-3:] == ["node_failed", "node_cancelled", "job_failed"]


def test_tasks_that_wait_in_the_queue_are_withdrawn_and_the_job_ends_invariant_11() -> None:
    job = side_by_side()
    job.fail("a", permanent=True)
    assert job.statuses() == {"a": "failed", "b": "cancelled", "c": "cancelled"}
    assert job.node("b").reason == "job_stopped"
    assert job.tasks[("b", -1)]["status"] == "cancelled"
    assert job.state.status == "failed"


def test_a_task_that_waits_for_its_retry_is_withdrawn_too_invariant_11() -> None:
    job = side_by_side()
    job.fail("b")
    assert job.status_of("b") == "ready"
    job.fail("a", permanent=True)
    assert job.statuses()["b"] == "cancelled"
    assert job.node("b").retry_at is None
    assert job.state.status == "failed"


# What may still finish


def stopping() -> OneJob:
    """`a` has failed, and a worker holds `b`."""
    job = side_by_side()
    job.claim("b")
    job.fail("a", permanent=True)
    return job


def test_while_the_job_drains_a_running_attempt_finishes_and_counts() -> None:
    job = stopping()
    job.now += 599
    job.done("b", output=1)
    assert job.statuses() == {"a": "failed", "b": "completed", "c": "cancelled"}
    assert job.node("b").output == 1
    assert job.state.status == "failed"


def test_while_the_job_drains_nothing_is_retried_invariant_11() -> None:
    job = stopping()
    effects = job.fail("b")
    assert not [e for e in effects if isinstance(e, RetryTask | EnqueueTasks)]
    assert job.status_of("b") == "failed"
    assert job.tasks[("b", -1)]["retries"] == 0
    assert job.state.status == "failed"


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.GIVEN_BACK])
def test_while_the_job_drains_a_lost_or_returned_attempt_is_cancelled_invariant_11(outcome: Outcome) -> None:
    job = stopping()
    effects = job.read(job.hand_in("b", outcome=outcome))
    assert not [e for e in effects if isinstance(e, RetryTask | EnqueueTasks)]
    (ended,) = (e for e in effects if isinstance(e, FinishTask))
    assert ended.status is Status.CANCELLED
    assert ended.error is not None
    assert ended.error.code == "CANCELLED"
    assert job.status_of("b") == "cancelled"
    assert job.state.status == "failed"


def test_before_the_drain_is_over_time_changes_nothing() -> None:
    job = stopping()
    assert job.pass_time(599) == []
    assert job.state.status == "running"


def test_when_the_drain_is_over_the_leases_end_invariant_11() -> None:
    job = stopping()
    (withdrawal,) = withdrawals(job.pass_time(600))
    assert withdrawal.leases_too
    assert job.status_of("b") == "cancelled"
    assert job.state.status == "failed"
    assert job.state.stop is not None
    assert job.state.stop.leases_ended


def test_the_leases_are_withdrawn_once_even_if_a_report_is_still_unread() -> None:
    job = stopping()
    unread = job.hand_in("b", output=5)
    assert withdrawals(job.pass_time(600))
    assert job.state.status == "running"
    assert job.state.next_deadline() is None
    assert job.pass_time(100) == []
    job.read(unread)
    assert job.status_of("b") == "completed"
    assert job.state.status == "failed"


def test_an_unread_report_of_a_finished_attempt_still_counts_after_a_stop() -> None:
    job = side_by_side()
    unread = job.hand_in("b", output=5)
    job.fail("a", permanent=True)
    assert job.status_of("b") == "dispatched"
    assert job.state.status == "running"
    job.read(unread)
    assert job.status_of("b") == "completed"
    assert job.tasks[("b", -1)]["output"] == 5
    assert job.state.status == "failed"


def test_a_second_failure_does_not_prolong_the_drain() -> None:
    flow = Workflow("w")
    for name in ("a", "b", "c"):
        flow.task(name, handler="h")
    job = OneJob(flow, rules=RULES)
    job.submit()
    job.claim_all()
    job.fail("a", permanent=True)
    job.now += 100
    assert not withdrawals(job.fail("b", permanent=True))
    assert job.state.stop == Stop(StopCause.FAILED, START + 600)


# Cancel


def test_cancelling_a_job_that_has_not_begun_ends_it_at_once() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    job = OneJob(flow)
    effects = job.cancel()
    assert AnswerSignal(7, "job", True, "cancelled") in effects
    assert job.state.status == "cancelled"
    assert job.state.started_at == job.state.finished_at == START
    assert job.event_names() == ["node_cancelled", "job_cancelled"]
    assert job.submit() == []
    assert not job.tasks


def test_cancelling_a_running_job_cancels_queued_tasks_and_leaves_running_ones_the_grace_period() -> None:
    job = side_by_side()
    job.claim("a")
    (withdrawal,) = withdrawals(job.cancel())
    assert (withdrawal.status, withdrawal.leases_too) == (Status.CANCELLED, False)
    assert job.statuses() == {"a": "dispatched", "b": "cancelled", "c": "cancelled"}
    assert job.state.stop == Stop(StopCause.CANCELLED, START + 30)
    assert job.answers == [AnswerSignal(7, "job", True, "cancelled")]
    job.done("a", output=1)
    assert job.status_of("a") == "completed"
    assert job.state.status == "cancelled"
    assert job.state.error is not None
    assert job.state.error.code == "CANCELLED"
    assert job.state.error.message == "cancelled by ann: enough"


def test_a_cancelled_job_is_terminal_after_the_grace_period_invariant_11() -> None:
    job = side_by_side()
    job.claim_all()
    job.cancel()
    assert job.pass_time(29) == []
    job.pass_time(1)
    assert job.statuses() == {"a": "cancelled", "b": "cancelled", "c": "cancelled"}
    assert job.state.status == "cancelled"


def test_a_cancel_without_an_id_is_applied_without_an_answer() -> None:
    job = side_by_side()
    job.cancel(signal_id=None)
    assert job.answers == []
    assert job.state.status == "cancelled"


def last_one_runs(*, borders: bool = True) -> OneJob:
    """`a` has completed, and a worker holds `b`, the last task; `borders` adds a start and an end node."""
    flow = Workflow("w")
    if borders:
        flow.start("start", next="a")
    flow.task("a", handler="h")
    flow.task("b", handler="h", after="a")
    if borders:
        flow.end("end", after="b")
    job = OneJob(flow, rules=RULES)
    job.submit()
    job.done("a", output=1)
    job.claim("b")
    return job


@pytest.mark.parametrize("borders", [True, False])
def test_a_cancel_is_too_late_if_the_last_tasks_finish_within_the_grace_period(
    borders: bool,
) -> None:
    job = last_one_runs(borders=borders)
    job.cancel()
    assert job.answers == [], "the job may still complete within the grace period"
    assert job.state.stop == Stop(StopCause.CANCELLED, START + 30, signal_id=7)
    job.done("b", output=5)
    reason = "too late: its last tasks have finished, and it is completed"
    assert job.answers == [AnswerSignal(7, "job", False, reason)]
    assert set(job.statuses().values()) == {"completed"}
    assert (job.state.status, job.state.result, job.state.error) == ("completed", 5, None)


def test_a_cancel_is_applied_if_the_last_task_does_not_finish_within_the_grace_period() -> None:
    job = last_one_runs()
    job.cancel()
    job.pass_time(30)
    assert job.answers == [AnswerSignal(7, "job", True, "cancelled")]
    assert (job.status_of("b"), job.status_of("end")) == ("cancelled", "cancelled")
    assert job.state.status == "cancelled"


def test_a_cancel_is_too_late_if_the_last_task_fails_within_the_grace_period() -> None:
    job = last_one_runs()
    job.cancel()
    job.fail("b", message="no luck", permanent=True)
    (answer,) = job.answers
    assert not answer.applied and "it is failed" in answer.reason
    assert job.state.status == "failed"
    assert job.state.error is not None and job.state.error.message == "no luck"


def test_a_cancel_that_withdraws_items_of_a_fan_out_that_still_runs_is_answered_at_once() -> None:
    job = with_fan_out(width=4)
    job.done("a")
    job.claim("f", 0)
    job.cancel()
    assert job.answers == [AnswerSignal(7, "job", True, "cancelled")]
    assert job.state.status == "running"
    job.done("f", 0)
    assert (job.status_of("f"), job.node("f").reason) == ("cancelled", "job_cancelled")
    assert job.state.status == "cancelled"


@pytest.mark.parametrize("status", ["completed", "failed", "partial", "cancelled"])
def test_cancelling_a_finished_job_is_refused_with_the_reason_invariant_4(status: str) -> None:
    job = side_by_side("important" if status == "partial" else None)
    if status == "cancelled":
        job.cancel(signal_id=None)
    elif status != "completed":
        job.fail("a", permanent=True)
    job.run()
    before = (job.state.error, job.state.stop, len(job.events))
    remedy = Remedy("See how it ended with", "status", "job")
    assert job.cancel() == [AnswerSignal(7, "job", False, f"too late, it is already {status}", remedy)]
    assert (job.state.error, job.state.stop, len(job.events)) == before
    assert job.state.status == status


def test_cancelling_twice_is_refused_the_second_time() -> None:
    job = side_by_side()
    job.claim_all()
    job.cancel()
    job.now += 10
    remedy = Remedy("Wait until it has ended", "watch", "job")
    assert job.cancel(8) == [AnswerSignal(8, "job", False, "it is already stopping (cancelled)", remedy)]
    assert job.state.stop == Stop(StopCause.CANCELLED, START + 30)


def test_a_cancel_shortens_the_drain_after_a_failure_and_makes_the_job_cancelled() -> None:
    job = stopping()
    job.cancel()
    assert job.state.stop == Stop(StopCause.CANCELLED, START + 30, signal_id=7)
    job.pass_time(30)
    assert job.state.status == "cancelled"


def test_a_failure_that_is_not_retried_because_of_the_cancel_leaves_the_job_cancelled() -> None:
    job = last_one_runs()
    job.cancel()
    job.fail("b")
    assert job.answers == [AnswerSignal(7, "job", True, "cancelled")]
    assert (job.status_of("b"), job.state.status) == ("failed", "cancelled")
    job = with_fan_out(width=1)
    job.done("a")
    job.claim("f", 0)
    job.cancel()
    job.fail("f", 0)
    assert (job.status_of("f"), job.state.status) == ("failed", "cancelled")


def test_cancelling_withdraws_a_task_that_waits_for_its_retry() -> None:
    job = side_by_side()
    job.fail("a")
    job.cancel()
    assert job.status_of("a") == "cancelled"
    assert job.state.status == "cancelled"


# Timeout


def test_a_timeout_fails_everything_that_is_open_at_once() -> None:
    job = side_by_side(timeout_seconds=50)
    assert job.state.deadline_at == job.state.next_deadline() == START + 50
    job.claim("b")
    assert job.pass_time(49.9) == []
    (withdrawal,) = withdrawals(job.pass_time(0.1))
    assert (withdrawal.status, withdrawal.leases_too) == (Status.FAILED, True)
    assert withdrawal.error.code == "JOB_TIMEOUT"
    assert job.statuses() == {"a": "failed", "b": "failed", "c": "cancelled"}
    for name in ("a", "b"):
        error = job.node(name).error
        assert error is not None
        assert (error.code, error.failure_class) == ("JOB_TIMEOUT", "transient")
        assert job.tasks[(name, -1)]["error"] == withdrawal.error
    assert job.state.status == "failed"
    assert job.state.error is not None
    assert job.state.error.message == "the job did not end within 50 s"


def test_a_report_that_was_unread_at_the_timeout_still_counts() -> None:
    job = side_by_side(timeout_seconds=50)
    unread = job.hand_in("a", output=1)
    job.pass_time(50)
    assert job.statuses() == {"a": "dispatched", "b": "failed", "c": "cancelled"}
    assert job.state.next_deadline() is None
    job.read(unread)
    assert job.status_of("a") == "completed"
    assert job.state.status == "failed"


def test_a_job_without_a_timeout_has_no_deadline() -> None:
    job = side_by_side()
    assert job.state.next_deadline() is None
    assert job.pass_time(1e9) == []


def test_a_timeout_shortens_the_drain_after_a_failure() -> None:
    job = side_by_side(timeout_seconds=50)
    job.claim("b")
    job.fail("a", permanent=True)
    assert job.state.next_deadline() == START + 50
    job.pass_time(50)
    assert job.statuses() == {"a": "failed", "b": "failed", "c": "cancelled"}
    assert job.state.status == "failed"
    assert job.state.error is not None
    assert job.state.error.node == "a"


def test_a_timeout_does_not_touch_a_job_that_is_being_cancelled() -> None:
    job = side_by_side(timeout_seconds=10)
    job.claim_all()
    job.cancel()
    assert job.pass_time(15) == []
    job.pass_time(15)
    assert job.state.status == "cancelled"


def test_time_changes_nothing_in_a_finished_job_invariant_4() -> None:
    job = side_by_side(timeout_seconds=50).run()
    job.now += 1000
    assert job.send(TimePassed()) == []
    assert job.state.status == "completed"


# Fan-outs


def test_rows_that_were_never_queued_are_withdrawn_and_items_without_a_row_never_get_one() -> None:
    job = with_fan_out()
    job.claim("f", 0)
    (withdrawal,) = withdrawals(job.fail("a", permanent=True))
    assert withdrawal.unqueued == (("f", 2, 3),)
    assert not owed_rows(job.state)
    assert job.continue_work() == []
    assert job.node("f").cancelled == 3
    assert job.status_of("f") == "running"
    event = job.event("task_cancelled")
    assert (event.node, event.data) == ("f", {"items": [[1, 3]], "count": 3, "reason": "job_stopped"})
    job.done("f", 0)
    assert job.status_of("f") == "cancelled"
    assert job.node("f").reason == "job_stopped"
    assert (job.node("f").width, job.node("f").expanded, job.node("f").completed) == (10, 4, 1)
    assert job.statuses()["g"] == "cancelled"
    assert job.state.status == "failed"


def test_the_ranges_of_cancelled_items_leave_out_leased_ones() -> None:
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.fan_out("f", source="{{ inputs['items'] }}", handler="h")
    job = OneJob(flow, {"items": list(range(8))}, RULES.__class__(grace_seconds=30))
    job.submit()
    job.claim("f", 3)
    job.claim("f", 4)
    job.cancel()
    assert job.event("task_cancelled").data == {"items": [[0, 2], [5, 7]], "count": 6, "reason": "job_cancelled"}
    job.pass_time(30)
    assert [e.data["items"] for e in job.events if e.event == "task_cancelled" and e.data] == [
        [[0, 2], [5, 7]],
        [[3, 4]],
    ]
    assert job.state.status == "cancelled"


def test_an_item_that_was_lost_during_the_drain_is_cancelled_by_itself() -> None:
    job = with_fan_out(width=2)
    job.claim_all()
    job.cancel()
    job.done("f", 0)
    job.lose("f", 1)
    assert job.status_of("f") == "cancelled"
    assert job.event("task_cancelled").item == 1
    assert (job.node("f").completed, job.node("f").cancelled) == (1, 1)


def test_a_stopped_fan_out_with_a_failed_item_has_the_error_of_that_item() -> None:
    job = with_fan_out()
    job.fail("f", 0, permanent=True, code="DISK", message="no disk")
    job.cancel()
    error = job.node("f").error
    assert job.status_of("f") == "failed"
    assert error is not None
    assert error.code == "DISK"
    assert job.state.status == "cancelled"


def test_a_timeout_fails_a_fan_out_with_all_its_open_items() -> None:
    job = with_fan_out(timeout_seconds=50)
    job.claim("f", 1)
    job.done("f", 0)
    job.pass_time(50)
    error = job.node("f").error
    assert job.status_of("f") == "failed"
    assert error is not None
    assert error.code == "JOB_TIMEOUT"
    assert (job.node("f").completed, job.node("f").failed, job.node("f").cancelled) == (1, 3, 0)
    event = job.event("task_failed")
    assert event.data == {"items": [[1, 3]], "count": 3, "code": "JOB_TIMEOUT"}


def test_a_fan_out_between_two_chunks_is_stopped_although_none_of_its_rows_is_open() -> None:
    job = with_fan_out()
    for item in range(4):
        job.done("f", item)
    assert job.node("f").open_tasks == 0
    assert job.status_of("f") == "running"
    job.cancel()
    assert job.status_of("f") == "cancelled"
    assert job.state.status == "cancelled"


def test_a_fan_out_whose_items_all_completed_before_the_stop_has_completed() -> None:
    job = with_fan_out(width=1)
    job.claim_all()
    job.fail("a", permanent=True)
    job.done("f", 0)
    assert job.statuses() == {"a": "failed", "f": "completed", "g": "cancelled"}


@pytest.mark.parametrize(("cause", "status"), [("cancel", "cancelled"), ("fail", "cancelled"), ("timeout", "failed")])
def test_a_fan_in_that_gathers_is_ended_by_a_stop(cause: str, status: str) -> None:
    job = with_fan_out(width=1, timeout_seconds=50)
    job.done("f", 0)
    assert job.status_of("g") == "running"
    match cause:
        case "cancel":
            job.cancel()
        case "fail":
            job.fail("a", permanent=True)
        case _:
            job.pass_time(50)
    assert job.status_of("g") == status
    assert job.state.is_terminal
    job.gather()
    assert job.status_of("g") == status


# What comes too late


def rejected(job: OneJob, effects: list[Any]) -> bool:
    """Whether the effects say that a report was rejected, and nothing else."""
    return len(effects) == 1 and effects[0].event == "report_rejected"


def test_late_report_after_cancel_changes_nothing_invariant_1() -> None:
    job = side_by_side()
    job.claim_all()
    job.cancel()
    late = job.report("a", output="late")
    job.pass_time(30)
    before = job.statuses()
    effects = job.read(late)
    assert rejected(job, effects)
    assert job.statuses() == before
    assert job.tasks[("a", -1)]["status"] == "cancelled"
    assert job.state.status == "cancelled"


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_report_of_an_older_epoch_changes_nothing_and_has_an_event_invariant_1(outcome: Outcome) -> None:
    job = side_by_side()
    old = job.hand_in("a", outcome=Outcome.LOST)
    job.read(old)
    before = (job.statuses(), job.task_view("a"), deepcopy(job.queue))
    effects = job.read(old._replace(outcome=outcome, output="late"))
    assert rejected(job, effects)
    assert (job.statuses(), job.task_view("a"), job.queue) == before
    assert job.event("report_rejected").data == {"epoch": 1, "worker": "w"}


def test_a_report_of_a_newer_epoch_than_the_tasks_changes_nothing_invariant_1() -> None:
    job = side_by_side()
    report = job.hand_in("a")
    assert rejected(job, job.read(report._replace(epoch=2)))
    assert job.status_of("a") == "dispatched"


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("status", ["completed", "failed", "skipped", "cancelled"])
def test_a_report_of_a_task_that_has_ended_changes_nothing_invariant_4(outcome: Outcome, status: str) -> None:
    job = side_by_side()
    report = job.hand_in("a", outcome=outcome)
    view = job.task_view("a")
    assert view is not None
    assert rejected(job, job.send(report._replace(task=view._replace(status=status))))


def test_a_report_of_a_task_that_is_gone_changes_nothing() -> None:
    job = side_by_side()
    report = job.hand_in("a")
    assert rejected(job, job.send(report._replace(task=None)))


def test_the_same_report_read_twice_counts_once_invariant_1() -> None:
    job = with_fan_out(width=2)
    report = job.hand_in("f", 0, output=1)
    job.read(report)
    assert rejected(job, job.read(report))
    assert job.node("f").completed == 1


def test_the_event_of_a_report_that_the_store_rejected_names_its_item() -> None:
    job = with_fan_out()
    job.send(ReportRejected("f", 1, 3, "w9"))
    event = job.event("report_rejected")
    assert (event.node, event.item, event.data) == ("f", 1, {"epoch": 3, "worker": "w9"})
    job.send(ReportRejected("a", -1, 1, "w9"))
    assert job.events[-1].item is None


def test_a_withdrawal_without_leases_is_written() -> None:
    job = stopping()
    job.hand_in("b")
    job.send(TasksWithdrawn({}, leases_too=True))
    assert job.state.stop is not None
    assert job.state.stop.leases_ended
    assert job.row["stop_leases_ended"]
    assert job.state.status is JobStatus.RUNNING


# The clock of the database steps back


def test_a_job_that_ends_after_the_clock_stepped_back_ends_no_earlier_than_it_began() -> None:
    job = side_by_side()
    job.now += 50
    job.done("a")
    job.now -= 600
    job.done("b")
    job.done("c")
    ended = [job.node(name).finished_at for name in ("a", "b", "c")]
    assert ended == [START + 50] * 3
    assert (job.state.started_at, job.state.finished_at) == (START, START + 50)


def test_a_retry_is_due_by_the_clock_that_has_stepped_back() -> None:
    job = side_by_side()
    job.now -= 600
    (again,) = (e for e in job.fail("a") if isinstance(e, RetryTask))
    assert again.due_at == START - 600 + 1


def test_no_deadline_is_further_away_than_its_own_time_once_the_clock_has_stepped_back() -> None:
    job = side_by_side(timeout_seconds=100)
    bound_deadlines(job.state, START + 40)
    assert job.state.deadline_at == START + 100, "the deadline does not move while the clock goes forward"
    bound_deadlines(job.state, START - 600)
    assert job.state.deadline_at == START - 500
    job.claim("b")
    job.cancel()
    assert job.state.stop == Stop(StopCause.CANCELLED, START + 30)
    bound_deadlines(job.state, START - 600)
    assert job.state.stop == Stop(StopCause.CANCELLED, START - 570)


def test_a_pause_that_ends_before_it_began_takes_no_time_away() -> None:
    job = side_by_side(timeout_seconds=100)
    job.send(PauseRequested(1, "ann", "", is_paused=True))
    job.now -= 600
    (released,) = (e for e in job.send(PauseRequested(2, "ann", "", is_paused=False)) if isinstance(e, ReleaseTasks))
    assert (released.seconds, job.state.deadline_at) == (0.0, START + 100)
