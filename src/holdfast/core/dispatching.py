"""Handing a node's own task to the workers: its params are rendered, its row made and queued."""

from __future__ import annotations

from holdfast.core.effects import OWN_TASK
from holdfast.core.events import EventName
from holdfast.core.queueing import create, enqueue, lane_of
from holdfast.core.states import NodeState, Trigger
from holdfast.core.turn import Turn


def dispatch(turn: Turn, node: NodeState) -> None:
    """Params that are refused leave nothing behind. A fan-in has done its batches by now, and counts it beside them."""
    program = turn.state.program.nodes[node.name].task_of(OWN_TASK)
    params = turn.params(program.params, turn.scope_of(node.name))
    lane = lane_of(turn, node.name, OWN_TASK)
    rank = turn.state.queued_now
    if node.batch_size is None:
        node.width = 1
    node.expanded += 1
    node.enqueued = node.expanded
    create(turn, node, OWN_TASK, [params])
    enqueue(turn, node, OWN_TASK, OWN_TASK, lane, rank)
    node.move(Trigger.DISPATCHED)
    if node.batch_size is None:
        node.started_at = turn.moment()
    turn.state.touch(node)
    turn.emit(EventName.NODE_DISPATCHED, node.name, data={"queue": lane.queue, "handler": lane.handler})
    turn.start_job()
