"""Nodes whose counters differ from the rows of their tasks."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.janitor.duty import RECHECK, JobDuty
from holdfast.janitor.ports import JanitorStore
from holdfast.store.upkeep_rows import Finding


class Counters(JobDuty):
    name = "counters"

    async def look(self, store: JanitorStore, jobs: Sequence[str]) -> list[Finding]:
        facts = await store.look("find_wrong_counters", jobs)
        return [self.finding(RECHECK, fact, wrong_counters(**fact.seen)) for fact in facts]


def wrong_counters(counters: dict[str, int], tasks: dict[str, int]) -> str:
    wrong = [f"{name} is {count} instead of {tasks[name]}" for name, count in counters.items() if count != tasks[name]]
    return f"its counters are wrong: {', '.join(wrong)}"
