"""One attempt: whatever a handler does, it ends in one report, and what it printed is kept with it."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from holdfast.define.registry import Result
from holdfast.errors import DependencyDown, ErrorCode, FailureClass, Permanent, RetryAfter, Transient
from holdfast.store.payloads import digest_of
from holdfast.worker.capture import capture_output
from holdfast.worker.context import AsyncContext, Context, LeaseLost
from holdfast.worker.execute import begin
from tests.running import HOME, streams_kept
from tests.worker.attempts import JOB_ID, bench, data_of, lease, output, started

pytestmark = pytest.mark.anyio


@pytest.fixture
def captured() -> Iterator[Callable[[], None]]:
    """Called by a test: the runner puts its own streams in place between set-up and test."""
    with streams_kept():
        yield capture_output


async def test_a_report_carries_the_lease_and_the_output() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    report = await bench(add).result({"a": 1, "b": 2}, epoch=5, attempt=3)
    assert (report.job_id, report.node, report.item, report.epoch, report.attempt) == (JOB_ID, "n", -1, 5, 3)
    assert (report.outcome, report.output, report.data) == ("done", b"3", None)


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "text", "null", [], {}, {"a": [None, {"b": "ü"}]}])
async def test_any_json_value_is_an_output(value: Any) -> None:
    async def give() -> Any:
        return value

    assert output(await bench(give).result()) == value


async def test_a_result_brings_warnings_deliverables_and_metrics() -> None:
    def give() -> Result:
        return Result({"a": 1}, warnings=("careful",), deliverables={"cog": {"count": 1}}, metrics={"seconds": 2})

    def bare() -> Result:
        return Result(7)

    report = await bench(give).result()
    assert output(report) == {"a": 1}
    assert data_of(report)["extra"] == {
        "warnings": ["careful"],
        "deliverables": {"cog": {"count": 1}},
        "metrics": {"seconds": 2},
    }
    assert (await bench(bare).result()).data is None


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (Permanent("no"), {"code": "HANDLER_ERROR", "message": "no", "class": "permanent"}),
        (Permanent("no", code="GONE"), {"code": "GONE", "message": "no", "class": "permanent"}),
        (Transient("later", code="BUSY"), {"code": "BUSY", "message": "later", "class": "transient"}),
        (
            RetryAfter(30, "slow down"),
            {"code": "HANDLER_ERROR", "message": "slow down", "class": "transient", "retry_after_seconds": 30},
        ),
    ],
)
async def test_a_handler_says_how_it_failed(error: Exception, wanted: dict[str, Any]) -> None:
    async def fails() -> None:
        raise error

    report = await bench(fails).result()
    assert (report.outcome, report.output, data_of(report)) == ("failed", None, wanted)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_any_other_exception_is_transient_and_its_traceback_is_kept_in_the_log(kind: str) -> None:
    def plain() -> None:
        raise ValueError("bad value")

    async def asynchronous() -> None:
        plain()

    report = await bench(asynchronous if kind == "async" else plain).result()
    data = data_of(report)
    assert (data["code"], data["message"], data.get("class")) == ("HANDLER_ERROR", "ValueError: bad value", None)
    assert data["log"].startswith("Traceback (most recent call last)")
    assert "raise ValueError" in data["log"]


class Outside(BaseException):
    """What many a library raises past every `except Exception`."""


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


async def test_a_plain_function_that_finds_nothing_next_fails_at_once() -> None:
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

    def typed(given: Picky) -> None: ...

    typed.__annotations__["given"] = Picky
    data = data_of(await bench(typed).result({"given": {"size": 1}}))
    assert (data["code"], data["exit_code"]) == ("HANDLER_ERROR", 2)


async def test_an_exception_without_words_is_named_by_its_type() -> None:
    def silent() -> None:
        raise KeyboardInterruptLike

    assert data_of(await bench(silent).result())["message"] == "KeyboardInterruptLike"


class KeyboardInterruptLike(Exception):
    pass


async def test_an_exception_whose_message_cannot_be_read_is_a_failure_like_others() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def breaks() -> None:
        raise Broken

    def odd() -> None:
        raise Permanent({"not": "text"}, code=404)  # type: ignore[arg-type]

    assert data_of(await bench(breaks).result())["message"] == "Broken"
    data = data_of(await bench(odd).result())
    assert (data["message"], data["code"]) == ("{'not': 'text'}", "404")


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [("soon", None), (None, None), (float("nan"), None), (1e300, 366 * 86_400.0), ("30", 30.0), (-5, 0.0)],
)
async def test_a_retry_delay_that_is_no_number_of_seconds_is_ignored_or_limited(
    seconds: Any, wanted: float | None
) -> None:
    def later() -> None:
        raise RetryAfter(seconds, "later")

    assert data_of(await bench(later).result()).get("retry_after_seconds") == wanted


async def test_an_output_that_is_not_json_is_permanent() -> None:
    async def gives_an_object() -> object:
        return object()

    async def gives_a_surrogate() -> str:
        return "\ud800"

    for function in (gives_an_object, gives_a_surrogate):
        data = data_of(await bench(function).result())
        assert (data["code"], data["class"]) == ("CONTRACT_VIOLATION", "permanent")
        assert "cannot be stored as JSON" in data["message"]


@pytest.mark.parametrize(
    "extra", [{"metrics": {"x": object()}}, {"deliverables": {"a": {1, 2}}}, {"warnings": (b"x",)}]
)
async def test_what_a_result_tells_must_be_json_too(extra: dict[str, Any]) -> None:
    async def give() -> Result:
        return Result(1, **extra)

    data = data_of(await bench(give).result())
    assert (data["code"], data["class"]) == ("CONTRACT_VIOLATION", "permanent")


class Moody(Enum):
    ONE = 1

    @property
    def value(self) -> int:
        raise ZeroDivisionError("not today")


class Nowhere(tzinfo):
    def utcoffset(self, moment: datetime | None) -> timedelta:
        raise LookupError("no such zone")

    dst = utcoffset

    def tzname(self, moment: datetime | None) -> str:
        raise LookupError("no such zone")


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def laughs() -> Any:
    """Little in memory, and more than any machine has as JSON."""
    value: Any = ["ha" * 1000] * 10
    for _ in range(60):
        value = [value] * 10
    return value


def itself() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


CONTRACT = "CONTRACT_VIOLATION"
UNSTORABLE = [
    ("warnings none", lambda: Result(1, warnings=None), CONTRACT, "its warnings must be a list or tuple"),  # type: ignore[arg-type]
    ("warnings text", lambda: Result(1, warnings="careful"), CONTRACT, "its warnings must be a list or tuple"),  # type: ignore[arg-type]
    ("deliverables", lambda: Result(1, deliverables=[1]), CONTRACT, "its deliverables must be a dict"),  # type: ignore[arg-type]
    ("metrics", lambda: Result(1, metrics={"a": float("inf")}), CONTRACT, "contains NaN or an infinity"),
    ("nan", lambda: float("nan"), CONTRACT, "contains NaN or an infinity"),
    ("infinity", lambda: {"a": [1, -float("inf")]}, CONTRACT, "contains NaN or an infinity"),
    ("deep", lambda: nested(129), CONTRACT, "is nested more than 128 levels deep"),
    ("itself", itself, CONTRACT, "is nested more than 128 levels deep"),
    ("laughs", laughs, "PAYLOAD_REFUSED", "has far more than 16,777,216 bytes"),
    ("enum", lambda: [Moody.ONE], CONTRACT, "cannot be stored as JSON: ZeroDivisionError: not today"),
    ("zone", lambda: datetime(2026, 1, 1, tzinfo=Nowhere()), CONTRACT, "LookupError: no such zone"),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize(("make", "code", "words"), [u[1:] for u in UNSTORABLE], ids=[u[0] for u in UNSTORABLE])
async def test_what_a_handler_returns_is_checked_before_it_is_reported(
    kind: str, make: Callable[[], Any], code: str, words: str
) -> None:
    def plain() -> Any:
        return make()

    async def asynchronous() -> Any:
        return make()

    report = await bench(asynchronous if kind == "async" else plain).result()
    data = data_of(report)
    assert (report.outcome, data["code"], data["class"]) == ("failed", code, "permanent")
    assert words in data["message"]


async def test_an_output_may_be_nested_as_deep_as_others_can_still_wrap_it() -> None:
    def gives() -> Any:
        return nested(128)

    assert output(await bench(gives).result()) == nested(128)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "needs a name of 1 to 1,024 bytes"),
        ("a\0b", "holds a NUL character"),
        (b"caf\xe9".decode("utf-8", "surrogateescape"), "is not UTF-8"),
        ("x" * 5000, "needs a name of 1 to 1,024 bytes"),
        (7, "must be text, not int"),
    ],
)
async def test_an_artifact_needs_a_name_that_can_be_stored(name: Any, message: str) -> None:
    def publishes(*, ctx: Context) -> Any:
        (ctx.workdir / "file").write_text("x")
        return ctx.publish("file", name)

    data = data_of(await bench(publishes).result())
    assert (data["code"], data["class"]) == ("CONTRACT_VIOLATION", "permanent")
    assert message in data["message"]


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize(
    ("name", "value", "code", "message"),
    [
        ("half", float("nan"), "CONTRACT_VIOLATION", "checkpoint 'half' contains NaN"),
        ("half", nested(129), "CONTRACT_VIOLATION", "checkpoint 'half' is nested more than 128 levels deep"),
        ("half", "a\0b", "PAYLOAD_REFUSED", "checkpoint 'half' contains a NUL character"),
        ("half", "x" * 4_194_303, "PAYLOAD_REFUSED", "checkpoint 'half' has 4,194,305 bytes; at most 4,194,304"),
        ("", 1, "CONTRACT_VIOLATION", "a checkpoint needs a name of 1 to 200 bytes"),
        ("x" * 201, 1, "CONTRACT_VIOLATION", "a checkpoint needs a name of 1 to 200 bytes"),
        ("a\0b", 1, "CONTRACT_VIOLATION", "holds a NUL character"),
    ],
)
async def test_a_checkpoint_that_cannot_be_stored_fails_its_attempt_for_good(
    kind: str, name: str, value: Any, code: str, message: str
) -> None:
    def plain(*, ctx: Context) -> None:
        ctx.checkpoint(name, value)

    async def asynchronous(*, ctx: AsyncContext) -> None:
        await ctx.checkpoint(name, value)

    desk = bench(asynchronous if kind == "async" else plain)
    data = data_of(await desk.result())
    assert (data["code"], data["class"], desk.checkpoints) == (code, "permanent", [])
    assert message in data["message"]


async def test_a_checkpoint_may_have_four_mebibytes() -> None:
    def saves(*, ctx: Context) -> None:
        ctx.checkpoint("half", "x" * 4_194_302)

    desk = bench(saves)
    assert output(await desk.result()) is None
    assert len(desk.checkpoints) == 1


async def test_progress_is_bounded_and_has_numbers() -> None:
    def goes_on(*, ctx: Context) -> Any:
        ctx.progress(1, 2, "x" * 50_000)
        return ctx._attempt.progress

    def is_lost(*, ctx: Context) -> None:
        ctx.progress(float("nan"), 2)

    def reads(*, ctx: Context) -> Any:
        ctx.progress(1, 2, b"caf\xe9\0".decode("utf-8", "surrogateescape"))
        return ctx._attempt.progress

    text = output(await bench(goes_on).result())["text"]
    assert (len(text), text[-1]) == (1000, "…")
    assert output(await bench(reads).result())["text"] == "caf?"
    data = data_of(await bench(is_lost).result())
    assert (data["code"], data["class"]) == ("CONTRACT_VIOLATION", "permanent")
    assert data["message"] == "the progress contains NaN or an infinity, which JSON does not have"


@pytest.mark.parametrize("value", ["a\0b", {"a\0": 1}, ["\\\0"]])
async def test_a_nul_character_in_the_output_is_refused(value: Any) -> None:
    async def give() -> Any:
        return value

    data = data_of(await bench(give).result())
    assert (data["code"], data["class"]) == ("PAYLOAD_REFUSED", "permanent")


async def test_a_nul_character_in_what_a_result_tells_is_refused() -> None:
    async def give() -> Result:
        return Result(1, warnings=("a\0b",))

    assert data_of(await bench(give).result())["code"] == "PAYLOAD_REFUSED"


async def test_an_output_that_is_too_large_is_refused() -> None:
    async def large(size: int) -> str:
        return "x" * size

    assert output(await bench(large, limit_bytes=100).result({"size": 98})) == "x" * 98
    data = data_of(await bench(large, limit_bytes=100).result({"size": 99}))
    assert (data["code"], data["class"]) == ("PAYLOAD_REFUSED", "permanent")
    assert "101 bytes; at most 100" in data["message"]


@pytest.mark.parametrize("text", ["a\0b", "bad \ud800 surrogate"])
async def test_what_postgres_cannot_store_is_left_out_of_failures_and_logs(
    text: str, captured: Callable[[], None]
) -> None:
    captured()

    def prints() -> str:
        print(text)
        return "fine"

    def fails() -> None:
        print(text)
        raise Permanent(text, code=text)

    printed, failed = await bench(prints).result(), await bench(fails).result()
    assert output(printed) == "fine"
    for report in (printed, failed):
        assert report.data is not None
        assert b"\\u0000" not in report.data
        assert data_of(report)["log"]
    assert failed.outcome == "failed"


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


class _Unreadable(Exception):
    @property
    def response(self) -> Any:
        raise KeyError("no response")

    @property
    def returncode(self) -> Any:
        raise KeyError("no code")


class _Large(Exception):
    returncode = 10**30


class _Unmade(Permanent):
    def __init__(self) -> None:
        pass


class _Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit(0)


class _Classless(Permanent):
    failure_class = object()  # type: ignore[assignment]


ODD = [
    (_Unreadable("x"), {"code": "HANDLER_ERROR", "message": "_Unreadable: x"}),
    (_Large("x"), {"code": "HANDLER_ERROR", "message": "_Large: x"}),
    (_Unmade(), {"code": "HANDLER_ERROR", "message": "no message", "class": "permanent"}),
    (_Mute(), {"code": "HANDLER_ERROR", "message": "_Mute"}),
    (_Classless("x"), {"code": "HANDLER_ERROR", "message": "x"}),
    (Permanent("x", code=["A", "B"]), {"code": "['A', 'B']", "message": "x", "class": "permanent"}),  # type: ignore[arg-type]
    (Permanent("x", code="C" * 100_000), {"code": "C" * 99 + "…", "message": "x", "class": "permanent"}),
    (Permanent("x", code="TWO\nLINES\r\n"), {"code": "TWO LINES", "message": "x", "class": "permanent"}),
    (Permanent("x", code="\n"), {"code": "HANDLER_ERROR", "message": "x", "class": "permanent"}),
    (
        DependencyDown("a\0b"),
        {"code": "DEPENDENCY_DOWN", "message": "ab is down", "class": "transient", "down": "ab"},
    ),
    (RetryAfter(float("inf"), "x"), {"message": "x", "retry_after_seconds": 366 * 86_400.0}),
    (RetryAfter([], "x"), {"message": "x", "retry_after_seconds": None}),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize(("error", "wanted"), ODD, ids=[type(odd[0]).__name__ + str(n) for n, odd in enumerate(ODD)])
async def test_what_an_exception_says_of_itself_is_checked_too(
    kind: str, error: Exception, wanted: dict[str, Any]
) -> None:
    def plain() -> None:
        raise error

    async def asynchronous() -> None:
        raise error

    report = await bench(asynchronous if kind == "async" else plain).result()
    data = data_of(report)
    assert report.outcome == "failed"
    assert {key: data.get(key) for key in wanted} == wanted
    assert "exit_code" not in data


async def test_a_message_without_end_is_cut_and_says_so() -> None:
    def crashes() -> None:
        raise ValueError("x" * 5_000_000)

    def tells() -> None:
        raise Permanent("x" * 5_000_000)

    for function in (crashes, tells):
        report = await bench(function).result()
        assert report.data is not None
        assert len(report.data) < 100_000
        assert "x… (cut off: it has 5,000,0" in data_of(report)["message"]


async def test_only_text_can_be_printed(captured: Callable[[], None]) -> None:
    captured()

    def prints() -> None:
        sys.stdout.write(b"bytes")  # type: ignore[arg-type]

    data = data_of(await bench(prints).result())
    assert data["message"].startswith("TypeError: ")


# Codes that an app declares

NOT_PDF = ErrorCode("NOT_PDF", FailureClass.PERMANENT, "The file is not a PDF.")
UPSTREAM_DOWN = ErrorCode("UPSTREAM_DOWN", FailureClass.TRANSIENT, "The gateway is down.", public="GW_5XX")


@pytest.mark.parametrize(
    ("failure", "data"),
    [
        (NOT_PDF(), {"code": "NOT_PDF", "message": "The file is not a PDF.", "declared_class": "permanent"}),
        (NOT_PDF("it is a GIF"), {"code": "NOT_PDF", "message": "it is a GIF", "declared_class": "permanent"}),
        (
            Transient("try later", code="NOT_PDF"),
            {"code": "NOT_PDF", "message": "try later", "class": "transient", "declared_class": "permanent"},
        ),
    ],
)
async def test_a_declared_code_brings_its_class(failure: Exception, data: dict[str, Any]) -> None:
    async def fails() -> None:
        raise failure

    assert data_of(await bench(fails, codes=[NOT_PDF]).result()) == data


async def test_a_nuance_is_seen_under_its_public_code_and_kept_for_operators() -> None:
    async def fails() -> None:
        raise UPSTREAM_DOWN("10.0.0.7 refused")

    data = data_of(await bench(fails, codes=[UPSTREAM_DOWN]).result())
    assert (data["code"], data["declared_class"]) == ("GW_5XX", "transient")
    assert data["log"] == "UPSTREAM_DOWN, seen by others as GW_5XX: 10.0.0.7 refused\n"


async def test_the_exit_code_of_a_command_is_reported() -> None:
    def fails() -> None:
        subprocess.run([sys.executable, "-c", "raise SystemExit(183)"], check=True)

    assert data_of(await bench(fails).result())["exit_code"] == 183


async def test_the_exit_code_of_sys_exit_is_as_a_shell_tells_it() -> None:
    def leaves(status: int) -> None:
        sys.exit(status)

    assert [data_of(await bench(leaves).result({"status": n}))["exit_code"] for n in (0, 255, 256 + 3, -1)] == [
        0,
        255,
        3,
        255,
    ]
