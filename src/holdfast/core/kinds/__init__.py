"""What each type of node does in the core, one file for each type."""

from __future__ import annotations

from holdfast.core.kinds.border import Border
from holdfast.core.kinds.conditional import Conditional
from holdfast.core.kinds.fan_in import FanIn
from holdfast.core.kinds.fan_out import FanOut
from holdfast.core.kinds.kind import Kind
from holdfast.core.kinds.task import Task
from holdfast.core.states import JobState
from holdfast.define import kinds as defined
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


def is_border(state: JobState, name: str) -> bool:
    """Whether it does no work: it ends as soon as it begins, has no importance, and no verb names it."""
    return defined.kind_of(state.program.nodes[name].node).is_border


def has_task_per_item(state: JobState, name: str) -> bool:
    """Whether its tasks are made for the items of its source."""
    return defined.kind_of(state.program.nodes[name].node).has_task_per_item
