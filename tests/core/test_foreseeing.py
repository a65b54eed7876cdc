"""Plans count the tasks that will run, say which numbers are unknown, and list nothing that does not run."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from holdfast.core.plans import Plan, Refusal
from holdfast.core.states import Rules
from holdfast.define.workflow import Workflow
from tests.core.one_job import Fails, OneJob
from tests.simulation.shapes import draw_definition

BAD = Fails("as scripted", permanent=True)


def planned(plan: Plan | Refusal) -> dict[str, int | None]:
    assert isinstance(plan, Plan), plan
    return {step.node: step.items for step in plan.reruns}


def reasons(plan: Plan | Refusal) -> dict[str, str]:
    assert isinstance(plan, Plan), plan
    return {step.node: step.reason for step in plan.steps}


def run(job: OneJob, *bad: Any, outputs: dict[str, Any] | None = None) -> list[str]:
    """Run the job to its end; returns the nodes of the tasks that ran."""
    ran = []

    def work(node: str, item: int, attempt: int, params: Any) -> Any:
        ran.append(node)
        return BAD if node in bad or (node, item) in bad else (outputs or {}).get(node, {"did": node})

    job.run(work)
    return ran


def two_fans() -> OneJob:
    """A list, a fan-out over it, a fan-in, a fan-out over its results, a fan-in with batches, a task."""
    flow = Workflow("w")
    flow.task("list", handler="h")
    flow.fan_out("one", source="{{ nodes.list.output.items }}", handler="h", after="list")
    flow.fan_in("gathered", after="one")
    flow.fan_out("two", source="{{ nodes.gathered.output.results }}", handler="h", after="gathered")
    flow.fan_in("all", after="two", batch={"handler": "h", "size": 2}, handler="h")
    flow.task("notify", handler="h", after="all")
    job = OneJob(flow)
    job.submit()
    return job


LISTED = {"list": {"items": list(range(10))}}


def test_the_width_of_a_fan_out_that_depends_on_a_rerun_is_unknown_invariant_22() -> None:
    job = two_fans()
    run(job, ("one", 2), ("one", 7), outputs=LISTED)
    plan = job.plan("resume")
    assert planned(plan) == {"one": 2, "gathered": 0, "two": None, "all": None, "notify": 1}
    assert isinstance(plan, Plan)
    assert plan.tasks == 3 and [str(step.unknown) for step in plan.unknown] == [
        "fan-out of unknown width", "fan-in of unknown width",
    ]  # fmt: skip
    job.recover("resume")
    assert len(run(job, outputs=LISTED)) == 2 + 10 + 5 + 1 + 1


def test_the_width_after_a_failed_inventory_is_unknown_invariant_22() -> None:
    job = two_fans()
    run(job, "list")
    assert planned(job.plan("resume")) == {
        "list": 1,
        "one": None,
        "gathered": 0,
        "two": None,
        "all": None,
        "notify": 1,
    }


def test_a_kept_source_fixes_the_width_of_its_fan_out_invariant_22() -> None:
    job = two_fans()
    run(job, "notify", outputs=LISTED)
    assert planned(job.plan("rerun", "one")) == {"one": 10, "gathered": 0, "two": None, "all": None, "notify": 1}
    assert planned(job.plan("rerun", "two")) == {"two": 10, "all": 6, "notify": 1}
    assert planned(job.plan("rerun", "all")) == {"all": 6, "notify": 1}
    assert planned(job.plan("rerun", "list"))["one"] is None


@pytest.mark.parametrize("width", [0, 3])
def test_the_width_of_a_fan_out_over_the_inputs_is_known_before_it_begins_invariant_22(width: int) -> None:
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.task("a", handler="h")
    flow.fan_out("each", source="{{ inputs['items'] }}", handler="h", after="a")
    flow.fan_in("all", after="each", batch={"handler": "h", "size": 2}, handler="h")
    job = OneJob(flow, {"items": list(range(width))})
    job.submit()
    run(job, "a")
    wanted = {"a": 1, "each": width, "all": -(-width // 2) + 1}
    assert planned(job.plan("resume")) == wanted
    job.recover("resume")
    assert len(run(job)) == sum(wanted.values())


def test_a_completed_fan_out_without_items_counts_no_tasks_invariant_22() -> None:
    job = two_fans()
    run(job, "notify", outputs={"list": {"items": []}})
    assert planned(job.plan("rerun", "one"))["one"] == 0
    assert planned(job.plan("rerun", "two")) == {"two": 0, "all": 1, "notify": 1}


def test_a_plan_leaves_out_nodes_after_one_that_stays_cancelled_invariant_22() -> None:
    """`x` fails at once while `s` runs; `q` comes after `s`, and `r` after `p` and `q`."""
    flow = Workflow("w")
    for name in ("x", "s", "p"):
        flow.task(name, handler="h")
    flow.task("q", handler="h", after="s")
    flow.task("r", handler="h", after=["p", "q"])
    flow.end("end", after="r")
    job = OneJob(flow)
    job.submit()
    job.done("p")
    job.claim("s")
    job.fail("x", permanent=True)
    job.done("s")
    assert job.state.status == "failed"
    plan = job.plan("rerun", "p")
    assert planned(plan) == {"p": 1}
    assert reasons(plan)["r"] == "q stays cancelled"
    assert job.recover("rerun", "p").applied
    assert run(job) == ["p"]


def test_a_plan_counts_the_branches_of_a_conditional_that_runs_again_as_unknown_invariant_22() -> None:
    flow = Workflow("w")
    flow.task("ask", handler="h")
    flow.conditional("which", condition="{{ nodes.ask.output.left }}", on_true="left", on_false="right", after=["ask"])
    flow.task("left", handler="h")
    flow.task("right", handler="h")
    flow.task("join", handler="h", after_any=["left", "right"])
    flow.task("beside", handler="h", after="ask")
    job = OneJob(flow)
    job.submit()
    run(job, outputs={"ask": {"left": True}})
    plan = job.plan("rerun", "ask")
    assert planned(plan) == {"ask": 1, "which": 0, "left": None, "right": None, "join": None, "beside": 1}
    assert isinstance(plan, Plan)
    assert {str(step.unknown) for step in plan.unknown} == {"node that a condition decides"}
    assert reasons(plan)["left"] == "decided when which has run"
    assert planned(job.plan("rerun", "left")) == {"left": 1, "join": 1}, "the other branch stays as it is"


@pytest.mark.parametrize(
    ("verb", "reason"), [("skip", "b is skipped"), ("set", "the result of b is given"), ("retry", "b runs again")]
)
def test_the_reason_of_each_step_names_its_direct_cause(verb: str, reason: str) -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h", after="a")
    flow.task("c", handler="h", after="b")
    flow.task("d", handler="h", after="c")
    job = OneJob(flow)
    job.submit()
    run(job, "b")
    reason_of = reasons(job.plan(verb, "b", **({"output": 1} if verb == "set" else {})))
    assert (reason_of["c"], reason_of["d"]) == (reason, "c runs again")


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_the_tasks_that_run_are_those_that_the_plan_counts_for_any_verb_and_any_job_invariant_22(first: int) -> None:
    """A plan assumes that each task succeeds, so here each does."""
    for seed in range(first, first + 60):
        chance = random.Random(seed)
        inputs = {"n": chance.randint(0, 10), "items": [{"deep": i} for i in range(chance.choice([0, 1, 3, 8]))]}
        job = OneJob(draw_definition(chance), inputs, Rules(chunk_size=3, window_size=2))
        job.submit()
        bad = [node for node in job.state.nodes if chance.random() < 0.2]
        some = [(node, item) for node in job.state.nodes for item in range(3) if chance.random() < 0.1]
        job.run(fail_or_cancel(job, chance, {*bad, *some}))
        for _ in range(3):
            verb = chance.choice(["resume", "retry", "rerun", "clear", "skip", "set"])
            node = None if verb == "resume" else chance.choice(list(job.state.nodes))
            more = {"items": (chance.randrange(3),)} if verb == "clear" and chance.random() < 0.7 else {}
            plan = job.plan(verb, node, **more)
            if isinstance(plan, Refusal):
                continue
            assert job.recover(verb, node, **more).applied
            job.now += 1
            ran = Counter(run(job))
            certain = {step.node: step.items for step in plan.reruns if step.items}
            unknown = {step.node for step in plan.unknown}
            counted = {name: number for name, number in ran.items() if name not in unknown}
            assert counted == certain, f"seed {seed}: {verb} {node} {more}: {plan}"


def fail_or_cancel(job: OneJob, chance: random.Random, bad: set[Any]) -> Any:
    """A handler: some tasks fail, and sometimes a person cancels in between."""
    cancel_at = chance.choice([None, None, chance.randrange(10)])
    ran = 0

    def work(node: str, item: int, attempt: int, params: Any) -> Any:
        nonlocal ran
        ran += 1
        job.now += 0.1
        if ran == cancel_at:
            job.claim(node, item)
            job.cancel()
        return BAD if node in bad or (node, item) in bad else {"did": node}

    return work


def test_a_plan_leaves_out_batches_after_a_fan_out_that_will_not_complete_invariant_22() -> None:
    flow = Workflow("w")
    flow.fan_out("each", source="{{ [0, 1, 2, 3] }}", handler="h", tolerate={"failures": 1})
    flow.fan_in("all", after="each", batch={"handler": "h", "size": 2}, handler="h")
    job = OneJob(flow)
    job.submit()
    run(job, ("each", 1))
    assert job.recover("clear", "each", items=(0, 2)).applied
    run(job, ("each", 0), ("each", 2))
    assert job.status_of("each") == "failed"
    plan = job.plan("clear", "each", items=(0,))
    assert planned(plan) == {"each": 1, "all": 0}
    assert reasons(plan)["all"] == "each runs again; each will not complete"
    assert job.recover("clear", "each", items=(0,)).applied
    assert run(job) == ["each"]
    assert job.recover("resume").applied
    run(job)
    assert job.state.status == "completed"


def test_a_result_whose_node_may_never_run_again_is_not_dropped() -> None:
    """Found by the simulation: the result was dropped, and after that the guard let its node run again."""
    flow = Workflow("w")
    flow.fan_out("each", source="{{ [0, 1] }}", handler="h")
    flow.task("send", handler="h", after="each", rerun={"safe": "never"})
    job = OneJob(flow)
    job.submit()
    run(job, "each")
    assert job.recover("set", "send", output=1).applied
    refusal = job.plan("clear", "each", items=(0,))
    assert isinstance(refusal, Refusal) and "may never run again" in refusal.reason


# Only the result is missing


def without_result() -> OneJob:
    flow = Workflow("w", result={"v": "{{ nodes.a.output.missing }}"})
    flow.task("a", handler="h")
    job = OneJob(flow)
    job.submit()
    job.done("a", output={"there": 1})
    return job


def test_a_resume_of_a_job_that_failed_in_its_result_runs_no_task_invariant_22() -> None:
    job = without_result()
    assert (job.state.status, job.status_of("a")) == ("failed", "completed")
    plan = job.plan("resume")
    assert planned(plan) == {}
    assert isinstance(plan, Plan) and plan.evaluates_result
    before = len(job.effects)
    assert job.recover("resume").applied
    assert (job.state.status, job.state.generation) == ("failed", 2)
    assert job.state.error is not None and "result" in job.state.error.message
    assert {type(effect).__name__ for effect in job.effects[before:]} == {"Emit", "AnswerSignal"}
    assert job.event_names()[-2:] == ["job_recovered", "job_failed"]


def test_only_a_resume_evaluates_the_result_again() -> None:
    job = without_result()
    for verb in ("retry", "skip"):
        assert isinstance(job.plan(verb, "a"), Refusal)


def test_a_resume_runs_missing_nodes_before_the_result_is_evaluated() -> None:
    flow = Workflow("w", result={"v": "{{ nodes.a.output.missing }}"})
    flow.task("a", handler="h")
    flow.task("b", handler="h", importance="important")
    job = OneJob(flow)
    job.submit()
    run(job, "b")
    plan = job.plan("resume")
    assert planned(plan) == {"b": 1}
    assert isinstance(plan, Plan) and not plan.evaluates_result


# What a retry runs too


def stopped(rules: Rules | None = None) -> OneJob:
    """`x` has failed and stopped the job: `s` was queued, `each` was under way, `q` and `r` had not begun."""
    flow = Workflow("w")
    flow.task("x", handler="h")
    flow.task("s", handler="h")
    flow.fan_out("each", source="{{ [1, 2, 3] }}", handler="h")
    flow.task("q", handler="h", after="s")
    flow.task("r", handler="h", after=["x", "q", "each"])
    job = OneJob(flow, rules=rules)
    job.submit()
    job.done("each", 0)
    job.fail("x", permanent=True)
    assert job.state.status == "failed"
    return job


def test_a_retry_also_runs_what_the_failure_of_its_node_had_stopped() -> None:
    job = stopped()
    plan = job.plan("retry", "x")
    assert planned(plan) == {"x": 1, "s": 1, "each": 2, "q": 1, "r": 1}
    assert reasons(plan)["s"] == "the failure of x had stopped it"
    assert job.recover("retry", "x").applied
    assert sorted(run(job)) == ["each", "each", "q", "r", "s", "x"]
    assert job.state.status == "completed"


def test_a_retry_with_only_leaves_what_the_failure_had_stopped() -> None:
    job = stopped()
    assert planned(job.plan("retry", "x", only=True)) == {"x": 1}
    assert job.recover("retry", "x", only=True).applied
    assert run(job) == ["x"]
    assert job.state.status == "failed", "the nodes that the stop had cancelled are still missing"


def test_a_retry_of_a_node_that_failed_later_leaves_what_an_earlier_failure_had_stopped() -> None:
    flow = Workflow("w")
    for name in ("x", "y", "s"):
        flow.task(name, handler="h")
    job = OneJob(flow)
    job.submit()
    job.claim("y")
    job.fail("x", permanent=True)
    job.now += 1
    job.fail("y", permanent=True)
    assert planned(job.plan("retry", "y")) == {"y": 1}
    assert planned(job.plan("retry", "x")) == {"x": 1, "s": 1}


# What a person cannot end


def test_a_branch_that_was_not_taken_can_neither_be_skipped_nor_set() -> None:
    flow = Workflow("w")
    flow.conditional("which", condition="1 > 2", on_true="left", on_false="right")
    flow.task("left", handler="h")
    flow.task("right", handler="h")
    job = OneJob(flow)
    job.submit()
    run(job, "right")
    for verb in ("skip", "set"):
        answer = job.recover(verb, "left")
        assert not answer.applied and "left is on a branch that was not taken" in answer.reason
    assert job.recover("skip", "right").applied
    answer = job.recover("skip", "right")
    assert not answer.applied and "right is skipped already" in answer.reason
