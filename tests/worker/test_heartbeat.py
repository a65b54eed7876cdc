"""The worker's heartbeat: leases that are lost or kept, and progress."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from holdfast.core.effects import WithdrawTasks
from holdfast.core.states import Status
from holdfast.store.batch import Batch
from holdfast.store.postgres import PostgresStore
from holdfast.worker.context import AsyncContext, Context
from tests.conftest import eventually
from tests.store.stage import ERROR, Stage, retry_write
from tests.worker.service import Between, report_lease, reports, serving

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("each_source")]


async def test_a_lease_that_is_lost_cancels_the_attempt_and_nothing_is_reported(
    database_url: str, stage: Stage
) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def work(item: int, *, ctx: AsyncContext) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert ctx.cancelled
            cancelled.set()

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id)
    async with serving(database_url, work):
        await asyncio.wait_for(begun.wait(), 10)
        cycle = stage.store.cycle(me)
        await cycle.open(100, 100)
        await cycle.withdraw([WithdrawTasks(job_id, Status.CANCELLED, True, ERROR, ())])
        await cycle.commit(Batch())
        await asyncio.wait_for(cancelled.wait(), 10)
    assert await stage.signals(me) == []


async def test_a_plain_handler_sees_that_its_lease_is_lost(database_url: str, stage: Stage) -> None:
    loop, begun, seen = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def work(item: int, *, ctx: Context) -> None:
        loop.call_soon_threadsafe(begun.set)
        until = time.monotonic() + 10
        while not ctx.cancelled and time.monotonic() < until:
            threading.Event().wait(0.005)
        if ctx.cancelled:
            seen.set()

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id)
    async with serving(database_url, work):
        await asyncio.wait_for(begun.wait(), 10)
        async with stage.store.connections.use("stage") as connection:  # type: ignore[attr-defined]
            await connection.execute("delete from queue")
        assert await asyncio.to_thread(seen.wait, 10)
    assert await stage.signals(me) == []


async def test_a_worker_that_was_declared_gone_starts_again_under_a_new_lease(database_url: str, stage: Stage) -> None:
    begun = asyncio.Event()
    attempts: list[int] = []

    async def work(item: int, *, ctx: AsyncContext) -> str:
        attempts.append(ctx.attempt)
        begun.set()
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return "second"

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id)
    async with serving(database_url, work) as service:
        await asyncio.wait_for(begun.wait(), 10)
        first = service.worker._own_lease.identity
        assert first is not None
        await stage.behind.lapse_worker(first)
        await stage.store.expire()
        (lost,) = await reports(stage, me)
        assert lost.outcome == "lost"
        again = retry_write(report_lease(lost), None, lost=1, retries=0)
        await stage.commit(me, Batch(handled=[lost.id], retried=[again]))
        (done,) = await reports(stage, me)
        assert service.worker._own_lease.identity not in (None, first)
    assert (done.outcome, done.output, attempts) == ("done", "second", [1, 2])


async def test_leases_claimed_while_a_heartbeat_is_under_way_are_kept(database_url: str, stage: Stage) -> None:
    """The answer to a renewal says nothing about what was claimed after the request."""
    asked, answer = asyncio.Event(), asyncio.Event()

    class Slow(Between):
        async def renew_worker(self, *arguments: Any) -> Any:
            still = await self.inner.renew_worker(*arguments)
            asked.set()
            await answer.wait()
            return still

    begun, finish = asyncio.Event(), asyncio.Event()

    async def work(item: int) -> str:
        begun.set()
        await finish.wait()
        return "kept"

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    async with serving(database_url, work, Slow):
        await asyncio.wait_for(asked.wait(), 10)
        await stage.enqueue(me, job_id)
        await asyncio.wait_for(begun.wait(), 10)
        asked.clear()
        answer.set()
        await asyncio.wait_for(asked.wait(), 10)
        finish.set()
        (signal,) = await reports(stage, me)
    assert (signal.outcome, signal.output) == ("done", "kept")


async def test_progress_reaches_the_queue_row(database_url: str, stage: Stage, store: PostgresStore) -> None:
    finish = asyncio.Event()

    async def work(item: int, *, ctx: AsyncContext) -> None:
        ctx.progress(3, 10, "reading \0 the map")
        await finish.wait()

    me = await stage.orchestrator()
    await stage.enqueue(me, await stage.owned_job(me))
    async with serving(database_url, work, renew_seconds=0.05):

        async def shown() -> Any:
            async with store.connections.use("stage") as connection:
                row = await (await connection.execute("select progress from queue")).fetchone()
                return row is not None and row[0]

        assert await eventually(shown) == {"done": 3, "total": 10, "text": "reading  the map"}
        finish.set()
        await reports(stage, me)


async def test_progress_that_cannot_be_stored_fails_its_attempt_and_not_the_heartbeat(
    database_url: str, stage: Stage
) -> None:
    begun, finish = asyncio.Event(), asyncio.Event()

    async def work(item: int, *, ctx: AsyncContext) -> None:
        if item == 0:
            ctx.progress(object(), 10)  # type: ignore[arg-type]
        begun.set()
        await finish.wait()

    me = await stage.orchestrator()
    await stage.enqueue(me, await stage.owned_job(me), items=range(2))
    async with serving(database_url, work, renew_seconds=0.05, lease_seconds=0.6):
        (bad,) = await reports(stage, me)
        assert (bad.item, bad.outcome) == (0, "failed")

        async def renewed() -> bool:
            async with stage.store.connections.use("stage") as connection:  # type: ignore[attr-defined]
                cursor = await connection.execute("select renewed_at > started_at + interval '0.8 s' from workers")
                return bool((await cursor.fetchone()) == (True,))

        await eventually(renewed)
        finish.set()
        assert [s.outcome for s in await reports(stage, me, 2)] == ["failed", "done"]
