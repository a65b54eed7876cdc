"""Calls the hook of an app: a function that gets the end of a job, for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.errors import cut
from holdfast.log_events import EventLog
from holdfast.masking import masked
from holdfast.notify.body import STATUS
from holdfast.notify.deciding import Ending
from holdfast.store.notify_rows import ClaimedDelivery, NotedEvent

HOOK_SECONDS = 30.0
"""How long one call takes at most."""
CANCEL_SECONDS = 5.0
"""How long a hook that was cancelled may tidy up."""
PROBLEM_CHARACTERS = 300

log = EventLog("holdfast.notify")


@dataclass(frozen=True, slots=True)
class EndedJob:
    """The end of a job, at each call the same."""

    delivery_id: str
    """What a hook keeps to know that it has handled this end."""
    job_id: str
    tenant: str
    workflow_id: str
    status: str
    """`completed`, `partial`, `failed` or `cancelled`. A person may have continued the job since."""
    generation: int
    seq: int
    """The number of the event among those of its job."""


class HookCaller:
    """The channel of one hook."""

    def __init__(
        self,
        name: str,
        call: Callable[[EndedJob], Awaitable[None]],
        *,
        seconds: float = HOOK_SECONDS,
        cancel_seconds: float = CANCEL_SECONDS,
    ) -> None:
        self._name = name
        self._call = call
        self._seconds, self._cancel_seconds = seconds, cancel_seconds

    async def send(self, delivery: ClaimedDelivery) -> Ending:
        if not delivery.events:
            return Ending("the event is gone", is_final=True, is_of_destination=False)
        calling = asyncio.create_task(self._called(delivery), name="holdfast hook")
        try:
            done, _ = await asyncio.wait({calling}, timeout=self._seconds)
        finally:
            if not calling.done():
                # Not `asyncio.timeout`, which waits for ever for a function that takes no notice of its end.
                calling.cancel()
                await asyncio.wait({calling}, timeout=self._cancel_seconds)
        if not done:
            return Ending(f"it did not end within {self._seconds:g} s")
        return calling.result() if not calling.cancelled() else _failed("it was cancelled")

    async def _called(self, delivery: ClaimedDelivery) -> Ending:
        try:
            await self._call(_ended_job(delivery, delivery.events[0]))
        except (Exception, SystemExit) as error:
            # The app's code may raise anything, and must not end this process.
            log.write("hook_failed", hook=self._name, delivery=delivery.delivery_id, job=delivery.job_id, error=error)
            return _failed(f"{type(error).__name__}: {error}")
        return Ending()


def _failed(problem: str) -> Ending:
    # The end of one job may be what the hook cannot handle: that says nothing of the others.
    return Ending(cut(masked(" ".join(problem.split())), PROBLEM_CHARACTERS), is_of_destination=False)


def _ended_job(delivery: ClaimedDelivery, event: NotedEvent) -> EndedJob:
    return EndedJob(
        delivery.delivery_id,
        event.job_id or "",
        delivery.tenant,
        event.workflow_id or "",
        STATUS.get(event.event, ""),
        event.generation or 0,
        event.seq or 0,
    )
