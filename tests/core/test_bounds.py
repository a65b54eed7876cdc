"""Values that the engine builds have a size limit, which is checked before they are serialized."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from holdfast.core.advance import owed_rows
from holdfast.core.effects import CreateTasks
from holdfast.core.states import Rules
from holdfast.define.bounds import MAX_ITEMS
from holdfast.define.node import Aggregation
from holdfast.define.plain import MAX_BUILT_DEPTH
from holdfast.define.workflow import Workflow
from holdfast.errors import PayloadRefused
from tests.core.one_job import OneJob, aggregate

MEGABYTE = "x" * (1 << 20)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def one_task(params: Any, result: Any = None) -> Workflow:
    flow = Workflow("w", inputs={"s": {"type": "any"}}, **({"result": result} if result is not None else {}))
    flow.task("a", handler="h", params=params)
    return flow


def refused(job: OneJob) -> str:
    """The message of a job that has failed permanently because a value was too large."""
    error = job.state.error
    assert job.state.status == "failed" and error is not None
    assert (error.code, error.failure_class) == ("PAYLOAD_REFUSED", "permanent")
    return str(error.message)


@pytest.mark.parametrize(
    "value",
    [
        ["{{ inputs.s }}"] * 100,
        "{{ [" + "inputs.s," * 300 + "] }}",
        {"v": {"w": ["{{ [inputs.s] + [inputs.s] }}"] * 50}},
    ],
)
def test_a_large_value_used_a_hundred_times_is_refused_before_it_is_serialized(value: Any) -> None:
    tracemalloc.start()
    try:
        params = OneJob(one_task({"v": value}), {"s": MEGABYTE})
        params.submit()
        result = OneJob(one_task({}, result=value), {"s": MEGABYTE}).run(lambda *_: 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused(params) == "the params are larger than 16,777,216 bytes; no more can be given to a handler"
    assert refused(result) == "the result is larger than 16,777,216 bytes; no more can be kept"
    assert peak < 40 << 20


def test_a_large_text_is_refused_before_it_is_built() -> None:
    job = OneJob(one_task({"v": "{{ [" + "inputs.s," * 300 + "] | tojson }}"}), {"s": MEGABYTE})
    tracemalloc.start()
    try:
        job.submit()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert job.state.error is not None and job.state.error.code == "TEMPLATE_ERROR"
    assert "a list that is larger than 1,048,576 bytes cannot become text" in job.state.error.message
    assert peak < 20 << 20


def test_a_value_that_is_too_large_once_escaped_is_refused() -> None:
    flow, rules = one_task({"v": "{{ inputs.s }}"}), Rules(payload_limit_bytes=100)
    job = OneJob(flow, {"s": "\n" * 60}, rules)
    job.submit()
    assert "the params are larger than 100 bytes" in refused(job)


def test_the_source_of_a_fan_out_has_a_size_limit() -> None:
    flow = Workflow("w", inputs={"s": {"type": "any"}})
    flow.fan_out("f", source="{{ [" + "inputs.s," * 20 + "] }}", handler="h", params={"v": "{{ item }}"})
    job = OneJob(flow, {"s": MEGABYTE})
    job.submit()
    assert refused(job) == "the source of fan-out f is larger than 16,777,216 bytes; no more can be fanned out"


def test_a_chunk_ends_at_its_limit_of_bytes_even_with_few_rows() -> None:
    flow = Workflow("w", inputs={"s": {"type": "any"}})
    for name in ("f", "g"):
        params = {"item": "{{ item }}", "s": "{{ inputs.s }}"}
        flow.fan_out(name, source="{{ [1, 2, 3, 4, 5] }}", handler="h", params=params, importance="important")
    job = OneJob(flow, {"s": "x" * 1000}, Rules(chunk_bytes=2500))
    chunks = [job.submit()]
    while owed_rows(job.state):
        chunks.append(job.continue_work())
    sizes = [sum(len(p) for e in chunk if isinstance(e, CreateTasks) for p in e.params) for chunk in chunks]
    rows = [sum(len(e.params) for e in chunk if isinstance(e, CreateTasks)) for chunk in chunks]
    assert rows == [3, 3, 3, 1] and max(sizes) < 2500 + 1100, "both fan-outs share what a turn may make"
    assert job.run(lambda *_: 1).state.status == "completed"


def many(count: int = 10) -> OneJob:
    flow = Workflow("w", inputs={"s": {"type": "any"}})
    for number in range(count):
        flow.task(f"n{number}", handler="h", params={"s": "{{ inputs.s }}"}, importance="important")
    return OneJob(flow, {"s": "x" * 1000}, Rules(chunk_bytes=2500))


def test_nodes_that_become_ready_together_are_dispatched_within_the_limit_of_bytes() -> None:
    job = many()
    chunks = [job.submit()]
    while owed_rows(job.state):
        chunks.append(job.continue_work())
    assert [sum(isinstance(e, CreateTasks) for e in chunk) for chunk in chunks] == [3, 3, 3, 1]
    assert job.run(lambda *_: 1).state.status == "completed"


def test_nodes_that_wait_for_their_dispatch_are_cancelled_with_the_job() -> None:
    job = many()
    job.submit()
    assert job.statuses()["n9"] == "ready" and owed_rows(job.state)
    job.cancel()
    assert job.state.status == "cancelled" and not owed_rows(job.state)
    assert set(job.statuses().values()) == {"cancelled"} and len(job.tasks) == 3


def test_nodes_that_wait_for_their_dispatch_are_cancelled_when_the_last_task_fails_the_job() -> None:
    """Nothing is queued or leased then, so no later report brings the job to the waiting node."""
    flow = Workflow("w", inputs={"s": {"type": "any"}})
    for name in ("a", "b"):
        flow.task(name, handler="h", params={"s": "{{ inputs.s }}"}, retry={"max_retries": 0})
    job = OneJob(flow, {"s": "x" * 1000}, Rules(chunk_bytes=10))
    job.submit()
    assert job.statuses() == {"a": "dispatched", "b": "ready"}
    job.fail("a")
    assert (job.state.status, job.statuses()) == ("failed", {"a": "failed", "b": "cancelled"})


def test_an_item_that_is_larger_than_a_chunk_is_a_chunk_of_its_own() -> None:
    flow = Workflow("w", inputs={"s": {"type": "any"}})
    flow.fan_out("f", source="{{ [1, 2] }}", handler="h", params={"s": "{{ inputs.s }}"})
    job = OneJob(flow, {"s": "x" * 1000}, Rules(chunk_bytes=10))
    job.submit()
    assert job.state.nodes["f"].expanded == 1
    assert job.run(lambda *_: 1).state.status == "completed"


def test_a_value_that_is_nested_too_deeply_fails_permanently() -> None:
    """An output at the limit is too deep for the value that contains it."""
    deep = nested(MAX_BUILT_DEPTH)
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h", params={"v": "{{ nodes.a.output }}"}, after="a")
    params = OneJob(flow).run(lambda *_: deep)
    assert f"the params are nested more than {MAX_BUILT_DEPTH} levels deep" in refused(params)
    result = OneJob(one_task({}, result=["{{ nodes.a.output }}"])).run(lambda *_: deep)
    assert "the result is nested more than" in refused(result)
    flow = Workflow("w")
    for name in ("a", "b"):
        flow.task(name, handler="h")
    assert "the result is nested more than" in refused(OneJob(flow).run(lambda *_: deep))
    for mode in (Aggregation.COLLECT, Aggregation.CONCAT, Aggregation.FIRST, Aggregation.LAST):
        with pytest.raises(PayloadRefused, match="what was gathered is nested more than"):
            aggregate(mode, [{"v": deep}], {})
    assert OneJob(one_task({})).run(lambda *_: deep).state.result == deep


@pytest.mark.parametrize(("size", "shown"), [(0, "not 0"), (MAX_ITEMS + 1, "not 2,147,483,648"), ("x", "not a string")])
def test_a_batch_size_out_of_range_fails_its_node(size: Any, shown: str) -> None:
    flow = Workflow("w", inputs={"n": {"type": "any"}})
    flow.fan_out("f", source="{{ [1, 2] }}", handler="h")
    flow.fan_in("g", after="f", batch={"handler": "h", "size": "{{ inputs.n }}"})
    job = OneJob(flow, {"n": size}).run(lambda *_: 1)
    error = job.state.nodes["g"].error
    assert job.state.status == "failed" and error is not None
    assert (error.code, error.failure_class) == ("TEMPLATE_ERROR", "permanent")
    assert error.message.endswith(shown)


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"source": "{{ inputs.s.x }}"}, "source: "),
        ({"source": "{{ [1] }}", "concurrency": {"limit": 1, "key": "{{ inputs.s.x }}"}}, "concurrency.key: "),
    ],
)
def test_an_error_names_the_key_whose_expression_failed(more: dict[str, Any], place: str) -> None:
    flow = Workflow("w", inputs={"s": {"type": "any"}})
    flow.fan_out("f", handler="h", **more)
    job = OneJob(flow, {"s": 1})
    job.submit()
    assert job.state.error is not None and job.state.error.message.startswith(place)
    result = OneJob(one_task({}, result={"v": "{{ inputs.s.x }}"}), {"s": 1}).run(lambda *_: 1)
    assert result.state.error is not None and result.state.error.message.startswith("result.v: ")
