"""Alerts people about problems that the janitor cannot repair. Every channel for alerts is called from here."""

from __future__ import annotations

import logging

from holdfast.store.upkeep_rows import Finding

logger = logging.getLogger("holdfast.janitor")


def raise_alert(finding: Finding) -> None:
    """Write a log line with a stable name. The caller has already written the row in `janitor_actions`."""
    where = "/".join(str(part) for part in (finding.job_id, finding.node, finding.item) if part is not None)
    logger.warning("janitor_alert: %s: %s%s", finding.duty, finding.reason, f" ({where})" if where else "")
