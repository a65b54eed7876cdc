"""Workers over HTTP at the database: who they are, and claims that can be made again. Each is fenced as every worker's.

What is the same for all workers is in `task_source.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast import failpoint
from holdfast.define.gates import BreakerRules
from holdfast.store.arrays import texts
from holdfast.store.attempt_output import PostgresOutput
from holdfast.store.batch import Handover
from holdfast.store.bound_rows import LOCKED, REJECTED, TAKEN, BoundWorker, ClaimedOnce, NotClaimed, Wish
from holdfast.store.columns import by_name, records
from holdfast.store.connection import SYNC, Answer, Statement
from holdfast.store.leases import Held, held_columns, in_lock_order
from holdfast.store.queries import query
from holdfast.store.records import Report, WorkerIdentity
from holdfast.store.session import signalled
from holdfast.store.task_source import PostgresTaskSource
from holdfast.store.work import accepted_in, claim_statement, leases_of, report_statement
from holdfast.version import __version__


class PostgresBoundWorkers:
    """Keeps the promises of `operations.work_ports.BoundWorkers`."""

    def __init__(self, source: PostgresTaskSource) -> None:
        self.source = source
        """What a worker at the database uses, too."""
        self.output = PostgresOutput(source.connections)
        self.payloads = source.payloads

    async def lease_secret(self) -> bytes:
        """With what leases are signed: the same in all processes of the installation."""
        (row,) = await self.source._fetch("lease_secret")
        return bytes.fromhex(row["lease_secret"])

    async def register(self, worker: BoundWorker, concurrency: int, version: str = "") -> bool:
        """Start the lease of a worker, or that of the same registration again; False: that one has ended."""
        made = await self.source._execute(
            "register_bound_worker",
            id=worker.worker_id,
            name=worker.name,
            version=version or __version__,
            queues=texts(worker.queues) if worker.queues is not None else None,
            handlers=texts(worker.handlers),
            concurrency=concurrency,
            lease=worker.lease_seconds,
            bound_to=worker.bound_to,
            tenant=worker.tenant,
        )
        return made == 1

    async def find(self, worker_id: int) -> BoundWorker | None:
        """A worker, also one whose lease has ended."""
        found = records(BoundWorker, await self.source._answer("bound_worker", me=worker_id))
        return found[0] if found else None

    async def report_and_claim(
        self, worker: BoundWorker, reports: Sequence[Report], wish: Wish | None
    ) -> tuple[list[str], ClaimedOnce | NotClaimed | None]:
        """The outcome of each report, and of the claim; both in one round trip, each a transaction of its own."""
        ordered = in_lock_order(reports)
        statements: list[Statement | None] = []
        if ordered:
            await failpoint.hit("report.before")
            wake = signalled({report.owner for report in ordered})
            statements += [report_statement(worker.identity, ordered), SYNC, wake, SYNC]
        if wish is not None:
            await failpoint.hit("claim.before")
            handover = Handover(worker.identity, (), worker.queues, worker.handlers, wish.limit, wish.slots)
            statements += [
                (query("begin_claim"), {"me": worker.worker_id}),
                claim_statement(handover, tenant=worker.tenant, claim_id=wish.claim_id),
            ]
        answers = await self.source._exchange("work", *statements)
        fates: list[str] = []
        if ordered:
            await failpoint.hit("report.after_commit")
            by_report = dict(zip(ordered, await self._fates(worker.identity, ordered, answers[0]), strict=True))
            fates = [by_report[report] for report in reports]
        return fates, await self._claimed(worker, wish, *answers[-2:]) if wish is not None else None

    async def _fates(self, worker: WorkerIdentity, reports: Sequence[Report], answer: Answer) -> list[str]:
        """Of each report. One that was taken before, and whose answer was lost, is taken."""
        accepted = accepted_in(answer)
        fates = dict.fromkeys(range(len(reports)), TAKEN)
        left = [number for number in fates if number not in accepted]
        if left:
            statement = report_statement(worker, [reports[number] for number in left], "reject")
            (row,) = by_name((await self.source._exchange("main", statement))[0])
            for fate in (LOCKED, REJECTED):
                fates.update({left[number]: fate for number in row[fate] or ()})
            if row["rejected"]:
                await self.source.notify_orchestrators()
        return list(fates.values())

    async def _claimed(
        self, worker: BoundWorker, wish: Wish, begun: Answer, claimed: Answer
    ) -> ClaimedOnce | NotClaimed:
        rows = by_name(begun)
        if not rows:
            return NotClaimed(is_gone=False)
        (row,) = rows
        if not row["is_live"]:
            return NotClaimed(is_gone=True)
        if row["claim_id"] == wish.claim_id:
            again = await self.source._answer("claimed_before", me=worker.worker_id, claim_id=wish.claim_id)
            return ClaimedOnce(leases_of(again), row["last_claim_at"], is_repeated=True)
        if claimed.rows:
            await failpoint.hit("claim.after_commit")
        return ClaimedOnce(leases_of(claimed), row["claimed_at"])

    async def holds(self, worker: WorkerIdentity, held: Held) -> bool:
        """Whether the worker holds that lease now."""
        answer = await self.source._answer("still_held", me=worker.worker_id, **held_columns([held]))
        return bool(answer.rows)

    async def claim_probe(self, worker: BoundWorker, seconds: float) -> tuple[str, BreakerRules] | None:
        """A breaker of the worker's tenant whose probe is due and that it can probe."""
        return await self.source.claim_probe(worker.handlers, seconds, tenant=worker.tenant)

    async def release_unknown(self, worker: WorkerIdentity, held: Sequence[Held], until: int) -> None:
        """Give back what the worker does not know of, and has claimed until then."""
        parameters = {"me": worker.worker_id, "worker": worker.name, "until": until, **held_columns(held)}
        if await self.source._execute("release_strays", **parameters):
            await self.source.notify_orchestrators()

    async def leave(self, worker: WorkerIdentity) -> None:
        """End the worker's lease, and give back all that it holds."""
        everything = {"me": worker.worker_id, "worker": worker.name, "until": None, **held_columns(())}
        _, released = await self.source._exchange(
            "main", (query("end_worker"), {"me": worker.worker_id}), (query("release_strays"), everything)
        )
        if released.row_count:
            await self.source.notify_orchestrators()
