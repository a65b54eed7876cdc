"""How a job is undone: what has completed is taken back, node by node, from the end to the beginning.

Each completed task goes back to ready, as a new epoch, with another handler. A node is undone once everything below it
is; a task that cannot be undone stays completed, and holds back what lies above it.
"""

from __future__ import annotations

from holdfast.core import fanning
from holdfast.core.effects import OWN_TASK, AcceptUndo, FinishUndo, UndoTasks
from holdfast.core.events import (
    END_OF_JOB,
    EventName,
    JobEnded,
    NodeUndone,
    TaskEnded,
    TasksEnded,
    TaskUndoEnd,
    UndoStarted,
)
from holdfast.core.failing import Failure, failure
from holdfast.core.queueing import lane_of
from holdfast.core.signals import TasksWithdrawn
from holdfast.core.states import JOB_CANCELLED, JobState, JobStatus, NodeState, Status, Trigger, node_scope
from holdfast.core.turn import Turn
from holdfast.core.undo_plans import batches_to_undo, parts_to_undo, undone_before
from holdfast.core.undo_states import UNDOING, UNDONE, NodeUndo, Undo, UndoCause, UndoStage
from holdfast.errors import Code
from holdfast.remedies import Remedy


def begin(turn: Turn, undo: Undo) -> None:
    """The job runs again, to take back what these nodes have done. Its deadline rests meanwhile."""
    state = turn.state
    undo.before = undone_before(state, undo.nodes)
    state.undo = undo
    state.stop = state.deadline_at = None
    state.job_touched = True
    for name in undo.nodes:
        state.nodes[name].undo = None
        state.touch(state.nodes[name])
    go_on(turn)


def go_on(turn: Turn) -> None:
    """Undo every node below which all is undone; the job ends when none is left that can be."""
    state, undo = turn.state, turn.state.undo
    assert undo is not None
    if state.stop is None:
        held = _held_back(state, undo)
        for name in undo.nodes:
            if state.nodes[name].undo is None and name not in held:
                _begin_node(turn, state.nodes[name])
    if not any(state.nodes[name].is_undoing for name in undo.nodes):
        _finish_job(turn, undo)


def _held_back(state: JobState, undo: Undo) -> set[str]:
    """The nodes below which something is not undone yet, or could not be."""
    held: set[str] = set()
    for name in reversed(state.program.graph.order):
        for target in state.program.graph.outgoing[name]:
            if target in held or (target in undo.nodes and not _is_undone(state.nodes[target])):
                held.add(name)
    return held


def _is_undone(node: NodeState) -> bool:
    return node.undo is not None and node.undo.is_over and not node.undo.failed


def _begin_node(turn: Turn, node: NodeState) -> None:
    node.undo = NodeUndo(UndoStage.OWN, str(node.status), node.reason)
    node.reason = UNDOING
    stage, number, _ = parts_to_undo(turn.state, node)[0]
    _begin_part(turn, node, stage, number)


def _begin_part(turn: Turn, node: NodeState, stage: UndoStage, number: int) -> None:
    """Send the completed tasks of a node back, for the handler that undoes them."""
    state = turn.state
    assert node.undo is not None
    node.undo.stage = stage
    node.move(Trigger.UNDO_OWN if stage is UndoStage.OWN else Trigger.UNDO_ITEMS)
    node.completed -= number
    node.waiting += number
    node.enqueued = node.expanded
    node.started_at = turn.moment()
    node.finished_at = node.retry_at = None
    state.touch(node)
    lane = lane_of(turn, node.name, 0)
    turn.effects.append(UndoTasks(state.job_id, node.name, own_only=stage is UndoStage.OWN))
    started: UndoStarted = {"tasks": number, "queue": lane.queue, "handler": lane.handler}
    turn.emit(EventName.NODE_UNDO_STARTED, node.name, data=started)
    fanning.fill_window(turn, node)


