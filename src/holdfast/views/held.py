"""What holds a job or its nodes back: a pause, a breaker or a limit. Pure: the rows were read before."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from holdfast.core.states import JOB_TERMINAL, PAUSE
from holdfast.store.read_rows import Hold
from holdfast.views.encoding import IF_ANY

STOPPING = "stopping"
"""The reason of a job that is on its way to its end."""
PAUSED = "paused"
"""What people read as the status of a paused job."""


@dataclass(frozen=True, slots=True)
class Held:
    """What holds ready tasks back: a breaker, a limit, or a pause."""

    by: str
    name: str
    since: datetime
    until: datetime | None
    reason: str | None = None
    """Why, if the person or the breaker that holds them says so."""
    paused_by: str | None = field(default=None, metadata=IF_ANY)
    """The person who paused the queue, if that is what holds them."""

    @property
    def is_pause(self) -> bool:
        return self.by == PAUSE

    @property
    def paused_queue(self) -> str | None:
        return self.name.removeprefix("queue:") if self.paused_by is not None else None


def held_view(row: Hold | None) -> Held | None:
    if row is None:
        return None
    return Held(row.by, row.name, row.since, row.until, row.details.get("reason"), row.details.get("paused_by"))


def pause_view(stored: dict[str, Any] | None) -> Held | None:
    if stored is None:
        return None
    since = datetime.fromtimestamp(stored["since"], UTC)
    return Held(PAUSE, stored["name"], since, None, stored.get("reason") or None)


def pause_that_counts(held: Held | None, status: str, reason: str | None) -> Held | None:
    goes_on = status not in JOB_TERMINAL and reason != STOPPING
    return held if held is not None and held.is_pause and goes_on else None
