"""When a failed attempt is tried again: a pure function of the policy, the number of the retry and a chance."""

from __future__ import annotations

from holdfast.define.retry import Backoff, Jitter, Retry

FREE_RETURNS = 100
LONGEST_RETURN_PAUSE_SECONDS = 60.0


def delay_seconds(retry: Retry, number: int, chance: float) -> float:
    """The pause before retry `number` (from 1), within the policy's bounds; `chance` in [0, 1) is its jitter."""
    match retry.backoff:
        case Backoff.SCHEDULE:
            # The last step of a schedule serves all retries beyond it.
            base = retry.schedule[min(number, len(retry.schedule)) - 1]
            bound = base
        case Backoff.FIXED:
            base, bound = retry.initial_delay_seconds, retry.max_delay_seconds
        case Backoff.LINEAR:
            base, bound = retry.initial_delay_seconds * number, retry.max_delay_seconds
        case Backoff.EXPONENTIAL:
            # The exponent is capped: 2.0 ** 2000 would overflow long after the bound has cut it.
            base, bound = retry.initial_delay_seconds * 2.0 ** min(number - 1, 64), retry.max_delay_seconds
    base = min(base, bound)
    match retry.jitter:
        case Jitter.NONE:
            return base
        case Jitter.FULL:
            return base * chance
        case Jitter.EQUAL:
            return base / 2 + base / 2 * chance
        case Jitter.RANGE:
            least, most = retry.jitter_seconds
            return base + least + (most - least) * chance


def return_pause_seconds(attempt: int) -> float:
    """The pause before a task that its worker gave back runs again: none, but for a task of very many attempts.

    Giving back has no budget, for a worker that leaves is no fault of the task. Whatever makes workers give one task
    back again and again is slowed down instead: a second more each time, up to a minute.
    """
    return min(float(max(0, attempt - FREE_RETURNS)), LONGEST_RETURN_PAUSE_SECONDS)
