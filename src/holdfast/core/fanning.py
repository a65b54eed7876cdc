"""Many tasks of one node: making their rows in chunks, keeping the window full, ending the node when all have ended.

They are the items of a fan-out, or the batches of a fan-in: batches are made, queued and settled as items are, and when
they have all completed, the fan-in's own task follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.core.batching import Pages
from holdfast.core.dispatching import dispatch
from holdfast.core.effects import FailTask, WithdrawTasks
from holdfast.core.events import EventName, ItemsFixed, NodeEnded
from holdfast.core.failing import Failure, failure
from holdfast.core.item_keys import keys_of
from holdfast.core.queueing import create, enqueue, enqueue_waiting, lane_of
from holdfast.core.states import JOB_CANCELLED, UPSTREAM_FAILED, JobState, NodeState, Status, StopCause, Trigger
from holdfast.core.turn import Turn
from holdfast.define.node import OnItemFailure
from holdfast.define.plain import Sizes
from holdfast.errors import Code, PayloadRefused, TemplateError
from holdfast.remedies import Remedy

TOO_MANY_FAILED = "too_many_failed"


def begin_items(turn: Turn, node: NodeState, items: Sequence[Any], width: ItemsFixed) -> None:
    """The width is fixed: make the rows of the first items."""
    start_items(turn, node, width)
    expand_chunk(turn, node, items)


def start_items(turn: Turn, node: NodeState, width: ItemsFixed) -> None:
    node.move(Trigger.EXPANDED)
    node.started_at = turn.moment()
    turn.state.touch(node)
    turn.emit(EventName.NODE_DISPATCHED, node.name, data=width)
    turn.start_job()


def items_of(turn: Turn, node: NodeState) -> Sequence[Any]:
    """What its tasks are made for, as it was when it began."""
    program = turn.state.program.nodes[node.name]
    if node.batch_size is not None:
        return Pages(turn.state.nodes[turn.state.program.graph.fan_out_of[node.name]], node.batch_size)
    assert program.source is not None
    items: list[Any] = program.source.render(turn.scope_of(node.name))
    return items


def expand_chunk(turn: Turn, node: NodeState, items: Sequence[Any], limit: int | None = None) -> None:
    """Make the next rows, as far as their number and their bytes allow. An item whose params are refused is a failed
    item, not a failed node."""
    rules, program = turn.state.rules, turn.state.program.nodes[node.name]
    chunk, params = min(limit or rules.chunk_size, rules.chunk_size), program.items.params
    first, last = node.expanded, min(node.expanded + chunk, node.width)
    keys = keys_of(program.item_key, items[first:last]) if node.batch_size is None else None
    scope, sizes = dict(turn.scope_of(node.name)), Sizes()
    rendered: list[bytes] = []
    start = first
    for index in range(first, last):
        if turn.state.has_made_enough:
            last = index
            break
        scope["item"], scope["index"] = items[index], index
        try:
            rendered.append(turn.params(params, scope, sizes))
        except (TemplateError, PayloadRefused) as problem:
            _make(turn, node, start, rendered, keys, first)
            error = refusal(turn, node.name, index, problem)
            refuse_item(turn, node, index, error, keys[index - first] if keys is not None else None)
            rendered, start = [], index + 1
    _make(turn, node, start, rendered, keys, first)
    node.expanded = last
    turn.state.touch(node)
    if last > first:
        turn.emit(EventName.TASK_READY, node.name, data={"first": first, "last": last - 1})
    cut_short(turn, node)
    fill_window(turn, node)
    settle_items(turn, node)


def _make(turn: Turn, node: NodeState, start: int, params: list[bytes], keys: list[str] | None, first: int) -> None:
    """Make the rows from item `start` on; the keys begin with that of item `first`."""
    if params:
        known = keys[start - first : start - first + len(params)] if keys is not None else None
        create(turn, node, start, params, known)


def refusal(turn: Turn, name: str, item: int, problem: TemplateError | PayloadRefused) -> Failure:
    return failure(problem.code, str(problem), permanent=True, at=turn.now, node=name, item=item)


def refuse_item(turn: Turn, node: NodeState, index: int, error: Failure, key: str | None) -> None:
    epoch, attempt = node.base_epoch + 1, node.base_attempt
    turn.effects.append(FailTask(turn.state.job_id, node.name, index, error, epoch, attempt, key))
    count_refused(turn, node, index, error)


def count_refused(turn: Turn, node: NodeState, index: int, error: Failure) -> None:
    turn.emit(EventName.TASK_FAILED, node.name, index, None, {"code": error.code, "message": error.message})
    node.failed += 1
    node.error = node.error or error


def is_cut_short(node: NodeState) -> bool:
    """Whether too many of its items have failed and the others are not wanted any more."""
    return node.reason == TOO_MANY_FAILED


def cut_short(turn: Turn, node: NodeState) -> None:
    """An item has failed: if that was one too many, withdraw those that wait; those that run may finish."""
    definition = turn.state.program.nodes[node.name].node
    if definition.on_item_failure is not OnItemFailure.STOP or definition.tolerate.allows(node.failed, node.items):
        return
    if turn.state.stop is not None or is_cut_short(node) or node.is_matching:
        # Those that failed before a correction may run again.
        return
    node.reason = TOO_MANY_FAILED
    turn.state.touch(node)
    if not node.open_tasks:
        return
    withdraw_rest(turn, node, "too many other items failed")


def withdraw_rest(turn: Turn, node: NodeState, reason: str) -> None:
    """End what is not leased of a node; the answer says which tasks these were."""
    unqueued = ((node.name, node.enqueued, node.expanded - 1),) if node.enqueued < node.expanded else ()
    waiting = (node.name,) if node.waiting else ()
    error = failure(Code.CANCELLED, reason, permanent=False, at=turn.now, node=node.name)
    turn.withdraw(
        WithdrawTasks(
            turn.state.job_id,
            Status.CANCELLED,
            leases_too=False,
            error=error,
            unqueued=unqueued,
            waiting=waiting,
            node=node.name,
        )
    )
    node.enqueued, node.waiting = node.expanded, 0


def items_withdrawn(turn: Turn, items: dict[str, list[int]]) -> None:
    """The answer to a node that was cut short, or whose batches will not go on."""
    for name, found in items.items():
        node = turn.state.nodes[name]
        node.cancelled += len(found)
        turn.state.touch(node)
        reason = TOO_MANY_FAILED if is_cut_short(node) else UPSTREAM_FAILED
        turn.emit(EventName.TASK_CANCELLED, name, data={"items": ranges(found), "count": len(found), "reason": reason})
        if node.status is Status.RUNNING:
            settle_items(turn, node)


def ranges(items: list[int]) -> list[list[int]]:
    """[0, 1, 2, 7] as [[0, 2], [7, 7]]: a hundred thousand neighbours take one line."""
    ranges: list[list[int]] = []
    for item in sorted(items):
        if ranges and item == ranges[-1][1] + 1:
            ranges[-1][1] = item
        else:
            ranges.append([item, item])
    return ranges


def fill_window(turn: Turn, node: NodeState) -> None:
    """Queue the next items once half of the window is free: few statements, and a queue that stays small."""
    window = turn.state.rules.window_size
    if turn.state.stop is not None or node.queued > window // 2 or is_cut_short(node):
        return
    program = turn.state.program.nodes[node.name]
    lane = lane_of(turn, node.name, 0)
    if node.waiting:
        count = min(node.waiting, window - node.queued)
        enqueue_waiting(turn, node, count, lane)
        if program.has_items:
            turn.emit(EventName.TASK_DISPATCHED, node.name, data={"count": count})
        else:
            turn.emit(EventName.NODE_DISPATCHED, node.name, data={"count": count})
        node.waiting -= count
        turn.state.touch(node)
    if node.enqueued >= node.expanded or node.queued > window // 2:
        return
    first, last = node.enqueued, min(node.enqueued + window - node.queued, node.expanded) - 1
    enqueue(turn, node, first, last, lane, turn.state.queued_now)
    turn.emit(EventName.TASK_DISPATCHED, node.name, data={"first": first, "last": last})
    node.enqueued = last + 1
    turn.state.touch(node)


def settle_items(turn: Turn, node: NodeState) -> None:
    """Go on when no item is open: the node ends by its items, or by the stop that cut it short.

    What a person's cancel has left unfinished is remembered, whatever stops the job later.
    """
    if node.open_tasks or (node.is_matching and turn.state.stop is None):
        return
    tolerate = turn.state.program.nodes[node.name].node.tolerate
    kept = JOB_CANCELLED if node.reason == JOB_CANCELLED else None
    if turn.state.stop is None and is_cut_short(node):
        turn.finish_node(node, Trigger.TOO_MANY_FAILED, error=_items_failed(turn, node), data=_tally(node))
    elif node.expanded == node.width and not node.cancelled and not node.is_matching:
        if not tolerate.allows(node.failed, node.items):
            error = _items_failed(turn, node)
            turn.finish_node(node, Trigger.TOO_MANY_FAILED, error=error, reason=kept, data=_tally(node))
        elif node.batch_size is not None:
            _batches_done(turn, node)
        else:
            output = {"fan_out_count": node.items}
            turn.finish_node(node, Trigger.ITEMS_SETTLED, output=output, data=_tally(node))
    elif turn.state.stop is not None:
        if turn.state.stop.cause is StopCause.TIMEOUT or node.failed:
            error = node.error or job_timeout(turn, node.name)
            reason = kept or turn.state.stop_reason
            turn.finish_node(node, Trigger.OPEN_TASKS_ENDED, error=error, reason=reason, data=_tally(node))
        else:
            turn.finish_node(node, Trigger.JOB_STOPPED, reason=kept or turn.state.stop_reason, data=_tally(node))
    elif node.expanded == node.width:
        # A person ran some of its items again, and others stay cancelled.
        if not tolerate.allows(node.failed, node.items):
            error = _items_failed(turn, node)
            turn.finish_node(node, Trigger.TOO_MANY_FAILED, error=error, reason=kept, data=_tally(node))
        else:
            turn.finish_node(node, Trigger.JOB_STOPPED, reason=kept or "items_cancelled", data=_tally(node))


def _batches_done(turn: Turn, node: NodeState) -> None:
    """What follows the batches: the node's own task, or its owner who gathers what they gave."""
    stop = turn.state.stop
    if stop is not None and stop.cause is StopCause.TIMEOUT:
        turn.finish_node(node, Trigger.OPEN_TASKS_ENDED, error=job_timeout(turn, node.name), data=_tally(node))
    elif stop is not None:
        turn.finish_node(node, Trigger.JOB_STOPPED, reason=turn.state.stop_reason, data=_tally(node))
    elif turn.state.program.nodes[node.name].task is not None:
        dispatch(turn, node)


