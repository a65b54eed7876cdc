"""What services log: one line for each attempt and each job, with fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command, finished, line_that_has, spawn

HANDLERS = """
import logging
from pathlib import Path
from holdfast import Permanent, Transient, handler

@handler("fails")
def fails():
    raise Permanent("the gate https://ann:geheim@example.org is shut", "GATE_SHUT")

@handler("calls")
def calls():
    if Path("down").exists():
        raise Transient("no answer")

@handler("speaks")
def speaks(item):
    logging.getLogger("crm").warning("sent %s", item)
    return item
"""
BAD = "workflow_id: bad\nnodes: {a: {handler: fails}}\n"
SPEAKING = """
workflow_id: speaking
nodes:
  each: {type: fan_out, source: "{{ [4] }}", task: {handler: speaks, params: {item: "{{ item }}"}}}
"""


BEHIND = """
workflow_id: behind
breakers: {gateway: {window_calls: 1, min_calls: 1, cooldown_seconds: 0.1}}
nodes: {a: {handler: calls, breaker: gateway, retry: {initial_delay_seconds: 0.1}}}
"""


@pytest.fixture(autouse=True)
def files(in_a_directory_of_its_own: Path) -> None:
    Path("service_handlers.py").write_text(HANDLERS)
    Path("bad.yaml").write_text(BAD)
    Path("speaking.yaml").write_text(SPEAKING)


def up(**environment: str) -> Any:
    process = spawn("up", "--handlers", "service_handlers", PYTHONPATH=".", **environment)
    line_that_has(process.stderr, "up is running")
    return process


def lines_of(process: Any) -> list[dict[str, Any]]:
    process.terminate()
    err = finished(process).err
    return [json.loads(line) for line in err.splitlines() if line.startswith("{")]


def test_up_logs_how_each_attempt_and_each_job_ended(database: Command) -> None:
    serving = up(HOLDFAST_LOG_FORMAT="json")
    job = database("submit", "flow.yaml", "--wait", "--json").json["job_id"]
    failed = database("submit", "bad.yaml", "--wait", "--json").json["job_id"]
    lines = lines_of(serving)
    assert {line["level"] for line in lines} == {"info", "warning"}
    ended = [(line["event"], line["node"], line["attempt"]) for line in lines if line.get("handler") == "echo"]
    assert ("attempt_completed", "read", 1) in ended
    (done,) = [line for line in lines if line["event"] == "job_completed"]
    assert (done["job"], done["tenant"], done["level"]) == (job, "default", "info")
    assert done["duration_ms"] >= 0
    (attempt,) = [line for line in lines if line["event"] == "attempt_failed"]
    assert (attempt["job"], attempt["code"], attempt["level"]) == (failed, "GATE_SHUT", "warning")
    assert "geheim" not in json.dumps(lines)
    assert "https://ann:***@example.org" in attempt["reason"]
    (gone,) = [line for line in lines if line["event"] == "job_failed"]
    assert (gone["job"], gone["code"], gone["workflow"], gone["node"]) == (failed, "GATE_SHUT", "bad", "a")


def test_up_logs_starts_too_if_it_is_asked(database: Command) -> None:
    serving = up(HOLDFAST_LOG_FORMAT="json", HOLDFAST_LOG_LEVEL="debug")
    job = database("submit", "flow.yaml", "--wait", "--json").json["job_id"]
    started = [line["event"] for line in lines_of(serving) if line.get("job") == job and line["level"] == "debug"]
    assert {"attempt_started", "job_started"} == set(started)


def test_a_record_of_a_handler_names_its_attempt(database: Command) -> None:
    serving = up(HOLDFAST_LOG_FORMAT="json")
    job = database("submit", "speaking.yaml", "--wait", "--json").json["job_id"]
    (line,) = [line for line in lines_of(serving) if line["logger"] == "crm"]
    assert (line["message"], line["job"], line["node"], line["item"]) == ("sent 4", job, "each", 0)
    (shown,) = database("logs", job, "--json").lines
    assert shown["log"] == "WARNING crm: sent 4\n"


def test_the_text_form_has_the_same_fields(database: Command) -> None:
    serving = up(HOLDFAST_LOG_FORMAT="console")
    job = database("submit", "bad.yaml", "--wait", "--json").json["job_id"]
    serving.terminate()
    err = finished(serving).err
    (line,) = [line for line in err.splitlines() if "attempt_failed" in line]
    assert f"job={job} node=a attempt=1 handler=fails" in line
    assert "code=GATE_SHUT" in line
    assert "geheim" not in err


def test_up_logs_that_a_breaker_opened_and_closed_again(database: Command) -> None:
    Path("behind.yaml").write_text(BEHIND)
    Path("down").touch()
    serving = up(HOLDFAST_LOG_FORMAT="json")
    watching = spawn("submit", "behind.yaml", "--wait")
    opened = json.loads(line_that_has(serving.stderr, "breaker_opened"))
    assert (opened["breaker"], opened["tenant"], opened["level"]) == ("gateway", "default", "warning")
    Path("down").unlink()
    events = [json.loads(line_that_has(serving.stderr, name))["event"] for name in ("breaker_half_open", "closed")]
    assert events == ["breaker_half_open", "breaker_closed"]
    assert finished(watching).code == 0


@pytest.mark.parametrize("level", ["warning", "error"])
def test_a_higher_level_writes_less(database: Command, level: str) -> None:
    serving = up(HOLDFAST_LOG_FORMAT="json", HOLDFAST_LOG_LEVEL=level)
    database("submit", "flow.yaml", "--wait")
    database("submit", "bad.yaml", "--wait")
    events = [line["event"] for line in lines_of(serving)]
    assert events == (["attempt_failed", "job_failed"] if level == "warning" else [])


def test_run_shows_a_failed_job_in_its_own_way_only(database: Command) -> None:
    answer = finished(spawn("run", "bad.yaml", "--handlers", "service_handlers", PYTHONPATH="."))
    assert "GATE_SHUT" in answer.out + answer.err
    assert "attempt_failed" not in answer.err
    assert "job_failed" not in answer.err
