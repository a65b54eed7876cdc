"""A node that decides which branch runs."""

from __future__ import annotations

from holdfast.core.failing import failure
from holdfast.core.kinds.kind import Kind
from holdfast.core.states import NodeState, Trigger
from holdfast.core.turn import Turn
from holdfast.define.node import Node
from holdfast.errors import Code
from holdfast.remedies import Remedy


class Conditional(Kind):
    cannot_be_skipped = "decides what runs"

    def begin(self, turn: Turn, node: NodeState) -> None:
        """The first true branch in file order; none and no default is a failure."""
        scope = turn.scope_of(node.name)
        for condition, targets in turn.state.program.nodes[node.name].branches:
            if condition is None or condition.evaluate(scope):
                node.taken = targets
                turn.finish_node(node, Trigger.DECIDED, output={"taken": list(targets)}, data={"taken": list(targets)})
                return
        error = failure(
            Code.CONTRACT_VIOLATION,
            f"no branch of {node.name} holds and it has no default",
            permanent=True,
            at=turn.now,
            node=node.name,
            hint=Remedy("Add a branch with default: true."),
        )
        turn.finish_node(node, Trigger.REFUSED, error=error)

    def leads_to(self, definition: Node, node: NodeState, target: str) -> bool:
        """A target of its branches runs only if its branch was taken."""
        is_branch = any(target in branch.targets for branch in definition.branches)
        return target in node.taken or not is_branch
