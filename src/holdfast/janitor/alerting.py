"""Alerts people about problems that the janitor cannot repair. Every channel for alerts is called from here."""

from __future__ import annotations

from typing import Any

from holdfast.log_events import EventLog
from holdfast.store.upkeep_rows import Finding

log = EventLog("holdfast.janitor")


def raise_alert(finding: Finding) -> None:
    """Write a log line with a stable name. The caller has already written the row in `janitor_actions`."""
    log.write("janitor_alert", **fields_of(finding))


def fields_of(finding: Finding) -> dict[str, Any]:
    """The fields of a log line about the finding."""
    return {
        "duty": finding.duty,
        "reason": finding.reason,
        "job": finding.job_id,
        "node": finding.node,
        "item": finding.item,
    }
