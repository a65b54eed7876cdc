"""What a worker over HTTP does: registering, claiming, reporting and saving, as a worker at the database does.

Its leases are signed texts. Whether one is still held, the database says with every write.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from holdfast.errors import PayloadUnavailable, WorkerGone
from holdfast.log_events import EventLog
from holdfast.operations.arrivals import Arrivals
from holdfast.operations.attempt_work import AttemptWork
from holdfast.operations.claimed_tasks import claimed_tasks
from holdfast.operations.known_workers import KnownWorkers, credential_of, gone, tenant_of
from holdfast.operations.scope import Scope
from holdfast.operations.task_reports import ReportMaker, TaskReport
from holdfast.operations.work_ports import BoundWorkers
from holdfast.store.bound_rows import LOCKED, REJECTED, BoundWorker, ClaimedOnce, NotClaimed, Wish
from holdfast.store.leases import Held
from holdfast.store.payloads import INLINE_BYTES
from holdfast.store.records import Report
from holdfast.views.work import Callback, Claim, Left, Registration, RenewedWorker, Reported

log = EventLog("holdfast.service")

LOCKED_SECONDS, LOCKED_LIMIT_SECONDS = 0.05, 2.0
"""After how long a claim looks again that met another one of the same worker, and for how long."""

Check = Callable[[], Awaitable[object]]
"""Raises if the client that waits for an answer has gone, or may not have it any more."""


async def _nothing() -> None: ...


class WorkDesk:
    """Gives tasks to workers over HTTP, and takes their reports. One per process."""

    def __init__(self, store: BoundWorkers, arrivals: Arrivals | None = None) -> None:
        self._store = store
        self._known = KnownWorkers(store)
        self._reports = ReportMaker(store)
        self.attempts = AttemptWork(store, self._known)
        """What its attempts read and write."""
        self.arrivals = arrivals or Arrivals()

    def end(self) -> None:
        """Let every claim that waits answer now."""
        self.arrivals.end()

    async def register(
        self,
        scope: Scope,
        name: str,
        handlers: Sequence[str],
        *,
        lease_seconds: float,
        queues: Sequence[str] | None = None,
        concurrency: int = 1,
        version: str = "",
        registration_id: str | None = None,
    ) -> Registration:
        """Start the lease of a worker. The same registration id again is the same worker."""
        worker = BoundWorker(
            await self._known.new_id(scope, registration_id),
            name,
            credential_of(scope),
            tenant_of(scope),
            list(queues) if queues is not None else None,
            list(handlers),
            lease_seconds,
        )
        if not await self._store.register(worker, concurrency, version):
            raise WorkerGone(
                f"The worker with the registration_id '{registration_id}' has ended.",
                remedy="Register again with another `registration_id`.",
            )
        self._known.remember(worker)
        payloads = self._store.payloads
        inline_bytes = payloads.inline_bytes if payloads is not None else INLINE_BYTES
        return Registration(
            worker.worker_id, name, worker.tenant, lease_seconds, inline_bytes, self._reports.limit_bytes
        )

    async def renew(
        self,
        scope: Scope,
        worker_id: int,
        leases: Sequence[str | Held] | None = None,
        *,
        claimed_at: int | None = None,
        begin: Sequence[str | Held] = (),
        changed_files: Sequence[str] | None = None,
    ) -> RenewedWorker:
        """Renew the worker's lease. Of the leases that it lists, say which are lost or cancelled; give others back.

        Others: what it has claimed until `claimed_at`, or until the last that it lists, and does not list.
        """
        worker = await self._known.worker(scope, worker_id)
        listed = [(one, await self._known.held(worker, one)) for one in leases or ()]
        known = [held for _, held in listed if held is not None]
        source = self._store.source
        still = await source.renew_worker(worker.identity, worker.lease_seconds, known, changed_files)
        if still is None:
            raise gone(worker)
        cancelled, holds = set(await source.cancelled_among(known)), set(still)
        if leases is not None:
            until = claimed_at if claimed_at is not None else await self._last_claim_of(leases)
            await self._store.release_unknown(worker.identity, known, until)
        may_begin = []
        for one in begin:
            held = await self._known.held(worker, one)
            if held is not None and await source.begin_late(worker.identity, held):
                may_begin.append(one)
        return RenewedWorker(
            lost=tuple(one for one, held in listed if held not in holds),
            cancelled=tuple(one for one, held in listed if held in cancelled),
            may_begin=tuple(may_begin),
        )

    async def _last_claim_of(self, leases: Sequence[str | Held]) -> int:
        facts = [await self._known.facts(one) for one in leases if isinstance(one, str)]
        return max((one.claimed_at for one in facts if one is not None), default=0)

    async def leave(self, scope: Scope, worker_id: int) -> Left:
        """End the worker. What it still holds goes back."""
        worker = await self._known.worker(scope, worker_id)
        await self._store.leave(worker.identity)
        return Left(worker_id)

    async def claim(
        self,
        scope: Scope,
        worker_id: int,
        claim_id: str,
        *,
        free: int,
        slots: int | None = None,
        reports: Sequence[TaskReport] = (),
        wait_seconds: float = 0.0,
        inputs_once: bool = False,
        check: Check = _nothing,
    ) -> Claim:
        """Lease up to `free` tasks, and wait for the first of them. The same `claim_id` gets the same tasks.

        A claim that brings reports does not wait. With `inputs_once` the inputs of each job come once. `check` is
        asked before each look after the first.
        """
        worker = await self._known.worker(scope, worker_id)
        wish = Wish(claim_id, free, free if slots is None else min(slots, free))
        fates: Sequence[Report | str] = await self._made(worker, reports)
        until = time.monotonic() + (0.0 if reports else wait_seconds)
        with self.arrivals.watch() as arrived:
            while True:
                # Cleared before looking: an announcement that comes while we look makes us look again.
                arrived.clear()
                fates, claimed = await self._claimed(worker, fates, wish)
                remaining = until - time.monotonic()
                if claimed.leases or claimed.is_repeated or remaining <= 0 or self.arrivals.is_over:
                    break
                await self.arrivals.listen()
                with suppress(TimeoutError):
                    await asyncio.wait_for(arrived.wait(), remaining)
                await check()
        secret = await self._known.secret()
        tasks, inputs = await claimed_tasks(
            self._store.source, secret, worker, claimed.leases, claimed.claimed_at, inputs_once=inputs_once
        )
        return Claim(tasks, tuple(map(str, fates)), claimed.claimed_at, inputs)

    async def report(self, scope: Scope, worker_id: int, reports: Sequence[TaskReport]) -> Reported:
        """The outcome of each report. One that was taken before is taken."""
        worker = await self._known.worker(scope, worker_id)
        fates, _ = await self._sent(worker, await self._made(worker, reports), None)
        return Reported(tuple(fates))

    async def report_by_lease(self, scope: Scope, report: TaskReport) -> Callback:
        """One report by a program that has the token of the lease, in place of the worker that holds it."""
        facts = await self._known.facts(report.lease)
        tenant = tenant_of(scope)
        worker = await self._known.find(facts.holder) if facts is not None else None
        if facts is None or worker is None or tenant not in (None, facts.tenant):
            return Callback(REJECTED)
        fates, _ = await self._sent(worker, await self._made(worker, [report]), None)
        return Callback(fates[0])

    async def _claimed(
        self, worker: BoundWorker, made: Sequence[Report | str], wish: Wish
    ) -> tuple[list[str], ClaimedOnce]:
        """With another claim of the same worker under way, look again in a moment."""
        fates, claimed = await self._sent(worker, made, wish)
        until = time.monotonic() + LOCKED_LIMIT_SECONDS
        while not isinstance(claimed, ClaimedOnce):
            if claimed is not None and claimed.is_gone and not made:
                raise gone(worker)
            if claimed is None or claimed.is_gone or time.monotonic() > until:
                return fates, ClaimedOnce([], 0)
            await asyncio.sleep(LOCKED_SECONDS)
            _, claimed = await self._store.report_and_claim(worker, (), wish)
        return fates, claimed

    async def _sent(
        self, worker: BoundWorker, made: Sequence[Report | str], wish: Wish | None
    ) -> tuple[list[str], ClaimedOnce | NotClaimed | None]:
        """Reports and claim in one round trip. What is not a report is its outcome already."""
        reports = [one for one in made if isinstance(one, Report)]
        if not reports and wish is None:
            return list(map(str, made)), None
        answers, claimed = await self._store.report_and_claim(worker, reports, wish)
        left = iter(answers)
        return [next(left) if isinstance(one, Report) else one for one in made], claimed

    async def _made(self, worker: BoundWorker, reports: Sequence[TaskReport]) -> list[Report | str]:
        """The reports to the owners; in place of one that cannot be made, its outcome."""
        made: list[Report | str] = []
        for sent in reports:
            facts = await self._known.facts_for(worker, sent.lease)
            try:
                made.append(await self._reports.made(sent, facts) if facts is not None else REJECTED)
            except PayloadUnavailable as problem:
                log.write("payload_unavailable", reason=problem)
                made.append(LOCKED)
        return made
