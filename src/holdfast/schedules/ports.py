"""What the ticks of schedules need from outside: a store that moves them, and who makes jobs ready."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

from holdfast.store.records import NewJob
from holdfast.store.schedule_rows import Move, ScheduleRow

Prepare = Callable[[ScheduleRow, datetime], Awaitable[NewJob]]
"""Makes the job of a tick ready, by the current definition; a HoldfastError says why it cannot be submitted."""


class TickStore(Protocol):
    """Schedules as a process sees them that lets them tick. Two at once do no harm: every move is guarded."""

    async def lead(self, holder: str, lease_seconds: float) -> bool:
        """Take or keep the lead; False while another process has it."""
        ...

    async def resign(self, holder: str) -> None:
        """End the lead now."""
        ...

    async def due(self, limit: int) -> list[ScheduleRow]:
        """Schedules with something to do now."""
        ...

    async def seconds_to_next(self) -> float | None:
        """How long until the next tick of any schedule; None: there is none."""
        ...

    async def move(
        self, row: ScheduleRow, move: Move, job: NewJob | None, by: tuple[str, str] | None = None
    ) -> tuple[bool, bool]:
        """Move a schedule and insert the job of its tick, in one transaction; False: another process was first.

        The second answer is whether an alert is new. Raises BacklogFull if the tenant may have no more jobs, and
        LostRace if it must be tried again: then nothing has changed. `by` is the person who asks for it, and why.
        """
        ...

    async def alert(self, row: ScheduleRow, reason: str) -> bool:
        """Note that a person must look at a schedule; False: the same was noted within the last hour."""
        ...
