"""The node type `start`: where a workflow begins. It is optional; a workflow has at most one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from holdfast.define.fields import Names
from holdfast.define.kinds.kind import Kind
from holdfast.define.node import NodeType
from holdfast.define.node_document import NodeDocument, any_case
from holdfast.define.source import Report

if TYPE_CHECKING:
    from holdfast.define.graph import Graph


class StartDocument(NodeDocument):
    """The entry of the workflow."""

    type: Annotated[Literal["start"], *any_case("start")]
    """The type of the node."""

    next: Names | None = None
    """The node or nodes that follow."""


class Start(Kind[StartDocument]):
    node_type = NodeType.START
    document = StartDocument
    is_border = True
    has_output = False
    misplaced: ClassVar[Mapping[str, str]] = {"depends_on": "A start waits for nothing."}
    shape = ("([", "])")
    accent = "#64748b"

    def check_graph(self, graph: Graph, report: Report) -> None:
        """There is at most one start. It waits for nothing, and all other nodes can be reached from it."""
        starts = [name for name in graph.names if graph.nodes[name].type is self.node_type]
        for name in starts[1:]:
            report.at_key(("nodes", name), f"There is a second start; the first is '{starts[0]}'.")
        for name in starts:
            for source in graph.sources[name]:
                report.at_key(("nodes", source), f"'{source}' leads to the start '{name}', which waits for nothing.")
        if len(starts) != 1 or graph.sources[starts[0]]:
            return
        reached = {starts[0]} | graph.descendants(starts[0])
        for name in graph.names:
            if name not in reached and not any(source not in reached for source in graph.sources[name]):
                message = f"The node '{name}' cannot be reached from '{starts[0]}'."
                hint = f"Name it in the next of another node, or give it 'depends_on: [{starts[0]}]'."
                report.at_key(("nodes", name), message, hint)
