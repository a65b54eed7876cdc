"""Decides about the ticks of a schedule: which count, which wait, and which gets its job now. Pure; asks no clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from holdfast.store.schedule_rows import MOST_WAITING, Move, ScheduleRow

ON_TIME_SECONDS = 60.0
"""A tick that is older than that was missed: no process was there."""


class Overlap(StrEnum):
    """What a tick does while the job before it has not ended."""

    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


class CatchUp(StrEnum):
    """Which ticks count of those that were missed."""

    NONE = "none"
    LAST = "last"
    ALL = "all"


class Answer(StrEnum):
    """The outcome of a tick."""

    STARTED = "started"
    WAITS = "waits"
    REPLACES = "replaces"
    SKIPPED = "skipped"
    MISSED = "missed"
    LEFT_OUT = "left_out"
    REFUSED = "refused"


def decide(row: ScheduleRow, on_time_seconds: float = ON_TIME_SECONDS) -> Move:
    """What a look at a schedule leads to. The newest tick that is due is judged by the overlap.

    Where ticks queue, those before it that are on time queue, too: they were not missed, the look came late. With
    `catch_up: all` the ticks that were missed wait for their turn, whatever the overlap is.
    """
    move = Move(row.next_at, list(row.waiting), row.last_tick, row.last_answer, row.problem)
    if row.next_at is not None and row.next_at <= row.now:
        move = _with_due(row, move, on_time_seconds)
    return _started(row, move)


def decide_trigger(row: ScheduleRow) -> Move:
    """What a person's tick leads to. It counts now, also while the schedule is paused; the next tick stays."""
    return _started(row, _with_tick(row, Move(row.next_at, list(row.waiting), None, None, row.problem), row.now))


def refused(row: ScheduleRow, move: Move, problem: str) -> Move:
    """The same, where the job cannot be submitted: the tick is over, and a person has to look."""
    tick = f"{move.start:%Y-%m-%d %H:%M:%S} UTC"
    return move._replace(
        start=None,
        last_tick=move.start,
        last_answer=str(Answer.REFUSED),
        problem=problem,
        alert=f"the tick of schedule {row.name} at {tick} made no job: {problem}",
    )


def _with_due(row: ScheduleRow, move: Move, on_time_seconds: float) -> Move:
    """The move with the ticks that are due: they are behind it then."""
    assert row.next_at is not None
    # The tick that was foreseen counts, even if the rules of its time zone are others by now.
    later = row.timing.between(row.next_at, row.now, row.anchored_at, MOST_WAITING + 1)
    ticks = [row.next_at, *later][-MOST_WAITING - 1 :]
    newest = ticks[-1]
    is_late = row.now - newest > timedelta(seconds=on_time_seconds)
    move = move._replace(next_at=row.next_tick(row.now), last_tick=newest, last_answer=str(Answer.MISSED), problem=None)
    if row.catch_up == CatchUp.ALL:
        missed = ticks[-MOST_WAITING:] if is_late else ticks[:-1]
        room = MOST_WAITING - len(move.waiting)
        move = move._replace(waiting=[*move.waiting, *missed[:room]])
        if len(missed) > room:
            move = _without(row, move, missed[room])
        if is_late:
            return move if move.alert is not None else move._replace(last_answer=str(Answer.WAITS))
    elif is_late and row.catch_up == CatchUp.NONE:
        return move
    elif row.overlap == Overlap.QUEUE:
        for tick in ticks[:-1]:
            if row.now - tick <= timedelta(seconds=on_time_seconds):
                move = _with_tick(row, move, tick)
    return _with_tick(row, move, newest)


def _with_tick(row: ScheduleRow, move: Move, tick: datetime) -> Move:
    move = move._replace(last_tick=tick)
    if not row.is_busy and not move.waiting:
        return move._replace(waiting=[tick], last_answer=str(Answer.WAITS))
    match Overlap(row.overlap):
        case Overlap.SKIP:
            return move._replace(last_answer=str(Answer.SKIPPED))
        case Overlap.REPLACE:
            return move._replace(waiting=[tick], last_answer=str(Answer.REPLACES), cancels=row.is_busy)
        case Overlap.QUEUE if len(move.waiting) < MOST_WAITING:
            return move._replace(waiting=[*move.waiting, tick], last_answer=str(Answer.WAITS))
        case Overlap.QUEUE:
            return _without(row, move, tick)


def _without(row: ScheduleRow, move: Move, tick: datetime) -> Move:
    return move._replace(
        last_answer=str(Answer.LEFT_OUT),
        problem=f"{MOST_WAITING} ticks wait already",
        alert=f"schedule {row.name} leaves ticks out, as that at {tick:%Y-%m-%d %H:%M:%S} UTC: {MOST_WAITING} wait",
    )


def _started(row: ScheduleRow, move: Move) -> Move:
    """The move with the oldest waiting tick begun, if nothing is in its way."""
    if row.is_busy or not move.waiting:
        return move
    first, *others = move.waiting
    is_newest = move.last_tick is None or first >= move.last_tick
    answer = str(Answer.STARTED) if is_newest else move.last_answer
    problem = None if move.alert is None else move.problem
    return move._replace(waiting=others, start=first, last_answer=answer, problem=problem)
