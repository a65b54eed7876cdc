"""A drawing for the terminal: one line per node, chains joined by a bar, all other edges written out."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.define.definition import Definition
from holdfast.define.drawing.edges import Edge, edges_from, shortened
from holdfast.define.graph import Graph, build_graph
from holdfast.define.kinds import kind_of
from holdfast.define.node import Importance


def draw_text(definition: Definition, width: int = 80) -> str:
    """The nodes in the order in which they run, with their stage numbers and what follows each of them."""
    graph = build_graph(definition)
    order = _chain_order(graph)
    margin = max(len(str(graph.stage_number(name) or "")) for name in order)
    names = min(max(len(name) for name in order), 28)
    lines = [_title(definition), ""]
    for position, name in enumerate(order):
        following = order[position + 1] if position + 1 < len(order) else None
        lines.append(_node_line(graph, name, margin, names))
        lines.extend(" " * (margin + 1) + line for line in _edge_lines(graph, name, following))
    return "\n".join(shortened(line.rstrip(), width) for line in lines) + "\n"


def _title(definition: Definition) -> str:
    title = f"{definition.workflow_id}, version {definition.version}"
    return f"{title}: {definition.name}" if definition.name else title


def _chain_order(graph: Graph) -> list[str]:
    """A topological order that follows one path as long as possible, so that chains stay together."""
    waiting = {name: len(graph.sources[name]) for name in graph.names}
    free = list(reversed(graph.roots))
    order: list[str] = []
    while free:
        name = free.pop()
        order.append(name)
        for target in reversed(graph.outgoing[name]):
            waiting[target] -= 1
            if waiting[target] == 0:
                free.append(target)
    return order


def _node_line(graph: Graph, name: str, margin: int, names: int) -> str:
    node = graph.nodes[name]
    number = str(graph.stage_number(name) or "")
    kind = kind_of(node)
    if kind.is_border:
        return f"  {'○':>{margin}} {name}"
    details = kind.details(node)
    if node.importance is not Importance.CRITICAL:
        details = f"{node.importance}; {details}" if details else str(node.importance)
    any_of = graph.any_of[name]
    if any_of:
        details = f"{details}, after any of {len(any_of)}" if details else f"after any of {len(any_of)}"
    return f"  {number:>{margin}} {shortened(name, names):<{names}}  {node.type:<11}  {details}"


def _edge_lines(graph: Graph, name: str, following: str | None) -> Iterator[str]:
    edges = edges_from(graph, name)
    if len(edges) == 1 and not edges[0].label and edges[0].target == following:
        yield "│"
        return
    for position, edge in enumerate(edges):
        corner = "├" if position + 1 < len(edges) else "└"
        yield f"{corner}─{_label(edge)}▶ {edge.target}"
    if following is not None:
        yield ""


def _label(edge: Edge) -> str:
    return f" {shortened(edge.label, 44, tail=12)} ─" if edge.label else "─"
