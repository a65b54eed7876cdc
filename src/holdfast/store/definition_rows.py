"""Rows of definitions as people see them: versions, texts, and how the jobs of a workflow go."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class VersionRow(NamedTuple):
    """A definition that an id stood for, and the kind and the file of its text."""

    definition_hash: str
    version: str
    registered_at: datetime
    kind: str | None
    name: str | None


class SourceRow(NamedTuple):
    """The text from which a definition was read."""

    kind: str
    name: str | None
    text: str
    stored_at: datetime


class NodeStatisticsRow(NamedTuple):
    """How one node went in some jobs."""

    node: str
    completed: int
    failed: int
    p50: float | None
    p95: float | None


class JobStatisticsRow(NamedTuple):
    """How some jobs went."""

    jobs: int
    since: datetime | None
    statuses: dict[str, int] | None
    p50: float | None
    p95: float | None
