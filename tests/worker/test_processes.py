"""Several attempts in one process: each as in a new one, and only if the attempt before has left nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket

import pytest

from holdfast.define.registry import handler
from holdfast.errors import InvalidInput
from holdfast.worker import network, processes
from holdfast.worker.frames import frame
from tests.worker.attempts import data_of, output
from tests.worker.desk import Desk, all_gone, lives

pytestmark = pytest.mark.anyio


async def test_a_process_runs_as_many_attempts_as_its_handler_says_each_as_if_it_were_alone(desk: Desk) -> None:
    reports = [await desk.result("shares", item=item) for item in range(7)]
    pids = [output(report)["pid"] for report in reports]
    assert len(set(pids)) == 3
    assert pids == [pids[0]] * 3 + [pids[3]] * 3 + [pids[6]]
    assert [data_of(report)["log"] for report in reports] == [f"attempt of {item}\n" for item in range(7)]
    assert [data["item"] for _, _, data in desk.checkpoints] == list(range(7))
    assert all(output(report)["is_main"] and not output(report)["cancelled"] for report in reports)
    await all_gone(pids[:6])


async def test_a_process_is_for_one_handler_and_for_one_attempt_at_a_time(desk: Desk) -> None:
    first = [output(await desk.result(name)) for name in ("shares_async", "shares_async_too")]
    again = [output(await desk.result(name)) for name in ("shares_async", "shares_async_too")]
    assert first == again and first[0] != first[1]
    beside = await asyncio.gather(*(desk.result("shares_async_too") for _ in range(3)))
    assert len({output(report) for report in beside}) == 3


@pytest.mark.parametrize("leaves", ["thread", "process", "directory", "stream", "failure", "nothing"])
async def test_a_process_in_which_an_attempt_has_left_something_or_failed_runs_no_other(
    desk: Desk, leaves: str
) -> None:
    before = output(await desk.result("shares"))["pid"]
    await desk.result("shares", {"leaves": leaves})
    assert not lives(before)
    assert output(await desk.result("shares"))["pid"] != before


async def test_a_process_that_holds_half_of_its_memory_runs_no_other_attempt(desk: Desk) -> None:
    pids = [output(await desk.result("shares_memory", {"mb": mb})) for mb in (1, 1, 80, 1)]
    assert pids[0] == pids[1] == pids[2] != pids[3]


async def test_a_task_that_may_have_killed_a_process_gets_one_of_its_own(desk: Desk) -> None:
    shared = output(await desk.result("shares_async_too"))
    alone = output(await desk.result("shares_async_too", suspect=True))
    assert shared != alone
    assert not lives(alone)
    assert output(await desk.result("shares_async_too")) == shared


@pytest.mark.skipif(not network.is_enforced(), reason="nothing takes the network away here")
async def test_the_network_is_taken_once_from_a_process_for_several_attempts(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        results = [output(await desk.result("shares_no_network", {"port": port})) for _ in range(3)]
    pid, _, filters = results[0]
    assert results == [[pid, False, filters]] * 3


async def test_a_process_that_is_idle_for_long_ends(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "IDLE_SECONDS", 0.0)
    pid = output(await desk.result("shares_async_too"))
    await all_gone([pid])
    assert output(await desk.result("shares_async_too")) != pid


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_process_that_was_killed_while_it_waited_costs_no_attempt(desk: Desk, is_known: bool) -> None:
    pid = output(await desk.result("shares_async_too"))
    # A stopped process cannot begin, so its death is noticed only after it was lent.
    os.kill(pid, signal.SIGKILL if is_known else signal.SIGSTOP)
    if is_known:
        await all_gone([pid])
    attempt = asyncio.create_task(desk.result("shares_async_too"))
    if not is_known:
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
    assert output(await attempt) != pid


async def test_a_cancel_that_comes_too_late_is_not_for_the_next_attempt(desk: Desk) -> None:
    pid = output(await desk.result("shares", item=1))["pid"]
    (waiting,) = desk.executor._isolation._processes._idle
    waiting.writer.write(frame({"cancelled": True}))
    result = output(await desk.result("shares", item=2))
    assert (result["pid"], result["cancelled"]) == (pid, False)


async def test_waiting_processes_end_with_the_worker_and_with_the_fork_server(desk: Desk) -> None:
    pid = output(await desk.result("shares_async_too"))
    await desk.executor.end_children()
    await all_gone([pid])
    pid = output(await desk.result("shares_async_too"))
    await desk.result("kills_the_fork_server")
    await all_gone([pid])
    assert output(await desk.result("shares_async_too")) != pid


def test_several_attempts_need_a_process() -> None:
    with pytest.raises(InvalidInput, match="attempts_per_process=2 and isolation='thread'"):
        handler("x", attempts_per_process=2)(lambda: None)
    with pytest.raises(InvalidInput, match="attempts_per_process=0"):
        handler("x", isolation="process", attempts_per_process=0)(lambda: None)
