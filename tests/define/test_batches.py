"""The key `batch` of a fan-in: what it inherits from its node, and which mistakes are reported."""

from __future__ import annotations

import orjson
import pytest

from holdfast.cli.fleet import handlers_of
from holdfast.define.definition import Definition, read_pinned
from holdfast.define.drawing.mermaid import draw_mermaid
from holdfast.define.kinds import node_to_json
from holdfast.define.load import load_text
from holdfast.define.node import Batches
from holdfast.define.workflow import Workflow
from holdfast.errors import InvalidDefinition

HEAD = """
workflow_id: tiles
inputs: {tiles: {type: array}, size: {type: integer}}
breakers: {catalogue: {cooldown_seconds: 5}}
nodes:
  stack: {type: fan_out, source: "{{ inputs.tiles }}", task: {handler: stack}, next: register}
  register:
    type: fan_in
"""


def register(text: str) -> Definition:
    return load_text(HEAD + "".join(f"    {line}\n" for line in text.splitlines()))


def batches(definition: Definition) -> Batches:
    declared = definition.node("register").batches
    assert declared is not None
    return declared


def test_a_batch_inherits_missing_keys_from_its_node() -> None:
    definition = register(
        "handler: finalize\n"
        "queue: light\n"
        "breaker: catalogue\n"
        "timeout_seconds: 60\n"
        "retry: {max_retries: 7}\n"
        "params: {of: all}\n"
        "batch: {handler: register_batch, size: 100, queue: heavy, params: {region: civ}}"
    )
    batch, own = batches(definition), definition.node("register").task
    assert own is not None
    assert (batch.size, batch.task.handler, batch.task.queue) == (100, "register_batch", "heavy")
    assert (batch.task.breaker, batch.task.timeout_seconds, batch.task.retry) == ("catalogue", 60.0, own.retry)
    assert batch.task.params == {"page": "{{ item }}", "region": "civ"}
    assert own.params == {"of": "all"}
    assert handlers_of(definition) == {"stack": ["default"], "register_batch": ["heavy"], "finalize": ["light"]}


def test_the_size_is_auto_by_default_and_may_be_a_template() -> None:
    assert batches(register("batch: {handler: b}")).size == "auto"
    assert batches(register('batch: {handler: b, size: " {{ inputs.size }} "}')).size == "{{ inputs.size }}"


def test_the_params_of_a_batch_see_its_page_and_its_index() -> None:
    definition = register('batch: {handler: b, params: {first: "{{ item.offset }}", number: "{{ index }}"}}')
    assert batches(definition).task.params["first"] == "{{ item.offset }}"


def test_a_pinned_definition_with_batches_is_read_back_unchanged() -> None:
    definition = register("batch: {handler: b, size: 5}\nhandler: f")
    assert read_pinned(orjson.dumps(definition.to_json())) == definition
    assert "batches" not in node_to_json(load_text(HEAD).node("register"))


def test_python_gives_the_model_that_yaml_gives() -> None:
    flow = Workflow(
        "tiles",
        inputs={"tiles": {"type": "array"}, "size": {"type": "integer"}},
        breakers={"catalogue": {"cooldown_seconds": 5}},
    )
    flow.fan_out("stack", source="{{ inputs.tiles }}", handler="stack", next="register")
    flow.fan_in("register", handler="f", batch={"handler": "b", "size": 5, "retry": {"max_retries": 1}})
    assert flow.definition() == register("handler: f\nbatch: {handler: b, size: 5, retry: {max_retries: 1}}")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            "batch: {handler: b, size: 0}",
            9,
            "a number of items such as 100, at most 2,147,483,647, a template, or auto",
        ),
        ("batch: {handler: b, size: 2147483648}", 9, "at most 2,147,483,647"),
        (
            "batch: {handler: b, size: many}",
            9,
            "a number of items such as 100, at most 2,147,483,647, a template, or auto",
        ),
        ("batch: {size: 5}", 9, "The key 'handler' is missing"),
        ("batch: {handler: b, sise: 5}", 9, "Unknown key 'sise'"),
        ("batch: {handler: b, params: {page: 1}}", 9, "Every batch gets the param 'page'"),
        ("batch: {handler: b, breaker: katalogue}", 9, "There is no breaker 'katalogue'"),
        ('batch: {handler: b, size: "{{ inputs.sise }}"}', 9, "There is no input 'sise'"),
        ('batch: {handler: b, params: {x: "{{ nodes.tell.output }}"}}', 9, "There is no node 'tell'"),
        ("batch: {handler: b}\nparams: {x: 1}", 10, "'params' needs a handler"),
        ("batch: {handler: b, retry: {max_retries: 1, max_attempts: 2}}", 9, "not both"),
        ("aggregation: sum\nbatch: {handler: b}\nhandler: f", 9, "'aggregation' has no effect with a handler"),
    ],
)
def test_a_mistake_in_a_batch_is_reported_at_its_place(text: str, line: int, message: str) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        register(text)
    (problem,) = refused.value.errors
    assert message in problem.message
    assert problem.line == line


def test_a_batch_belongs_to_a_fan_in_alone() -> None:
    with pytest.raises(InvalidDefinition) as refused:
        load_text("workflow_id: w\nnodes:\n  a: {handler: x, batch: {handler: b}}\n")
    assert "It belongs to: fan_in." in str(refused.value.errors[0])


def test_an_unknown_handler_of_a_batch_is_named_at_its_place() -> None:
    with pytest.raises(InvalidDefinition) as refused:
        load_text(HEAD + "    batch: {handler: b}\n", known_handlers=["stack"])
    (problem,) = refused.value.errors
    assert (problem.line, problem.message) == (9, "There is no handler 'b'.")


def test_a_drawing_shows_both_handlers() -> None:
    drawn = draw_mermaid(register("batch: {handler: one_page}\nhandler: the_end"))
    assert "one_page × n" in drawn and "the_end" in drawn
