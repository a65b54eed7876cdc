"""`holdfast submit`: handing jobs in."""

from __future__ import annotations

import psycopg
import pytest

from tests.cli.conftest import Command, finished, spawn

KEYS = [
    "job_id", "answer", "status", "workflow_id", "version", "identity", "run", "result", "failed_stage",
    "completed_stages", "hint",
]  # fmt: skip


def test_the_same_submission_twice_is_one_job(database: Command) -> None:
    first, second = (database("submit", "flow.yaml", "--json").json for _ in range(2))
    assert list(first) == KEYS
    assert (first["answer"], second["answer"]) == ("created", "already_processing")
    assert first["job_id"] == second["job_id"]


def test_other_inputs_or_another_key_are_another_job(database: Command) -> None:
    ids = {
        database("submit", "flow.yaml", *flags, "--json").json["job_id"]
        for flags in ([], ["--input", "name=Ada"], ["--key", "one"], ["--key", "two"])
    }
    assert len(ids) == 4


def test_a_key_used_with_other_inputs_is_refused(database: Command) -> None:
    database("submit", "flow.yaml", "--key", "k")
    answer = database("submit", "flow.yaml", "--key", "k", "--input", "name=Ada")
    assert answer.code == 4
    assert "other inputs" in answer.err


def test_a_workflow_that_was_submitted_before_is_known_by_its_id(database: Command) -> None:
    database("submit", "flow.yaml")
    answer = database("submit", "flow", "--input", "name=Ada", "--json")
    assert answer.json["answer"] == "created"
    assert database("submit", "nobody_knows_it").code == 5


def test_without_an_orchestrator_it_is_recorded_and_says_what_to_start(database: Command) -> None:
    answer = database("submit", "flow.yaml")
    assert answer.code == 0
    assert "was created" in answer.out
    assert "holdfast up" in answer.err


@pytest.mark.parametrize(("file", "code"), [("flow.yaml", 0), ("failing.yaml", 1), ("half.yaml", 3)])
def test_wait_ends_with_the_status_object_and_the_jobs_exit_code(database: Command, file: str, code: int) -> None:
    serving = spawn("up")
    waited = finished(spawn("submit", file, "--wait", "--json"))
    serving.terminate()
    finished(serving)
    assert waited.code == code, waited.err
    assert waited.json["finished_at"] is not None
    again = database("submit", file, "--json").json["answer"]
    assert again == ("already_completed" if code == 0 else "previously_failed")


def test_tasks_of_a_higher_priority_are_taken_first(database: Command, database_url: str) -> None:
    for priority in ("-5", "7", "0"):
        assert database("submit", "flow.yaml", "--key", priority, "--priority", priority).code == 0
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select priority from holdfast.jobs order by priority desc").fetchall()
    assert rows == [(7,), (0,), (-5,)]
    assert database("submit", "flow.yaml", "--priority", "5000").code == 2
