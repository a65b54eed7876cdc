"""What each type of node does in the core, one file for each type."""

from __future__ import annotations

from holdfast.core.kinds.border import Border
from holdfast.core.kinds.conditional import Conditional
from holdfast.core.kinds.fan_in import FanIn
from holdfast.core.kinds.fan_out import FanOut
from holdfast.core.kinds.kind import Kind
from holdfast.core.kinds.task import Task
from holdfast.core.states import JobState
from holdfast.define.node import NodeType

KINDS: dict[NodeType, Kind] = {
    NodeType.START: Border(),
    NodeType.END: Border(),
    NodeType.TASK: Task(),
    NodeType.CONDITIONAL: Conditional(),
    NodeType.FAN_OUT: FanOut(),
    NodeType.FAN_IN: FanIn(),
}


def kind_of(state: JobState, name: str) -> Kind:
    return KINDS[state.program.nodes[name].node.type]
