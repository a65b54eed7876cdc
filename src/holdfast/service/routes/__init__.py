"""One file for each resource."""

from __future__ import annotations

from holdfast.service.routes import fleet, health, identity, jobs, tasks, verbs, workflows
from holdfast.service.table import RouteTable


def all_tables(prefix: str) -> list[tuple[RouteTable, str]]:
    """The routes of all resources, and what their paths begin with."""
    modules = (jobs, tasks, verbs, workflows, fleet, identity)
    return [(health.table, ""), *((module.table, prefix) for module in modules)]
