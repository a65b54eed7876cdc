"""Breakers and limits."""

from __future__ import annotations

from typing import Any

from holdfast.moments import moment
from holdfast.store.gates import BreakerView, LimitView


def breaker_json(one: BreakerView) -> dict[str, Any]:
    return {
        "name": one.name,
        "state": one.state,
        "held_by": one.actor if one.held else None,
        "since": moment(one.since),
        "until": moment(one.until),
        "has_probe": one.has_probe,
        "calls": one.calls,
        "failed": one.failed,
        "window_calls": one.window_calls,
        "successes": one.successes,
        "waiting": one.waiting,
        "running": one.running,
        "reason": one.reason,
        "actor": one.actor,
    }


def limit_json(one: LimitView) -> dict[str, Any]:
    return {
        "name": one.name,
        "tenant": one.tenant or None,
        "concurrency": one.concurrency,
        "rate": {"limit": one.burst, "per_seconds": round(one.burst / one.rate, 6)} if one.burst and one.rate else None,
        "backlog": one.backlog,
        "running": one.running,
        "waiting": one.waiting,
        "open_jobs": one.open_jobs,
        "changed_at": moment(one.changed_at),
        "actor": one.actor,
    }
