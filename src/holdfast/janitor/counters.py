"""Nodes whose counters differ from the rows of their tasks."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.janitor.duty import RECHECK, JobDuty
from holdfast.store.tidying import Finding, Tidying


class Counters(JobDuty):
    name = "counters"

    async def look(self, tidying: Tidying, jobs: Sequence[str]) -> list[Finding]:
        facts = await tidying.look("find_wrong_counters", jobs)
        return [self.finding(RECHECK, fact, wrong_counters(**fact.seen)) for fact in facts]


def wrong_counters(counters: dict[str, int], tasks: dict[str, int]) -> str:
    wrong = [f"{name} is {count} instead of {tasks[name]}" for name, count in counters.items() if count != tasks[name]]
    return f"its counters are wrong: {', '.join(wrong)}"
