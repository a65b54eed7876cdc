"""How people read and write numbers, times and values."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.cli.streams import harmless
from holdfast.errors import InvalidInput

SHORT_ID = 8
GAP = "  "
"""Between two columns."""
NOTICED_SECONDS = 1.0
"""A shorter time in the queue is not shown."""
LONGEST_SECONDS = 36_500 * 86_400
_DURATION = re.compile(r"([0-9]{1,12})\s*([smhdw])")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def short(job_id: str) -> str:
    """Enough of an id to find the job again: ids begin with the time, so their endings differ."""
    return job_id[-SHORT_ID:]


def parse_duration(text: str, flag: str) -> float:
    """Seconds, from `90s`, `15m`, `12h`, `30d` or `4w`."""
    found = _DURATION.fullmatch(text.strip())
    seconds = int(found[1]) * _UNIT_SECONDS[found[2]] if found is not None else None
    if seconds is None or seconds > LONGEST_SECONDS:
        problem = "is not a duration" if seconds is None else "is longer than a hundred years"
        raise InvalidInput(
            f"{flag}: '{text}' {problem}.",
            remedy=f"Write a number and its unit, s, m, h, d or w: {flag} 90s, {flag} 12h, {flag} 30d",
        )
    return float(seconds)


def parse_moment(text: str, flag: str) -> datetime:
    """A time, from `2h` (that long ago) or from `2026-11-16`, `2026-11-16 10:30` or `2026-11-16T10:30:00Z`."""
    if _DURATION.fullmatch(text.strip()):
        return datetime.now(UTC) - timedelta(seconds=parse_duration(text, flag))
    try:
        # Without an offset, it is the local time.
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{flag}: '{text}' is neither a duration nor a time.",
            remedy=f"Write, for example: {flag} 2h, {flag} 2026-11-16 or {flag} 2026-11-16T10:30:00Z",
        ) from None


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`"""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    if whole < 86_400:
        return _two(whole // 3600, "h", whole % 3600 // 60, "min")
    return _two(whole // 86_400, "d", whole % 86_400 // 3600, "h")


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"


def elapsed(begin: datetime | None, end: datetime | None, now: datetime | None = None) -> str:
    """From one time to another, or to now; nothing if it has not begun."""
    until = end or now or datetime.now(UTC)
    return duration((until - begin).total_seconds()) if begin is not None else ""


def waited(queued: datetime | None, began: datetime | None) -> str:
    """`waited 31 s`, if the time between is worth telling."""
    if queued is None or began is None or (began - queued).total_seconds() < NOTICED_SECONDS:
        return ""
    return f"waited {elapsed(queued, began)}"


def age(moment: datetime | None) -> str:
    return f"{elapsed(moment, None)} ago" if moment is not None else ""


def clock(moment: datetime) -> str:
    """The local time of day."""
    at = moment.astimezone()
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"


def day_and_clock(moment: datetime | None) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}" if moment is not None else ""


def coming(moment: datetime) -> str:
    """The local time of day, with the date if it is not today."""
    is_today = moment.astimezone().date() == datetime.now().astimezone().date()
    return clock(moment) if is_today else day_and_clock(moment)


def counted(number: int, noun: str, several: str | None = None) -> str:
    """`1 task`, `2,000 tasks`, `3 batches`"""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {several or f'{noun}s'}"


def size(number: int) -> str:
    """`0 B`, `12.5 kB`, `3.4 GB`"""
    amount, units = float(number), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 999.95 and len(units) > 1:
        amount /= 1000
        del units[0]
    return f"{number} B" if units[0] == "B" else f"{amount:,.1f} {units[0]}"


def cut(text: str, width: int) -> str:
    """One harmless line of at most that width."""
    line = " ".join(harmless(text).split())
    return line if len(line) <= width else line[: max(0, width - 1)] + "…"


def value(data: Any, width: int) -> str:
    """A JSON value in one line, shortened."""
    return cut(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False), width)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines with columns. Nothing is cut, and no line ends with blanks."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
