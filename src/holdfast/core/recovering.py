"""How a plan is carried out: what it names goes back to its start, and everything else stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.core import fanning, undo_plans, undoing
from holdfast.core.correcting import corrected_state
from holdfast.core.effects import OWN_TASK, GiveParams, PinJob, ResetTasks, RestartNode, SkipTasks
from holdfast.core.events import EventName, JobRecovered, NodeEnded
from holdfast.core.kinds import has_task_per_item
from holdfast.core.matching import await_matching
from holdfast.core.planning import make_plan, why_guarded
from holdfast.core.plans import (
    BY_HAND,
    CHANGES,
    MOVED,
    NOTHING_SELECTED,
    SET_BY_PERSON,
    Action,
    Correction,
    Plan,
    Refusal,
    Step,
    plan_id,
)
from holdfast.core.queueing import has_contract
from holdfast.core.readiness import SKIPPED_BY_PERSON
from holdfast.core.signals import RecoveryRequested, Request, Selected, Selection, Verb
from holdfast.core.states import (
    JOB_CANCELLED,
    JOB_TERMINAL,
    REMOVED,
    TERMINAL,
    JobState,
    JobStatus,
    NodeState,
    Status,
    Trigger,
)
from holdfast.core.turn import Turn
from holdfast.core.undo_states import Undo, UndoCause
from holdfast.define.definition import OnFailure
from holdfast.remedies import Remedy


def reset(turn: Turn, signal: RecoveryRequested) -> Refusal | None:
    """Carry out the plan: what it names goes back to the start, everything else stays, with its epoch and its lease."""
    state, correction = turn.state, signal.correction
    plan = _corrected_plan(turn, signal, correction) if correction is not None else _plan(turn, signal)
    if isinstance(plan, Refusal):
        return plan
    current = plan_id(state.job_id, state.generation, signal.request, plan)
    is_undo = signal.request.verb is Verb.UNDO
    is_accepted = undo_plans.is_accepted(state, signal.request)
    nodes = undo_plans.nodes_to_undo(state, signal.request.node) if is_undo else ()
    state.generation += 1
    state.recovered_at = turn.moment()
    if correction is not None:
        _correct(turn, correction, signal.selected)
        current = correction.plan_id
    state.scope["job"]["generation"] = state.generation
    turn.emit(EventName.JOB_RECOVERED, data=_event_data(state, signal, plan, current))
    if state.status in JOB_TERMINAL:
        state.move(JobStatus.RUNNING)
        state.finished_at = state.stop = state.error = state.result = None
    if is_undo:
        left = undo_plans.by_hand(plan)
        undo = Undo(UndoCause.PERSON, signal.actor, nodes, signal.reason, first=signal.request.node, by_hand=left)
        undoing.begin(turn, undo)
        return None
    if is_accepted:
        _accept(turn, signal)
        return None
    state.undo = None
    timeout = state.program.definition.timeout_seconds
    # What a pause has taken so far is added when it ends.
    begins_at = state.pause.since if state.pause is not None else turn.now
    state.deadline_at = begins_at + timeout if timeout is not None else None
    state.job_touched = True
    again = {step.node for step in plan.reruns}
    if signal.request.params is not None:
        _give_params(turn, signal.request)
    for step in plan.reruns:
        _carry_out(turn, step, signal.selected.get(step.node, NOTHING_SELECTED), again)
    if signal.request.verb in BY_HAND:
        assert signal.request.node is not None
        node = state.nodes[signal.request.node]
        if signal.request.verb is Verb.SET:
            _set(turn, node, signal)
        else:
            _skip(turn, node, signal.actor)
    return None


def compensates(state: JobState) -> bool:
    """Whether a job that has failed undoes what it has completed: its workflow wants that, and something undoes it."""
    wants = state.program.definition.on_failure is OnFailure.COMPENSATE
    return wants and bool(undo_plans.nodes_to_undo(state))


def compensate(turn: Turn) -> None:
    """A job has failed: undo what it has completed."""
    state = turn.state
    nodes = undo_plans.nodes_to_undo(state)
    request = Request(Verb.UNDO)
    plan = undo_plans.plan_of_failed(state, request)
    signal = RecoveryRequested(None, "on_failure: compensate", state.error.message if state.error else "", request, {})
    current = plan_id(state.job_id, state.generation, request, plan)
    state.generation += 1
    state.recovered_at = turn.moment()
    state.scope["job"]["generation"] = state.generation
    turn.emit(EventName.JOB_RECOVERED, data=_event_data(state, signal, plan, current))
    left = undo_plans.by_hand(plan)
    undoing.begin(turn, Undo(UndoCause.FAILURE, signal.actor, nodes, failed_by=state.error, by_hand=left))


def _accept(turn: Turn, signal: RecoveryRequested) -> None:
    """A person has dealt with what could not be undone of a node: the undo goes on above it."""
    undo, name = turn.state.undo, signal.request.node
    assert undo is not None and name is not None
    rest = undo_plans.nodes_after_acceptance(turn.state, name)
    undoing.accept(turn, turn.state.nodes[name], signal.actor)
    undoing.begin(
        turn, replace(undo, actor=signal.actor, nodes=rest, reason=signal.reason, is_cut=False, is_over=False)
    )


def _plan(turn: Turn, signal: RecoveryRequested) -> Plan | Refusal:
    """What the verb does now; with a plan's id, exactly that or nothing."""
    state = turn.state
    plan = make_plan(state, signal.request, signal.selected, turn.now)
    if isinstance(plan, Refusal):
        return plan
    wanted = signal.request.plan_id
    is_other = wanted is not None and wanted != plan_id(state.job_id, state.generation, signal.request, plan)
    return plan.refusal or (MOVED if is_other else plan)


