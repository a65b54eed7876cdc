"""The findings and actions of the janitor, and what a prune deletes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holdfast.janitor.alerting import Noted, alerts_of
from holdfast.store import upkeep_rows as rows
from holdfast.views.encoding import VERBATIM


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, and what the janitor does about it: `recheck`, `expire`, `delete` or `alert`."""

    duty: str
    action: str
    job_id: str | None
    node: str | None
    index: int | None
    reason: str
    before: dict[str, Any] | None = field(metadata=VERBATIM)
    after: dict[str, Any] | None = field(metadata=VERBATIM)


@dataclass(frozen=True, slots=True)
class Action:
    """A line of the janitor's log."""

    run: str
    duty: str
    action: str
    job_id: str | None
    node: str | None
    index: int | None
    reason: str
    before: dict[str, Any] | None = field(metadata=VERBATIM)
    after: dict[str, Any] | None = field(metadata=VERBATIM)
    at: datetime


@dataclass(frozen=True, slots=True)
class Leader:
    """The process that does the janitor's work now."""

    holder: str
    since: datetime
    lease_seconds: float


@dataclass(frozen=True, slots=True)
class Alert:
    """What was found of one kind about one node of a job, or about a job, or about the installation."""

    severity: str
    """`error`, `warning` or `info`: info was repaired, and no person needs to look."""
    kind: str
    """The duty that found it."""
    job_id: str | None
    node: str | None
    count: int
    since: datetime
    """When it began, or else when it was first noted."""


@dataclass(frozen=True, slots=True)
class JanitorLog:
    leader: Leader | None = None
    actions: tuple[Action, ...] = ()
    alerts: tuple[Alert, ...] = ()
    """The same actions together, the most severe first."""


@dataclass(frozen=True, slots=True)
class JanitorActions:
    """One page of the janitor's log."""

    actions: tuple[Action, ...]
    after: str | None
    """The cursor of the next page; None: this was the last."""


@dataclass(frozen=True, slots=True)
class JanitorPass:
    """One look at everything. With `dry_run` nothing was done about the findings."""

    dry_run: bool
    findings: tuple[Finding, ...] = ()
    alerts: tuple[Alert, ...] = ()
    """The same findings together, the most severe first."""


@dataclass(frozen=True, slots=True)
class PrunedJobs:
    """Jobs of one workflow with one status that were deleted, or would be."""

    workflow_id: str
    status: str
    jobs: int
    tasks: int
    bytes: int
    oldest: datetime
    """When the first of them ended."""


@dataclass(frozen=True, slots=True)
class OldestLeft:
    """The oldest finished job that stays."""

    job_id: str
    workflow_id: str
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a prune has deleted or, with `dry_run`, would delete."""

    dry_run: bool
    jobs: int = 0
    tasks: int = 0
    bytes: int = 0
    pruned: tuple[PrunedJobs, ...] = ()
    oldest_left: OldestLeft | None = None
    leftovers: int = 0
    """Deleted jobs whose objects are still there."""


def pass_view(findings: Sequence[rows.Finding], at: datetime, *, dry_run: bool) -> JanitorPass:
    noted = [Noted(finding, at) for finding in findings]
    return JanitorPass(dry_run, tuple(finding_view(finding) for finding in findings), _alert_views(noted))


def _alert_views(noted: Sequence[Noted]) -> tuple[Alert, ...]:
    return tuple(
        Alert(str(one.severity), one.kind, one.job_id, one.node, one.count, one.since) for one in alerts_of(noted)
    )


def finding_view(row: rows.Finding) -> Finding:
    return Finding(row.duty, row.action, row.job_id, row.node, row.item, row.reason, row.before, row.after)


def log_view(leader: rows.LeaderView | None, actions: Sequence[rows.ActionView]) -> JanitorLog:
    shown = Leader(leader.holder, leader.since, round(leader.lease_seconds, 3)) if leader is not None else None
    noted = [
        Noted(rows.Finding(a.duty, a.action, a.reason, a.job_id, a.node, a.item, a.before, a.after), a.at)
        for a in actions
    ]
    return JanitorLog(shown, tuple(_action_view(row) for row in actions), _alert_views(noted))


def actions_view(lines: Sequence[rows.ActionView], limit: int) -> JanitorActions:
    after = str(lines[-1].action_id) if len(lines) == limit else None
    return JanitorActions(tuple(_action_view(line) for line in lines), after)


def _action_view(row: rows.ActionView) -> Action:
    return Action(
        row.run, row.duty, row.action, row.job_id, row.node, row.item, row.reason, row.before, row.after, row.at
    )


def pruned_view(
    groups: Sequence[rows.Pruned], left: rows.OldestLeft | None, leftovers: int, *, dry_run: bool
) -> Pruned:
    return Pruned(
        dry_run,
        sum(group.jobs for group in groups),
        sum(group.tasks for group in groups),
        sum(group.bytes for group in groups),
        tuple(PrunedJobs(**group._asdict()) for group in groups),
        OldestLeft(**left._asdict()) if left is not None else None,
        leftovers,
    )
