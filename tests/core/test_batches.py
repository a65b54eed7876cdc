"""Fan-ins with batches: fixed pages of items that run in parallel, and one last task after all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.advance import owed_rows
from holdfast.core.batching import automatic_size
from holdfast.core.effects import RestartNode, RetryTask
from holdfast.core.plans import Refusal
from holdfast.core.states import Rules
from holdfast.define.workflow import Workflow
from tests.core.one_job import Fails, OneJob
from tests.core.test_recovering import Work, actions, run

RULES = Rules(chunk_size=4, window_size=4, drain_seconds=600, grace_seconds=30)
LAST = ("register", -1)


def stacks(
    items: int = 10,
    size: Any = 3,
    *,
    handler: str | None = "finalize",
    tolerate: Any = None,
    importance: str | None = None,
    rules: Rules = RULES,
    **more: Any,
) -> OneJob:
    """Stack each item, register them in batches, report."""
    flow = Workflow("w", inputs={"items": {"type": "array"}, "size": {"type": "any"}, "none": {"type": "any"}})
    flow.fan_out(
        "stack", source="{{ inputs['items'] }}", handler="h", params={"n": "{{ item }}"}, tolerate=tolerate,
        importance=importance, retry={"max_retries": 0},
    )  # fmt: skip
    flow.fan_in(
        "register", after="stack", handler=handler, batch={"handler": "batch", "size": size}, importance="important",
        retry={"max_retries": 0}, **more,
    )  # fmt: skip
    flow.task("notify", handler="h", after=["register"], importance="optional")
    job = OneJob(flow, {"items": list(range(items)), "size": 4}, rules)
    job.submit()
    return job


def go_until(job: OneJob, reached: Callable[[], bool], work: Any = None) -> None:
    while not reached():
        if owed_rows(job.state):
            job.continue_work()
        else:
            job.run_attempt(work)


def begun(job: OneJob, work: Any = None) -> OneJob:
    """Run until all batches are queued."""
    go_until(job, lambda: job.status_of("register") == "running", work)
    return job


def late_report(job: OneJob, item: int) -> Any:
    """A report that its worker sends too late, of a lease that is held now."""
    job.claim("register", item)
    return job.report("register", item)


def batches(ran: list[tuple[str, int]]) -> list[int]:
    return [item for node, item in ran if node == "register"]


@pytest.mark.parametrize(
    ("items", "expected"),
    [(1, 1), (100, 1), (101, 5), (500, 5), (501, 20), (1924, 20), (2000, 20), (2001, 21), (10_000, 100)],
)
def test_auto_makes_as_many_batches_as_the_table_says(items: int, expected: int) -> None:
    assert -(-items // automatic_size(items)) == expected


def test_the_batches_run_in_parallel_and_the_last_task_after_all_have_completed_invariant_8() -> None:
    job = begun(stacks())
    assert sorted(job.queue) == [("register", k) for k in range(4)]
    pages = [job.tasks[("register", k)]["params"]["page"] for k in range(4)]
    assert pages == [{"node": "stack", "offset": 3 * k, "limit": limit} for k, limit in enumerate([3, 3, 3, 1])]
    for batch in (2, 0, 3):
        job.done("register", batch)
    assert LAST not in job.tasks
    node = job.node("register")
    assert (node.completed, node.width, node.status) == (3, 4, "running")
    job.done("register", 1)
    assert list(job.queue) == [LAST]
    assert job.status_of("register") == "dispatched"
    job.done("register", output={"registered": 10})
    assert job.node("register").output == {"registered": 10}
    assert job.run().state.status == "completed"


def test_more_batches_than_the_window_are_made_in_chunks_and_queued_through_the_window() -> None:
    job = stacks(items=23, size=1)
    assert batches(run(job)) == [*range(23), -1]
    assert job.most_queued <= RULES.window_size


def test_the_size_may_be_a_template() -> None:
    assert batches(run(stacks(size="{{ inputs.size }}"))) == [0, 1, 2, -1]


@pytest.mark.parametrize("size", ["{{ inputs['items'] }}", "{{ inputs.size - 4 }}", "{{ inputs.none }}"])
def test_a_size_that_is_no_number_fails_the_node_permanently(size: str) -> None:
    job = stacks(size=size)
    ran = run(job)
    assert batches(ran) == []
    error = job.node("register").error
    assert error is not None and (job.status_of("register"), error.failure_class) == ("failed", "permanent")
    assert job.state.status == "partial"


def test_params_of_the_last_task_that_cannot_be_rendered_are_refused_before_any_batch_runs() -> None:
    job = stacks(params={"deep": "{{ nodes.stack.output.nothing.here }}"})
    assert batches(run(job)) == []
    error = job.node("register").error
    assert error is not None and error.code == "TEMPLATE_ERROR"


def test_an_empty_fan_out_has_no_batches_and_the_last_task_runs() -> None:
    assert batches(run(stacks(items=0))) == [-1]


def test_without_a_handler_the_outputs_of_the_batches_are_gathered() -> None:
    job = stacks(handler=None)
    run(job)
    assert [one["did"][1] for one in job.node("register").output["results"]] == [0, 1, 2, 3]


def test_without_a_handler_a_plan_counts_the_batches_alone() -> None:
    job = stacks(handler=None, tolerate={"failures": 1})
    run(job, ("register", 1), ("stack", 9))
    assert actions(job.plan("retry", "register"))["register"] == "rerun 1"
    assert actions(job.plan("resume"))["register"] == "rerun 1", "the failed item is tolerated and stays"
    assert actions(job.plan("resume", tolerated=True))["register"] == "rerun 2", (
        "the one that failed, and that of the item that runs again"
    )
    assert job.recover("resume", tolerated=True).applied
    assert batches(run(job)) == [1, 3]
    assert job.node("register").output["count"] == 4


def test_a_failed_batch_fails_the_node_and_the_last_task_does_not_run() -> None:
    job = stacks()
    assert batches(run(job, ("register", 1))) == [0, 1, 2, 3]
    error = job.node("register").error
    assert error is not None and error.message == "1 of 4 batches failed; the first: as scripted"
    assert job.state.status == "partial"


def test_a_failed_batch_is_retried_alone_invariant_4() -> None:
    job = stacks()
    run(job, ("register", 1))
    assert actions(job.plan("retry", "register")) == {"register": "rerun 2", "notify": "rerun 1"}
    assert job.recover("retry", "register").applied
    assert batches(run(job)) == [1, -1]
    assert job.state.status == "completed"


def test_a_batch_is_retried_with_its_own_handler_and_queue() -> None:
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.fan_out("stack", source="{{ inputs['items'] }}", handler="h")
    batch = {"handler": "batch", "size": 2, "queue": "heavy", "retry": {"max_retries": 1, "backoff": "fixed"}}
    flow.fan_in("register", after="stack", handler="finalize", batch=batch)
    job = OneJob(flow, {"items": [1, 2, 3]}, RULES)
    work = Work()
    job.run(lambda n, i, a, p: Fails("not now") if (n, i, a) == ("register", 1, 1) else work(n, i, a, p))
    (again,) = (e for e in job.effects if isinstance(e, RetryTask))
    assert (again.lane.handler, again.lane.queue) == ("batch", "heavy")
    assert batches(work.ran) == [0, 1, -1]


def test_a_last_task_that_failed_is_retried_alone_with_a_new_epoch_invariant_2() -> None:
    job = stacks()
    run(job, LAST)
    before = dict(job.tasks[LAST])
    assert actions(job.plan("resume")) == {"register": "rerun 1", "notify": "rerun 1"}
    assert job.recover("resume").applied
    assert job.tasks[LAST]["epoch"] > before["epoch"]
    assert job.tasks[LAST]["attempt"] >= before["attempt"]
    assert batches(run(job)) == [-1]
    assert job.state.status == "completed"


def test_an_item_that_runs_again_reruns_its_batch_and_the_last_task_invariant_4() -> None:
    job = stacks(tolerate={"failures": 2})
    run(job, ("stack", 4), ("stack", 7))
    assert (job.state.status, job.node("register").completed) == ("partial", 5)
    planned = actions(job.plan("clear", "stack", items=(4,)))
    assert planned == {"stack": "rerun 1", "register": "rerun 2", "notify": "rerun 1"}
    assert job.recover("clear", "stack", items=(4,)).applied
    assert (job.status_of("register"), job.node("register").waiting) == ("pending", 1)
    assert run(job) == [("stack", 4), ("register", 1), LAST, ("notify", -1)]
    assert job.recover("resume").applied
    assert run(job) == [("stack", 7), ("register", 2), LAST, ("notify", -1)]
    assert job.state.status == "completed"


def test_a_resumed_fan_in_keeps_the_size_of_its_batches() -> None:
    job = stacks(items=150, size="auto", tolerate={"failures": 1}, rules=Rules())
    run(job, ("stack", 149))
    assert (job.node("register").width, job.node("register").batch_size) == (5, 30)
    assert job.recover("resume").applied
    assert run(job) == [("stack", 149), ("register", 4), LAST, ("notify", -1)]
    assert job.tasks[("register", 4)]["params"]["page"] == {"node": "stack", "offset": 120, "limit": 30}
    assert job.recover("clear", "stack", items=(120,)).applied
    assert run(job) == [("stack", 120), ("register", 4), LAST, ("notify", -1)]


def test_clearing_an_item_while_batches_run_keeps_completed_batches_and_ends_leases() -> None:
    job = begun(stacks(tolerate={"failures": 2}), Work(("stack", 4)))
    job.done("register", 0)
    late = late_report(job, 2)
    assert job.recover("clear", "stack", items=(4,)).applied
    assert [item for node, item in job.queue if node == "register"] == []
    job.read(late)
    assert "report_rejected" in job.events_of("register")
    assert batches(run(job)) == [1, 2, 3, -1]
    assert job.state.status == "completed"


def test_a_plan_counts_the_batches_of_a_fan_in_that_was_never_reached() -> None:
    job = stacks(items=10, size=3)
    run(job, ("stack", 4))
    assert actions(job.plan("resume")) == {"stack": "rerun 1", "register": "rerun 5", "notify": "rerun 1"}


def test_a_fan_out_that_fails_again_cancels_waiting_batches_and_a_resume_runs_them() -> None:
    job = stacks(importance="important")
    run(job)
    assert job.recover("clear", "stack", items=(4,)).applied
    assert batches(run(job, ("stack", 4))) == []
    node = job.node("register")
    assert (node.status, node.reason, node.completed, node.cancelled) == ("cancelled", "upstream_failed", 3, 1)
    assert job.state.status == "partial"
    assert job.recover("resume").applied
    assert run(job) == [("stack", 4), ("register", 1), LAST, ("notify", -1)]
    assert job.state.status == "completed"


def test_a_failure_that_stops_the_job_cancels_waiting_batches_and_a_resume_runs_them_invariant_8() -> None:
    job = stacks()
    run(job)
    assert job.recover("clear", "stack", items=(4,)).applied
    assert batches(run(job, ("stack", 4))) == []
    node = job.node("register")
    assert (node.status, node.completed, node.cancelled, node.open_tasks) == ("cancelled", 3, 1, 0)
    assert job.state.status == "failed"
    assert job.recover("resume").applied
    assert run(job) == [("stack", 4), ("register", 1), LAST, ("notify", -1)]
    assert (job.state.status, node.cancelled) == ("completed", 0)


def test_a_cancel_while_batches_wait_for_the_fan_out_cancels_them() -> None:
    job = stacks(tolerate={"failures": 1})
    run(job)
    assert job.recover("clear", "stack", items=(4,)).applied
    job.cancel()
    assert (job.state.status, job.node("register").cancelled) == ("cancelled", 1)
    assert job.recover("resume").applied
    assert run(job) == [("stack", 4), ("register", 1), LAST, ("notify", -1)]


def test_a_resume_after_a_cancel_between_batches_runs_the_missing_ones() -> None:
    job = begun(stacks())
    job.done("register", 0)
    job.claim("register", 1)
    job.cancel()
    job.done("register", 1)
    assert (job.status_of("register"), job.node("register").completed) == ("cancelled", 2)
    assert job.recover("resume").applied
    assert batches(run(job)) == [2, 3, -1]


def test_a_cancel_when_all_batches_are_done_leaves_only_the_last_task_to_run() -> None:
    job = begun(stacks())
    job.claim_all()
    job.cancel()
    for batch in range(4):
        job.done("register", batch)
    assert (job.status_of("register"), job.node("register").completed) == ("cancelled", 4)
    assert job.recover("resume").applied
    assert batches(run(job)) == [-1]


def test_clear_names_batches_and_the_last_task_follows_them() -> None:
    job = stacks()
    run(job)
    assert actions(job.plan("clear", "register", items=(2,))) == {"register": "rerun 2", "notify": "rerun 1"}
    assert job.recover("clear", "register", items=(2,)).applied
    assert RestartNode("job", "register", own_only=True) in job.effects
    assert batches(run(job)) == [2, -1]


def test_clear_by_code_selects_the_last_task_only_if_it_failed_with_that_code() -> None:
    job = stacks()
    run(job, LAST)
    assert isinstance(job.plan("clear", "register", code="OTHER"), Refusal)
    assert actions(job.plan("clear", "register", code="HANDLER_ERROR"))["register"] == "rerun 1"


def test_clear_while_the_last_task_runs_ends_its_lease_and_runs_it_after_the_batch() -> None:
    job = stacks()
    go_until(job, lambda: LAST in job.queue)
    late = late_report(job, -1)
    assert job.recover("clear", "register", items=(1,)).applied
    job.read(late)
    assert "report_rejected" in job.events_of("register")
    assert batches(run(job)) == [1, -1]


def test_a_rerun_of_the_fan_out_makes_all_batches_again() -> None:
    job = stacks()
    run(job)
    assert job.recover("rerun", "stack").applied
    assert job.node("register").batch_size is None
    assert batches(run(job)) == [0, 1, 2, 3, -1]


def test_a_skip_of_the_fan_in_continues_the_job_and_keeps_completed_batches() -> None:
    job = stacks()
    run(job, ("register", 1))
    assert job.recover("skip", "register").applied
    assert run(job) == [("notify", -1)]
    node = job.node("register")
    assert (node.status, node.completed, node.skipped, job.state.status) == ("skipped", 3, 1, "partial")
    assert isinstance(job.plan("retry", "register"), Refusal)


def test_a_result_set_by_a_person_replaces_the_batches() -> None:
    job = stacks()
    run(job, ("register", 1))
    assert job.recover("set", "register", output={"by": "hand"}).applied
    run(job)
    assert (job.node("register").output, job.state.status) == ({"by": "hand"}, "completed")


def test_a_timeout_between_batches_fails_the_open_ones_and_the_job() -> None:
    flow = Workflow("w", inputs={"items": {"type": "array"}}, timeout_seconds=50)
    flow.fan_out("stack", source="{{ inputs['items'] }}", handler="h")
    flow.fan_in("register", after="stack", handler="finalize", batch={"handler": "batch", "size": 1})
    job = OneJob(flow, {"items": [1, 2]}, RULES)
    job.submit()
    begun(job)
    job.done("register", 0)
    job.pass_time(51)
    node = job.node("register")
    assert (node.status, node.completed, node.failed) == ("failed", 1, 1)
    assert job.state.error is not None and (job.state.status, job.state.error.code) == ("failed", "JOB_TIMEOUT")


def test_a_recheck_never_changes_a_sound_fan_in_with_batches() -> None:
    job = stacks(tolerate={"failures": 2})

    def run_with_rechecks(work: Any) -> None:
        while not job.state.is_terminal:
            job.doubt()
            assert "janitor_acted" not in job.event_names()
            job.continue_work() if owed_rows(job.state) else job.run_attempt(work)

    run_with_rechecks(Work(("stack", 4)))
    assert job.recover("clear", "stack", items=(4,)).applied
    run_with_rechecks(Work())
    assert job.state.status == "completed"


def test_cleared_batches_wait_for_a_fan_out_that_runs_again() -> None:
    """Named after seed 518: they ran beside the fan-out whose results they read."""
    job = begun(stacks(size=5))
    job.run(Work(("stack", 1)))
    job.recover("retry", "stack") if job.state.nodes["stack"].failed else job.recover("clear", "stack", items=(1,))
    assert job.status_of("stack") == "running"
    job.recover("skip", "register")
    assert job.recover("clear", "register").applied
    assert job.status_of("register") == "pending"
    assert batches(run(job)) != []
    assert job.state.status == "completed"


def test_a_task_is_not_cleared_while_what_it_reads_runs_again() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h", after=["a"])
    job = OneJob(flow)
    job.submit()
    job.run()
    assert job.recover("clear", "a", only=True).applied
    refusal = job.plan("clear", "b")
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "a has not ended, and b needs its result"
    job.run()
    assert job.recover("clear", "b").applied
