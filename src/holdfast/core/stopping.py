"""How a job ends early: nothing new begins, queued tasks are withdrawn, held ones may finish for a while."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core import undoing
from holdfast.core.effects import WithdrawTasks
from holdfast.core.events import EventName, TasksEnded
from holdfast.core.failing import Failure, failure
from holdfast.core.fanning import items_withdrawn, job_timeout, ranges, settle_items
from holdfast.core.outcome import counts
from holdfast.core.signals import REQUEST_ID, CancelRequested, TasksWithdrawn
from holdfast.core.states import JOB_CANCELLED, JobState, NodeState, Status, Stop, StopCause, Trigger
from holdfast.core.turn import Turn
from holdfast.errors import Code


def stop_job(turn: Turn, cause: StopCause) -> None:
    """Begin the end: a first stop wins; a cancel or a timeout may shorten the drain of a failure."""
    state = turn.state
    if state.stop is not None and (cause is StopCause.FAILED or state.stop.cause is not StopCause.FAILED):
        return
    until = turn.now + _patience(state, cause)
    state.stop = Stop(cause, until if state.stop is None else min(until, state.stop.until))
    state.job_touched = True
    if state.is_undoing:
        undoing.cancel(turn)
    _withdraw(turn, leases_too=cause is StopCause.TIMEOUT)
    if state.is_undoing:
        return
    for node in state.nodes.values():
        _stop_node(turn, node, cause)


def _patience(state: JobState, cause: StopCause) -> float:
    """How long what is leased may go on after a stop."""
    match cause:
        case StopCause.FAILED:
            return state.rules.drain_seconds
        case StopCause.CANCELLED:
            return state.rules.grace_seconds
        case StopCause.TIMEOUT:
            return 0.0


def bound_deadlines(state: JobState, now: float) -> None:
    """No deadline is further away than its own time, counted from now. It only is after the clock has stepped back."""
    timeout = state.program.definition.timeout_seconds
    if state.deadline_at is not None and timeout is not None:
        state.deadline_at = min(state.deadline_at, now + timeout)
    if state.stop is not None:
        state.stop.until = min(state.stop.until, now + _patience(state, state.stop.cause))


def _withdraw(turn: Turn, *, leases_too: bool) -> None:
    """Ask for the queue rows and for the rows outside the window; a task with an unread report is neither."""
    stop, nodes = turn.state.stop, turn.state.nodes.values()
    assert stop is not None
    if not any(n.open_tasks for n in nodes):
        stop.leases_ended = stop.leases_ended or leases_too
        return
    unqueued = tuple((n.name, n.enqueued, n.expanded - 1) for n in nodes if n.enqueued < n.expanded)
    waiting = tuple(n.name for n in nodes if n.waiting)
    is_undoing = turn.state.is_undoing
    status, error = ended_status(stop.cause), undoing.cut_error(turn) if is_undoing else ended_error(turn, stop.cause)
    turn.withdraw(WithdrawTasks(turn.state.job_id, status, leases_too, error, unqueued, waiting))
    for node in nodes:
        node.waiting = 0


def withdraw_strays(turn: Turn) -> None:
    """All tasks of a finished job have ended: what is still queued for it has no use."""
    error = failure(Code.CANCELLED, "the job is over", permanent=True, at=turn.now)
    turn.withdraw(WithdrawTasks(turn.state.job_id, Status.CANCELLED, leases_too=True, error=error, unqueued=()))


def _stop_node(turn: Turn, node: NodeState, cause: StopCause) -> None:
    """Nodes that wait, gather or were put off end at once; the others when their last task is withdrawn or reported.

    So does a fan-in that has not begun and whose batches wait: the job must not be over before they are counted.
    """
    gathers = not turn.state.program.nodes[node.name].has_items
    match node.status:
        case Status.PENDING if node.open_tasks or _waits_for_the_last(turn, node):
            pass
        case Status.PENDING:
            turn.finish_node(node, Trigger.JOB_STOPPED, reason=turn.state.stop_reason)
        case Status.READY if node.open_tasks:
            pass
        case Status.READY | Status.RUNNING if gathers and cause is StopCause.TIMEOUT:
            turn.finish_node(node, Trigger.OPEN_TASKS_ENDED, error=job_timeout(turn, node.name))
        case Status.READY | Status.RUNNING if gathers:
            turn.finish_node(node, Trigger.JOB_STOPPED, reason=turn.state.stop_reason)
        case Status.RUNNING:
            settle_items(turn, node)
        case _:
            pass


def _waits_for_the_last(turn: Turn, node: NodeState) -> bool:
    """The borders of a job that a person cancels: whether they are reached is known when all else has ended."""
    stop = turn.state.stop
    return stop is not None and stop.cause is StopCause.CANCELLED and not counts(turn.state, node.name)


def tasks_withdrawn(turn: Turn, signal: TasksWithdrawn) -> None:
    """Count what the owner withdrew; a node whose last open task that was ends with it."""
    state = turn.state
    if state.is_terminal:
        return
    if state.stop is None:
        items_withdrawn(turn, signal.items)
        return
    if state.is_undoing:
        undoing.tasks_withdrawn(turn, signal)
        return
    if signal.leases_too:
        state.stop.leases_ended = True
        state.job_touched = True
    timed_out = state.stop.cause is StopCause.TIMEOUT
    for name, items in signal.items.items():
        node = state.nodes[name]
        if timed_out:
            node.failed += len(items)
        else:
            node.cancelled += len(items)
        if items and state.stop.cause is StopCause.CANCELLED:
            node.reason = JOB_CANCELLED
        state.touch(node)
        if items and items[0] >= 0:
            data: TasksEnded = {"items": ranges(items), "count": len(items)}
            if timed_out:
                turn.emit(EventName.TASK_FAILED, name, data={**data, "code": str(Code.JOB_TIMEOUT)})
            else:
                turn.emit(EventName.TASK_CANCELLED, name, data={**data, "reason": state.stop_reason})
    for node in list(state.nodes.values()):
        if node.status is Status.PENDING and not node.open_tasks and not _waits_for_the_last(turn, node):
            turn.finish_node(node, Trigger.JOB_STOPPED, reason=state.stop_reason)
        elif node.status in (Status.READY, Status.DISPATCHED) and not node.open_tasks:
            if timed_out:
                turn.finish_node(node, Trigger.OPEN_TASKS_ENDED, error=job_timeout(turn, node.name))
            else:
                turn.finish_node(node, Trigger.JOB_STOPPED, reason=state.stop_reason)
        elif node.status is Status.RUNNING:
            settle_items(turn, node)


def time_passed(turn: Turn) -> None:
    """Apply whichever of the job's deadlines has come."""
    state = turn.state
    if state.is_terminal:
        return
    stop = state.stop
    if stop is not None and stop.leases_ended:
        return
    may_time_out = (stop is None or stop.cause is StopCause.FAILED) and state.pause is None
    if may_time_out and state.deadline_at is not None and turn.now >= state.deadline_at:
        stop_job(turn, StopCause.TIMEOUT)
    elif stop is not None and turn.now >= stop.until:
        _withdraw(turn, leases_too=True)


def cancel(turn: Turn, signal: CancelRequested) -> None:
    """Stop for a person. The signal is answered once it is known whether that ends anything early."""
    error = failure(
        Code.CANCELLED,
        f"cancelled by {signal.actor or 'someone'}" + (f": {signal.reason}" if signal.reason else ""),
        permanent=True,
        at=turn.now,
    )
    if signal.request_id is not None:
        error = replace(error, other={REQUEST_ID: signal.request_id})
    turn.state.error = error
    stop_job(turn, StopCause.CANCELLED)
    assert turn.state.stop is not None
    turn.state.stop.signal_id = signal.signal_id


def ended_status(cause: StopCause) -> Status:
    return Status.FAILED if cause is StopCause.TIMEOUT else Status.CANCELLED


def ended_error(turn: Turn, cause: StopCause) -> Failure:
    if cause is StopCause.TIMEOUT:
        return job_timeout(turn, None)
    text = "the job was cancelled" if cause is StopCause.CANCELLED else "another node failed and stopped the job"
    return failure(Code.CANCELLED, text, permanent=False, at=turn.now)
