"""Open jobs that nothing will ever continue: no queued task, no unread signal, no pending work and no deadline."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.janitor.duty import RECHECK, JobDuty
from holdfast.janitor.ports import JanitorStore
from holdfast.store.upkeep_rows import Finding


class IdleJobs(JobDuty):
    name = "idle_jobs"

    async def look(self, store: JanitorStore, jobs: Sequence[str]) -> list[Finding]:
        facts = await store.look("find_idle_jobs", jobs)
        reason = "it has no queued task, no unread signal, no pending work and no deadline"
        return [self.finding(RECHECK, fact, f"it is {fact.seen['status']}, but {reason}") for fact in facts]
