"""Carries out what is decided about a schedule: with the job of its tick, or with the reason why there is none."""

from __future__ import annotations

from typing import NamedTuple

from holdfast import failpoint
from holdfast.errors import BacklogFull, HoldfastError, LostRace, Unreachable
from holdfast.schedules.deciding import refused
from holdfast.schedules.ports import Prepare, TickStore
from holdfast.store.records import NewJob
from holdfast.store.schedule_rows import Move, ScheduleRow

TRIES = 3
"""How often a move is tried of which the store says that something has changed in between."""


class Moved(NamedTuple):
    """What has happened to a schedule."""

    move: Move
    job_id: str | None
    is_new_alert: bool


async def carry_out(
    store: TickStore, row: ScheduleRow, move: Move, prepare: Prepare, by: tuple[str, str] | None = None
) -> Moved | None:
    """Move a schedule; None: another process was first. A tick of a person that makes no job raises the reason."""
    await failpoint.hit("tick.decided")
    for attempt in range(TRIES):
        try:
            job = await prepare(row, move.start) if move.start is not None else None
            return await _moved(store, row, move, job, by)
        except LostRace:
            if attempt == TRIES - 1:
                raise
        except Unreachable:
            raise
        except HoldfastError as reason:
            if by is not None:
                raise
            return await _moved(store, row, refused(row, move, _in_words(reason)), None, by)
    return None


async def _moved(
    store: TickStore, row: ScheduleRow, move: Move, job: NewJob | None, by: tuple[str, str] | None
) -> Moved | None:
    is_moved, is_new_alert = await store.move(row, move, job, by)
    return Moved(move, job.job_id if job is not None else None, is_new_alert) if is_moved else None


def _in_words(reason: HoldfastError) -> str:
    """The first mistake says more than that there are some."""
    details = f" {reason.errors[0]}" if reason.errors and not isinstance(reason, BacklogFull) else ""
    return f"{reason.message}{details}"
