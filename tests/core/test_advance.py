"""Whole jobs, signal by signal: events, branches, templates, roots and ends."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from holdfast.core.advance import advance
from holdfast.core.effects import CreateTasks, Effect, Emit, EnqueueTasks, FinishTask
from holdfast.core.signals import JobSubmitted, OwnerChanged, TimePassed, WorkContinued
from holdfast.core.states import JobState, Rules, Status
from holdfast.define.definition import Definition
from holdfast.define.load import load_text
from holdfast.define.program import compile_definition, compile_pinned
from holdfast.define.workflow import Workflow
from tests.core.one_job import START, Fails, OneJob

ECHO = """
workflow_id: echo_test
version: 1
inputs:
  message: {type: string, required: true}
  count: {type: integer, default: 1}
nodes:
  start: {type: start, next: echo_handler}
  echo_handler:
    type: task
    handler: echo
    queue: dag-worker-tasks
    params: {message: "{{ inputs.message }}", count: "{{ inputs.count }}"}
    next: end
  end: {type: end}
"""


def echo() -> OneJob:
    return OneJob(load_text(ECHO), {"message": "hi", "count": 2})


def test_the_echo_workflow_emits_the_events_of_the_contract() -> None:
    job = echo().run(lambda node, item, attempt, params: {"echoed": params["message"]})
    # job_created is written by the submission itself, as event 1.
    assert job.event_names() == ["node_ready", "node_dispatched", "job_started", "node_completed", "job_completed"]
    assert [e.seq for e in job.events] == list(range(2, len(job.events) + 2))
    assert job.state.status == "completed"
    assert job.state.result == {"echoed": "hi"}


def test_a_dispatch_makes_one_row_queues_it_and_starts_the_job() -> None:
    job = echo()
    effects = job.submit()
    (made,) = (e for e in effects if isinstance(e, CreateTasks))
    (queued,) = (e for e in effects if isinstance(e, EnqueueTasks))
    assert (made.node, made.first, made.params) == ("echo_handler", -1, [b'{"count":2,"message":"hi"}'])
    assert (queued.node, queued.first, queued.last, queued.rank) == ("echo_handler", -1, -1, 0)
    assert (queued.lane.queue, queued.lane.handler) == ("dag-worker-tasks", "echo")
    assert job.event("node_dispatched").data == {"queue": "dag-worker-tasks", "handler": "echo"}
    assert job.state.status == "running"
    assert job.state.started_at == job.node("echo_handler").started_at == START


def test_the_event_at_the_end_of_an_attempt_names_its_number_its_worker_and_its_start() -> None:
    job = echo()
    job.submit()
    job.now += 5
    (finished,) = (e for e in job.done("echo_handler", output=1) if isinstance(e, FinishTask))
    event = next(e for e in job.events if e.event == "node_completed" and e.node == "echo_handler")
    assert (event.attempt, event.data) == (1, {"worker": "w", "started_at": START + 5})
    assert (finished.status, finished.epoch, finished.attempt) == (Status.COMPLETED, 1, 1)
    assert job.state.finished_at == START + 5


def test_only_changed_rows_are_written() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h")
    flow.task("c", handler="h", after="a")
    job = OneJob(flow)
    job.submit()
    assert [row.node for row in job.written.new_nodes] == ["a", "b"]
    assert job.written.jobs
    job.done("a")
    assert [row.node for row in job.written.nodes] == ["a"]
    assert [row.node for row in job.written.new_nodes] == ["c"]
    assert not job.written.jobs
    job.done("b")
    job.done("c")
    assert job.written.jobs


def test_a_job_that_is_submitted_twice_begins_once() -> None:
    job = echo()
    job.submit()
    assert job.submit() == []
    job.run()
    assert job.submit() == []


def test_a_change_of_owner_is_an_event_and_changes_nothing_else() -> None:
    job = echo()
    job.submit()
    before = job.statuses()
    (event,) = job.send(OwnerChanged("o2", "o1"))
    assert isinstance(event, Emit)
    assert (event.event, event.data) == ("owner_changed", {"owner": "o2", "previous": "o1"})
    assert job.statuses() == before


@pytest.mark.parametrize("signal", [TimePassed(), WorkContinued(), JobSubmitted()])
def test_a_finished_job_ignores_time_and_work_invariant_4(signal: Any) -> None:
    job = echo().run()
    assert job.send(signal) == []
    assert job.state.status == "completed"


# Roots and ends


def test_several_roots_begin_together_in_the_order_of_the_file() -> None:
    flow = Workflow("w")
    for name in ("b", "a", "c"):
        flow.task(name, handler="h")
    job = OneJob(flow)
    job.submit()
    assert [e.node for e in job.events if e.event == "node_ready"] == ["b", "a", "c"]
    assert job.event_names().count("job_started") == 1
    assert [job.queue[(name, -1)]["rank"] for name in ("b", "a", "c")] == [0, 1, 2]


def test_a_workflow_without_start_and_end_runs() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h", after="a")
    job = OneJob(flow).run()
    assert job.statuses() == {"a": "completed", "b": "completed"}
    assert job.state.status == "completed"


def test_a_job_with_no_tasks_at_all_completes_when_it_is_submitted() -> None:
    flow = Workflow("w", inputs={"n": {"type": "integer"}}, result="{{ inputs.n }}")
    flow.start(next="choose")
    flow.conditional("choose", condition="{{ inputs.n }} > 5", on_true="end", on_false="other")
    flow.end("other")
    flow.end()
    job = OneJob(flow, {"n": 9})
    job.submit()
    assert job.state.status == "completed"
    assert job.state.result == 9
    assert job.state.started_at == job.state.finished_at == START
    assert job.statuses() == {"start": "completed", "choose": "completed", "end": "completed", "other": "skipped"}
    assert not job.tasks


def test_a_job_of_a_start_and_an_end_completes() -> None:
    flow = Workflow("w")
    flow.start(next="end")
    flow.end()
    job = OneJob(flow)
    job.submit()
    assert job.state.status == "completed"
    assert job.state.result is None
    assert job.event_names() == ["job_completed"]


def test_a_long_chain_runs_to_its_end() -> None:
    flow = Workflow("w")
    for number in range(200):
        flow.task(f"n{number}", handler="h", after=f"n{number - 1}" if number else None)
    assert OneJob(flow).run().state.status == "completed"


# Conditionals


def choose(**conditional: Any) -> Workflow:
    flow = Workflow("w", inputs={"n": {"type": "any"}})
    flow.task("first", handler="h")
    flow.conditional("choose", after="first", **conditional)
    for name in ("low", "high", "other"):
        flow.task(name, handler="h")
    return flow


SPELLINGS: dict[str, dict[str, Any]] = {
    "on_true and on_false": {"condition": "{{ inputs.n }} > 5", "on_true": "high", "on_false": "low"},
    "one expression": {"condition": "{{ inputs.n > 5 }}", "on_true": "high", "on_false": "low"},
    "a list of branches": {
        "branches": [
            {"condition": "{{ inputs.n }} > 5", "next": "high"},
            {"condition": "{{ inputs.n }} > 7", "next": "other"},
            {"default": True, "next": "low"},
        ]
    },
    "an object of branches": {"condition": "{{ inputs.n > 5 }}", "branches": {True: "high", "default": "low"}},
    "an object of values": {"condition": "{{ inputs.n }}", "branches": {9: "high", 1: "low"}},
    "a field compared": {
        "condition_field": "inputs.n",
        "branches": [{"condition": "> 5", "next": "high"}, {"default": True, "next": "low"}],
    },
    "a field of the node before": {
        "condition_field": "nodes.first.output.n",
        "branches": [{"condition": "> 5", "next": "high"}, {"default": True, "next": "low"}],
    },
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(("n", "taken"), [(9, "high"), (1, "low")])
def test_every_spelling_of_a_conditional_takes_the_right_branch(spelling: str, n: int, taken: str) -> None:
    job = OneJob(choose(**SPELLINGS[spelling]), {"n": n})
    job.run(lambda *_: {"n": n})
    ran = {name for name in ("low", "high") if job.status_of(name) == "completed"}
    assert ran == {taken}
    assert job.node("choose").taken == (taken,)
    assert job.node("choose").output == {"taken": [taken]}
    event = next(e for e in job.events if e.node == "choose" and e.event == "node_completed")
    assert event.data == {"taken": [taken]}
    assert job.state.status == "completed"


def test_the_first_true_branch_in_file_order_wins() -> None:
    branches = [
        {"condition": "{{ inputs.n }} > 1", "next": "low"},
        {"condition": "{{ inputs.n }} > 5", "next": "high"},
        {"default": True, "next": "other"},
    ]
    job = OneJob(choose(branches=branches), {"n": 9}).run()
    assert job.node("choose").taken == ("low",)


def test_a_branch_may_have_several_targets() -> None:
    flow = choose(condition="{{ inputs.n }} > 5", on_true=["high", "other"], on_false="low")
    job = OneJob(flow, {"n": 9}).run()
    assert job.node("choose").taken == ("high", "other")
    assert job.statuses() == {
        "first": "completed", "choose": "completed", "low": "skipped", "high": "completed", "other": "completed"
    }  # fmt: skip


def test_a_conditional_without_a_true_branch_or_a_default_fails_permanently() -> None:
    branches = [{"condition": "{{ inputs.n }} > 5", "next": "high"}, {"condition": "{{ inputs.n }} > 3", "next": "low"}]
    job = OneJob(choose(branches=branches), {"n": 1}).run()
    error = job.node("choose").error
    assert error is not None
    assert (error.code, error.failure_class) == ("CONTRACT_VIOLATION", "permanent")
    assert "no branch of choose holds" in error.message
    assert job.statuses()["high"] == "cancelled"
    assert job.state.status == "failed"


def test_a_condition_that_cannot_be_evaluated_fails_permanently() -> None:
    flow = choose(condition="{{ nodes.first.output.missing.deeper }} > 5", on_true="high", on_false="low")
    job = OneJob(flow, {"n": 1}).run(lambda *_: {})
    error = job.node("choose").error
    assert error is not None
    assert (error.code, error.failure_class) == ("TEMPLATE_ERROR", "permanent")
    assert job.state.status == "failed"


# Templates


def test_a_template_error_is_permanent_names_its_expression_and_makes_no_task() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task(
        "b", handler="h", after="a", params={"x": "{{ nodes.a.output.missing.deeper }}"}, retry={"max_retries": 9}
    )
    job = OneJob(flow).run(lambda *_: {})
    error = job.node("b").error
    assert error is not None
    assert (error.code, error.failure_class, error.node) == ("TEMPLATE_ERROR", "permanent", "b")
    assert "nodes.a.output.missing" in error.message
    assert job.events_of("b") == ["node_ready", "node_failed"]
    assert ("b", -1) not in job.tasks
    assert job.node("b").expanded == job.node("b").width == 0
    assert job.state.status == "failed"


def test_a_template_error_in_the_first_node_fails_a_job_that_never_ran() -> None:
    flow = Workflow("w", inputs={"o": {"type": "object"}})
    flow.task("a", handler="h", params={"x": "{{ inputs.o.missing.deeper }}"})
    job = OneJob(flow, {"o": {}})
    job.submit()
    assert job.state.status == "failed"
    assert "job_started" not in job.event_names()
    assert job.state.started_at == START


def test_a_root_that_is_refused_stops_the_roots_that_were_queued_beside_it() -> None:
    flow = Workflow("w", inputs={"o": {"type": "object"}})
    flow.task("a", handler="h", params={"x": "{{ inputs.o.missing.deeper }}"})
    flow.task("b", handler="h")
    job = OneJob(flow, {"o": {}})
    job.submit()
    assert job.statuses() == {"a": "failed", "b": "cancelled"}
    assert job.state.status == "failed"


def test_params_keep_the_types_of_their_values() -> None:
    flow = Workflow("w", inputs={"n": {"type": "any"}})
    flow.task(
        "a",
        handler="h",
        params={"whole": "{{ inputs.n }}", "text": "n={{ inputs.n }}", "deep": [{"x": "{{ inputs.n }}"}]},
    )
    job = OneJob(flow, {"n": 3})
    job.submit()
    assert job.tasks[("a", -1)]["params"] == {"whole": 3, "text": "n=3", "deep": [{"x": 3}]}


def test_upstream_is_the_dependency_that_ran() -> None:
    flow = Workflow("w", inputs={"n": {"type": "integer"}})
    flow.conditional("choose", condition="{{ inputs.n }} > 5", on_true="high", on_false="low")
    flow.task("low", handler="h")
    flow.task("high", handler="h")
    flow.task(
        "join",
        handler="h",
        after=["low", "high"],
        params={"got": "{{ upstream.output }}", "was": "{{ upstream.status }}"},
    )
    for n, name in ((9, "high"), (1, "low")):
        job = OneJob(flow, {"n": n}).run(lambda node, *_: f"of {node}")
        assert job.tasks[("join", -1)]["params"] == {"got": f"of {name}", "was": "completed"}


def test_upstream_in_a_condition_is_the_node_before_it() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.conditional("choose", condition="{{ upstream.output.n }} > 5", on_true="b", on_false="c", after="a")
    flow.task("b", handler="h")
    flow.task("c", handler="h")
    job = OneJob(flow).run(lambda *_: {"n": 9})
    assert job.node("choose").taken == ("b",)


def test_a_failed_optional_node_shows_null_and_its_status() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h", importance="optional")
    flow.task("b", handler="h", after="a", params={"x": "{{ nodes.a.output }}", "s": "{{ nodes.a.status }}"})
    job = OneJob(flow).run(lambda node, *_: Fails(permanent=True) if node == "a" else None)
    assert job.tasks[("b", -1)]["params"] == {"x": None, "s": "failed"}


# Pinned definitions


def pinned(definition: Definition) -> JobState:
    program = compile_pinned(definition.hash(), definition.canonical_bytes())
    return JobState("job", program, {"message": "hi", "count": 1}, START)


def test_a_job_runs_under_its_pinned_definition_invariant_15() -> None:
    definition = echo().state.program.definition
    state = pinned(definition)
    assert state.program.definition == definition
    unpinned = JobState("job", compile_definition(definition), {"message": "hi", "count": 1}, START)
    assert read(advance(state, JobSubmitted(), START)) == read(advance(unpinned, JobSubmitted(), START))


def read(effects: list[Effect]) -> list[Any]:
    """Effects with the params as values: the order of their keys means nothing."""
    return [
        e._replace(params=[orjson.loads(p) for p in e.params]) if isinstance(e, CreateTasks) else e for e in effects
    ]


def test_a_pinned_definition_that_was_altered_is_refused_invariant_15() -> None:
    definition = echo().state.program.definition
    altered = orjson.dumps({**definition.to_json(), "version": "2"})
    with pytest.raises(AssertionError, match="was altered"):
        compile_pinned(definition.hash(), altered)


def test_the_same_signals_give_the_same_effects() -> None:
    def effects() -> list[Any]:
        return echo().run(lambda *_: {"n": 1}).effects

    assert effects() == effects()


def test_params_that_are_too_large_fail_their_node_at_once() -> None:
    flow = Workflow("w", inputs={"text": {"type": "string"}})
    flow.task("a", handler="h", params={"text": "{{ inputs.text }}"})
    job = OneJob(flow, {"text": "x" * 89}, rules=Rules(payload_limit_bytes=100))
    job.submit()
    assert not job.state.is_terminal and job.tasks[("a", -1)]["params"] == {"text": "x" * 89}
    job = OneJob(flow, {"text": "x" * 90}, rules=Rules(payload_limit_bytes=100))
    job.submit()
    assert job.state.status == "failed" and not job.tasks and not job.queue
    error = job.state.nodes["a"].error
    assert error is not None and (error.code, error.failure_class) == ("PAYLOAD_REFUSED", "permanent")
    assert "larger than 100 bytes; no more can be given to a handler" in error.message
