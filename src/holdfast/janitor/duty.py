"""The base of a duty: `look` finds problems, `act` has them repaired. Knows no SQL and no service."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import ClassVar

from holdfast.janitor.ports import JanitorStore
from holdfast.store.upkeep_rows import Fact, Finding

ALERT, DELETE, EXPIRE, RECHECK = "alert", "delete", "expire", "recheck"
TRIES = 3
"""How many rechecks of the same problem within an hour precede an alert."""


class Duty:
    """A duty for the whole installation. `every_seconds` is the shortest time between two looks."""

    name: ClassVar[str]
    every_seconds: ClassVar[float] = 0.0

    def __init__(self, patience_seconds: float) -> None:
        self.patience_seconds = patience_seconds
        """How late something may be before the janitor acts: one lease."""

    async def look(self, store: JanitorStore, jobs: Sequence[str]) -> list[Finding]:
        raise NotImplementedError

    async def act(self, store: JanitorStore, pass_id: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        """Act on these findings; returns the actions."""
        raise NotImplementedError

    def finding(self, action: str, fact: Fact, reason: str) -> Finding:
        return Finding(self.name, action, reason, fact.job_id, fact.node, fact.item, fact.seen)


class Chore(Duty):
    """Work that is done at every pass, whether or not anything is wrong. It leaves no line in the log."""

    async def do(self, store: JanitorStore) -> None:
        raise NotImplementedError


class JobDuty(Duty):
    """A duty for open jobs, some at a time. It repairs by making the owners recheck their jobs."""

    async def act(self, store: JanitorStore, pass_id: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        return await make_owners_look(store, pass_id, findings)


async def make_owners_look(store: JanitorStore, pass_id: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
    """Send a recheck to each owner. A problem that several rechecks did not repair becomes an alert."""
    tried = await store.tried(f.job_id for f in findings if f.job_id is not None)
    hopeless = [f for f in findings if tried.get((f.duty, f.job_id or "", f.node), 0) >= TRIES]
    sent = await store.recheck(pass_id, [f for f in findings if f not in hopeless])
    alerts = [f._replace(action=ALERT, reason=f"{f.reason}; {TRIES} attempts to repair it failed") for f in hopeless]
    return [*sent, *await store.alert(pass_id, alerts)]
