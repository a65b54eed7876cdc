"""The heartbeat: renews the worker's lease, sends progress, and stops attempts that were cancelled or lost."""

from __future__ import annotations

import asyncio

import orjson

from holdfast.errors import Unreachable
from holdfast.log_events import EventLog
from holdfast.store.leases import Held
from holdfast.store.records import WorkerIdentity
from holdfast.worker.clock import lease_clock
from holdfast.worker.code_files import CodeFiles
from holdfast.worker.context import Attempt
from holdfast.worker.execute import Executor
from holdfast.worker.held_leases import HeldLeases
from holdfast.worker.options import WorkerOptions
from holdfast.worker.own_lease import OwnLease
from holdfast.worker.ports import TaskSource
from holdfast.worker.probing import BreakerProbes

log = EventLog("holdfast.worker")


class Heartbeat:
    """Beats every `renew_seconds`. If no beat succeeds until the lease is over, the worker loses everything."""

    def __init__(
        self,
        source: TaskSource,
        options: WorkerOptions,
        own_lease: OwnLease,
        leases: HeldLeases,
        executor: Executor,
        probes: BreakerProbes,
        wake: asyncio.Event,
        code: CodeFiles,
    ) -> None:
        self._source = source
        self._options = options
        self._own_lease = own_lease
        self._leases = leases
        self._executor = executor
        self._probes = probes
        self._wake = wake
        self._code = code

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._options.renew_seconds)
            if self._own_lease.identity is not None:
                await self._beat(self._own_lease.identity)

    async def _beat(self, worker: WorkerIdentity) -> None:
        asked_at, held = lease_clock(), list(self._leases.by_key)
        try:
            async with asyncio.timeout(self._own_lease.seconds_left()):
                still = await self._source.renew_worker(worker, self._options.lease_seconds, held, self._code.changed)
                await self._send_progress(worker)
                cancelled = await self._source.cancelled_among(held)
        except (Unreachable, TimeoutError) as reason:
            log.write("heartbeat_failed", reason=str(reason) or "no answer came in time")
            if worker is self._own_lease.identity and not self._own_lease.is_live():
                self._lose_everything()
            return
        if worker is not self._own_lease.identity:
            return
        if still is None:
            log.write("worker_declared_gone", worker=self._options.name)
            self._lose_everything()
            return
        self._own_lease.extend(asked_at)
        self._leases.may_have_strays = True
        self._wake.set()
        self._probes.begin()
        # The answer says nothing about leases that were claimed after the request.
        for key in set(held) - set(still):
            self._leases.lose(key)
        for key in cancelled:
            self._cancel(key)

    async def _send_progress(self, worker: WorkerIdentity) -> None:
        changed = [
            (key, attempt) for key, attempt in self._leases.attempts() if attempt.progress is not attempt.progress_sent
        ]
        if changed:
            for _, attempt in changed:
                attempt.progress_sent = attempt.progress
            await self._source.save_progress(worker, [(key, orjson.dumps(one.progress)) for key, one in changed])

    def _cancel(self, key: Held) -> None:
        """Stop an attempt whose job was cancelled: a coroutine at once, any other handler sees `ctx.cancelled`."""
        attempt = self._leases.by_key.get(key)
        if isinstance(attempt, Attempt) and not attempt.cancelled:
            attempt.cancelled = True
            if attempt.cancel_running is not None and self._executor.runs_on_loop(attempt.lease):
                attempt.cancel_running()

    def _lose_everything(self) -> None:
        self._own_lease.identity = None
        self._leases.lose_all()
