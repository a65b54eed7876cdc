"""What people see of the data of a job, as plain records: tasks, outputs, params, failures, files, checkpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from holdfast.core.failing import Failure


class TaskRow(NamedTuple):
    """A task as it is now; item -1 is a node's own task."""

    node: str
    item: int
    status: str
    attempt: int
    worker: str | None
    started_at: datetime | None
    finished_at: datetime | None
    error: Failure | None
    gone: bool = False
    """Whether a correction took its item away."""
    undo: dict[str, Any] | None = None
    """Why it could not be undone, as `error`, if that was tried."""
    is_corrected: bool = False
    """Whether a person gave its params."""


class ArtifactView(NamedTuple):
    """A file that a task has published; item -1 is a node's own task."""

    node: str
    item: int
    name: str
    digest: str
    bytes: int
    attempt: int
    published_at: datetime


class FailedItems(NamedTuple):
    """Items of a fan-out that failed in the same way; `items` are the first of them."""

    number: int
    items: list[int]
    code: str | None
    message: str | None
    fingerprint: str | None
    first_at: datetime | None = None
    """When the first of them failed."""
    last_at: datetime | None = None


class StoredOutput(NamedTuple):
    """The output of a node or a task; `output_ref` is the digest of one that is too large for its row."""

    output: Any
    output_ref: str | None
    status: str | None = None
    """The status of the task; None for a node."""


class StoredParams(NamedTuple):
    """The params of a task; `params_ref` is the digest of params that are too large for their row."""

    status: str
    params: dict[str, Any] | None
    params_ref: str | None


class ResultRow(NamedTuple):
    """How one task of a node ended; item -1 is a node's own task."""

    item: int
    status: str
    attempts: int
    code: str | None
    output: Any
    output_ref: str | None


class CheckpointRow(NamedTuple):
    """A point that an attempt saved; item -1 is a node's own task."""

    item: int
    seq: int
    name: str
    saved_at: datetime
    bytes: int
    data: Any
