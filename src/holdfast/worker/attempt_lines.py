"""What a worker tells of attempts: a line of the log at the start and at the end, counts, and spans."""

from __future__ import annotations

import time
from typing import Any

import orjson

from holdfast import tracing
from holdfast.core.signals import Outcome
from holdfast.log_events import ACTIVITY, DEBUG, INFO, EventLog
from holdfast.meters import Meters
from holdfast.store.records import Report
from holdfast.worker.context import Attempt

log = EventLog(ACTIVITY)


def log_start(attempt: Attempt) -> None:
    if log.writes(DEBUG):
        log.write("attempt_started", **attempt.log_fields())


def begin_span(attempt: Attempt) -> None:
    """The attempt's part of the trace of its job, if it has one. Call it in the task of the attempt."""
    if not tracing.is_on():
        return
    job, lease = tracing.Place.parse(attempt.facts.traceparent), attempt.lease
    if job is not None:
        task = job.of_task(lease.job_id, lease.node, lease.item, attempt.facts.generation)
        fields = {f"holdfast.{name}": value for name, value in attempt.log_fields().items()}
        fields["holdfast.job_id"] = fields.pop("holdfast.job")
        attempt.span = tracing.attempting(task, fields)


def note_end(meters: Meters, attempt: Attempt, report: Report | None, seconds: float) -> None:
    """How the attempt ended; without a report it has lost its lease. A line that is not written costs nothing."""
    meters.time("attempt_seconds", seconds)
    if attempt.span is not None:
        attempt.span.end(*_outcome(report))
    if report is not None and report.outcome == Outcome.DONE:
        meters.count("attempts", "completed", "")
        if log.writes(INFO):
            log.write("attempt_completed", **attempt.log_fields(), duration_ms=_milliseconds(attempt))
        return
    fields: dict[str, Any] = attempt.log_fields() | {"duration_ms": _milliseconds(attempt)}
    if report is None:
        meters.count("attempts", "lost", "")
        log.write("attempt_lost", **fields)
    elif report.outcome == Outcome.GIVEN_BACK:
        meters.count("attempts", "given_back", "")
        log.write("attempt_given_back", **fields)
    else:
        data = orjson.loads(report.data) if report.data is not None else {}
        meters.count("attempts", "failed", meters.code(data.get("code") or ""))
        fields |= {"code": data.get("code"), "breaker": data.get("down"), "reason": data.get("message")}
        log.write("attempt_failed", **fields)


def _outcome(report: Report | None) -> tuple[str, str]:
    if report is None:
        return "lost", ""
    if report.outcome in (Outcome.DONE, Outcome.GIVEN_BACK):
        return ("completed" if report.outcome == Outcome.DONE else "given_back"), ""
    return "failed", str(orjson.loads(report.data).get("code") or "") if report.data is not None else ""


def _milliseconds(attempt: Attempt) -> int:
    return round(1000 * (time.monotonic() - attempt.started_monotonic))
