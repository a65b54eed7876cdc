"""What all drawings show: the edges with their labels, and a line about each node. Knows no format."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdfast.define.graph import Graph
from holdfast.define.node import Node, NodeType

OTHERWISE = "otherwise"
_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")


@dataclass(frozen=True, slots=True)
class Edge:
    """`is_any`: the target waits for one of several such edges."""

    source: str
    target: str
    label: str = ""
    is_any: bool = False


def edges_of(graph: Graph) -> list[Edge]:
    """Every edge, a branch with its condition, in the order of the file."""
    return [edge for name in graph.names for edge in edges_from(graph, name)]


def edges_from(graph: Graph, name: str) -> list[Edge]:
    node = graph.nodes[name]
    found = []
    for target in graph.outgoing[name]:
        labels = [
            short_expression(branch.condition) if branch.condition is not None else OTHERWISE
            for branch in node.branches
            if target in branch.targets
        ]
        found.append(Edge(name, target, " or ".join(labels), name in graph.any_of[target]))
    return found


def short_expression(expression: str) -> str:
    """`(nodes.check.output.size) > 100` becomes `check.size > 100`: for people, not for machines."""
    parts = _QUOTED.split(expression)
    # What stands between quotation marks is every second part, and stays as it is.
    return "".join(part if number % 2 else _short(part) for number, part in enumerate(parts)).strip()


def _short(part: str) -> str:
    text = re.sub(r"\{\{\s*|\s*\}\}", "", part)
    text = re.sub(r"\bnodes\.([\w-]+)\.output\b", r"\1", text)
    return re.sub(r"(?<!\w)\(([\w.-]+)\)", r"\1", re.sub(r"\s+", " ", text))


def node_details(node: Node) -> str:
    """What a node does, in a few words."""
    task = f"{node.task.handler} on {node.task.queue}" if node.task is not None else ""
    match node.type:
        case NodeType.FAN_OUT:
            return f"{task} for each of {short_expression(node.source or '')}"
        case NodeType.FAN_IN if node.batches is not None:
            batch = node.batches.task
            return f"{batch.handler} on {batch.queue} in batches, then {task or node.aggregation}"
        case NodeType.FAN_IN:
            return task or str(node.aggregation)
        case _:
            return task


def shortened(text: str, width: int, tail: int = 0) -> str:
    """The text within the width; of a longer one the beginning and, if wanted, a tail."""
    if len(text) <= width:
        return text
    return text[: max(width - 1 - tail, 0)] + "…" + (text[-tail:] if tail else "")
