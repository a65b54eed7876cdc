"""Fan-outs and fan-ins: fixing the width, making rows in chunks, keeping the window full, gathering results.

A fan-in with batches is both: its batches are made, queued and settled as the items of a fan-out are, and when they
have all completed its own task follows.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, overload

from holdfast.core.dispatching import dispatch
from holdfast.core.effects import OWN_TASK, FailTask, WithdrawTasks
from holdfast.core.events import EventName
from holdfast.core.failing import failure
from holdfast.core.queueing import create, enqueue, enqueue_waiting, lane_of, limits_of
from holdfast.core.states import JOB_CANCELLED, UPSTREAM_FAILED, JobState, NodeState, Status, StopCause, Trigger
from holdfast.core.turn import Turn
from holdfast.define.bounds import MAX_ITEMS
from holdfast.define.node import AUTO, Aggregation, NodeType, OnItemFailure
from holdfast.define.plain import OutsizedError, Sizes, kind_of
from holdfast.define.program import NodeProgram
from holdfast.errors import Bug, Code, PayloadRefused, TemplateError

TOO_MANY_FAILED = "too_many_failed"


def begin_fan_out(turn: Turn, node: NodeState, items: Any) -> None:
    """Fix source and width, once; then make the first chunk. An empty source completes at once."""
    source = f"the source of fan-out {node.name}"
    if not isinstance(items, list):
        written = turn.state.program.nodes[node.name].node.source
        message = f"{source} must be an array, but {written} is {kind_of(items)}"
        error = failure(Code.CONTRACT_VIOLATION, message, permanent=True, at=turn.now, node=node.name)
        turn.finish_node(node, Trigger.REFUSED, error=error)
        return
    try:
        Sizes().bound(items, turn.state.rules.payload_limit_bytes)
    except OutsizedError as problem:
        raise PayloadRefused(f"{source} is {problem}; no more can be fanned out") from None
    limits_of(turn, node.name, 0)  # A key that cannot be rendered refuses the node, before anything is made.
    node.width = len(items)
    _begin_items(turn, node, items, {"width": node.width})


def _begin_items(turn: Turn, node: NodeState, items: Sequence[Any], told: dict[str, Any]) -> None:
    node.move(Trigger.EXPANDED)
    node.started_at = turn.moment()
    turn.state.touch(node)
    turn.emit(EventName.NODE_DISPATCHED, node.name, data=told)
    turn.start_job()
    expand_chunk(turn, node, items)


class Page(NamedTuple):
    """The items of one batch, as `ctx.results` takes them."""

    node: str
    offset: int
    limit: int


class Pages(Sequence[dict[str, Any]]):
    """The batches of a fan-out: batch k is a fixed range of its items, whatever became of them."""

    def __init__(self, fan_out: NodeState, size: int) -> None:
        self._fan_out, self._size = fan_out, size

    def __len__(self) -> int:
        return -(-self._fan_out.width // self._size)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | Sequence[dict[str, Any]]:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        first = index * self._size
        return Page(self._fan_out.name, first, min(self._size, self._fan_out.width - first))._asdict()


def automatic_size(width: int) -> int:
    """So that there is 1 batch for up to 100 items, 5 for up to 500, 20 for up to 2,000, then one per 100."""
    for most, batches in ((100, 1), (500, 5), (2000, 20)):
        if width <= most:
            return max(1, -(-width // batches))
    return 100


def begin_batches(turn: Turn, node: NodeState) -> None:
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
        node.batch_size = _batch_size(program, fan_out.width, turn.scope_of(node.name))
    pages = Pages(fan_out, node.batch_size)
    if node.expanded and node.width != len(pages):
        raise Bug(f"fan-in {node.name} had {node.width} batches and has now {len(pages)}")
    node.width = len(pages)
    _begin_items(turn, node, pages, {"width": node.width, "batch_size": node.batch_size})


def _batch_size(program: NodeProgram, width: int, scope: dict[str, Any]) -> int:
    batches = program.node.batches
    size = program.batch_size.render(scope) if program.batch_size is not None else AUTO
    if batches is None or size == AUTO:
        return automatic_size(width)
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MAX_ITEMS:
        shown = f"{size:,}" if isinstance(size, int) and not isinstance(size, bool) else kind_of(size)
        message = f"the size of a batch of {program.node.name} must be a whole number from 1 to {MAX_ITEMS:,}, or auto"
        raise TemplateError(f"{message}, not {shown}", expression=str(batches.size))
    return size


def batches_of(state: JobState, name: str, width: int) -> int:
    """How many batches a fan-in will have that begins now, if what their size is made of is known."""
    try:
        size = _batch_size(state.program.nodes[name], width, state.scope)
    except TemplateError:
        return 0
    return -(-width // size)


def items_of(turn: Turn, node: NodeState) -> Sequence[Any]:
    """What its tasks are made for, as it was when it began."""
    program = turn.state.program.nodes[node.name]
    if node.batch_size is not None:
        return Pages(turn.state.nodes[turn.state.program.graph.fan_out_of[node.name]], node.batch_size)
    assert program.source is not None
    items: list[Any] = program.source.render(turn.scope_of(node.name))
    return items


def expand_chunk(turn: Turn, node: NodeState, items: Sequence[Any], limit: int | None = None) -> None:
    """Make the next rows: so many, or so many bytes. An item whose params are refused is a failed item, not a failed
    node."""
    rules, params = turn.state.rules, turn.state.program.nodes[node.name].items.params
    chunk = min(limit or rules.chunk_size, rules.chunk_size)
    first, last = node.expanded, min(node.expanded + chunk, node.width)
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
            if rendered:
                create(turn, node, start, rendered)
            _refuse_item(turn, node, index, problem)
            rendered, start = [], index + 1
    if rendered:
        create(turn, node, start, rendered)
    node.expanded = last
    turn.state.touch(node)
    if last > first:
        turn.emit(EventName.TASK_READY, node.name, data={"first": first, "last": last - 1})
    cut_short(turn, node)
    fill_window(turn, node)
    settle_items(turn, node)


def _refuse_item(turn: Turn, node: NodeState, index: int, problem: TemplateError | PayloadRefused) -> None:
    error = failure(problem.code, str(problem), permanent=True, at=turn.now, node=node.name, item=index)
    turn.effects.append(FailTask(turn.state.job_id, node.name, index, error, node.base_epoch + 1, node.base_attempt))
    turn.emit(EventName.TASK_FAILED, node.name, index, data={"code": error["code"], "message": error["message"]})
    node.failed += 1
    node.error = node.error or error


def is_cut_short(node: NodeState) -> bool:
    """Whether too many of its items have failed and the others are not wanted any more."""
    return node.reason == TOO_MANY_FAILED


def cut_short(turn: Turn, node: NodeState) -> None:
    """An item has failed: if that was one too many, withdraw those that wait; those that run may finish."""
    definition = turn.state.program.nodes[node.name].node
    if definition.on_item_failure is not OnItemFailure.STOP or definition.tolerate.allows(node.failed, node.width):
        return
    if turn.state.stop is not None or is_cut_short(node):
        return
    node.reason = TOO_MANY_FAILED
    turn.state.touch(node)
    if not node.open_tasks:
        return
    withdraw_rest(turn, node, "too many other items failed")


def withdraw_rest(turn: Turn, node: NodeState, reason: str) -> None:
    """End what is not leased of a node; the answer tells what that was."""
    unqueued = ((node.name, node.enqueued, node.expanded - 1),) if node.enqueued < node.expanded else ()
    waiting = (node.name,) if node.waiting else ()
    error = failure(Code.CANCELLED, reason, permanent=False, at=turn.now, node=node.name)
    turn.effects.append(
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
        turn.emit(
            EventName.TASK_DISPATCHED if program.has_items else EventName.NODE_DISPATCHED,
            node.name,
            data={"count": count},
        )
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
    if node.open_tasks:
        return
    tolerate = turn.state.program.nodes[node.name].node.tolerate
    kept = JOB_CANCELLED if node.reason == JOB_CANCELLED else None
    if turn.state.stop is None and is_cut_short(node):
        turn.finish_node(node, Trigger.TOO_MANY_FAILED, error=_items_failed(turn, node), data=_tally(node))
    elif node.expanded == node.width and not node.cancelled:
        if not tolerate.allows(node.failed, node.width):
            error = _items_failed(turn, node)
            turn.finish_node(node, Trigger.TOO_MANY_FAILED, error=error, reason=kept, data=_tally(node))
        elif node.batch_size is not None:
            _batches_done(turn, node)
        else:
            output = {"fan_out_count": node.width}
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
        if not tolerate.allows(node.failed, node.width):
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


def _items_failed(turn: Turn, node: NodeState) -> dict[str, Any]:
    """The first failed item speaks for the node; the count tells how many there are."""
    stop = turn.state.stop
    if node.error is None and stop is not None and stop.cause is StopCause.TIMEOUT:
        return job_timeout(turn, node.name)
    first = node.error or {}
    code, message = first.get("code", str(Code.HANDLER_ERROR)), first.get("message", "an item failed")
    error = failure(
        code,
        f"{node.failed} of {node.width} {'batches' if node.batch_size else 'items'} failed; the first: {message}",
        permanent=first.get("class") == "permanent",
        at=turn.now,
        node=node.name,
        hint=first.get("hint"),
    )
    return {
        **error,
        "fingerprint": first.get("fingerprint", error["fingerprint"]),
        "index": first.get("index"),
    }


def job_timeout(turn: Turn, node: str | None) -> dict[str, Any]:
    limit = turn.state.program.definition.timeout_seconds or 0
    return failure(
        Code.JOB_TIMEOUT,
        f"the job did not end within {limit:g} s",
        permanent=False,
        at=turn.now,
        node=node,
        hint="Raise the workflow's timeout, or find out what was slow: holdfast events JOB",
    )


def _tally(node: NodeState) -> dict[str, Any]:
    return {
        "width": node.width,
        "completed": node.completed,
        "failed": node.failed,
        "skipped": node.skipped,
        "cancelled": node.cancelled,
    }


def begin_fan_in(turn: Turn, node: NodeState) -> None:
    """Ask for the results; they are read after this commit, so that the last reports are among them."""
    fan_out = turn.state.nodes[turn.state.program.graph.fan_out_of[node.name]]
    if fan_out.status is Status.COMPLETED and fan_out.width != fan_out.settled:
        raise Bug(f"fan-in {node.name} fired although {fan_out.name} has {fan_out.width - fan_out.settled} open items")
    node.move(Trigger.GATHERING)
    node.started_at = turn.moment()
    turn.state.touch(node)


def owes_rows(state: JobState, node: NodeState) -> bool:
    """Whether a node still has items without a row, and wants them; or waits to have its own."""
    if node.status is Status.READY:
        return not node.expanded
    is_short = node.status is Status.RUNNING and node.expanded < node.width
    return is_short and state.program.nodes[node.name].has_items and not is_cut_short(node)


def owes_results(state: JobState, node: NodeState) -> bool:
    """Whether a fan-in waits for its owner to gather the results: of the items, or of all its batches."""
    is_fan_in = state.program.nodes[node.name].node.type is NodeType.FAN_IN
    return is_fan_in and node.status is Status.RUNNING and node.completed == node.width == node.expanded


class Gathering:
    """Takes the items' outputs one by one, in item order, and keeps no more of them than its aggregation needs."""

    def __init__(self, mode: Aggregation, limit_bytes: int) -> None:
        self._mode = mode
        self._limit_bytes = limit_bytes
        self._kept: list[Any] = []
        self._kept_bytes = 0
        self._total: float | int = 0
        self._count = 0

    def add(self, output: Any, size_bytes: int) -> None:
        """Raises PayloadRefused as soon as what is kept is too large, ValueError for what cannot be aggregated."""
        self._count += 1
        match self._mode:
            case Aggregation.COLLECT:
                self._keep([output], size_bytes)
            case Aggregation.CONCAT:
                self._keep(_parts(output), size_bytes)
            case Aggregation.SUM:
                self._total = _checked(self._total + _number(output))
            case Aggregation.FIRST:
                self._kept = self._kept or [output]
            case Aggregation.LAST:
                self._kept = [output]

    def _keep(self, parts: list[Any], size_bytes: int) -> None:
        self._kept_bytes += size_bytes
        if self._kept_bytes > self._limit_bytes:
            raise PayloadRefused(
                f"the first {self._count:,} results have {self._kept_bytes:,} bytes together; "
                f"at most {self._limit_bytes:,} can be gathered into one output"
            )
        self._kept += parts

    def answer(self, left_out: Mapping[str, list[int]]) -> dict[str, Any]:
        """All of it as one value; items that failed or were skipped are left out, and listed.

        Raises PayloadRefused if it cannot be kept.
        """
        match self._mode:
            case Aggregation.COLLECT | Aggregation.CONCAT:
                answer: dict[str, Any] = {"results": self._kept, "count": len(self._kept)}
            case Aggregation.SUM:
                answer = {"total": self._total, "count": self._count}
            case Aggregation.FIRST | Aggregation.LAST:
                answer = {"result": self._kept[0] if self._kept else None, "count": self._count}
        answer |= {how: items for how, items in left_out.items() if items}
        try:
            # Its bytes were counted one by one.
            Sizes().bound(answer, sys.maxsize)
        except OutsizedError as problem:
            raise PayloadRefused(f"what was gathered is {problem}; no more can be kept in one output") from None
        return answer


def _parts(result: Any) -> list[Any]:
    """A list gives its elements, an object the elements of its lists, anything else itself."""
    if isinstance(result, list):
        return result
    if isinstance(result, dict) and any(isinstance(value, list) for value in result.values()):
        return [part for value in result.values() if isinstance(value, list) for part in value]
    return [result]


def _number(result: Any) -> float | int:
    """A number counts itself, an object its numbers; anything else cannot be summed."""
    if isinstance(result, dict):
        return sum(v for v in result.values() if isinstance(v, int | float) and not isinstance(v, bool))
    if isinstance(result, int | float) and not isinstance(result, bool):
        return result
    raise ValueError(f"cannot sum a result that is {kind_of(result)}")


def _checked(total: float | int) -> float | int:
    if isinstance(total, int) and not -(2**63) <= total < 2**63:
        raise ValueError("the sum of the results does not fit into 64 bits")
    if not math.isfinite(total):
        raise ValueError("the sum of the results is not a finite number")
    return total
