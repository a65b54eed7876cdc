"""The details of a job: the map of a node, the timeline, the generations, one task with all that it has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holdfast.core.states import Status
from holdfast.store.data_rows import CheckpointRow
from holdfast.store.job_read_rows import EndedRow, GenerationRow, RunRow, WholeTaskRow
from holdfast.store.read_rows import Snapshot
from holdfast.views.data import Checkpoint, TaskResult, checkpoint_view
from holdfast.views.encoding import VERBATIM
from holdfast.views.history import Attempt, Failure, failure_view, undo_error
from holdfast.views.jobs import job_view

_LETTER_OF_STATE = {"leased": b"u", "ready": b"d"}
_BEGIN_OF_END = "job_"
_STATUS_OF_LETTER = {
    b"c": Status.COMPLETED,
    b"f": Status.FAILED,
    b"s": Status.SKIPPED,
    b"x": Status.CANCELLED,
    b"r": Status.READY,
    b"d": Status.DISPATCHED,
    b"u": Status.RUNNING,
    b"p": Status.PENDING,
}
_ALIKE = re.compile(rb"(.)\1*")


@dataclass(frozen=True, slots=True)
class TaskMap:
    """How all items of a node stand, in the order of their indexes."""

    job_id: str
    """The job."""
    node: str
    """The node."""
    items: int | None
    """How many items the node has; null: none yet, or it has a single task."""
    counts: dict[str, int] = field(metadata=VERBATIM)
    """How many items have each status."""
    runs: Sequence[tuple[str, int]] = field(metadata=VERBATIM)
    """The statuses from item 0 on, neighbours that are equal together: `[["completed", 997], ["failed", 3]]`."""


@dataclass(frozen=True, slots=True)
class TimelineNode:
    """A node in a timeline."""

    node: str
    """The node."""
    stage: int | None
    """The number of its stage; start and end have none."""
    type: str | None
    """Its type; null if this version cannot read the definition."""
    status: str
    """How it stands."""
    started_at: datetime | None
    """When it began in the present generation."""
    finished_at: datetime | None
    """When it ended; null while it has not."""
    buckets: Sequence[tuple[int, int, int]] = field(metadata=VERBATIM)
    """Where tasks ended: the number of the bucket, how many tasks ended in it, and how many of these failed. A bucket
    without any is left out. Bucket 0 begins at `since` of the timeline."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """When the nodes of a job ran, and when their tasks ended, in buckets of equal length."""

    job_id: str
    """The job."""
    since: datetime
    """Where bucket 0 begins: when the job was submitted, unless the request says otherwise."""
    until: datetime
    """Where the last bucket ends: when the job ended, or now."""
    bucket_seconds: float
    """How long a bucket is: bucket N begins N times as many seconds after `since`."""
    nodes: tuple[TimelineNode, ...]
    """The nodes in the order of the workflow, also those that have not begun."""


@dataclass(frozen=True, slots=True)
class GenerationCorrection:
    """What a person has corrected when a generation began."""

    changed: tuple[str, ...]
    """What differs: `inputs.NAME`, `workflow`, or the params of a task."""
    gone: tuple[str, ...]
    """The nodes that the corrected definition no longer has."""
    stale: str | None
    """Whether completed work that would be done in another way now stays: `keep`, or `rerun`."""


@dataclass(frozen=True, slots=True)
class Generation:
    """A part of a job's life: from the submission or a recovery to the end, or to the next recovery."""

    generation: int
    """Its number, from 1."""
    at: datetime
    """When it began."""
    verb: str | None
    """The verb that began it; null for the first one, which the submission began."""
    actor: str | None
    """Who sent the verb."""
    reason: str | None
    """Why, in the words of who sent it."""
    plan_id: str | None
    """The plan that was carried out."""
    tasks: int | None
    """How many tasks the verb reset, as far as that was known."""
    reset: dict[str, int | None] | None = field(metadata=VERBATIM)
    """The nodes that the verb reset, each with the number of its tasks; null: it was not known yet."""
    undone: dict[str, int | None] | None = field(metadata=VERBATIM)
    """The nodes that the verb undid, each with the number of its tasks."""
    correction: GenerationCorrection | None
    """What was corrected, if anything was."""
    ended: str | None
    """The status with which the job ended in this generation. Null: it has not ended, or the next generation began
    while it ran."""
    ended_at: datetime | None
    """When the job ended in this generation."""
    code: str | None
    """Why it ended so, if it did not complete."""
    message: str | None
    """The same in words."""


@dataclass(frozen=True, slots=True)
class GenerationPage:
    """One page of generations, the first one first."""

    generations: tuple[Generation, ...]
    """The generations."""
    after: int | None
    """Where the next page begins; None: this was the last."""


