"""Workers: their leases, claims and reports. Every write is fenced by the lease."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast import failpoint
from holdfast.core import breaking
from holdfast.core.breaking import Breaker
from holdfast.define.gates import BreakerRules, breaker_key
from holdfast.store.arrays import jsons, plain, texts
from holdfast.store.batch import Handover
from holdfast.store.breakers import breaker_of, changing, rules_of
from holdfast.store.columns import by_name, records
from holdfast.store.connection import SYNC, Answer
from holdfast.store.leases import LEASE_SLACK_SECONDS, Held, held_columns, in_lock_order
from holdfast.store.queries import query
from holdfast.store.records import ItemResult, JobFacts, Lease, Report, WorkerIdentity
from holdfast.store.session import PostgresSession, signalled
from holdfast.store.work import (
    accepted_in,
    claim_statement,
    leases_of,
    report_statement,
)
from holdfast.version import __version__

OnLocked = Callable[[Report], None]

PAGE_BYTES = 1024 * 1024
"""Where a page of results ends, however few they are."""


class PostgresTaskSource(PostgresSession):
    """Where workers get their tasks; keeps the promises of `worker/ports.py`."""

    async def register_worker(
        self,
        name: str,
        queues: Sequence[str] | None,
        handlers: Sequence[str],
        concurrency: int,
        lease_seconds: float,
    ) -> WorkerIdentity:
        drawn = self._draw_id()
        await self._execute(
            "register_worker",
            id=drawn,
            name=name,
            version=__version__,
            queues=texts(queues) if queues is not None else None,
            handlers=texts(handlers),
            concurrency=concurrency,
            lease=lease_seconds,
        )
        return WorkerIdentity(drawn, name)

    async def renew_worker(
        self,
        worker: WorkerIdentity,
        lease_seconds: float,
        held: Sequence[Held],
        changed_files: Sequence[str] | None = None,
    ) -> list[Held] | None:
        """Those of the held leases that are still ours; None if the worker itself was declared gone."""
        await failpoint.hit("renew.before")
        changed = texts(changed_files) if changed_files is not None else None
        renewed = await self._execute("renew_worker", me=worker.worker_id, lease=lease_seconds, changed=changed)
        await failpoint.hit("renew.after")
        if renewed == 0:
            return None
        if not held:
            return []
        rows = await self._fetch("still_held", me=worker.worker_id, **held_columns(held))
        return [(row["job_id"], row["node"], row["item"], row["epoch"]) for row in rows]

    async def cancelled_among(self, held: Sequence[Held]) -> list[Held]:
        """Those of the leases whose job was cancelled by a person."""
        if not held:
            return []
        rows = await self._fetch("cancelled_among", **held_columns(held))
        return [(row["job_id"], row["node"], row["item"], row["epoch"]) for row in rows]

    async def begin_late(self, worker: WorkerIdentity, held: Held) -> bool:
        """Whether a task that was claimed some time ago may begin now; then its time runs from now on."""
        job_id, node, item, epoch = held
        key = {"job": job_id, "node": node, "item": item, "epoch": epoch}
        return await self._execute("begin_late", me=worker.worker_id, slack=LEASE_SLACK_SECONDS, **key) == 1

    async def release_strays(self, worker: WorkerIdentity, held: Sequence[Held]) -> int:
        """Give back the leases of this worker that it does not hold. None of its claims may be under way."""
        released = await self._execute(
            "release_strays", me=worker.worker_id, worker=worker.name, until=None, **held_columns(held)
        )
        if released:
            await self.notify_orchestrators()
        return released

    async def end_claims(self, worker: WorkerIdentity, held: Sequence[Held]) -> None:
        """No claim is under way here while the worker does something else."""

    async def save_progress(self, worker: WorkerIdentity, progress: Sequence[tuple[Held, bytes]]) -> None:
        """Show how far attempts have come; fenced like every write of a worker."""
        columns = held_columns([held for held, _ in progress])
        await self._execute("save_progress", me=worker.worker_id, progress=jsons(p for _, p in progress), **columns)

    async def end_worker(self, worker: WorkerIdentity) -> None:
        await self._execute("end_worker", me=worker.worker_id)

    async def report(
        self, worker: WorkerIdentity, reports: Sequence[Report], on_locked: OnLocked = lambda report: None
    ) -> int:
        """Hand in reports; those whose lease is no longer held change nothing. Returns how many were taken.

        One that was accepted before counts, too: its answer was lost, and it is sent again. `on_locked` gets those
        whose lease another session keeps locked: they can be handed in again.
        """
        if not reports:
            return 0
        reports = in_lock_order(reports)
        (accepted,) = await self._exchange("main", report_statement(worker, reports))
        await self._exchange("main", signalled({report.owner for report in reports}))
        return await self._taken(worker, reports, accepted, on_locked)

    async def _taken(
        self, worker: WorkerIdentity, reports: Sequence[Report], answer: Answer, on_locked: OnLocked
    ) -> int:
        """How many were accepted; the others leave a trace, each in its job, or can be handed in again."""
        accepted = accepted_in(answer)
        left = [report for number, report in enumerate(reports) if number not in accepted]
        return len(reports) - await self.reject(worker, left, on_locked)

    async def reject(
        self, worker: WorkerIdentity, reports: Sequence[Report], on_locked: OnLocked = lambda report: None
    ) -> int:
        """Reports that are not taken leave a trace, unless they were taken before, or can be handed in again.

        Returns how many were not taken.
        """
        if not reports:
            return 0
        (answer,) = await self._exchange("main", report_statement(worker, reports, "reject"))
        (row,) = by_name(answer)
        locked = row["locked"] or ()
        for number in locked:
            on_locked(reports[number])
        rejected = row["rejected"] or ()
        if rejected:
            await self.notify_orchestrators()
        return len(locked) + len(rejected)

    async def claim(
        self,
        worker: WorkerIdentity,
        queues: Sequence[str] | None,
        handlers: Sequence[str],
        limit: int,
    ) -> list[Lease]:
        """Lease up to `limit` tasks by priority, rank and age."""
        claim = claim_statement(Handover(worker, (), queues, handlers, limit))
        return leases_of((await self._exchange("main", claim))[0])

    async def report_and_claim(
        self,
        worker: WorkerIdentity,
        reports: Sequence[Report],
        queues: Sequence[str] | None,
        handlers: Sequence[str],
        limit: int,
        slots: int | None = None,
        on_locked: OnLocked = lambda report: None,
    ) -> tuple[int, list[Lease]]:
        """Both in one round trip; each is a transaction of its own."""
        claim = claim_statement(Handover(worker, (), queues, handlers, limit, slots))
        await failpoint.hit("claim.before")
        if not reports:
            (claimed,) = await self._exchange("work", claim)
            return 0, await self._leased(claimed)
        reports = in_lock_order(reports)
        report = report_statement(worker, reports)
        wake = signalled({report.owner for report in reports})
        await failpoint.hit("report.before")
        accepted, _, claimed = await self._exchange("work", report, SYNC, wake, SYNC, claim)
        await failpoint.hit("report.after_commit")
        number = await self._taken(worker, reports, accepted, on_locked)
        return number, await self._leased(claimed)

    @staticmethod
    async def _leased(claimed: Answer) -> list[Lease]:
        if claimed.rows:
            await failpoint.hit("claim.after_commit")
        return leases_of(claimed)

    async def job_facts(self, job_ids: Sequence[str]) -> dict[str, JobFacts]:
        """What handlers may ask of these jobs."""
        answer = await self._answer("job_facts", jobs=plain(job_ids))
        return {row["job_id"]: facts for row, facts in zip(by_name(answer), records(JobFacts, answer), strict=True)}

    async def results_page(self, job_id: str, node: str, after: int, until: int, limit: int) -> list[ItemResult] | None:
        """The next completed items between `after` and `until`; None: there is no such node, or it has not ended."""
        rows = await self._fetch(
            "results_page", job=job_id, node=node, after=after, until=until, limit=limit, bytes=PAGE_BYTES
        )
        if not rows or not rows[0]["has_ended"]:
            return None
        return [
            ItemResult(row["item"], row["output"].encode() if row["output"] is not None else None, row["output_ref"])
            for row in rows
            if row["item"] is not None
        ]

    async def save_checkpoint(self, worker: WorkerIdentity, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        """Keep a checkpoint if the lease is still held."""
        await failpoint.hit("checkpoint.before")
        saved = await self._execute(
            "save_checkpoint",
            me=worker.worker_id,
            job=lease.job_id,
            node=lease.node,
            item=lease.item,
            epoch=lease.epoch,
            seq=seq,
            name=name,
            data=data.decode(),
        )
        await failpoint.hit("checkpoint.after")
        return saved == 1

    async def breaker(self, tenant: str, name: str) -> Breaker | None:
        """A breaker as it is now, for a handler that is about to call its dependency."""
        rows = await self._fetch("read_breaker", key=breaker_key(tenant, name))
        return breaker_of(rows[0]) if rows else None

    async def claim_probe(
        self, handlers: Sequence[str], seconds: float, *, tenant: str | None = None
    ) -> tuple[str, BreakerRules] | None:
        """The key of a breaker whose probe is due and that no other worker probes; it is ours for this many seconds."""
        rows = await self._fetch("claim_probe", handlers=texts(handlers), seconds=seconds, tenant=tenant)
        return (rows[0]["key"], rules_of(rows[0])) if rows else None

    async def probed(self, key: str, problem: str | None) -> None:
        """The result of a probe: if nothing is wrong the first tasks may try, else the cooldown begins again."""
        async with changing(self.connections, [key], lambda breaker, now: breaking.probed(breaker, problem, now)) as (
            connection,
            changed,
        ):
            await connection.execute(query("end_probe"), {"key": key})
        if changed and problem is None:
            await self.notify_workers()
