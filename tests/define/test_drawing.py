"""Drawings: readable in a terminal, valid as Mermaid and SVG, and safe with any text in them."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from holdfast.define.definition import Definition
from holdfast.define.drawing import draw_mermaid, draw_svg, draw_text
from holdfast.define.expression_text import short_expression
from holdfast.define.load import load_file, load_text
from holdfast.define.node import Branch, Node, NodeType

FILES = Path(__file__).parent / "files"


def example() -> Definition:
    return load_file(FILES / "every_node_type.yaml")


def wide(count: int) -> Definition:
    nodes = "".join(f"  task-{number}: {{handler: work.number_{number}, next: end}}\n" for number in range(count))
    names = ", ".join(f"task-{number}" for number in range(count))
    return load_text(
        f"workflow_id: wide\nnodes:\n  start: {{type: start, next: [{names}]}}\n{nodes}  end: {{type: end}}\n"
    )


def test_a_workflow_is_drawn_for_the_terminal() -> None:
    assert (
        draw_text(example())
        == """\
stack_maps, version 3: Maps to stacks

  ○ start
  │
  1 inventory  task         maps.inventory on light
  ├──▶ route
  └──▶ report

  2 route      conditional
  ├─ (inventory.groups | length) > 0 ─▶ stack
  └─ otherwise ─▶ end

  3 stack      fan_out      maps.stack on heavy for each of inventory.groups
  ├──▶ register
  └──▶ report

  4 register   fan_in       important; maps.register on default
  └──▶ end

  5 report     task         optional; maps.report on default, after any of 2
  │
  ○ end
"""
    )


@pytest.mark.parametrize("definition", [wide(30), example()], ids=["wide", "example"])
def test_a_terminal_drawing_fits_into_80_columns(definition: Definition) -> None:
    assert max(len(line) for line in draw_text(definition).splitlines()) <= 80


def test_a_workflow_is_drawn_as_mermaid() -> None:
    lines = draw_mermaid(example()).splitlines()
    assert lines[0] == "flowchart TD"
    assert '  n3{"route"}' in lines
    assert '  n4[["stack<br/>maps.stack × n"]]' in lines
    assert '  n3 -->|"#40;inventory.groups #124; length#41; #62; 0"| n4' in lines
    assert "  n2 -.-> n6" in lines


def hostile() -> Definition:
    text = "\"]; click n1 javascript:alert(1) <script>alert('x')</script> &amp; ]]>"
    return Definition(
        "w",
        name=text,
        description=text,
        nodes=(
            Node("a", NodeType.CONDITIONAL, description=text, branches=(Branch(("b",), text),)),
            Node("b", NodeType.END),
        ),
    )


def test_markup_in_a_workflow_stays_text_in_mermaid() -> None:
    drawing = draw_mermaid(hostile())
    assert "<script" not in drawing
    assert not any(line.strip().startswith("click") for line in drawing.splitlines())
    assert all(line.count('"') in (0, 2) for line in drawing.splitlines())


def test_markup_in_a_workflow_stays_text_in_svg() -> None:
    root = ElementTree.fromstring(draw_svg(hostile()))
    tags = {element.tag.split("}")[1] for element in root.iter()}
    assert tags <= {"svg", "title", "defs", "marker", "path", "rect", "text", "tspan", "g"}
    assert not any(name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib)


@pytest.mark.parametrize("definition", [wide(1), wide(30), example()], ids=["one", "wide", "example"])
def test_the_cards_of_an_svg_lie_inside_it_and_apart_from_each_other(definition: Definition) -> None:
    root = ElementTree.fromstring(draw_svg(definition))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    cards = []
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        rect = group.findall("{http://www.w3.org/2000/svg}rect")[-2:][0]
        if float(rect.attrib["height"]) > 20:
            x, y = float(rect.attrib["x"]), float(rect.attrib["y"])
            cards.append((x, y, x + float(rect.attrib["width"]), y + float(rect.attrib["height"])))
    assert len(cards) == len(definition.nodes)
    assert all(x0 >= 0 and y0 >= 0 and x1 <= width and y1 <= height for x0, y0, x1, y1 in cards)
    for index, one in enumerate(cards):
        for other in cards[index + 1 :]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_an_svg_says_how_many_nodes_there_are() -> None:
    assert "wide · version 1 · 3 nodes<" in draw_svg(wide(1))
    assert "one · version 1 · 1 node<" in draw_svg(load_text("workflow_id: one\nnodes: {a: {handler: echo}}\n"))


def test_every_name_is_in_every_drawing() -> None:
    for drawing in (draw_text(example()), draw_mermaid(example()), draw_svg(example())):
        assert all(re.search(rf"\b{node.name}\b", drawing) for node in example().nodes)


def test_an_expression_is_shortened_for_people() -> None:
    assert short_expression("(nodes.check.output.size) > 100") == "check.size > 100"
    assert short_expression("{{ nodes.a.output }}") == "a"
    assert short_expression("{{ inputs.x }}") == "inputs.x"


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("{{ nodes.check.output.size }} > 100", "check.size > 100"),
        ("({{ nodes.check.output.size }}) > 100", "check.size > 100"),
        ("{{ inputs.kind }} == 'alert(2)'", "inputs.kind == 'alert(2)'"),
        ("{{ inputs.kind == 'a  (b) {{ nodes.x.output }}' }}", "inputs.kind == 'a  (b) {{ nodes.x.output }}'"),
        ('{{ inputs.kind | default(5) }} == "it\'s (me)"', 'inputs.kind | default(5) == "it\'s (me)"'),
    ],
)
def test_an_expression_is_shortened_but_not_what_it_quotes(expression: str, shown: str) -> None:
    assert short_expression(expression) == shown
