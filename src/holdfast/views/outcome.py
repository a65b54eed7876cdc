"""How a job turned out: by objective, by deliverable, by stage, and what would recover it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import Any

from holdfast.core.advising import Advice
from holdfast.core.signals import Verb
from holdfast.core.states import Status
from holdfast.define.kinds import kind_of
from holdfast.define.node import Importance, Node
from holdfast.store.read_rows import Deliverable as DeliverableRow
from holdfast.store.read_rows import NodeView, Snapshot
from holdfast.views.advice import advice_note, advice_words
from holdfast.views.encoding import HIDDEN, VERBATIM
from holdfast.views.history import Failure

_BAD = (Status.FAILED, Status.CANCELLED)


@dataclass(frozen=True, slots=True)
class Objective:
    """A node as a part of what the job is for."""

    node: str
    description: str | None
    status: str
    details: str | None
    error: Failure | None


@dataclass(frozen=True, slots=True)
class Deliverable:
    """How much of something there is and where; for several places `location` is what they begin with."""

    count: int
    location: str | None
    usable: bool


@dataclass(frozen=True, slots=True)
class Stage:
    """A node that has completed."""

    node: str
    completed_at: datetime | None
    task_count: int
    success_count: int


@dataclass(frozen=True, slots=True)
class HttpRequest:
    method: str
    path: str
    body: dict[str, Any] = field(metadata=VERBATIM)


@dataclass(frozen=True, slots=True)
class Recovery:
    """A verb that would be accepted now, as a command and as a request."""

    node: str | None
    command: str
    request: HttpRequest
    advice: Advice = field(metadata=HIDDEN)

    @property
    def is_resume(self) -> bool:
        return self.advice.request.verb is Verb.RESUME

    @property
    def note(self) -> str:
        """What it is good for."""
        return advice_note(self.advice)

    def words(self, job: str) -> str:
        """The verb with its arguments, as people type it."""
        return advice_words(self.advice, job)


@dataclass(frozen=True, slots=True)
class Outcome:
    primary: tuple[Objective, ...]
    secondary: tuple[Objective, ...]
    optional: tuple[Objective, ...]
    deliverables: dict[str, Deliverable]
    stages: dict[str, Stage]
    resumable: bool
    resume_from: str | None
    recovery: tuple[Recovery, ...]


@dataclass(frozen=True, slots=True)
class StageState:
    """What an outcome needs to know of a node."""

    node: Node
    stage: int | None
    status: str
    error: Failure | None
    finished_at: datetime | None
    task_count: int
    success_count: int


def outcome_view(snapshot: Snapshot, states: Sequence[StageState]) -> Outcome:
    numbered = [state for state in states if state.stage is not None]
    recoveries = tuple(recovery_view(snapshot.job.job_id, advice) for advice in snapshot.advice)
    is_resumable = any(one.is_resume for one in recoveries)
    bad = next((state.node.name for state in numbered if state.status in _BAD), None)

    def objectives(importance: Importance) -> tuple[Objective, ...]:
        return tuple(_objective(snapshot, state) for state in numbered if state.node.importance is importance)

    return Outcome(
        objectives(Importance.CRITICAL),
        objectives(Importance.IMPORTANT),
        objectives(Importance.OPTIONAL),
        _deliverables(snapshot),
        {str(state.stage): _stage(state) for state in numbered if state.status == Status.COMPLETED},
        is_resumable,
        bad if is_resumable else None,
        recoveries,
    )


def recovery_view(job_id: str, advice: Advice) -> Recovery:
    request = advice.request
    body: dict[str, Any] = {"node": request.node} if request.node is not None else {}
    body |= {"only": True} if request.only else {}
    path = f"/api/v1/jobs/{job_id}/{request.verb}"
    return Recovery(request.node, f"holdfast {advice_words(advice, job_id)}", HttpRequest("POST", path, body), advice)


def _stage(state: StageState) -> Stage:
    return Stage(state.node.name, state.finished_at, state.task_count, state.success_count)


def _objective(snapshot: Snapshot, state: StageState) -> Objective:
    details = _details(state.node, snapshot.nodes.get(state.node.name))
    return Objective(state.node.name, state.node.description or None, state.status, details, state.error)


def _details(node: Node, row: NodeView | None) -> str | None:
    """How far the node came, in a few words."""
    if row is None:
        return None
    if kind_of(node).has_task_per_item:
        return f"{row.completed} of {row.width} {'item' if row.width == 1 else 'items'} completed"
    if row.batch_size is not None:
        return f"{min(row.completed, row.width)} of {row.width} {'batch' if row.width == 1 else 'batches'} completed"
    return row.reason.replace("_", " ") if row.reason is not None else None


def _deliverables(snapshot: Snapshot) -> dict[str, Deliverable]:
    """What nodes declare, in the order of the file, then what else tasks delivered. What tasks delivered wins."""
    declared = {
        node.deliverable.name: _declared(node, snapshot.nodes.get(node.name), snapshot.locations[node.deliverable.name])
        for node in snapshot.definition.nodes
        if node.deliverable is not None and node.deliverable.name in snapshot.locations
    }
    return declared | {row.name: _delivered(row) for row in snapshot.deliverables}


def _declared(node: Node, row: NodeView | None, location: str | None) -> Deliverable:
    count = 0
    if row is not None:
        count = row.completed if kind_of(node).has_task_per_item else int(row.status == Status.COMPLETED)
    return Deliverable(count, location, count > 0)


def _delivered(row: DeliverableRow) -> Deliverable:
    location = row.first
    if row.first != row.last:
        same = [a for a, b in takewhile(lambda pair: pair[0] == pair[1], zip(row.first, row.last, strict=False))]
        location = "".join(same).rpartition("/")[0]
        location += "/" if location else ""
    return Deliverable(row.number, location or None, row.number > 0)
