"""The log lines of attempts: one when an attempt starts, one when it ends."""

from __future__ import annotations

import time
from typing import Any

import orjson

from holdfast.core.signals import Outcome
from holdfast.log_events import ACTIVITY, DEBUG, INFO, EventLog
from holdfast.store.records import Report
from holdfast.worker.context import Attempt

log = EventLog(ACTIVITY)


def log_start(attempt: Attempt) -> None:
    if log.writes(DEBUG):
        log.write("attempt_started", **attempt.log_fields())


def log_end(attempt: Attempt, report: Report | None) -> None:
    """How the attempt ended; without a report it has lost its lease. A success costs nothing if it is not written."""
    if report is not None and report.outcome == Outcome.DONE:
        if log.writes(INFO):
            log.write("attempt_completed", **attempt.log_fields(), duration_ms=_milliseconds(attempt))
        return
    fields: dict[str, Any] = attempt.log_fields() | {"duration_ms": _milliseconds(attempt)}
    if report is None:
        log.write("attempt_lost", **fields)
    elif report.outcome == Outcome.GIVEN_BACK:
        log.write("attempt_given_back", **fields)
    else:
        data = orjson.loads(report.data) if report.data is not None else {}
        fields |= {"code": data.get("code"), "breaker": data.get("down"), "reason": data.get("message")}
        log.write("attempt_failed", **fields)


def _milliseconds(attempt: Attempt) -> int:
    return round(1000 * (time.monotonic() - attempt.started_monotonic))
