"""How a worker looks at breakers: it probes those whose cooldown is over, and shows them to handlers."""

from __future__ import annotations

import asyncio
import time

from holdfast import failpoint
from holdfast.core.breaking import BreakerState
from holdfast.define.registry import Registry
from holdfast.errors import Unreachable
from holdfast.log_events import EventLog
from holdfast.outgoing import Outgoing
from holdfast.worker.dependencies import PROBE_SECONDS, SeenBreaker, probe
from holdfast.worker.ports import TaskSource

log = EventLog("holdfast.worker")

MEMORY_SECONDS = 1.0
"""How old what a handler sees of a breaker may be: a handler may ask before every call that it makes."""


class BreakerProbes:
    """Runs one probe at a time, beside the heartbeat: a probe may take longer than a beat."""

    def __init__(self, source: TaskSource, registry: Registry, outgoing: Outgoing) -> None:
        self._source = source
        self._outgoing = outgoing
        self._registry = registry
        self._seen: dict[tuple[str, str], tuple[float, SeenBreaker | None]] = {}
        self.running: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look for a breaker to probe, unless the last probe still runs."""
        if self.running is None or self.running.done():
            self.running = asyncio.create_task(self._probe(), name="holdfast probe")

    async def _probe(self) -> None:
        try:
            claimed = await self._source.claim_probe(self._registry.names, 2 * PROBE_SECONDS)
            if claimed is not None:
                key, rules = claimed
                await failpoint.hit("probe.claimed")
                problem = await probe(rules, self._registry, self._outgoing)
                await failpoint.hit("probe.asked")
                await self._source.probed(key, problem)
        except Unreachable as reason:
            log.write("probe_failed", reason=reason)

    async def look(self, tenant: str, name: str) -> SeenBreaker | None:
        """A breaker as it was a second ago at most; None: no workflow declares it."""
        seen = self._seen.get((tenant, name))
        if seen is not None and time.monotonic() < seen[0]:
            return seen[1]
        breaker = await self._source.breaker(tenant, name)
        view = SeenBreaker(breaker.rules, breaker.state is BreakerState.OPEN) if breaker is not None else None
        self._seen[tenant, name] = (time.monotonic() + MEMORY_SECONDS, view)
        return view
