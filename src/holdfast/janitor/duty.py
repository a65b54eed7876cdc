"""What a duty is: a look that finds what is wrong, and an act that has it repaired. Knows no SQL and no service."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import ClassVar

from holdfast.store.tidying import Fact, Finding, Tidying

ALERT, DELETE, EXPIRE, RECHECK = "alert", "delete", "expire", "recheck"
TRIES = 3
"""How often an hour an owner is made to look at the same thing before a person is called."""


class Duty:
    """A duty of the whole installation. `every_seconds` says how long it may rest between two looks."""

    name: ClassVar[str]
    every_seconds: ClassVar[float] = 0.0

    def __init__(self, patience_seconds: float) -> None:
        self.patience_seconds = patience_seconds
        """How long a thing may be late before it counts as forgotten: one lease."""

    async def look(self, tidying: Tidying, jobs: Sequence[str]) -> list[Finding]:
        raise NotImplementedError

    async def act(self, tidying: Tidying, run: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        """Do something about these findings; returns what was done."""
        raise NotImplementedError

    def found(self, action: str, fact: Fact, reason: str) -> Finding:
        return Finding(self.name, action, reason, fact.job_id, fact.node, fact.item, fact.seen)


class JobDuty(Duty):
    """A duty that looks at some open jobs, and repairs by making their owners look."""

    async def act(self, tidying: Tidying, run: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        return await make_owners_look(tidying, run, findings)


async def make_owners_look(tidying: Tidying, run: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
    """A signal to each owner; what several signals did not repair needs a person."""
    tried = await tidying.tried(f.job_id for f in findings if f.job_id is not None)
    hopeless = [f for f in findings if tried.get((f.duty, f.job_id or "", f.node), 0) >= TRIES]
    sent = await tidying.recheck(run, [f for f in findings if f not in hopeless])
    alerts = [
        f._replace(action=ALERT, reason=f"{f.reason}; {TRIES} attempts to repair it did not help") for f in hopeless
    ]
    return [*sent, *await tidying.alert(run, alerts)]
