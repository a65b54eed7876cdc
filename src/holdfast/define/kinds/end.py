"""The node type `end`: where a workflow stops. The nodes right before it give the job's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from holdfast.define.kinds.kind import Kind
from holdfast.define.node import NodeType
from holdfast.define.node_document import DependsOn, NodeDocument, any_case
from holdfast.define.source import Report

if TYPE_CHECKING:
    from holdfast.define.graph import Graph


class EndDocument(NodeDocument):
    """An exit of the workflow."""

    type: Annotated[Literal["end"], *any_case("end")]
    """The type of the node."""

    depends_on: DependsOn | None = None
    """What the node waits for, beside the nodes that name it in their `next`."""


class End(Kind[EndDocument]):
    node_type = NodeType.END
    document = EndDocument
    is_border = True
    is_exit = True
    has_output = False
    misplaced: ClassVar[Mapping[str, str]] = {"next": "Nothing follows an end."}
    shape = ("([", "])")
    accent = "#64748b"

    def check_graph(self, graph: Graph, report: Report) -> None:
        """Nothing follows an end."""
        for name in graph.names:
            if graph.nodes[name].type is self.node_type:
                for target in graph.outgoing[name]:
                    report.at_key(("nodes", target), f"'{target}' waits for the end '{name}', which nothing follows.")
