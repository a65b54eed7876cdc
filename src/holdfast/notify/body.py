"""The JSON that a webhook or a callback gets. It is the same at each try, unless the job goes on meanwhile."""

from __future__ import annotations

from typing import Any

import orjson

from holdfast.moments import moment
from holdfast.service_address import API
from holdfast.store.notify_rows import JobFacts, NotedEvent

STATUS = {"job_completed": "completed", "job_partial": "partial", "job_failed": "failed", "job_cancelled": "cancelled"}
"""The status of a job that has ended, by the event of that."""


def body_of(event: NotedEvent, facts: JobFacts | None, public_url: str | None) -> bytes:
    """The body of a request: the type, when it happened, and the data."""
    status = STATUS.get(event.event) or (event.data or {}).get("status")
    data: dict[str, Any] = {
        **(event.data or {}),
        "job_id": event.job_id,
        "workflow_id": event.workflow_id,
        "node": event.node,
        "generation": event.generation,
        "seq": event.seq,
        "count": event.times,
        "items": event.items,
        "status": status,
        "state": status.upper() if isinstance(status, str) else None,
        "outcome": facts.outcome if facts is not None and is_of(facts, event) else None,
        "result_url": result_url(event.job_id, public_url),
    }
    return orjson.dumps({"type": event.event, "timestamp": moment(event.created_at), "data": data})


def is_of(facts: JobFacts, event: NotedEvent) -> bool:
    """Whether the job still is as the event left it: a person may have continued it since."""
    return facts.generation == event.generation and facts.status == STATUS.get(event.event)


def result_url(job_id: str | None, public_url: str | None) -> str | None:
    """Where the job is read over HTTP; None where the installation names no address."""
    if job_id is None or public_url is None:
        return None
    return f"{public_url.rstrip('/')}{API}/jobs/{job_id}"
