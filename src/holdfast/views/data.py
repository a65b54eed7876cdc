"""The data of a job: the params, the outputs and the checkpoints of its tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holdfast.store.data_rows import CheckpointRow, ResultRow
from holdfast.views.encoding import HIDDEN, VERBATIM


@dataclass(frozen=True, slots=True)
class DataValue:
    """The output or the params of a node, or of one of its items; `status` is that of the node or of the item."""

    job_id: str
    node: str
    item: int | None
    status: str
    value: Any = field(metadata=VERBATIM)
    """None is a value, too; `has_value` says whether there is one."""
    has_value: bool = field(metadata=HIDDEN)
    items: int | None = field(default=None, metadata=HIDDEN)
    """How many items the node has, if the value belongs to a node with items that has begun."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """How one task of a node stands: its status, its attempts, the code of its failure, its output.

    A file of results is read far from its job, so each of them names the job and the node.
    """

    job_id: str
    node: str
    item: int | None
    status: str
    attempts: int
    code: str | None
    output: Any = field(metadata=VERBATIM)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point that an attempt saved; the next attempt of the task continues from the one with the highest number."""

    item: int | None
    number: int
    name: str
    saved_at: datetime
    bytes: int
    value: Any = field(metadata=VERBATIM)


def result_view(job_id: str, node: str, row: ResultRow) -> TaskResult:
    return TaskResult(job_id, node, _item(row.item), row.status, row.attempts, row.code, row.output)


def checkpoint_view(row: CheckpointRow) -> Checkpoint:
    return Checkpoint(_item(row.item), row.seq, row.name, row.saved_at, row.bytes, row.data)


def _item(number: int) -> int | None:
    """A node's own task has the item -1."""
    return number if number >= 0 else None
