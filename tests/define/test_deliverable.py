"""A node may declare what it delivers: a unique name, and where it is stored."""

from __future__ import annotations

import pytest

from holdfast.define.definition import Definition
from holdfast.define.load import check_text, load_text
from holdfast.define.node import Deliverable
from holdfast.define.workflow import Workflow

NODES = """
workflow_id: w
inputs: {region: {type: string, default: CIV}}
nodes:
  stack:
    type: fan_out
    source: [1, 2]
    task: {handler: h}
    deliverable: {name: cogs, location: " {{ inputs.region | lower }}/ "}
  all: {type: fan_in, depends_on: stack, deliverable: {name: list}}
  register: {handler: h, depends_on: all, deliverable: {name: entry, location: "{{ nodes.register.output.url }}"}}
""".replace("[1, 2]", '"{{ [1, 2] }}"')


def problems(nodes: str) -> list[tuple[int | None, int | None, str]]:
    definition, mistakes = check_text(
        f"workflow_id: w\ninputs: {{region: {{type: string}}}}\nnodes:\n{nodes}", "w.yaml"
    )
    assert definition is None
    return [(one.line, one.column, f"{one.message} {one.suggestion or ''}".strip()) for one in mistakes]


def test_tasks_fan_outs_and_fan_ins_may_deliver() -> None:
    definition = load_text(NODES)
    assert [node.deliverable for node in definition.nodes] == [
        Deliverable("cogs", "{{ inputs.region | lower }}/"),
        Deliverable("list"),
        Deliverable("entry", "{{ nodes.register.output.url }}"),
    ]
    assert Definition.from_json(definition.to_json()) == definition


def test_a_workflow_in_python_declares_the_same() -> None:
    flow = Workflow("w", inputs={"region": {"type": "string", "default": "CIV"}})
    cogs = {"name": "cogs", "location": "{{ inputs.region | lower }}/"}
    flow.fan_out("stack", source="{{ [1, 2] }}", handler="h", deliverable=cogs)
    flow.fan_in("all", after="stack", deliverable={"name": "list"})
    entry = {"name": "entry", "location": "{{ nodes.register.output.url }}"}
    flow.task("register", handler="h", after="all", deliverable=entry)
    assert flow.definition().hash() == load_text(NODES).hash()


def test_a_node_without_a_deliverable_keeps_its_json() -> None:
    assert "deliverable" not in load_text("workflow_id: w\nnodes: {a: {handler: h}}").to_json()["nodes"][0]


@pytest.mark.parametrize(
    ("nodes", "line", "column", "words"),
    [
        (
            "  a: {handler: h, deliverable: {name: cogs}}\n  b: {handler: h, deliverable: {name: cogs}}",
            5, 39, "The node 'a' already has a deliverable 'cogs'. Give it another name.",
        ),
        ("  a: {handler: h, deliverable: {name: c, locaton: x}}", 4, 42, "Did you mean 'location'?"),
        ("  a: {handler: h, deliverable: {location: x}}", 4, 19, "The key 'name' is missing."),
        ("  a: {handler: h, deliverable: {name: a b}}", 4, 39, "'a b' is not a valid name"),
        ("  a: {handler: h, deliverable: cogs}", 4, 32, "'deliverable' must be an object."),
        (
            "  a: {handler: h, deliverable: {name: c, location: '{{ inputs.regon }}'}}",
            4, 56, "There is no input 'regon'. Did you mean 'region'?",
        ),
        ("  a: {handler: h, deliverable: {name: c, location: '{{ nodes.b.output }}'}}", 4, 56, "There is no node 'b'."),
        ("  a: {handler: h, deliverable: {name: c, location: '{{ item }}'}}", 4, 56, "item"),
        ("  a: {handler: h, deliverable: {name: c, location: '{{ upstream.output }}'}}", 4, 52, "no such node here"),
        ("  a: {handler: h, deliverable: {name: c, location: '{{ '}}", 4, None, "The template is not valid"),
        ("  a: {type: end, deliverable: {name: c}}", 4, 18, "The key 'deliverable' does not belong to an end node."),
    ],
)  # fmt: skip
def test_a_mistake_in_a_deliverable_is_reported_at_its_place(
    nodes: str, line: int, column: int | None, words: str
) -> None:
    ((found_line, found_column, message),) = problems(nodes)
    assert found_line == line
    assert column is None or found_column == column
    assert words in message
