"""Completed jobs whose counters differ from their tasks, so that their result may be wrong. Their owner says so."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from holdfast.janitor.counters import wrong_counters
from holdfast.janitor.duty import RECHECK, Duty, make_owners_look
from holdfast.janitor.ports import JanitorStore
from holdfast.store.records import FIRST_JOB
from holdfast.store.upkeep_rows import Finding

JOBS = 2_000
TASKS = 100_000
"""How many completed jobs and tasks one look reads. The next look continues where this one ended."""


class EndedJobs(Duty):
    name = "ended_jobs"

    def __init__(self, patience_seconds: float) -> None:
        super().__init__(patience_seconds)
        self._after = (datetime(1970, 1, 1, tzinfo=UTC), FIRST_JOB)

    async def look(self, store: JanitorStore, jobs: Sequence[str]) -> list[Finding]:
        """Check each job once. A wrong job is found again until its owner has marked it as doubtful."""
        ended = await store.completed(self._after, JOBS, TASKS, self.patience_seconds)
        facts = await store.look("find_wrong_counters", [job.job_id for job in ended]) if ended else []
        wrong = {fact.job_id for fact in facts}
        for job in ended:
            if job.job_id in wrong:
                break
            self._after = (job.finished_at, job.job_id)
        return [self.finding(RECHECK, fact, f"it completed, but {wrong_counters(**fact.seen)}") for fact in facts]

    async def act(self, store: JanitorStore, pass_id: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        return await make_owners_look(store, pass_id, findings)
