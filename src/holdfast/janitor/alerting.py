"""What the janitor tells people: one shape for all that it found. Every channel for alerts is called from here."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from holdfast.janitor.duty import ALERT
from holdfast.log_events import EventLog
from holdfast.moments import moment
from holdfast.store.upkeep_rows import Finding

log = EventLog("holdfast.janitor")


class Severity(StrEnum):
    """How much it matters; the most severe first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


LEVELS = {Severity.ERROR: logging.ERROR, Severity.WARNING: logging.WARNING, Severity.INFO: logging.INFO}
_SEVERE = {
    "deadlines": Severity.ERROR,
    "ended_jobs": Severity.ERROR,
    "expired_leases": Severity.WARNING,
    "long_open_breakers": Severity.WARNING,
}
"""By duty. What else a person must look at is an error; what else was repaired is only information."""
_ORDER = list(Severity)


class Noted(NamedTuple):
    """A finding, and when the janitor noted it."""

    finding: Finding
    at: datetime


@dataclass(frozen=True, slots=True)
class Alert:
    """All findings of one kind about one node of a job, or about a job, or about the installation."""

    severity: Severity
    kind: str
    """The duty that found it."""
    job_id: str | None
    node: str | None
    count: int
    """How many tasks, failures, or other things were found."""
    since: datetime


def alerts_of(noted: Iterable[Noted]) -> list[Alert]:
    """The alerts of these findings, the most severe first, then the latest."""
    found: dict[tuple[Severity, str, str | None, str | None], Alert] = {}
    for finding, at in noted:
        key = (severity_of(finding), finding.duty, finding.job_id, finding.node)
        known = found.get(key, Alert(*key, 0, at))
        found[key] = replace(known, count=known.count + _count(finding), since=min(known.since, _since(finding, at)))
    latest = sorted(found.values(), key=lambda alert: alert.since, reverse=True)
    return sorted(latest, key=lambda alert: _ORDER.index(alert.severity))


def severity_of(finding: Finding) -> Severity:
    return _SEVERE.get(finding.duty, Severity.ERROR if finding.action == ALERT else Severity.INFO)


def raise_alerts(findings: Sequence[Finding]) -> None:
    """Write a log line for each alert. The caller has already written the rows in `janitor_actions`."""
    now = datetime.now(UTC)
    found: defaultdict[tuple[str, str | None, str | None], list[Finding]] = defaultdict(list)
    for finding in findings:
        found[finding.duty, finding.job_id, finding.node].append(finding)
    for alert in alerts_of(Noted(finding, now) for finding in findings):
        about = found[alert.kind, alert.job_id, alert.node]
        log.write(
            "janitor_alert",
            level=LEVELS[alert.severity],
            severity=str(alert.severity),
            kind=alert.kind,
            job=alert.job_id,
            node=alert.node,
            count=alert.count,
            since=moment(alert.since),
            action=about[0].action,
            item=about[0].item if len(about) == 1 else None,
            reason=about[0].reason,
        )


def _count(finding: Finding) -> int:
    seen: dict[str, Any] = finding.before or {}
    number = seen.get("tasks") if finding.duty == "stuck_tasks" else seen.get("failures")
    return number if isinstance(number, int) else 1


def _since(finding: Finding, at: datetime) -> datetime:
    """When it began, if the janitor saw that; else when it was noted."""
    seen: dict[str, Any] = finding.before or {}
    if finding.duty == "deadlines" and (passed := seen.get("stop_until") or seen.get("deadline_at")):
        return datetime.fromisoformat(passed)
    if finding.duty == "long_open_breakers":
        return at - timedelta(seconds=float(seen.get("open_seconds", 0)))
    return at
