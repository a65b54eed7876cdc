"""What happened to a job: its events, its attempts, its failures, and what its tasks made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.core.failing import Failure as StoredFailure
from holdfast.moments import epoch_moment
from holdfast.store.data_rows import ArtifactView, FailedItems, TaskRow
from holdfast.store.output_rows import RunningPart
from holdfast.store.read_rows import AttemptView, EventView
from holdfast.store.stream_rows import StreamRow
from holdfast.views.encoding import IF_ANY, VERBATIM, named

RUNNING = "running"
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
class LogTime:
    """When a line of a log was printed, and those after it until the next entry; `line` counts from 0."""

    line: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Retries:
    """How many attempts failed or were lost and were followed by another."""

    retries: int
    lost: int
    """How many of them lost their worker."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that failed or printed something, with the whole traceback of an exception in its `log`."""

    node: str
    index: int | None
    attempt: int
    outcome: str
    worker: str | None
    started_at: datetime | None
    finished_at: datetime | None
    """None while it runs; then its `outcome` is `running`."""
    error: Failure | None
    log: str | None
    extra: dict[str, Any] | None = field(metadata=VERBATIM)
    log_times: tuple[LogTime, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedGroup:
    """Items of a fan-out that failed in the same way."""

    number: int
    """How many items these are."""
    items: tuple[int, ...]
    """The first indexes of them."""
    code: str | None
    """Why the first of them failed."""
    message: str | None
    """The same in words."""
    fingerprint: str | None
    """What their failures have in common."""
    first_at: datetime | None
    """When the first of them failed."""
    last_at: datetime | None
    """When the last of them failed."""


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
    gone: bool | None = field(default=None, metadata=IF_ANY)
    """True if a correction took its item away."""
    undo_error: Failure | None = field(default=None, metadata=IF_ANY)
    """Why it could not be undone, and is completed as before."""
    corrected: bool | None = field(default=None, metadata=IF_ANY)
    """True if a person gave its params."""


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


def event_view(row: EventView | StreamRow) -> Event:
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
        log_times(row.started_at, row.log_times),
    )


def running_view(parts: Sequence[RunningPart]) -> Attempt:
    """What a running attempt has printed in these parts."""
    first, log = parts[0], ""
    times: list[LogTime] = []
    for part in parts:
        before = log.count("\n")
        times += [LogTime(before + one.line, one.at) for one in log_times(part.started_at, part.log_times)]
        log += part.log
    return Attempt(
        first.node, _index(first.item), first.attempt, RUNNING, first.worker, first.started_at, None, None, log, None,
        tuple(times),
    )  # fmt: skip


def without_beginning(attempt: Attempt, characters: int, last: str) -> Attempt:
    """The attempt with the rest of its log, after these characters, the `last` of which the reader has seen.

    From a long log the middle was cut out: then the rest begins where the last ones stand.
    """
    log = attempt.log or ""
    begin = characters if log[:characters].endswith(last) else log.rfind(last) + len(last) if last in log else 0
    return _from(attempt, begin) if begin else attempt


def last_lines(attempt: Attempt, number: int | None) -> Attempt:
    """The attempt with only the last lines of its log; None: with all of them."""
    lines = (attempt.log or "").removesuffix("\n").split("\n")
    if number is None or len(lines) <= number:
        return attempt
    return _from(attempt, sum(len(line) + 1 for line in lines[: len(lines) - number]))


def _from(attempt: Attempt, begin: int) -> Attempt:
    """The attempt with its log from this character on."""
    log = attempt.log or ""
    rest, lines = log[begin:], log.count("\n", 0, begin)
    earlier = [one for one in attempt.log_times if one.line <= lines]
    later = [LogTime(one.line - lines, one.at) for one in attempt.log_times if one.line > lines]
    first = [LogTime(0, earlier[-1].at)] if earlier else []
    return replace(attempt, log=rest or None, log_times=tuple([*first, *later] if rest else ()))


def log_times(started_at: datetime | None, times: list[list[int]] | None) -> tuple[LogTime, ...]:
    if started_at is None or times is None:
        return ()
    return tuple(LogTime(line, started_at + timedelta(milliseconds=passed)) for line, passed in times)


def failed_group(row: FailedItems) -> FailedGroup:
    return FailedGroup(row.number, tuple(row.items), row.code, row.message, row.fingerprint, row.first_at, row.last_at)


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
        row.gone or None,
        failure_view(undo_error(row.undo)),
        row.is_corrected or None,
    )


def undo_error(undo: dict[str, Any] | None) -> StoredFailure | None:
    return StoredFailure.from_json(undo["error"]) if undo is not None and "error" in undo else None


def artifact_view(row: ArtifactView) -> Artifact:
    return Artifact(row.node, _index(row.item), row.name, row.digest, row.bytes, row.attempt, row.published_at)


def _index(item: int) -> int | None:
    """A node's own task has the item -1."""
    return item if item >= 0 else None
