"""What a report means for its task, its node and the budgets. The epoch decides whether it counts at all."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core import fanning, undoing
from holdfast.core.effects import OWN_TASK, FinishTask, RecordAttempt
from holdfast.core.events import END_OF_TASK, EventName, NodeEnded, RetryScheduled
from holdfast.core.failing import Failure, failure
from holdfast.core.queueing import enqueue_again, spec_of
from holdfast.core.retrying import delay_seconds, return_pause_seconds
from holdfast.core.signals import Outcome, TaskReported, TaskView
from holdfast.core.states import JOB_CANCELLED, TERMINAL, NodeState, Status, Trigger
from holdfast.core.turn import Turn
from holdfast.define.gates import DEFAULT_COOLDOWN_SECONDS
from holdfast.errors import Code

FINGERPRINTS_LIMIT = 50
REPEATED = str(Code.REPEATED_FAILURE)
TRIGGERS = {
    Status.COMPLETED: Trigger.ATTEMPT_COMPLETED,
    Status.FAILED: Trigger.ATTEMPT_FAILED,
    Status.CANCELLED: Trigger.JOB_STOPPED,
}
"""How a node moves whose own task has ended."""


def task_reported(turn: Turn, signal: TaskReported) -> None:
    """Move the task that the report speaks of, if the report's epoch is still the task's."""
    task = signal.task
    if task is None or task.status in TERMINAL or task.epoch != signal.epoch:
        reject(turn, signal.node, signal.item, signal.epoch, signal.worker)
        return
    node = turn.state.nodes[signal.node]
    match signal.outcome:
        case Outcome.DONE:
            _finish(turn, signal, task, node, Status.COMPLETED, signal.error)
        case Outcome.FAILED:
            _failed(turn, signal, task, node)
        case Outcome.LOST:
            _lost(turn, signal, task, node)
        case Outcome.GIVEN_BACK:
            pause = return_pause_seconds(signal.attempt)
            due_at = turn.now + pause if pause else None
            _again(turn, signal, task, node, due_at)


def reject(turn: Turn, node: str, item: int, epoch: int, worker: str | None) -> None:
    """A report that came too late changes nothing, but leaves an event."""
    turn.emit(EventName.REPORT_REJECTED, node, item, data={"epoch": epoch, "worker": worker})


def _failed(turn: Turn, signal: TaskReported, task: TaskView, node: NodeState) -> None:
    """Retry within the budget. What is permanent or never retried, a spent budget and a stopping job end the task."""
    retry = spec_of(turn.state, node.name, signal.item).retry
    error = signal.error
    assert error is not None
    if _is_held(signal, error) and turn.state.stop is None:
        _hold(turn, signal, task, node, error)
        return
    is_retried = retry.retry_on is None or error.code in retry.retry_on
    is_final = error.is_permanent or not is_retried or task.retries >= retry.max_retries
    if is_final or turn.state.stop is not None:
        _spend(turn, node, signal.item, error)
        cut_by = None if is_final else turn.state.stop_reason
        _finish(turn, signal, task, node, Status.FAILED, error, cut_by=cut_by)
        return
    if not node.is_undoing and repeated(turn, node, error):
        hint = f"Not retried: {turn.state.rules.repeat_limit} items failed in the same way and none has completed."
        _finish(turn, signal, task, node, Status.FAILED, replace(error, hint=hint), not_retried=REPEATED)
        return
    delay = delay_seconds(retry, task.retries + 1, signal.chance)
    if signal.retry_after_seconds is not None:
        delay = max(delay, signal.retry_after_seconds)
    _again(turn, signal, task, node, turn.now + delay, retries=1)


def _is_held(signal: TaskReported, error: Failure) -> bool:
    return not error.is_permanent and (signal.held_by is not None or error.code == Code.DEPENDENCY_DOWN)


def _hold(turn: Turn, signal: TaskReported, task: TaskView, node: NodeState, error: Failure) -> None:
    """Something that the task needs is down: it waits behind the breaker, or for a while, and spends nothing."""
    due_at = signal.held_until
    if signal.held_by is None:
        pause = max(DEFAULT_COOLDOWN_SECONDS, signal.retry_after_seconds or 0.0)
        due_at = max(due_at or 0.0, turn.now + pause)
    _again(turn, signal, task, node, due_at, is_held=True)


def _spend(turn: Turn, node: NodeState, item: int, error: Failure) -> None:
    """Count an item that failed for good, while none has completed; the rarest make no room for more."""
    known = error.fingerprint in node.spent or len(node.spent) < FINGERPRINTS_LIMIT
    known = known and not node.is_undoing
    if item != OWN_TASK and node.completed == 0 and turn.state.stop is None and known:
        node.spent[error.fingerprint] = node.spent.get(error.fingerprint, 0) + 1


def repeated(turn: Turn, node: NodeState, error: Failure) -> bool:
    """Whether retries are a waste: many items have failed for good in the same way, and none has completed."""
    return node.completed == 0 and node.spent.get(error.fingerprint, 0) >= turn.state.rules.repeat_limit


def _lost(turn: Turn, signal: TaskReported, task: TaskView, node: NodeState) -> None:
    """A lost lease spends its own budget: killed while alone counts double as a crash of this very task."""
    rules = turn.state.rules
    crashes = task.crashes + (1 if signal.alone else 0)
    if crashes >= rules.crash_limit:
        last = signal.error.message if signal.error else "it killed its worker"
        times = "once" if crashes == 1 else f"{crashes} times"
        error = _failure(turn, signal, Code.QUARANTINED, f"{last}; it has crashed {times}", permanent=True)
        _finish(turn, signal, task._replace(crashes=crashes), node, Status.FAILED, error)
    elif task.lost >= rules.lost_limit:
        error = _failure(turn, signal, Code.LEASE_LOST, f"its lease was lost {task.lost + 1} times", permanent=False)
        _finish(turn, signal, task._replace(lost=task.lost + 1), node, Status.FAILED, error)
    else:
        _again(turn, signal, task._replace(lost=task.lost + 1, crashes=crashes), node, None)


def _failure(turn: Turn, signal: TaskReported, code: Code, message: str, *, permanent: bool) -> Failure:
    return failure(
        code,
        message,
        permanent=permanent,
        at=turn.now,
        node=signal.node,
        item=signal.item,
        attempt=signal.attempt,
    )


def _again(
    turn: Turn,
    signal: TaskReported,
    task: TaskView,
    node: NodeState,
    due_at: float | None,
    *,
    retries: int = 0,
    is_held: bool = False,
) -> None:
    """Queue the task once more as a new epoch; a stopping job takes nothing back into the queue.

    `task` has what it has lost by now; `retries` is how many of its retries this one costs.
    """
    if turn.state.stop is not None or fanning.is_cut_short(node):
        stopped, cut_by = _stopped(turn, signal), turn.state.stop_reason
        _finish(turn, signal, task, node, Status.CANCELLED, stopped, cut_by=cut_by)
        return
    spent = task._replace(retries=task.retries + retries)
    enqueue_again(turn, node.name, signal.item, spent, attempt=signal.attempt, due_at=due_at, error=signal.error)
    _record(turn, signal)
    data: RetryScheduled = {"outcome": str(signal.outcome), "retry_at": due_at, "worker": signal.worker}
    if is_held:
        data["reason"], data["breaker"] = str(Code.DEPENDENCY_DOWN), signal.held_by
    if signal.error:
        data["code"], data["message"] = signal.error.code, signal.error.message
    if signal.outcome is Outcome.LOST and not signal.alone:
        turn.emit(EventName.WORKER_LOST, signal.node, signal.item, signal.attempt, {"worker": signal.worker})
    if signal.item == OWN_TASK:
        node.move(Trigger.RETRY_SCHEDULED)
        node.retry_at, node.attempt, node.error = due_at, signal.attempt, signal.error
        turn.state.touch(node)
        turn.emit(EventName.NODE_RETRY_SCHEDULED, node.name, OWN_TASK, signal.attempt, data)
    else:
        turn.emit(EventName.TASK_RETRY_SCHEDULED, node.name, signal.item, signal.attempt, data)


def _stopped(turn: Turn, signal: TaskReported) -> Failure:
    return _failure(turn, signal, Code.CANCELLED, "it was stopped before it could run again", permanent=False)


def _finish(
    turn: Turn,
    signal: TaskReported,
    task: TaskView,
    node: NodeState,
    status: Status,
    error: Failure | None,
    *,
    not_retried: str | None = None,
    cut_by: str | None = None,
) -> None:
    """End the task, count it, and end its node if that was the last of it.

    `not_retried` is why it has no retry although it could have one; `cut_by` is what kept it from going on.
    """
    if node.is_undoing:
        _end_undo(turn, signal, node, None if status is Status.COMPLETED else error)
        return
    output = signal.output if status is Status.COMPLETED else None
    turn.effects.append(
        FinishTask(
            job_id=turn.state.job_id,
            node=signal.node,
            item=signal.item,
            status=status,
            epoch=signal.epoch,
            attempt=signal.attempt,
            signal_id=signal.signal_id,
            error=error,
            worker=signal.worker,
            started_at=signal.started_at,
            retries=task.retries,
            lost=task.lost,
            crashes=task.crashes,
        )
    )
    if status is not Status.COMPLETED or signal.log or signal.extra:
        _record(turn, signal)
    _count(node, status)
    turn.state.touch(node)
    data: NodeEnded = {"worker": signal.worker, "started_at": signal.started_at}
    if not_retried is not None:
        data["reason"] = not_retried
    if signal.item == OWN_TASK:
        node.attempt = signal.attempt
        trigger = TRIGGERS[status]
        turn.finish_node(node, trigger, output=output, error=error, reason=cut_by, attempt=signal.attempt, data=data)
        return
    if cut_by == JOB_CANCELLED:
        node.reason = cut_by
    if error is not None:
        data["code"], data["message"] = error.code, error.message
        if status is Status.FAILED:
            node.error = node.error or error
    turn.emit(END_OF_TASK[status], node.name, signal.item, signal.attempt, data)
    if status is Status.FAILED:
        fanning.cut_short(turn, node)
    fanning.fill_window(turn, node)
    fanning.settle_items(turn, node)


def _end_undo(turn: Turn, signal: TaskReported, node: NodeState, error: Failure | None) -> None:
    """Its effects are taken back, or with an error they stay."""
    _record(turn, signal)
    undoing.task_ended(
        turn,
        node,
        signal.item,
        epoch=signal.epoch,
        attempt=signal.attempt,
        error=error,
        worker=signal.worker,
        started_at=signal.started_at,
    )


def _count(node: NodeState, status: Status) -> None:
    match status:
        case Status.COMPLETED:
            node.completed += 1
            node.spent.clear()
        case Status.FAILED:
            node.failed += 1
        case _:
            node.cancelled += 1


def _record(turn: Turn, signal: TaskReported) -> None:
    extra = signal.extra
    if turn.state.nodes[signal.node].is_undoing:
        extra = {**(extra or {}), "compensates": spec_of(turn.state, signal.node, signal.item).handler}
    turn.effects.append(
        RecordAttempt(
            job_id=turn.state.job_id,
            node=signal.node,
            item=signal.item,
            attempt=signal.attempt,
            epoch=signal.epoch,
            outcome=str(signal.outcome),
            worker=signal.worker,
            started_at=signal.started_at,
            error=signal.error,
            log=signal.log,
            extra=extra,
            log_times=signal.log_times,
        )
    )
