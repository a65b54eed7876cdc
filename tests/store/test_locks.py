"""The lock order holds: all statements that lock rows run at once for a while, without a deadlock."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from holdfast.core.effects import WithdrawTasks
from holdfast.core.states import Status
from holdfast.errors import Fenced, LostRace, Unreachable
from holdfast.store.batch import Batch
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import Lease, SignalRow
from tests.store.stage import (
    ERROR,
    PostgresBackstage,
    Stage,
    finish_write,
    new_job,
    owned,
    report_of,
    retry_write,
)

pytestmark = pytest.mark.anyio

ROUNDS = 25
WIDTH = 40


async def deadlocks(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select pg_stat_force_next_flush()")
        row = connection.execute("select deadlocks from pg_stat_database where datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])


class Crowd:
    """Several processes on one database; each repeats one thing, with a store of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.stores: list[PostgresStore] = []
        self.lost = Counter[str]()
        self.done = Counter[str]()

    def stage(self) -> Stage:
        self.stores.append(PostgresStore(self.url))
        return Stage(self.stores[-1], PostgresBackstage(self.stores[-1]))

    async def repeat(self, name: str, act: Callable[[], Awaitable[object]]) -> None:
        for _ in range(ROUNDS):
            try:
                await act()
                self.done[name] += 1
            except (LostRace, Unreachable):
                self.lost[name] += 1

    async def close(self) -> None:
        for store in self.stores:
            await store.close()


async def test_all_statements_at_once_never_deadlock(database_url: str) -> None:
    before = await deadlocks(database_url)
    crowd = Crowd(database_url)
    one, two = Owning(crowd.stage()), Owning(crowd.stage())
    workers = [Working(crowd.stage()) for _ in range(2)]
    sweeper = crowd.stage()
    submitter = crowd.stage()
    await asyncio.gather(one.begin(), two.begin(), *(worker.begin() for worker in workers))
    names = [f"job {n}" for n in range(20)]
    await asyncio.gather(
        crowd.repeat("cycle", one.cycle),
        crowd.repeat("cycle", two.cycle),
        *(crowd.repeat("work", worker.claim_and_report) for worker in workers),
        crowd.repeat("take over", one.take_over),
        crowd.repeat("take over", two.take_over),
        crowd.repeat("sweep", lambda: sweep(sweeper)),
        crowd.repeat("submit", lambda: submitter.store.submit([new_job(name) for name in names[::-1]])),
        crowd.repeat("submit", lambda: sweeper.store.submit([new_job(name) for name in names])),
    )
    await crowd.close()
    assert await deadlocks(database_url) == before
    assert crowd.done["cycle"] > ROUNDS
    assert crowd.done["work"] == 2 * ROUNDS


class Owning:
    """An owner that claims jobs, queues items, handles reports, retries some tasks, and withdraws the rest."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.me = 0
        self.rounds = 0

    async def begin(self) -> None:
        self.me = await self.stage.orchestrator()

    async def cycle(self) -> None:
        self.rounds += 1
        cycle = self.stage.store.cycle(self.me)
        try:
            opened = await cycle.open(50, 200)
        except Fenced:
            await self.begin()
            return
        batch = Batch(handled=[s.id for s in opened.signals], jobs=[owned(row, self.me) for row in opened.claimed])
        for signal in opened.signals:
            if signal.kind == "report" and signal.task_epoch == signal.epoch and signal.task_status == "ready":
                if signal.outcome == "done":
                    batch.finished.append(finish_write(signal))
                else:
                    batch.retried.append(retry_write(lease_of(signal), None))
        await cycle.write(batch)
        jobs = [row.job_id for row in opened.claimed]
        if self.rounds % 3 == 0 and jobs:
            unqueued = (("n", 0, WIDTH),)
            await cycle.withdraw([WithdrawTasks(job, Status.CANCELLED, True, ERROR, unqueued) for job in jobs])
        await cycle.commit(Batch())
        if jobs:
            await self.stage.enqueue(self.me, jobs[0], node=f"n{self.rounds}", items=range(WIDTH))
            await self._withdraw_all(jobs[0])

    async def _withdraw_all(self, job_id: str) -> None:
        if self.rounds % 4 == 0:
            cycle = self.stage.store.cycle(self.me)
            await cycle.open(0, 0)
            await cycle.withdraw([WithdrawTasks(job_id, Status.CANCELLED, True, ERROR, ())])
            await cycle.commit(Batch())

    async def take_over(self) -> None:
        await self.stage.behind.lapse_orchestrator(self.me)
        await self.stage.store.take_over(self.me, 100)
        await self.stage.submit()


def lease_of(signal: SignalRow) -> Lease:
    assert signal.node is not None and signal.item is not None
    assert signal.epoch is not None and signal.attempt is not None
    return Lease(
        signal.job_id, signal.node, signal.item, signal.epoch, signal.attempt, "work", 60.0, False, {}, None, 0
    )


class Working:
    """A worker that claims tasks, reports them in another order, and sometimes dies."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.rounds = 0

    async def begin(self) -> None:
        self.worker = await self.stage.worker()

    async def claim_and_report(self) -> None:
        self.rounds += 1
        leases = await self.stage.claim(self.worker, WIDTH)
        if self.rounds % 5 == 0:
            await self.stage.behind.lapse_worker(self.worker)
        reports = [report_of(lease, "done" if lease.item % 3 else "failed") for lease in reversed(leases)]
        await self.stage.store.report(self.worker, reports)
        if self.rounds % 5 == 0:
            await self.begin()


async def sweep(stage: Stage) -> None:
    await stage.store.sweep_inbox()
    await stage.store.expire()
    await stage.store.wake_due()


async def test_a_withdrawal_and_a_report_of_the_same_rows_in_opposite_order_do_not_deadlock(database_url: str) -> None:
    before = await deadlocks(database_url)
    crowd = Crowd(database_url)
    owner, working = crowd.stage(), crowd.stage()
    me, worker = await owner.orchestrator(), await working.worker()
    for number in range(8):
        job_id = await owner.owned_job(me)
        await owner.enqueue(me, job_id, node=f"n{number}", items=range(400))
        leases = await working.claim(worker, 400)
        cycle = owner.store.cycle(me)
        await cycle.open(0, 0)
        withdrawn, _ = await asyncio.gather(
            cycle.withdraw([WithdrawTasks(job_id, Status.CANCELLED, True, ERROR, ())]),
            report_or_lose(working, worker, leases, cycle),
        )
        assert withdrawn is not None
    await crowd.close()
    assert await deadlocks(database_url) == before


async def report_or_lose(stage: Stage, worker: object, leases: list[Lease], cycle: object) -> None:
    reporting = asyncio.create_task(
        stage.store.report(worker, [report_of(lease) for lease in reversed(leases)])  # type: ignore[arg-type]
    )
    await asyncio.wait([reporting], timeout=0.05)
    await cycle.commit(Batch())  # type: ignore[attr-defined]
    await reporting


async def test_submissions_of_the_same_jobs_in_opposite_order_do_not_deadlock(database_url: str) -> None:
    before = await deadlocks(database_url)
    crowd = Crowd(database_url)
    stages = [crowd.stage() for _ in range(2)]
    for stage in stages:
        await stage.submit()
    for number in range(4):
        names = [f"{number} job {n}" for n in range(1500)]
        orders = (names, names[::-1])
        answers = await asyncio.gather(
            *(s.store.submit([new_job(name) for name in order]) for s, order in zip(stages, orders, strict=True))
        )
        assert sum(answer.created for each in answers for answer in each) == len(names)
    await crowd.close()
    assert await deadlocks(database_url) == before
