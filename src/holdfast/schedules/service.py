"""Schedules as a service: one process at a time lets them tick.

Any number of processes run it; the one with the lease leads. Two leaders at once do no harm: a tick moves its row and
submits its job in one transaction, which only one of them can commit. The clock is that of the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from typing import Any

from holdfast.errors import HoldfastError, Locked, LostRace, Unreachable
from holdfast.log_events import EventLog
from holdfast.moments import moment
from holdfast.schedules.deciding import ON_TIME_SECONDS, Answer, decide
from holdfast.schedules.moving import Moved, carry_out
from holdfast.schedules.ports import Prepare, TickStore
from holdfast.store.schedule_rows import ScheduleRow

log = EventLog("holdfast.schedules")

LOOK_SECONDS = 1.0
"""How long the leader waits at most between two looks. No new schedule and no end of a job wakes it."""
SHORTEST_SECONDS = 0.02
MOST_AT_ONCE = 100
"""How many schedules one look moves."""


class Scheduler:
    """Runs until `stop` is set. A process that does not lead asks for the lead twice in each lease."""

    def __init__(self, store: TickStore, prepare: Prepare, name: str, *, lease_seconds: float) -> None:
        self._store = store
        self._prepare = prepare
        self._holder = f"{name} {uuid.uuid4().hex[:8]}"
        self._lease_seconds = lease_seconds
        # Another process takes over within a lease; a tick of that time is not missed.
        self._on_time_seconds = max(ON_TIME_SECONDS, 2 * lease_seconds)
        self._leads_until = 0.0
        self._is_stuck = False
        """Whether a schedule could not tick at the last look: it is still due."""

    @property
    def leads(self) -> bool:
        return self._leads_until > time.monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        seconds = 0.0
        try:
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), seconds)
                if not stop.is_set():
                    seconds = await self._look()
        finally:
            if self.leads:
                with contextlib.suppress(Unreachable):
                    await self._store.resign(self._holder)

    async def _look(self) -> float:
        """Let the schedules tick if this process leads; returns how long to wait. An error does not end the service."""
        try:
            if not await self._keep_lead():
                return self._lease_seconds / 2
            if await self.run_once():
                return 0.0
            if self._is_stuck:
                return LOOK_SECONDS
            seconds = await self._store.seconds_to_next()
            return LOOK_SECONDS if seconds is None else min(max(seconds, SHORTEST_SECONDS), LOOK_SECONDS)
        except Unreachable as reason:
            log.write("schedules_wait", reason=reason)
        except Exception as problem:
            log.write("schedules_failed", error=problem)
        return LOOK_SECONDS

    async def _keep_lead(self) -> bool:
        """Renew the lease when a third of it is over. Who believes too long that it leads does no harm."""
        asked = time.monotonic()
        if self._leads_until - asked < self._lease_seconds * 2 / 3:
            leads = await self._store.lead(self._holder, self._lease_seconds)
            self._leads_until = asked + self._lease_seconds if leads else 0.0
        return self.leads

    async def run_once(self) -> bool:
        """Move every schedule with something to do; returns whether there may be more."""
        due = await self._store.due(MOST_AT_ONCE)
        self._is_stuck = False
        moved = [await self._tick(row) for row in due]
        return len(due) == MOST_AT_ONCE and any(moved)

    async def _tick(self, row: ScheduleRow) -> bool:
        """Move one schedule. What is wrong with it stops no other."""
        try:
            done = await carry_out(self._store, row, decide(row, self._on_time_seconds), self._prepare)
        except (LostRace, Locked) as reason:
            log.write("schedules_wait", reason=reason)
            return False
        except Unreachable:
            raise
        except Exception as problem:
            # A time zone that this machine does not know, or a bug: the tick stays, for another machine or version.
            self._is_stuck = True
            what = f"schedule {row.name} cannot tick: {problem}"
            if await self._store.alert(row, what):
                is_expected = isinstance(problem, HoldfastError | LookupError | OSError)
                log.write("schedules_failed", error=None if is_expected else problem, reason=what)
            return False
        if done is not None:
            self._log(row, done)
        return True

    def _log(self, row: ScheduleRow, done: Moved) -> None:
        fields: dict[str, Any] = {
            "schedule": row.name,
            "workflow": row.workflow_id,
            "tenant": row.tenant,
            "job": done.job_id,
        }
        if done.move.start is not None:
            log.write("tick_started", tick=moment(done.move.start), **fields)
        elif done.move.last_answer in (Answer.SKIPPED, Answer.MISSED):
            log.write("tick_skipped", tick=moment(done.move.last_tick), answer=done.move.last_answer, **fields)
        if done.is_new_alert:
            log.write("tick_refused", tick=moment(done.move.last_tick), reason=done.move.alert, **fields)
