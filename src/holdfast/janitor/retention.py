"""Rows that ended long ago and that nobody asks for: processes, answers, and the janitor's own lines."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from holdfast.janitor.duty import DELETE, Duty
from holdfast.store.tidying import Finding, Tidying


class Retention(Duty):
    name = "retention"
    every_seconds = 60.0

    async def look(self, tidying: Tidying, jobs: Sequence[str]) -> list[Finding]:
        facts = await tidying.look("find_forgotten")
        return [self.found(DELETE, fact, "rows that ended long ago") for fact in facts]

    async def act(self, tidying: Tidying, run: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        return await tidying.delete("forget", run, self.name)
