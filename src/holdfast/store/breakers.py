"""Breakers as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from holdfast.core.breaking import Breaker, BreakerState
from holdfast.define.gates import BreakerRules
from holdfast.store.arrays import jsons, plain, texts


def breaker_of(row: dict[str, Any]) -> Breaker:
    """From the columns of `load_breakers`."""
    return Breaker(
        rules=rules_of(row),
        state=BreakerState(row["state"]),
        window=[(at, failed) for at, failed in orjson.loads(row["calls"])],
        successes=row["successes"],
        changed_at=row["changed_at"],
        until=row["until"],
        held=row["held"],
        reason=row["reason"],
    )


def rules_of(row: dict[str, Any]) -> BreakerRules:
    return BreakerRules.from_json({**orjson.loads(row["settings"]), "name": row["name"]})


def breaker_columns(breakers: Sequence[Breaker], actor: str | None = None) -> dict[str, str]:
    """The parameters of `write_breakers`; `actor` is the person who changed them, if one did."""
    return {
        "name": texts(breaker.name for breaker in breakers),
        "state": plain(breaker.state for breaker in breakers),
        "calls": jsons(breaker.window for breaker in breakers),
        "successes": plain(breaker.successes for breaker in breakers),
        "changed_at": plain(breaker.changed_at for breaker in breakers),
        "until": plain(breaker.until for breaker in breakers),
        "held": plain(breaker.held for breaker in breakers),
        "reason": texts(breaker.reason for breaker in breakers),
        "actor": texts([actor] * len(breakers)),
    }
