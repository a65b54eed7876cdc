"""How a plan is carried out: what it names goes back to its start, and everything else stays as it is."""

from __future__ import annotations

from holdfast.core import fanning
from holdfast.core.effects import ResetTasks, RestartNode, SkipTasks
from holdfast.core.events import EventName, JobRecovered, NodeEnded
from holdfast.core.kinds import has_task_per_item
from holdfast.core.planning import make_plan
from holdfast.core.plans import BY_HAND, CHANGES, MOVED, NOTHING_SELECTED, SET_BY_PERSON, Plan, Refusal, plan_id
from holdfast.core.readiness import SKIPPED_BY_PERSON
from holdfast.core.signals import RecoveryRequested, Selected, Selection, Verb
from holdfast.core.states import (
    JOB_CANCELLED,
    JOB_TERMINAL,
    TERMINAL,
    JobState,
    JobStatus,
    NodeState,
    Status,
    Trigger,
)
from holdfast.core.turn import Turn


def reset(turn: Turn, signal: RecoveryRequested) -> Refusal | None:
    """Carry out the plan: what it names goes back to the start, everything else stays, with its epoch and its lease."""
    state = turn.state
    plan = make_plan(state, signal.request, signal.selected, turn.now)
    refusal = plan if isinstance(plan, Refusal) else plan.refusal
    if isinstance(plan, Refusal) or refusal is not None:
        return refusal
    wanted = signal.request.plan_id
    current = plan_id(state.job_id, state.generation, signal.request, plan)
    if wanted is not None and wanted != current:
        return MOVED
    state.generation += 1
    state.recovered_at = turn.moment()
    state.scope["job"]["generation"] = state.generation
    turn.emit(EventName.JOB_RECOVERED, data=_event_data(state, signal, plan, current))
    if state.status in JOB_TERMINAL:
        state.move(JobStatus.RUNNING)
        state.finished_at = state.stop = state.error = state.result = None
    timeout = state.program.definition.timeout_seconds
    # What a pause has taken so far is added when it ends.
    begins_at = state.pause.since if state.pause is not None else turn.now
    state.deadline_at = begins_at + timeout if timeout is not None else None
    state.job_touched = True
    again = {step.node for step in plan.reruns}
    for step in plan.reruns:
        node, found = state.nodes[step.node], signal.selected.get(step.node, NOTHING_SELECTED)
        if step.selection is not None and node.batch_size is not None:
            waits = any(source in again for source in state.program.graph.sources[step.node])
            _redo_batches(turn, node, step.selection, found, waits=waits)
        elif step.selection is not None:
            _redo(turn, node, step.selection, found)
        else:
            _restart(turn, node, found)
    if signal.request.verb in BY_HAND:
        assert signal.request.node is not None
        node = state.nodes[signal.request.node]
        if signal.request.verb is Verb.SET:
            _set(turn, node, signal)
        else:
            _skip(turn, node, signal.actor)
    return None


def _event_data(state: JobState, signal: RecoveryRequested, plan: Plan, current: str) -> JobRecovered:
    data: JobRecovered = {
        "verb": str(plan.verb),
        "actor": signal.actor,
        "reason": signal.reason,
        "generation": state.generation,
        "plan_id": current,
        "tasks": plan.tasks,
        "rerun": {step.node: step.items for step in plan.steps if step.action in CHANGES},
    }
    if plan.unknown:
        data["unknown"] = len(plan.unknown)
    if plan.evaluates_result:
        data["evaluates_result"] = True
    return data


def _redo(turn: Turn, node: NodeState, selection: Selection, found: Selected) -> None:
    """Some tasks of the node back to ready, each as a new epoch with whole budgets; the others keep what they have."""
    _send_back(turn, node, selection, found)
    node.move(Trigger.ITEMS_RESET if has_task_per_item(turn.state, node.name) else Trigger.TASK_RESET)
    fanning.fill_window(turn, node)


def _redo_batches(turn: Turn, node: NodeState, selection: Selection, found: Selected, *, waits: bool) -> None:
    """Some batches back to ready, and the task behind them away: it is made again when all batches have completed.

    Where the fan-out runs again, too, the node `waits` for it, and keeps what it has done.
    """
    _drop_last_task(turn, node, found)
    _send_back(turn, node, selection, found)
    if waits or node.status is Status.PENDING:
        node.started_at = None
        if node.status is not Status.PENDING:
            node.move(Trigger.RESTARTED)
        return
    node.move(Trigger.ITEMS_RESET)
    fanning.fill_window(turn, node)
    fanning.settle_items(turn, node)


