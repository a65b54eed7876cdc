"""How an installation is, at one look."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdfast.views.upkeep import Leader


@dataclass(frozen=True, slots=True)
class InstallationHealth:
    """Whether an installation does its work. Tasks are those of the tenant; for an administrator those of all."""

    status: str
    """`ok`, or `degraded`: then `reasons` says why."""
    reasons: tuple[str, ...]
    version: str
    database: str
    """`ok`: it has answered."""
    schema: int
    """The number of the last migration."""
    orchestrators: int
    """How many live orchestrators there are."""
    workers: int
    """How many live workers there are."""
    queued: int
    """How many tasks wait to be taken."""
    held: int
    """How many tasks wait behind a breaker, a limit or a pause."""
    running: int
    oldest_waiting: datetime | None
    """When the oldest task that does not run was queued."""
    janitor: Leader | None
    """The process that does the janitor's work now."""
    janitor_passed_at: datetime | None
    """When the janitor looked at everything last."""
