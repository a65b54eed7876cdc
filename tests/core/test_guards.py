"""Guards: completed tasks of a node may run again always, after a confirmation, within some hours, or never."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.plans import Plan, Refusal
from holdfast.define.workflow import Workflow
from tests.core.one_job import Fails, OneJob

BAD = Fails("as scripted", permanent=True)
HOUR = 3600.0
OVER = "what register has completed may run again for 24 hours, and these are over"


def pipeline(register: dict[str, Any] | None = None, stack: dict[str, Any] | None = None, **batched: Any) -> OneJob:
    """Stack five items, of which some may fail, register them, report."""
    flow = Workflow("floods")
    flow.fan_out(
        "stack", source="{{ [0, 1, 2, 3, 4] }}", handler="h", tolerate={"failures": 5}, rerun=stack
    )  # fmt: skip
    flow.fan_in("register", after="stack", handler="h", rerun=register, **batched)
    flow.task("notify", handler="h", after="register", importance="important")
    job = OneJob(flow)
    job.submit()
    return job


def run(job: OneJob, *bad: Any) -> list[tuple[str, int]]:
    ran: list[tuple[str, int]] = []

    def work(node: str, item: int, attempt: int, params: Any) -> Any:
        ran.append((node, item))
        return BAD if node in bad or (node, item) in bad else {}

    job.run(work)
    return ran


def refusal(plan: Plan | Refusal) -> tuple[str, str]:
    assert isinstance(plan, Refusal), plan
    return plan.reason, str(plan.remedy)


def asking(plan: Plan | Refusal) -> dict[str, tuple[bool, bool]]:
    assert isinstance(plan, Plan), plan
    return {step.node: (step.confirm, step.redone) for step in plan.reruns}


def test_completed_tasks_run_again_after_a_confirmation_unless_their_node_is_always_safe() -> None:
    job = pipeline(register={"safe": "always"})
    run(job)
    assert asking(job.plan("rerun", "stack")) == {
        "stack": (True, True),
        "register": (False, True),
        "notify": (True, True),
    }


def test_completed_tasks_may_run_again_within_their_hours_and_the_owner_checks_the_time_too() -> None:
    job = pipeline(register={"within_hours": 24})
    run(job)
    job.now += 24 * HOUR
    assert asking(job.plan("rerun", "register")) == {"register": (True, True), "notify": (True, True)}
    job.now += 1
    reason, remedy = refusal(job.plan("rerun", "register"))
    assert (reason, remedy) == (OVER, "Begin a new job with its inputs: holdfast submit floods --force")
    answer = job.recover("rerun", "register")
    assert (answer.applied, job.state.generation, job.state.status) == (False, 1, "completed")
    assert OVER in answer.reason


def test_failed_tasks_may_always_run_again() -> None:
    job = pipeline(register={"safe": "never"}, stack={"safe": "never"})
    run(job, ("stack", 3), "register")
    job.now += 1000 * HOUR
    assert job.recover("retry", "register").applied
    assert run(job) == [("register", -1), ("notify", -1)]


def test_a_rerun_that_reaches_a_guarded_node_is_refused_and_its_remedy_works() -> None:
    job = pipeline(register={"safe": "never"})
    run(job, ("stack", 3))
    reason, remedy = refusal(job.plan("resume"))
    assert reason == "what register has completed may never run again"
    assert remedy == "Leave register as it is: holdfast retry job stack --only"
    assert refusal(job.plan("retry", "stack"))[1] == "Leave register as it is, with the same command and --only."
    assert job.recover("retry", "stack", only=True).applied
    assert run(job) == [("stack", 3)]
    assert (job.status_of("register"), job.state.status) == ("completed", "completed")


def test_failed_items_may_run_again_although_their_whole_node_may_not() -> None:
    job = pipeline(stack={"within_hours": 1})
    run(job, ("stack", 3))
    job.now += 2 * HOUR
    reason, remedy = refusal(job.plan("rerun", "stack"))
    assert reason == "what stack has completed may run again for 1 hour, and these are over"
    assert remedy == "Run only what has not completed of it: holdfast retry job stack"
    assert job.recover("retry", "stack").applied
    assert run(job) == [("stack", 3), ("register", -1), ("notify", -1)]


def test_the_guard_looks_at_the_time_of_the_item_and_not_of_its_node() -> None:
    job = pipeline(stack={"within_hours": 1})
    run(job, ("stack", 3))
    job.now += 2 * HOUR
    job.recover("retry", "stack")
    run(job)
    job.now += HOUR / 2
    assert asking(job.plan("clear", "stack", items=(3,)))["stack"] == (True, True)
    assert "over" in refusal(job.plan("clear", "stack", items=(2,)))[0]
    assert "over" in refusal(job.plan("clear", "stack", items=(2, 3)))[0]
    assert "over" in refusal(job.plan("rerun", "stack"))[0]


def test_the_guard_looks_at_the_batches_that_would_run_again_and_at_the_last_task() -> None:
    job = pipeline(register={"within_hours": 1}, batch={"handler": "h", "size": 2})
    run(job, ("stack", 4), ("register", 1))
    job.now += 2 * HOUR
    assert asking(job.plan("retry", "register"))["register"] == (False, False)
    job.recover("retry", "register")
    assert run(job) == [("register", 1), ("register", -1), ("notify", -1)]
    job.now += HOUR / 2
    assert asking(job.plan("clear", "stack", items=(2,)))["register"] == (True, True), "its batch is half an hour old"
    assert "register" in refusal(job.plan("clear", "stack", items=(4,)))[0], "its batch is older"
    job.now += HOUR
    assert "register" in refusal(job.plan("clear", "stack", items=(2,)))[0]


def test_tasks_that_completed_before_a_person_set_the_result_stay_guarded() -> None:
    job = pipeline(register={"safe": "never"}, batch={"handler": "h", "size": 2})
    run(job, ("register", 1))
    assert job.recover("set", "register", output={}).applied
    run(job)
    reason, _ = refusal(job.plan("rerun", "register"))
    assert reason == "what register has completed may never run again"


def test_the_guard_looks_at_the_time_since_a_person_set_the_result() -> None:
    job = pipeline(register={"within_hours": 1}, batch={"handler": "h", "size": 2})
    run(job, ("register", 1))
    job.recover("set", "register", output={})
    run(job)
    job.now += HOUR / 2
    assert asking(job.plan("rerun", "register"))["register"] == (True, True)
    job.now += HOUR
    assert "over" in refusal(job.plan("rerun", "register"))[0]


@pytest.mark.parametrize("verb", ["skip", "set"])
def test_a_skip_or_a_set_does_not_run_a_guarded_node_again(verb: str) -> None:
    flow = Workflow("w")
    flow.task("split", handler="h", importance="important")
    flow.task("notify", handler="h", importance="important")
    flow.task("all", handler="h", after_any=["split", "notify"], rerun={"safe": "never"})
    job = OneJob(flow)
    run(job, "split")
    reason, remedy = refusal(job.plan(verb, "split"))
    assert reason == "what all has completed may never run again"
    assert remedy == "Begin a new job with its inputs: holdfast submit w --force"
