"""Breakers that stay open: the dependency does not recover, or a person has forgotten to close it. Raises an alert."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from holdfast.janitor.duty import ALERT, Duty
from holdfast.janitor.ports import JanitorStore
from holdfast.store.upkeep_rows import Finding

COOLDOWNS = 10
HELD_SECONDS = 24 * 3600.0


class LongOpenBreakers(Duty):
    name = "long_open_breakers"
    every_seconds = 30.0

    async def look(self, store: JanitorStore, jobs: Sequence[str]) -> list[Finding]:
        facts = await store.look("find_long_open_breakers", cooldowns=COOLDOWNS, held_seconds=HELD_SECONDS)
        return [self.finding(ALERT, fact, _reason(**fact.seen)) for fact in facts]

    async def act(self, store: JanitorStore, pass_id: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        return await store.alert(pass_id, findings)


def _reason(breaker: str, held_by: str | None, open_seconds: float, reason: str | None, waiting: int) -> str:
    opened = f", opened by {held_by}," if held_by is not None else ""
    behind = "one task waits" if waiting == 1 else f"{waiting} tasks wait"
    why = f": {reason}" if reason else ""
    return f"breaker {breaker}{opened} has been open for {open_seconds:.0f} s, {behind} behind it{why}"
