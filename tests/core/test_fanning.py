"""Fan-outs and fan-ins: a width fixed once, rows in chunks, a window, and results in item order (invariant 8)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from holdfast.core.advance import advance, owed_results, owed_rows
from holdfast.core.effects import CreateTasks, EnqueueTasks, FailTask
from holdfast.core.kinds.fan_in import gather
from holdfast.core.signals import ItemsAggregated, WorkContinued
from holdfast.core.states import NodeState, Rules, Status
from holdfast.core.turn import Turn
from holdfast.define.node import Aggregation
from holdfast.define.workflow import Workflow
from holdfast.errors import Bug, PayloadRefused
from tests.core.one_job import Fails, OneJob, aggregate


def fan(
    *,
    source: str = "{{ inputs['items'] }}",
    params: dict[str, Any] | None = None,
    aggregation: str | None = None,
    importance: str | None = None,
    retry: dict[str, Any] | None = None,
    **more: Any,
) -> Workflow:
    flow = Workflow("w", inputs={"items": {"type": "any"}})
    flow.fan_out(
        "f", source=source, handler="h", params=params or {"value": "{{ item }}", "index": "{{ index }}"},
        importance=importance, retry=retry or {"max_retries": 0}, **more,
    )  # fmt: skip
    flow.fan_in("g", after="f", aggregation=aggregation)
    return flow


def fan_out(items: Any, chunk: int = 2000, window: int = 1000, **more: Any) -> OneJob:
    return OneJob(fan(**more), {"items": items}, Rules(chunk_size=chunk, window_size=window))


def value(node: str, item: int, attempt: int, params: Any) -> Any:
    return params["value"]


def of(kind: type[Any], effects: list[Any]) -> list[Any]:
    return [e for e in effects if isinstance(e, kind)]


# Width and rows


def test_every_item_becomes_a_task_with_its_own_params() -> None:
    job = fan_out(["a", "b", "c"])
    effects = job.submit()
    (made,) = of(CreateTasks, effects)
    assert made.first == 0
    assert [orjson.loads(one) for one in made.params] == [{"value": v, "index": i} for i, v in enumerate("abc")]
    assert job.node("f").width == job.node("f").expanded == job.node("f").enqueued == 3
    assert job.status_of("f") == "running"
    assert job.state.status == "running"


def test_the_events_of_a_fan_out_name_ranges_of_items() -> None:
    job = fan_out(["a", "b"]).run(value)
    assert job.event_names() == [
        "node_ready", "node_dispatched", "job_started", "task_ready", "task_dispatched", "task_completed",
        "task_completed", "node_completed", "node_ready", "node_completed", "job_completed",
    ]  # fmt: skip
    assert [e.data for e in job.events if e.event == "task_ready"] == [{"first": 0, "last": 1}]
    assert [e.data for e in job.events if e.event == "task_dispatched"] == [{"first": 0, "last": 1}]
    assert [e.item for e in job.events if e.event == "task_completed"] == [0, 1]


def test_zero_items_complete_at_once() -> None:
    job = fan_out([])
    effects = job.submit()
    assert not of(CreateTasks, effects)
    assert not of(EnqueueTasks, effects)
    assert job.status_of("f") == "completed"
    assert job.node("f").output == {"fan_out_count": 0}
    job.gather()
    assert job.node("g").output == {"results": [], "count": 0}
    assert job.state.status == "completed"
    assert "task_ready" not in job.event_names()


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 10, 11])
def test_rows_are_made_in_chunks_without_gap_or_overlap(chunk: int) -> None:
    job = fan_out(list(range(10)), chunk=chunk)
    job.submit()
    sizes = [job.node("f").expanded]
    while owed_rows(job.state):
        job.continue_work()
        sizes.append(job.node("f").expanded)
    assert sizes == [min(chunk * n, 10) for n in range(1, len(sizes) + 1)]
    assert [job.tasks[("f", i)]["params"]["value"] for i in range(10)] == list(range(10))


def test_a_chunk_is_smaller_where_others_wait_and_never_larger() -> None:
    job = fan_out(list(range(10)), chunk=4)
    job.submit()
    job.send(WorkContinued(limit=1))
    assert job.node("f").expanded == 5
    job.send(WorkContinued(limit=100))
    assert job.node("f").expanded == 9


def test_a_fan_out_owes_rows_until_the_last_chunk() -> None:
    job = fan_out(list(range(5)), chunk=2)
    assert not owed_rows(job.state)
    job.submit()
    assert owed_rows(job.state)
    job.continue_work()
    assert owed_rows(job.state)
    job.continue_work()
    assert not owed_rows(job.state)
    assert not of(CreateTasks, job.continue_work())


def test_the_width_is_fixed_once_invariant_8() -> None:
    job = fan_out(list(range(5)), chunk=2)
    job.submit()
    assert job.node("f").width == 5
    job.state.inputs["items"].append(99)
    with pytest.raises(Bug, match="was 5 wide and is now 6"):
        job.continue_work()


def test_a_fan_out_does_not_end_before_its_last_chunk_is_made_invariant_8() -> None:
    job = fan_out(list(range(4)), chunk=2)
    job.submit()
    job.done("f", 0)
    job.done("f", 1)
    assert job.node("f").open_tasks == 0
    assert job.status_of("f") == "running"
    assert job.status_of("g") == "pending"
    job.run(value)
    assert job.node("f").output == {"fan_out_count": 4}


# The window


@pytest.mark.parametrize("window", [1, 2, 3, 4, 7, 100])
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_never_more_than_the_window_is_queued(window: int, chunk: int) -> None:
    job = fan_out(list(range(20)), chunk=chunk, window=window).run(value)
    assert job.most_queued <= window
    assert job.node("f").completed == 20
    assert job.node("g").output == {"results": list(range(20)), "count": 20}


def test_the_window_is_full_when_there_is_enough() -> None:
    job = fan_out(list(range(20)), window=6)
    job.submit()
    assert sorted(job.queue) == [("f", i) for i in range(6)]


def test_the_window_refills_when_half_of_it_is_free() -> None:
    job = fan_out(list(range(20)), window=6)
    job.submit()
    for item in (0, 1):
        assert not of(EnqueueTasks, job.done("f", item))
    (more,) = of(EnqueueTasks, job.done("f", 2))
    assert (more.first, more.last) == (6, 8)
    assert len(job.queue) == 6


def test_a_failed_item_frees_its_place_and_a_retried_one_keeps_it() -> None:
    job = fan_out(list(range(9)), window=2, retry={"max_retries": 1})
    job.submit()
    assert not of(EnqueueTasks, job.fail("f", 0))
    assert len(job.queue) == 2
    (more,) = of(EnqueueTasks, job.fail("f", 0))
    assert (more.first, more.last) == (2, 2)


def test_items_that_were_refused_widen_the_window_by_no_more_than_their_number() -> None:
    """A refused item counts as settled before it would have been queued; an exact count would need a column."""
    items: list[Any] = [*({"deep": i} for i in range(7)), 7, 8, 9]
    job = fan_out(items, window=2, params={"value": "{{ item.deep }}"}, importance="optional")
    job.submit()
    job.run(value)
    assert job.node("f").completed == 7
    assert job.most_queued <= 2 + 3


def test_the_rank_of_an_item_is_how_many_were_queued_before_it() -> None:
    job = fan_out(list(range(8)), window=4)
    (first,) = of(EnqueueTasks, job.submit())
    assert first.rank == 0
    assert [job.queue[("f", i)]["rank"] for i in range(4)] == [0, 1, 2, 3]
    job.done("f", 0)
    (second,) = of(EnqueueTasks, job.done("f", 1))
    assert second.rank == 2


# How it ends


def test_the_node_runs_until_the_last_item_is_terminal() -> None:
    job = fan_out(["a", "b", "c"])
    job.submit()
    job.done("f", 2)
    job.done("f", 0)
    assert job.status_of("f") == "running"
    job.done("f", 1)
    assert job.status_of("f") == "completed"
    assert job.event("node_completed").data == {
        "width": 3, "completed": 3, "failed": 0, "skipped": 0, "cancelled": 0,
    }  # fmt: skip


def test_failed_items_fail_the_node_after_the_others_have_finished() -> None:
    job = fan_out(list(range(5)), importance="important")
    job.submit()
    job.fail("f", 3, message="no disk", permanent=True, code="DISK")
    assert job.status_of("f") == "running"
    job.fail("f", 1, message="other", permanent=True)
    for item in (0, 2, 4):
        job.done("f", item)
    error = job.node("f").error
    assert job.status_of("f") == "failed"
    assert error is not None
    assert (error.code, error.failure_class, error.index) == ("DISK", "permanent", 3)
    assert error.message == "2 of 5 items failed; the first: no disk"
    assert job.node("f").completed == 3
    data = job.event("node_failed").data
    assert data is not None
    assert data["failed"] == 2


@pytest.mark.parametrize("bad", [0, 2, 4])
def test_one_failed_item_fails_the_node(bad: int) -> None:
    job = fan_out(list(range(5)), importance="important")
    job.run(lambda n, item, a, params: Fails(permanent=True) if item == bad else params["value"])
    assert job.status_of("f") == "failed"
    assert (job.node("f").completed, job.node("f").failed) == (4, 1)


def test_a_fan_in_after_an_optional_fan_out_gets_the_items_that_completed_and_lists_the_failed() -> None:
    job = fan_out(list(range(5)), importance="optional")
    job.run(lambda n, item, a, params: Fails(permanent=True) if item in (1, 3) else params["value"])
    assert job.status_of("f") == "failed"
    assert job.node("g").output == {"results": [0, 2, 4], "count": 3, "failed": [1, 3]}
    assert job.state.status == "completed"


def test_the_fan_in_of_a_failed_fan_out_is_cancelled() -> None:
    job = fan_out([1, 2], importance="important").run(lambda *_: Fails(permanent=True))
    assert job.statuses() == {"f": "failed", "g": "cancelled"}
    assert job.state.status == "partial", "a consequence counts as its cause"


# Sources and templates


@pytest.mark.parametrize(
    ("items", "shown"),
    [
        (None, "is null"),
        ("abc", "is a string of 3 characters"),
        ({"a": 1}, "is an object of 1 key"),
        (5, "is an integer"),
        (True, "is a boolean"),
    ],
)
def test_a_source_that_is_no_list_fails_permanently_and_the_message_does_not_contain_it(items: Any, shown: str) -> None:
    job = fan_out(items)
    job.submit()
    error = job.node("f").error
    assert job.status_of("f") == "failed"
    assert error is not None
    assert (error.code, error.failure_class) == ("CONTRACT_VIOLATION", "permanent")
    assert error.message.endswith(shown) and "inputs['items']" in error.message
    assert not job.tasks
    assert job.state.status == "failed"


def test_a_template_error_in_the_source_fails_the_node() -> None:
    job = OneJob(fan(source="{{ inputs['items'].missing.deeper }}"), {"items": {}})
    job.submit()
    error = job.node("f").error
    assert job.status_of("f") == "failed"
    assert error is not None
    assert (error.code, error.failure_class) == ("TEMPLATE_ERROR", "permanent")
    assert "missing" in error.message


@pytest.mark.parametrize("chunk", [1, 2, 100])
@pytest.mark.parametrize("bad", [[0], [2], [4], [0, 1], [1, 3], [3, 4], [0, 1, 2, 3, 4]])
def test_a_template_error_in_an_item_fails_that_item_only(chunk: int, bad: list[int]) -> None:
    items = [i if i in bad else {"deep": i} for i in range(5)]
    job = fan_out(items, chunk=chunk, params={"value": "{{ item.deep }}"}, importance="optional")
    job.submit()
    job.run(value)
    failed = of(FailTask, job.effects)
    assert [e.item for e in failed] == bad
    assert all((e.error.code, e.error.failure_class) == ("TEMPLATE_ERROR", "permanent") for e in failed)
    assert [e.error.index for e in failed] == bad
    good = [i for i in range(5) if i not in bad]
    assert job.node("f").completed == len(good)
    assert job.node("f").failed == len(bad)
    assert job.node("g").output == {"results": good, "count": len(good), "failed": bad}
    assert [e.item for e in job.events if e.event == "task_failed"] == bad


def test_if_every_item_is_refused_the_node_fails_without_a_worker() -> None:
    job = fan_out([1, 2], params={"value": "{{ item.deep }}"})
    job.submit()
    assert job.status_of("f") == "failed"
    assert job.state.status == "failed"
    assert not job.queue


def test_items_see_their_index_the_inputs_and_the_outputs_above() -> None:
    flow = Workflow("w", inputs={"n": {"type": "integer"}})
    flow.task("a", handler="h")
    params = {"all": "{{ inputs.n }}-{{ index }}-{{ item }}-{{ nodes.a.output.x }}"}
    flow.fan_out("f", source="{{ nodes.a.output.list }}", handler="h", params=params, after="a")
    job = OneJob(flow, {"n": 7}).run(lambda node, *_: {"list": ["p", "q"], "x": "y"})
    assert [job.tasks[("f", i)]["params"]["all"] for i in (0, 1)] == ["7-0-p-y", "7-1-q-y"]


@pytest.mark.parametrize("chunk", [1, 100])
def test_items_see_what_is_upstream_of_their_node(chunk: int) -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.fan_out(
        "f", source="{{ upstream.output.list }}", handler="h", params={"x": "{{ upstream.output.x }}"}, after="a"
    )
    job = OneJob(flow, rules=Rules(chunk_size=chunk)).run(lambda node, *_: {"list": [1, 2], "x": "y"})
    assert [job.tasks[("f", i)]["params"] for i in (0, 1)] == [{"x": "y"}, {"x": "y"}]
    assert job.state.status == "completed"


# Fan-in


def test_a_fan_in_asks_for_results_and_owes_them_until_they_are_there() -> None:
    job = fan_out(["a"])
    job.submit()
    assert owed_results(job.state) == []
    job.done("f", 0, "x")
    assert owed_results(job.state) == ["g"]
    assert job.status_of("g") == "running"
    job.send(ItemsAggregated("g", {"results": ["x"], "count": 1}))
    assert owed_results(job.state) == []
    assert job.state.status == "completed"
    assert job.state.result == {"results": ["x"], "count": 1}


def test_results_that_were_gathered_twice_count_once_invariant_8() -> None:
    job = fan_out(["a"]).run(value)
    before = list(job.events)
    assert job.send(ItemsAggregated("g", "something else")) == []
    assert job.node("g").output == {"results": ["a"], "count": 1}
    assert job.events == before


def test_items_that_cannot_be_aggregated_fail_the_fan_in_permanently() -> None:
    job = fan_out(["a", "b"], aggregation="sum").run(value)
    error = job.node("g").error
    assert job.status_of("g") == "failed"
    assert error is not None
    assert (error.code, error.failure_class) == ("CONTRACT_VIOLATION", "permanent")
    assert job.state.status == "failed"


def test_a_fan_in_that_fires_before_the_width_is_settled_is_a_bug_invariant_8() -> None:
    job = fan_out([1, 2, 3])
    job.submit()
    job.done("f", 0)
    job.node("f").status = Status.COMPLETED
    job.node("g").status = Status.READY
    with pytest.raises(Bug, match="fan-in g fired although f has 2 open items"):
        gather(Turn(job.state, job.now), job.node("g"))


def test_a_fan_in_counts_completed_failed_skipped_and_cancelled_items_invariant_8() -> None:
    job = fan_out([1, 2, 3, 4])
    job.state.nodes["f"] = NodeState(
        "f", Status.FAILED, width=4, expanded=4, completed=1, failed=1, skipped=1, cancelled=1
    )
    job.state.nodes["g"] = NodeState("g", Status.READY)
    gather(Turn(job.state, job.now), job.state.nodes["g"])
    assert job.node("g").status is Status.RUNNING


def test_a_fan_in_with_a_handler_is_one_task() -> None:
    flow = Workflow("w")
    flow.fan_out("f", source="{{ [1, 2] }}", handler="h")
    flow.fan_in("g", handler="gather", after="f")
    job = OneJob(flow).run(lambda node, *_: f"of {node}")
    assert job.node("g").output == "of g"
    assert job.tasks[("g", -1)]["status"] == "completed"


def test_a_fan_in_of_a_skipped_fan_out_is_skipped_with_it() -> None:
    flow = Workflow("w")
    flow.conditional("c", condition="1 > 2", on_true="f", on_false="other")
    flow.fan_out("f", source="{{ [1] }}", handler="h")
    flow.fan_in("g", after="f")
    flow.task("other", handler="h")
    job = OneJob(flow).run()
    assert job.statuses() == {"c": "completed", "f": "skipped", "other": "completed", "g": "skipped"}


def test_results_come_in_item_order_whatever_the_order_of_the_reports() -> None:
    job = fan_out(["a", "b", "c", "d"])
    job.submit()
    for item in (2, 0, 3, 1):
        job.done("f", item, "abcd"[item])
    job.gather()
    assert job.state.result == {"results": ["a", "b", "c", "d"], "count": 4}


def test_a_finished_fan_out_makes_no_more_rows() -> None:
    job = fan_out([1], chunk=1).run(value)
    assert advance(job.state, WorkContinued(), job.now) == []


# Aggregations


@pytest.mark.parametrize(
    ("mode", "outputs", "wanted"),
    [
        ("collect", [3, None, {"a": 1}], {"results": [3, None, {"a": 1}], "count": 3}),
        ("collect", [], {"results": [], "count": 0}),
        ("concat", [[1, 2], [3], []], {"results": [1, 2, 3], "count": 3}),
        ("concat", [{"files": ["a"], "n": 1}, {"files": ["b", "c"]}], {"results": ["a", "b", "c"], "count": 3}),
        ("concat", [5, {"n": 1}, None], {"results": [5, {"n": 1}, None], "count": 3}),
        ("concat", [], {"results": [], "count": 0}),
        ("sum", [1, 2.5, 3], {"total": 6.5, "count": 3}),
        ("sum", [{"rows": 3, "name": "x", "ok": True}, {"rows": 4}], {"total": 7, "count": 2}),
        ("sum", [], {"total": 0, "count": 0}),
        ("first", [7, 8, 9], {"result": 7, "count": 3}),
        ("first", [], {"result": None, "count": 0}),
        ("last", [7, 8, 9], {"result": 9, "count": 3}),
        ("last", [], {"result": None, "count": 0}),
    ],
)
def test_every_aggregation(mode: str, outputs: list[Any], wanted: dict[str, Any]) -> None:
    assert aggregate(Aggregation(mode), iter(outputs), {}) == wanted
    assert aggregate(Aggregation(mode), outputs, {"failed": [4, 9], "skipped": []}) == {**wanted, "failed": [4, 9]}
    left_out = {"failed": [4], "skipped": [7]}
    assert aggregate(Aggregation(mode), outputs, left_out) == {**wanted, **left_out}


@pytest.mark.parametrize("mode", list(Aggregation))
def test_every_aggregation_works_without_any_items(mode: Aggregation) -> None:
    assert aggregate(mode, [], {})["count"] == 0


@pytest.mark.parametrize(
    ("bad", "kind"), [("text", "a string"), (None, "null"), ([1], "an array"), (True, "a boolean")]
)
def test_a_sum_of_other_values_than_numbers_is_refused(bad: Any, kind: str) -> None:
    with pytest.raises(
        ValueError, match=f"item 1 of each is {kind}, which cannot be summed: return a number, or an object"
    ):
        aggregate(Aggregation.SUM, [1, bad], {})


@pytest.mark.parametrize(("large", "why"), [(2**62, "does not fit into 64 bits"), (1e308, "is not a finite number")])
def test_a_sum_that_json_cannot_hold_is_refused(large: float, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        aggregate(Aggregation.SUM, [large, large], {})


@pytest.mark.parametrize("mode", ["collect", "concat"])
def test_results_that_are_too_large_to_gather_are_refused_before_all_are_read(mode: str) -> None:
    outputs = iter(["x" * 8] * 100)
    with pytest.raises(PayloadRefused, match="the first 11 results have 110 bytes together; at most 100 can be"):
        aggregate(Aggregation(mode), outputs, {}, limit_bytes=100)
    assert len(list(outputs)) == 89, "the others were never read"


@pytest.mark.parametrize(("mode", "wanted"), [("sum", 400), ("first", 4), ("last", 4)])
def test_aggregations_to_one_value_accept_any_number_of_items(mode: str, wanted: int) -> None:
    answer = aggregate(Aggregation(mode), [4] * 100, {}, limit_bytes=1)
    assert answer["total" if mode == "sum" else "result"] == wanted


def test_an_item_whose_params_are_too_large_fails_alone() -> None:
    rules = Rules(payload_limit_bytes=120)
    job = OneJob(fan(), {"items": ["a", "b" * 100, "c"]}, rules=rules).run(lambda node, item, *_: item)
    failed = job.tasks[("f", 1)]
    error = failed["error"]
    assert (failed["status"], error.code, error.failure_class) == ("failed", "PAYLOAD_REFUSED", "permanent")
    assert "larger than 120 bytes; no more can be given to a handler" in error.message
    assert "HOLDFAST_PAYLOAD_LIMIT_BYTES" in error.hint
    assert [job.tasks[("f", i)]["status"] for i in (0, 2)] == ["completed", "completed"]


@pytest.mark.parametrize(
    ("failures", "width", "bad", "status"),
    [
        (0, 4, 1, "failed"), (1, 4, 1, "partial"), (1, 4, 2, "failed"), ("25%", 4, 1, "partial"),
        ("25%", 4, 2, "failed"), ("25%", 3, 1, "failed"), ("100%", 3, 3, "partial"), (5, 3, 3, "partial"),
    ],
)  # fmt: skip
def test_tolerated_failures_let_the_job_continue_and_make_it_partial(
    failures: Any, width: int, bad: int, status: str
) -> None:
    job = fan_out(list(range(width)), tolerate={"failures": failures})
    job.submit()
    job.run(lambda node, item, attempt, params: Fails("bad") if 0 <= item < bad else item)
    assert job.state.status == status
    if status == "partial":
        assert job.status_of("f") == "completed"
        assert job.node("g").output == {
            "results": list(range(bad, width)), "count": width - bad, "failed": list(range(bad)),
        }  # fmt: skip


def test_with_stop_queued_items_are_cancelled_and_running_ones_may_finish() -> None:
    job = fan_out(
        list(range(10)), chunk=4, window=4, on_item_failure="stop", tolerate={"failures": 1}, importance="important"
    )
    job.submit()
    job.claim("f", 0)
    job.claim("f", 1)
    job.claim("f", 2)
    job.read(job.hand_in("f", 0, fails=Fails("bad")))
    assert job.status_of("f") == "running"
    job.read(job.hand_in("f", 1, fails=Fails("bad")))
    assert set(job.queue) == {("f", 2)}
    job.read(job.hand_in("f", 2))
    assert job.status_of("f") == "failed"
    assert not owed_rows(job.state)
    assert (job.node("f").completed, job.node("f").failed) == (1, 2)
    assert job.state.status == "partial", "the fan-in counts with the importance of the fan-out that failed"


def test_with_stop_nothing_is_retried_once_too_many_have_failed() -> None:
    job = fan_out([1, 2], on_item_failure="stop", retry={"max_retries": 5})
    job.submit()
    job.claim("f", 0)
    job.claim("f", 1)
    job.read(job.hand_in("f", 0, fails=Fails("bad", permanent=True)))
    job.read(job.hand_in("f", 1, fails=Fails("busy")))
    assert job.tasks[("f", 1)]["status"] == "cancelled"
    assert job.status_of("f") == "failed"


def test_a_fan_out_that_was_cut_short_can_be_resumed() -> None:
    job = fan_out(list(range(6)), chunk=2, window=2, on_item_failure="stop")
    job.submit()
    job.run(lambda node, item, attempt, params: Fails("bad") if item == 1 else item)
    assert job.state.status == "failed"
    assert job.recover("resume").applied
    job.run(lambda node, item, attempt, params: item)
    assert (job.state.status, job.node("g").output["count"]) == ("completed", 6)
