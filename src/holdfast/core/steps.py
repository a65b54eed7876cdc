"""What a verb does to one node, given what it does to those before it."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core import matching
from holdfast.core.correcting import Corrected, Difference, ends_otherwise, matching_of
from holdfast.core.foreseeing import Fate, Foresight
from holdfast.core.kinds import has_task_per_item
from holdfast.core.matching import Counted
from holdfast.core.plans import (
    ANY_STATUS,
    BY_HAND,
    NOT_COMPLETED,
    NOTHING_SELECTED,
    SET_BY_PERSON,
    UNFINISHED,
    Action,
    Stale,
    Step,
    Unknown,
)
from holdfast.core.readiness import SKIPPED_BY_PERSON
from holdfast.core.signals import Request, Selected, Selection, Verb
from holdfast.core.states import TERMINAL, JobState, NodeState, Status
from holdfast.define.node import Importance


def step_of(
    state: JobState,
    request: Request,
    selected: Mapping[str, Selected],
    chosen: tuple[Selection | None, str] | None,
    name: str,
    rerun: Mapping[str, Step],
    ahead: Foresight,
    corrected: Corrected | None = None,
) -> Step:
    """What the verb does to a node, given what it does to those before it."""
    node, found = state.nodes[name], selected.get(name, NOTHING_SELECTED)
    above = [source for source in state.program.graph.sources[name] if source in rerun]
    if corrected is not None:
        step = _corrected_step(state, request, node, found, chosen, above, ahead, corrected)
        if step is not None:
            return step
        if chosen is not None and not state.program.nodes[name].has_items and not corrected.keeps_params(state, node):
            # Its params are computed again.
            chosen = (None, chosen[1])
    if above and (node.status is not Status.PENDING or node.expanded):
        because = _because(request, above[0])
        if request.only and node.status is Status.COMPLETED:
            return Step(name, Action.STALE, node.completed, f"{because}, and this stays as it is")
        is_kept = _keeps_batches(state, node, rerun, above)
        if is_kept and (corrected is None or corrected.difference(state, node) is None):
            return _batches_above(state, node, found, because, ahead)
        if corrected is not None and not _is_named(request, node):
            step = _touched_batches(state, node, rerun, above, because, ahead, corrected)
            if step is not None:
                return step
        return _begins_again(state, node, because, ahead)
    if chosen is not None:
        selection, reason = chosen
        if selection is None:
            goes_on = request.verb in (Verb.RESUME, Verb.RETRY)
            return _begins_again(state, node, reason, ahead, has_same_items=goes_on)
        fate, bad = ahead.fate_of(name)
        if fate is Fate.IS_CANCELLED and bad is not None:
            return Step(name, Action.KEEP, node.completed, _stays(state, ahead, bad))
        if node.batch_size is not None:
            return _batches_step(state, node, found, selection._replace(items_only=True), reason)
        number = found.number(selection)
        number += node.width - node.expanded if node.status in TERMINAL else 0
        if number:
            redone = found.chosen_of(selection, Status.COMPLETED) > 0
            fate = Fate.IS_CANCELLED if _ends_bad(state, node, found, selection) else Fate.RUNS
            return Step(name, Action.RERUN, number, reason, selection, redone=redone, fate=fate)
        refused = f"{found.refused} of its items cannot run: their params were refused" if found.refused else None
        return Step(name, Action.KEEP, node.completed, refused or "no task matches")
    return Step(name, Action.KEEP, node.completed, f"it is {node.status}")


def _because(request: Request, above: str) -> str:
    """What happens to a dependency, as the reason of what follows."""
    if request.verb in BY_HAND and above == request.node:
        return f"{above} is skipped" if request.verb is Verb.SKIP else f"the result of {above} is given"
    return f"{above} runs again"


def _stays(state: JobState, ahead: Foresight, bad: str) -> str:
    return f"{bad} will not complete" if bad in ahead.fates else f"{bad} stays {state.nodes[bad].status}"


def _begins_again(
    state: JobState, node: NodeState, reason: str, ahead: Foresight, *, has_same_items: bool = False
) -> Step:
    """It begins from its start if all that it waits for lets it; what stays as it is anyway is kept."""
    fate, decisive = ahead.fate_of(node.name)
    redone = _has_done(state, node)
    if fate in (Fate.IS_CANCELLED, Fate.IS_SKIPPED):
        assert decisive is not None
        is_bad = fate is Fate.IS_CANCELLED
        because = _stays(state, ahead, decisive) if is_bad else "its branch is not taken"
        ends_the_same = Status.CANCELLED if is_bad else Status.SKIPPED
        if node.status is ends_the_same and node.reason != SKIPPED_BY_PERSON:
            return Step(node.name, Action.KEEP, node.completed, because)
        return Step(node.name, Action.RERUN, 0, f"{reason}; {because}", redone=redone, fate=fate)
    ahead.begins_again.add(node.name)
    again = matching.again(node, has_same_items=has_same_items) if matching.is_matched(state, node) else None
    if again is not None:
        because = f"{reason}; its items are matched with its tasks"
        kind = Unknown.FAN_OUT
        return Step(node.name, Action.RERUN, None, because, fate=fate, unknown=kind, matching=again)
    if fate is Fate.MAY_RUN:
        reason = f"decided when {decisive} has run"
        kind = Unknown.CONDITION
        return Step(node.name, Action.RERUN, None, reason, redone=redone, fate=fate, unknown=kind)
    tasks = ahead.tasks_of(node.name)
    if tasks is None:
        kind = Unknown.FAN_OUT if has_task_per_item(state, node.name) else Unknown.FAN_IN
        return Step(node.name, Action.RERUN, None, reason, redone=redone, unknown=kind)
    return Step(node.name, Action.RERUN, tasks, reason, redone=redone)


def _keeps_batches(state: JobState, node: NodeState, rerun: Mapping[str, Step], above: list[str]) -> bool:
    """Whether only some items of its fan-out run again, and nothing else that it depends on."""
    fan_out = state.program.graph.fan_out_of.get(node.name)
    has_batches = node.batch_size is not None and node.expanded > 0
    return has_batches and above == [fan_out] and rerun[above[0]].selection is not None


def _batches_above(state: JobState, node: NodeState, found: Selected, because: str, ahead: Foresight) -> Step:
    """The batches whose items run again, those that have not completed, and the task behind them all. Where the fan-out
    will not complete none of them runs, but those that have read what runs again are no longer true."""
    selection = Selection(NOT_COMPLETED, also=found.touched, items_only=True)
    redone = found.chosen.get(Status.COMPLETED, 0) > 0 or node.status is Status.COMPLETED
    fate, bad = ahead.fate_of(node.name)
    if fate is Fate.IS_CANCELLED and bad is not None:
        reason = f"{because}; {_stays(state, ahead, bad)}"
        return Step(node.name, Action.RERUN, 0, reason, selection, redone=redone, fate=fate)
    number = found.number(selection) + _never_made(node) + _last_tasks(state, node)
    return Step(node.name, Action.RERUN, number, because, selection, redone=redone)


def _touched_batches(
    state: JobState,
    node: NodeState,
    rerun: Mapping[str, Step],
    above: list[str],
    because: str,
    ahead: Foresight,
    corrected: Corrected,
) -> Step | None:
    """Of a fan-in whose fan-out is corrected, only the batches that read another result, and the task behind them."""
    how = rerun[above[0]].matching
    if how is None or above != [state.program.graph.fan_out_of.get(node.name)]:
        return None
    touched = corrected.touched_batches(state, node, how)
    if not touched or ahead.fate_of(node.name)[0] is not Fate.RUNS:
        return None
    selection = Selection((str(Status.COMPLETED),), touched, items_only=True)
    number = len(touched) + _last_tasks(state, node)
    return Step(node.name, Action.RERUN, number, because, selection, redone=True)


def _batches_step(state: JobState, node: NodeState, found: Selected, selection: Selection, reason: str) -> Step:
    """Some batches, and with them the task behind them; or that one alone, if it is what failed."""
    number = found.number(selection)
    if node.status in (Status.FAILED, Status.CANCELLED):
        number += _never_made(node)
    if not number and not _means_last_task(node, selection):
        return Step(node.name, Action.KEEP, node.completed, "no task matches")
    redone = found.chosen_of(selection, Status.COMPLETED) > 0 or node.status is Status.COMPLETED
    if _ends_bad(state, node, found, selection):
        return Step(node.name, Action.RERUN, number, reason, selection, redone=redone, fate=Fate.IS_CANCELLED)
    number += _last_tasks(state, node)
    return Step(node.name, Action.RERUN, number, reason, selection, redone=redone)


def _ends_bad(state: JobState, node: NodeState, found: Selected, selection: Selection) -> bool:
    """Whether its other tasks, which stay as they are, keep it from an end that those who wait for it can use."""
    definition = state.program.nodes[node.name].node
    failed = node.failed - found.chosen_of(selection, Status.FAILED)
    cancelled = node.cancelled - found.chosen_of(selection, Status.CANCELLED)
    if node.has_last_task:
        # It goes with any of the batches, and has ended as its node did.
        failed -= node.status is Status.FAILED
        cancelled -= node.status is Status.CANCELLED
    if not definition.tolerate.allows(failed, node.items):
        return definition.importance is not Importance.OPTIONAL
    return cancelled > 0


def _last_tasks(state: JobState, node: NodeState) -> int:
    """One behind the batches, if it has a handler for that; else its owner gathers what they gave."""
    return 0 if state.program.nodes[node.name].task is None else 1


def _never_made(node: NodeState) -> int:
    return max(0, node.width - node.expanded)


def _means_last_task(node: NodeState, selection: Selection) -> bool:
    error = node.error
    return (
        node.status in (Status.FAILED, Status.CANCELLED)
        and selection.items is None
        and selection.code in (None, error and error.code)
        and selection.fingerprint in (None, error and error.fingerprint)
    )


def _has_done(state: JobState, node: NodeState) -> bool:
    """Where a person gave the result, what its tasks had completed before is history: it counts as done."""
    has_done = node.completed > 0 or node.reason == SET_BY_PERSON
    return has_done and bool(state.program.nodes[node.name].node.tasks)


def _corrected_step(
    state: JobState,
    request: Request,
    node: NodeState,
    found: Selected,
    chosen: tuple[Selection | None, str] | None,
    above: list[str],
    ahead: Foresight,
    corrected: Corrected,
) -> Step | None:
    """What a correction does to a node beyond what the verb itself does; None: nothing."""
    if corrected.is_new(node.name):
        return _new_step(state, node, ahead)
    is_fan_out = corrected.keeps_tasks(state, node) and node.expanded > 0
    is_left_out = ahead.fate_of(node.name)[0] is Fate.IS_SKIPPED
    if above and is_fan_out and not is_left_out and not _is_named(request, node):
        because = _because(request, above[0])
        return _matched_later(state, node, above[0], because, ahead, corrected, is_chosen=chosen is not None)
    difference = corrected.difference(state, node) if not above else None
    if difference is None:
        return _settled_again(state, request, node, found) if not above else None
    if difference.only_contract and node.status is Status.COMPLETED:
        return None
    if difference.taken is not None:
        ahead.taken[node.name] = difference.taken
    has_completed = node.status is Status.COMPLETED and bool(state.program.nodes[node.name].node.tasks)
    if is_fan_out and not _is_named(request, node):
        return _matched_step(node, difference, ahead, corrected, is_chosen=chosen is not None)
    if has_completed and corrected.stale is Stale.KEEP and not _is_named(request, node):
        if difference.other_tasks:
            corrected.cannot_stay.append(node.name)
        return Step(node.name, Action.STALE, node.completed, f"{difference.reason}; it stays as it is")
    if has_completed and corrected.stale is None:
        corrected.undecided.append(node.name)
    if corrected.keeps_params(state, node) and not _is_named(request, node):
        selection = Selection(ANY_STATUS)
        return Step(node.name, Action.RERUN, 1, difference.reason, selection, redone=_has_done(state, node))
    return _begins_again(state, node, difference.reason, ahead)


def _is_named(request: Request, node: NodeState) -> bool:
    """Whether the person wants all of it to run again."""
    return request.verb is Verb.RERUN and request.node == node.name


def _new_step(state: JobState, node: NodeState, ahead: Foresight) -> Step:
    fate, decisive = ahead.fate_of(node.name)
    ahead.begins_again.add(node.name)
    tasks = ahead.tasks_of(node.name)
    if fate is Fate.MAY_RUN:
        reason = f"it is new; decided when {decisive} has run"
        return Step(node.name, Action.NEW, None, reason, fate=fate, unknown=Unknown.CONDITION)
    if fate is not Fate.RUNS:
        tasks = 0
    kind = None if tasks is not None else Unknown.FAN_OUT
    return Step(node.name, Action.NEW, tasks, "it is new", fate=fate, unknown=kind)


def _matched_later(
    state: JobState,
    node: NodeState,
    above: str,
    because: str,
    ahead: Foresight,
    corrected: Corrected,
    *,
    is_chosen: bool,
) -> Step:
    """Its source runs again: which of its items are the same is known after that."""
    fate, _ = ahead.fate_of(node.name)
    ahead.begins_again.add(node.name)
    how = matching_of(node, corrected.other_handler(state, node), corrected.stale, is_chosen=is_chosen)
    reason = f"{because}; decided when {above} has run: items that stay the same keep their results"
    return Step(
        node.name,
        Action.RERUN,
        None,
        reason,
        redone=node.completed > 0,
        fate=fate,
        unknown=Unknown.FAN_OUT,
        matching=how,
    )


def _matched_step(
    node: NodeState, difference: Difference, ahead: Foresight, corrected: Corrected, *, is_chosen: bool
) -> Step:
    """Its items are matched with its tasks; how many of them run was counted."""
    how = matching_of(node, difference, corrected.stale, is_chosen=is_chosen)
    counted = corrected.counted.get(node.name)
    if counted is None:
        ahead.begins_again.add(node.name)
        return Step(node.name, Action.RERUN, None, difference.reason, unknown=Unknown.FAN_OUT, matching=how)
    if counted.stale and corrected.stale is None:
        corrected.undecided.append(node.name)
    stale = counted.stale if how.reruns_stale else 0
    again = stale + counted.changed + (counted.unfinished if is_chosen else 0) + counted.new
    is_settled = not counted.gone and not counted.back and not counted.unfinished
    if not again and is_settled and node.status is Status.COMPLETED:
        if not counted.stale:
            return Step(node.name, Action.KEEP, node.completed, "its items are the same")
        stay = f"{difference.reason}; {counted.stale:,} of its items are stale and stay as they are"
        return Step(node.name, Action.STALE, node.completed, stay)
    ahead.begins_again.discard(node.name)
    # Batches go by number, and tasks without an item keep theirs.
    ahead.widths[node.name] = node.expanded + counted.new
    reason = f"{difference.reason}; {_counted_words(counted, is_kept=not how.reruns_stale)}"
    return Step(node.name, Action.RERUN, again, reason, redone=stale > 0, matching=how)


def _counted_words(counted: Counted, *, is_kept: bool) -> str:
    parts = [
        (counted.kept, "the same"),
        (counted.back, "back with their results"),
        (counted.stale, "stale but kept" if is_kept else "stale"),
        (counted.changed + counted.unfinished, "not completed"),
        (counted.new, "new"),
        (counted.gone, "gone"),
    ]
    return "items " + ", ".join(f"{number:,} {words}" for number, words in parts if number)


def _settled_again(state: JobState, request: Request, node: NodeState, found: Selected) -> Step | None:
    """All its items have ended, and by another `tolerate` the node ends in another way."""
    if request.verb is not Verb.RESUME or not ends_otherwise(state, node):
        return None
    failed = f"{node.failed:,} failed item{'s' if node.failed != 1 else ''}"
    if node.status is Status.COMPLETED:
        selection = Selection(UNFINISHED)
        reason = f"{failed}, more than are tolerated now"
        return Step(node.name, Action.RERUN, found.number(selection), reason, selection)
    if request.tolerated:
        return None
    words = "is tolerated now" if node.failed == 1 else "are tolerated now"
    return Step(node.name, Action.RERUN, 0, f"{failed} {words}", Selection(()))
