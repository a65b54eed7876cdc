"""`holdfast schedules`: what people type, and what they see."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Command

KEYS = [
    "name", "workflow_id", "cron", "every_seconds", "time_zone", "inputs", "overlap", "catch_up", "source", "next_runs",
    "waiting", "last_tick", "last_answer", "problem", "last_job", "last_job_status", "paused", "created_at",
    "created_by", "changed_at", "changed_by",
]  # fmt: skip


@pytest.fixture
def known(database: Command) -> Command:
    """A database that has the workflow `flow`."""
    database("register", "flow.yaml")
    return database


def test_a_schedule_is_added_listed_shown_paused_triggered_and_removed(known: Command) -> None:
    added = known("schedules", "add", "night", "flow", "--cron", "0 2 * * *", "--time-zone", "Africa/Kigali")
    assert added.code == 0
    first, *runs = added.out.splitlines()
    assert first == "Schedule night runs flow at '0 2 * * *' in Africa/Kigali."
    assert len(runs) == 5 and runs[0].startswith("Next ")
    assert all(re.fullmatch(r"(Next)? +\d{4}-\d\d-\d\d 02:00:00 CAT", run) for run in runs)
    assert "No orchestrator runs" in added.err
    listed = known("schedules").out
    assert re.search(r"^night +flow +0 2 \* \* \* +\d{4}-\d\d-\d\d 02:00:00 CAT", listed, re.M)
    assert known("schedules", "show", "night").out.splitlines()[1:2] == ["Overlap   skip; catch-up last"]
    triggered = known("schedules", "trigger", "night")
    job = re.search(r"has made job ([0-9a-f-]{36})", triggered.out)
    assert job is not None and "holdfast watch" in triggered.err
    assert job[1] in known("schedules", "show", "night").out
    paused = known("schedules", "pause", "night", "--reason", "maintenance")
    assert (paused.code, "holdfast schedules unpause night" in paused.err) == (0, True)
    shown = known("schedules", "show", "night")
    assert "maintenance" in shown.out and "Next" not in shown.out
    assert "ticks again" in known("schedules", "unpause", "night").out
    assert known("schedules", "remove", "night").out == "Schedule night is removed. Its jobs stay.\n"
    assert "There are no schedules." in known("schedules", "list").out


def test_the_answers_as_json(known: Command) -> None:
    made = known("schedules", "add", "s", "flow", "--every", "15m", "--input", "name=Ann", "--json").json
    assert list(made) == KEYS
    assert (made["every_seconds"], made["inputs"]) == (900, {"name": "Ann"})
    assert known("schedules", "show", "s", "--json").json == made
    assert known("schedules", "--json").json == {"schedules": [made]}
    triggered = known("schedules", "trigger", "s", "--json").json
    assert (list(triggered), triggered["answer"]) == (["schedule", "answer", "job_id"], "started")
    assert known("schedules", "pause", "s", "--json").json["schedule"]["paused"]["reason"] is None
    removed = known("schedules", "remove", "s", "--json").json
    assert (removed["verb"], removed["schedule"]["name"]) == ("remove", "s")


def test_inputs_come_from_a_file_too(known: Command) -> None:
    Path("inputs.json").write_text('{"name": "Bob"}')
    made = known("schedules", "add", "s", "flow", "--every", "1h", "--inputs", "inputs.json", "--json").json
    assert made["inputs"] == {"name": "Bob"}


def test_a_schedule_is_changed_only_if_that_is_meant(known: Command) -> None:
    known("schedules", "add", "s", "flow", "--every", "1h")
    again = known("schedules", "add", "s", "flow", "--every", "2h")
    assert (again.code, "--replace" in again.err) == (4, True)
    changed = known("schedules", "add", "s", "flow", "--every", "2h", "--overlap", "queue", "--replace", "--json").json
    assert (changed["every_seconds"], changed["overlap"]) == (7200, "queue")


def test_a_trigger_that_overlaps_is_refused_with_what_helps(known: Command) -> None:
    known("schedules", "add", "s", "flow", "--every", "1h")
    job_id = known("schedules", "trigger", "s", "--json").json["job_id"]
    refused = known("schedules", "trigger", "s")
    assert (refused.code, f"holdfast cancel {job_id}" in refused.err) == (4, True)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("add", 2, "needs the name"),
        ("add s", 2, "needs a workflow"),
        ("add s flow", 2, "needs times"),
        ("add s flow --cron '0 2 * *'", 2, "is not a cron expression"),
        ("add s flow --every soon", 2, "is not a duration"),
        ("add s flow --every 1h --time-zone Mars/Base", 2, "There is no time zone"),
        ("add s flow --every 1h --time-zone Africa/Kigali", 2, "An interval has no time zone"),
        ("add s flow --every 1h --cron '0 0 * * *'", 2, "one of the two"),
        ("add s nothing --every 1h", 5, "no workflow 'nothing'"),
        ("add s flow --every 1h --input nmae=1", 2, "nmae"),
        ("add s/t flow --every 1h", 2, "is not the name of a schedule"),
        ("show", 2, "needs the name"),
        ("pause nothing", 5, "There is no schedule 'nothing'"),
        ("start s", 2, "start"),
    ],
)
def test_what_is_wrong_is_said(known: Command, words: str, code: int, says: str) -> None:
    answer = known("schedules", *shlex.split(words))
    assert (answer.code, says in answer.err) == (code, True), answer.err


def test_a_problem_is_shown(known: Command) -> None:
    known("schedules", "add", "s", "flow", "--every", "1h")
    Path("flow.yaml").write_text(Path("flow.yaml").read_text().replace("  name:", "  day: {required: true}\n  name:"))
    known("register", "flow.yaml")
    refused = known("schedules", "trigger", "s")
    assert (refused.code, "day" in refused.err) == (2, True)
