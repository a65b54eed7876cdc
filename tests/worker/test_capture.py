"""What handlers print goes to their own attempts."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import re
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.worker import execute
from holdfast.worker.capture import LogCapture
from holdfast.worker.context import Context
from holdfast.worker.tracebacks import without_engine
from tests.worker.attempts import bench, data_of, output

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
        raise RuntimeError("too much")

    log = data_of(await bench(floods).result())["log"]
    assert len(log) < 70_000
    assert re.search("\n… 93[0-9],[0-9]{3} characters were cut off here …\n", log)
    assert log.endswith("RuntimeError: too much\n"), "the end says why it failed"


async def test_what_a_handler_logs_is_kept_in_order_with_what_it_prints(
    captured: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    captured()

    def in_a_thread() -> None:
        logging.getLogger("crm").warning("from a thread")

    def logs(*, ctx: Context) -> None:
        print("first")
        logging.getLogger("crm").info("sent %d", 3)
        ctx.logger.warning("half way")
        thread = threading.Thread(target=contextvars.copy_context().run, args=(in_a_thread,))
        thread.start()
        thread.join()
        print("last")

    async def logs_too() -> None:
        await asyncio.to_thread(in_a_thread)

    with caplog.at_level(logging.INFO):
        assert data_of(await bench(logs).result())["log"].splitlines() == [
            "first",
            "INFO crm: sent 3",
            "WARNING half way",
            "WARNING crm: from a thread",
            "last",
        ]
        assert data_of(await bench(logs_too).result())["log"] == "WARNING crm: from a thread\n"
        caplog.clear()
        logging.getLogger("crm").info("not from a handler")
    assert [record.getMessage() for record in caplog.records] == ["not from a handler"]


async def test_a_record_that_cannot_be_formatted_does_not_fail_its_handler(captured: Callable[[], None]) -> None:
    captured()
    quiet = logging.getLogger("quiet")

    def logs() -> str:
        record = quiet.makeRecord("quiet", logging.WARNING, "", 0, "%d", ("not a number",), None)
        LogCapture().handle(record)
        return "done"

    report = await bench(logs).result()
    assert output(report) == "done"
    assert "--- Logging error ---" in data_of(report)["log"]


async def test_records_of_a_handler_name_their_attempt(
    captured: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    captured()

    def logs() -> None:
        logging.getLogger("crm").warning("no answer")

    await bench(logs).result()
    (record,) = caplog.records
    fields = record.__dict__["attempt_fields"]
    assert (fields["node"], fields["attempt"], fields["handler"]) == ("n", 1, "under_test")


async def test_a_traceback_shows_the_handler_and_not_the_engine_above_it(captured: Callable[[], None]) -> None:
    captured()

    def deeper() -> None:
        raise ValueError("odd")

    def fails() -> None:
        try:
            deeper()
        except ValueError as problem:
            raise RuntimeError("even") from problem

    async def fails_too() -> None:
        fails()

    for handler in (fails, fails_too):
        log = data_of(await bench(handler).result())["log"]
        assert "holdfast/worker" not in log
        assert re.findall(r", in (\w+)", log) == ["fails", "deeper", *(["fails_too"] * (handler is fails_too)), "fails"]


async def test_a_traceback_of_the_engine_alone_stays_whole(captured: Callable[[], None]) -> None:
    captured()

    def reads(*, ctx: Context) -> None:
        ctx.fetch({"artifact": "a"})

    log = data_of(await bench(reads).result())["log"]
    assert ", in _fetch" in log, "the engine's frames below the handler stay"
    trace = traceback.TracebackException(KeyError, KeyError("x"), None)
    trace.stack.append(traceback.FrameSummary(str(Path(execute.__file__)), 1, "conclude"))
    without_engine(trace)
    assert [frame.name for frame in trace.stack] == ["conclude"]


async def test_only_text_can_be_printed(captured: Callable[[], None]) -> None:
    captured()

    def prints() -> None:
        sys.stdout.write(b"bytes")  # type: ignore[arg-type]

    data = data_of(await bench(prints).result())
    assert data["message"].startswith("TypeError: ")
