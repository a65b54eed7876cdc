"""`holdfast cancel`: asking a job's owner to stop it."""

from __future__ import annotations

import sys

import psycopg
import pytest

from tests.cli.conftest import Command, finished, line_that_has, spawn


def test_without_an_orchestrator_the_command_drives_the_job_to_its_end(database: Command) -> None:
    job_id = database("submit", "slow.yaml", "--json").json["job_id"]
    answer = database("cancel", job_id, "--yes", "--reason", "too slow", "--json")
    assert answer.code == 0
    assert list(answer.json) == ["job_id", "verb", "signal_id", "answer", "status"]
    assert (answer.json["answer"], answer.json["status"]) == ("applied", "cancelled")
    status = database("status", job_id, "--json").json
    assert status["error"]["code"] == "CANCELLED"
    assert "too slow" in status["error"]["message"]
    assert database("watch", job_id).code == 7


def test_a_running_job_is_cancelled_by_its_owner(database: Command) -> None:
    process = spawn("run", "slow.yaml", HOLDFAST_GRACE_SECONDS="0.1")
    assert process.stderr is not None
    line_that_has(process.stderr, "nap: running")
    job_id = database("status", "--json").json["jobs"][0]["job_id"]
    assert database("cancel", job_id, "--yes").code == 0
    ended = finished(process)
    assert ended.code == 7
    assert "cancelled" in ended.out


def test_a_finished_job_cannot_be_cancelled(database: Command) -> None:
    job_id = database("run", "flow.yaml", "--json").json["job_id"]
    answer = database("cancel", job_id, "--yes")
    assert answer.code == 4
    assert "too late, it is already completed" in answer.err


def test_without_a_terminal_and_without_yes_nothing_is_done(database: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = database("submit", "slow.yaml", "--json").json["job_id"]
    answer = database("cancel", job_id)
    assert answer.code == 4
    assert "--yes" in answer.err
    assert database("status", job_id, "--json").json["status"] == "pending"


def test_on_a_terminal_a_no_leaves_the_job_alone(database: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = database("submit", "slow.yaml", "--json").json["job_id"]
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *question, **options: False)
    assert database("cancel", job_id).code == 4
    assert database("status", job_id, "--json").json["status"] == "pending"


def test_detach_only_records_the_signal_and_says_what_to_start(database: Command) -> None:
    job_id = database("submit", "slow.yaml", "--json").json["job_id"]
    answer = database("cancel", job_id, "--yes", "--detach")
    assert answer.code == 0
    assert "is recorded" in answer.out
    assert "holdfast up" in answer.err
    assert database("status", job_id, "--json").json["status"] == "pending"
    serving = spawn("up")
    assert database("watch", job_id).code == 7
    serving.terminate()
    assert finished(serving).code == 0


def test_a_job_whose_definition_cannot_be_read_is_left_to_those_who_can(database: Command, database_url: str) -> None:
    job_id = database("submit", "slow.yaml", "--json").json["job_id"]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update holdfast.workflows set definition = (definition::jsonb - 'has_result')::json")
    answer = database("cancel", job_id, "--yes")
    assert answer.code == 4
    assert "was not changed by cancel" in answer.err and "cannot be read by Holdfast" in answer.err
    assert "Another version wrote it" in answer.err
    recorded = database("cancel", job_id, "--yes", "--detach")
    assert recorded.code == 0
    assert "is recorded" in recorded.out and "cannot be read by Holdfast" in recorded.err
