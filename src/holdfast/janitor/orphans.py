"""Queue rows and signals of finished jobs, which an owner removes, and rows of jobs or lanes that do not exist."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from holdfast.janitor.duty import DELETE, RECHECK, Duty, make_owners_look
from holdfast.janitor.ports import JanitorStore
from holdfast.store.upkeep_rows import Fact, Finding


class Orphans(Duty):
    name = "orphans"

    async def look(self, store: JanitorStore, jobs: Sequence[str]) -> list[Finding]:
        facts = [*await store.look("find_orphaned_queue"), *await store.look("find_orphaned_inbox")]
        facts += await store.look("find_laneless_queue")
        return [self.finding(RECHECK if fact.seen["job"] else DELETE, fact, _reason(fact)) for fact in facts]

    async def act(self, store: JanitorStore, pass_id: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        done = await make_owners_look(store, pass_id, [f for f in findings if f.action == RECHECK])
        if any(f.action == DELETE for f in findings):
            done += await store.delete("delete_orphaned_queue", pass_id, self.name)
            done += await store.delete("delete_orphaned_inbox", pass_id, self.name)
            done += await store.delete("delete_laneless_queue", pass_id, self.name)
        return done


def _reason(fact: Fact) -> str:
    what = "a queue row" if fact.seen["table"] == "queue" else "a signal"
    if "lane" in fact.seen:
        return f"{what} of a lane that does not exist"
    return f"{what} of a job that {'does not exist' if fact.seen['job'] is None else 'is ' + fact.seen['job']}"
