"""The heart: a job's state, a signal and the time in; effects out. No I/O, no clock, no randomness.

`advance` consumes the state that it is given: it is changed in place and belongs to the caller's cycle. A
cycle whose commit fails or is unknown throws its states away and reads them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from holdfast.core import fanning, holding, matching, rechecking, recovering, reporting, steering, stopping, undoing
from holdfast.core.breaking import BreakerState
from holdfast.core.effects import AnswerSignal, Effect
from holdfast.core.events import END_OF_JOB, BreakerMove, EventName, JanitorActed, JobEnded
from holdfast.core.failing import Failure, failure
from holdfast.core.kinds import is_border, kind_of
from holdfast.core.notifying import notices
from holdfast.core.outcome import counts, default_result, first_error, job_status, stops_the_job, was_cancelled
from holdfast.core.plans import Refusal
from holdfast.core.readiness import Verdict, decide
from holdfast.core.signals import (
    REQUEST_ID,
    BreakerChanged,
    BreakerSeen,
    CancelRequested,
    InconsistencyFound,
    ItemsAggregated,
    JobSubmitted,
    MatchedTask,
    OwnerChanged,
    PauseRequested,
    RecoveryRequested,
    ReportRejected,
    Signal,
    TaskReported,
    TasksWithdrawn,
    TimePassed,
    WorkContinued,
)
from holdfast.core.states import (
    TERMINAL,
    UPSTREAM_FAILED,
    JobState,
    JobStatus,
    NodeState,
    Status,
    StopCause,
    Trigger,
)
from holdfast.core.steering import SteeringVerb
from holdfast.core.turn import Turn
from holdfast.errors import Bug, Code, PayloadRefused, TemplateError
from holdfast.remedies import Remedy


def advance(state: JobState, signal: Signal, now: float) -> list[Effect]:
    """Apply one signal to a job and return what must be done, in order."""
    turn = Turn(state, now)
    match signal:
        case TaskReported():
            reporting.task_reported(turn, signal)
        case JobSubmitted():
            _submitted(turn)
        case WorkContinued():
            _continue_work(turn, signal.limit, signal.tasks)
        case ItemsAggregated():
            _aggregated(turn, signal)
        case TasksWithdrawn():
            _withdrawn(turn, signal)
        case TimePassed():
            stopping.time_passed(turn)
        case CancelRequested():
            _cancel(turn, signal)
        case PauseRequested():
            _pause(turn, signal)
        case OwnerChanged():
            turn.emit(EventName.OWNER_CHANGED, data={"owner": signal.owner, "previous": signal.previous})
        case BreakerChanged():
            _breaker_changed(turn, signal)
        case BreakerSeen():
            holding.breaker_seen(turn, signal)
        case ReportRejected():
            reporting.reject(turn, signal.node, signal.item, signal.epoch, signal.worker)
        case InconsistencyFound():
            _recheck(turn, signal)
        case RecoveryRequested():
            _recover(turn, signal)
        case _:
            assert_never(signal)
    _settle(turn)
    _answer_cancel(turn)
    if state.has_audience:
        turn.effects += list(notices(state, turn.effects))
    return turn.effects


def owed_rows(state: JobState) -> bool:
    """Whether the job needs `WorkContinued`."""
    if state.stop is not None or state.is_terminal or state.is_undoing:
        return False
    return any(fanning.owes_rows(state, n) for n in state.nodes.values())


def owed_results(state: JobState) -> list[str]:
    """The fan-ins whose results the owner must gather; after a takeover, too."""
    if state.is_undoing:
        return []
    return [n.name for n in state.nodes.values() if kind_of(state, n.name).owes_results(n)]


def _submitted(turn: Turn) -> None:
    state = turn.state
    if any(n.status is not Status.PENDING for n in state.nodes.values()):
        return
    timeout = state.program.definition.timeout_seconds
    if timeout is not None:
        state.deadline_at = turn.now + timeout
    state.job_touched = True
    for name in state.program.graph.roots:
        _begin(turn, state.nodes[name])


def _settle(turn: Turn) -> None:
    """Let every node that ended decide its dependents, stop the job where one demands it, end it when all ended."""
    state = turn.state
    if not turn.finished:
        return
    if state.is_undoing:
        turn.finished.clear()
        undoing.go_on(turn)
        return
    while turn.finished:
        name = turn.finished.pop(0)
        if state.stop is None and stops_the_job(state, name):
            stopping.stop_job(turn, StopCause.FAILED)
        for target in state.program.graph.outgoing[name]:
            if state.stop is None and state.nodes[target].status is Status.PENDING:
                _decide(turn, state.nodes[target])
    _end_borders(turn)
    if all(n.status in TERMINAL for n in state.nodes.values()):
        _finish_job(turn)


def _end_borders(turn: Turn) -> None:
    """Where a cancel waited for the last tasks: the end is reached if it ended nothing early."""
    state = turn.state
    if state.stop is None or any(n.status not in TERMINAL and counts(state, n.name) for n in state.nodes.values()):
        return
    for name in state.program.graph.order:
        node = state.nodes[name]
        if node.status is Status.PENDING and was_cancelled(state):
            turn.finish_node(node, Trigger.JOB_STOPPED, reason=state.stop_reason)
        elif node.status is Status.PENDING:
            _decide(turn, node)


def _withdrawn(turn: Turn, signal: TasksWithdrawn) -> None:
    state = turn.state
    state.awaits_withdrawal = False
    stopping.tasks_withdrawn(turn, signal)
    is_over = not state.is_terminal and not state.is_undoing and not turn.finished
    if is_over and all(node.status in TERMINAL for node in state.nodes.values()):
        _finish_job(turn)
    if turn.state.stop is None:
        for name in signal.items:
            if turn.state.nodes[name].status is Status.PENDING:
                _decide(turn, turn.state.nodes[name])


def _decide(turn: Turn, node: NodeState) -> None:
    verdict = decide(turn.state, node.name)
    if verdict in (Verdict.SKIPPED, Verdict.CANCELLED) and node.open_tasks:
        # Some of its batches wait to run again: they end first, and then it is decided.
        fanning.withdraw_rest(turn, node, "what it waits for has failed")
        turn.state.touch(node)
        return
    match verdict:
        case None:
            return
        case Verdict.READY:
            _begin(turn, node)
        case Verdict.SKIPPED:
            recovering.drop_tasks(turn, node)
            turn.finish_node(node, Trigger.DEPENDENCIES_ABSENT, reason="branch_not_taken")
        case Verdict.CANCELLED:
            turn.finish_node(node, Trigger.UPSTREAM_FAILED, reason=UPSTREAM_FAILED)


def _begin(turn: Turn, node: NodeState) -> None:
    """A node whose dependencies hold: decide it here, or hand it to the workers."""
    program = turn.state.program.nodes[node.name]
    node.move(Trigger.DEPENDENCIES_HOLD)
    if is_border(turn.state, node.name):
        _go_on(turn, node)
        return
    turn.emit(EventName.NODE_READY, node.name)
    if program.task is not None and not program.has_items and turn.state.has_made_enough:
        turn.state.touch(node)  # Its turn comes with WorkContinued.
    else:
        _go_on(turn, node)


def _go_on(turn: Turn, node: NodeState) -> None:
    try:
        kind_of(turn.state, node.name).begin(turn, node)
    except (TemplateError, PayloadRefused) as problem:
        error = failure(problem.code, str(problem), permanent=True, at=turn.now, node=node.name)
        turn.finish_node(node, Trigger.REFUSED, error=error)


def _continue_work(turn: Turn, limit: int | None, tasks: Mapping[str, Mapping[int, MatchedTask]]) -> None:
    """One more chunk for every node that owes rows, as far as all together do not become too large."""
    state = turn.state
    if state.stop is not None or state.is_terminal or state.is_undoing:
        return
    for node in state.nodes.values():
        if state.has_made_enough:
            break
        if node.status is Status.READY and fanning.owes_rows(state, node):
            _go_on(turn, node)
        elif fanning.owes_rows(state, node) and node.is_matching:
            if node.name in state.matches:
                matching.match_chunk(turn, node, tasks.get(node.name, {}), limit)
        elif fanning.owes_rows(state, node):
            items = fanning.items_of(turn, node)
            if len(items) != node.width:
                raise Bug(f"{node.name} of {state.job_id} was {node.width} wide and is now {len(items)}")
            fanning.expand_chunk(turn, node, items, limit)


def _aggregated(turn: Turn, signal: ItemsAggregated) -> None:
    node = turn.state.nodes[signal.node]
    if not kind_of(turn.state, node.name).owes_results(node):
        return
    if signal.error is not None:
        turn.finish_node(node, Trigger.REFUSED, error=signal.error)
    else:
        turn.finish_node(node, Trigger.DECIDED, output=signal.output)


def _breaker_changed(turn: Turn, signal: BreakerChanged) -> None:
    """A report of this job opened or closed a breaker: its events say so, though it concerns all jobs behind it."""
    is_shut = signal.state is BreakerState.OPEN
    event: BreakerMove = EventName.BREAKER_OPENED if is_shut else EventName.BREAKER_CLOSED
    turn.emit(event, data={"breaker": signal.name, "reason": signal.reason, "until": signal.until})
    holding.breaker_seen(turn, BreakerSeen(signal.name, is_shut, signal.until))


def _recheck(turn: Turn, signal: InconsistencyFound) -> None:
    """Do what is missing, and emit an event; in a sound job nothing is missing."""
    state = turn.state
    if state.is_terminal:
        rechecking.doubt_end(turn, signal)
        stopping.withdraw_strays(turn)
        return
    done = rechecking.repair(turn, signal)
    if all(node.status is Status.PENDING for node in state.nodes.values()):
        _submitted(turn)
    elif state.stop is None and not turn.finished:
        for node in state.nodes.values():
            # Where rows are left of a node that has not begun, a person has to look: they would be made twice. Of a
            # fan-in that waits to go on with some of its batches it is known.
            if node.status is Status.PENDING and (node.expanded or node.name not in signal.counts):
                _decide(turn, node)
    stopping.time_passed(turn)
    if state.is_undoing and not turn.finished:
        undoing.go_on(turn)
    is_over = not state.is_undoing and all(node.status in TERMINAL for node in state.nodes.values())
    if done or turn.effects or is_over:
        acted: JanitorActed = {"duty": signal.duty, "reason": signal.reason, **done}
        turn.emit(EventName.JANITOR_ACTED, data=acted)
    if is_over and not turn.finished and not state.is_terminal:
        _finish_job(turn)


def _cancel(turn: Turn, signal: CancelRequested) -> None:
    refusal = steering.refusal_now(turn.state, SteeringVerb.CANCEL, signal.plan_id)
    if refusal is None:
        stopping.cancel(turn, signal)
    elif signal.signal_id is not None:
        _answer(turn, signal.signal_id, refusal, "")


def _answer_cancel(turn: Turn) -> None:
    """A cancel that ended something early is carried out; one that has ended nothing when the job ends was too late."""
    state, stop = turn.state, turn.state.stop
    if stop is None or stop.signal_id is None:
        return
    if state.undo.is_cut if state.undo is not None else was_cancelled(state):
        turn.effects.append(AnswerSignal(stop.signal_id, state.job_id, True, "cancelled"))
    elif state.is_terminal:
        reason = f"too late: its last tasks have finished, and it is {state.status}"
        turn.effects.append(AnswerSignal(stop.signal_id, state.job_id, False, reason))
    else:
        return
    stop.signal_id = None
    state.job_touched = True


def _compensate(turn: Turn) -> None:
    """The job has failed, and goes on: it undoes itself. A cancel that ended nothing before was too late."""
    state, stop = turn.state, turn.state.stop
    if stop is not None and stop.signal_id is not None:
        reason = "too late: its last tasks have finished, it has failed, and what it has done is being undone"
        again = Remedy("Leave what is not undone yet as it is, with", "cancel", state.job_id)
        turn.effects.append(AnswerSignal(stop.signal_id, state.job_id, False, reason, again))
    recovering.compensate(turn)


def _answer(turn: Turn, signal_id: int, refusal: Refusal | None, done: str) -> None:
    job_id = turn.state.job_id
    if refusal is None:
        turn.effects.append(AnswerSignal(signal_id, job_id, True, done))
    else:
        turn.effects.append(AnswerSignal(signal_id, job_id, False, refusal.reason, refusal.remedy))


def _pause(turn: Turn, signal: PauseRequested) -> None:
    verb = SteeringVerb.PAUSE if signal.is_paused else SteeringVerb.UNPAUSE
    refusal = steering.refusal_now(turn.state, verb, signal.plan_id)
    if refusal is None:
        holding.pause(turn, signal)
    if signal.signal_id is not None:
        _answer(turn, signal.signal_id, refusal, "paused" if signal.is_paused else "released")


def _recover(turn: Turn, signal: RecoveryRequested) -> None:
    """Reset what the verb names; then every node whose dependencies hold begins."""
    refusal = recovering.reset(turn, signal)
    if signal.signal_id is not None:
        _answer(turn, signal.signal_id, refusal, f"generation {turn.state.generation}")
    if refusal is None and turn.state.undo is None:
        _begin_pending(turn)
        if not turn.finished and all(node.status in TERMINAL for node in turn.state.nodes.values()):
            _finish_job(turn)


def _begin_pending(turn: Turn) -> None:
    graph = turn.state.program.graph
    for name in graph.order:
        node = turn.state.nodes[name]
        if node.status is Status.PENDING:
            if graph.sources[name]:
                _decide(turn, node)
            else:
                _begin(turn, node)


def _result(turn: Turn) -> Any:
    """What is made of several outputs may be too large; one output alone has been looked at before."""
    state = turn.state
    if state.program.result is None and len(state.program.graph.result_nodes) == 1:
        return default_result(state)
    result = state.program.result.render(state.scope) if state.program.result is not None else default_result(state)
    turn.written("the result is", result, "kept")
    return result


def _not_run_again(turn: Turn) -> Failure | None:
    """A person ran some of the job again, and left what had been cancelled as it was."""
    left = [node.name for node in turn.state.nodes.values() if node.status is Status.CANCELLED]
    if not left:
        return None
    message = f"{', '.join(left[:3])}{' and others' if len(left) > 3 else ''} had been cancelled and did not run again"
    hint = Remedy("Run what is missing with", "resume", turn.state.job_id)
    return failure(Code.CANCELLED, message, permanent=False, at=turn.now, hint=hint)


def _finish_job(turn: Turn) -> None:
    """All nodes are terminal: decide the job's status, compute its result, emit its one terminal event."""
    state = turn.state
    status = job_status(state)
    if state.status is JobStatus.PENDING:
        state.started_at = turn.moment()
    if state.stop is not None and state.stop.cause is StopCause.CANCELLED and status is not JobStatus.CANCELLED:
        # The cancel came too late: it explains nothing.
        state.error = None
    if status in (JobStatus.COMPLETED, JobStatus.PARTIAL):
        try:
            state.result = _result(turn)
        except (TemplateError, PayloadRefused) as problem:
            status = JobStatus.FAILED
            state.error = failure(problem.code, str(problem), permanent=True, at=turn.now)
    if state.error is None and status is not JobStatus.COMPLETED:
        state.error = first_error(state) or _not_run_again(turn)
    if status is JobStatus.FAILED and recovering.compensates(state):
        if not state.awaits_withdrawal:
            _compensate(turn)
        return
    state.move(status)
    state.holds.clear()
    state.finished_at = turn.moment()
    data: JobEnded | None = {"code": state.error.code, "message": state.error.message} if state.error else None
    if data is not None and state.error is not None and REQUEST_ID in state.error.other:
        data["request_id"] = state.error.other[REQUEST_ID]
    turn.emit(END_OF_JOB[status], data=data)
