"""The log line of a breaker that changed its state; the process that changed it writes the line."""

from __future__ import annotations

from holdfast.core.breaking import Breaker, BreakerState
from holdfast.log_events import ACTIVITY, EventLog

_EVENTS = {
    BreakerState.OPEN: "breaker_opened",
    BreakerState.HALF_OPEN: "breaker_half_open",
    BreakerState.CLOSED: "breaker_closed",
}


log = EventLog(ACTIVITY)


def log_move(breaker: Breaker) -> None:
    log.write(_EVENTS[breaker.state], breaker=breaker.name, tenant=breaker.tenant, reason=breaker.reason)
