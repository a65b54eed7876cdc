"""A fan-out after a correction: the tasks that it has from before meet the items that it has now.

A task whose item is still there keeps its number and, if its handler and its params are the same, its result. New
items get numbers above all earlier ones. A task without an item is skipped and not missed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from holdfast.core import fanning
from holdfast.core.effects import CorrectTasks, DropTasks, RefuseTask, ReviveTasks
from holdfast.core.events import EventName, TasksSkipped
from holdfast.core.failing import Failure
from holdfast.core.item_keys import keys_of
from holdfast.core.kinds import has_task_per_item
from holdfast.core.match_states import NEW, Matches, Matching
from holdfast.core.queueing import create, has_contract
from holdfast.core.signals import MatchedTask
from holdfast.core.states import JobState, NodeState, Status, Trigger
from holdfast.core.turn import Turn
from holdfast.define.plain import Sizes, sized_kind_of
from holdfast.define.template import Template
from holdfast.errors import PayloadRefused, TemplateError

GONE = "gone"


def is_matched(state: JobState, node: NodeState) -> bool:
    """Whether a node that begins again keeps its tasks and matches them: it has not come to the end of that yet."""
    return node.is_matching and not node.open_tasks and has_task_per_item(state, node.name)


def await_matching(turn: Turn, node: NodeState, matching: Matching) -> None:
    """Back to pending, with its tasks. When it begins, its items are matched with them."""
    if node.status is not Status.PENDING:
        node.move(Trigger.RESTARTED)
    node.output = node.error = node.reason = node.retry_at = node.started_at = node.finished_at = None
    node.matching, node.undo = matching, None
    node.width = node.enqueued = node.expanded
    node.spent.clear()
    turn.state.matches.pop(node.name, None)
    turn.state.scope["nodes"].pop(node.name, None)
    turn.state.touch(node)


def again(node: NodeState, *, has_same_items: bool) -> Matching:
    """The same matching from its beginning, for a person who wants what is missing to run."""
    assert node.matching is not None
    former = node.matching
    handled = max(former.handled, former.place) if has_same_items else 0
    return Matching(former.reruns_stale, True, former.has_other_handler, handled, gone=former.gone)


def item_keys(state: JobState, node: NodeState) -> list[str]:
    """What the items of a fan-out that is matched are known by, in their order."""
    items = fanning.items_of(Turn(state, 0.0), node)
    if not isinstance(items, list):
        raise TypeError(f"it is {sized_kind_of(items)}")
    return keys_of(state.program.nodes[node.name].item_key, items)


def tasks_at(found: Matches, first: int, size: int) -> list[int]:
    """The tasks at these places: those of the items, then those that are left over."""
    width = len(found.numbers)
    with_item = [number for number in found.numbers[first : first + size] if number != NEW]
    return [*with_item, *found.left_over[max(0, first - width) : max(0, first + size - width)]]


def chunk_size(state: JobState, limit: int | None = None) -> int:
    return min(limit or state.rules.chunk_size, state.rules.chunk_size)


def match_chunk(turn: Turn, node: NodeState, tasks: Mapping[int, MatchedTask], limit: int | None) -> None:
    """Look at the next items; once all have a task, end the tasks that are left over; then go on as any fan-out."""
    state, matching = turn.state, node.matching
    assert matching is not None
    found, chunk, before = state.matches[node.name], _Chunk([], [], [], [], [], []), node.expanded
    first, last = matching.place, min(matching.place + chunk_size(state, limit), found.places)
    reading = _Reading(turn, node, first, last)
    for place in range(first, last):
        if state.has_made_enough:
            last = place
            break
        if place >= len(found.numbers):
            _drop(node, found.left_over[place - len(found.numbers)], tasks, chunk)
        elif found.numbers[place] == NEW:
            _make(turn, node, reading.params(place, node.expanded), reading.key(place), chunk)
        else:
            number = found.numbers[place]
            _keep_or_rerun(turn, node, place, number, tasks[number], reading, chunk)
    matching.place, matching.is_done = last, last == found.places
    if matching.is_done:
        del state.matches[node.name]
    _write(turn, node, chunk, before)
    state.touch(node)
    fanning.cut_short(turn, node)
    fanning.fill_window(turn, node)
    fanning.settle_items(turn, node)


class _Chunk(NamedTuple):
    """The outcome of a chunk: tasks that run again with their params, new ones, and those that are gone."""

    again: list[int]
    params: list[bytes]
    new: list[bytes]
    keys: list[str]
    gone: list[int]
    back: list[int]


class _Reading:
    """What the items at some places are given now."""

    def __init__(self, turn: Turn, node: NodeState, first: int, last: int) -> None:
        program = turn.state.program.nodes[node.name]
        self._turn, self._name, self._first = turn, node.name, first
        self._template = program.items.params
        self._items = fanning.items_of(turn, node)[first:last]
        self._keys = keys_of(program.item_key, self._items)
        self._scope, self._sizes = dict(turn.scope_of(node.name)), Sizes()

    def key(self, place: int) -> str:
        return self._keys[place - self._first]

    def params(self, place: int, number: int) -> bytes | Failure:
        """As JSON, or why they are refused."""
        self._scope["item"], self._scope["index"] = self._items[place - self._first], number
        try:
            return self._turn.params(self._template, self._scope, self._sizes)
        except (TemplateError, PayloadRefused) as problem:
            return fanning.refusal(self._turn, self._name, number, problem)

    def is_same(self, place: int, number: int, before: bytes | None, now: bytes | Failure) -> bool:
        """Whether a task that has the params `before` would be given the same."""
        if before is None:
            return False
        if not isinstance(now, Failure) and same_params(before, now):
            return True
        scope = {**self._scope, "item": self._items[place - self._first], "index": number}
        former = self._turn.former_scopes(scope, self._template.paths)
        return any(gives_same(self._template, one, before) for one in former)


def _make(turn: Turn, node: NodeState, params: bytes | Failure, key: str, chunk: _Chunk) -> None:
    """A new item. Rows of neighbours are made together; a refused one comes between."""
    if isinstance(params, Failure):
        _write_new(turn, node, chunk)
        fanning.refuse_item(turn, node, node.expanded, params, key)
    else:
        chunk.new.append(params)
        chunk.keys.append(key)
    node.expanded += 1
    node.width = node.expanded


def _write_new(turn: Turn, node: NodeState, chunk: _Chunk) -> None:
    if chunk.new:
        create(turn, node, node.expanded - len(chunk.new), list(chunk.new), list(chunk.keys))
        chunk.new.clear()
        chunk.keys.clear()


def _keep_or_rerun(
    turn: Turn, node: NodeState, place: int, number: int, task: MatchedTask, reading: _Reading, chunk: _Chunk
) -> None:
    """What happens to a task whose item is still there. What a person gave it stays."""
    assert node.matching is not None
    params = task.params if task.is_given and task.params is not None else reading.params(place, number)
    is_same = reading.is_same(place, number, task.params, params)
    if not runs_again(node.matching, place, task, is_same=is_same):
        if task.gone is not None:
            _revive(node, number, task.gone, chunk)
        return
    _uncount(node, task)
    if isinstance(params, Failure):
        turn.effects.append(RefuseTask(turn.state.job_id, node.name, number, params))
        fanning.count_refused(turn, node, number, params)
        return
    node.waiting += 1
    chunk.again.append(number)
    chunk.params.append(params)


def runs_again(matching: Matching, place: int, task: MatchedTask, *, is_same: bool) -> bool:
    """Whether a task runs again whose item is still there; `is_same`: it would be given the same params."""
    has_other_handler = matching.has_other_handler and place >= matching.handled
    is_same = is_same and not has_other_handler
    match Status(task.gone or task.status):
        case Status.COMPLETED:
            return matching.reruns_stale and not is_same
        case Status.SKIPPED:
            return False
        case _:
            return matching.reruns_unfinished or not is_same


def same_params(before: bytes | None, now: bytes) -> bool:
    """Whether a handler is given the same: the order of keys does not count, the types of values do."""
    return before is not None and _canonical(before) == _canonical(now)


def gives_same(template: Template, scope: Mapping[str, Any], before: bytes) -> bool:
    """Whether the template gives these params in the scope."""
    try:
        return same_params(before, orjson.dumps(template.render(scope)))
    except (TemplateError, TypeError):
        return False


def _canonical(params: bytes) -> bytes:
    return orjson.dumps(orjson.loads(params), option=orjson.OPT_SORT_KEYS)


def _drop(node: NodeState, number: int, tasks: Mapping[int, MatchedTask], chunk: _Chunk) -> None:
    assert node.matching is not None
    if tasks[number].gone is not None:
        return
    _uncount(node, tasks[number])
    node.skipped += 1
    node.matching.gone += 1
    chunk.gone.append(number)


def _revive(node: NodeState, number: int, status: str, chunk: _Chunk) -> None:
    """Its item is there again, and it stays what it was."""
    assert node.matching is not None
    node.matching.gone -= 1
    if status != Status.SKIPPED:
        node.skipped -= 1
        node.completed += status == Status.COMPLETED
        node.failed += status == Status.FAILED
        node.cancelled += status == Status.CANCELLED
    chunk.back.append(number)


def _uncount(node: NodeState, task: MatchedTask) -> None:
    assert node.matching is not None
    node.uncount(Status(task.status))
    node.matching.gone -= task.gone is not None


def _write(turn: Turn, node: NodeState, chunk: _Chunk, first: int) -> None:
    """The rows of a chunk, and its events: the first task that is new has the number `first`."""
    _write_new(turn, node, chunk)
    job_id, name = turn.state.job_id, node.name
    if node.expanded > first:
        turn.emit(EventName.TASK_READY, name, data={"first": first, "last": node.expanded - 1})
    if chunk.again:
        contract = has_contract(turn, name, 0)
        turn.effects.append(CorrectTasks(job_id, name, chunk.again, chunk.params, contract))
        turn.emit(EventName.TASK_READY, name, data={"items": fanning.ranges(chunk.again), "count": len(chunk.again)})
    if chunk.back:
        turn.effects.append(ReviveTasks(job_id, name, chunk.back))
    if chunk.gone:
        turn.effects.append(DropTasks(job_id, name, chunk.gone))
        gone: TasksSkipped = {"count": len(chunk.gone), "items": fanning.ranges(chunk.gone), "reason": GONE}
        turn.emit(EventName.TASK_SKIPPED, name, data=gone)


class Counted(NamedTuple):
    """What a plan says of the items of a fan-out that is matched."""

    kept: int = 0
    """Completed, with the same handler and params."""
    stale: int = 0
    """Completed, with another handler or other params now."""
    unfinished: int = 0
    changed: int = 0
    """Not completed, with another handler or other params now."""
    skipped: int = 0
    new: int = 0
    gone: int = 0
    back: int = 0
    """Items that a correction had taken away, and that have their results again."""
    stale_items: tuple[int, ...] = ()
    gone_items: tuple[int, ...] = ()
    unfinished_items: tuple[int, ...] = ()
    other_items: tuple[int, ...] = ()
    """The numbers of those that are stale, gone, unfinished, and changed or back."""

    def plus(self, more: Counted) -> Counted:
        others = more._asdict()
        return Counted(**{name: value + others[name] for name, value in self._asdict().items()})


def counted(
    state: JobState,
    node: NodeState,
    found: Matches,
    first: int,
    tasks: Mapping[int, MatchedTask],
    *,
    other_handler: bool,
) -> Counted:
    """What the tasks at the next places come to, for a plan."""
    size = chunk_size(state)
    reading = _Reading(Turn(state, 0.0), node, first, first + size)
    number_of: Counter[str] = Counter()
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for place in range(first, min(first + size, found.places)):
        if place >= len(found.numbers):
            number = found.left_over[place - len(found.numbers)]
            if tasks[number].gone is None:
                numbers["gone"].append(number)
        elif found.numbers[place] == NEW:
            number_of["new"] += 1
        else:
            number = found.numbers[place]
            task = tasks[number]
            is_same = task.is_given or reading.is_same(place, number, task.params, reading.params(place, number))
            word = _word(task, is_same=is_same and not other_handler)
            number_of[word] += 1
            if word not in ("kept", "skipped"):
                numbers[word].append(number)
    state.made_bytes = 0
    return Counted(
        **number_of,
        gone=len(numbers["gone"]),
        stale_items=tuple(numbers["stale"]),
        gone_items=tuple(numbers["gone"]),
        unfinished_items=tuple(numbers["unfinished"]),
        other_items=(*numbers["changed"], *numbers["back"]),
    )


def _word(task: MatchedTask, *, is_same: bool) -> str:
    is_back = task.gone is not None
    match Status(task.gone or task.status):
        case Status.COMPLETED if not is_same:
            return "stale"
        case Status.COMPLETED:
            return "back" if is_back else "kept"
        case Status.SKIPPED:
            return "back" if is_back else "skipped"
        case _:
            return "unfinished" if is_same else "changed"
