"""How far a job has been undone: of the job itself, and of each of its nodes. Plain data, kept in their rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from holdfast.core.failing import Failure

UNDOING = "undoing"
UNDONE = "undone"
"""Why a node is open, or has ended: what it had completed is being taken back, or has been."""


class UndoCause(StrEnum):
    """Who wants a job to be undone: a person, or its workflow, because the job has failed."""

    PERSON = "person"
    FAILURE = "failure"


class UndoStage(StrEnum):
    """Which tasks of a node are undone: its own task first, then its items or batches."""

    OWN = "own"
    ITEMS = "items"


@dataclass(slots=True)
class Undo:
    """The undoing of a job. It stays with the job until a verb runs something again."""

    cause: UndoCause
    actor: str
    nodes: tuple[str, ...]
    """The nodes that have something to undo, in the order in which they are undone."""
    reason: str = ""
    is_cut: bool = False
    """Whether a person's cancel ended it early."""
    is_over: bool = False
    is_whole: bool = False
    """Once it is over: whether nothing was left."""
    first: str | None = None
    """The node from which on a person wanted the job to be undone; none: all of it."""
    failed_by: Failure | None = None
    """Why the job had failed, if that is the cause: a cancel or a verb may give the job another error meanwhile."""
    by_hand: dict[str, str] = field(default_factory=dict)
    """The nodes at which a person must look, because no handler takes back what they may have done; and why."""
    before: dict[str, int] = field(default_factory=dict)
    """How many tasks of a node earlier undos had undone."""

    def to_json(self) -> dict[str, Any]:
        failed_by = self.failed_by.to_json() if self.failed_by is not None else None
        return asdict(replace(self, failed_by=None)) | {"failed_by": failed_by}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Undo:
        failed_by = Failure.from_json(data["failed_by"]) if data.get("failed_by") is not None else None
        known = {"cause": UndoCause(data["cause"]), "nodes": tuple(data["nodes"]), "failed_by": failed_by}
        return cls(**data | known)


@dataclass(slots=True)
class NodeUndo:
    """How far a node has been undone."""

    stage: UndoStage
    was: str
    """How the node had ended before."""
    reason: str | None
    """Why it had ended so."""
    undone: int = 0
    failed: int = 0
    """How many of its tasks are completed as before, because their undo failed."""
    error: Failure | None = None
    """The first failure of an undo."""
    is_over: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(replace(self, error=None)) | {"error": self.error.to_json() if self.error else None}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> NodeUndo:
        error = Failure.from_json(data["error"]) if data["error"] is not None else None
        return cls(**data | {"stage": UndoStage(data["stage"]), "error": error})
