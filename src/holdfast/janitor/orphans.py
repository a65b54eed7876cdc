"""Queue rows and signals of jobs that are over or that nobody knows. What a person has asked is never deleted."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from holdfast.janitor.duty import DELETE, Duty
from holdfast.store.tidying import Fact, Finding, Tidying

UNREAD_SECONDS = 600.0
"""How long the last signals of a job that is over may wait to be told."""


class Orphans(Duty):
    name = "orphans"

    async def look(self, tidying: Tidying, jobs: Sequence[str]) -> list[Finding]:
        queued = await tidying.look("find_orphaned_queue")
        unread = await tidying.look("find_orphaned_inbox", patience=UNREAD_SECONDS)
        return [self.found(DELETE, fact, _reason(fact)) for fact in (*queued, *unread)]

    async def act(self, tidying: Tidying, run: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        queued = await tidying.delete("delete_orphaned_queue", run, self.name)
        return queued + await tidying.delete("delete_orphaned_inbox", run, self.name, patience=UNREAD_SECONDS)


def _reason(fact: Fact) -> str:
    what = "a queue row" if fact.seen["table"] == "queue" else "a signal"
    return f"{what} of a job that {'does not exist' if fact.seen['job'] is None else 'is ' + fact.seen['job']}"
