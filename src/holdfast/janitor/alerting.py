"""Telling people what the janitor cannot repair. Everything that is to hear of an alert is called from here."""

from __future__ import annotations

import logging

from holdfast.store.tidying import Finding

logger = logging.getLogger("holdfast.janitor")


def raise_alert(finding: Finding) -> None:
    """A line with a stable name; the row in `janitor_actions` is there already."""
    where = "/".join(str(part) for part in (finding.job_id, finding.node, finding.item) if part is not None)
    logger.warning("janitor_alert: %s: %s%s", finding.duty, finding.reason, f" ({where})" if where else "")