def task_ended(
    turn: Turn,
    node: NodeState,
    item: int,
    *,
    epoch: int,
    attempt: int,
    error: Failure | None,
    worker: str | None = None,
    started_at: float | None = None,
) -> None:
    """The undo of a task has ended; with an error, the task stays completed."""
    undo, is_undone = node.undo, error is None
    assert undo is not None
    why = error or failure(Code.UNDONE, "its effects were taken back", permanent=False, at=turn.now, node=node.name)
    turn.effects.append(
        FinishUndo(turn.state.job_id, node.name, item, epoch, attempt, why, is_undone, worker, started_at)
    )
    turn.state.touch(node)
    data: TaskEnded = {"worker": worker, "started_at": started_at}
    if error is None:
        node.cancelled += 1
        undo.undone += 1
    else:
        node.completed += 1
        undo.failed += 1
        undo.error = undo.error or error
        data["code"], data["message"] = error.code, error.message
    if item == OWN_TASK:
        node.attempt = attempt
    else:
        event: TaskUndoEnd = EventName.TASK_UNDONE if is_undone else EventName.TASK_UNDO_FAILED
        turn.emit(event, node.name, item, attempt, data)
    fanning.fill_window(turn, node)
    settle(turn, node)


def settle(turn: Turn, node: NodeState) -> None:
    """Go on when no task of the node is open: with the batches behind its own task, or with its end."""
    undo = node.undo
    if node.open_tasks or undo is None or undo.is_over:
        return
    if undo.stage is UndoStage.OWN and not undo.failed and (batches := batches_to_undo(turn.state, node)):
        if turn.state.stop is None:
            _begin_part(turn, node, UndoStage.ITEMS, batches[0][1])
            return
        assert turn.state.undo is not None
        turn.state.undo.is_cut = True
    _end_node(turn, node, undo)


def _end_node(turn: Turn, node: NodeState, undo: NodeUndo, by: str | None = None) -> None:
    """What is undone of it counts no more. What had failed, stays failed; where nothing is undone, all is as before."""
    undo.is_over = True
    was = Status(undo.was)
    if was is Status.FAILED:
        node.move(Trigger.BACK_TO_FAILED)
        node.reason = undo.reason
    elif undo.undone or was is Status.CANCELLED:
        node.move(Trigger.UNDONE)
        node.reason = UNDONE if undo.undone else undo.reason
        node.output = node.error = None
    else:
        node.move(Trigger.BACK_TO_COMPLETED if was is Status.COMPLETED else Trigger.BACK_TO_SKIPPED)
        node.reason, node.error = undo.reason, None
    node.retry_at = None
    node.finished_at = turn.moment()
    turn.state.touch(node)
    turn.state.scope["nodes"][node.name] = node_scope(node)
    data: NodeUndone = {"undone": undo.undone, "failed": undo.failed, "status": str(node.status)}
    if undo.failed and undo.error is not None:
        data["code"], data["message"] = undo.error.code, undo.error.message
    if by is not None:
        data["by"] = by
    turn.emit(EventName.NODE_UNDO_FAILED if undo.failed else EventName.NODE_UNDONE, node.name, data=data)
    turn.finished.append(node.name)


def tasks_withdrawn(turn: Turn, signal: TasksWithdrawn) -> None:
    """A person's cancel: what waited to be undone, or took too long, stays completed."""
    state, undo = turn.state, turn.state.undo
    assert undo is not None and state.stop is not None
    if signal.leases_too:
        state.stop.leases_ended = True
    state.job_touched = True
    for name, items in signal.items.items():
        node = state.nodes[name]
        if not items or node.undo is None:
            continue
        undo.is_cut = True
        node.completed += len(items)
        node.undo.failed += len(items)
        node.undo.error = node.undo.error or cut_error(turn)
        state.touch(node)
        if items[0] >= 0:
            data: TasksEnded = {"items": fanning.ranges(items), "count": len(items), "reason": JOB_CANCELLED}
            turn.emit(EventName.TASK_UNDO_FAILED, name, data=data)
    for name in undo.nodes:
        settle(turn, state.nodes[name])