def _corrected_plan(turn: Turn, signal: RecoveryRequested, correction: Correction) -> Plan | Refusal:
    """The stored plan, if nothing has happened to the job since it was made, and its guards still allow it."""
    state, plan = turn.state, correction.plan
    if not state.is_terminal or (correction.generation, correction.seq) != (state.generation, state.seq):
        return MOVED
    after = corrected_state(state, correction.program, correction.inputs)
    for step in plan.reruns:
        if step.redone and (reason := why_guarded(after, step, signal.selected, turn.now)) is not None:
            return Refusal(reason, Remedy("Look at the plan again", "plan", state.job_id))
    return plan


def _correct(turn: Turn, correction: Correction, selected: Mapping[str, Selected]) -> None:
    """Another definition or other inputs from this generation on. Nodes that are gone leave only their history."""
    state, former = turn.state, turn.state.program
    for node in state.correct(correction.program, correction.inputs):
        has_effects = undo_plans.may_have_effects(state, node)
        _restart(turn, node, selected.get(node.name, NOTHING_SELECTED))
        node.reason = REMOVED if has_effects else None
    for name, node in state.nodes.items():
        if node.reason == REMOVED:
            # The workflow has it again.
            node.reason = None
            state.touch(node)
        if node.has_row and former.importances.get(name) is not correction.program.importances[name]:
            state.touch(node)
    version = correction.program.definition.version
    turn.effects.append(PinJob(state.job_id, state.generation, correction.program.hash, version, correction.inputs))


def _give_params(turn: Turn, request: Request) -> None:
    assert request.node is not None and request.params is not None
    item = request.items[0] if request.items else OWN_TASK
    contract = has_contract(turn, request.node, item)
    turn.effects.append(GiveParams(turn.state.job_id, request.node, item, request.params, contract))


