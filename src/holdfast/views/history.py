"""What happened to a job: its events, its attempts, its failures, and what its tasks made."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from holdfast.core.failing import Failure as StoredFailure
from holdfast.moments import epoch_moment
from holdfast.store.read_rows import ArtifactView, AttemptView, EventView, FailedItems, TaskRow
from holdfast.views.encoding import VERBATIM, named

_TIMES_IN_EVENTS = ("started_at", "retry_at", "since", "until")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt, a task, a node or a job failed."""

    code: str | None
    failure_class: str | None = field(metadata=named("class"))
    """`transient` or `permanent`."""
    message: str | None
    fingerprint: str | None
    """The same for failures that are alike."""
    node: str | None
    index: int | None
    attempt: int | None
    at: datetime | None
    hint: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a job's history; `seq` has no gaps."""

    seq: int
    job_id: str
    event: str
    node: str | None
    index: int | None
    attempt: int | None
    at: datetime
    data: dict[str, Any] | None = field(metadata=VERBATIM)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that failed or printed something, with the whole traceback of an exception in its `log`."""

    node: str
    index: int | None
    attempt: int
    outcome: str
    worker: str | None
    started_at: datetime | None
    finished_at: datetime
    error: Failure | None
    log: str | None
    extra: dict[str, Any] | None = field(metadata=VERBATIM)


@dataclass(frozen=True, slots=True)
class FailedGroup:
    """Items of a fan-out that failed in the same way; `items` are the first indexes of them."""

    number: int
    items: tuple[int, ...]
    code: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Task:
    """A node's own task (no `index`), or one item of a fan-out."""

    node: str
    index: int | None
    status: str
    attempt: int
    worker: str | None
    started_at: datetime | None
    finished_at: datetime | None
    error: Failure | None


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a task has published."""

    node: str
    index: int | None
    name: str
    digest: str
    bytes: int
    attempt: int
    published_at: datetime


def failure_view(error: StoredFailure | None) -> Failure | None:
    if error is None:
        return None
    return Failure(
        error.code,
        error.other.get("class", error.failure_class),
        error.message,
        error.fingerprint,
        error.node,
        error.index,
        error.attempt,
        datetime.fromtimestamp(error.at, UTC) if error.at is not None else None,
        str(error.next_step) if error.next_step is not None else None,
    )


def event_view(row: EventView) -> Event:
    """The times inside its data become readable too."""
    data = dict(row.data) if row.data is not None else None
    for key in _TIMES_IN_EVENTS:
        if data is not None and isinstance(data.get(key), int | float):
            data[key] = epoch_moment(data[key])
    return Event(row.seq, row.job_id, row.event, row.node, row.item, row.attempt, row.at, data)


def attempt_view(row: AttemptView) -> Attempt:
    return Attempt(
        row.node,
        _index(row.item),
        row.attempt,
        row.outcome,
        row.worker,
        row.started_at,
        row.finished_at,
        failure_view(row.error),
        row.log,
        row.extra,
    )


def failed_group(row: FailedItems) -> FailedGroup:
    return FailedGroup(row.number, tuple(row.items), row.code, row.message)


def task_view(row: TaskRow) -> Task:
    return Task(
        row.node,
        _index(row.item),
        row.status,
        row.attempt,
        row.worker,
        row.started_at,
        row.finished_at,
        failure_view(row.error),
    )


def artifact_view(row: ArtifactView) -> Artifact:
    return Artifact(row.node, _index(row.item), row.name, row.digest, row.bytes, row.attempt, row.published_at)


def _index(item: int) -> int | None:
    """A node's own task has the item -1."""
    return item if item >= 0 else None
