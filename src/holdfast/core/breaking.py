"""Circuit breakers: when one opens, and how it closes again. Pure; the store keeps the state under a lock.

A breaker counts the calls in the reports of its tasks, each once. Open, it lets nothing through. After
its cooldown it is half open: a few waiting tasks are the probes, and each success lets one more run beside them, until
as many have succeeded as its window holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from holdfast.define.gates import DEFAULT_TENANT, BreakerRules, breaker_key

PROBLEM_LENGTH = 300
"""How much of the problem that a probe met is kept, in characters."""


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Call(NamedTuple):
    """What one task found out about the dependency, and when it began to ask."""

    failed: bool
    started_at: float


@dataclass(slots=True)
class Breaker:
    """One breaker as it was committed last. `held`: a person opened it, and only a person closes it."""

    rules: BreakerRules
    state: BreakerState = BreakerState.CLOSED
    window: list[tuple[float, bool]] = field(default_factory=list)
    """The latest calls: when they were reported, and whether they failed."""
    successes: int = 0
    changed_at: float = 0.0
    until: float | None = None
    held: bool = False
    reason: str | None = None
    tenant: str = DEFAULT_TENANT

    @property
    def name(self) -> str:
        return self.rules.name

    @property
    def key(self) -> str:
        return breaker_key(self.tenant, self.rules.name)

    @property
    def permits(self) -> int | None:
        """How many tasks may run at once; None: any number."""
        match self.state:
            case BreakerState.CLOSED:
                return None
            case BreakerState.OPEN:
                return 0
            case BreakerState.HALF_OPEN:
                return self.rules.probes + self.successes


def feed(breaker: Breaker, calls: Iterable[Call], now: float) -> bool:
    """Count calls; returns whether the breaker changed its state.

    A call from before it was half open or closed changes nothing, and while it is open no call does.
    """
    before = breaker.state
    for call in calls:
        if call.started_at < breaker.changed_at:
            continue
        match breaker.state:
            case BreakerState.CLOSED:
                _count(breaker, call, now)
            case BreakerState.HALF_OPEN:
                _probe(breaker, call, now)
            case BreakerState.OPEN:
                pass
    return breaker.state is not before


def let_try(breaker: Breaker, now: float) -> bool:
    """Half open it if its cooldown is over and nothing else decides that; whether it was."""
    if breaker.state is not BreakerState.OPEN or breaker.held or breaker.rules.has_probe:
        return False
    if breaker.until is None or breaker.until > now:
        return False
    half_open(breaker, now, "its cooldown is over")
    return True


def probed(breaker: Breaker, problem: str | None, now: float) -> bool:
    """Take the result of a probe: half open the breaker if nothing is wrong, else let its cooldown begin again.

    Returns whether the result counts: a person may have decided meanwhile.
    """
    if breaker.state is not BreakerState.OPEN or breaker.held:
        return False
    if problem is None:
        half_open(breaker, now, "its probe passed")
    else:
        breaker.until = now + breaker.rules.cooldown_seconds
        breaker.reason = f"its probe failed: {problem[:PROBLEM_LENGTH]}"
    return True


def open_breaker(breaker: Breaker, now: float, reason: str, *, held: bool = False) -> None:
    _change(breaker, BreakerState.OPEN, now, reason)
    breaker.until = None if held else now + breaker.rules.cooldown_seconds
    breaker.held = held


def half_open(breaker: Breaker, now: float, reason: str) -> None:
    _change(breaker, BreakerState.HALF_OPEN, now, reason)


def close_breaker(breaker: Breaker, now: float, reason: str) -> None:
    _change(breaker, BreakerState.CLOSED, now, reason)


def _count(breaker: Breaker, call: Call, now: float) -> None:
    rules = breaker.rules
    window = [*breaker.window, (now, call.failed)][-rules.window_calls :]
    if rules.window_seconds is not None:
        window = [(at, failed) for at, failed in window if at > now - rules.window_seconds]
    breaker.window = window
    failures = sum(failed for _, failed in window)
    if len(window) >= rules.min_calls and failures >= rules.failure_share * len(window):
        open_breaker(breaker, now, f"{failures} of the last {len(window)} calls failed")


def _probe(breaker: Breaker, call: Call, now: float) -> None:
    if call.failed:
        open_breaker(breaker, now, "a probe failed")
        return
    breaker.successes += 1
    if breaker.successes >= breaker.rules.window_calls:
        close_breaker(breaker, now, f"{breaker.successes} calls in a row succeeded")


def _change(breaker: Breaker, state: BreakerState, now: float, reason: str) -> None:
    breaker.state, breaker.changed_at, breaker.reason = state, now, reason
    breaker.window, breaker.successes, breaker.until, breaker.held = [], 0, None, False
