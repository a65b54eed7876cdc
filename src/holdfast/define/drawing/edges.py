"""What all drawings show: the edges with their labels. Knows no format."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.define.expression_text import short_expression
from holdfast.define.graph import Graph

OTHERWISE = "otherwise"


@dataclass(frozen=True, slots=True)
class Edge:
    """`is_any`: the target waits for any one of several edges."""

    source: str
    target: str
    label: str = ""
    is_any: bool = False


def edges_of(graph: Graph) -> list[Edge]:
    """Every edge, a branch with its condition, in the order of the file."""
    return [edge for name in graph.names for edge in edges_from(graph, name)]


def edges_from(graph: Graph, name: str) -> list[Edge]:
    node = graph.nodes[name]
    edges = []
    for target in graph.outgoing[name]:
        labels = [
            short_expression(branch.condition) if branch.condition is not None else OTHERWISE
            for branch in node.branches
            if target in branch.targets
        ]
        edges.append(Edge(name, target, " or ".join(labels), name in graph.any_of[target]))
    return edges


def shortened(text: str, width: int, tail: int = 0) -> str:
    """The text within the width; a longer one is cut, with an optional tail."""
    if len(text) <= width:
        return text
    return text[: max(width - 1 - tail, 0)] + "…" + (text[-tail:] if tail else "")
