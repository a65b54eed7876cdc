"""The node types, each in a file of its own: a new type is one more file, a member of NodeType and a line here."""

from __future__ import annotations

from typing import Any

from holdfast.define.kinds.conditional import Conditional
from holdfast.define.kinds.end import End
from holdfast.define.kinds.fan_in import FanIn
from holdfast.define.kinds.fan_out import FanOut
from holdfast.define.kinds.kind import Kind
from holdfast.define.kinds.start import Start
from holdfast.define.kinds.task import Task
from holdfast.define.node import Node, NodeType
from holdfast.define.node_document import NodeDocument

__all__ = ["DEFAULT_KIND", "KINDS", "Kind", "kind_of", "kind_of_document", "node_from_json", "node_to_json"]

# Messages list the types in this order.
KINDS: dict[NodeType, Kind[Any]] = {
    kind.node_type: kind for kind in (Start(), End(), Task(), Conditional(), FanOut(), FanIn())
}
DEFAULT_KIND = KINDS[NodeType.TASK]
"""What a node without a type is."""

_BY_DOCUMENT = {kind.document: kind for kind in KINDS.values()}


def kind_of(node: Node) -> Kind[Any]:
    return KINDS[node.type]


def kind_of_document(document: NodeDocument) -> Kind[Any]:
    return _BY_DOCUMENT[type(document)]


def node_to_json(node: Node) -> dict[str, Any]:
    return kind_of(node).to_json(node)


def node_from_json(data: dict[str, Any]) -> Node:
    return KINDS[NodeType(data["type"])].from_json(data)
