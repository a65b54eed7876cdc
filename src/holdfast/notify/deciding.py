"""What follows from how a try has ended: pure decisions. Knows no channel and no store."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import NamedTuple

from holdfast.store.notify_rows import ClaimedDelivery, Mark

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 3600.0
JITTER = 0.2
GIVE_UP_SECONDS = 3 * 86_400.0
"""For how long a delivery is tried."""
DISABLE_SECONDS = 86_400.0
"""For how long a webhook may fail."""
LONGEST_HOLD_SECONDS = 60.0
"""How long a destination that fails is left alone at most, unless it asks for longer itself."""
LONGEST_WISH_SECONDS = 86_400.0
"""How long a receiver may ask to be left alone."""
GONE = 410
ASKING_FOR_TIME = (429, 503)


class Ending(NamedTuple):
    """How a try has ended."""

    problem: str | None = None
    """None: the receiver has it."""
    answer: int | None = None
    """The status that the receiver has answered."""
    retry_after_seconds: float | None = None
    is_final: bool = False
    """Whether no further try can succeed."""
    is_of_destination: bool = True
    """Whether the problem is the destination's, and not of this one delivery."""


def ending_of_answer(status: int, retry_after: str | None, now: float) -> Ending:
    """What the status of an HTTP answer means. A redirect is not followed: it is a failure."""
    if 200 <= status < 300:
        return Ending(answer=status)
    wish = _wish(retry_after, now) if status in ASKING_FOR_TIME else None
    return Ending(f"it answered {status}", status, wish, is_final=status == GONE)


def _wish(text: str | None, now: float) -> float | None:
    """What a Retry-After asks for, in seconds: a number, or a date."""
    if text is None:
        return None
    if text.strip().isascii() and text.strip().isdecimal():
        return min(float(text), LONGEST_WISH_SECONDS)
    try:
        return min(max(parsedate_to_datetime(text).timestamp() - now, 0.0), LONGEST_WISH_SECONDS)
    except (ValueError, TypeError, OverflowError):
        return None


def mark_of(delivery: ClaimedDelivery, ending: Ending, draw: float) -> Mark:
    """What is noted: that it is sent, that it is dead, or when it is tried again. `draw` is random, from 0 to 1."""
    if ending.problem is None:
        return Mark("sent", answer=ending.answer)
    pause = pause_seconds(delivery.tries, draw)
    held = None
    if ending.is_of_destination and not ending.is_final:
        held = min(2.0 ** min(delivery.failures, 10), LONGEST_HOLD_SECONDS)
    if ending.retry_after_seconds is not None:
        pause = max(pause, ending.retry_after_seconds)
        held = max(held or 0.0, ending.retry_after_seconds)
    is_over = ending.is_final or delivery.waited_seconds + pause > GIVE_UP_SECONDS
    return Mark("dead" if is_over else "waiting", pause, held, ending.answer, ending.problem)


def pause_seconds(tries: int, draw: float) -> float:
    """How long after its try a delivery waits: 5 s, 10 s, … 1 h, each a little shorter or longer."""
    doubled: float = FIRST_PAUSE_SECONDS * 2.0 ** min(tries - 1, 20)
    return min(doubled, LONGEST_PAUSE_SECONDS) * (1 - JITTER + 2 * JITTER * draw)
