"""Unfinished tasks that were queued, but are no longer in the queue and have no unread report."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.janitor.duty import RECHECK, JobDuty
from holdfast.janitor.ports import JanitorStore
from holdfast.store.upkeep_rows import Finding


class StuckTasks(JobDuty):
    name = "stuck_tasks"

    async def look(self, store: JanitorStore, jobs: Sequence[str]) -> list[Finding]:
        facts = await store.look("find_stuck_tasks", jobs)
        return [self.finding(RECHECK, fact, _reason(fact.seen["tasks"])) for fact in facts]


def _reason(tasks: int) -> str:
    if tasks == 1:
        return "a task is not in the queue and has no unread report"
    return f"{tasks} tasks are not in the queue and have no unread report"
