"""Start and end."""

from __future__ import annotations

from holdfast.core.kinds.kind import Kind
from holdfast.core.states import NodeState, Trigger
from holdfast.core.turn import Turn


class Border(Kind):
    def begin(self, turn: Turn, node: NodeState) -> None:
        turn.finish_node(node, Trigger.DECIDED)
