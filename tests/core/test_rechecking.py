"""A job that the janitor doubts: the owner repairs what is missing, and changes nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.effects import FinishTask, MarkJob, RetryTask, WithdrawTasks
from holdfast.core.states import Rules, Status
from holdfast.define.workflow import Workflow
from tests.core.one_job import Fails, OneJob

RULES = Rules(chunk_size=4, window_size=4, drain_seconds=600, grace_seconds=30)


def new(timeout_seconds: float | None = None, rules: Rules = RULES) -> OneJob:
    flow = Workflow("w", timeout_seconds=timeout_seconds, inputs={"items": {"type": "array"}})
    flow.task("a", handler="h", retry={"max_retries": 2, "initial_delay_seconds": 60, "jitter": "full"})
    flow.fan_out(
        "f", source="{{ inputs['items'] }}", handler="h", after=["a"],
        retry={"max_retries": 2, "initial_delay_seconds": 60, "jitter": "full"},
    )  # fmt: skip
    flow.task("c", handler="h", after=["f"])
    return OneJob(flow, {"items": [1, 2, 3, 4, 5, 6]}, rules)


def begun() -> OneJob:
    job = new()
    job.submit()
    return job


def spread() -> OneJob:
    job = begun()
    job.done("a")
    job.continue_work()
    return job


def event_data(job: OneJob) -> Mapping[str, object]:
    data = job.event("janitor_acted").data
    assert data is not None
    return data


def end_without_its_node(job: OneJob, node: str, item: int = -1, output: Any = None) -> None:
    """Complete a task, but leave its node as if the report had never been read."""
    report = job.hand_in(node, item, output=output)
    assert report.signal_id is not None
    del job.db.inbox[report.signal_id]
    job.tasks[(node, item)] |= {"status": "completed", "attempt": 1, "output": output, "finished_at": job.now}


def test_a_sound_job_is_not_changed() -> None:
    situations: list[Callable[[], OneJob]] = [begun, spread]
    for situation in situations:
        assert situation().doubt() == []


def test_a_task_with_an_unread_report_is_not_lost() -> None:
    job = begun()
    report = job.hand_in("a")
    assert job.doubt() == []
    job.read(report)
    assert job.status_of("a") == "completed"


def test_a_task_without_a_queue_row_is_queued_as_a_new_epoch_and_spends_nothing() -> None:
    job = begun()
    job.remove_from_queue("a")
    again, _ = job.doubt()
    assert isinstance(again, RetryTask)
    assert (again.epoch, again.attempt, again.retries, again.lost, again.due_at) == (2, 1, 0, 0, None)
    assert event_data(job) == {"duty": "stuck_tasks", "reason": "as the test says", "requeued": {"a": []}}
    assert job.run().state.status == "completed"


@pytest.mark.parametrize("limit", [0, 2])
def test_a_task_that_vanishes_again_and_again_fails_at_the_limit(limit: int) -> None:
    job = new(rules=replace(RULES, requeue_limit=limit))
    job.submit()
    for _ in range(limit):
        job.remove_from_queue("a")
        job.doubt()
        assert job.status_of("a") == "ready"
    job.remove_from_queue("a")
    ended, *_ = job.doubt()
    assert isinstance(ended, FinishTask)
    error = ended.error
    assert error is not None
    assert (error.code, error.is_permanent, error.node, error.attempt) == ("REQUEUE_LIMIT", False, "a", limit + 1)
    assert error.hint is not None and "resume the job" in error.hint
    assert (job.status_of("a"), job.state.status, job.node("a").failed) == ("failed", "failed", 1)
    acted = [one.data for one in job.events if one.event == "janitor_acted"]
    assert acted[limit:] == [{"duty": "stuck_tasks", "reason": "as the test says", "given_up": {"a": []}}]
    assert [one.event for one in job.events if one.event.endswith("_failed")] == ["node_failed", "job_failed"]


def test_items_that_vanish_too_often_fail_and_the_others_are_queued_again() -> None:
    job = new(rules=replace(RULES, requeue_limit=1))
    job.submit()
    job.done("a")
    job.continue_work()
    for item in (0, 2):
        job.remove_from_queue("f", item)
    job.doubt()
    for item in (0, 1, 2):
        job.remove_from_queue("f", item)
    job.doubt()
    data = job.events[[one.event for one in job.events].index("janitor_acted") + 1 :]
    acted = next(one.data for one in data if one.event == "janitor_acted")
    assert acted is not None
    assert (acted["requeued"], acted["given_up"]) == ({"f": [[1, 1]]}, {"f": [[0, 0], [2, 2]]})
    assert [one.item for one in job.events if one.event == "task_failed"] == [0, 2]
    assert job.run().state.status == "failed"
    assert (job.node("f").completed, job.node("f").failed) == (4, 2)


def test_a_retry_keeps_the_count_of_requeues_and_a_recovery_zeroes_it() -> None:
    job = new(rules=replace(RULES, requeue_limit=1))
    job.submit()
    job.remove_from_queue("a")
    job.doubt()
    job.fail("a")
    assert job.tasks[("a", -1)]["requeues"] == 1
    job.remove_from_queue("a")
    job.doubt()
    assert job.status_of("a") == "failed"
    job.recover("resume")
    assert job.tasks[("a", -1)]["requeues"] == 0
    job.remove_from_queue("a")
    job.doubt()
    assert job.run().state.status == "completed"


def test_a_report_of_an_epoch_whose_queue_row_was_lost_changes_nothing() -> None:
    job = begun()
    job.claim("a")
    late = job.report("a", output="late")
    job.remove_from_queue("a")
    job.doubt()
    job.read(late)
    assert job.status_of("a") == "ready"
    assert job.events[-1].event == "report_rejected"


def test_a_lost_retry_is_queued_for_its_own_time() -> None:
    job = begun()
    job.chance = 0.5
    job.fail("a")
    due_at = job.remove_from_queue("a")["due_at"]
    job.doubt()
    assert job.queue[("a", -1)]["due_at"] == due_at == job.now + 30
    items = spread()
    items.fail("f", 1)
    items.remove_from_queue("f", 1)
    items.doubt()
    assert items.queue[("f", 1)]["due_at"] == items.now + 60


def test_a_lost_retry_does_not_wait_for_a_clock_that_has_stepped_back() -> None:
    job = begun()
    job.chance = 0.5
    job.fail("a")
    job.remove_from_queue("a")
    job.now -= 86_400
    job.doubt()
    assert job.queue[("a", -1)]["due_at"] == job.now + 60


def test_the_event_lists_lost_items_as_ranges() -> None:
    job = spread()
    for item in (0, 1, 3):
        job.remove_from_queue("f", item)
    job.doubt()
    assert event_data(job)["requeued"] == {"f": [[0, 1], [3, 3]]}
    assert job.run().state.status == "completed"


@pytest.mark.parametrize("counter", ["completed", "failed", "cancelled", "expanded", "enqueued"])
@pytest.mark.parametrize("by", [-1, 1])
def test_wrong_counters_are_corrected_from_the_tasks(counter: str, by: int) -> None:
    job = spread()
    job.done("f", 0)
    row = job.node_rows["f"]
    right = {name: getattr(row, name) for name in ("completed", "failed", "cancelled", "expanded", "enqueued")}
    job.node_rows["f"] = row._replace(**{counter: right[counter] + by})
    job.doubt("counters")
    recounted = {name: getattr(job.node("f"), name) for name in right}
    if counter == "enqueued" and by > 0:
        # An item that was never queued counts as lost and is queued: the effect is the same.
        right["enqueued"] = recounted["enqueued"]
    assert recounted == right
    assert job.run().state.status == "completed"
    assert job.node("f").completed == 6


def test_a_fan_out_whose_last_item_was_not_counted_ends() -> None:
    job = spread()
    for item in range(5):
        job.done("f", item)
        job.continue_work()
    end_without_its_node(job, "f", 5)
    job.doubt("counters")
    assert (job.status_of("f"), job.status_of("c")) == ("completed", "dispatched")


def test_a_node_whose_dependencies_have_ended_begins() -> None:
    job = begun()
    job.done("a")
    del job.node_rows["f"]
    for key in [key for key in job.tasks if key[0] == "f"]:
        del job.tasks[key]
    job.db.queue.clear()
    job.doubt("stages")
    assert job.status_of("f") == "running"
    assert event_data(job)["duty"] == "stages"
    assert job.run().state.status == "completed"


def test_a_job_whose_submission_was_lost_begins() -> None:
    job = new(timeout_seconds=100)
    job.db.inbox.clear()
    job.doubt("idle_jobs")
    assert job.status_of("a") == "dispatched"
    assert job.state.deadline_at == job.now + 100


def test_a_job_whose_deadline_was_missed_times_out() -> None:
    job = new(timeout_seconds=100)
    job.submit()
    job.now += 101
    job.doubt("deadlines")
    assert job.state.status == "failed"
    assert job.state.nodes["a"].error is not None
    assert job.state.nodes["a"].error.code == "JOB_TIMEOUT"
    assert "janitor_acted" in [e.event for e in job.events]


def test_a_completed_job_whose_rows_contradict_its_counters_is_marked_once_and_not_changed() -> None:
    job = spread().run(lambda node, item, attempt, params: 1)
    job.doubt()
    assert job.state.error is None, "nothing is wrong yet"
    before = (job.row["status"], job.row["finished_at"], job.statuses())
    del job.tasks[("f", 5)]
    job.check = lambda: None  # type: ignore[method-assign]
    job.doubt("ended_jobs")
    (marked,) = [effect for effect in job.effects if isinstance(effect, MarkJob)]
    assert (marked.error.code, marked.error.node) == ("COUNTERS_DISAGREE", "f")
    assert marked.error.message.startswith("f completed with 6 of 6 tasks done, but its rows tell of 5 of 5")
    assert event_data(job)["disagreeing"] == ["f"]
    job.doubt("ended_jobs")
    assert [effect for effect in job.effects if isinstance(effect, MarkJob)] == [marked]
    assert (job.row["status"], job.row["finished_at"], job.statuses()) == before


def test_a_stopping_job_queues_no_lost_task_invariant_11() -> None:
    job = spread()
    job.claim("f", 2)
    job.cancel()
    assert not job.state.is_terminal
    job.remove_from_queue("f", 2)
    (ended, *_) = job.doubt()
    assert isinstance(ended, FinishTask) and ended.status is Status.CANCELLED
    assert event_data(job)["withdrawn"] == {"f": [[2, 2]]}
    assert job.state.status == "cancelled"
    job.recover("resume")
    assert next(row["attempt"] for key, row in job.db.queue.items() if key[1:] == ("f", 2)) == 2, (
        "a worker had begun attempt 1"
    )


def test_a_node_whose_task_has_ended_ends_with_it() -> None:
    job = begun()
    end_without_its_node(job, "a", output={"it": "was done"})
    job.doubt("counters")
    assert (job.status_of("a"), job.node("a").output) == ("completed", {"it": "was done"})
    assert event_data(job)["recounted"] == event_data(job)["ended"] == ["a"]
    assert job.status_of("f") == "running"


def test_rows_of_a_node_that_has_not_begun_are_left_for_a_person() -> None:
    job = begun()
    job.tasks[("c", -1)] = job.tasks[("a", -1)]
    job.check = lambda: None  # type: ignore[method-assign]
    assert job.doubt() == []
    assert job.status_of("c") == "pending"


def test_a_finished_job_stays_finished_and_its_queued_tasks_are_withdrawn_invariant_4() -> None:
    job = begun()
    job.run()
    before = job.state.seq
    (effect,) = job.doubt()
    assert isinstance(effect, WithdrawTasks) and effect.leases_too
    assert (job.state.status, job.state.seq) == ("completed", before)


def test_tasks_that_wait_after_a_reset_are_counted_again_and_queued() -> None:
    job = spread()
    for item in range(4):
        job.fail("f", item, permanent=True)
    job.run(lambda *_: Fails(permanent=True))
    assert job.recover("resume").applied
    row = job.node_rows["f"]
    assert row.waiting == 2, "the others are in the window"
    job.node_rows["f"] = row._replace(waiting=0)
    job.doubt()
    assert event_data(job)["recounted"] == ["f"]
    assert job.run().state.status == "completed"
