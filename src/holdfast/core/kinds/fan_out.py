"""A node that runs one handler for each item of its source."""

from __future__ import annotations

from holdfast.core.failing import failure
from holdfast.core.fanning import begin_items, start_items
from holdfast.core.kinds.kind import Kind
from holdfast.core.queueing import limits_of
from holdfast.core.states import NodeState, Trigger
from holdfast.core.turn import Turn
from holdfast.define.plain import OutsizedError, Sizes, sized_kind_of
from holdfast.errors import Code, PayloadRefused


class FanOut(Kind):
    cannot_be_set = "has a result for each item"

    def begin(self, turn: Turn, node: NodeState) -> None:
        """Fix source and width, once; then make the first chunk. An empty source completes at once."""
        template = turn.state.program.nodes[node.name].source
        assert template is not None
        items = template.render(turn.scope_of(node.name))
        source = f"the source of fan-out {node.name}"
        if not isinstance(items, list):
            written = turn.state.program.nodes[node.name].node.source
            message = f"{source} must be an array, but {written} is {sized_kind_of(items)}"
            error = failure(Code.CONTRACT_VIOLATION, message, permanent=True, at=turn.now, node=node.name)
            turn.finish_node(node, Trigger.REFUSED, error=error)
            return
        try:
            Sizes().bound(items, turn.state.rules.payload_limit_bytes)
        except OutsizedError as problem:
            raise PayloadRefused(f"{source} is {problem}; no more can be fanned out") from None
        limits_of(turn, node.name, 0)  # A key that cannot be rendered refuses the node, before anything is made.
        if node.is_matching:
            # Which tasks its items have is known once the owner has read their rows.
            start_items(turn, node, {"width": len(items)})
            return
        node.width = len(items)
        begin_items(turn, node, items, {"width": node.width})
