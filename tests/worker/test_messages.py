"""What a handler's process sends to its worker: records, progress and reports, honest or not."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from holdfast.worker.frames import LENGTH
from tests.worker.attempts import data_of, output
from tests.worker.desk import Desk

pytestmark = pytest.mark.anyio


async def test_log_lines_go_to_the_attempt_and_records_to_the_worker(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        report = await desk.result("logs")
    assert data_of(report)["log"].splitlines() == ["half way done=3", "WARNING to the worker 7"]
    assert [(r.name, r.getMessage()) for r in caplog.records] == [("holdfast.handler.logs", "to the worker 7")]


async def test_a_very_long_log_record_is_cut_before_it_is_sent(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert output(await desk.result("logs_without_end")) is None
    (record,) = caplog.records
    assert record.getMessage().endswith("x… (cut off: it has 5,000,000 characters)")
    assert len(record.getMessage()) < 66_000


# What only a hostile process says


def framed(body: bytes, after: bytes = b"") -> str:
    return (LENGTH.pack(len(body)) + body + after).hex()


def report_of(data: Any = None, outcome: Any = "done", output: bytes | None = b"1", **more: Any) -> str:
    size = len(output) if output is not None else None
    report = {"outcome": outcome, "data": {} if data is None else data, "output_bytes": size} | more
    return framed(json.dumps({"report": report, "is_fit": True}).encode(), output or b"")


DIGEST = "0" * 64
HOSTILE = {
    "a list": framed(b"[1]"),
    "null": framed(b"null"),
    "a number": framed(b"5"),
    "an empty map": framed(b"{}"),
    "no JSON": framed(b"\xff\xfe"),
    "no text at all": framed(b""),
    "very deep": framed(b"[" * 100_000),
    "an unknown word": framed(b'{"please": 1}'),
    "a report of 5": framed(b'{"report": 5}'),
    "no report": framed(b'{"report": null, "is_fit": true}'),
    "an unknown outcome": report_of(outcome="splendid"),
    "a death": report_of(outcome="lost"),
    "given back unasked": report_of(outcome="given_back"),
    "data that is no map": report_of(data=[1]),
    "unknown data": report_of(data={"owner": 7}),
    "no output": report_of(output=None),
    "an output that is no JSON": report_of(output=b"{]"),
    "NaN": report_of(output=b"NaN"),
    "an output that is too deep": report_of(output=b"[" * 200 + b"]" * 200),
    "a negative size": report_of(output_bytes=-1),
    "an endless output": report_of(output_bytes=1_500_000_000),
    "an endless message": LENGTH.pack(1_500_000_000).hex(),
    "half an artifact": report_of(data={"artifacts": [{"name": "x"}]}),
    "an artifact by another name": report_of(data={"artifacts": [{"artifact": "a\0", "digest": DIGEST, "bytes": 1}]}),
    "an artifact with a long name": report_of(
        data={"artifacts": [{"artifact": "ä" * 1000, "digest": DIGEST, "bytes": 1}]}
    ),
    "an odd exit code": report_of(data={"code": "A", "message": "b", "exit_code": 10**30}, outcome="failed"),
    "a time that never ends": report_of(data={"retry_after_seconds": 1e300}, outcome="failed"),
    "calls that are none": report_of(data={"calls": {"gateway": 5}}),
    "progress that is none": framed(b'{"progress": 5}'),
    "progress with a large number": framed(b'{"progress": {"done": 1e999, "total": 1, "text": ""}}'),
    "neither a question nor a report": framed(b'{"seq": 5}'),
    "a record that is none": framed(b'{"record": {"name": 5}}'),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the test finds the channel in /proc")
async def test_an_invalid_message_fails_its_attempt_and_nothing_else(desk: Desk) -> None:
    for name, raw in HOSTILE.items():
        report = await desk.result("speaks", {"raw": raw})
        data = data_of(report)
        assert (report.outcome, data["code"], data["class"]) == ("failed", "CONTRACT_VIOLATION", "permanent"), name
    assert output(await desk.result("add", {"a": 1})) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="the test finds the channel in /proc")
async def test_what_a_process_reports_is_cleaned_as_what_a_handler_raises(desk: Desk) -> None:
    sent = {"code": "A\0B\n" + "C" * 200, "message": "a\0b", "down": "x\0y"}
    data = data_of(await desk.result("speaks", {"raw": report_of(sent, "failed", None)}))
    message = data.pop("message")
    assert data == {"code": "A_B_" + "C" * 60, "down": "xy"}
    assert message.startswith("ab (its code 'A\\x00B\\nCCC") and "is not valid" in message
    for output_with_nul in (report_of(output=b'"a\\u0000b"'), report_of({"extra": EXTRA_WITH_NUL})):
        data = data_of(await desk.result("speaks", {"raw": output_with_nul}))
        assert (data["code"], data["class"]) == ("PAYLOAD_REFUSED", "permanent")


EXTRA_WITH_NUL = {"warnings": ["a\0b"], "deliverables": {}, "metrics": {}}
