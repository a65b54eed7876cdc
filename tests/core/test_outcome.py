"""The status and the result of a job: pure functions of its nodes, compared with the rule written a second time."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any

import pytest

from holdfast.core.failing import failure
from holdfast.core.outcome import default_result, first_error, job_status
from holdfast.core.readiness import SKIPPED_BY_PERSON
from holdfast.core.states import JobState, NodeState, Status, Stop, StopCause
from holdfast.define.definition import Definition
from holdfast.define.node import Importance, Node, NodeType, TaskSpec
from holdfast.define.program import Program, compile_definition
from holdfast.define.workflow import Workflow
from tests.core.one_job import Fails, OneJob

# How a node may have ended: status, reason, failed items, skipped items.
ENDS: list[tuple[Status, str | None, int, int]] = [
    (Status.COMPLETED, None, 0, 0),
    (Status.COMPLETED, None, 1, 0),
    (Status.COMPLETED, None, 0, 1),
    (Status.FAILED, None, 0, 0),
    (Status.FAILED, None, 2, 0),
    (Status.SKIPPED, "branch_not_taken", 0, 0),
    (Status.SKIPPED, SKIPPED_BY_PERSON, 0, 0),
    (Status.CANCELLED, "upstream_failed", 0, 0),
    (Status.CANCELLED, "job_stopped", 0, 0),
    (Status.CANCELLED, "job_cancelled", 0, 0),
    (Status.FAILED, "job_cancelled", 1, 0),
]
One = tuple[Importance, tuple[Status, str | None, int, int]]


@lru_cache
def program(importances: tuple[Importance, ...]) -> Program:
    nodes = [Node(f"n{i}", importance=one, task=TaskSpec("h")) for i, one in enumerate(importances)]
    nodes = [Node("start", NodeType.START), *nodes, Node("end", NodeType.END)]
    return compile_definition(Definition("w", nodes=tuple(nodes)))


def ended(*nodes: One, stop: StopCause | None = None) -> JobState:
    state = JobState("job", program(tuple(importance for importance, _ in nodes)), {}, 0.0)
    for i, (_, (status, reason, failed, skipped)) in enumerate(nodes):
        state.nodes[f"n{i}"] = NodeState(f"n{i}", status, reason, failed=failed, skipped=skipped)
    state.nodes["start"].status = state.nodes["end"].status = Status.COMPLETED
    state.stop = Stop(stop, 0.0) if stop else None
    return state


def expected(nodes: tuple[One, ...]) -> str:
    """The rule of the documentation, written a second time as sentences over sets."""
    bad = {importance.value for importance, (status, *_) in nodes if status.value in {"failed", "cancelled"}}
    missing = {
        importance.value
        for importance, (status, reason, failed, skipped) in nodes
        if failed + skipped > 0 or (status.value == "skipped" and reason == "by_person")
    }
    if any(reason == "job_cancelled" for _, (_, reason, *_) in nodes):
        return "cancelled"
    if "critical" in bad:
        return "failed"
    if "important" in bad or missing & {"critical", "important"}:
        return "partial"
    return "completed"


EVERY_NODE = list(product(Importance, ENDS))


@pytest.mark.parametrize("count", [1, 2])
def test_the_status_follows_the_rule_for_every_mix_of_nodes_invariant_13(count: int) -> None:
    for nodes in product(EVERY_NODE, repeat=count):
        assert job_status(ended(*nodes)) == expected(nodes), nodes


def test_the_status_follows_the_rule_for_every_mix_of_three_nodes_invariant_13() -> None:
    fewer = [(i, e) for i, e in EVERY_NODE if e in (ENDS[0], ENDS[1], ENDS[3], ENDS[5], ENDS[6], ENDS[7])]
    for nodes in product(fewer, repeat=3):
        assert job_status(ended(*nodes)) == expected(nodes), nodes


@pytest.mark.parametrize("cause", [None, *StopCause])
def test_the_cause_of_a_stop_does_not_change_the_status_invariant_13(cause: StopCause | None) -> None:
    for node in EVERY_NODE:
        assert job_status(ended(node, stop=cause)) == expected((node,))


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED, Status.SKIPPED])
def test_start_and_end_never_count(status: Status) -> None:
    state = ended((Importance.CRITICAL, ENDS[0]))
    state.nodes["start"].status = state.nodes["end"].status = status
    assert job_status(state) == "completed"


def test_tolerated_failed_items_of_an_optional_node_leave_the_job_completed() -> None:
    assert job_status(ended((Importance.OPTIONAL, ENDS[1]), (Importance.CRITICAL, ENDS[0]))) == "completed"
    assert job_status(ended((Importance.IMPORTANT, ENDS[1]), (Importance.CRITICAL, ENDS[0]))) == "partial"


@pytest.mark.parametrize(("counts_as", "status"), [("partial", "partial"), ("completed", "completed")])
def test_the_workflow_says_what_tolerated_failures_make_of_the_job(counts_as: str, status: str) -> None:
    flow = Workflow("w")
    flow.fan_out(
        "each", source="{{ [0, 1, 2] }}", handler="h", tolerate={"failures": 1, "counts_as": counts_as}
    )  # fmt: skip
    job = OneJob(flow)
    job.submit()
    job.run(lambda node, item, attempt, params: Fails("bad", permanent=True) if item == 1 else {})
    assert (job.state.status, job.node("each").failed) == (status, 1)


def test_items_that_a_person_skipped_are_missing_whatever_the_tolerance() -> None:
    flow = Workflow("w")
    flow.fan_out(
        "each", source="{{ [0, 1] }}", handler="h", tolerate={"failures": 1, "counts_as": "completed"}
    )  # fmt: skip
    job = OneJob(flow)
    job.submit()
    assert job.recover("skip", "each").applied
    assert job.state.status == "partial"


@pytest.mark.parametrize(
    ("importance", "status"), [("critical", "failed"), ("important", "partial"), ("optional", "completed")]
)
def test_the_timeout_fails_what_is_open_and_then_the_rule_names_the_job(importance: str, status: str) -> None:
    flow = Workflow("w", timeout_seconds=10)
    flow.task("done", handler="h")
    flow.task("open", handler="h", importance=importance)
    job = OneJob(flow)
    job.submit()
    job.done("done")
    job.pass_time(11)
    assert (job.statuses()["open"], job.state.status) == ("failed", status)


# The error of the job


def failed_at(state: JobState, name: str, moment: float, status: Status = Status.FAILED) -> None:
    node = state.nodes[name]
    node.status, node.finished_at, node.error = status, moment, failure(name, "", permanent=True, at=moment)


def first_code(state: JobState) -> str | None:
    error = first_error(state)
    return error.code if error is not None else None


def test_the_first_error_is_the_earliest_of_the_most_important() -> None:
    state = ended(*((importance, ENDS[0]) for importance in (*Importance, *Importance)))
    names = {importance: [f"n{i}", f"n{i + 3}"] for i, importance in enumerate(Importance)}
    assert first_error(state) is None
    failed_at(state, names[Importance.OPTIONAL][0], 1.0)
    assert first_code(state) == names[Importance.OPTIONAL][0]
    failed_at(state, names[Importance.IMPORTANT][0], 9.0)
    assert first_code(state) == names[Importance.IMPORTANT][0]
    failed_at(state, names[Importance.IMPORTANT][1], 5.0)
    assert first_code(state) == names[Importance.IMPORTANT][1]
    failed_at(state, names[Importance.CRITICAL][1], 8.0)
    assert first_code(state) == names[Importance.CRITICAL][1]
    failed_at(state, names[Importance.CRITICAL][0], 7.0)
    assert first_code(state) == names[Importance.CRITICAL][0]


def test_the_error_of_a_failed_node_comes_before_that_of_a_cancelled_one() -> None:
    state = ended((Importance.CRITICAL, ENDS[0]), (Importance.CRITICAL, ENDS[0]))
    failed_at(state, "n0", 1.0, Status.CANCELLED)
    failed_at(state, "n1", 2.0)
    assert first_code(state) == "n1"


def test_of_two_failures_at_the_same_moment_the_first_in_the_graph_counts() -> None:
    state = ended((Importance.CRITICAL, ENDS[0]), (Importance.CRITICAL, ENDS[0]))
    failed_at(state, "n1", 2.0)
    failed_at(state, "n0", 2.0)
    assert first_code(state) == "n0"


def test_a_failed_job_carries_the_error_of_the_node_that_stopped_it() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h", after="a")
    job = OneJob(flow).run(lambda *_: Fails("no disk", permanent=True, code="DISK"))
    assert job.state.status == "failed"
    assert job.state.error is not None
    assert (job.state.error.code, job.state.error.node) == ("DISK", "a")
    assert job.event("job_failed").data == {"code": "DISK", "message": "no disk"}


def test_a_completed_job_has_no_error_even_if_an_optional_node_failed() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h", importance="optional")
    flow.task("b", handler="h")
    job = OneJob(flow).run(lambda node, *_: Fails(permanent=True) if node == "a" else None)
    assert job.state.status == "completed"
    assert job.state.error is None
    assert job.event("job_completed").data is None


# The result


def outputs(node: str, item: int, attempt: int, params: Any) -> Any:
    return {"of": node}


def test_without_result_the_output_of_the_one_last_node_is_the_result() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h", after="a", next="end")
    flow.end()
    assert OneJob(flow).run(outputs).state.result == {"of": "b"}


def test_without_an_end_the_output_of_the_node_without_dependents_is_the_result() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h", after="a")
    assert OneJob(flow).run(outputs).state.result == {"of": "b"}


def test_the_result_of_several_last_nodes_is_an_object_by_name() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h", next="end")
    flow.task("b", handler="h", next="end")
    flow.task("c", handler="h")
    flow.end()
    result = OneJob(flow).run(outputs).state.result
    assert result == {"a": {"of": "a"}, "b": {"of": "b"}, "c": {"of": "c"}}


def conditional_end() -> Workflow:
    flow = Workflow("w", inputs={"n": {"type": "integer"}})
    flow.task("first", handler="h")
    flow.conditional("choose", condition="{{ inputs.n }} > 5", on_true="high", on_false="end", after="first")
    flow.task("high", handler="h", next="end")
    flow.end()
    return flow


def test_a_conditional_before_the_end_adds_nothing_to_the_result() -> None:
    assert OneJob(conditional_end(), {"n": 9}).run(outputs).state.result == {"of": "high"}
    job = OneJob(conditional_end(), {"n": 1}).run(outputs)
    assert job.state.result is None
    assert job.status_of("high") == "skipped"
    assert job.state.status == "completed"


def test_a_result_template_sees_all_nodes() -> None:
    flow = Workflow(
        "w",
        inputs={"n": {"type": "integer"}},
        result={
            "n": "{{ inputs.n }}",
            "a": "{{ nodes.a.output.of }}",
            "gone": "{{ nodes.b.output }}",
            "fixed": [1, None],
        },
    )
    flow.task("a", handler="h")
    flow.task("b", handler="h", importance="optional")
    job = OneJob(flow, {"n": 3}).run(lambda node, *rest: Fails(permanent=True) if node == "b" else outputs(node, *rest))
    assert job.state.result == {"n": 3, "a": "a", "gone": None, "fixed": [1, None]}


def test_a_result_of_null_is_a_result_and_not_the_default() -> None:
    flow = Workflow("w", result=None)
    flow.task("a", handler="h")
    assert OneJob(flow).run(outputs).state.result is None


def test_a_result_that_cannot_be_rendered_fails_the_job_permanently() -> None:
    flow = Workflow("w", result="{{ nodes.a.output.missing.deeper }}")
    flow.task("a", handler="h")
    job = OneJob(flow).run(outputs)
    assert job.state.status == "failed"
    assert job.state.error is not None
    assert job.state.error.code == "TEMPLATE_ERROR"
    assert job.state.error.failure_class == "permanent"
    assert "missing" in job.state.error.message
    assert job.status_of("a") == "completed"


def test_the_result_of_a_partial_job_has_the_outputs_that_exist() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h", importance="important")
    flow.task("b", handler="h")
    job = OneJob(flow).run(lambda node, *rest: Fails(permanent=True) if node == "a" else outputs(node, *rest))
    assert job.state.status == "partial"
    assert job.state.result == {"of": "b"}
    assert job.state.error is not None
    assert job.state.error.node == "a"


@pytest.mark.parametrize("cause", ["failed", "cancelled"])
def test_a_job_that_did_not_succeed_has_no_result(cause: str) -> None:
    flow = Workflow("w", result="always")
    flow.task("a", handler="h")
    job = OneJob(flow)
    job.submit()
    job.cancel() if cause == "cancelled" else job.fail("a", permanent=True)
    assert job.state.status == cause
    assert job.state.result is None


def test_the_default_result_leaves_out_what_did_not_complete() -> None:
    state = ended((Importance.CRITICAL, ENDS[0]), (Importance.OPTIONAL, ENDS[3]))
    state.nodes["n0"].output, state.nodes["n1"].output = 1, 2
    assert default_result(state) == 1