def cut_error(turn: Turn) -> Failure:
    """Why a task was not undone that waited for it when a person cancelled the job."""
    return failure(Code.CANCELLED, "the job was cancelled before it was undone", permanent=False, at=turn.now)


def cancel(turn: Turn) -> None:
    """A person's cancel begins: nodes whose turn has not come stay as they are."""
    undo = turn.state.undo
    assert undo is not None
    undo.is_cut = undo.is_cut or any(turn.state.nodes[name].undo is None for name in undo.nodes)


def accept(turn: Turn, node: NodeState, actor: str) -> None:
    """What could not be undone of a node counts as undone, by a person's word."""
    undo = node.undo
    assert undo is not None
    message = f"{actor or 'someone'} says that its effects are dealt with"
    error = failure(Code.UNDONE, message, permanent=False, at=turn.now, node=node.name)
    turn.effects.append(AcceptUndo(turn.state.job_id, node.name, error))
    node.completed -= undo.failed
    node.cancelled += undo.failed
    undo.undone, undo.failed = undo.undone + undo.failed, 0
    if node.status is not Status.FAILED:
        node.move(Trigger.UNDONE)
        node.reason, node.output, node.error = UNDONE, None, None
    turn.state.touch(node)
    turn.state.scope["nodes"][node.name] = node_scope(node)
    data: NodeUndone = {"undone": undo.undone, "failed": 0, "status": str(node.status), "by": actor}
    turn.emit(EventName.NODE_UNDONE, node.name, data=data)


def _finish_job(turn: Turn, undo: Undo) -> None:
    """Nothing is left that can be undone now."""
    state = turn.state
    left = [state.nodes[name] for name in undo.nodes if not _is_undone(state.nodes[name])]
    undo.is_over, undo.is_whole = True, not (left or undo.is_cut)
    status = JobStatus.CANCELLED if undo.cause is UndoCause.PERSON else JobStatus.FAILED
    if not undo.is_whole:
        state.error = _incomplete(turn, undo, left)
    elif undo.cause is UndoCause.PERSON:
        by = f"undone by {undo.actor or 'someone'}" + (f": {undo.reason}" if undo.reason else "")
        state.error = failure(Code.UNDONE, by, permanent=True, at=turn.now)
    else:
        state.error = undo.failed_by or state.error
    state.result = None
    state.move(status)
    state.holds.clear()
    state.finished_at = turn.moment()
    data: JobEnded | None = {"code": state.error.code, "message": state.error.message} if state.error else None
    turn.emit(END_OF_JOB[status], data=data)


def _incomplete(turn: Turn, undo: Undo, left: list[NodeState]) -> Failure:
    """What is left, and why; an undo after a failure also says what that was."""
    state = turn.state
    failed = [node for node in left if node.undo is not None and node.undo.failed]
    waiting = [node.name for node in left if node.undo is None]
    parts = []
    for node in failed[:3]:
        assert node.undo is not None and node.undo.error is not None
        tasks = "1 task" if node.undo.failed == 1 else f"{node.undo.failed} tasks"
        parts.append(f"{tasks} of {node.name} could not be undone ({node.undo.error.message})")
    if waiting:
        parts.append(f"{', '.join(waiting[:5])}{' and others' if len(waiting) > 5 else ''} waited for that")
    message = "; ".join(parts) or "a person cancelled it before it was undone"
    if undo.failed_by is not None:
        message = f"{message}; the job had failed: {undo.failed_by.message}"
    flags = ("--from", undo.first) if undo.first is not None else ()
    again = Remedy("Find out why, then go on with", "undo", state.job_id, flags=flags)
    return failure(Code.UNDO_INCOMPLETE, message, permanent=False, at=turn.now, hint=again)
