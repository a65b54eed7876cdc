"""Open jobs in which nothing can happen any more: nothing queued, unread or owed, and no deadline to wake them."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.janitor.duty import RECHECK, JobDuty
from holdfast.store.tidying import Finding, Tidying


class IdleJobs(JobDuty):
    name = "idle_jobs"

    async def look(self, tidying: Tidying, jobs: Sequence[str]) -> list[Finding]:
        facts = await tidying.look("find_idle_jobs", jobs)
        reason = "nothing is queued, unread or owed, and no deadline will wake it"
        return [self.found(RECHECK, fact, f"it is {fact.seen['status']}, but {reason}") for fact in facts]
