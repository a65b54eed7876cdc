"""A worker that is asked to stop: what finishes, what goes back, and what it reports."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from holdfast.define.registry import Result
from holdfast.store.batch import Batch
from holdfast.store.postgres import PostgresStore
from holdfast.worker.context import AsyncContext, Attempt, Context
from tests.conftest import eventually
from tests.store.stage import Stage, retry_write
from tests.worker.service import Between, leases, report_lease, reports, serving

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("each_source")]


async def test_a_stop_gives_back_what_waits_and_lets_finish_what_runs(database_url: str, stage: Stage) -> None:
    begun, finish = asyncio.Event(), asyncio.Event()

    async def work(item: int) -> int:
        begun.set()
        await finish.wait()
        return item

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(5))
    async with serving(database_url, work, concurrency=1) as service:
        service.worker._slots.mean_seconds = 1e-3  # Believes that attempts are short, and claims ahead.
        service.wake.set()
        await asyncio.wait_for(begun.wait(), 10)

        async def all_claimed() -> bool:
            service.wake.set()
            return await leases(stage, job_id) == 5

        await eventually(all_claimed)
        service.stopping.set()
        waiting = await reports(stage, me, 4)
        assert {s.outcome for s in waiting} == {"given_back"}
        assert not service.task.done()
        finish.set()
        await asyncio.wait_for(service.task, 10)
    ended = await stage.signals(me)
    assert sorted(str(s.outcome) for s in ended) == ["done"] + ["given_back"] * 4
    assert await stage.behind.queue(job_id) == []


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_stop_gives_back_after_the_grace_what_does_not_end(database_url: str, stage: Stage, kind: str) -> None:
    begun, released = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def asynchronous(item: int) -> None:
        begun.set()
        await asyncio.Event().wait()

    def plain(item: int) -> None:
        loop.call_soon_threadsafe(begun.set)
        released.wait(10)

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id)
    function = asynchronous if kind == "async" else plain
    async with serving(database_url, function, grace_seconds=0.1) as service:
        await asyncio.wait_for(begun.wait(), 10)
        await service.stop()
        released.set()
    (signal,) = await stage.signals(me)
    assert (signal.outcome, signal.task_retries, signal.task_lost) == ("given_back", 0, 0)


async def test_a_handler_that_ignores_its_cancellation_does_not_keep_the_worker(
    database_url: str, stage: Stage
) -> None:
    begun, end = asyncio.Event(), asyncio.Event()

    async def stubborn(item: int) -> None:
        begun.set()
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    me = await stage.orchestrator()
    await stage.enqueue(me, await stage.owned_job(me))
    async with serving(database_url, stubborn, grace_seconds=0.05) as service:
        await asyncio.wait_for(begun.wait(), 10)
        await service.stop()
        end.set()
    assert [s.outcome for s in await stage.signals(me)] == ["given_back"]


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize(
    ("returned", "outcome"),
    [(None, "given_back"), (Result(None), "given_back"), ("all of it", "done"), (False, "done"), (Result(0), "done")],
)
async def test_a_handler_that_sees_its_worker_stop_is_done_only_if_it_returns_a_value(
    database_url: str, stage: Stage, kind: str, returned: Any, outcome: str
) -> None:
    begun, loop = asyncio.Event(), asyncio.get_running_loop()

    async def asynchronous(item: int, *, ctx: AsyncContext) -> Any:
        begun.set()
        while not ctx.cancelled:
            await asyncio.sleep(0.005)
        await ctx.checkpoint("left", {"at": 3})
        return returned

    def plain(item: int, *, ctx: Context) -> Any:
        loop.call_soon_threadsafe(begun.set)
        while not ctx.cancelled:
            threading.Event().wait(0.005)
        ctx.checkpoint("left", {"at": 3})
        ctx.log("left early")
        return returned

    me = await stage.orchestrator()
    await stage.enqueue(me, await stage.owned_job(me))
    async with serving(database_url, asynchronous if kind == "async" else plain) as service:
        await asyncio.wait_for(begun.wait(), 10)
        await service.stop()
    (signal,) = await stage.signals(me)
    assert (signal.outcome, signal.task_retries) == (outcome, 0)
    if kind == "plain":
        assert signal.data is not None
        assert "left early" in signal.data["log"]


async def test_a_handler_that_never_read_cancelled_is_done_whatever_it_returns(database_url: str, stage: Stage) -> None:
    """It did not see `ctx.cancelled`, so it has not stopped early: its None is its result."""
    begun, finish = asyncio.Event(), asyncio.Event()

    async def work(item: int, *, ctx: AsyncContext) -> None:
        assert not ctx.cancelled
        begun.set()
        await finish.wait()

    me = await stage.orchestrator()
    await stage.enqueue(me, await stage.owned_job(me))
    async with serving(database_url, work) as service:
        await asyncio.wait_for(begun.wait(), 10)
        service.stopping.set()

        async def sees_cancelled() -> bool:
            return any(isinstance(held, Attempt) and held.cancelled for held in service.worker._leases.by_key.values())

        await eventually(sees_cancelled)
        finish.set()
        await service.stop()
    (signal,) = await stage.signals(me)
    assert signal.outcome == "done"


async def test_a_failure_while_the_worker_stops_is_a_failure(database_url: str, stage: Stage) -> None:
    begun = asyncio.Event()

    async def work(item: int, *, ctx: AsyncContext) -> None:
        begun.set()
        while not ctx.cancelled:
            await asyncio.sleep(0.005)
        raise ValueError("it broke")

    me = await stage.orchestrator()
    await stage.enqueue(me, await stage.owned_job(me))
    async with serving(database_url, work) as service:
        await asyncio.wait_for(begun.wait(), 10)
        await service.stop()
    (signal,) = await stage.signals(me)
    assert signal.outcome == "failed"


async def test_an_interrupted_attempt_resumes_at_its_last_checkpoint(database_url: str, stage: Stage) -> None:
    ran: list[tuple[int, int]] = []
    in_phase_two, never = asyncio.Event(), asyncio.Event()

    async def work(item: int, *, ctx: AsyncContext) -> str:
        done = ctx.resume_point[1]["phase"] if ctx.resume_point else 0
        for phase in range(done + 1, 4):
            ran.append((ctx.attempt, phase))
            if (ctx.attempt, phase) == (1, 2):
                in_phase_two.set()
                await never.wait()
            await ctx.checkpoint(f"phase_{phase}", {"phase": phase})
        return "all phases"

    me = await stage.orchestrator()
    await stage.enqueue(me, await stage.owned_job(me))
    async with serving(database_url, work, grace_seconds=0) as first:
        await asyncio.wait_for(in_phase_two.wait(), 10)
        await first.stop()
    (given_back,) = await reports(stage, me)
    again = retry_write(report_lease(given_back), None, retries=0)
    await stage.commit(me, Batch(handled=[given_back.id], retried=[again]))
    async with serving(database_url, work):
        (done,) = await reports(stage, me)
    assert (done.outcome, done.output) == ("done", "all phases")
    assert ran == [(1, 1), (1, 2), (2, 2), (2, 3)]


async def test_a_worker_that_stops_ends_its_lease(database_url: str, stage: Stage, store: PostgresStore) -> None:
    async def work(item: int) -> None: ...

    async with serving(database_url, work) as service:

        async def registered() -> bool:
            return service.worker._own_lease.identity is not None

        await eventually(registered)
    async with store.connections.use("stage") as connection:
        row = await (await connection.execute("select count(*), count(ended_at) from workers")).fetchone()
    assert row == (1, 1)


async def test_a_worker_that_is_declared_gone_while_it_stops_still_stops(database_url: str, stage: Stage) -> None:
    class DeclaredGone(Between):
        is_gone = False

        async def renew_worker(self, *arguments: Any) -> Any:
            return None if self.is_gone else await self.inner.renew_worker(*arguments)

    begun = asyncio.Event()

    async def work(item: int) -> None:
        begun.set()
        await asyncio.Event().wait()

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id)
    async with serving(database_url, work, DeclaredGone, renew_seconds=0.05, grace_seconds=20.0) as service:
        await begun.wait()
        service.source.is_gone = True
