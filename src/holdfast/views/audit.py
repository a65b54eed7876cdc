"""Who changed what, as people see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holdfast.store.audit_rows import AuditRow
from holdfast.views.encoding import VERBATIM


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One change that a person or a program has made."""

    id: int
    at: datetime
    tenant: str
    """Whose change it is; `*`: it concerns the whole installation."""
    actor: str
    key: str | None
    """The beginning of the API key; None: it came by the command line or by a program on the database."""
    address: str | None
    """From where the request came."""
    request_id: str | None
    action: str
    """What was done to what: `job.resume`, `key.add`, `limit.set`."""
    instance: str | None
    """What it was done to: a job, a key, a breaker, a limit, a workflow."""
    before: dict[str, Any] | None = field(metadata=VERBATIM)
    """How it was; None: it was not there, or the change is only known by what it has made."""
    after: dict[str, Any] | None = field(metadata=VERBATIM)
    """How it is afterwards, or what was asked; null: it no longer exists."""
    reason: str | None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A page of changes, newest first."""

    lines: tuple[AuditLine, ...]
    after: str | None
    """The cursor of the next page; None: this was the last."""


def audit_view(rows: Sequence[AuditRow], limit: int) -> AuditPage:
    after = str(rows[-1].audit_id) if len(rows) == limit else None
    return AuditPage(tuple(AuditLine(*row) for row in rows), after)