@dataclass(frozen=True, slots=True)
class TaskDetails:
    """One task with all that it was given, did and made."""

    job_id: str
    """The job."""
    node: str
    """The node."""
    index: int | None
    """The item; null: the node's own task."""
    status: str
    """How the task stands; without a task, how its node stands."""
    attempt: int
    """How many attempts have begun."""
    worker: str | None
    """The worker of the last attempt."""
    started_at: datetime | None
    """When the last attempt began."""
    finished_at: datetime | None
    """When the task ended."""
    error: Failure | None
    """Why the task, or its last attempt, failed."""
    gone: bool
    """Whether a correction took its item away."""
    undo_error: Failure | None
    """Why it could not be undone, and is completed as before."""
    progress: dict[str, Any] | None = field(metadata=VERBATIM)
    """How far the running attempt is, as its handler says: `done`, `total`, `text`."""
    has_params: bool
    """Whether there are params: a task that waits for others has none yet."""
    params: Any = field(metadata=VERBATIM)
    """What its attempts are given, after all templates."""
    corrected: bool
    """Whether a person gave the params."""
    has_output: bool
    """Whether there is an output."""
    output: Any = field(metadata=VERBATIM)
    """What it made; that of a node for a node's own task."""
    attempts: tuple[Attempt, ...]
    """Attempts that failed or printed something, with what they printed; a running one is the last. Of very many, or
    very long ones, only the latest."""
    checkpoints: tuple[Checkpoint, ...]
    """What its attempts have saved. Of very many, or very large ones, only the latest."""


@dataclass(frozen=True, slots=True)
class ResultPage:
    """One page of results by item."""

    results: tuple[TaskResult, ...]
    """The results."""
    after: int | None
    """The item behind which the next page begins; None: this was the last."""


def map_view(job_id: str, node: str, items: int | None, runs: Sequence[tuple[str, int]]) -> TaskMap:
    counts: Counter[str] = Counter()
    for status, number in runs:
        counts[status] += number
    return TaskMap(job_id, node, items, dict(sorted(counts.items())), runs)


def merged_runs(rows: Sequence[RunRow], items: int) -> list[tuple[str, int]]:
    """The statuses of all items: open tasks stand as the queue says, and those that are not made yet are pending."""
    letters = bytearray(next((row.status.encode() for row in rows if row.source == "tasks"), b""))
    starts = [row for row in rows if row.source == "queue"]
    ends = [row.previous for row in starts[1:]] + [row.item for row in rows if row.source == "last queued"]
    for row, end in zip(starts, ends, strict=True):
        number = (row.item if end is None else end) + 1 - row.item
        letters[row.item : row.item + number] = _LETTER_OF_STATE.get(row.status, b"r") * number
    letters += b"p" * (items - len(letters))
    return [(str(_STATUS_OF_LETTER[alike[1]]), len(alike[0])) for alike in _ALIKE.finditer(letters)]


def timeline_view(
    snapshot: Snapshot, since: datetime, until: datetime, bucket_seconds: float, ended: Sequence[EndedRow]
) -> Timeline:
    buckets: dict[str, list[tuple[int, int, int]]] = {}
    for row in sorted(ended):
        buckets.setdefault(row.node, []).append((row.bucket, row.ended, row.failed))
    nodes = tuple(
        TimelineNode(
            one.node, one.stage, one.type, one.status, one.started_at, one.finished_at, buckets.get(one.node, [])
        )
        for one in job_view(snapshot).nodes
    )
    return Timeline(snapshot.job.job_id, since, until, bucket_seconds, nodes)


def generation_view(row: GenerationRow) -> Generation:
    data: Mapping[str, Any] = row.data or {}
    details: Mapping[str, Any] = row.details or {}
    changed = tuple(data.get("corrected", ()))
    correction = GenerationCorrection(changed, tuple(data.get("gone", ())), data.get("stale")) if changed else None
    return Generation(
        data.get("generation", 1),
        row.at,
        data.get("verb"),
        data.get("actor"),
        data.get("reason") or None,
        data.get("plan_id"),
        data.get("tasks"),
        data.get("rerun"),
        data.get("undo"),
        correction,
        row.ended.removeprefix(_BEGIN_OF_END) if row.ended is not None else None,
        row.ended_at,
        details.get("code"),
        details.get("message"),
    )


def details_view(
    job_id: str,
    row: WholeTaskRow,
    has_output: bool,
    output: Any,
    attempts: Sequence[Attempt],
    checkpoints: Sequence[CheckpointRow],
) -> TaskDetails:
    return TaskDetails(
        job_id,
        row.node,
        # A node's own task has the item -1.
        row.item if row.item >= 0 else None,
        row.status,
        row.attempt,
        row.worker,
        row.started_at,
        row.finished_at,
        failure_view(row.error),
        row.gone,
        failure_view(undo_error(row.undo)),
        row.progress,
        row.params is not None,
        row.params,
        row.is_corrected,
        has_output,
        output,
        tuple(attempts),
        tuple(checkpoint_view(one) for one in checkpoints),
    )
