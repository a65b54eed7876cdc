"""From the rows of a job to the state that the core works with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.core.match_states import Matching
from holdfast.core.states import Hold, JobState, JobStatus, NodeState, Rules, Status, Stop, StopCause
from holdfast.core.undo_states import NodeUndo, Undo
from holdfast.define.notify import NotifyRule
from holdfast.define.program import Program
from holdfast.store.records import JobRow, NodeRow

NO_SUBSCRIPTIONS: Mapping[str, frozenset[str]] = {}
"""No webhook of any tenant subscribes to anything."""


def job_state(
    row: JobRow,
    nodes: Iterable[NodeRow],
    program: Program,
    rules: Rules,
    subscriptions: Mapping[str, frozenset[str]] = NO_SUBSCRIPTIONS,
) -> JobState:
    """A job as it was committed last."""
    stop = None
    if row.stop_cause is not None:
        assert row.stop_until is not None
        stop = Stop(StopCause(row.stop_cause), row.stop_until, row.stop_leases_ended, row.stop_signal)
    return JobState(
        job_id=row.job_id,
        program=program,
        inputs=row.inputs,
        created_at=row.created_at,
        rules=rules,
        tenant=row.tenant,
        priority=row.priority,
        status=JobStatus(row.status),
        run=row.run,
        generation=row.generation,
        epoch=row.epoch,
        seq=row.last_seq,
        started_at=row.started_at,
        deadline_at=row.deadline_at,
        recovered_at=row.recovered_at,
        stop=stop,
        error=row.error,
        nodes={n.node: _node_state(n) for n in nodes},
        holds=[Hold(**hold) for hold in row.holds],
        undo=Undo.from_json(row.undo) if row.undo is not None else None,
        notify=tuple(NotifyRule.from_json(rule) for rule in row.notify or ()),
        subscriptions=subscriptions,
        traceparent=row.traceparent,
    )


def _node_state(row: NodeRow) -> NodeState:
    return NodeState(
        name=row.node,
        status=Status(row.status),
        reason=row.reason,
        output=row.output,
        error=row.error,
        attempt=row.attempt,
        width=row.width,
        expanded=row.expanded,
        enqueued=row.enqueued,
        completed=row.completed,
        failed=row.failed,
        skipped=row.skipped,
        cancelled=row.cancelled,
        taken=tuple(row.taken),
        retry_at=row.retry_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        spent=dict(row.spent or {}),
        waiting=row.waiting,
        base_epoch=row.base_epoch,
        base_attempt=row.base_attempt,
        batch_size=row.batch_size,
        matching=Matching(**row.matching) if row.matching is not None else None,
        undo=NodeUndo.from_json(row.undo) if row.undo is not None else None,
        has_row=True,
    )
