"""What a tick leads to: every overlap with every catch-up, on plain rows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from holdfast.schedules.deciding import decide, decide_trigger
from holdfast.store.schedule_rows import MOST_WAITING, ScheduleRow
from tests.schedules.stage import at

NOON = at("2026-01-01 12:00:00")
HOUR = timedelta(hours=1)


def row(now: datetime = NOON, next_at: datetime | None = NOON, **given: Any) -> ScheduleRow:
    """A schedule that ticks every hour."""
    known: dict[str, Any] = {
        "tenant": "default", "name": "s", "schedule_id": "i", "workflow_id": "w", "cron": "0 * * * *",
        "every_seconds": None, "time_zone": "UTC", "anchored_at": at("2026-01-01"), "inputs": {}, "overlap": "skip",
        "catch_up": "last", "source": "person", "created_at": at("2026-01-01"), "created_by": "me",
        "changed_at": at("2026-01-01"), "changed_by": "me",
    }  # fmt: skip
    return ScheduleRow(**(known | given), now=now, next_at=next_at)


def hours(moments: Any) -> list[int]:
    return [moment.hour for moment in moments]


def test_a_tick_that_is_due_starts_and_the_next_one_comes() -> None:
    move = decide(row(now=NOON + timedelta(seconds=1)))
    assert (move.start, move.next_at, move.last_tick, move.last_answer) == (NOON, NOON + HOUR, NOON, "started")


def test_nothing_is_due_before_its_time() -> None:
    move = decide(row(next_at=NOON + HOUR))
    assert (move.start, move.next_at, move.waiting) == (None, NOON + HOUR, [])


@pytest.mark.parametrize(
    ("overlap", "waiting", "cancels", "answer"),
    [("skip", [], False, "skipped"), ("queue", [NOON], False, "waits"), ("replace", [NOON], True, "replaces")],
)
def test_the_overlap_decides_while_the_job_before_it_runs(
    overlap: str, waiting: list[datetime], cancels: bool, answer: str
) -> None:
    move = decide(row(overlap=overlap, is_busy=True, last_job="j"))
    assert (move.start, move.waiting, move.cancels, move.last_answer) == (None, waiting, cancels, answer)
    assert move.next_at == NOON + HOUR


def test_a_waiting_tick_starts_when_the_job_before_it_has_ended() -> None:
    waiting = [NOON - HOUR, NOON]
    move = decide(row(overlap="queue", waiting=waiting, next_at=NOON + HOUR, last_tick=NOON, last_answer="waits"))
    assert (move.start, move.waiting, move.next_at) == (NOON - HOUR, [NOON], NOON + HOUR)


def test_a_newer_tick_takes_the_place_of_one_that_waits_to_replace() -> None:
    move = decide(row(overlap="replace", waiting=[NOON - HOUR], is_busy=True, last_job="j"))
    assert (move.waiting, move.cancels) == ([NOON], True)


def test_a_hundred_ticks_wait_and_the_next_is_left_out_with_an_alert() -> None:
    waiting = [NOON - HOUR] * (MOST_WAITING - 1)
    almost = decide(row(overlap="queue", waiting=waiting, is_busy=True))
    assert (len(almost.waiting), almost.alert) == (MOST_WAITING, None)
    full = decide(row(overlap="queue", waiting=almost.waiting, is_busy=True))
    assert (len(full.waiting), full.last_answer) == (MOST_WAITING, "left_out")
    assert full.alert is not None and "12:00:00" in full.alert and full.problem is not None


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
def test_of_missed_ticks_the_last_one_runs(overlap: str) -> None:
    move = decide(row(next_at=NOON - 5 * HOUR, now=NOON + HOUR / 2, overlap=overlap))
    assert (move.start, move.waiting, move.next_at) == (NOON, [], NOON + HOUR)


@pytest.mark.parametrize("catch_up", ["none", "last", "all"])
def test_ticks_that_come_due_between_two_looks_are_not_missed_and_all_wait_in_a_queue(catch_up: str) -> None:
    every: dict[str, Any] = {"cron": None, "every_seconds": 5, "anchored_at": NOON}
    seconds = [timedelta(seconds=number) for number in range(60)]
    move = decide(row(**every, next_at=NOON + seconds[5], now=NOON + seconds[17], overlap="queue", catch_up=catch_up))
    assert (move.start, move.waiting) == (NOON + seconds[5], [NOON + seconds[10], NOON + seconds[15]])
    assert (move.next_at, move.last_tick) == (NOON + seconds[20], NOON + seconds[15])


def test_a_queue_without_catch_up_takes_of_older_ticks_those_that_are_punctual() -> None:
    minutes: dict[str, Any] = {"cron": "* * * * *", "overlap": "queue", "catch_up": "last", "is_busy": True}
    move = decide(row(**minutes, next_at=NOON - HOUR, now=NOON + timedelta(seconds=1)), on_time_seconds=130)
    assert [moment.minute for moment in move.waiting] == [58, 59, 0]


@pytest.mark.parametrize("overlap", ["skip", "replace"])
def test_of_ticks_that_come_due_between_two_looks_one_runs_unless_they_queue(overlap: str) -> None:
    every: dict[str, Any] = {"cron": None, "every_seconds": 5, "anchored_at": NOON}
    move = decide(row(**every, next_at=NOON, now=NOON + timedelta(seconds=12), overlap=overlap))
    assert (move.start, move.waiting) == (NOON + timedelta(seconds=10), [])


def test_without_catch_up_no_missed_tick_runs() -> None:
    late = decide(row(next_at=NOON - 5 * HOUR, now=NOON + HOUR / 2, catch_up="none"))
    assert (late.start, late.last_tick, late.last_answer, late.next_at) == (None, NOON, "missed", NOON + HOUR)
    punctual = decide(row(next_at=NOON - 5 * HOUR, now=NOON + timedelta(seconds=59), catch_up="none"))
    assert punctual.start == NOON


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
def test_with_full_catch_up_every_missed_tick_runs_one_after_the_other(overlap: str) -> None:
    now = NOON + HOUR / 2
    move = decide(row(next_at=NOON - 3 * HOUR, now=now, catch_up="all", overlap=overlap))
    assert move.start == NOON - 3 * HOUR
    assert (hours(move.waiting), move.next_at, move.cancels) == ([10, 11, 12], NOON + HOUR, False)


def test_a_punctual_tick_behind_missed_ones_is_judged_by_the_overlap() -> None:
    missed: dict[str, Any] = {"next_at": NOON - 2 * HOUR, "catch_up": "all"}
    assert hours(decide(row(**missed, overlap="queue")).waiting) == [11, 12]
    skipping = decide(row(**missed, overlap="skip"))
    assert (hours(skipping.waiting), skipping.last_answer) == ([11], "skipped")


def test_of_very_many_missed_ticks_the_newest_hundred_run() -> None:
    now = NOON + HOUR / 2
    move = decide(row(next_at=NOON - 1000 * HOUR, now=now, catch_up="all"))
    assert move.start == NOON - 99 * HOUR
    assert (len(move.waiting), move.waiting[-1], move.alert) == (99, NOON, None)


def test_missed_ticks_for_which_there_is_no_room_are_left_out_with_an_alert() -> None:
    waiting = [NOON - 500 * HOUR] * 98
    move = decide(row(next_at=NOON - 4 * HOUR, now=NOON + HOUR / 2, catch_up="all", waiting=waiting, is_busy=True))
    assert (len(move.waiting), hours(move.waiting[-2:]), move.last_answer) == (100, [8, 9], "left_out")
    assert move.alert is not None and "10:00:00" in move.alert


def test_a_trigger_starts_now_and_leaves_the_next_tick() -> None:
    now = NOON - HOUR / 2
    move = decide_trigger(row(now=now))
    assert (move.start, move.next_at, move.last_answer) == (now, NOON, "started")
    paused = decide_trigger(row(now=now, next_at=None, paused_at=now))
    assert (paused.start, paused.next_at) == (now, None)


@pytest.mark.parametrize(("overlap", "answer"), [("skip", "skipped"), ("queue", "waits"), ("replace", "replaces")])
def test_a_trigger_obeys_the_overlap(overlap: str, answer: str) -> None:
    assert decide_trigger(row(now=NOON - HOUR / 2, overlap=overlap, is_busy=True)).last_answer == answer


def test_a_foreseen_tick_counts_although_its_time_zone_has_other_rules_by_now() -> None:
    odd = NOON - timedelta(minutes=17)
    move = decide(row(next_at=odd, now=odd + timedelta(seconds=1)))
    assert (move.start, move.next_at) == (odd, NOON)


def test_a_started_tick_ends_an_older_problem() -> None:
    assert decide(row(problem="old", last_answer="refused")).problem is None
    assert decide(row(problem="old", is_busy=True, last_answer="refused", next_at=NOON + HOUR)).problem == "old"
