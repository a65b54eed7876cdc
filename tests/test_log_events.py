"""The lines of services: each has a known name and known fields, and trouble that lasts does not fill the log."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.events import END_OF_JOB
from holdfast.log_events import EVENTS, EventLog, LastingTrouble, Line

SOURCE = Path(holdfast.__file__).parent


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call of `….write(…)` on a log, with its place."""
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "write":
                owner = node.func.value
                if (isinstance(owner, ast.Name) and owner.id == "log") or ast.unparse(owner) == "self._log":
                    yield f"{file.name}:{node.lineno}", node


def names_in(file: Path) -> set[str]:
    return {
        node.value
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_line_has_a_listed_name_and_listed_fields() -> None:
    lines = list(calls())
    assert len(lines) > 20
    for place, call in lines:
        if not isinstance(call.args[0], ast.Constant):
            continue
        event = EVENTS[str(call.args[0].value)]
        fields = {keyword.arg for keyword in call.keywords if keyword.arg not in (None, "error", "level")}
        assert fields <= set(event.fields), place


def test_every_listed_name_is_used() -> None:
    used = {str(name) for name in END_OF_JOB.values()}
    for file in SOURCE.rglob("*.py"):
        if file.name != "log_events.py":
            used |= names_in(file)
    assert EVENTS.keys() <= used


def test_a_line_has_a_readable_text_and_leaves_out_fields_without_a_value(caplog: pytest.LogCaptureFixture) -> None:
    EventLog("holdfast.test").write("job_set_aside", reason="a row is locked", job="j1", seconds=None)
    (record,) = caplog.records
    assert record.getMessage() == "job_set_aside: a row is locked (job=j1)"
    assert record.levelno == logging.WARNING


def test_a_line_with_an_error_has_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("odd")
    except ValueError as problem:
        EventLog("holdfast.test").write("job_set_aside", error=problem, job="j1")
    assert caplog.records[0].levelno == logging.ERROR
    assert "ValueError: odd" in caplog.text


def test_nothing_is_made_of_a_line_that_is_not_written(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog("holdfast.test")
    with caplog.at_level(logging.WARNING):
        assert not log.writes(logging.INFO)
        log.write("job_completed", job="j1")
    assert not caplog.records


def test_lasting_trouble_is_logged_when_it_begins_every_ten_seconds_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 100.0
    trouble = LastingTrouble(EventLog("holdfast.test"), "worker_retreats", "worker_recovered", clock=lambda: now)
    trouble.over()
    for _ in range(60):
        trouble.again("no route")
        now += 0.2
    trouble.over()
    trouble.over()
    assert fields(caplog) == [
        ("worker_retreats", {"reason": "no route"}),
        ("worker_retreats", {"reason": "no route", "count": 50}),
        ("worker_recovered", {"count": 60, "duration_ms": 12000}),
    ]
    caplog.clear()
    trouble.again("again")
    assert fields(caplog) == [("worker_retreats", {"reason": "again"})]


def fields(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    lines = [record.msg for record in caplog.records]
    return [(line.event, line.fields) for line in lines if isinstance(line, Line)]
