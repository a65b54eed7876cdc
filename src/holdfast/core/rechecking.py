"""Repairs a job whose state and rows disagree: it counts again, queues again, and ends what has ended.

A sound job stays as it is: a doubt too many does no harm.
"""

from __future__ import annotations

from collections import defaultdict

from holdfast.core import fanning, stopping, undoing
from holdfast.core.effects import OWN_TASK, FinishTask, MarkJob
from holdfast.core.events import EventName, Repairs
from holdfast.core.failing import Failure, failure
from holdfast.core.queueing import enqueue_again
from holdfast.core.reporting import TRIGGERS
from holdfast.core.retrying import delay_seconds
from holdfast.core.signals import InconsistencyFound, TaskCounts, TasksWithdrawn, UnqueuedTask
from holdfast.core.states import TERMINAL, JobStatus, NodeState, Status, Trigger
from holdfast.core.turn import Turn
from holdfast.errors import Code
from holdfast.remedies import Remedy


def repair(turn: Turn, signal: InconsistencyFound) -> Repairs:
    """Make nodes agree with their tasks and queue again what has left the queue; returns what it did, for the event."""
    nodes = turn.state.nodes
    begun = [node for node in nodes.values() if node.status is not Status.PENDING or node.expanded]
    recounted = [node.name for node in begun if _recount(turn, node, signal.counts.get(node.name, TaskCounts()))]
    tasks = _withdraw(turn, signal) if turn.state.stop is not None else _requeue(turn, signal)
    ended = [name for name in signal.ended if _end(turn, nodes[name], signal)]
    for node in begun:
        if node.is_undoing:
            fanning.fill_window(turn, node)
            undoing.settle(turn, node)
        elif turn.state.program.nodes[node.name].has_items and node.status is Status.RUNNING:
            fanning.fill_window(turn, node)
            fanning.settle_items(turn, node)
    done: Repairs = {}
    if recounted:
        done["recounted"] = recounted
    done |= tasks
    if ended:
        done["ended"] = ended
    return done


def doubt_end(turn: Turn, signal: InconsistencyFound) -> None:
    """A job has completed, but one of its nodes disagrees with its tasks: its result may be wrong, so it gets an error.

    It stays as it is: whether it runs again is for a person to decide.
    """
    state = turn.state
    if state.status is not JobStatus.COMPLETED or state.error is not None:
        return
    wrong = [node for node in state.nodes.values() if not _agrees(node, signal.counts.get(node.name, TaskCounts()))]
    if not wrong:
        return
    node, counts = wrong[0], signal.counts.get(wrong[0].name, TaskCounts())
    state.error = failure(
        Code.COUNTERS_DISAGREE,
        f"{node.name} completed with {node.completed} of {node.expanded} tasks done,"
        f" but its rows tell of {counts.completed} of {counts.rows}: its result may be wrong",
        permanent=True,
        at=turn.moment(),
        node=node.name,
        hint=Remedy("Run it again with", "rerun", turn.state.job_id, flags=("--from", node.name)),
    )
    turn.effects.append(MarkJob(state.job_id, state.error))
    names = [one.name for one in wrong]
    turn.emit(EventName.JANITOR_ACTED, data={"duty": signal.duty, "reason": signal.reason, "disagreeing": names})


def _agrees(node: NodeState, counts: TaskCounts) -> bool:
    found = (node.expanded, node.completed, node.failed, node.skipped, node.cancelled)
    return found == (counts.rows, counts.completed, counts.failed, counts.skipped, counts.cancelled)


def _recount(turn: Turn, node: NodeState, counts: TaskCounts) -> bool:
    """Rows are numbered from 0 without gaps: where the last one is tells how many there ought to be."""
    expanded = max(counts.rows, counts.last + 1)
    found = (node.expanded, node.completed, node.failed, node.skipped, node.cancelled, node.waiting)
    said = (expanded, counts.completed, counts.failed, counts.skipped, counts.cancelled, counts.waiting)
    enqueued = min(max(node.enqueued, counts.last_queued + 1), expanded)
    if found == said and node.enqueued == enqueued:
        return False
    node.expanded, node.completed, node.failed, node.skipped, node.cancelled, node.waiting = said
    node.enqueued = enqueued
    # The task behind the batches is none of them.
    node.width = max(node.width, expanded if node.batch_size is None else counts.last + 1)
    turn.state.touch(node)
    return True


def _requeue(turn: Turn, signal: InconsistencyFound) -> Repairs:
    """Each gets a new epoch: a worker that still runs the old one can no longer report.

    One that vanished once too often fails. Those come last: if too many items of a node have failed by that, it takes
    the others out of the queue.
    """
    items: defaultdict[str, list[int]] = defaultdict(list)
    given_up: defaultdict[str, list[int]] = defaultdict(list)
    hopeless: list[UnqueuedTask] = []
    for lost in signal.unqueued:
        if lost.task.requeues >= turn.state.rules.requeue_limit:
            hopeless.append(lost)
            continue
        node, task = turn.state.nodes[lost.node], lost.task
        due_at = _due_at(turn, node, lost)
        attempt = task.attempt + 1
        enqueue_again(turn, lost.node, lost.item, task, attempt=attempt, due_at=due_at, error=lost.error, requeued=True)
        if lost.item == OWN_TASK:
            node.move(Trigger.RETRY_SCHEDULED)
            node.retry_at, node.attempt = due_at, attempt
            turn.state.touch(node)
        items[lost.node].append(lost.item)
    for lost in hopeless:
        _give_up(turn, lost)
        given_up[lost.node].append(lost.item)
    done: Repairs = {}
    if items:
        done["requeued"] = _ranges_by_node(items)
    if given_up:
        done["given_up"] = _ranges_by_node(given_up)
    return done


