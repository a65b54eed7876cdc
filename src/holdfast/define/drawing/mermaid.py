"""A drawing as a Mermaid flowchart, which many Markdown viewers show as a picture."""

from __future__ import annotations

from holdfast.define.definition import Definition
from holdfast.define.drawing.edges import Edge, edges_of, shortened
from holdfast.define.graph import build_graph
from holdfast.define.kinds import kind_of
from holdfast.define.node import Node


def draw_mermaid(definition: Definition) -> str:
    """The workflow as a flowchart. Nodes get numbers as ids: a name can be a keyword of Mermaid, such as `end`."""
    graph = build_graph(definition)
    ids = {name: f"n{number}" for number, name in enumerate(graph.names, start=1)}
    lines = ["flowchart TD"]
    lines += [f"  {ids[node.name]}{_shape(node)}" for node in definition.nodes]
    lines += [f"  {ids[edge.source]} {_arrow(edge)} {ids[edge.target]}" for edge in edges_of(graph)]
    return "\n".join(lines) + "\n"


def _shape(node: Node) -> str:
    kind = kind_of(node)
    opening, closing = kind.shape
    label = _escaped(node.name)
    if node.batches is not None:
        label += f"<br/>{_escaped(node.batches.task.handler)} × n"
    if node.task is not None:
        label += f"<br/>{_escaped(node.task.handler)}"
    if kind.has_task_per_item:
        label += " × n"
    return f'{opening}"{label}"{closing}'


def _arrow(edge: Edge) -> str:
    arrow = "-.->" if edge.is_any else "-->"
    return f'{arrow}|"{_escaped(shortened(edge.label, 60, tail=12))}"|' if edge.label else arrow


def _escaped(text: str) -> str:
    """Escapes all characters but letters, digits and a few signs as Mermaid's numeric entities."""
    return "".join(one if one.isalnum() or one in " ._-:,+*/=" else f"#{ord(one)};" for one in text)
