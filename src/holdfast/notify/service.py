"""Sends what happens to jobs to those who want to know it: claims deliveries, sends them, and notes how that ended.

Any number of processes do it at once. A delivery is sent at least once: a process may die between sending and noting
that, and then another sends it again under the same id. Knows no channel, and decides nothing: `deciding` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import Mapping
from typing import Any, Protocol

from holdfast import failpoint
from holdfast.define.notify import JOB_ENDS
from holdfast.errors import Unreachable
from holdfast.log_events import EventLog, LastingTrouble
from holdfast.notify.deciding import DISABLE_SECONDS, GIVE_UP_SECONDS, GONE, Ending, mark_of
from holdfast.notify.facts import Look
from holdfast.notify.ports import NotifyStore
from holdfast.notify.signing import new_secret
from holdfast.store.notify_rows import ClaimedDelivery, Mark

log = EventLog("holdfast.notify")

SLOTS = 16
"""How many deliveries a process sends at once."""
AT_ONCE = 4
"""How many of them to one destination."""
LEASE_SECONDS = 60.0
"""How long a process has for one try: longer than any channel takes."""
MAIL_SECONDS = 15 * 60.0
"""How far apart the mails of a job to a recipient are, if the job goes on."""
KEPT_SECONDS = 30 * 86_400.0
FORGET_SECONDS, FIRST_FORGET_SECONDS = 3600.0, 60.0
FAREWELL_SECONDS = 5.0
"""How long a process that stops goes on sending."""
MARK_TRIES = 5


class Channel(Protocol):
    """A way to receivers. It ends within the lease, and raises nothing that it can expect."""

    async def send(self, delivery: ClaimedDelivery) -> Ending: ...


class Notifier:
    """Runs until `stop` is set, and then sends for a few seconds more what is due."""

    def __init__(
        self, store: NotifyStore, channels: Mapping[str, Channel], look: Look, *, poll_seconds: float = 1.0
    ) -> None:
        """`channels` has one for each way of deliveries that this process has; `look` knows how a job stands."""
        self._look_at = look
        self._store = store
        self._channels = channels
        self._ways = (*channels, "rule")
        self._holder = str(uuid.uuid4())
        self._poll_seconds = poll_seconds
        self._wake = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()
        self._forget_at = time.monotonic() + FIRST_FORGET_SECONDS
        self._trouble = LastingTrouble(log, "notifier_retreats", "notifier_recovered")

    async def run(self, stop: asyncio.Event) -> None:
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                self._wake.clear()
                if not await self._look():
                    woken = asyncio.create_task(self._wake.wait())
                    waiting = {stopping, woken}
                    await asyncio.wait(waiting, timeout=self._poll_seconds, return_when=asyncio.FIRST_COMPLETED)
                    woken.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_SECONDS):
                    # What follows a delivery of the same job is due when that is sent.
                    while await self._look():
                        await self.until_sent()
                    await self.until_sent()
        finally:
            stopping.cancel()
            for task in self._sending:
                task.cancel()
            await asyncio.gather(*self._sending, return_exceptions=True)

    async def until_sent(self) -> None:
        """Until every try that has begun is over."""
        while self._sending:
            await asyncio.wait(self._sending)

    async def _look(self) -> bool:
        """Begin to send what is due; whether there may be more at once. An error in it does not stop the next look."""
        try:
            found = await self.begin_due()
            await self._forget()
        except Unreachable as reason:
            self._trouble.again(reason)
            return False
        except Exception as problem:
            log.write("notifier_failed", error=problem, seconds=self._poll_seconds)
            return False
        self._trouble.over()
        return found and len(self._sending) < SLOTS

    async def begin_due(self) -> bool:
        """Find receivers of new events, and begin to send what is due; whether there was anything."""
        expanded, claimed = await self._store.claim(
            self._holder,
            self._ways,
            SLOTS - len(self._sending),
            at_once=AT_ONCE,
            lease_seconds=LEASE_SECONDS,
            mail_seconds=MAIL_SECONDS,
        )
        for delivery in claimed:
            task = asyncio.create_task(self._deliver(delivery), name="holdfast delivery")
            self._sending.add(task)
            task.add_done_callback(self._ended)
        return bool(expanded or claimed)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._wake.set()

    async def _deliver(self, delivery: ClaimedDelivery) -> None:
        try:
            await failpoint.hit("delivery.before")
            ending = await self._send(delivery)
            await failpoint.hit("delivery.sent")
            await self._note(delivery, ending)
            await failpoint.hit("delivery.marked")
        except Unreachable as reason:
            self._trouble.again(reason)
        except Exception as problem:
            log.write("notifier_failed", error=problem, delivery=delivery.delivery_id)

    async def _send(self, delivery: ClaimedDelivery) -> Ending:
        channel = self._channels.get(delivery.way)
        if channel is None:
            return Ending(f"a rule cannot be followed: {delivery.target}", is_final=True)
        if delivery.kind == "callback" and delivery.secret is None:
            secret = await self._store.callback_secret(delivery.tenant, new_secret())
            delivery = delivery._replace(secret=secret)
        tells_outcome = delivery.kind == "email" or (delivery.kind != "hook" and _is_end(delivery))
        if delivery.job_id is not None and tells_outcome:
            delivery = delivery._replace(facts=await self._look_at(delivery.tenant, delivery.job_id))
        return await channel.send(delivery)

    async def _note(self, delivery: ClaimedDelivery, ending: Ending) -> None:
        mark = mark_of(delivery, ending, random.random())
        failing_seconds = await self._mark(delivery, mark)
        if failing_seconds is None:
            return
        about: dict[str, Any] = {
            "delivery": delivery.delivery_id,
            "tenant": delivery.tenant,
            "receiver": delivery.shown_receiver,
            "job": delivery.job_id,
            "count": delivery.tries,
            "reason": mark.error,
        }
        if mark.status == "waiting":
            log.write("delivery_failed", **about, seconds=round(mark.pause_seconds, 1))
        elif mark.status == "dead":
            log.write("delivery_dead", **about)
        if delivery.kind == "webhook" and (ending.answer == GONE or failing_seconds > DISABLE_SECONDS):
            await self._disable(delivery, ending, failing_seconds)

    async def _mark(self, delivery: ClaimedDelivery, mark: Mark) -> float | None:
        """Note it, even if the database is out of reach for a moment: else the receiver gets it again."""
        for attempt in range(1, MARK_TRIES + 1):
            try:
                return await self._store.mark(delivery, self._holder, mark)
            except Unreachable:
                if attempt == MARK_TRIES:
                    raise
                await asyncio.sleep(attempt)
        raise AssertionError

    async def _disable(self, delivery: ClaimedDelivery, ending: Ending, failing_seconds: float) -> None:
        if ending.answer == GONE:
            reason = f"it answered {GONE}"
        else:
            reason = f"it has failed for {failing_seconds / 3600:.0f} hours; the last time: {ending.problem}"
        if await self._store.disable_webhook(delivery.tenant, delivery.target, reason):
            log.write("webhook_disabled", tenant=delivery.tenant, receiver=delivery.shown_receiver, reason=reason)

    async def _forget(self) -> None:
        if time.monotonic() >= self._forget_at:
            self._forget_at = time.monotonic() + FORGET_SECONDS
            await self._store.forget(KEPT_SECONDS, GIVE_UP_SECONDS)


def _is_end(delivery: ClaimedDelivery) -> bool:
    return bool(delivery.events) and delivery.events[-1].event in JOB_ENDS
