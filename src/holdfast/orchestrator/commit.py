"""The rows of jobs and nodes that a cycle touched, as the store writes them."""

from __future__ import annotations

from dataclasses import asdict

from holdfast.core.states import JobState, NodeState
from holdfast.core.undo_states import UNDOING, UNDONE
from holdfast.define.node import Importance
from holdfast.store.batch import Batch, JobUpdate
from holdfast.store.records import NodeRow


def add_states(batch: Batch, state: JobState, owner: int) -> None:
    """Put the rows that the state touched into the batch; a finished job has no owner."""
    for name in sorted(state.touched):
        node = state.nodes.get(name) or state.retired[name]
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


def _job(state: JobState, owner: int | None) -> JobUpdate:
    stop = state.stop
    return JobUpdate(
        job_id=state.job_id,
        owner=owner,
        epoch=state.epoch,
        status=state.status,
        reason=_reason(state),
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
        recovered_at=state.recovered_at,
        undo=state.undo.to_json() if state.undo is not None else None,
    )


def _reason(state: JobState) -> str | None:
    if state.is_terminal:
        return UNDONE if state.undo is not None else None
    if state.stop is not None:
        return "stopping"
    return UNDOING if state.is_undoing else None


def _node(state: JobState, node: NodeState) -> NodeRow:
    return NodeRow(
        job_id=state.job_id,
        node=node.name,
        status=node.status,
        reason=node.reason,
        importance=state.program.importances.get(node.name, Importance.OPTIONAL),
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
        matching=asdict(node.matching) if node.matching is not None else None,
        undo=node.undo.to_json() if node.undo is not None else None,
    )
