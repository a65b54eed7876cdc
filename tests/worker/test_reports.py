"""The report of an attempt: what the handler returned, and how it failed."""

from __future__ import annotations

import subprocess
import sys
from enum import Enum
from typing import Any

import pytest

from holdfast.define.registry import Result
from holdfast.errors import DependencyDown, ErrorCode, FailureClass, InvalidInput, Permanent, RetryAfter, Transient
from tests.worker.attempts import JOB_ID, bench, data_of, output

pytestmark = pytest.mark.anyio


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


async def test_an_exception_without_a_message_is_named_by_its_type() -> None:
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
    assert (data["message"].split(" (")[0], data["code"]) == ("{'not': 'text'}", "E404")


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


class _TextEnum(str, Enum):  # noqa: UP042
    GONE = "GONE"


class _Bare:
    """Neither a text nor true or false, like an array of numpy."""

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")

    def __str__(self) -> str:
        raise SystemExit(0)


RULE = "a code has at most 64 characters, like NOT_READY: A-Z, 0-9 and '_'"

ODD_CODES: list[tuple[Any, str, str]] = [
    (["A", "B"], "A_B", "\"['A', 'B']\""),
    (404, "E404", "'404'"),
    (0, "E0", "'0'"),
    ("not.found", "NOT_FOUND", "'not.found'"),
    ("TWO\nLINES\r\n", "TWO_LINES", "'TWO\\nLINES\\r\\n'"),
    ("N\0UL", "N_UL", "'N\\x00UL'"),
    ("💥", "HANDLER_ERROR", "'💥'"),
    ("\n", "HANDLER_ERROR", "'\\n'"),
    ("\ud800", "HANDLER_ERROR", "'\\ud800'"),
    ("straße", "STRASSE", "'straße'"),
    ("C" * 65, "C" * 64, repr("C" * 65)),
    ("c" * 10_000, "C" * 64, f"'{'c' * 98}…"),
    (_Bare(), "HANDLER_ERROR", "of type _Bare"),
]
ODD: list[tuple[BaseException, dict[str, Any]]] = [
    (_Unreadable("x"), {"code": "HANDLER_ERROR", "message": "_Unreadable: x"}),
    (_Large("x"), {"code": "HANDLER_ERROR", "message": "_Large: x"}),
    (_Unmade(), {"code": "HANDLER_ERROR", "message": "no message", "class": "permanent"}),
    (_Mute(), {"code": "HANDLER_ERROR", "message": "_Mute"}),
    (_Classless("x"), {"code": "HANDLER_ERROR", "message": "x"}),
    (Permanent("x", code=""), {"code": "HANDLER_ERROR", "message": "x", "class": "permanent"}),
    (Permanent("x", code=_TextEnum.GONE), {"code": "GONE", "message": "x", "class": "permanent"}),
    (Permanent("x", code="C" * 64), {"code": "C" * 64, "message": "x", "class": "permanent"}),
    *(
        (
            Permanent("x", code=code),
            {"code": becomes, "message": f"x (its code {shown} is not valid: {RULE})", "class": "permanent"},
        )
        for code, becomes, shown in ODD_CODES
    ),
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


async def test_a_very_long_message_is_cut_and_says_so() -> None:
    def crashes() -> None:
        raise ValueError("x" * 5_000_000)

    def tells() -> None:
        raise Permanent("x" * 5_000_000)

    for function in (crashes, tells):
        report = await bench(function).result()
        assert report.data is not None
        assert len(report.data) < 100_000
        assert "x… (cut off: it has 5,000,0" in data_of(report)["message"]


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


@pytest.mark.parametrize("name", ["", "a", "1A", "A B", "A\n", "A\0", "💥", "A" * 65, "A" * 10_000, 7, None, ["A"]])
def test_a_code_that_breaks_the_rule_cannot_be_declared(name: Any) -> None:
    with pytest.raises(InvalidInput, match="is not a code") as refused:
        ErrorCode(name, FailureClass.PERMANENT, "x")
    assert len(refused.value.message) < 200
    if name is not None:
        with pytest.raises(InvalidInput, match="is not a code"):
            ErrorCode("FINE", FailureClass.PERMANENT, "x", public=name)
    assert ErrorCode("A" * 64, FailureClass.PERMANENT, "x").public_code == "A" * 64


async def test_a_code_is_shown_as_its_public_code_and_logged_for_operators() -> None:
    async def fails() -> None:
        raise UPSTREAM_DOWN("10.0.0.7 refused")

    data = data_of(await bench(fails, codes=[UPSTREAM_DOWN]).result())
    assert (data["code"], data["declared_class"]) == ("GW_5XX", "transient")
    assert data["log"] == "UPSTREAM_DOWN, seen by others as GW_5XX: 10.0.0.7 refused\n"


async def test_the_exit_code_of_a_command_is_reported() -> None:
    def fails() -> None:
        subprocess.run([sys.executable, "-c", "raise SystemExit(183)"], check=True)

    assert data_of(await bench(fails).result())["exit_code"] == 183


async def test_the_exit_code_of_sys_exit_is_as_a_shell_shows_it() -> None:
    def leaves(status: int) -> None:
        sys.exit(status)

    assert [data_of(await bench(leaves).result({"status": n}))["exit_code"] for n in (0, 255, 256 + 3, -1)] == [
        0,
        255,
        3,
        255,
    ]
