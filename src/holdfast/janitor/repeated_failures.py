"""Many equal failures in one workflow within an hour, which no retry will repair. Raises an alert."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from holdfast.janitor.duty import ALERT, Duty
from holdfast.janitor.ports import JanitorStore
from holdfast.store.upkeep_rows import Finding

FAILURES = 100


class RepeatedFailures(Duty):
    name = "repeated_failures"
    every_seconds = 30.0

    async def look(self, store: JanitorStore, jobs: Sequence[str]) -> list[Finding]:
        facts = await store.look("find_repeated_failures", failures=FAILURES)
        return [self.finding(ALERT, fact, _reason(**fact.seen)) for fact in facts]

    async def act(self, store: JanitorStore, pass_id: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        return await store.alert(pass_id, findings)


def _reason(tenant: str, workflow_id: str, fingerprint: str, failures: int, jobs: int, code: str, message: str) -> str:
    affected = "one job" if jobs == 1 else f"{jobs} jobs"
    return f"{failures} equal failures in {affected} of {workflow_id} within an hour: {code}: {message}"
