"""Corrections: with other inputs or another definition, what completed stays unless it would be done in another way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.effects import AnswerSignal
from holdfast.core.item_keys import keys_of, match_items
from holdfast.core.match_states import NEW
from holdfast.core.matching import same_params
from holdfast.core.plans import Action, Plan, Refusal
from holdfast.core.states import Rules
from holdfast.define.workflow import Workflow
from tests.core.one_job import Fails, OneJob

RULES = Rules(chunk_size=4, window_size=4, drain_seconds=600, grace_seconds=30)
BAD = Fails("as scripted", permanent=True)


def flow(
    *,
    limit: str = "{{ inputs.limit }}",
    handler: str = "h",
    title: str = "a",
    extra: bool = False,
    tolerate: int = 0,
    importance: str = "critical",
    item_key: str | None = None,
    without: str = "",
    retries: int = 3,
) -> Workflow:
    """Prepare, work on each item, gather, register, and a side step."""
    made = Workflow("w", inputs={"items": {"type": "array"}, "limit": {"type": "integer"}, "side": {"type": "any"}})
    made.task("prepare", handler="h", params={"title": title})
    made.fan_out(
        "each",
        source="{{ inputs['items'] }}",
        handler=handler,
        params={"n": "{{ item }}", "limit": limit},
        after=["prepare"],
        tolerate={"failures": tolerate},
        importance=importance,
        item_key=item_key,
        retry={"max_retries": retries, "initial_delay_seconds": 1},
    )
    made.fan_in("all", after="each")
    made.task("register", handler="h", params={"of": "{{ nodes.all.output.count }}"}, after=["all"])
    if without != "side":
        made.task("side", handler="h", params={"side": "{{ inputs.side }}"}, after=["prepare"])
    if extra:
        made.task("extra", handler="h", after=["register"])
    return made


class Work:
    """A handler that notes which tasks ran with which params, and fails for the nodes and items in `bad`."""

    def __init__(self, *bad: Any) -> None:
        self.bad = set(bad)
        self.ran: list[tuple[str, int]] = []

    def __call__(self, node: str, item: int, attempt: int, params: Any) -> Any:
        self.ran.append((node, item))
        is_bad = node in self.bad or (node, item) in self.bad
        return BAD if is_bad else {"did": [node, item], "params": params}


def ended(*bad: Any, items: list[Any] | None = None, rules: Rules = RULES, **shape: Any) -> OneJob:
    inputs = {"items": items if items is not None else [10, 11, 12, 13, 14, 15], "limit": 3, "side": 1}
    job = OneJob(flow(**shape), inputs, rules)
    job.run(Work(*bad))
    return job


def ran(job: OneJob, *bad: Any) -> list[tuple[str, int]]:
    work = Work(*bad)
    job.run(work)
    return sorted(work.ran)


def steps(plan: Plan | Refusal) -> dict[str, str]:
    assert isinstance(plan, Plan), plan
    return {step.node: f"{step.action} {step.items}" for step in plan.steps if step.action is not Action.KEEP}


def params_of(job: OneJob, node: str = "each") -> dict[int, Any]:
    return {item: task["params"] for (name, item), task in sorted(job.tasks.items()) if name == node}


def test_a_corrected_input_runs_only_what_reads_it_and_what_follows() -> None:
    job = ended()
    plan, _ = job.plan_correction(inputs={"side": 2}, stale="rerun")
    assert steps(plan) == {"side": "rerun 1"}
    assert job.correct(inputs={"side": 2}, stale="rerun").applied  # type: ignore[union-attr]
    assert ran(job) == [("side", -1)]
    assert job.state.status == "completed" and job.state.inputs["side"] == 2
    assert job.tasks[("side", -1)]["params"] == {"side": 2}


def test_completed_work_that_would_be_done_in_another_way_needs_a_choice() -> None:
    job = ended()
    refusal = job.correct(inputs={"side": 2})
    assert isinstance(refusal, Refusal) and "side" in refusal.reason and "--stale" in str(refusal.remedy)
    assert job.state.generation == 1 and job.state.inputs["side"] == 1


def test_stale_work_is_kept_if_the_person_says_so() -> None:
    job = ended()
    plan, _ = job.plan_correction(inputs={"side": 2}, stale="keep")
    assert steps(plan) == {"side": "stale 1"}
    assert isinstance(job.correct(inputs={"side": 2}, stale="keep"), AnswerSignal)
    assert job.state.status == "completed" and job.tasks[("side", -1)]["params"] == {"side": 1}


def test_a_failed_task_runs_again_with_the_corrected_params() -> None:
    job = ended("side")
    assert steps(job.plan_correction(inputs={"side": 5})[0])["side"] == "rerun 1"
    job.correct(inputs={"side": 5})
    assert ("side", -1) in ran(job) and job.tasks[("side", -1)]["params"] == {"side": 5}


def test_of_many_items_one_corrected_one_new_in_the_middle_and_one_gone_two_run() -> None:
    items = [{"id": n, "v": 0} for n in range(30)]
    job = ended(items=items, item_key="{{ item.id }}", rules=Rules(chunk_size=7, window_size=5))
    changed = [dict(one) for one in items if one["id"] != 20]
    changed[3]["v"] = 9
    changed.insert(10, {"id": 99, "v": 0})
    plan, _ = job.plan_correction(inputs={"items": changed}, stale="rerun")
    assert steps(plan) == {"each": "rerun 2", "all": "rerun 0", "register": "rerun 1"}
    before = {item: task["epoch"] for (name, item), task in job.tasks.items() if name == "each"}
    assert isinstance(job.correct(inputs={"items": changed}, stale="rerun"), AnswerSignal)
    assert ran(job) == [("each", 3), ("each", 30), ("register", -1)]
    after = {item: task["epoch"] for (name, item), task in job.tasks.items() if name == "each"}
    assert {item for item in before if after[item] != before[item]} == {3}
    assert job.tasks[("each", 20)]["gone"] == "completed" and job.node("each").items == 30
    assert job.node("all").output["count"] == 30 and "skipped" not in job.node("all").output
    assert job.state.status == "completed"


def test_the_number_of_an_item_is_its_index_wherever_it_stands() -> None:
    made = Workflow("w", inputs={"items": {"type": "array"}})
    made.fan_out("each", source="{{ inputs['items'] }}", handler="h", params={"n": "{{ item }}", "i": "{{ index }}"})
    job = OneJob(made, {"items": ["a", "b", "c"]}, RULES)
    job.run(Work())
    job.correct(inputs={"items": ["c", "x", "a", "b"]})
    assert ran(job) == [("each", 3)]
    assert params_of(job) == {n: {"n": text, "i": n} for n, text in enumerate("abcx")}


def test_an_item_that_comes_back_has_its_result_again() -> None:
    job = ended()
    job.correct(inputs={"items": [10, 11]}, stale="rerun")
    ran(job)
    assert job.node("each").items == 2 and job.node("all").output["count"] == 2
    job.correct(inputs={"items": [10, 15, 11]}, stale="rerun")
    assert ran(job) == [("register", -1)]
    assert job.tasks[("each", 5)]["status"] == "completed" and job.node("each").gone == 3


def test_equal_items_match_in_their_order() -> None:
    job = ended(items=[1, 1, 2])
    job.correct(inputs={"items": [1, 2, 1, 1]}, stale="rerun")
    assert [one for one in ran(job) if one[0] == "each"] == [("each", 3)]


def test_another_handler_makes_every_result_stale() -> None:
    job = ended()
    plan, _ = job.plan_correction(flow=flow(handler="other"), stale="rerun")
    assert steps(plan)["each"] == "rerun 6"
    kept, _ = job.plan_correction(flow=flow(handler="other"), stale="keep")
    assert steps(kept) == {"each": "stale 6"}


def test_retries_queues_and_texts_do_not_count() -> None:
    job = ended(("each", 2))
    plan, _ = job.plan_correction(flow=flow(retries=1))
    assert steps(plan) == {"each": "rerun 1", "all": "rerun 0", "register": "rerun 1", "side": "rerun 1"}


def test_a_new_node_runs_and_a_node_that_is_gone_counts_no_more() -> None:
    job = ended("side")
    plan, _ = job.plan_correction(flow=flow(extra=True, without="side"))
    assert steps(plan) == {"extra": "new 1", "side": "gone None"}
    job.correct(flow=flow(extra=True, without="side"))
    assert ran(job) == [("extra", -1)]
    assert job.state.status == "completed" and "side" not in job.state.nodes
    assert not [key for key in job.tasks if key[0] == "side"]


def test_a_node_that_comes_back_has_attempts_above_its_earlier_ones() -> None:
    job = ended()
    job.correct(flow=flow(without="side"))
    ran(job)
    job.state = job.load()
    job.correct(flow=flow())
    assert ran(job) == [("side", -1)]
    assert (job.tasks[("side", -1)]["epoch"], job.tasks[("side", -1)]["attempt"]) == (2, 2)


def test_a_higher_tolerance_completes_the_job_with_nothing_of_the_fan_out_run() -> None:
    job = ended(("each", 2))
    plan, _ = job.plan_correction(flow=flow(tolerate=1))
    assert steps(plan) == {"each": "rerun 0", "all": "rerun 0", "register": "rerun 1", "side": "rerun 1"}
    job.correct(flow=flow(tolerate=1))
    assert ran(job) == [("register", -1), ("side", -1)]
    assert job.state.status == "partial"


def test_a_lower_tolerance_runs_what_failed_again() -> None:
    job = ended(("each", 2), tolerate=1)
    assert steps(job.plan_correction(flow=flow())[0]) == {"each": "rerun 1", "all": "rerun 0", "register": "rerun 1"}
    job.correct(flow=flow())
    assert ("each", 2) in ran(job) and job.state.status == "completed"


def test_another_importance_alone_decides_the_job_again() -> None:
    job = ended(("each", 2), tolerate=1)
    assert job.state.status == "partial"
    job.correct(flow=flow(tolerate=1, importance="optional"))
    assert job.state.status == "completed" and job.node_rows["each"].importance == "optional"


def branching(condition: str = "{{ inputs.n }} > 5") -> Workflow:
    made = Workflow("w", inputs={"n": {"type": "integer"}, "items": {"type": "array"}})
    made.conditional("choose", condition=condition, on_true="high", on_false="low")
    made.task("high", handler="h")
    made.fan_out("low", source="{{ inputs['items'] }}", handler="h", params={"n": "{{ item }}"})
    made.task("join", handler="h", after_any=["high", "low"])
    return made


def test_a_branch_that_is_no_longer_taken_becomes_skipped() -> None:
    job = OneJob(branching(), {"n": 1, "items": [1, 2]}, RULES)
    job.run(Work())
    plan, _ = job.plan_correction(inputs={"n": 9}, stale="rerun")
    assert steps(plan) == {"choose": "rerun 0", "high": "rerun 1", "low": "rerun 0", "join": "rerun 1"}
    job.correct(inputs={"n": 9}, stale="rerun")
    assert ran(job) == [("high", -1), ("join", -1)]
    assert job.statuses() == {"choose": "completed", "high": "completed", "low": "skipped", "join": "completed"}
    assert not [key for key in job.tasks if key[0] == "low"]


def test_a_branch_that_turns_out_not_to_be_taken_any_more_leaves_no_tasks() -> None:
    made = Workflow("w", inputs={"n": {"type": "integer"}})
    made.task("look", handler="h", params={"n": "{{ inputs.n }}"})
    made.conditional(
        "choose", condition="{{ nodes.look.output.params.n }} > 5", on_true="high", on_false="low", after="look"
    )
    made.task("high", handler="h")
    made.fan_out("low", source="{{ [1, 2, 3] }}", handler="h", params={"v": "{{ item }}"})
    job = OneJob(made, {"n": 1}, RULES)
    job.run(Work())
    job.correct(inputs={"n": 9}, stale="rerun")
    assert ran(job) == [("high", -1), ("look", -1)]
    assert job.status_of("low") == "skipped" and not [key for key in job.tasks if key[0] == "low"]
    job.correct(inputs={"n": 1}, stale="rerun")
    assert ran(job) == [("look", -1), ("low", 0), ("low", 1), ("low", 2)]
    assert {task["epoch"] for (name, _), task in job.tasks.items() if name == "low"} == {2}


def test_where_the_source_runs_again_items_are_matched_after_that() -> None:
    made = Workflow("w", inputs={"n": {"type": "integer"}})
    made.task("list", handler="h", params={"n": "{{ inputs.n }}"})
    made.fan_out("each", source="{{ nodes.list.output.found }}", handler="h", params={"v": "{{ item }}"}, after="list")
    job = OneJob(made, {"n": 1}, RULES)

    def handler(node: str, item: int, attempt: int, params: Any) -> Any:
        seen.append((node, item))
        found = ["a", "b"] if params.get("n") == 1 else ["b", "c"]
        return {"found": found, "params": params}

    seen: list[tuple[str, int]] = []
    job.run(handler)
    plan, _ = job.plan_correction(inputs={"n": 2}, stale="rerun")
    assert steps(plan) == {"list": "rerun 1", "each": "rerun None"}
    assert "decided when list has run" in next(one.reason for one in plan.steps if one.node == "each")  # type: ignore[union-attr]
    seen.clear()
    job.correct(inputs={"n": 2}, stale="rerun")
    job.run(handler)
    assert seen == [("list", -1), ("each", 2)]
    assert job.tasks[("each", 0)]["gone"] == "completed"


def test_only_a_job_that_has_ended_can_be_corrected() -> None:
    job = OneJob(flow(), {"items": [1], "limit": 3, "side": 1}, RULES)
    job.submit()
    refusal = job.correct(inputs={"side": 2})
    assert isinstance(refusal, Refusal) and "only a job that has ended" in refusal.reason


def test_a_plan_of_an_earlier_state_is_refused_and_changes_nothing() -> None:
    job = ended(("each", 2))
    plan, asked = job.plan_correction(inputs={"side": 2}, stale="rerun")
    assert isinstance(plan, Plan)
    job.recover("resume")
    ran(job)
    job.send(asked)
    assert not job.answers[-1].applied and "changed since" in job.answers[-1].reason
    assert job.state.inputs["side"] == 1


def test_a_cancel_while_items_are_matched_keeps_what_was_kept() -> None:
    job = ended(items=list(range(20)), rules=Rules(chunk_size=3, window_size=2))
    job.correct(inputs={"items": [*range(5, 20), 30, 31]}, stale="rerun")
    job.continue_work()
    job.cancel()
    job.pass_time(60)
    assert job.state.status == "cancelled" and job.node("each").is_matching
    assert job.recover("resume").applied
    assert [one for one in ran(job) if one[0] == "each"] == [("each", 20), ("each", 21)]
    assert job.state.status == "completed" and job.node("each").items == 17


def test_a_cancel_while_items_get_another_handler_keeps_what_has_run_with_it() -> None:
    job = ended(items=list(range(12)), rules=Rules(chunk_size=3, window_size=2))
    job.correct(flow=flow(handler="other"), stale="rerun")
    work = Work()
    job.continue_work()
    job.run_attempt(work)
    before = {one for one in work.ran if one[0] == "each"}
    job.cancel()
    job.pass_time(60)
    assert job.state.status == "cancelled" and job.node("each").is_matching and before
    assert job.recover("resume").applied
    again = {one for one in ran(job) if one[0] == "each"}
    assert not before & again and before | again == {("each", item) for item in range(12)}
    assert job.state.status == "completed"


def test_another_correction_still_runs_the_handler_that_a_stopped_one_brought() -> None:
    job = ended(items=list(range(12)), rules=Rules(chunk_size=3, window_size=2))
    job.correct(flow=flow(handler="other"), stale="rerun")
    job.continue_work()
    job.cancel()
    job.pass_time(60)
    assert job.node("each").is_matching
    assert job.correct(inputs={"items": [*range(12), 99]}, stale="rerun").applied  # type: ignore[union-attr]
    assert {item for name, item in ran(job) if name == "each"} == set(range(13))


@pytest.mark.parametrize("verb", ["clear", "skip"])
def test_no_verb_names_a_fan_out_whose_items_are_being_matched(verb: str) -> None:
    job = ended(items=list(range(20)), rules=Rules(chunk_size=3, window_size=2))
    job.correct(inputs={"items": [*range(5, 20)]}, stale="rerun")
    plan = job.plan(verb, "each")
    assert isinstance(plan, Refusal) and "not all matched" in plan.reason


def test_an_owner_that_takes_over_in_the_middle_matches_the_rest() -> None:
    job = ended(items=list(range(12)), rules=Rules(chunk_size=2, window_size=2))
    job.correct(inputs={"items": [50, *range(3, 12), 51]}, stale="rerun")
    job.continue_work()
    job.state = job.load()
    assert [one for one in ran(job) if one[0] == "each"] == [("each", 12), ("each", 13)]
    assert job.node("each").gone == 3 and job.state.status == "completed"


def test_a_refused_item_is_a_failed_item_of_the_corrected_job() -> None:
    job = ended()
    changed = flow(limit="{{ inputs.limit / (item - 12) }}")
    job.correct(flow=changed, stale="rerun")
    ran(job)
    assert job.tasks[("each", 2)]["status"] == "failed" and job.node("each").failed == 1


@pytest.mark.parametrize("never", [True, False])
def test_what_may_never_run_again_blocks_a_correction_that_would_run_it(*, never: bool) -> None:
    made = Workflow("w", inputs={"n": {"type": "integer"}})
    made.task("pay", handler="h", params={"n": "{{ inputs.n }}"}, rerun={"safe": "never" if never else "always"})
    job = OneJob(made, {"n": 1}, RULES)
    job.run(Work())
    answer = job.correct(inputs={"n": 2}, stale="rerun")
    assert isinstance(answer, Refusal) is never
    assert not never or "--stale keep" in str(answer.remedy)


def test_a_correction_is_refused_with_all_reasons_at_once() -> None:
    made = Workflow("w", inputs={"n": {"type": "integer"}})
    made.task("pay", handler="h", params={"n": "{{ inputs.n }}"}, rerun={"safe": "never"})
    made.task("tell", handler="h", params={"n": "{{ inputs.n }}"})
    job = OneJob(made, {"n": 1}, RULES)
    job.run(Work())
    answer = job.correct(inputs={"n": 2})
    assert isinstance(answer, Refusal)
    assert "what pay has completed may never run again" in answer.reason
    assert "would be done in another way: pay, tell" in answer.reason


def test_items_are_known_by_their_value_or_by_their_key() -> None:
    assert keys_of(None, [{"a": 1, "b": 2}]) == keys_of(None, [{"b": 2, "a": 1}])
    assert keys_of(None, [1]) != keys_of(None, [1.0]) != keys_of(None, [True])
    assert match_items(["a", "b", "a"], [(4, "a"), (1, "a"), (2, "c")]) == ([1, NEW, 4], [2])


def test_params_are_compared_by_value_and_type() -> None:
    assert same_params(b'{"a": 1, "b": [2]}', b'{"b":[2],"a":1}')
    assert not same_params(b'{"a": 1}', b'{"a": true}')
    assert not same_params(None, b"{}")


def test_one_task_gets_other_params_and_keeps_them_through_a_correction() -> None:
    job = ended(("each", 2))
    plan = job.plan("clear", "each", items=(2,), params={"n": 99})
    assert steps(plan)["each"] == "rerun 1"
    assert job.recover("clear", "each", items=(2,), params={"n": 99}).applied
    ran(job)
    assert job.tasks[("each", 2)]["params"] == {"n": 99}
    assert job.event("job_recovered").data["corrected"] == ["params of each[2]"]  # type: ignore[index]
    job.correct(inputs={"limit": 4}, stale="rerun")
    assert ("each", 2) not in ran(job) and job.tasks[("each", 2)]["params"] == {"n": 99}


def test_an_item_whose_params_were_refused_runs_with_those_that_a_person_gives() -> None:
    job = ended(limit="{{ inputs.limit / (item - 12) }}")
    assert job.tasks[("each", 2)]["params"] is None
    assert job.recover("clear", "each", items=(2,), params={"n": 1}).applied
    assert ("each", 2) in ran(job)


@pytest.mark.parametrize(
    ("node", "more", "why"),
    [
        ("each", {}, "one task at a time"),
        ("each", {"items": (1, 2)}, "one task at a time"),
        ("each", {"items": (1,), "code": "X"}, "one task at a time"),
        ("prepare", {"items": (1,)}, "one task at a time"),
        ("each", {"items": (6,)}, "each has no item 6"),
        ("all", {}, "takes the results of other tasks"),
    ],
)
def test_params_are_given_to_one_task_with_a_handler(node: str, more: dict[str, Any], why: str) -> None:
    plan = ended().plan("clear", node, params={"n": 1}, **more)
    assert isinstance(plan, Refusal) and why in plan.reason


def test_params_for_an_item_that_a_failure_left_unmade_are_refused_with_a_verb_that_makes_it() -> None:
    """No row had them, and the item would have run with its own."""
    stopped = Workflow("w", inputs={"items": {"type": "array"}})
    stopped.fan_out(
        "each", source="{{ inputs['items'] }}", handler="h", on_item_failure="stop", params={"n": "{{ item }}"}
    )
    job = OneJob(stopped, {"items": list(range(8))}, replace(RULES, chunk_size=1, window_size=1))
    job.submit()
    job.fail("each", 0, permanent=True)
    assert str(job.state.status) == "failed" and job.node("each").expanded < 8
    plan = job.plan("clear", "each", items=(7,), params={"n": 1})
    assert isinstance(plan, Refusal) and plan.reason == "item 7 of each has no task yet"
    assert plan.remedy.verb == "resume"
    assert job.recover(plan.remedy.verb).applied


@pytest.mark.parametrize("bad", [(), (("each", 2),)])
def test_what_a_person_gave_a_task_stays_also_if_the_task_runs_again(bad: tuple[Any, ...]) -> None:
    job = ended(("each", 2))
    job.recover("clear", "each", items=(2,), params={"n": 99})
    ran(job, *bad)
    changed = flow(handler="other", limit="{{ inputs.limit + 1 }}")
    assert job.correct(flow=changed, stale="rerun").applied  # type: ignore[union-attr]
    assert ("each", 2) in ran(job, ("each", 2)) and job.tasks[("each", 2)]["params"] == {"n": 99}
    assert job.correct(inputs={"limit": 7}, stale="rerun").applied  # type: ignore[union-attr]
    assert ("each", 2) in ran(job) and job.tasks[("each", 2)]["params"] == {"n": 99}
    assert params_of(job)[1] == {"n": 11, "limit": 8}


@pytest.mark.parametrize("handler", ["h", "other"])
@pytest.mark.parametrize("is_bad", [True, False])
def test_what_a_person_gave_the_only_task_of_a_node_stays_also_if_the_task_runs_again(
    handler: str, *, is_bad: bool
) -> None:
    made = Workflow("w", inputs={"n": {"type": "integer"}})
    made.task("one", handler="h", params={"n": "{{ inputs.n }}"})
    job = OneJob(made, {"n": 1}, RULES)
    job.run(Work("one"))
    job.recover("clear", "one", params={"n": 99})
    ran(job, *(["one"] if is_bad else []))
    other = Workflow("w", inputs={"n": {"type": "integer"}})
    other.task("one", handler=handler, params={"n": "{{ inputs.n + 1 }}"})
    other.task("two", handler="h", after=["one"])
    assert job.correct(flow=other, stale="rerun").applied  # type: ignore[union-attr]
    is_again = is_bad or handler == "other"
    assert ran(job) == [*([("one", -1)] if is_again else []), ("two", -1)]
    assert job.tasks[("one", -1)]["params"] == {"n": 99}


def test_the_generation_is_a_label_and_makes_no_work_stale() -> None:
    made = Workflow("w", inputs={"items": {"type": "array"}})
    label = "{{ job.generation }}"
    made.fan_out("each", source="{{ inputs['items'] }}", handler="h", params={"n": "{{ item }}", "run": label})
    made.task("one", handler="h", params={"run": label})
    made.conditional("choose", condition="{{ job.generation > 1 }}", on_true="again", on_false="first")
    made.task("again", handler="h")
    made.task("first", handler="h", params={"run": "run " + label})
    job = OneJob(made, {"items": [1, 2, 3]}, RULES)
    job.run(Work())
    for new in (4, 5):
        plan, _ = job.plan_correction(inputs={"items": [*range(1, new + 1)]})
        assert steps(plan) == {"each": "rerun 1"}
        assert job.correct(inputs={"items": [*range(1, new + 1)]}).applied  # type: ignore[union-attr]
        assert ran(job) == [("each", new - 1)]
    assert [params_of(job)[item]["run"] for item in range(5)] == [1, 1, 1, 2, 3]


def test_a_fan_out_that_was_undone_says_so_no_more_once_a_correction_runs_it_again() -> None:
    made = Workflow("w", inputs={"items": {"type": "array"}})
    made.fan_out("each", source="{{ inputs['items'] }}", handler="h", params={"n": "{{ item }}"}, compensate="u")
    job = OneJob(made, {"items": [1, 2, 3]}, RULES)
    job.run(Work())
    job.recover("undo")
    ran(job)
    assert job.node("each").undo is not None
    assert job.correct(inputs={"items": [1, 2, 4]}, stale="rerun").applied  # type: ignore[union-attr]
    assert ran(job) == [("each", 0), ("each", 1), ("each", 3)] and job.node("each").undo is None
    assert job.recover("undo").applied
    assert ran(job) == [("each", 0), ("each", 1), ("each", 3)] and job.node("each").cancelled == 3


def paged(
    *,
    page: str = "p",
    size: int = 2,
    extra: int = 1,
    shape: str = "batches",
    compensate: str | None = None,
    tolerated: int = 1,
) -> Workflow:
    """A fan-out that tolerates a failed item, and what reads its results: in batches, at once, or as a plain task."""
    made = Workflow("w", inputs={"items": {"type": "array"}})
    if shape == "task":
        made.task("each", handler="h", params={"n": 1}, compensate=compensate)
        made.task("all", handler="h", after=["each"], compensate=compensate)
        return made
    params = {"n": "{{ item }}"}
    tolerant: dict[str, Any] = {
        "tolerate": {"failures": tolerated},
        "retry": {"max_retries": 0},
        "compensate": compensate,
    }
    made.fan_out("each", source="{{ inputs['items'] }}", handler="h", params=params, **tolerant)
    batch = {"handler": page, "size": size, "params": {"extra": extra}, "compensate": compensate}
    made.fan_in("all", after="each", handler="h", batch=batch if shape == "batches" else None, compensate=compensate)
    return made


@pytest.mark.parametrize("other", [{"page": "q"}, {"size": 3}, {"extra": 2}])
def test_batches_that_a_correction_changes_all_run_again_although_only_one_item_was_missing(
    other: dict[str, Any],
) -> None:
    job = OneJob(paged(), {"items": [1, 2, 3, 4, 5]}, RULES)
    job.run(Work(("each", 4)))
    assert job.correct("retry", "each", flow=paged(**other), stale="rerun").applied  # type: ignore[union-attr]
    batches = 2 if "size" in other else 3
    assert ran(job) == [("all", -1), *[("all", batch) for batch in range(batches)], ("each", 4)]
    params = params_of(job, "all")[0]
    assert (params["page"]["limit"], params["extra"]) == (other.get("size", 2), other.get("extra", 1))


def test_only_the_batch_of_a_missing_item_runs_again_if_a_correction_leaves_the_batches_as_they_are() -> None:
    job = OneJob(paged(), {"items": [1, 2, 3, 4, 5]}, RULES)
    job.run(Work(("each", 4)))
    changed = paged()
    changed.task("more", handler="h", after=["all"])
    assert job.correct("retry", "each", flow=changed).applied  # type: ignore[union-attr]
    assert ran(job) == [("all", -1), ("all", 2), ("each", 4), ("more", -1)]


SHAPES = [("task", "batches"), ("batches", "task"), ("batches", "plain"), ("plain", "batches")]


@pytest.mark.parametrize(("before", "now"), SHAPES)
def test_results_cannot_stay_stale_where_the_tasks_are_of_another_kind(before: str, now: str) -> None:
    job = OneJob(paged(shape=before, compensate="back"), {"items": [1, 2, 3]}, RULES)
    job.run(Work())
    refused = job.correct(flow=paged(shape=now, compensate="back"), stale="keep")
    assert isinstance(refused, Refusal) and "cannot stay" in refused.reason and "all" in refused.reason
    assert "--stale rerun" in str(refused.remedy)
    assert job.correct(flow=paged(shape=now, compensate="back"), stale="rerun").applied  # type: ignore[union-attr]
    done = ran(job)
    assert job.recover("undo").applied
    assert set(ran(job)) >= set(done) and job.state.error is not None and job.state.error.code == "UNDONE"


def test_a_skipped_fan_out_that_becomes_a_task_begins_from_its_start() -> None:
    job = OneJob(paged(compensate="back"), {"items": [1, 2, 3]}, RULES)
    job.run(Work(("each", 1), ("each", 2)))
    assert job.recover("skip", "each").applied
    job.run(Work())
    assert job.correct(flow=paged(shape="task", compensate="back"), stale="rerun").applied  # type: ignore[union-attr]
    assert ran(job) == [("all", -1), ("each", -1)]
    assert job.recover("undo").applied
    assert ran(job) == [("all", -1), ("each", -1)]


def test_of_a_corrected_fan_out_only_the_batches_run_again_that_read_what_has_changed() -> None:
    made = paged()
    job = OneJob(made, {"items": [1, 2, 3, 4, 5, 6]}, RULES)
    job.run(Work())
    job.correct(inputs={"items": [1, 2, 33, 5, 6]}, stale="rerun")
    assert [key for key in ran(job) if key[0] == "all"] == [("all", batch) for batch in range(-1, 4)], "one item is new"
    assert job.correct(inputs={"items": [2, 1, 5, 6]}, stale="rerun").applied  # type: ignore[union-attr]
    assert ran(job) == [("all", -1), ("all", 3)], "an item that is gone touches its batch, an order touches none"


def of_six(*bad: Any, tolerated: int = 6) -> OneJob:
    job = OneJob(paged(tolerated=tolerated), {"items": [1, 2, 3, 4, 5, 6]}, RULES)
    job.run(Work(*bad))
    return job


def batches(done: list[tuple[str, int]]) -> list[int]:
    return [number for name, number in done if name == "all" and number >= 0]


def test_the_batch_of_an_item_that_a_correction_completes_runs_again() -> None:
    job = of_six(("each", 1), ("each", 4))
    assert job.correct("retry", "each", inputs={"items": [1, 2, 3, 5, 6]}, stale="rerun").applied  # type: ignore[union-attr]
    assert batches(ran(job)) == [0, 1, 2], "items 1 and 4 had failed, and item 3 is gone"
    job = of_six(("each", 1))
    assert job.correct(inputs={"items": [1, 2, 3, 4, 5]}, stale="rerun").applied  # type: ignore[union-attr]
    assert batches(ran(job)) == [2], "a resume leaves alone what is tolerated"
    assert job.correct(inputs={"items": [1, 2, 3, 4, 5, 6]}, stale="rerun").applied  # type: ignore[union-attr]
    assert batches(ran(job)) == [2], "its item is back"


def test_a_correction_that_runs_a_fan_in_again_by_name_runs_all_its_batches() -> None:
    job = of_six()
    assert job.correct("rerun", "all", inputs={"items": [1, 2, 3, 4, 5]}, stale="rerun").applied  # type: ignore[union-attr]
    assert batches(ran(job)) == [0, 1, 2]


def test_another_output_of_some_items_runs_only_their_batches_again() -> None:
    made = Workflow("w", inputs={"items": {"type": "array"}})
    made.fan_out(
        "each", source="{{ inputs['items'] }}", handler="h", params={"v": "{{ item.v }}"}, item_key="{{ item.id }}"
    )
    made.fan_in("all", after="each", handler="h", batch={"handler": "p", "size": 2})
    job = OneJob(made, {"items": [{"id": n, "v": 0} for n in range(6)]}, RULES)
    job.run(Work())
    changed = [{"id": n, "v": int(n == 3)} for n in range(6)]
    kept, _ = job.plan_correction(inputs={"items": changed}, stale="keep")
    assert steps(kept) == {"each": "stale 6"}, "the batch stays with the result that it has read"
    assert job.correct(inputs={"items": changed}, stale="rerun").applied  # type: ignore[union-attr]
    assert ran(job) == [("all", -1), ("all", 1), ("each", 3)]
