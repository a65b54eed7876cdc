"""Workflows in Python are the workflows of the files."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.define.definition import Input, InputType
from holdfast.define.load import load_file, load_text
from holdfast.define.retry import Backoff, Jitter, Retry
from holdfast.define.workflow import Workflow, workflow
from holdfast.errors import InvalidDefinition

FILES = Path(__file__).parent / "files"


def stack(group: str, index: int) -> None: ...


stack.__holdfast_handler__ = SimpleNamespace(name="maps.stack")  # type: ignore[attr-defined]


@workflow(
    "stack_maps",
    version=3,
    name="Maps to stacks",
    description="Stacks the maps of a region, and registers the stacks.",
    timeout_seconds=240 * 60,
    inputs={
        "region": {
            "type": "string",
            "required": True,
            "pattern": "^[A-Z]{3}$",
            "description": "The region's code",
        },
        "limit": Input("limit", InputType.INTEGER, has_default=True, default=100, minimum=1, maximum=1000),
        "owner": {"type": "string"},
    },
    result={"region": "{{ inputs.region }}", "stacks": "{{ nodes.register.output }}"},
)
def flow(flow: Workflow) -> None:
    flow.start(next="inventory")
    flow.task(
        "inventory",
        handler="maps.inventory",
        queue="light",
        params={"region": "{{ inputs.region }}", "limit": "{{ inputs.limit }}"},
        timeout_seconds=60,
        queue_timeout_seconds=600,
        retry={"schedule": (60, 300, 900)},
        next="route",
    )
    flow.conditional(
        "route",
        description="Nothing to do for an empty region",
        condition="{{ nodes.inventory.output.groups | length }} > 0",
        on_true="stack",
        on_false="end",
    )
    flow.fan_out(
        "stack",
        source="{{ nodes.inventory.output.groups }}",
        handler=stack,
        queue="heavy",
        params={"group": "{{ item }}", "index": "{{ index }}"},
        timeout_seconds=900,
        retry=Retry(5, Backoff.EXPONENTIAL, 5.0, 300.0, Jitter.EQUAL),
        next="register",
    )
    flow.fan_in(
        "register",
        importance="important",
        handler="maps.register",
        params={"region": "{{ inputs.region }}"},
        next="end",
    )
    flow.task("report", handler="maps.report", importance="optional", after_any=["inventory", "stack"], next=["end"])
    flow.end()


def test_the_same_workflow_in_yaml_and_in_python_is_equal_and_hashes_the_same() -> None:
    from_file = load_file(FILES / "every_node_type.yaml")
    assert flow.definition() == from_file
    assert flow.definition().hash() == from_file.hash()


def test_keys_of_branches_may_be_python_values() -> None:
    flow = Workflow("w")
    flow.conditional("a", condition="{{ inputs.x }}", branches={True: "b", 5: ["b"], "large": "b", "default": "c"})
    flow.task("b", handler="x")
    flow.task("c", handler="x")
    text = (
        "workflow_id: w\nnodes:\n  a:\n    type: conditional\n    condition: '{{ inputs.x }}'\n"
        "    branches: {true: b, 5: b, large: b, default: c}\n  b: {handler: x}\n  c: {handler: x}\n"
    )
    assert flow.definition() == load_text(text)


def test_methods_return_names_that_chain_nodes() -> None:
    flow = Workflow("w")
    first = flow.task("first", handler="x")
    second = flow.task("second", handler="x", after=first)
    flow.task("third", handler="x", after=[first, second])
    assert flow.definition().node("third").all_of == ("first", "second")


def test_a_schedule_given_as_a_policy_stays_that_policy() -> None:
    flow = Workflow("w")
    policy = Retry(2, Backoff.SCHEDULE, jitter=Jitter.NONE, schedule=(60.0, 300.0))
    flow.task("a", handler="x", retry=policy)
    task = flow.definition().node("a").task
    assert task is not None
    assert task.retry == policy


def test_the_functions_of_a_workflow_are_known_by_their_handler_names() -> None:
    assert flow.handlers == {"maps.stack": stack}


def errors(flow: Workflow) -> list[tuple[str | None, str]]:
    with pytest.raises(InvalidDefinition) as caught:
        flow.definition()
    assert all(detail.line is None and detail.file is None for detail in caught.value.errors)
    return [(detail.path, str(detail)) for detail in caught.value.errors]


def test_all_mistakes_are_reported_with_their_paths() -> None:
    flow = Workflow("w", inputs={"region": {}})
    flow.task("a", handler="x", next="c", timeout_seconds=-1, params={"r": "{{ inputs.regoin }}"})
    flow.task("b", handler="x", after="aa")
    assert errors(flow) == [
        ("nodes.a.timeout_seconds", "'timeout_seconds' must be at least 0.001."),
        ("nodes.a.next[0]", "There is no node 'c'."),
        ("nodes.b.depends_on.all_of[0]", "There is no node 'aa'. Did you mean 'a'?"),
        ("nodes.a.params.r", "There is no input 'regoin'. Did you mean 'region'?"),
    ]


def test_a_node_cannot_be_added_twice() -> None:
    flow = Workflow("w")
    flow.task("a", handler="x")
    flow.task("a", handler="y")
    assert errors(flow) == [("nodes.a", "The node 'a' is added twice.")]


def test_a_function_that_is_not_a_handler_is_refused() -> None:
    flow = Workflow("w")
    flow.task("a", handler=load_text)
    (path, message) = errors(flow)[0]
    assert path == "nodes.a.handler"
    assert "load_text is not a handler. Decorate it with @handler" in message


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (float("nan"), "finite"),
        (object(), "not JSON"),
        ({1: 2}, "not text"),
        ("\ud800", "surrogate"),
        (2**64, "64"),
    ],
)
def test_params_must_be_plain_data(value: Any, fault: str) -> None:
    flow = Workflow("w")
    flow.task("a", handler="x", params={"deep": [value]})
    assert fault in errors(flow)[0][1]


def test_params_that_contain_themselves_are_refused() -> None:
    params: dict[str, Any] = {}
    params["self"] = [params, params]
    flow = Workflow("w")
    flow.task("a", handler="x", params=params)
    assert "levels deep" in errors(flow)[0][1]


def test_a_definition_is_not_changed_by_what_happens_to_its_params_later() -> None:
    params: dict[str, Any] = {"list": [1]}
    flow = Workflow("w")
    flow.task("a", handler="x", params=params)
    definition = flow.definition()
    params["list"].append(2)
    task = definition.node("a").task
    assert task is not None
    assert task.params == {"list": [1]}


def test_an_option_that_does_not_exist_is_refused_at_once() -> None:
    flow = Workflow("w")
    with pytest.raises(TypeError, match="'a' got an unexpected keyword argument 'retrys'"):
        flow.task("a", handler="echo", retrys=3)  # type: ignore[call-arg]


def test_an_option_of_none_is_as_if_it_were_left_out() -> None:
    flow, plain = Workflow("w"), Workflow("w")
    flow.task("a", handler="echo", params=None, retry=None, after=None, next=None, queue=None, importance=None)
    plain.task("a", handler="echo")
    assert flow.definition() == plain.definition()


RETRIES = [
    ({}, Retry()),
    ({"max_retries": 3}, Retry(max_retries=3)),
    ({"max_retries": 7}, Retry(7)),
    ({"max_retries": 0, "jitter": "none"}, Retry(0, jitter=Jitter.NONE)),
    ({"initial_delay_seconds": 2}, Retry(initial_delay_seconds=2.0)),
    ({"backoff": "fixed", "initial_delay_seconds": 5}, Retry(backoff=Backoff.FIXED, initial_delay_seconds=5.0)),
    ({"max_delay_seconds": 600}, Retry(max_delay_seconds=600.0)),
    ({"schedule": [1, 5]}, Retry(schedule=(1.0, 5.0))),
    ({"schedule": [1, 5], "max_retries": 9}, Retry(9, schedule=(1.0, 5.0))),
    (
        {"jitter": {"min_seconds": 1, "max_seconds": 4}},
        Retry(jitter=Jitter.RANGE, jitter_seconds=(1.0, 4.0)),
    ),
    ({"retry_on": ["BUSY"]}, Retry(retry_on=("BUSY",))),
]


@pytest.mark.parametrize("of_node", [None, *RETRIES], ids=str)
@pytest.mark.parametrize("of_workflow", [None, *RETRIES], ids=str)
def test_a_retry_of_the_builder_has_the_hash_of_its_twin_in_a_file(
    of_workflow: tuple[dict[str, Any], Retry] | None, of_node: tuple[dict[str, Any], Retry] | None
) -> None:
    file: dict[str, Any] = {"workflow_id": "w", "nodes": {"a": {"handler": "echo"}}}
    if of_workflow is not None:
        file["retry"] = of_workflow[0]
    if of_node is not None:
        file["nodes"]["a"]["retry"] = of_node[0]
    flow = Workflow("w", retry=of_workflow[1] if of_workflow is not None else None)
    flow.task("a", handler="echo", retry=of_node[1] if of_node is not None else None)
    assert flow.definition().hash() == load_text(json.dumps(file)).hash()


def test_a_retry_can_be_copied_and_pickled() -> None:
    retry = Retry(5, jitter=Jitter.NONE)
    for copied in (copy.deepcopy(retry), pickle.loads(pickle.dumps(retry))):
        assert (copied, copied.stated) == (retry, frozenset({"max_retries", "jitter"}))
    assert replace(retry, max_retries=1) == Retry(1, jitter=Jitter.NONE)


def test_params_of_the_builder_are_converted_to_json() -> None:
    flow = Workflow("w")
    flow.task("a", handler="echo", params={"day": date(2026, 1, 2), "files": [Path("a/b")]})
    (node,) = flow.definition().nodes
    assert node.task is not None and node.task.params == {"day": "2026-01-02", "files": ["a/b"]}
    flow.task("b", handler="echo", params={"tags": {"x"}})
    with pytest.raises(InvalidDefinition) as refused:
        flow.definition()
    assert "nodes.b.params.tags is a set, which is not JSON." in [one.message for one in refused.value.errors]
