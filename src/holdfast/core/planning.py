"""How a plan is made: from a job's nodes and counters, and from what the rows say of the tasks that the verb names.

The person who asks for a plan and the owner who carries it out make it in the same way: nothing is done that was not
shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.foreseeing import Fate, Foresight
from holdfast.core.kinds import has_task_per_item, kind_of
from holdfast.core.outcome import counts, job_status
from holdfast.core.plans import (
    ANY_STATUS,
    BY_HAND,
    CHANGES,
    NOT_COMPLETED,
    NOTHING_SELECTED,
    RESUMABLE,
    SET_BY_PERSON,
    UNFINISHED,
    Action,
    Plan,
    Refusal,
    Step,
    Unknown,
)
from holdfast.core.readiness import SKIPPED_BY_PERSON
from holdfast.core.signals import BatchesAsked, Request, Selected, Selection, Verb
from holdfast.core.states import (
    JOB_STOPPED,
    TERMINAL,
    JobState,
    JobStatus,
    NodeState,
    Status,
)
from holdfast.define.node import Importance, Rerun, Safe
from holdfast.errors import Code
from holdfast.remedies import Remedy


def make_plan(state: JobState, request: Request, selected: Mapping[str, Selected], now: float) -> Plan | Refusal:
    """What the verb would do now, node by node in the order of the graph."""
    refusal = _refusal(state, request)
    if refusal is not None:
        return refusal
    chosen = _chosen(state, request)
    steps: list[Step] = []
    changed: dict[str, Step] = {}
    ahead = Foresight(state, skipped=request.node if request.verb is Verb.SKIP else None)
    for name in state.program.graph.order:
        if request.verb in BY_HAND and name == request.node:
            step = _ended_by_hand(state, request)
        else:
            step = _step(state, request, selected, chosen.get(name), name, changed, ahead)
        if step.redone:
            guard = state.program.nodes[name].node.rerun
            reason = _guarded(guard, step, _done_since(state.nodes[name], step, selected), now)
            step = step._replace(confirm=guard.safe is Safe.CONFIRM and reason is None, blocked=reason)
            if reason is not None and refusal is None:
                refusal = Refusal(reason, _way_around(state, request, chosen, name, changed))
        if step.action in CHANGES:
            changed[name] = step
            ahead.fates[name] = step.fate
        steps.append(step)
    lacks_result = request.verb is Verb.RESUME and _lacks_result(state)
    if not changed and not lacks_result:
        remedy = Remedy("Name other tasks, or see what there is", "status", state.job_id)
        return Refusal("nothing of it would run again", remedy)
    return Plan(request.verb, tuple(steps), evaluates_result=not changed, refusal=refusal)


def _lacks_result(state: JobState) -> bool:
    """Whether its nodes have come to a good end, and only the `result` of the workflow could not be computed."""
    has_ended = all(node.status in TERMINAL for node in state.nodes.values())
    is_well = has_ended and job_status(state) in (JobStatus.COMPLETED, JobStatus.PARTIAL)
    return state.status is JobStatus.FAILED and is_well


def _done_since(node: NodeState, step: Step, selected: Mapping[str, Selected]) -> float | None:
    if node.reason == SET_BY_PERSON:
        return node.finished_at
    found = selected.get(node.name, NOTHING_SELECTED)
    return found.node_completed_since if step.selection is None else found.completed_since


def _guarded(guard: Rerun, step: Step, since: float | None, now: float) -> str | None:
    """Why what completed of the node may not run again."""
    if guard.safe is Safe.NEVER:
        return f"what {step.node} has completed may never run again"
    if guard.within_hours is None or since is None or now - since <= guard.within_hours * 3600:
        return None
    hours = f"{guard.within_hours:g} hour{'' if guard.within_hours == 1 else 's'}"
    return f"what {step.node} has completed may run again for {hours}, and these are over"


def _way_around(
    state: JobState, request: Request, chosen: Mapping[str, Any], name: str, changed: Mapping[str, Step]
) -> Remedy:
    """What can be done where a node may not run again: as much as does not touch it, or a new job."""
    node = state.nodes[name]
    if name in chosen and _lacks_items(node):
        return Remedy("Run only what has not completed of it", "retry", state.job_id, name)
    if name not in chosen and node.status is Status.COMPLETED and request.verb not in BY_HAND:
        if request.verb is not Verb.RESUME:
            return Remedy(f"Leave {name} as it is, with the same command and --only.")
        cause = name
        while cause not in chosen:
            cause = next(source for source in state.program.graph.sources[cause] if source in changed)
        return Remedy(f"Leave {name} as it is", "retry", state.job_id, cause, ("--only",))
    workflow_id = state.program.definition.workflow_id
    return Remedy("Begin a new job with its inputs", "submit", flags=(workflow_id, "--force"))


def batches_asked(state: JobState, request: Request) -> list[BatchesAsked]:
    """What must be known of the batches of fan-ins, beside what there is of the tasks that the verb names."""
    if _refusal(state, request) is not None:
        return []
    asked: list[BatchesAsked] = []
    chosen = _chosen(state, request)
    for node in state.nodes.values():
        if node.batch_size is None or not node.expanded:
            continue
        own, _ = chosen.get(node.name, (None, ""))
        fan_out = state.nodes[state.program.graph.fan_out_of[node.name]]
        above, _ = chosen.get(fan_out.name, (None, ""))
        if above is not None:
            unfinished = Selection(NOT_COMPLETED, items_only=True)
            pages = (fan_out.name, above, fan_out.enqueued, node.batch_size)
            asked.append(BatchesAsked(node.name, unfinished, node.enqueued, *pages))
        elif own is not None:
            asked.append(BatchesAsked(node.name, own._replace(items_only=True), node.enqueued))
    return asked


def _refusal(state: JobState, request: Request) -> Refusal | None:
    if state.stop is not None and not state.is_terminal:
        return Refusal("it is still stopping", Remedy("Wait until it has ended", "watch", state.job_id))
    if request.verb is Verb.RESUME:
        if state.status in RESUMABLE:
            return None
        if state.status is JobStatus.COMPLETED:
            part = Remedy("Run a part of it again with", "rerun", state.job_id, flags=("--from", "NODE"))
            return Refusal("it is completed", part)
        look = Remedy("It goes on by itself; see what it waits for", "why", state.job_id)
        return Refusal(f"it is {state.status}", look)
    node = state.nodes.get(request.node or "")
    if node is None or not counts(state, node.name):
        names = ", ".join(_names(state))
        return Refusal(f"it has no node '{request.node}'", Remedy(f"Its nodes are: {names}"), is_unknown=True)
    if request.verb in BY_HAND:
        return _refusal_by_hand(state, node, request)
    if not _was_reached(node):
        first = next((n.name for n in state.nodes.values() if n.status is Status.FAILED), None)
        wait = Remedy("Wait until it is reached.")
        remedy = Remedy("Retry what failed before it", "retry", state.job_id, first) if first else wait
        return Refusal(f"{node.name} was never reached", remedy)
    if request.verb is Verb.RETRY and node.status not in (Status.FAILED, Status.CANCELLED) and not _lacks_items(node):
        remedy = Remedy("Run it again all the same", "rerun", state.job_id, flags=("--from", node.name))
        return Refusal(f"{node.name} is {node.status}", remedy)
    return None


def _refusal_by_hand(state: JobState, node: NodeState, request: Request) -> Refusal | None:
    if node.status is Status.COMPLETED:
        again = Remedy("Run it again with", "rerun", state.job_id, flags=("--from", node.name))
        return Refusal(f"{node.name} is completed", again)
    if node.status is Status.SKIPPED and node.reason != SKIPPED_BY_PERSON:
        leave = Remedy("Nothing waits for it; leave it as it is.")
        return Refusal(f"{node.name} is on a branch that was not taken", leave)
    if node.status is Status.SKIPPED and request.verb is Verb.SKIP:
        return Refusal(f"{node.name} is skipped already", Remedy("See how the job is now", "status", state.job_id))
    kind = kind_of(state, node.name)
    if kind.cannot_be_skipped is not None:
        return Refusal(f"{node.name} {kind.cannot_be_skipped}", Remedy("Skip what it leads to."))
    if request.verb is Verb.SET and kind.cannot_be_set is not None:
        return Refusal(f"{node.name} {kind.cannot_be_set}", Remedy("Skip it, or set the fan-in behind it."))
    return None


def _ended_by_hand(state: JobState, request: Request) -> Step:
    assert request.node is not None
    node = state.nodes[request.node]
    is_skipped = request.verb is Verb.SKIP
    action, reason = (Action.SKIP, "it is skipped") if is_skipped else (Action.SET, "its result is given")
    return Step(node.name, action, node.expanded - node.completed, reason, confirm=True)


def _names(state: JobState) -> list[str]:
    return [name for name in state.program.graph.order if counts(state, name)]


def _was_reached(node: NodeState) -> bool:
    """Not pending, and not ended by what happened elsewhere before it could begin."""
    return node.expanded > 0 or node.status not in (Status.PENDING, Status.SKIPPED, Status.CANCELLED)


def _lacks_items(node: NodeState) -> bool:
    return bool(node.failed or node.cancelled or node.skipped)


def _chosen(state: JobState, request: Request) -> dict[str, tuple[Selection | None, str]]:
    """The nodes that the verb itself names to run: which of their tasks (None: all of it), and why."""
    if request.verb in BY_HAND:
        return {}
    if request.verb is Verb.RERUN:
        assert request.node is not None
        return {request.node: (None, "it is run again")}
    if request.verb is Verb.CLEAR:
        assert request.node is not None
        picked = Selection(ANY_STATUS, request.items or None, request.code, request.fingerprint)
        return {request.node: (picked, "it was cleared")}
    names = [request.node] if request.verb is Verb.RETRY else _missing(state, request)
    chosen: dict[str, tuple[Selection | None, str]] = {}
    for name in names:
        node = state.nodes[name or ""]
        name = node.name
        if node.status in (Status.FAILED, Status.CANCELLED) or _lacks_items(node):
            reason = "it failed" if node.status is Status.FAILED else "it was not finished"
            chosen[name] = (Selection(UNFINISHED) if node.expanded else None, reason)
    if request.verb is Verb.RETRY and not request.only and _has_stopped_the_job(state, request.node or ""):
        for node in state.nodes.values():
            if node.reason == JOB_STOPPED and node.name not in chosen:
                statuses = (str(Status.CANCELLED),) if state.program.nodes[node.name].has_items else UNFINISHED
                cut_off = Selection(statuses) if node.expanded else None
                chosen[node.name] = (cut_off, f"the failure of {request.node} had stopped it")
    return chosen


def _missing(state: JobState, request: Request) -> list[str]:
    """The nodes that `resume` looks at. What failed within the tolerance of a completed node is accepted: that runs
    again only if the person says so, or if nothing else is missing."""
    unfinished = [name for name, node in state.nodes.items() if node.status is not Status.COMPLETED]
    misses_more = any(state.nodes[name].status in (Status.FAILED, Status.CANCELLED) for name in unfinished)
    accepts = not request.tolerated and (misses_more or _lacks_result(state))
    return unfinished if accepts else list(state.nodes)


def _has_stopped_the_job(state: JobState, name: str) -> bool:
    """Whether it was the first that failed of what the job cannot do without."""
    first = min(
        (node.finished_at or 0.0 for node in state.nodes.values() if _stops_a_job(state, node)),
        default=None,
    )
    node = state.nodes[name]
    return _stops_a_job(state, node) and node.finished_at == first


def _stops_a_job(state: JobState, node: NodeState) -> bool:
    is_critical = state.program.nodes[node.name].node.importance is Importance.CRITICAL
    was_in_time = node.error is None or node.error.code != Code.JOB_TIMEOUT
    return node.status is Status.FAILED and counts(state, node.name) and is_critical and was_in_time


def _step(
    state: JobState,
    request: Request,
    selected: Mapping[str, Selected],
    chosen: tuple[Selection | None, str] | None,
    name: str,
    rerun: Mapping[str, Step],
    ahead: Foresight,
) -> Step:
    node, found = state.nodes[name], selected.get(name, NOTHING_SELECTED)
    above = [source for source in state.program.graph.sources[name] if source in rerun]
    if above and (node.status is not Status.PENDING or node.expanded):
        because = _because(request, above[0])
        if request.only and node.status is Status.COMPLETED:
            return Step(name, Action.STALE, node.completed, f"{because}, and this stays as it is")
        if _keeps_batches(state, node, rerun, above):
            return _batches_above(state, node, found, because, ahead)
        return _begins_again(state, node, because, ahead)
    if chosen is not None:
        selection, reason = chosen
        if selection is None:
            return _begins_again(state, node, reason, ahead)
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


def _begins_again(state: JobState, node: NodeState, reason: str, ahead: Foresight) -> Step:
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
    if not definition.tolerate.allows(failed, node.width):
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
