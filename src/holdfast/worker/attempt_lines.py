"""The log lines of attempts, one when an attempt starts, one when it ends; and what a worker counts of them."""

from __future__ import annotations

import time
from typing import Any

import orjson

from holdfast.core.signals import Outcome
from holdfast.log_events import ACTIVITY, DEBUG, INFO, EventLog
from holdfast.meters import Meters
from holdfast.store.records import Report
from holdfast.worker.context import Attempt

log = EventLog(ACTIVITY)


def log_start(attempt: Attempt) -> None:
    if log.writes(DEBUG):
        log.write("attempt_started", **attempt.log_fields())


def note_end(meters: Meters, attempt: Attempt, report: Report | None, seconds: float) -> None:
    """How the attempt ended; without a report it has lost its lease. A line that is not written costs nothing."""
    meters.time("attempt_seconds", seconds)
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


def _milliseconds(attempt: Attempt) -> int:
    return round(1000 * (time.monotonic() - attempt.started_monotonic))
