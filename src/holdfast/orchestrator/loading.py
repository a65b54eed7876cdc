"""From rows of the inbox to the signals that the core works with."""

from __future__ import annotations

from typing import Any

from holdfast.core.classifying import classify, failure_in
from holdfast.core.failing import Failure, failure
from holdfast.core.plans import Correction, Plan, Stale
from holdfast.core.queueing import spec_of
from holdfast.core.signals import (
    REQUEST_ID,
    CancelRequested,
    InconsistencyFound,
    JobSubmitted,
    Outcome,
    PauseRequested,
    ReportRejected,
    Request,
    Signal,
    TaskReported,
    TaskView,
    Verb,
)
from holdfast.core.states import JobState
from holdfast.define.node import TaskSpec
from holdfast.define.program import Program
from holdfast.errors import Bug, FailureClass
from holdfast.store.records import Examined, PlanRow, SignalRow


def signal(row: SignalRow, now: float, chance: float, state: JobState) -> Signal:
    """What an inbox row means. `chance` is the randomness that a retry may need."""
    match row.kind:
        case "report":
            return _report(row, now, chance, state)
        case "submitted":
            return JobSubmitted()
        case "rejected":
            assert row.node is not None and row.item is not None and row.epoch is not None
            return ReportRejected(row.node, row.item, row.epoch, row.worker or "")
        case "cancel":
            plan_id = (row.data or {}).get("plan_id")
            return CancelRequested(row.id, row.actor or "", row.reason or "", plan_id, row.request_id)
        case "pause" | "unpause":
            plan_id = (row.data or {}).get("plan_id")
            is_paused = row.kind == "pause"
            return PauseRequested(row.id, row.actor or "", row.reason or "", is_paused, plan_id, row.request_id)
        case _:
            raise Bug(f"signal {row.id} of job {row.job_id} has an unknown kind: {row.kind}")


def inconsistency(row: SignalRow, examined: Examined) -> InconsistencyFound:
    """A doubt of the janitor's, with what the rows say now."""
    return InconsistencyFound(
        row.actor or "", row.reason or "", examined.counts, tuple(examined.unqueued), examined.ended
    )


def recovery(row: SignalRow) -> Request:
    """The verb that a person's signal asks for."""
    given = {name: value for name, value in (row.data or {}).items() if name not in ("correction", REQUEST_ID)}
    return Request(**given | {"verb": Verb(given["verb"]), "items": tuple(given.get("items", ()))})


def correction(row: PlanRow, program: Program) -> Correction:
    """What a person has changed about a job, with its plan."""
    content = row.content
    return Correction(
        row.plan_id,
        row.generation,
        row.last_seq,
        program,
        row.inputs,
        Plan.from_json(content["plan"]),
        tuple(content["corrected"]),
        Stale(content["stale"]) if content["stale"] is not None else None,
    )


def _report(row: SignalRow, now: float, chance: float, state: JobState) -> TaskReported:
    assert row.node is not None and row.item is not None and row.epoch is not None
    assert row.attempt is not None and row.outcome is not None
    view = None
    if row.task_status is not None and row.task_epoch is not None:
        view = TaskView(
            row.task_status,
            row.task_epoch,
            row.task_attempt or 0,
            row.task_retries,
            row.task_lost,
            row.task_crashes,
        )
    outcome = Outcome(row.outcome)
    data = row.data or {}
    tells_why = outcome is Outcome.FAILED or (outcome is Outcome.LOST and "message" in data)
    return TaskReported(
        node=row.node,
        item=row.item,
        epoch=row.epoch,
        attempt=row.attempt,
        outcome=outcome,
        task=view,
        output=row.output,
        error=_error(row, data, now, state) if tells_why else None,
        worker=row.worker,
        started_at=row.started_at,
        chance=chance,
        retry_after_seconds=data.get("retry_after_seconds"),
        alone=row.alone,
        signal_id=row.id,
        log=data.get("log"),
        log_times=data.get("log_times"),
        extra=data.get("extra"),
        calls=data.get("calls"),
        down=data.get("down"),
    )


def _error(row: SignalRow, data: dict[str, Any], now: float, state: JobState) -> Failure:
    task = _spec_of(state, row.node, row.item) if row.node is not None and row.item is not None else None
    reported = failure_in(data)
    verdict = classify(reported, task.errors if task is not None else ())
    return failure(
        verdict.code,
        reported.message,
        permanent=verdict.failure_class is FailureClass.PERMANENT,
        at=now,
        node=row.node,
        item=row.item,
        attempt=row.attempt,
        handler=task.handler if task else "",
    )


def _spec_of(state: JobState, node: str, item: int) -> TaskSpec | None:
    """What ran as the task; None if the definition has no such task."""
    known = state.nodes.get(node)
    return spec_of(state, node, item) if known is not None and known.is_undoing else state.program.spec_of(node, item)
