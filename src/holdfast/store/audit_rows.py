"""Rows of the audit: where a change comes from, and what was changed. Plain data; reads nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

INSTALLATION = "*"
"""The tenant of changes that concern all tenants."""


class Origin(NamedTuple):
    """Where a request comes from, besides its actor. The command line and programs on the database name nothing."""

    key_prefix: str | None = None
    address: str | None = None
    request_id: str | None = None

    def signed(self, actor: str) -> dict[str, str | None]:
        """The parameters of statements that write a line of the audit."""
        return {"actor": actor, **self._asdict()}


NOWHERE = Origin()


class AuditRow(NamedTuple):
    """Who changed what. `before` and `after` have no secrets, and no data of jobs."""

    audit_id: int
    at: datetime
    tenant: str
    actor: str
    key_prefix: str | None
    address: str | None
    request_id: str | None
    action: str
    instance: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    reason: str | None


class AuditFilter(NamedTuple):
    """Filters of changes; None is any."""

    tenant: str | None = None
    since: datetime | None = None
    actor: str | None = None
    action: str | None = None
    instance: str | None = None
