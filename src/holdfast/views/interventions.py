"""What people did about a job: nodes that they ended by hand or had undone, and failures that they have seen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.core.plans import SET_BY_PERSON
from holdfast.core.undo_states import NodeUndo
from holdfast.store.read_rows import JobLine, JobView, Snapshot
from holdfast.views.history import Failure, failure_view


@dataclass(frozen=True, slots=True)
class ByHand:
    """Who decided how a node ended, by `set` or `skip`, when and why."""

    verb: str
    by: str
    at: datetime
    reason: str | None


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Who has seen that a job failed or is partial, and why it needs nothing more."""

    by: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class NodeUndone:
    """How many completed tasks of a node an undo has taken back."""

    undone: int
    failed: int
    """How many could not be undone and stay completed."""
    error: Failure | None
    """The first failure of an undo."""
    is_over: bool


def by_hand_view(snapshot: Snapshot, name: str) -> ByHand | None:
    row = snapshot.by_hand.get(name)
    if row is None:
        return None
    return ByHand("set" if row.verb == SET_BY_PERSON else "skip", row.by, row.at, row.reason)


def acknowledgement_view(row: JobView | JobLine) -> Acknowledgement | None:
    if row.acknowledged_by is None or row.acknowledged_at is None:
        return None
    return Acknowledgement(row.acknowledged_by, row.acknowledged_reason or "", row.acknowledged_at)


def undone_view(stored: dict[str, Any] | None) -> NodeUndone | None:
    if stored is None:
        return None
    undo = NodeUndo.from_json(stored)
    return NodeUndone(undo.undone, undo.failed, failure_view(undo.error), undo.is_over)
