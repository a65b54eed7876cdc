"""One file for each resource."""

from __future__ import annotations

from holdfast.service.routes import (
    artifacts,
    bootstrap,
    closely,
    definitions,
    fleet,
    health,
    identity,
    jobs,
    lookup,
    short,
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
        closely,
        artifacts,
        verbs,
        workflows,
        fleet,
        identity,
        bootstrap,
    )
    own = [(module.table, prefix) for module in modules]
    return [(health.table, ""), *own, (short.stage_table, prefix), (short.table, short.PREFIX)]
