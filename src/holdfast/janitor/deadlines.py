"""Jobs whose deadline passed long ago, and whose owner did not act on it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.janitor.duty import RECHECK, JobDuty
from holdfast.janitor.ports import JanitorStore
from holdfast.store.upkeep_rows import Finding


class Deadlines(JobDuty):
    name = "deadlines"

    async def look(self, store: JanitorStore, jobs: Sequence[str]) -> list[Finding]:
        facts = await store.look("find_missed_deadlines", jobs, patience=self.patience_seconds)
        return [
            self.finding(
                RECHECK, fact, f"it should have ended at {fact.seen['stop_until'] or fact.seen['deadline_at']}"
            )
            for fact in facts
        ]
