"""What handlers print goes to their own attempts."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable

import pytest

from holdfast.worker.context import Context
from tests.worker.attempts import bench, data_of

pytestmark = pytest.mark.anyio


async def test_what_a_handler_prints_is_kept_with_its_attempt(
    captured: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    captured()

    def prints(*, ctx: Context) -> None:
        print("to stdout")
        print("to stderr", file=sys.stderr)
        ctx.log("half way", done=3)

    async def prints_too() -> None:
        print("from the loop")

    assert data_of(await bench(prints).result())["log"] == "to stdout\nto stderr\nhalf way done=3\n"
    assert data_of(await bench(prints_too).result())["log"] == "from the loop\n"
    print("not from a handler")
    assert "to stdout" not in capsys.readouterr().out


async def test_attempts_that_run_side_by_side_do_not_mix_their_output(captured: Callable[[], None]) -> None:
    captured()
    meeting = threading.Barrier(3, timeout=10)

    def prints(name: str) -> None:
        for number in range(5):
            meeting.wait()
            print(name, number)

    desk = bench(prints)
    reports = await asyncio.gather(*(desk.result({"name": name}) for name in "abc"))
    for name, report in zip("abc", reports, strict=True):
        assert data_of(report)["log"] == "".join(f"{name} {number}\n" for number in range(5))


async def test_coroutines_that_take_turns_do_not_mix_their_output(captured: Callable[[], None]) -> None:
    captured()

    async def prints(name: str) -> None:
        for number in range(5):
            await asyncio.sleep(0)
            print(name, number)

    desk = bench(prints)
    reports = await asyncio.gather(*(desk.result({"name": name}) for name in "abc"))
    for name, report in zip("abc", reports, strict=True):
        assert data_of(report)["log"] == "".join(f"{name} {number}\n" for number in range(5))


async def test_a_flood_of_output_is_cut_off(captured: Callable[[], None]) -> None:
    captured()

    def floods() -> None:
        for _ in range(1000):
            print("x" * 1000)

    log = data_of(await bench(floods).result())["log"]
    assert len(log) < 70_000
    assert log.endswith("… the rest was cut off\n")


async def test_only_text_can_be_printed(captured: Callable[[], None]) -> None:
    captured()

    def prints() -> None:
        sys.stdout.write(b"bytes")  # type: ignore[arg-type]

    data = data_of(await bench(prints).result())
    assert data["message"].startswith("TypeError: ")
