"""One attempt: whatever the handler does, the attempt ends in one report."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from holdfast.store.payloads import digest_of
from holdfast.worker.context import AsyncContext, Context, LeaseLost
from holdfast.worker.execute import begin
from tests.running import HOME
from tests.worker.attempts import JOB_ID, bench, data_of, lease, output, started

pytestmark = pytest.mark.anyio


class Outside(BaseException):
    """An exception that no `except Exception` catches; some libraries raise such ones."""


BEYOND_EXCEPTION = [
    (lambda: SystemExit(3), "SystemExit: 3", 3),
    (lambda: SystemExit(), "SystemExit", 0),
    (lambda: SystemExit("no such file"), "SystemExit: no such file", 1),
    (KeyboardInterrupt, "KeyboardInterrupt", None),
    (GeneratorExit, "GeneratorExit", None),
    (lambda: Outside("own"), "Outside: own", None),
    (
        lambda: BaseExceptionGroup("both", [SystemExit(4), ValueError("x")]),
        "BaseExceptionGroup: both (2 sub-exceptions)",
        4,
    ),
    (asyncio.CancelledError, "CancelledError", None),
    (lambda: LeaseLost("it says so"), "LeaseLost: it says so", None),
]


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize(("make", "message", "exit_code"), BEYOND_EXCEPTION, ids=[b[1] for b in BEYOND_EXCEPTION])
async def test_invariant_21_whatever_a_handler_raises_is_its_own_failure(
    kind: str, make: Callable[[], BaseException], message: str, exit_code: int | None
) -> None:
    def plain() -> None:
        raise make()

    async def asynchronous() -> None:
        plain()

    report = await asyncio.wait_for(bench(asynchronous if kind == "async" else plain).result(), 10)
    data = data_of(report)
    assert (report.outcome, data["code"], data["message"]) == ("failed", "HANDLER_ERROR", message)
    assert data.get("exit_code") == exit_code
    assert "raise make()" in data["log"]


async def test_a_plain_function_that_raises_stop_iteration_fails_at_once() -> None:
    def looks() -> Any:
        return next(number for number in range(3) if number > 10)

    report = await asyncio.wait_for(bench(looks).result(), 10)
    assert (report.outcome, data_of(report)["message"]) == ("failed", "StopIteration")


async def test_a_task_that_a_coroutine_has_started_does_not_end_the_worker() -> None:
    async def leaves() -> None:
        sys.exit(5)

    async def gathers() -> None:
        await asyncio.gather(leaves())

    async def groups() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(leaves())

    async def goes_on() -> str:
        left = asyncio.create_task(leaves())
        await asyncio.wait([left])
        return repr(left.exception())

    for function in (gathers, groups):
        data = data_of(await bench(function).result())
        assert (data["code"], data["exit_code"]) == ("HANDLER_ERROR", 5)
    assert output(await bench(goes_on).result()) == "Exited('SystemExit: 5')"


async def test_a_coroutine_that_cancels_its_own_task_harms_no_other_attempt() -> None:
    """A timeout made by hand fires when its attempt is long over."""

    def mine() -> asyncio.Task[Any]:
        task = asyncio.current_task()
        assert task is not None
        return task

    async def cancels_itself() -> None:
        mine().cancel()
        await asyncio.sleep(0)

    async def cancels_at_the_end() -> str:
        mine().cancel()
        return "done"

    async def cancels_later() -> str:
        asyncio.get_running_loop().call_soon(mine().cancel)
        return "done"

    desk = bench(cancels_itself)
    assert data_of(await desk.result())["message"] == "CancelledError"
    for function in (cancels_at_the_end, cancels_later):
        assert output(await bench(function).result()) == "done"
        await asyncio.sleep(0)
    assert mine().cancelling() == 0


async def test_a_check_of_the_arguments_may_raise_anything() -> None:
    class Picky(BaseModel):
        size: int

        @field_validator("size")
        @classmethod
        def leave(cls, value: int) -> int:
            raise SystemExit(2)

    def typed(size_of: Picky) -> None: ...

    typed.__annotations__["size_of"] = Picky
    data = data_of(await bench(typed).result({"size_of": {"size": 1}}))
    assert (data["code"], data["exit_code"]) == ("HANDLER_ERROR", 2)


async def test_an_unknown_handler_fails_the_attempt() -> None:
    data = data_of(await bench(lambda: None).result(handler="other"))
    assert (data["code"], data.get("class")) == ("HANDLER_UNKNOWN", None)


async def test_wrong_arguments_never_reach_the_handler() -> None:
    called = []

    def typed(size: int) -> None:
        called.append(size)

    data = data_of(await bench(typed).result({"size": "three"}))
    assert (data["code"], data["class"], called) == ("CONTRACT_VIOLATION", "permanent", [])


async def test_a_param_cannot_stand_in_for_the_context() -> None:
    async def anything(*, ctx: AsyncContext, **params: Any) -> list[Any]:
        return [type(ctx).__name__, params]

    assert output(await bench(anything).result({"a": 1})) == ["AsyncContext", {"a": 1}]
    data = data_of(await bench(anything).result({"ctx": "forged", "a": 1}))
    assert (data["code"], data["class"]) == ("CONTRACT_VIOLATION", "permanent")


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_an_attempt_that_is_ended_by_its_time_limit_reports_a_timeout(kind: str) -> None:
    begun, released = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def asynchronous() -> None:
        begun.set()
        await asyncio.Event().wait()

    def plain() -> None:
        loop.call_soon_threadsafe(begun.set)
        released.wait(10)

    attempt = begin(lease(timeout_seconds=7.0))
    task = asyncio.create_task(bench(asynchronous if kind == "async" else plain).run(attempt))
    await started(task, begun)
    attempt.timed_out = True
    task.cancel()
    report = await task
    released.set()
    assert report is not None
    assert (data_of(report)["code"], data_of(report).get("class")) == ("TIMEOUT", None)
    assert data_of(report)["message"] == "the attempt took longer than its 7 s"


async def test_a_coroutine_that_returns_nothing_when_its_time_is_up_has_timed_out() -> None:
    begun = asyncio.Event()

    async def stops(*, ctx: AsyncContext) -> None:
        begun.set()
        while not ctx.cancelled:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    attempt = begin(lease(timeout_seconds=7.0))
    task = asyncio.create_task(bench(stops).run(attempt))
    await started(task, begun)
    attempt.timed_out = attempt.cancelled = True
    task.cancel()
    report = await task
    assert report is not None
    assert (report.outcome, data_of(report)["code"]) == ("failed", "TIMEOUT")


async def test_an_attempt_that_is_interrupted_goes_back_and_a_lost_one_reports_nothing() -> None:
    begun = asyncio.Event()

    async def waits() -> None:
        begun.set()
        await asyncio.Event().wait()

    for lost in (False, True):
        begun.clear()
        attempt = begin(lease())
        task = asyncio.create_task(bench(waits).run(attempt))
        await started(task, begun)
        attempt.cancelled, attempt.lost = True, lost
        task.cancel()
        report = await task
        assert report is None if lost else report is not None and report.outcome == "given_back"


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_checkpoint_without_the_lease_ends_the_attempt_without_a_report(kind: str) -> None:
    async def asynchronous(*, ctx: AsyncContext) -> None:
        await ctx.checkpoint("here", {"step": 1})
        raise AssertionError("went on without a lease")

    def plain(*, ctx: Context) -> None:
        ctx.checkpoint("here", {"step": 1})
        raise AssertionError("went on without a lease")

    desk = bench(asynchronous if kind == "async" else plain)
    desk.holds = False
    attempt = begin(lease())
    assert await desk.run(attempt) is None
    assert attempt.cancelled and attempt.lost


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_handler_does_not_begin_when_the_lease_is_over(kind: str) -> None:
    ran: list[str] = []

    async def asynchronous() -> None:
        ran.append("async")

    def plain() -> None:
        ran.append("plain")

    attempt = begin(lease())
    attempt.holds_lease = lambda: False
    assert await bench(asynchronous if kind == "async" else plain).run(attempt) is None
    assert (attempt.lost, ran) == (True, [])


async def test_nothing_is_published_when_the_lease_is_over() -> None:
    attempt = begin(lease())

    def publishes(ctx: Context) -> None:
        (ctx.workdir / "late.bin").write_bytes(b"late")
        attempt.holds_lease = lambda: False
        ctx.publish("late.bin")

    assert await bench(publishes).run(attempt) is None
    assert (attempt.lost, attempt.artifacts) == (True, {})
    assert not (HOME / "payloads" / JOB_ID / digest_of(b"late")).exists()


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_checkpoints_are_numbered_from_the_last_one(kind: str) -> None:
    async def asynchronous(*, ctx: AsyncContext) -> Any:
        await ctx.checkpoint("one", {"step": 1})
        await ctx.checkpoint("two")
        return ctx.resume_point

    def plain(*, ctx: Context) -> Any:
        ctx.checkpoint("one", {"step": 1})
        ctx.checkpoint("two")
        return ctx.resume_point

    desk = bench(asynchronous if kind == "async" else plain)
    report = await desk.result(checkpoint_seq=4, resume_point=("old", [1]))
    assert output(report) == ["old", [1]]
    assert desk.checkpoints == [(5, "one", {"step": 1}), (6, "two", None)]
