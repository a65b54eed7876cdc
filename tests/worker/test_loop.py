"""The worker as a service, on a real Postgres: claims, slots and reports. The test plays the orchestrator."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextvars import ContextVar
from typing import Any

import pytest

from holdfast.errors import Unreachable
from holdfast.store.batch import Batch
from holdfast.store.postgres import PostgresStore
from holdfast.worker.clock import lease_clock
from holdfast.worker.context import AsyncContext
from tests.conftest import eventually
from tests.store.stage import Stage, report_of, retry_write
from tests.worker.service import Between, leases, report_lease, reports, serving

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("each_source")]


async def test_tasks_are_run_and_reported(database_url: str, stage: Stage) -> None:
    async def work(item: int) -> dict[str, int]:
        return {"seen": item}

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    async with serving(database_url, work):
        await stage.enqueue(me, job_id)
        (signal,) = await reports(stage, me)
    assert (signal.outcome, signal.output, signal.worker) == ("done", {"seen": -1}, "under test")
    assert signal.started_at is not None
    assert abs(signal.started_at - time.time()) < 60


async def test_an_announcement_wakes_a_worker_that_polls_rarely(database_url: str, stage: Stage) -> None:
    async def work(item: int) -> None: ...

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    async with serving(database_url, work, poll_seconds=3600, renew_seconds=5.0) as service:

        async def is_there() -> bool:
            return service.worker._own_lease.identity is not None and not service.wake.is_set()

        await eventually(is_there)
        await stage.enqueue(me, job_id)
        service.wake.set()
        await reports(stage, me)


async def test_plain_and_async_handlers_run_side_by_side(database_url: str, stage: Stage) -> None:
    met = threading.Event()
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()

    def plain(item: int) -> str:
        loop.call_soon_threadsafe(arrived.set)
        assert met.wait(10)
        return "plain"

    async def asynchronous(item: int) -> str:
        await asyncio.wait_for(arrived.wait(), 10)
        met.set()
        return "async"

    async def work(item: int) -> str:
        return await (asyncio.to_thread(plain, item) if item == 0 else asynchronous(item))

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(2))
    async with serving(database_url, work, concurrency=2):
        signals = await reports(stage, me, 2)
    assert [s.outcome for s in signals] == ["done", "done"]


async def test_every_slot_is_filled_even_if_it_takes_several_claims(database_url: str, stage: Stage) -> None:
    """A regression: it claimed one batch and then waited, with free slots, until an attempt ended."""
    running = asyncio.Barrier(6)

    async def work(item: int) -> None:
        await asyncio.wait_for(running.wait(), 10)

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(6))
    async with serving(database_url, work, concurrency=6, claim_batch=2, poll_seconds=3600, renew_seconds=5.0):
        signals = await reports(stage, me, 6)
    assert [s.outcome for s in signals] == ["done"] * 6


async def test_a_cancel_that_a_coroutine_leaves_behind_harms_neither_its_output_nor_the_next_attempt(
    database_url: str, stage: Stage
) -> None:
    """A timeout made by hand fires after its attempt, while a large output is stored or another attempt runs."""

    async def work(item: int) -> str:
        task = asyncio.current_task()
        assert task is not None
        for delay in (0.0, 0.001, 0.01, 0.05):
            asyncio.get_running_loop().call_later(delay, task.cancel)
        return "x" * 500_000

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(8))
    async with serving(database_url, work, concurrency=1) as service:
        signals = await reports(stage, me, 8)
        assert not service.task.done()
    assert [s.outcome for s in signals] == ["done"] * 8


async def test_what_a_coroutine_sets_in_its_context_is_gone_when_the_next_one_begins(
    database_url: str, stage: Stage
) -> None:
    mine: ContextVar[int | None] = ContextVar("mine", default=None)

    seen: list[int | None] = []

    async def work(item: int) -> None:
        seen.append(mine.get())
        mine.set(item)

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    # After the first ones the worker claims ahead: then an attempt begins as another one ends.
    await stage.enqueue(me, job_id, items=range(60))
    async with serving(database_url, work, concurrency=1):
        await reports(stage, me, 60)
    assert seen == [None] * 60


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_no_more_attempts_run_than_the_concurrency_allows(database_url: str, stage: Stage, kind: str) -> None:
    lock = threading.Lock()
    running, most = 0, 0

    def enter() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)

    def leave() -> None:
        nonlocal running
        with lock:
            running -= 1

    async def asynchronous(item: int) -> None:
        enter()
        await asyncio.sleep(0.002)
        leave()

    def plain(item: int) -> None:
        enter()
        threading.Event().wait(0.002)
        leave()

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(60))
    async with serving(database_url, asynchronous if kind == "async" else plain, concurrency=3):
        signals = await reports(stage, me, 60)
    assert {s.outcome for s in signals} == {"done"}
    assert 1 < most <= 3


class LosesTheFirstClaim(Between):
    """Its first claim is committed, but the answer never arrives."""

    lost = False

    async def report_and_claim(self, *arguments: Any) -> Any:
        answer = await self.inner.report_and_claim(*arguments)
        if answer[1] and not self.lost:
            self.lost = True
            raise Unreachable("the connection broke before the answer")
        return answer


async def test_a_claim_whose_answer_was_lost_goes_back_long_before_its_timeout(database_url: str, stage: Stage) -> None:
    async def work(item: int) -> str:
        return "run"

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(2), timeout_seconds=3600.0)
    async with serving(database_url, work, LosesTheFirstClaim, lease_seconds=0.5, renew_seconds=0.1):
        signals = await reports(stage, me, 2)
        assert [s.outcome for s in signals] == ["given_back", "given_back"]
        again = [retry_write(report_lease(s), None, retries=0) for s in signals]
        await stage.commit(me, Batch(handled=[s.id for s in signals], retried=again))
        assert {s.outcome for s in await reports(stage, me, 2)} == {"done"}


async def test_what_runs_is_not_given_back_after_a_broken_connection(database_url: str, stage: Stage) -> None:
    begun, finish = asyncio.Event(), asyncio.Event()

    class Breaks(Between):
        broken = False

        async def report_and_claim(self, *arguments: Any) -> Any:
            if begun.is_set() and not self.broken:
                self.broken = True
                raise Unreachable("the connection broke")
            return await self.inner.report_and_claim(*arguments)

    async def work(item: int) -> str:
        begun.set()
        await finish.wait()
        return "once"

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id)
    async with serving(database_url, work, Breaks) as service:

        async def broken() -> bool:
            return bool(service.source.broken)

        await eventually(broken)
        finish.set()
        (signal,) = await reports(stage, me)
    assert (signal.outcome, signal.output, signal.attempt) == ("done", "once", 1)


async def test_a_report_whose_answer_was_lost_is_sent_again_and_counts_once(database_url: str, stage: Stage) -> None:
    class LosesTheAnswer(Between):
        lost = False
        was_sent_again = asyncio.Event()

        async def report_and_claim(self, worker: Any, reports: Any, *arguments: Any) -> Any:
            answer = await self.inner.report_and_claim(worker, reports, *arguments)
            if reports and not self.lost:
                self.lost = True
                raise Unreachable("the connection broke before the answer")
            if reports:
                self.was_sent_again.set()
            return answer

    async def work(item: int) -> None: ...

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id)
    async with serving(database_url, work, LosesTheAnswer) as service:
        (signal,) = await reports(stage, me)
        sent_again = asyncio.create_task(service.source.was_sent_again.wait())
        await asyncio.wait_for(sent_again, 20)
        assert [s.id for s in await stage.signals(me)] == [signal.id]


@pytest.mark.parametrize(("mean_seconds", "claimed"), [(0.04, 3), (0.3, 1), (None, 1)])
async def test_only_tasks_that_are_known_to_be_short_are_claimed_ahead(
    database_url: str, stage: Stage, mean_seconds: float | None, claimed: int
) -> None:
    begun, finish = asyncio.Event(), asyncio.Event()

    async def work(item: int) -> int:
        begun.set()
        await finish.wait()
        return item

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    async with serving(database_url, work, concurrency=1) as service:
        service.worker._slots.mean_seconds = mean_seconds
        await stage.enqueue(me, job_id, items=range(5))
        await asyncio.wait_for(begun.wait(), 10)

        async def is_claimed() -> bool:
            service.wake.set()
            return await leases(stage, job_id) == claimed

        await eventually(is_claimed)
        assert service.worker._room(0) == 0
        finish.set()
        await reports(stage, me, 5)


async def test_invariant_20_what_waits_behind_a_long_task_goes_back_unspent(database_url: str, stage: Stage) -> None:
    """A regression: the tasks stayed in this worker although others were free, and their timeouts ran."""
    begun, finish = asyncio.Event(), asyncio.Event()
    ran: list[int] = []

    async def work(item: int) -> int:
        ran.append(item)
        begun.set()
        await finish.wait()
        return item

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    async with serving(database_url, work, concurrency=1) as service:
        service.worker._slots.mean_seconds = 1e-3  # Believes that attempts are short, and claims ahead.
        await stage.enqueue(me, job_id, items=range(5))
        waited = await reports(stage, me, 4)
        assert [(s.outcome, s.task_retries, s.task_lost) for s in waited] == [("given_back", 0, 0)] * 4
        again = [retry_write(report_lease(s), None, retries=0) for s in waited]
        await stage.commit(me, Batch(handled=[s.id for s in waited], retried=again))
        assert service.worker._room(0) == 0, "a slot that is busy for long has nothing waiting for it"
        assert ran == [0]
        finish.set()
        done = await reports(stage, me, 5)
    assert Counter(s.item for s in done if s.outcome == "done") == Counter(range(5))


async def test_invariant_20_a_task_that_comes_late_to_its_slot_does_not_begin_if_its_job_is_paused(
    database_url: str, stage: Stage, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.slots.WAIT_SECONDS", -1.0)
    ran: list[str] = []

    async def work(item: int, *, ctx: AsyncContext) -> None:
        ran.append(ctx.job_id)

    me = await stage.orchestrator()
    paused, other = await stage.owned_job(me), await stage.owned_job(me)
    async with store.connections.use("stage") as connection:
        held = '[{"by": "pause", "name": "someone", "since": 1.0}]'
        await connection.execute("update jobs set holds = %s::jsonb where job_id = %s", (held, paused))
    await stage.enqueue(me, paused)
    await stage.enqueue(me, other)
    async with serving(database_url, work):
        signals = await reports(stage, me, 2)
    assert {(s.job_id, s.outcome) for s in signals} == {(paused, "given_back"), (other, "done")}
    assert ran == [other]


async def test_invariant_3_nothing_begins_when_the_lease_is_over_by_the_workers_own_clock(
    database_url: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine slept after the claim: its clock has gone on, and no heartbeat has noticed yet."""
    slept = 0.0
    ran: list[int] = []

    class Sleepy(Between):
        async def report_and_claim(self, *arguments: Any) -> Any:
            nonlocal slept
            answer = await self.inner.report_and_claim(*arguments)
            slept = 3600.0 if answer[1] and not ran else 0.0
            return answer

    monkeypatch.setattr("holdfast.worker.own_lease.lease_clock", lambda: lease_clock() + slept)

    async def work(item: int, *, ctx: AsyncContext) -> None:
        ran.append(ctx.attempt)

    me = await stage.orchestrator()
    await stage.enqueue(me, await stage.owned_job(me))
    async with serving(database_url, work, Sleepy, renew_seconds=5.0):
        (unbegun,) = await reports(stage, me)
    assert (unbegun.outcome, unbegun.task_lost, ran) == ("given_back", 0, [])