def _items_failed(turn: Turn, node: NodeState) -> Failure:
    """The error of the first failed item stands for the node, with the number of failed items."""
    stop = turn.state.stop
    if node.error is None and stop is not None and stop.cause is StopCause.TIMEOUT:
        return job_timeout(turn, node.name)
    first = node.error
    error = failure(
        first.code if first else Code.HANDLER_ERROR,
        f"{node.failed} of {node.items} {'batches' if node.batch_size else 'items'} failed;"
        f" the first: {first.message if first else 'an item failed'}",
        permanent=first is not None and first.is_permanent,
        at=turn.now,
        node=node.name,
        hint=first.next_step if first else None,
    )
    return replace(error, fingerprint=first.fingerprint, index=first.index) if first else error


def job_timeout(turn: Turn, node: str | None) -> Failure:
    limit = turn.state.program.definition.timeout_seconds or 0
    return failure(
        Code.JOB_TIMEOUT,
        f"the job did not end within {limit:g} s",
        permanent=False,
        at=turn.now,
        node=node,
        hint=Remedy("Raise the workflow's timeout, or find out what was slow", "events", turn.state.job_id),
    )


def _tally(node: NodeState) -> NodeEnded:
    return {
        "width": node.items,
        "completed": node.completed,
        "failed": node.failed,
        "skipped": node.missed,
        "cancelled": node.cancelled,
    }


def owes_rows(state: JobState, node: NodeState) -> bool:
    """Whether a node still has items without a row, and wants them; or waits to have its own."""
    if node.status is Status.READY:
        return not node.expanded
    is_short = node.status is Status.RUNNING and (node.expanded < node.width or node.is_matching)
    return is_short and state.program.nodes[node.name].has_items and not is_cut_short(node)
