"""The details of one job as plain records: runs of statuses, times, generations, a task."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from holdfast.core.failing import Failure


class RunRow(NamedTuple):
    """A letter for each task; or, from the queue, where the state of tasks changes, and the item before that."""

    source: str
    item: int
    status: str
    previous: int | None


class EndedRow(NamedTuple):
    """How many tasks of a node ended in one stretch of time."""

    node: str
    bucket: int
    ended: int
    failed: int


class GenerationRow(NamedTuple):
    """The event that began a generation, and the one that ended it."""

    seq: int
    at: datetime
    data: dict[str, Any] | None
    ended: str | None
    ended_at: datetime | None
    details: dict[str, Any] | None


class WholeTaskRow(NamedTuple):
    """A task with its data; large params and outputs have digests."""

    node: str
    item: int
    status: str
    attempt: int = 0
    worker: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: Failure | None = None
    gone: bool = False
    undo: dict[str, Any] | None = None
    progress: dict[str, Any] | None = None
    is_corrected: bool = False
    params: Any = None
    params_ref: str | None = None
    output: Any = None
    output_ref: str | None = None
