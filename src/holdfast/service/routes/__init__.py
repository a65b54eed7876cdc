"""One file for each resource."""

from __future__ import annotations

from holdfast.service.routes import (
    audit,
    bootstrap,
    definitions,
    fleet,
    health,
    identity,
    jobs,
    lookup,
    short,
    steering,
    submissions,
    tasks,
    verbs,
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
        tasks,
        verbs,
        workflows,
        fleet,
        steering,
        audit,
        identity,
        bootstrap,
    )
    own = [(module.table, prefix) for module in modules]
    return [(health.table, ""), *own, (short.stage_table, prefix), (short.table, short.PREFIX)]
