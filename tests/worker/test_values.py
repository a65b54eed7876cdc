"""What can be stored: outputs, checkpoints, names, progress and messages are checked before they leave the worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy
import pytest

from holdfast.define.registry import Result
from holdfast.errors import Permanent
from holdfast.worker.context import AsyncContext, Context
from tests.worker.attempts import bench, data_of, output

pytestmark = pytest.mark.anyio


async def test_an_output_that_is_not_json_is_permanent() -> None:
    async def gives_an_object() -> object:
        return object()

    async def gives_a_surrogate() -> str:
        return "\ud800"

    for function, fault in (
        (gives_an_object, "is of the type object, which JSON does not have"),
        (gives_a_surrogate, "contains half of a surrogate pair"),
    ):
        data = data_of(await bench(function).result())
        assert (data["code"], data["class"]) == ("CONTRACT_VIOLATION", "permanent")
        assert f"cannot be stored: output {fault}" in data["message"]


@pytest.mark.parametrize(
    "extra", [{"metrics": {"x": object()}}, {"deliverables": {"a": {1, 2}}}, {"warnings": (b"x",)}]
)
async def test_the_other_fields_of_a_result_must_be_json_too(extra: dict[str, Any]) -> None:
    async def give() -> Result:
        return Result(1, **extra)

    data = data_of(await bench(give).result())
    assert (data["code"], data["class"]) == ("CONTRACT_VIOLATION", "permanent")


class Moody(Enum):
    ONE = 1

    @property
    def value(self) -> int:
        raise ZeroDivisionError("not today")


class Colour(Enum):
    RED = "red"


class Word(str):
    pass


@dataclass
class Row:
    name: str
    file: Path
    price: float = 0.0


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
    """A value that is small in memory and larger than any disk as JSON."""
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
    ("metrics", lambda: Result(1, metrics={"a": float("inf")}), CONTRACT, "cannot be stored: metrics.a is infinite"),
    ("nan", lambda: float("nan"), CONTRACT, "cannot be stored: output is NaN, which JSON does not have"),
    ("infinity", lambda: {"a": [1, -float("inf")]}, CONTRACT, "cannot be stored: output.a[1] is infinite"),
    ("row", lambda: {"rows": [{"price": 1.0}, {"price": float("nan")}]}, CONTRACT, "output.rows[1].price is NaN"),
    ("decimal", lambda: [Decimal("NaN")], CONTRACT, "output[0] is NaN"),
    ("set", lambda: {"tags": {"a"}}, CONTRACT, "output.tags is of the type set, which JSON does not have; use a list"),
    ("bytes", lambda: [b"x"], CONTRACT, "output[0] is of the type bytes, which JSON does not have; use text"),
    ("array", lambda: {"a": numpy.zeros(2)}, CONTRACT, "output.a is of the type numpy.ndarray"),
    ("complex", lambda: {"a": numpy.complex128(1j)}, CONTRACT, "output.a is of the type complex"),
    ("naive", lambda: {"at": datetime(2026, 1, 1)}, CONTRACT, "output.at is a datetime without a time zone"),  # noqa: DTZ001
    ("key", lambda: {"a": {3: 1}}, CONTRACT, "output.a has the key 3, which is not text"),
    ("large", lambda: {"a": [2**64]}, CONTRACT, "output.a[0] does not fit into 64 bits"),
    ("inside", lambda: [Row("a", Path("x"), float("inf"))], CONTRACT, "output[0].price is infinite"),
    ("deep", lambda: nested(129), CONTRACT, "is nested more than 128 levels deep"),
    ("itself", itself, CONTRACT, "is nested more than 128 levels deep"),
    ("laughs", laughs, "PAYLOAD_REFUSED", "has far more than 16,777,216 bytes"),
    ("enum", lambda: [Moody.ONE], CONTRACT, "cannot be stored as JSON: ZeroDivisionError: not today"),
    ("zone", lambda: datetime(2026, 1, 1, tzinfo=Nowhere()), CONTRACT, "LookupError: no such zone"),
]  # fmt: skip


CONVERTED = [
    (numpy.float32(1.5), 1.5),
    (numpy.float64(1.5), 1.5),
    ({"n": numpy.int64(3), "b": numpy.bool_(True)}, {"n": 3, "b": True}),
    (Decimal("1.10"), "1.10"),
    (Path("a/b"), "a/b"),
    (date(2026, 1, 2), "2026-01-02"),
    (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00+00:00"),
    (Row("a", Path("x"), 2.0), {"name": "a", "file": "x", "price": 2.0}),
    ({"rows": (Row("a", Path("x")), Colour.RED)}, {"rows": [{"name": "a", "file": "x", "price": 0.0}, "red"]}),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ({Colour.RED: Word("text")}, {"red": "text"}),
]


@pytest.mark.parametrize(("value", "stored"), CONVERTED, ids=[str(value)[:30] for value, _ in CONVERTED])
async def test_values_of_python_are_stored_as_their_json(value: Any, stored: Any) -> None:
    def gives() -> Any:
        return value

    def saves(*, ctx: Context) -> None:
        ctx.progress(numpy.float64(1), 2)
        ctx.checkpoint("half", value)

    def measures() -> Result:
        return Result(1, metrics={"value": value})

    assert output(await bench(gives).result()) == stored
    assert data_of(await bench(measures).result())["extra"]["metrics"] == {"value": stored}
    desk = bench(saves)
    assert output(await desk.result()) is None
    assert desk.checkpoints[0][-1] == stored


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
        ("half", float("nan"), "CONTRACT_VIOLATION", "checkpoint 'half' cannot be stored: data is NaN"),
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
    assert data["message"] == "the progress cannot be stored: progress.done is NaN, which JSON does not have"


@pytest.mark.parametrize("value", ["a\0b", {"a\0": 1}, ["\\\0"]])
async def test_a_nul_character_in_the_output_is_refused(value: Any) -> None:
    async def give() -> Any:
        return value

    data = data_of(await bench(give).result())
    assert (data["code"], data["class"]) == ("PAYLOAD_REFUSED", "permanent")


async def test_a_nul_character_in_another_field_of_a_result_is_refused() -> None:
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
