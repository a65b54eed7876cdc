"""What ended long ago: processes, answers, the janitor's own lines, and, where that is asked for, finished jobs."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import orjson

from holdfast.janitor.duty import DELETE, Duty
from holdfast.moments import moment
from holdfast.store.pruning import Pruned
from holdfast.store.tidying import Finding, Tidying

LOOK_JOBS = 10_000
"""How many jobs a look counts at most: it must be over within the lease, also at the first time."""
DAY_SECONDS = 86_400.0
OBJECTS = "objects of jobs that were deleted"


class Retention(Duty):
    name = "retention"
    every_seconds = 60.0

    def __init__(self, patience_seconds: float, retention_days: float | None = None) -> None:
        """Without `retention_days` finished jobs are kept for ever."""
        super().__init__(patience_seconds)
        self._days = retention_days

    async def look(self, tidying: Tidying, jobs: Sequence[str]) -> list[Finding]:
        facts = await tidying.look("find_forgotten")
        found = [self.found(DELETE, fact, "rows that ended long ago") for fact in facts]
        if self._days is not None:
            prunable = await tidying.pruning.find(self._days * DAY_SECONDS, most=LOOK_JOBS)
            if prunable:
                found.append(Finding(self.name, DELETE, self._reason, before=summary(prunable)))
        leftovers = await tidying.pruning.leftovers(self.patience_seconds)
        if leftovers:
            found.append(Finding(self.name, DELETE, OBJECTS, before={"jobs": leftovers}))
        return found

    async def act(self, tidying: Tidying, run: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        """Half a lease is enough for one pass: the other duties wait, and so does the lease of the leader."""
        done = await tidying.delete("forget", run, self.name)
        finished = await tidying.pruning.finish_leftovers(self.patience_seconds)
        if finished:
            done += await self._tell(tidying, run, OBJECTS, {"jobs": finished})
        if self._days is not None:
            pruned = await tidying.pruning.prune(self._days * DAY_SECONDS, within_seconds=self.patience_seconds / 2)
            if pruned:
                done += await self._tell(tidying, run, self._reason, summary(pruned))
        return done

    async def _tell(self, tidying: Tidying, run: uuid.UUID, reason: str, before: dict[str, Any]) -> list[Finding]:
        return await tidying.delete(
            "write_deletion", run, self.name, reason=reason, before=orjson.dumps(before).decode()
        )

    @property
    def _reason(self) -> str:
        return f"jobs that finished more than {self._days:g} {'day' if self._days == 1 else 'days'} ago"


def summary(pruned: Sequence[Pruned]) -> dict[str, Any]:
    """How much, since when, and how many jobs of each workflow, by their status."""
    workflows: dict[str, dict[str, int]] = {}
    for one in pruned:
        workflows.setdefault(one.workflow_id, {})[one.status] = one.jobs
    return {
        "jobs": sum(one.jobs for one in pruned),
        "tasks": sum(one.tasks for one in pruned),
        "bytes": sum(one.bytes for one in pruned),
        "oldest": moment(min(one.oldest for one in pruned)),
        "workflows": workflows,
    }
