"""When a schedule ticks: a cron expression in a time zone, or an interval. Pure; asks no clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from holdfast.define.bounds import MAX_SECONDS
from holdfast.define.source import did_you_mean
from holdfast.errors import InvalidInput, cut

CRON_FIELDS = 5
LONGEST_CRON = 200
_CRON_REMEDY = (
    "Write minute, hour, day of the month, month and day of the week: '0 2 * * *' is every night at two,"
    " '*/15 8-17 * * MON-FRI' every quarter of an hour at work."
)
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
"""From here on an expression must have a tick. It is before a 29th of February."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of a schedule. It has a cron expression or an interval, never both."""

    cron: str | None = None
    every_seconds: int | None = None
    time_zone: str = "UTC"
    """The time zone of the cron expression. An interval needs none."""

    def after(self, moment: datetime, anchor: datetime) -> datetime | None:
        """The first tick behind a moment; None if there is none in fifty years. Intervals count from the anchor."""
        return next(self.ticks_after(moment, anchor), None)

    def ticks_after(self, moment: datetime, anchor: datetime) -> Iterator[datetime]:
        """The ticks behind a moment, in order, each once."""
        if self.every_seconds is not None:
            step = timedelta(seconds=self.every_seconds)
            tick = anchor + ((moment - anchor) // step + 1) * step
            while True:
                yield tick
                tick += step
        assert self.cron is not None
        last = moment
        for found in CronSim(self.cron, moment.astimezone(_zone(self.time_zone))):
            # When a clock goes back, the library begins an hour too early; when it goes forward, several times of the
            # hour that is left out come together.
            tick = found.astimezone(UTC)
            if tick > last:
                yield tick
                last = tick

    def between(self, first: datetime, last: datetime, anchor: datetime, most: int) -> list[datetime]:
        """The newest `most` ticks behind one moment and up to another, the oldest one first."""
        window = timedelta(hours=1)
        while True:
            # From the end back: there may be very many ticks.
            begin = max(first, last - window)
            ticks = []
            for tick in self.ticks_after(begin, anchor):
                if tick > last:
                    break
                ticks.append(tick)
            if len(ticks) >= most or begin == first:
                return ticks[-most:]
            window *= 4


@dataclass(frozen=True, slots=True)
class FileSchedule:
    """What `schedule` in a workflow file says. It is no part of the definition."""

    timing: Timing
    inputs: dict[str, Any]
    overlap: str
    catch_up: str


def check_timing(cron: str | None, every_seconds: int | None, time_zone: str) -> Timing:
    """A timing of these values; refused if it has no times, or if a value is not what it should be."""
    if (cron is None) == (every_seconds is None):
        raise InvalidInput(
            "A schedule has a cron expression or an interval: one of the two.", remedy="Give `cron` or `every_seconds`."
        )
    check_time_zone(time_zone)
    if cron is None:
        assert every_seconds is not None
        if time_zone != "UTC":
            raise InvalidInput(
                f"An interval has no time zone: it counts seconds, and {time_zone} would change nothing.",
                remedy="Leave the time zone out, or give the times as a cron expression.",
            )
        return Timing(every_seconds=check_interval(every_seconds))
    timing = Timing(cron=check_cron(cron), time_zone=time_zone)
    if timing.after(_BEGIN, _BEGIN) is None:
        raise InvalidInput(f"The cron expression '{cut(cron)}' has no time: it never ticks.", remedy=_CRON_REMEDY)
    return timing


def check_cron(text: str) -> str:
    """The expression with single spaces; refused if it is none."""
    fields = text.split() if len(text) <= LONGEST_CRON else []
    if len(fields) != CRON_FIELDS:
        raise InvalidInput(
            f"'{cut(text)}' is not a cron expression: it does not have {CRON_FIELDS} fields.", remedy=_CRON_REMEDY
        )
    try:
        CronSim(text, _BEGIN)
    except CronSimError as error:
        wrong = str(error).removeprefix("Bad ").replace("-", " ")
        raise InvalidInput(
            f"'{cut(text)}' is not a cron expression: its {wrong} is wrong.", remedy=_CRON_REMEDY
        ) from None
    return " ".join(fields)


def check_interval(seconds: int) -> int:
    if not 1 <= seconds <= MAX_SECONDS:
        raise InvalidInput(
            f"An interval of {seconds:,} s is not possible.", remedy=f"Use 1 to {MAX_SECONDS:,} seconds."
        )
    return seconds


def check_time_zone(name: str) -> str:
    try:
        _zone(name)
    except (LookupError, ValueError, OSError):
        hint = did_you_mean(name, available_timezones()) if len(name) <= 100 else None
        remedy = "Use a name of the IANA database, such as Africa/Kigali or UTC. This machine must know it, too."
        raise InvalidInput(
            f"There is no time zone '{cut(name)}'.", remedy=" ".join(part for part in (hint, remedy) if part)
        ) from None
    return name


@cache
def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)
