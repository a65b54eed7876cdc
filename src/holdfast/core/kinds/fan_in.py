"""A node that joins the results of a fan-out: by a handler, in batches, or by its owner."""

from __future__ import annotations

from holdfast.core.batching import Pages, batch_size
from holdfast.core.dispatching import dispatch
from holdfast.core.effects import OWN_TASK
from holdfast.core.fanning import begin_items
from holdfast.core.kinds.kind import Kind
from holdfast.core.queueing import limits_of
from holdfast.core.states import NodeState, Status, Trigger
from holdfast.core.turn import Turn
from holdfast.errors import Bug


class FanIn(Kind):
    def begin(self, turn: Turn, node: NodeState) -> None:
        program = turn.state.program.nodes[node.name]
        if program.batches is not None:
            _begin_batches(turn, node)
        elif program.task is None:
            gather(turn, node)
        else:
            dispatch(turn, node)

    def owes_results(self, node: NodeState) -> bool:
        """Of the items, or of all its batches."""
        return node.status is Status.RUNNING and node.completed == node.width == node.expanded


def _begin_batches(turn: Turn, node: NodeState) -> None:
    """Fix the size of the batches, once, and make the first of them; what an earlier run has left goes on.

    Everything that could be refused is tried now: what has been done in batches must not fail for want of a param.
    """
    state, program = turn.state, turn.state.program.nodes[node.name]
    fan_out = state.nodes[state.program.graph.fan_out_of[node.name]]
    limits_of(turn, node.name, 0)
    if program.task is not None:
        limits_of(turn, node.name, OWN_TASK)
        turn.params(program.task.params, turn.scope_of(node.name))
    if node.batch_size is None:
        node.batch_size = batch_size(program, fan_out.width, turn.scope_of(node.name))
    pages = Pages(fan_out, node.batch_size)
    if node.expanded and node.width != len(pages):
        raise Bug(f"fan-in {node.name} had {node.width} batches and has now {len(pages)}")
    node.width = len(pages)
    begin_items(turn, node, pages, {"width": node.width, "batch_size": node.batch_size})


def gather(turn: Turn, node: NodeState) -> None:
    """Ask for the results; they are read after this commit, so that the last reports are among them."""
    fan_out = turn.state.nodes[turn.state.program.graph.fan_out_of[node.name]]
    if fan_out.status is Status.COMPLETED and fan_out.width != fan_out.settled:
        raise Bug(f"fan-in {node.name} fired although {fan_out.name} has {fan_out.width - fan_out.settled} open items")
    node.move(Trigger.GATHERING)
    node.started_at = turn.moment()
    turn.state.touch(node)
