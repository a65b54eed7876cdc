"""One file for each resource."""

from __future__ import annotations

from holdfast.service.routes import (
    artifacts,
    audit,
    bootstrap,
    commands,
    defaults,
    definitions,
    details,
    fleet,
    front,
    health,
    identity,
    job_parts,
    jobs,
    live,
    lookup,
    notifications,
    overview,
    schedules,
    sessions,
    short,
    signals,
    steering,
    submissions,
    tasks,
    tenants,
    verbs,
    worker,
    worker_data,
    workflows,
)
from holdfast.service.table import RouteTable


def all_tables(prefix: str) -> list[tuple[RouteTable, str]]:
    """The routes of all resources, and what their paths begin with."""
    modules = (
        submissions,
        lookup,
        definitions,
        jobs,
        live,
        tasks,
        details,
        artifacts,
        verbs,
        workflows,
        fleet,
        steering,
        audit,
        notifications,
        identity,
        sessions,
        tenants,
        bootstrap,
        commands,
        overview,
        schedules,
        job_parts,
        signals,
        defaults,
        worker,
        worker_data,
    )
    own = [(module.table, prefix) for module in modules]
    return [(health.table, ""), (front.table, ""), *own, (short.stage_table, prefix), (short.table, short.PREFIX)]
