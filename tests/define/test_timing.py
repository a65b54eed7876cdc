"""When schedules tick: cron expressions in time zones, also when their clocks change, and intervals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest

from holdfast.define.timing import Timing, check_timing
from holdfast.errors import InvalidInput

BERLIN, NEW_YORK, HOBART = "Europe/Berlin", "America/New_York", "Australia/Hobart"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def ticks(timing: Timing, after: str, number: int) -> list[str]:
    begin = at(after)
    return [f"{tick:%m-%d %H:%M}" for tick in islice(timing.ticks_after(begin, begin), number)]


def cron(text: str, zone: str = "UTC") -> Timing:
    return check_timing(text, None, zone)


def test_a_tick_comes_behind_the_moment_and_never_at_it() -> None:
    assert ticks(cron("0 2 * * *"), "2026-01-01 02:00", 2) == ["01-02 02:00", "01-03 02:00"]
    assert ticks(cron("0 2 * * *"), "2026-01-01 01:59:59.999999", 1) == ["01-01 02:00"]


def test_the_times_are_those_of_the_time_zone() -> None:
    assert ticks(cron("0 2 * * *", "Africa/Kigali"), "2026-01-01", 1) == ["01-02 00:00"]
    assert ticks(cron("30 8 * * MON-FRI", NEW_YORK), "2026-01-02 20:00", 2) == ["01-05 13:30", "01-06 13:30"]


def test_a_time_in_the_hour_that_is_left_out_ticks_once_when_that_hour_is_over() -> None:
    """Clocks go from 02:00 to 03:00 at 01:00 UTC."""
    assert ticks(cron("30 2 * * *", BERLIN), "2026-03-28", 3) == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]


def test_several_times_in_the_hour_that_is_left_out_tick_once() -> None:
    expected = ["03-28 01:00", "03-28 01:20", "03-28 01:40", "03-29 01:00", "03-30 00:00"]
    assert ticks(cron("0,20,40 2 * * *", BERLIN), "2026-03-28", 5) == expected


def test_a_time_in_the_hour_that_comes_twice_ticks_once_in_the_first_of_them() -> None:
    """Clocks go from 03:00 to 02:00 at 01:00 UTC."""
    assert ticks(cron("30 2 * * *", BERLIN), "2026-10-24 12:00", 2) == ["10-25 00:30", "10-26 01:30"]


@pytest.mark.parametrize("minute", range(0, 60, 5))
def test_no_moment_of_the_second_hour_brings_the_tick_back(minute: int) -> None:
    """Whenever a process asks: the first 02:30 is over, and there is no second one."""
    assert ticks(cron("30 2 * * *", BERLIN), f"2026-10-25 01:{minute:02}", 1) == ["10-26 01:30"]


def test_what_ticks_every_hour_or_oftener_ticks_in_real_time_through_both_changes() -> None:
    for zone in (BERLIN, "Australia/Lord_Howe"):
        quarters = list(islice(cron("*/15 * * * *", zone).ticks_after(at("2026-01-01"), at("2026-01-01")), 35_000))
        assert {b - a for a, b in pairwise(quarters)} == {timedelta(minutes=15)}, zone
    hours = list(islice(cron("0 * * * *", BERLIN).ticks_after(at("2026-01-01"), at("2026-01-01")), 8_700))
    assert {b - a for a, b in pairwise(hours)} == {timedelta(hours=1)}


@pytest.mark.parametrize(
    "zone", [BERLIN, NEW_YORK, HOBART, "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu"]
)
@pytest.mark.parametrize("text", ["30 2 * * *", "0 0 * * *", "15 1 * * *", "*/20 1-3 * * *", "0 3 * * SUN"])
def test_the_ticks_are_the_same_from_wherever_one_begins(zone: str, text: str) -> None:
    """Another process, which begins at any moment, sees the same ticks."""
    timing = cron(text, zone)
    begin = at("2026-01-01")
    known = [tick for tick in islice(timing.ticks_after(begin, begin), 2_000) if tick < at("2027-01-01")]
    assert known == sorted(set(known))
    moment, step, place = begin, timedelta(hours=7, minutes=13, seconds=5), 0
    while moment < known[-1]:
        while known[place] <= moment:
            place += 1
        assert timing.after(moment, begin) == known[place], moment
        moment += step


def test_an_interval_counts_from_its_beginning_in_real_time() -> None:
    timing = check_timing(None, 90, "UTC")
    anchor = at("2026-03-29 00:59:10")
    found = [f"{tick:%H:%M:%S}" for tick in islice(timing.ticks_after(at("2026-03-29 01:02:00"), anchor), 2)]
    assert found == ["01:02:10", "01:03:40"]
    assert timing.after(anchor, anchor) == anchor + timedelta(seconds=90)


def test_the_newest_ticks_of_a_long_time_are_found_without_the_others() -> None:
    begin, end = at("2016-01-01"), at("2026-01-01")
    for timing in (cron("* * * * *", BERLIN), Timing(every_seconds=1)):
        found = timing.between(begin, end, begin, 101)
        assert len(found) == 101
        assert found[-1] == end
    yearly = cron("0 0 29 2 *").between(begin, end, begin, 101)
    assert [f"{tick:%Y-%m-%d}" for tick in yearly] == ["2016-02-29", "2020-02-29", "2024-02-29"]


def test_the_ticks_between_two_moments_include_the_end_and_not_the_beginning() -> None:
    hours = cron("0 * * * *")
    found = hours.between(at("2026-01-01 01:00"), at("2026-01-01 04:00"), at("2026-01-01"), 100)
    assert [tick.hour for tick in found] == [2, 3, 4]
    assert hours.between(at("2026-01-01 01:00"), at("2026-01-01 00:30"), at("2026-01-01"), 100) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("61 * * * *", "its minute is wrong"),
        ("0 25 * * *", "its hour is wrong"),
        ("0 0 32 * *", "its day of month is wrong"),
        ("0 0 * * NEVER", "its day of week is wrong"),
        ("* * * *", "does not have 5 fields"),
        ("0 0 2 * * *", "does not have 5 fields"),
        ("@daily", "does not have 5 fields"),
        ("", "does not have 5 fields"),
        ("1," * 200 + "1 * * * *", "does not have 5 fields"),
        ("0 0 30 2 *", "its day of month is wrong"),
    ],
)
def test_what_is_no_cron_expression_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        cron(text)


@pytest.mark.parametrize("zone", ["Mars/Base", "", "America", "../../etc/passwd", "/etc/passwd", "UTC\0", "x" * 5000])
def test_what_is_no_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidInput, match="There is no time zone"):
        cron("0 0 * * *", zone)


def test_a_time_zone_that_is_almost_right_is_suggested() -> None:
    with pytest.raises(InvalidInput) as refused:
        cron("0 0 * * *", "Europe/Berlim")
    assert "Did you mean 'Europe/Berlin'?" in str(refused.value.remedy)


@pytest.mark.parametrize("seconds", [0, -1, 10**12])
def test_an_impossible_interval_is_refused(seconds: int) -> None:
    with pytest.raises(InvalidInput, match="is not possible"):
        check_timing(None, seconds, "UTC")


def test_an_interval_with_a_time_zone_is_refused_because_the_zone_would_change_nothing() -> None:
    with pytest.raises(InvalidInput, match="it counts seconds, and Africa/Kigali would change nothing"):
        check_timing(None, 60, "Africa/Kigali")
    assert check_timing(None, 60, "UTC").every_seconds == 60


def test_a_schedule_has_one_kind_of_times() -> None:
    for text, seconds in ((None, None), ("0 0 * * *", 60)):
        with pytest.raises(InvalidInput, match="one of the two"):
            check_timing(text, seconds, "UTC")
