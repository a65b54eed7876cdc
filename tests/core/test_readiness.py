"""When a node may run: every row of the table that says how dependents see a node, and the rules (invariant 6)."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any

import pytest

from holdfast.core.readiness import SKIPPED_BY_PERSON, Verdict, View, decide, view
from holdfast.core.states import TERMINAL, JobState, NodeState, Status
from holdfast.define.definition import Definition
from holdfast.define.node import Branch, Importance, Node, NodeType, TaskSpec
from holdfast.define.program import Program, compile_definition
from holdfast.define.workflow import Workflow
from tests.core.one_job import Fails, OneJob

# How a dependency may end: its status, reason and importance, and how its dependents see it.
ENDS: dict[str, tuple[Status, str | None, Importance, View]] = {
    "completed": (Status.COMPLETED, None, Importance.CRITICAL, View.OK),
    "completed important": (Status.COMPLETED, None, Importance.IMPORTANT, View.OK),
    "completed optional": (Status.COMPLETED, None, Importance.OPTIONAL, View.OK),
    "skipped by a person": (Status.SKIPPED, SKIPPED_BY_PERSON, Importance.CRITICAL, View.OK),
    "optional skipped by a person": (Status.SKIPPED, SKIPPED_BY_PERSON, Importance.OPTIONAL, View.OK),
    "optional failed": (Status.FAILED, None, Importance.OPTIONAL, View.OK),
    "branch not taken": (Status.SKIPPED, "branch_not_taken", Importance.CRITICAL, View.ABSENT),
    "optional branch not taken": (Status.SKIPPED, "branch_not_taken", Importance.OPTIONAL, View.ABSENT),
    "critical failed": (Status.FAILED, None, Importance.CRITICAL, View.BAD),
    "important failed": (Status.FAILED, None, Importance.IMPORTANT, View.BAD),
    "upstream failed": (Status.CANCELLED, "upstream_failed", Importance.CRITICAL, View.BAD),
    "optional upstream failed": (Status.CANCELLED, "upstream_failed", Importance.OPTIONAL, View.BAD),
    "job stopped": (Status.CANCELLED, "job_stopped", Importance.IMPORTANT, View.BAD),
    "cancelled by a person": (Status.CANCELLED, "by_person", Importance.CRITICAL, View.BAD),
    "optional cancelled by a person": (Status.CANCELLED, "by_person", Importance.OPTIONAL, View.BAD),
}
CONTENT = {
    "completed", "completed important", "completed optional", "skipped by a person", "optional skipped by a person",
    "optional failed",
}  # fmt: skip


@lru_cache
def program(
    importances: tuple[tuple[str, Importance], ...], all_of: tuple[str, ...], any_of: tuple[str, ...]
) -> Program:
    nodes = [Node(name, importance=importance, task=TaskSpec("h")) for name, importance in importances]
    nodes.append(Node("n", all_of=all_of, any_of=any_of, task=TaskSpec("h")))
    return compile_definition(Definition("w", nodes=tuple(nodes)))


def waiting(all_of: dict[str, str], any_of: dict[str, str]) -> JobState:
    """A job with one pending node `n`, whose dependencies have ended in these ways."""
    ends = {**all_of, **any_of}
    importances = tuple((name, ENDS[end][2]) for name, end in ends.items())
    state = JobState("job", program(importances, tuple(all_of), tuple(any_of)), {}, 0.0)
    for name, end in ends.items():
        state.nodes[name] = NodeState(name, ENDS[end][0], ENDS[end][1])
    return state


def expected_all_of(ends: tuple[str, ...]) -> Verdict:
    seen = [ENDS[end][3] for end in ends]
    if any(one is View.BAD for one in seen):
        return Verdict.CANCELLED
    return Verdict.READY if any(one is View.OK for one in seen) else Verdict.SKIPPED


def expected_any_of(ends: tuple[str, ...]) -> Verdict:
    if any(end in CONTENT for end in ends):
        return Verdict.READY
    return Verdict.SKIPPED if all(ENDS[end][3] is View.ABSENT for end in ends) else Verdict.CANCELLED


@pytest.mark.parametrize("end", ENDS)
def test_dependents_see_a_finished_node_as_the_table_says_invariant_6(end: str) -> None:
    assert view(waiting({"a": end}, {}), "a", "n") is ENDS[end][3]


@pytest.mark.parametrize("end", ENDS)
def test_a_chain_follows_its_one_dependency(end: str) -> None:
    assert decide(waiting({"a": end}, {}), "n") is expected_all_of((end,))


@pytest.mark.parametrize("count", [2, 3])
def test_all_of_runs_without_bad_ones_if_one_is_ok_invariant_6(count: int) -> None:
    for ends in product(ENDS, repeat=count):
        state = waiting({f"s{i}": end for i, end in enumerate(ends)}, {})
        assert decide(state, "n") is expected_all_of(ends), ends


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_of_runs_if_one_is_ok_even_beside_bad_ones_invariant_6(count: int) -> None:
    for ends in product(ENDS, repeat=count):
        state = waiting({}, {f"s{i}": end for i, end in enumerate(ends)})
        assert decide(state, "n") is expected_any_of(ends), ends


def test_all_of_and_any_of_must_both_hold_invariant_6() -> None:
    order = [Verdict.READY, Verdict.SKIPPED, Verdict.CANCELLED]
    for one, two, three in product(ENDS, repeat=3):
        state = waiting({"a": one}, {"b": two, "c": three})
        wanted = max(expected_all_of((one,)), expected_any_of((two, three)), key=order.index)
        assert decide(state, "n") is wanted, (one, two, three)


def test_an_optional_failure_alone_satisfies_any_of() -> None:
    assert decide(waiting({}, {"a": "optional failed"}), "n") is Verdict.READY
    assert decide(waiting({}, {"a": "optional failed", "b": "important failed"}), "n") is Verdict.READY


@pytest.mark.parametrize("status", [s for s in Status if s not in TERMINAL])
@pytest.mark.parametrize("kind", ["alone", "all_of", "any_of", "both"])
def test_nothing_is_decided_while_a_dependency_is_open_invariant_6(status: Status, kind: str) -> None:
    state = {
        "alone": waiting({"a": "completed"}, {}),
        "all_of": waiting({"a": "completed", "b": "critical failed"}, {}),
        "any_of": waiting({}, {"a": "completed", "b": "completed"}),
        "both": waiting({"a": "completed"}, {"b": "completed"}),
    }[kind]
    state.nodes["a"].status = status
    assert decide(state, "n") is None


def test_a_node_without_dependencies_is_ready() -> None:
    assert decide(waiting({}, {}), "n") is Verdict.READY


# Conditionals


def conditional(taken: tuple[str, ...], **target: Any) -> JobState:
    spec = TaskSpec("h")
    nodes = (
        Node("c", NodeType.CONDITIONAL, branches=(Branch(("x",), "1 > 0"), Branch(("y",)))),
        Node("x", task=spec),
        Node("y", task=spec),
        Node("beside", task=spec, **(target or {"all_of": ("c",)})),
    )
    state = JobState("job", compile_definition(Definition("w", nodes=nodes)), {}, 0.0)
    state.nodes["c"] = NodeState("c", Status.COMPLETED, taken=taken)
    return state


def test_the_branch_taken_is_ready_and_the_other_is_skipped() -> None:
    state = conditional(("x",))
    assert decide(state, "x") is Verdict.READY
    assert decide(state, "y") is Verdict.SKIPPED


def test_a_node_that_waits_for_a_conditional_without_being_its_branch_runs_either_way() -> None:
    assert decide(conditional(("x",)), "beside") is Verdict.READY
    assert decide(conditional(("y",)), "beside") is Verdict.READY
    assert decide(conditional(("y",), any_of=("c",)), "beside") is Verdict.READY


def test_an_edge_not_taken_is_absent_even_if_the_target_waits_for_the_conditional_by_any_of() -> None:
    spec = TaskSpec("h")
    nodes = (
        Node("c", NodeType.CONDITIONAL, branches=(Branch(("x",), "1 > 0"), Branch(("y",)))),
        Node("a", task=spec),
        Node("x", task=spec),
        Node("y", task=spec, any_of=("c", "a")),
    )
    state = JobState("job", compile_definition(Definition("w", nodes=nodes)), {}, 0.0)
    state.nodes["c"] = NodeState("c", Status.COMPLETED, taken=("x",))
    state.nodes["a"] = NodeState("a", Status.SKIPPED, "branch_not_taken")
    assert decide(state, "y") is Verdict.SKIPPED
    state.nodes["a"] = NodeState("a", Status.COMPLETED)
    assert decide(state, "y") is Verdict.READY
    state.nodes["a"] = NodeState("a", Status.FAILED)
    assert decide(state, "y") is Verdict.CANCELLED


# Whole workflows


def diamond(**of: dict[str, Any]) -> Workflow:
    flow = Workflow("w")
    flow.task("top", handler="h", **of.get("top", {}))
    flow.task("left", handler="h", after="top", **of.get("left", {}))
    flow.task("right", handler="h", after="top", **of.get("right", {}))
    flow.task("join", handler="h", **of.get("join", {"after": ["left", "right"]}))
    return flow


def failing(*names: str) -> Any:
    return lambda node, item, attempt, params: Fails(permanent=True) if node in names else {"from": node}


def test_the_join_of_a_diamond_runs_once_after_both_sides() -> None:
    job = OneJob(diamond())
    job.submit()
    job.done("top")
    job.done("left")
    assert job.status_of("join") == "pending"
    job.done("right")
    assert job.status_of("join") == "dispatched"
    job.done("join")
    assert job.events_of("join") == ["node_ready", "node_dispatched", "node_completed"]


def test_a_join_over_an_optional_failure_runs_and_sees_null() -> None:
    flow = diamond(
        left={"importance": "optional"},
        join={
            "after": ["left", "right"],
            "params": {"left": "{{ nodes.left.output }}", "r": "{{ nodes.right.output }}"},
        },
    )
    job = OneJob(flow).run(failing("left"))
    assert job.tasks[("join", -1)]["params"] == {"left": None, "r": {"from": "right"}}
    assert job.statuses()["left"] == "failed"
    assert job.state.status == "completed"


def test_a_join_over_an_important_failure_is_cancelled_as_upstream_failed() -> None:
    job = OneJob(
        diamond(left={"importance": "important"}, join={"after": ["left", "right"], "importance": "important"})
    )
    job.run(failing("left"))
    assert job.statuses() == {"top": "completed", "left": "failed", "right": "completed", "join": "cancelled"}
    assert job.node("join").reason == "upstream_failed"
    assert job.state.status == "partial"


def test_any_of_waits_for_the_last_and_runs_beside_a_bad_one() -> None:
    flow = diamond(left={"importance": "important"}, join={"after_any": ["left", "right"]})
    job = OneJob(flow)
    job.submit()
    job.done("top")
    job.fail("left", permanent=True)
    assert job.status_of("join") == "pending"
    job.done("right")
    assert job.status_of("join") == "dispatched"


def branches(join: dict[str, Any]) -> Workflow:
    flow = Workflow("w", inputs={"n": {"type": "integer"}})
    flow.conditional("choose", condition="{{ inputs.n }} > 5", on_true="high", on_false="low")
    flow.task("low", handler="h")
    flow.task("high", handler="h")
    flow.task("higher", handler="h", after="high")
    flow.task("join", handler="h", **join)
    return flow


@pytest.mark.parametrize("join", [{"after": ["low", "higher"]}, {"after_any": ["low", "higher"]}])
@pytest.mark.parametrize(("n", "skipped"), [(9, {"low"}), (1, {"high", "higher"})])
def test_a_join_after_a_skipped_branch_runs_with_the_one_that_was_taken(
    join: dict[str, Any], n: int, skipped: set[str]
) -> None:
    job = OneJob(branches(join), {"n": n}).run()
    assert {name for name, status in job.statuses().items() if status == "skipped"} == skipped
    assert all(job.node(name).reason == "branch_not_taken" for name in skipped)
    assert job.status_of("join") == "completed"
    assert job.state.status == "completed"


def test_a_node_is_skipped_if_all_its_dependencies_are_skipped() -> None:
    flow = branches({"after": ["higher"]})
    job = OneJob(flow, {"n": 1}).run()
    assert job.statuses() == {
        "choose": "completed", "low": "completed", "high": "skipped", "higher": "skipped", "join": "skipped"
    }  # fmt: skip
    assert job.state.status == "completed"
    assert not [key for key in job.tasks if key[0] != "low"]


def test_a_next_into_a_node_whose_depends_on_does_not_name_it_joins_its_all_of() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h", next="c")
    flow.task("b", handler="h")
    flow.task("c", handler="h", after_any="b")
    job = OneJob(flow)
    job.submit()
    job.done("b")
    assert job.status_of("c") == "pending"
    job.done("a")
    assert job.status_of("c") == "dispatched"
