"""The janitor as a service: one leader at a time checks the installation, pass after pass, and acts on its findings.

Any number of janitors run; the one with the lease leads. Two leaders at once do no harm: every action is guarded.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Sequence

from holdfast import failpoint
from holdfast.errors import Locked, Unreachable
from holdfast.janitor.alerting import raise_alerts
from holdfast.janitor.counters import Counters
from holdfast.janitor.deadlines import Deadlines
from holdfast.janitor.duty import ALERT, Chore, Duty, JobDuty
from holdfast.janitor.ended_jobs import EndedJobs
from holdfast.janitor.expired_leases import ExpiredLeases
from holdfast.janitor.idle_jobs import IdleJobs
from holdfast.janitor.long_open_breakers import LongOpenBreakers
from holdfast.janitor.orphans import Orphans
from holdfast.janitor.ports import JanitorStore
from holdfast.janitor.repeated_failures import RepeatedFailures
from holdfast.janitor.retention import Keeping, Retention
from holdfast.janitor.rollup import Rollup
from holdfast.janitor.stuck_tasks import StuckTasks
from holdfast.janitor.unstarted_nodes import UnstartedNodes
from holdfast.log_events import EventLog
from holdfast.meters import Meters
from holdfast.store.records import FIRST_JOB
from holdfast.store.upkeep_rows import Finding

log = EventLog("holdfast.janitor")

DUTIES: tuple[type[Duty], ...] = (
    ExpiredLeases,
    StuckTasks,
    Deadlines,
    UnstartedNodes,
    Counters,
    IdleJobs,
    EndedJobs,
    Orphans,
    RepeatedFailures,
    LongOpenBreakers,
    Rollup,
)
PATROL_JOBS = 2_000
PATROL_TASKS = 100_000
"""How many open jobs and tasks one pass checks. The next pass continues where this one ended."""


class Janitor:
    """Runs until `stop` is set, with a pass every half lease. So it finds a problem within two leases."""

    def __init__(
        self,
        store: JanitorStore,
        name: str,
        *,
        lease_seconds: float,
        retention_days: float | None = None,
        keeping: Keeping = Keeping(),  # noqa: B008
        meters: Meters | None = None,
    ) -> None:
        self._meters = meters or Meters()
        self._store = store
        self._holder = f"{name} {uuid.uuid4().hex[:8]}"
        self._lease_seconds = lease_seconds
        self._duties = [*(duty(lease_seconds) for duty in DUTIES), Retention(lease_seconds, retention_days, keeping)]
        for duty in self._duties:
            # From 0 on, so that an alert sees the first one.
            self._meters.count("janitor_actions", duty.name, ALERT, by=0)
        self._due: dict[str, float] = {}
        self._after = FIRST_JOB
        self.leads = False

    async def run(self, stop: asyncio.Event) -> None:
        try:
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), self._lease_seconds / 2)
                if not stop.is_set():
                    await self._lead()
        finally:
            if self.leads:
                with contextlib.suppress(Unreachable):
                    await self._store.resign(self._holder)

    async def _lead(self) -> None:
        """Do one pass if this janitor leads. An error in it does not stop the next pass."""
        try:
            self.leads = await self._store.lead(self._holder, self._lease_seconds)
            if self.leads:
                await self.run_once(everything=False)
        except Unreachable as reason:
            log.write("janitor_retreats", reason=reason)
        except Exception as problem:
            log.write("janitor_failed", error=problem, seconds=self._lease_seconds / 2)

    async def run_once(self, *, everything: bool = True, dry_run: bool = False) -> list[Finding]:
        """Do one pass over everything, or over the next part of the open jobs; returns the actions.

        With `dry_run` it does nothing and returns the findings.
        """
        pass_id, now = uuid.uuid4(), time.monotonic()
        due = [duty for duty in self._duties if everything or self._due.get(duty.name, 0.0) <= now]
        self._due |= {duty.name: now + duty.every_seconds for duty in due}
        done: list[Finding] = []
        for duty in due:
            if not isinstance(duty, JobDuty):
                done += await self._perform(duty, pass_id, (), dry_run=dry_run)
        after = FIRST_JOB if everything else self._after
        while jobs := await self._store.patrol(after, PATROL_JOBS, PATROL_TASKS):
            for duty in due:
                if isinstance(duty, JobDuty):
                    done += await self._perform(duty, pass_id, jobs, dry_run=dry_run)
            after = jobs[-1]
            if not everything:
                break
        self._after = after if jobs else FIRST_JOB
        return done

    async def _perform(self, duty: Duty, pass_id: uuid.UUID, jobs: Sequence[str], *, dry_run: bool) -> list[Finding]:
        """Perform a duty. If another connection has locked its rows, leave it to the next pass."""
        try:
            return await self._look_and_act(duty, pass_id, jobs, dry_run=dry_run)
        except Locked as reason:
            log.write("janitor_waits", duty=duty.name, reason=reason)
            return []

    async def _look_and_act(
        self, duty: Duty, pass_id: uuid.UUID, jobs: Sequence[str], *, dry_run: bool
    ) -> list[Finding]:
        if isinstance(duty, Chore):
            if not dry_run:
                await duty.do(self._store)
            return []
        findings = await duty.look(self._store, jobs)
        await failpoint.hit("janitor.found")
        if dry_run or not findings:
            return findings
        done = await duty.act(self._store, pass_id, findings)
        raise_alerts(done)
        for finding in done:
            self._meters.count("janitor_actions", finding.duty, finding.action)
        return done
