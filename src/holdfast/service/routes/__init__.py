"""One file for each resource."""

from __future__ import annotations

from holdfast.service.routes import (
    bootstrap,
    defaults,
    definitions,
    fleet,
    health,
    identity,
    job_parts,
    jobs,
    lookup,
    overview,
    short,
    signals,
    submissions,
    tasks,
    verbs,
    workflows,
)
from holdfast.service.table import RouteTable


def all_tables(prefix: str) -> list[tuple[RouteTable, str]]:
    """The routes of all resources, and what their paths begin with."""
    modules = (submissions, lookup, definitions, jobs, tasks, verbs, workflows, fleet, identity, bootstrap)
    ours = (overview, job_parts, signals, defaults)
    own = [(module.table, prefix) for module in (*modules, *ours)]
    return [(health.table, ""), *own, (short.stage_table, prefix), (short.table, short.PREFIX)]
