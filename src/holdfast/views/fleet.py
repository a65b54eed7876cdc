"""Who serves a database, and what no process serves."""

from __future__ import annotations

from typing import Any

from holdfast.moments import moment
from holdfast.store.fleet import Fleet, UnservedTasks


def fleet_json(fleet: Fleet) -> dict[str, Any]:
    """Four lists, each key documented in the reference."""
    return {
        "orchestrators": [
            {
                "id": one.orchestrator_id,
                "name": one.name,
                "version": one.version,
                "started_at": moment(one.started_at),
                "lease_seconds": round(one.lease_seconds, 3),
                "jobs": one.jobs,
                "oldest_job": one.oldest_job,
                "oldest_created_at": moment(one.oldest_created_at),
            }
            for one in fleet.orchestrators
        ],
        "workers": [
            {
                "id": one.worker_id,
                "name": one.name,
                "version": one.version,
                "queues": one.queues,
                "handlers": one.handlers,
                "concurrency": one.concurrency,
                "tasks": one.tasks,
                "lease_seconds": round(one.lease_seconds, 3),
                "started_at": moment(one.started_at),
            }
            for one in fleet.workers
        ],
        "without_owner": [
            {
                "owner_id": one.owner_id,
                "owner": one.owner,
                "since": moment(one.since),
                "jobs": one.jobs,
                "oldest_job": one.oldest_job,
            }
            for one in fleet.without_owner
        ],
        "unserved": [unserved_json(one) for one in fleet.unserved],
    }


def unserved_json(one: UnservedTasks) -> dict[str, Any]:
    return {
        "cause": one.cause,
        "queue": one.queue,
        "handler": one.handler,
        "tasks": one.tasks,
        "since": moment(one.since),
    }
