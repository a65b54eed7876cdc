"""From what the core decided to what the store writes: effects and touched states become one batch."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.breaking import Breaker
from holdfast.core.effects import (
    AggregateItems,
    AnswerSignal,
    CreateTasks,
    Effect,
    Emit,
    EnqueueTasks,
    EnqueueWaiting,
    FailTask,
    FinishTask,
    MarkJob,
    RecordAttempt,
    ReleaseTasks,
    ResetTasks,
    RestartNode,
    RetryTask,
    SkipTasks,
    WithdrawTasks,
)
from holdfast.core.states import JobState, NodeState
from holdfast.store.interface import (
    AnswerWrite,
    AttemptWrite,
    Batch,
    BreakerWrite,
    EnqueueWrite,
    EventWrite,
    FailedTaskWrite,
    FinishWrite,
    JobWrite,
    Lane,
    MarkWrite,
    NodeRow,
    ReleaseWrite,
    ResetWrite,
    RestartWrite,
    RetryWrite,
    SkipWrite,
    TaskWrite,
    WaitingWrite,
    Withdrawal,
)


def add_effects(batch: Batch, state: JobState, effects: Iterable[Effect]) -> list[Withdrawal]:
    """Put effects into the batch; returns the withdrawals, which must wait until the batch is written."""
    job_id = state.job_id
    withdrawals: list[Withdrawal] = []
    for effect in effects:
        match effect:
            case Emit():
                batch.events.append(EventWrite(job_id, *effect))
            case FinishTask():
                batch.finished.append(FinishWrite(job_id, *effect))
            case CreateTasks():
                batch.tasks.extend(_tasks(state, effect))
            case EnqueueTasks():
                batch.enqueued.append(_enqueue(state, effect))
            case RetryTask():
                batch.retried.append(_retry(state, effect))
            case RecordAttempt():
                batch.attempts.append(AttemptWrite(job_id, *effect))
            case FailTask(node, item, error, epoch, attempt):
                batch.failed_tasks.append(FailedTaskWrite(job_id, node, item, error, epoch + 1, attempt))
            case WithdrawTasks():
                withdrawals.append(Withdrawal(job_id, *effect))
            case ResetTasks(node, selection, enqueued):
                batch.resets.append(ResetWrite(job_id, node, selection, enqueued))
            case RestartNode(node, own_only):
                batch.restarts.append(RestartWrite(job_id, node, own_only))
            case SkipTasks(node):
                batch.skips.append(SkipWrite(job_id, node))
            case EnqueueWaiting():
                batch.waiting.append(_waiting(state, effect))
            case MarkJob(error):
                batch.marks.append(MarkWrite(job_id, error))
            case ReleaseTasks(seconds):
                batch.releases.append(ReleaseWrite(job_id, seconds))
            case AnswerSignal(signal_id, applied, reason, remedy):
                batch.answers.append(AnswerWrite(signal_id, job_id, applied, reason, remedy))
            case AggregateItems():
                # The state itself says that the fan-in waits: its owner sees it when the cycle is over.
                pass
    return withdrawals


def add_states(batch: Batch, state: JobState, owner: int) -> None:
    """Put the rows that the state touched into the batch; a finished job belongs to nobody."""
    for name in sorted(state.touched):
        node = state.nodes[name]
        (batch.nodes if node.has_row else batch.new_nodes).append(_node(state, node))
        node.has_row = True
    if state.pause is not None:
        # Whatever this cycle has queued of it waits, too.
        batch.paused.append(state.job_id)
    if state.job_touched:
        batch.jobs.append(_job(state, None if state.is_terminal else owner))
    state.touched.clear()
    state.job_touched = False
    state.made_bytes = 0


def breaker_write(breaker: Breaker) -> BreakerWrite:
    return BreakerWrite(
        name=breaker.name,
        state=breaker.state,
        calls=[[at, failed] for at, failed in breaker.window],
        successes=breaker.successes,
        changed_at=breaker.changed_at,
        until=breaker.until,
        held=breaker.held,
        reason=breaker.reason,
    )


def _job(state: JobState, owner: int | None) -> JobWrite:
    stop = state.stop
    return JobWrite(
        job_id=state.job_id,
        owner=owner,
        epoch=state.epoch,
        status=state.status,
        reason="stopping" if stop and not state.is_terminal else None,
        generation=state.generation,
        result=state.result,
        error=state.error,
        started_at=state.started_at,
        finished_at=state.finished_at,
        deadline_at=state.deadline_at,
        stop_cause=stop.cause if stop else None,
        stop_until=stop.until if stop else None,
        stop_leases_ended=stop.leases_ended if stop else False,
        stop_signal=stop.signal_id if stop else None,
        holds=[hold._asdict() for hold in state.holds],
    )


def _node(state: JobState, node: NodeState) -> NodeRow:
    return NodeRow(
        job_id=state.job_id,
        node=node.name,
        status=node.status,
        reason=node.reason,
        importance=state.program.nodes[node.name].node.importance,
        output=node.output,
        error=node.error,
        attempt=node.attempt,
        width=node.width,
        expanded=node.expanded,
        enqueued=node.enqueued,
        completed=node.completed,
        failed=node.failed,
        skipped=node.skipped,
        cancelled=node.cancelled,
        taken=list(node.taken),
        retry_at=node.retry_at,
        started_at=node.started_at,
        finished_at=node.finished_at,
        spent=dict(node.spent) or None,
        waiting=node.waiting,
        base_epoch=node.base_epoch,
        base_attempt=node.base_attempt,
        batch_size=node.batch_size,
    )


def _lane(state: JobState, effect: EnqueueTasks | EnqueueWaiting | RetryTask) -> Lane:
    spec = effect.spec
    return Lane(spec.queue, spec.handler, state.tenant, spec.breaker or "", effect.limits)


def _tasks(state: JobState, effect: CreateTasks) -> list[TaskWrite]:
    node, first, params, epoch, attempt = effect
    has_contract = state.program.nodes[node].task_of(first).spec.output_schema is not None
    return [
        TaskWrite(state.job_id, node, first + i, value, epoch + 1, attempt, has_contract)
        for i, value in enumerate(params)
    ]


def _enqueue(state: JobState, effect: EnqueueTasks) -> EnqueueWrite:
    spec = effect.spec
    return EnqueueWrite(
        state.job_id,
        effect.node,
        effect.first,
        effect.last,
        _lane(state, effect),
        state.priority,
        effect.rank,
        spec.timeout_seconds,
        spec.queue_timeout_seconds,
    )


def _waiting(state: JobState, effect: EnqueueWaiting) -> WaitingWrite:
    spec = effect.spec
    return WaitingWrite(
        state.job_id,
        effect.node,
        effect.number,
        _lane(state, effect),
        state.priority,
        effect.rank,
        spec.timeout_seconds,
        spec.queue_timeout_seconds,
    )


def _retry(state: JobState, effect: RetryTask) -> RetryWrite:
    spec = effect.spec
    return RetryWrite(
        state.job_id,
        effect.node,
        effect.item,
        effect.epoch,
        effect.attempt,
        effect.error,
        effect.retries,
        effect.lost,
        effect.crashes,
        _lane(state, effect),
        effect.due_at,
        state.priority,
        effect.rank,
        effect.suspect,
        spec.timeout_seconds,
        spec.queue_timeout_seconds,
    )