def _drop_last_task(turn: Turn, node: NodeState, found: Selected) -> None:
    """Its epochs go on where they were, so that a zombie of it is known as such. It ended as its node did."""
    node.base_epoch = max(node.base_epoch, found.last_epoch)
    node.base_attempt = max(node.base_attempt, found.last_attempt)
    if not node.has_last_task:
        return
    turn.effects.append(RestartNode(turn.state.job_id, node.name, own_only=True))
    node.expanded -= 1
    node.enqueued = min(node.enqueued, node.expanded)
    node.attempt = 0
    match node.status:
        case Status.COMPLETED:
            node.completed -= 1
        case Status.FAILED:
            node.failed -= 1
        case Status.CANCELLED:
            node.cancelled -= 1
        case Status.SKIPPED:
            node.skipped -= 1
        case _:
            pass


def _send_back(turn: Turn, node: NodeState, selection: Selection, found: Selected) -> None:
    if node.status in TERMINAL:
        # What was never queued has ended by now; if it is to run, it waits with the others.
        node.enqueued = node.expanded
    node.completed -= found.chosen_of(selection, Status.COMPLETED)
    node.failed -= found.chosen_of(selection, Status.FAILED)
    node.cancelled -= found.chosen_of(selection, Status.CANCELLED)
    node.skipped -= found.chosen_of(selection, Status.SKIPPED)
    node.waiting += found.number(selection)
    node.output = node.error = node.retry_at = node.finished_at = None
    # What a person's cancel has left unfinished stays so until a verb names it.
    node.reason = JOB_CANCELLED if node.reason == JOB_CANCELLED and node.cancelled else None
    node.started_at = turn.moment()
    node.spent.clear()
    turn.state.scope["nodes"].pop(node.name, None)
    turn.state.touch(node)
    turn.effects.append(ResetTasks(turn.state.job_id, node.name, selection, node.enqueued))
    turn.emit(EventName.NODE_READY, node.name, data={"tasks": found.number(selection)})


def _restart(turn: Turn, node: NodeState, found: Selected) -> None:
    """The whole node back to pending, its rows gone; epochs and attempts go on where they were, so that zombies are
    known as such."""
    if node.expanded:
        turn.effects.append(RestartNode(turn.state.job_id, node.name))
    node.base_epoch = max(node.base_epoch, found.last_epoch)
    node.base_attempt = max(node.base_attempt, found.last_attempt)
    if node.status is not Status.PENDING:
        node.move(Trigger.RESTARTED)
    node.output = node.error = node.reason = node.retry_at = node.started_at = node.finished_at = None
    node.batch_size = None
    node.width = node.expanded = node.enqueued = node.waiting = 0
    node.completed = node.failed = node.skipped = node.cancelled = node.attempt = 0
    node.taken = ()
    node.spent.clear()
    turn.state.scope["nodes"].pop(node.name, None)
    turn.state.touch(node)


def _set(turn: Turn, node: NodeState, signal: RecoveryRequested) -> None:
    """The node has completed, by a person's word; what its tasks came to stays in their history."""
    if node.status is not Status.PENDING or node.expanded:
        _restart(turn, node, signal.selected.get(node.name, NOTHING_SELECTED))
    by: NodeEnded = {"by": signal.actor}
    turn.finish_node(node, Trigger.SET, output=signal.request.output, reason=SET_BY_PERSON, data=by)


def _skip(turn: Turn, node: NodeState, actor: str) -> None:
    """What has not completed of it never will. A fan-out goes on with the items that it has."""
    if node.expanded:
        turn.effects.append(SkipTasks(turn.state.job_id, node.name))
        turn.emit(EventName.TASK_SKIPPED, node.name, data={"count": node.expanded - node.completed, "by": actor})
    node.skipped = node.expanded - node.completed
    node.failed = node.cancelled = node.waiting = 0
    node.enqueued = node.expanded
    if node.batch_size is None:
        node.width = node.expanded
    by: NodeEnded = {"by": actor}
    if node.expanded and has_task_per_item(turn.state, node.name):
        output = {"fan_out_count": node.width}
        turn.finish_node(node, Trigger.SET, output=output, reason=SKIPPED_BY_PERSON, data=by)
    else:
        turn.finish_node(node, Trigger.SKIPPED, reason=SKIPPED_BY_PERSON, data=by)
