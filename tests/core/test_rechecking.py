"""A job that the janitor doubts: what is missing is done, and what is there stays as it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.core.effects import FinishTask, MarkJob, RetryTask, WithdrawTasks
from holdfast.core.signals import InconsistencyFound, TaskCounts
from holdfast.core.states import NodeState, Rules, Status
from holdfast.define.workflow import Workflow
from tests.core.driver import Driver, Fails

RULES = Rules(chunk_size=4, window_size=4, drain_seconds=600, grace_seconds=30)


def new(timeout_seconds: float | None = None, rules: Rules = RULES) -> Driver:
    flow = Workflow("w", timeout_seconds=timeout_seconds, inputs={"items": {"type": "array"}})
    flow.task("a", handler="h", retry={"max_retries": 2, "initial_delay_seconds": 60, "jitter": "full"})
    flow.fan_out(
        "f", source="{{ inputs['items'] }}", handler="h", after=["a"],
        retry={"max_retries": 2, "initial_delay_seconds": 60, "jitter": "full"},
    )  # fmt: skip
    flow.task("c", handler="h", after=["f"])
    return Driver(flow, {"items": [1, 2, 3, 4, 5, 6]}, rules)


def begun() -> Driver:
    driver = new()
    driver.submit()
    return driver


def spread() -> Driver:
    driver = begun()
    driver.done("a")
    driver.continue_work()
    return driver


def told(driver: Driver) -> dict[str, object]:
    data = driver.event("janitor_acted").data
    assert data is not None
    return data


def test_a_job_that_is_as_it_should_be_stays_as_it_is() -> None:
    situations: list[Callable[[], Driver]] = [begun, spread]
    for situation in situations:
        assert situation().doubt() == []


def test_a_report_that_nobody_has_read_is_not_a_lost_task() -> None:
    driver = begun()
    driver.unread.append(driver.hand_in("a"))
    assert driver.doubt() == []
    driver.read(driver.unread.pop())
    assert driver.status_of("a") == "completed"


def test_a_task_without_a_queue_row_is_queued_as_a_new_epoch_and_spends_nothing() -> None:
    driver = begun()
    del driver.queue[("a", -1)]
    again, _ = driver.doubt()
    assert isinstance(again, RetryTask)
    assert (again.epoch, again.attempt, again.retries, again.lost, again.due_at) == (2, 1, 0, 0, None)
    assert told(driver) == {"duty": "stuck_tasks", "reason": "as the test says", "requeued": {"a": []}}
    assert driver.run().state.status == "completed"


def test_a_report_of_the_epoch_that_had_vanished_changes_nothing() -> None:
    driver = begun()
    driver.claim("a")
    late = driver.hand_in("a", output="late")
    driver.doubt()
    driver.read(late)
    assert driver.status_of("a") == "ready"
    assert driver.events[-1].event == "report_rejected"


def test_a_retry_that_had_vanished_does_not_come_before_its_time() -> None:
    driver = begun()
    driver.chance = 0.5
    driver.fail("a")
    due_at = driver.queue.pop(("a", -1)).due_at
    driver.doubt()
    assert driver.queue[("a", -1)].due_at == due_at == driver.now + 30
    items = spread()
    items.fail("f", 1)
    del items.queue[("f", 1)]
    items.doubt()
    assert items.queue[("f", 1)].due_at == items.now + 60


def test_a_retry_that_had_vanished_does_not_wait_for_a_clock_that_has_stepped_back() -> None:
    driver = begun()
    driver.chance = 0.5
    driver.fail("a")
    del driver.queue[("a", -1)]
    driver.now -= 86_400
    driver.doubt()
    assert driver.queue[("a", -1)].due_at == driver.now + 60


def test_lost_items_are_told_as_ranges() -> None:
    driver = spread()
    for item in (0, 1, 3):
        del driver.queue[("f", item)]
    driver.doubt()
    assert told(driver)["requeued"] == {"f": [[0, 1], [3, 3]]}
    assert driver.run().state.status == "completed"


@pytest.mark.parametrize("counter", ["completed", "failed", "cancelled", "expanded", "enqueued"])
@pytest.mark.parametrize("by", [-1, 1])
def test_counters_are_what_the_tasks_say(counter: str, by: int) -> None:
    driver = spread()
    driver.done("f", 0)
    node = driver.node("f")
    right = {name: getattr(node, name) for name in ("completed", "failed", "cancelled", "expanded", "enqueued")}
    setattr(node, counter, right[counter] + by)
    driver.doubt("counters")
    found = {name: getattr(node, name) for name in right}
    if counter == "enqueued" and by > 0:
        # What was never queued is taken for lost, which comes to the same.
        right["enqueued"] = found["enqueued"]
    assert found == right
    assert driver.run().state.status == "completed"
    assert driver.node("f").completed == 6


def test_a_fan_out_whose_last_item_was_not_counted_ends() -> None:
    driver = spread()
    for item in range(5):
        driver.done("f", item)
        driver.continue_work()
    last = driver.tasks[("f", 5)]
    del driver.queue[("f", 5)]
    last.status, last.attempt = "completed", 1
    driver.doubt("counters")
    assert (driver.status_of("f"), driver.status_of("c")) == ("completed", "dispatched")


def test_a_node_whose_dependencies_have_ended_begins() -> None:
    driver = begun()
    driver.done("a")
    driver.state.nodes["f"] = NodeState("f")
    driver.tasks = {("a", -1): driver.tasks[("a", -1)]}
    driver.queue.clear()
    driver.doubt("stages")
    assert driver.status_of("f") == "running"
    assert told(driver)["duty"] == "stages"
    assert driver.run().state.status == "completed"


def test_a_job_whose_submission_was_never_heard_begins() -> None:
    driver = new(timeout_seconds=100)
    driver.doubt("idle_jobs")
    assert driver.status_of("a") == "dispatched"
    assert driver.state.deadline_at == driver.now + 100


def test_a_job_whose_deadline_nobody_heard_times_out() -> None:
    driver = new(timeout_seconds=100)
    driver.submit()
    driver.now += 101
    driver.doubt("deadlines")
    assert driver.state.status == "failed"
    assert driver.state.nodes["a"].error is not None
    assert driver.state.nodes["a"].error["code"] == "JOB_TIMEOUT"
    assert "janitor_acted" in [e.event for e in driver.events]


def test_a_job_that_completed_with_counters_that_its_rows_deny_is_marked_once_and_stays_as_it_is() -> None:
    driver = spread().run(lambda node, item, attempt, params: 1)
    driver.doubt()
    assert driver.state.error is None, "nothing is wrong yet"
    before = (driver.state.status, driver.state.finished_at, driver.statuses())
    rows = {"a": TaskCounts(1, -1, 1), "f": TaskCounts(5, 4, 5), "c": TaskCounts(1, -1, 1)}
    found = InconsistencyFound("ended_jobs", "as the test says", rows)
    driver.send(found)
    (marked,) = [effect for effect in driver.effects if isinstance(effect, MarkJob)]
    assert (marked.error["code"], marked.error["node"]) == ("COUNTERS_DISAGREE", "f")
    assert marked.error["message"].startswith("f completed with 6 of 6 tasks done, but its rows tell of 5 of 5")
    assert told(driver)["disagreeing"] == ["f"]
    driver.send(found)
    assert [effect for effect in driver.effects if isinstance(effect, MarkJob)] == [marked]
    assert (driver.state.status, driver.state.finished_at, driver.statuses()) == before


def test_a_stopping_job_takes_nothing_back_invariant_11() -> None:
    driver = spread()
    driver.claim("f", 2)
    driver.cancel()
    assert not driver.state.is_terminal
    del driver.queue[("f", 2)]
    (ended, *_) = driver.doubt()
    assert isinstance(ended, FinishTask) and ended.status is Status.CANCELLED
    assert driver.state.status == "cancelled"


def test_a_node_whose_task_has_ended_ends_with_it() -> None:
    driver = begun()
    task = driver.tasks[("a", -1)]
    driver.queue.clear()
    task.status, task.attempt, task.output = "completed", 1, {"it": "was done"}
    driver.doubt("counters")
    assert (driver.status_of("a"), driver.node("a").output) == ("completed", {"it": "was done"})
    assert told(driver)["recounted"] == told(driver)["ended"] == ["a"]
    assert driver.status_of("f") == "running"


def test_rows_of_a_node_that_has_not_begun_are_left_for_a_person() -> None:
    driver = begun()
    driver.tasks[("c", -1)] = driver.tasks[("a", -1)]
    driver.check = lambda: None  # type: ignore[method-assign]
    assert driver.doubt() == []
    assert driver.status_of("c") == "pending"


def test_a_finished_job_stays_finished_and_what_is_queued_in_its_name_is_withdrawn_invariant_4() -> None:
    driver = begun()
    driver.run()
    before = driver.state.seq
    (effect,) = driver.doubt()
    assert isinstance(effect, WithdrawTasks) and effect.leases_too
    assert (driver.state.status, driver.state.seq) == ("completed", before)


def test_tasks_that_wait_after_a_reset_are_counted_anew_and_queued() -> None:
    driver = spread()
    for item in range(4):
        driver.fail("f", item, permanent=True)
    driver.run(lambda *_: Fails(permanent=True))
    assert driver.recover("resume").applied
    node = driver.node("f")
    assert node.waiting == 2, "the others are in the window"
    node.waiting = 0
    driver.doubt()
    assert told(driver)["recounted"] == ["f"]
    assert driver.run().state.status == "completed"
