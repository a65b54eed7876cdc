"""A node that runs one handler once."""

from __future__ import annotations

from holdfast.core.dispatching import dispatch
from holdfast.core.kinds.kind import Kind
from holdfast.core.states import NodeState
from holdfast.core.turn import Turn


class Task(Kind):
    def begin(self, turn: Turn, node: NodeState) -> None:
        dispatch(turn, node)
