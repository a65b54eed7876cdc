"""The log lines and the counts of a cycle: jobs that began and ended, breakers that changed their state."""

from __future__ import annotations

from typing import Any

from holdfast.core.events import END_OF_JOB
from holdfast.core.states import JobState, JobStatus
from holdfast.log_events import ACTIVITY, DEBUG, INFO, EventLog
from holdfast.meters import Meters
from holdfast.orchestrator.owner import CycleResult
from holdfast.store.breaker_lines import log_move

log = EventLog(ACTIVITY)


def log_cycle(result: CycleResult) -> None:
    """Call it after the commit."""
    if result.begun and log.writes(DEBUG):
        for state in result.begun:
            log.write("job_started", **_job(state))
    for state in result.ended:
        if state.status is JobStatus.FAILED or log.writes(INFO):
            _log_end(state)
    for breaker in result.moved:
        log_move(breaker)


def count_cycle(meters: Meters, result: CycleResult, seconds: float) -> None:
    """Call it after the commit. A cycle that found nothing to do is not counted."""
    if not result.jobs:
        return
    meters.time("cycle_seconds", seconds)
    if result.created:
        meters.count("jobs_created", by=result.created)
    for state in result.ended:
        meters.count("jobs_finished", str(state.status))
    meters.count_ends("tasks_finished", result.ended_tasks)
    meters.count_ends("retries", result.retries)
    for breaker in result.moved:
        meters.count("breaker_moves", str(breaker.state))


def _job(state: JobState) -> dict[str, Any]:
    return {"job": state.job_id, "workflow": state.program.definition.workflow_id, "tenant": state.tenant}


def _log_end(state: JobState) -> None:
    error, status = state.error, JobStatus(state.status)
    milliseconds = round(1000 * ((state.finished_at or 0.0) - (state.started_at or state.created_at)))
    fields = _job(state) | {"duration_ms": milliseconds}
    if status is JobStatus.FAILED and error is not None:
        fields |= {"code": error.code, "node": error.node, "item": error.index, "reason": error.message}
    elif status is JobStatus.CANCELLED and error is not None:
        fields["code"] = error.code
    log.write(str(END_OF_JOB[status]), **fields)
