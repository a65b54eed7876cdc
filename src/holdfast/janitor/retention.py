"""Old rows: of ended processes, of answers, of logs, and, if the setting asks for it, of finished jobs."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from holdfast.janitor.duty import DELETE, Duty
from holdfast.janitor.ports import JanitorStore
from holdfast.moments import moment
from holdfast.store.upkeep_rows import Finding, Pruned

LOOK_JOBS = 10_000
"""The most jobs that a look counts: even the first look must end within the lease."""
DAY_SECONDS = 86_400.0
OBJECTS = "objects of jobs that were deleted"


class Keeping(NamedTuple):
    """For how many days rows of the installation are kept; None: they are never deleted."""

    audit_days: float | None = None
    stats_days: float | None = None


class Retention(Duty):
    name = "retention"
    every_seconds = 60.0

    def __init__(
        self,
        patience_seconds: float,
        retention_days: float | None = None,
        keeping: Keeping = Keeping(),  # noqa: B008
    ) -> None:
        """Without `retention_days` finished jobs are kept forever."""
        super().__init__(patience_seconds)
        self._days = retention_days
        self._keeping = keeping

    async def look(self, store: JanitorStore, jobs: Sequence[str]) -> list[Finding]:
        facts = await store.look("find_forgotten", **self._keeping._asdict())
        findings = [self.finding(DELETE, fact, "rows that ended long ago") for fact in facts]
        if self._days is not None:
            prunable = await store.pruning.find(self._days * DAY_SECONDS, most=LOOK_JOBS)
            if prunable:
                findings.append(Finding(self.name, DELETE, self._reason, before=summary(prunable)))
        leftovers = await store.pruning.leftovers(self.patience_seconds)
        if leftovers:
            findings.append(Finding(self.name, DELETE, OBJECTS, before={"jobs": leftovers}))
        return findings

    async def act(self, store: JanitorStore, pass_id: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        """Delete for at most half a lease: the other duties wait, and the leader must renew its lease."""
        done = await store.delete("forget", pass_id, self.name, **self._keeping._asdict())
        finished = await store.pruning.finish_leftovers(self.patience_seconds)
        if finished:
            done += await self._record(store, pass_id, OBJECTS, {"jobs": finished})
        if self._days is not None:
            pruned = await store.pruning.prune(self._days * DAY_SECONDS, within_seconds=self.patience_seconds / 2)
            if pruned:
                done += await self._record(store, pass_id, self._reason, summary(pruned))
        return done

    async def _record(
        self, store: JanitorStore, pass_id: uuid.UUID, reason: str, before: dict[str, Any]
    ) -> list[Finding]:
        return await store.delete(
            "write_deletion", pass_id, self.name, reason=reason, before=orjson.dumps(before).decode()
        )

    @property
    def _reason(self) -> str:
        return f"jobs that finished more than {self._days:g} {'day' if self._days == 1 else 'days'} ago"


def summary(pruned: Sequence[Pruned]) -> dict[str, Any]:
    """The totals, the oldest job, and the number of jobs by workflow and status."""
    workflows: dict[str, dict[str, int]] = {}
    for group in pruned:
        workflows.setdefault(group.workflow_id, {})[group.status] = group.jobs
    return {
        "jobs": sum(group.jobs for group in pruned),
        "tasks": sum(group.tasks for group in pruned),
        "bytes": sum(group.bytes for group in pruned),
        "oldest": moment(min(group.oldest for group in pruned)),
        "workflows": workflows,
    }
