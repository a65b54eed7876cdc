"""Tasks that were queued and have not ended, but that are in no queue and that no report speaks of."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.janitor.duty import RECHECK, JobDuty
from holdfast.store.tidying import Finding, Tidying


class StuckTasks(JobDuty):
    name = "stuck_tasks"

    async def look(self, tidying: Tidying, jobs: Sequence[str]) -> list[Finding]:
        facts = await tidying.look("find_stuck_tasks", jobs)
        return [self.found(RECHECK, fact, _reason(fact.seen["tasks"])) for fact in facts]


def _reason(tasks: int) -> str:
    if tasks == 1:
        return "a task is neither in the queue nor told of by a report"
    return f"{tasks} tasks are neither in the queue nor told of by a report"