def _carry_out(turn: Turn, step: Step, found: Selected, again: set[str]) -> None:
    """Bring one node back to where it runs again."""
    node = turn.state.nodes[step.node]
    if step.matching is not None:
        how = replace(step.matching, last_epoch=found.last_epoch, last_attempt=found.last_attempt)
        await_matching(turn, node, how)
    elif step.selection is not None and node.batch_size is not None:
        nodes, sources = turn.state.nodes, turn.state.program.graph.sources[step.node]
        waits = any(source in again or nodes[source].status not in TERMINAL for source in sources)
        _redo_batches(turn, node, step.selection, found, waits=waits)
    elif step.selection is not None:
        _redo(turn, node, step.selection, found)
        if has_task_per_item(turn.state, node.name):
            # By another `tolerate` it may end with nothing run.
            fanning.settle_items(turn, node)
    else:
        _restart(turn, node, found)


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
    undone: dict[str, int | None] = {}
    for step in plan.steps:
        if step.action is Action.UNDO:
            undone[step.node] = undone.get(step.node, 0) + (step.items or 0)  # type: ignore[operator]
    if undone:
        data["undo"] = undone
    if plan.verb is Verb.UNDO and (left := undo_plans.by_hand(plan)):
        data["by_hand"] = left
    if plan.unknown:
        data["unknown"] = len(plan.unknown)
    if plan.evaluates_result:
        data["evaluates_result"] = True
    if signal.request.params is not None:
        items = signal.request.items
        data["corrected"] = [f"params of {signal.request.node}{f'[{items[0]}]' if items else ''}"]
    if signal.correction is not None:
        data["corrected"] = list(signal.correction.corrected)
        gone = [step.node for step in plan.steps if step.action is Action.GONE]
        if gone:
            data["gone"] = gone
        if signal.correction.stale is not None:
            data["stale"] = str(signal.correction.stale)
    if signal.request_id is not None:
        data["request_id"] = signal.request_id
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
    _keep_epochs(node, found)
    if not node.has_last_task:
        return
    turn.effects.append(RestartNode(turn.state.job_id, node.name, own_only=True))
    node.expanded -= 1
    node.enqueued = min(node.enqueued, node.expanded)
    node.attempt = 0
    node.uncount(node.status)


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
    node.undo = None
    turn.state.scope["nodes"].pop(node.name, None)
    turn.state.touch(node)
    has_items = turn.state.program.nodes[node.name].has_items
    contract = has_contract(turn, node.name, 0 if has_items else OWN_TASK)
    turn.effects.append(ResetTasks(turn.state.job_id, node.name, selection, node.enqueued, contract))
    turn.emit(EventName.NODE_READY, node.name, data={"tasks": found.number(selection)})


def _restart(turn: Turn, node: NodeState, found: Selected) -> None:
    """The whole node back to pending, its rows gone; epochs and attempts go on where they were, so that zombies are
    known as such."""
    if node.expanded:
        turn.effects.append(RestartNode(turn.state.job_id, node.name))
    _keep_epochs(node, found)
    if node.status is not Status.PENDING:
        node.move(Trigger.RESTARTED)
    node.output = node.error = node.reason = node.retry_at = node.started_at = node.finished_at = None
    node.batch_size = node.matching = node.undo = None
    node.width = node.expanded = node.enqueued = node.waiting = 0
    node.completed = node.failed = node.skipped = node.cancelled = node.attempt = 0
    node.taken = ()
    node.spent.clear()
    turn.state.scope["nodes"].pop(node.name, None)
    turn.state.touch(node)


def drop_tasks(turn: Turn, node: NodeState) -> None:
    """A fan-out that waited to match its items will have none: its branch is not taken any more."""
    if node.matching is not None and node.is_matching:
        reached = NOTHING_SELECTED._replace(
            last_epoch=node.matching.last_epoch, last_attempt=node.matching.last_attempt
        )
        _restart(turn, node, reached)


def _keep_epochs(node: NodeState, found: Selected) -> None:
    """Whatever the node makes from now on has epochs and attempts above those that its rows tell of."""
    node.base_epoch = max(node.base_epoch, found.last_epoch)
    node.base_attempt = max(node.base_attempt, found.last_attempt)


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
        output = {"fan_out_count": node.items}
        turn.finish_node(node, Trigger.SET, output=output, reason=SKIPPED_BY_PERSON, data=by)
    else:
        turn.finish_node(node, Trigger.SKIPPED, reason=SKIPPED_BY_PERSON, data=by)
