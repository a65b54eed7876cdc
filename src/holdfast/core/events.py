"""The names of everything that can happen to a job, as its history keeps them."""

from __future__ import annotations

from enum import StrEnum

from holdfast.core.states import JobStatus, Status


class EventName(StrEnum):
    JOB_CREATED = "job_created"
    """Written by the submission itself: a job has no owner yet."""
    JOB_STARTED = "job_started"
    JOB_COMPLETED = "job_completed"
    JOB_PARTIAL = "job_partial"
    JOB_FAILED = "job_failed"
    JOB_CANCELLED = "job_cancelled"
    JOB_RECOVERED = "job_recovered"
    JOB_HELD = "job_held"
    JOB_RELEASED = "job_released"
    BREAKER_OPENED = "breaker_opened"
    BREAKER_CLOSED = "breaker_closed"
    NODE_READY = "node_ready"
    NODE_DISPATCHED = "node_dispatched"
    NODE_RETRY_SCHEDULED = "node_retry_scheduled"
    NODE_COMPLETED = "node_completed"
    NODE_FAILED = "node_failed"
    NODE_SKIPPED = "node_skipped"
    NODE_CANCELLED = "node_cancelled"
    TASK_READY = "task_ready"
    TASK_DISPATCHED = "task_dispatched"
    TASK_RETRY_SCHEDULED = "task_retry_scheduled"
    TASK_COMPLETED = "task_completed"
    TASK_FAILED = "task_failed"
    TASK_SKIPPED = "task_skipped"
    TASK_CANCELLED = "task_cancelled"
    WORKER_LOST = "worker_lost"
    OWNER_CHANGED = "owner_changed"
    JANITOR_ACTED = "janitor_acted"
    REPORT_REJECTED = "report_rejected"


END_OF_JOB = {
    JobStatus.COMPLETED: EventName.JOB_COMPLETED,
    JobStatus.PARTIAL: EventName.JOB_PARTIAL,
    JobStatus.FAILED: EventName.JOB_FAILED,
    JobStatus.CANCELLED: EventName.JOB_CANCELLED,
}
END_OF_NODE = {
    Status.COMPLETED: EventName.NODE_COMPLETED,
    Status.FAILED: EventName.NODE_FAILED,
    Status.SKIPPED: EventName.NODE_SKIPPED,
    Status.CANCELLED: EventName.NODE_CANCELLED,
}
END_OF_TASK = {
    Status.COMPLETED: EventName.TASK_COMPLETED,
    Status.FAILED: EventName.TASK_FAILED,
    Status.SKIPPED: EventName.TASK_SKIPPED,
    Status.CANCELLED: EventName.TASK_CANCELLED,
}