def _give_up(turn: Turn, lost: UnqueuedTask) -> None:
    """Fail a task that the queue does not keep. Whether its last attempt ran is not known, so none is recorded."""
    node, times = turn.state.nodes[lost.node], lost.task.requeues + 1
    lost = _with_its_attempt(lost)
    attempt = lost.task.attempt
    error = failure(
        Code.REQUEUE_LIMIT,
        f"it vanished from the queue {'once' if times == 1 else f'{times} times'}",
        permanent=False,
        at=turn.now,
        node=lost.node,
        item=lost.item,
        attempt=attempt,
    )
    if node.is_undoing:
        undoing.task_ended(turn, node, lost.item, epoch=lost.task.epoch, attempt=attempt, error=error)
        return
    turn.effects.append(_finished(turn, lost, Status.FAILED, error))
    node.failed += 1
    turn.state.touch(node)
    if lost.item == OWN_TASK:
        node.attempt = attempt
        turn.finish_node(node, Trigger.ATTEMPT_FAILED, error=error, attempt=attempt)
        return
    node.error = node.error or error
    turn.emit(EventName.TASK_FAILED, node.name, lost.item, attempt, {"code": error.code, "message": error.message})
    fanning.cut_short(turn, node)


def _due_at(turn: Turn, node: NodeState, lost: UnqueuedTask) -> float | None:
    """Not before its time, if it waited for a retry: when that was has gone with the row, the longest pause is safe.

    So it is where the clock has stepped back, and the node's own word is worth nothing.
    """
    if lost.item == OWN_TASK and not turn.clock_stepped_back:
        return node.retry_at if node.retry_at is not None and node.retry_at > turn.now else None
    if lost.task.retries == 0:
        return None
    retry = turn.state.program.nodes[node.name].task_of(lost.item).spec.retry
    return turn.now + delay_seconds(retry, lost.task.retries, chance=1.0)


def _withdraw(turn: Turn, signal: InconsistencyFound) -> Repairs:
    """A stopping job takes nothing back into the queue: its lost tasks end as the withdrawn ones did."""
    stop = turn.state.stop
    assert stop is not None
    if turn.state.is_undoing:
        return _leave(turn, signal)
    status, error = stopping.ended_status(stop.cause), stopping.ended_error(turn, stop.cause)
    items: defaultdict[str, list[int]] = defaultdict(list)
    for lost in signal.unqueued:
        turn.effects.append(_finished(turn, _with_its_attempt(lost), status, error))
        items[lost.node].append(lost.item)
    if not items:
        return {}
    stopping.tasks_withdrawn(turn, TasksWithdrawn(dict(items)))
    return {"withdrawn": _ranges_by_node(items)}


def _leave(turn: Turn, signal: InconsistencyFound) -> Repairs:
    """An undo that a person has cancelled: its lost tasks stay completed."""
    items: defaultdict[str, list[int]] = defaultdict(list)
    for lost in map(_with_its_attempt, signal.unqueued):
        node, task = turn.state.nodes[lost.node], lost.task
        error = undoing.cut_error(turn)
        undoing.task_ended(turn, node, lost.item, epoch=task.epoch, attempt=task.attempt, error=error)
        items[lost.node].append(lost.item)
    return {"withdrawn": _ranges_by_node(items)} if items else {}


def _with_its_attempt(lost: UnqueuedTask) -> UnqueuedTask:
    """The attempt that vanished counts: a worker may have begun it, and no other attempt may have its number."""
    return lost._replace(task=lost.task._replace(attempt=lost.task.attempt + 1))


def _finished(turn: Turn, lost: UnqueuedTask, status: Status, error: Failure) -> FinishTask:
    task = lost.task
    return FinishTask(
        job_id=turn.state.job_id,
        node=lost.node,
        item=lost.item,
        status=status,
        epoch=task.epoch,
        attempt=task.attempt,
        signal_id=None,
        error=error,
        worker=None,
        started_at=None,
        retries=task.retries,
        lost=task.lost,
        crashes=task.crashes,
    )


def _ranges_by_node(items: dict[str, list[int]]) -> dict[str, list[list[int]]]:
    """By node, the items as ranges; of a node's own task its name tells all."""
    return {name: fanning.ranges([item for item in found if item >= 0]) for name, found in items.items()}


def _end(turn: Turn, node: NodeState, signal: InconsistencyFound) -> bool:
    """A node whose own task has ended, ends as its task did."""
    task = signal.ended[node.name]
    if node.status in TERMINAL or node.is_undoing:
        return False
    node.attempt = task.attempt
    reason = turn.state.stop_reason if task.status == Status.CANCELLED else None
    trigger = TRIGGERS[Status(task.status)]
    turn.finish_node(node, trigger, output=task.output, error=task.error, reason=reason, attempt=task.attempt)
    return True