async def test_tasks_that_the_database_says_a_worker_holds_and_it_does_not_go_back(
    database_url: str, stage: Stage, store: PostgresStore
) -> None:
    """After a restore, the database says what was true some time ago."""
    ran: list[int] = []

    async def work(item: int) -> None:
        ran.append(item)

    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    async with serving(database_url, work, queues=["none_of_these"]) as service:

        async def registered() -> int:
            return service.worker._own_lease.identity.worker_id if service.worker._own_lease.identity is not None else 0

        worker_id = await eventually(registered)
        await stage.enqueue(me, job_id)
        async with store.connections.use("stage") as connection:
            await connection.execute(
                "update queue set state = 'leased', holder = %s, claimed_at = now(), deadline_at = now() + '1 h'",
                (worker_id,),
            )
        (signal,) = await reports(stage, me)
    assert (signal.kind, signal.outcome, ran) == ("report", "given_back", [])


async def test_a_claim_that_gives_a_worker_what_it_holds_ends_the_older_attempt(
    database_url: str, stage: Stage, store: PostgresStore
) -> None:
    """The database went back to the time before the first claim: only what is done under the second one counts."""
    begun, cancelled = asyncio.Event(), asyncio.Event()
    ran = 0

    async def work(item: int) -> str:
        nonlocal ran
        ran += 1
        if ran == 1:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
        return "second"

    me = await stage.orchestrator()
    await stage.enqueue(me, await stage.owned_job(me))
    async with serving(database_url, work, renew_seconds=5.0) as service:
        await asyncio.wait_for(begun.wait(), 10)
        async with store.connections.use("stage") as connection:
            await connection.execute("update queue set state = 'ready', holder = null")
        service.wake.set()
        await asyncio.wait_for(cancelled.wait(), 10)
        (signal,) = await reports(stage, me)
    assert (signal.outcome, signal.output, ran) == ("done", "second", 2)
    assert len(await stage.signals(me)) == 1


async def test_a_late_report_of_a_zombie_changes_nothing(database_url: str, stage: Stage) -> None:
    zombie = await stage.worker("zombie")
    me = await stage.orchestrator()
    lease = await stage.leased(me, await stage.owned_job(me), zombie)
    await stage.behind.lapse_worker(zombie)
    await stage.store.expire()
    (lost,) = await stage.signals(me)

    async def work(item: int) -> str:
        return "by the living"

    async with serving(database_url, work):
        await stage.commit(me, Batch(handled=[lost.id], retried=[retry_write(lease, None)]))
        (done,) = await reports(stage, me)
    assert await stage.store.report(zombie, [report_of(lease), report_of(lease, epoch=2)]) == 0
    assert (done.outcome, done.output, done.epoch) == ("done", "by the living", 2)
