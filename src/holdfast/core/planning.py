"""How a plan is made: from a job's nodes and counters, and from what the rows say of the tasks that the verb names.

The person who asks for a plan and the owner who carries it out make it in the same way: nothing is done that was not
shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.correcting import Corrected
from holdfast.core.foreseeing import Fate, Foresight
from holdfast.core.kinds import kind_of
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
from holdfast.core.steps import step_of
from holdfast.core.undo_plans import acceptance_plan, is_accepted, undo_plan, was_undone
from holdfast.define.node import Importance, Rerun, Safe
from holdfast.errors import Code
from holdfast.remedies import Remedy


def make_plan(
    state: JobState,
    request: Request,
    selected: Mapping[str, Selected],
    now: float,
    corrected: Corrected | None = None,
) -> Plan | Refusal:
    """What the verb would do now, node by node in the order of the graph.

    With a correction, the state already has the definition and the inputs that the job would have.
    """
    refusal = _refusal(state, request, is_corrected=corrected is not None)
    if refusal is not None:
        return refusal
    if request.verb is Verb.UNDO:
        return undo_plan(state, request)
    if is_accepted(state, request):
        return acceptance_plan(state, request)
    chosen = _chosen(state, request, is_corrected=corrected is not None)
    steps: list[Step] = []
    changed: dict[str, Step] = {}
    ahead = Foresight(state, skipped=request.node if request.verb is Verb.SKIP else None)
    for name in state.program.graph.order:
        if request.verb in BY_HAND and name == request.node:
            step = _ended_by_hand(state, request)
        else:
            step = step_of(state, request, selected, chosen.get(name), name, changed, ahead, corrected)
        if step.redone:
            guard = state.program.nodes[name].node.rerun
            reason = why_guarded(state, step, selected, now)
            step = step._replace(confirm=guard.safe is Safe.CONFIRM and reason is None, blocked=reason)
            if reason is not None and refusal is None:
                refusal = Refusal(reason, _way_around(state, request, chosen, name, changed))
        if step.action in CHANGES:
            changed[name] = step
            ahead.fates[name] = step.fate
        steps.append(step)
    if corrected is not None:
        steps += _gone_steps(state, corrected)
        refusal = _both(refusal, _undecided(corrected))
    is_given_up = state.undo is not None
    decides_again = request.verb is Verb.RESUME and (corrected is not None or is_given_up or _lacks_result(state))
    if not changed and not decides_again:
        return _nothing_to_run(state, request, ahead)
    return Plan(request.verb, tuple(steps), evaluates_result=not changed, refusal=refusal)


def _nothing_to_run(state: JobState, request: Request, ahead: Foresight) -> Refusal:
    if request.node is not None:
        fate, missing = ahead.fate_of(request.node)
        if fate is Fate.IS_CANCELLED and missing is not None and was_undone(state.nodes[missing]):
            again = Remedy("Run again what was undone, and what follows it", "resume", state.job_id)
            return Refusal(f"{missing} was undone, and {request.node} needs its result", again)
    remedy = Remedy("Name other tasks, or see what there is", "status", state.job_id)
    return Refusal("nothing of it would run again", remedy)


def _gone_steps(state: JobState, corrected: Corrected) -> list[Step]:
    gone = [name for name in corrected.before.graph.order if name not in state.program.nodes]
    return [Step(name, Action.GONE, None, _why_gone(state.retired.get(name))) for name in gone]


def _why_gone(node: NodeState | None) -> str:
    because = "the workflow no longer has it"
    if node is None or not node.completed:
        return because
    return f"{because}; what it has done stays done, unless the job is undone first"


def _both(first: Refusal | None, second: Refusal | None) -> Refusal | None:
    """All reasons at once; what to do about the first comes first."""
    if first is None or second is None:
        return first or second
    return first._replace(reason=f"{first.reason}; {second.reason}")


def _undecided(corrected: Corrected) -> Refusal | None:
    if corrected.cannot_stay:
        names = ", ".join(corrected.cannot_stay)
        return Refusal(
            f"stale results cannot stay where the tasks are of another kind now: {names}",
            Remedy("Run them again with --stale rerun, or leave the type and the batches of these nodes as they were."),
        )
    if not corrected.undecided:
        return None
    names = ", ".join(corrected.undecided)
    return Refusal(
        f"completed work would be done in another way: {names}",
        Remedy("Choose: --stale rerun runs it again, --stale keep leaves its results as they are."),
    )


def _lacks_result(state: JobState) -> bool:
    """Whether its nodes have come to a good end, and only the `result` of the workflow could not be computed."""
    has_ended = all(node.status in TERMINAL for node in state.nodes.values())
    is_well = has_ended and job_status(state) in (JobStatus.COMPLETED, JobStatus.PARTIAL)
    return state.status is JobStatus.FAILED and is_well


def why_guarded(state: JobState, step: Step, selected: Mapping[str, Selected], now: float) -> str | None:
    """Why what completed of the node may not run again now."""
    guard = state.program.nodes[step.node].node.rerun
    return _guarded(guard, step, _done_since(state.nodes[step.node], step, selected), now)


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
            above = [source for source in state.program.graph.sources[cause] if source in changed]
            if not above:
                return Remedy(f"Leave the results of {name} as they are, with the same command and --stale keep.")
            cause = above[0]
        return Remedy(f"Leave {name} as it is", "retry", state.job_id, cause, ("--only",))
    workflow_id = state.program.definition.workflow_id
    return Remedy("Begin a new job with its inputs", "submit", flags=(workflow_id, "--force"))


def batches_asked(state: JobState, request: Request, *, is_corrected: bool = False) -> list[BatchesAsked]:
    """What must be known of the batches of fan-ins, beside what there is of the tasks that the verb names."""
    if request.verb is Verb.UNDO or _refusal(state, request, is_corrected=is_corrected) is not None:
        return []
    asked: list[BatchesAsked] = []
    chosen = _chosen(state, request, is_corrected=is_corrected)
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


def batches_planned(state: JobState, plan: Plan) -> list[BatchesAsked]:
    """The same for the plan of a correction: the batches that read what it changes."""
    return [
        BatchesAsked(step.node, step.selection, state.nodes[step.node].enqueued)
        for step in plan.reruns
        if step.selection is not None and step.selection.items is not None
    ]


def _refusal(state: JobState, request: Request, *, is_corrected: bool = False) -> Refusal | None:
    if state.is_undoing:
        wait = Remedy("Wait until that is done, or cancel it", "watch", state.job_id)
        return Refusal("what it has done is being undone", wait)
    if is_corrected and not state.is_terminal:
        wait = Remedy("Wait until it has ended, or cancel it", "cancel", state.job_id)
        return Refusal(f"it is {state.status}, and only a job that has ended can be corrected", wait)
    if state.stop is not None and not state.is_terminal:
        return Refusal("it is still stopping", Remedy("Wait until it has ended", "watch", state.job_id))
    if request.verb is Verb.UNDO or is_accepted(state, request):
        return None
    if request.verb is Verb.RESUME:
        if state.status in RESUMABLE or is_corrected:
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
    is_resumed = request.verb is Verb.RETRY and state.is_terminal
    if node.is_matching and request.verb is not Verb.RERUN and not is_resumed:
        wait = Remedy("Wait until that is done", "watch", state.job_id)
        go_on = Remedy("Continue it first", "resume", state.job_id)
        return Refusal(f"the items of {node.name} are not all matched yet", go_on if state.is_terminal else wait)
    if request.params is not None and (refusal := _refusal_of_params(state, node, request)) is not None:
        return refusal
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
    ahead = [source for source in state.program.graph.sources[node.name] if state.nodes[source].status not in TERMINAL]
    if ahead and request.verb is not Verb.RERUN and node.batch_size is None:
        # Batches wait for it.
        wait = Remedy("Wait until it has ended", "watch", state.job_id)
        return Refusal(f"{ahead[0]} has not ended, and {node.name} needs its result", wait)
    return None


def _refusal_of_params(state: JobState, node: NodeState, request: Request) -> Refusal | None:
    """Why a person cannot give the params of a task: they are those of exactly one task, with a handler of its own."""
    program = state.program.nodes[node.name]
    if program.batches is not None or program.task is None:
        leave = Remedy("Correct the workflow, or the items that it reads.")
        return Refusal(f"{node.name} takes the results of other tasks, and its params say which", leave)
    is_one = len(request.items) == 1 if program.has_items else not request.items
    if request.verb is not Verb.CLEAR or not is_one or request.code is not None or request.fingerprint is not None:
        name = Remedy("Name it with --item N." if program.has_items else "Leave --item, --code and --fingerprint out.")
        return Refusal("params are given to one task at a time", name)
    if request.items and request.items[0] >= node.expanded:
        return _refusal_of_unmade(state, node, request.items[0])
    return None


def _refusal_of_unmade(state: JobState, node: NodeState, item: int) -> Refusal:
    """Params cannot be given to a task that is not there: no row would keep them."""
    if item >= node.width:
        return Refusal(f"{node.name} has no item {item}", Remedy("See what it has", "status", state.job_id))
    go_on = Remedy("Let the job make it first", "resume", state.job_id)
    wait = Remedy("Wait until it has one", "watch", state.job_id)
    return Refusal(f"item {item} of {node.name} has no task yet", go_on if state.status in RESUMABLE else wait)


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
    return bool(node.failed or node.cancelled or node.missed)


def _chosen(
    state: JobState, request: Request, *, is_corrected: bool = False
) -> dict[str, tuple[Selection | None, str]]:
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
    names = [request.node] if request.verb is Verb.RETRY else _missing(state, request, is_corrected=is_corrected)
    chosen: dict[str, tuple[Selection | None, str]] = {}
    for name in names:
        node = state.nodes[name or ""]
        name = node.name
        if node.status in (Status.FAILED, Status.CANCELLED) or _lacks_items(node):
            reason = "it failed" if node.status is Status.FAILED else "it was not finished"
            has_tasks = node.expanded > 0 and not node.is_matching
            chosen[name] = (Selection(UNFINISHED) if has_tasks else None, reason)
    if request.verb is Verb.RETRY and not request.only and _has_stopped_the_job(state, request.node or ""):
        for node in state.nodes.values():
            if node.reason == JOB_STOPPED and node.name not in chosen:
                statuses = (str(Status.CANCELLED),) if state.program.nodes[node.name].has_items else UNFINISHED
                cut_off = Selection(statuses) if node.expanded and not node.is_matching else None
                chosen[node.name] = (cut_off, f"the failure of {request.node} had stopped it")
    return chosen


def _missing(state: JobState, request: Request, *, is_corrected: bool) -> list[str]:
    """The nodes that `resume` looks at. What failed within the tolerance of a completed node is accepted: that runs
    again only if the person says so, or if nothing else is missing and nothing is corrected."""
    unfinished = [name for name, node in state.nodes.items() if node.status is not Status.COMPLETED]
    misses_more = any(state.nodes[name].status in (Status.FAILED, Status.CANCELLED) for name in unfinished)
    accepts = not request.tolerated and (misses_more or is_corrected or _lacks_result(state))
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
