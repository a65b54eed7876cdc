"""Expired leases: their tasks go back to the owners. Every orchestrator also does this itself, each second."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from holdfast.janitor.duty import EXPIRE, Duty
from holdfast.janitor.ports import JanitorStore
from holdfast.store.upkeep_rows import Fact, Finding


class ExpiredLeases(Duty):
    name = "expired_leases"

    async def look(self, store: JanitorStore, jobs: Sequence[str]) -> list[Finding]:
        return [self.finding(EXPIRE, fact, _reason(fact)) for fact in await store.look("find_expired_leases")]

    async def act(self, store: JanitorStore, pass_id: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        """End the leases. The same statement writes the log; if another process was faster, it has done both."""
        return list(findings) if await store.expire() else []


def _reason(fact: Fact) -> str:
    worker, attempt = fact.seen["worker"], fact.seen["attempt"]
    return f"attempt {attempt} outlived its timeout on {worker}" if fact.seen["timed_out"] else f"{worker} is gone"
