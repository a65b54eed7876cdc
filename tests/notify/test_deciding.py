"""What follows from how a try has ended."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from holdfast.notify.deciding import Ending, ending_of_answer, mark_of, pause_seconds
from holdfast.store.notify_rows import ClaimedDelivery

NOW = 1_800_000_000.0
DAY = 86_400.0
DELIVERY = ClaimedDelivery("id", "default", "webhook", "webhook:hook", tries=1, waited_seconds=0.0, failures=0)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_every_status_of_success_counts(status: int) -> None:
    assert ending_of_answer(status, None, NOW) == Ending(answer=status)


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 404, 500, 502])
def test_every_other_status_is_tried_again_also_a_redirect(status: int) -> None:
    ending = ending_of_answer(status, "30", NOW)
    assert (ending.problem, ending.retry_after_seconds) == (f"it answered {status}", None)
    assert mark_of(DELIVERY, ending, 0.5).status == "waiting"


def test_a_receiver_that_is_gone_is_not_tried_again() -> None:
    assert mark_of(DELIVERY, ending_of_answer(410, None, NOW), 0.5).status == "dead"


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("wish", "seconds"),
    [
        ("120", 120),
        (formatdate(NOW + 300, usegmt=True), 300),
        ("999999999", DAY),
        ("-5", None),
        ("soon", None),
        ("", None),
    ],
)
def test_what_a_busy_receiver_asks_for_holds(status: int, wish: str, seconds: float | None) -> None:
    ending = ending_of_answer(status, wish, NOW)
    assert ending.retry_after_seconds == seconds
    mark = mark_of(DELIVERY, ending, 0.5)
    assert mark.pause_seconds == (5.0 if seconds is None else seconds)
    assert mark.held_seconds == (1.0 if seconds is None else seconds)


def test_pauses_grow_from_five_seconds_to_an_hour_and_differ_a_little() -> None:
    assert [pause_seconds(tries, 0.5) for tries in (1, 2, 3, 10, 11, 100)] == [5, 10, 20, 2560, 3600, 3600]
    assert [round(pause_seconds(1, draw), 3) for draw in (0.0, 1.0)] == [4.0, 6.0]


def test_a_delivery_is_given_up_after_three_days() -> None:
    failed = Ending("it answered 500", 500)
    assert mark_of(DELIVERY._replace(tries=50, waited_seconds=2.9 * DAY), failed, 0.5).status == "waiting"
    assert mark_of(DELIVERY._replace(tries=80, waited_seconds=3 * DAY), failed, 0.5).status == "dead"


def test_a_destination_that_fails_is_left_alone_for_longer_and_longer() -> None:
    failed = Ending("it answered 500", 500)
    assert [mark_of(DELIVERY._replace(failures=n), failed, 0.5).held_seconds for n in (0, 1, 5, 6, 99)] == [
        1,
        2,
        32,
        60,
        60,
    ]
    assert mark_of(DELIVERY, Ending("no such address", is_of_destination=False), 0.5).held_seconds is None
    assert mark_of(DELIVERY, Ending(), 0.5).held_seconds is None
