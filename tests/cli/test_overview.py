"""`workflows`, `register`, `stats` and `acknowledge`; `queues` is in `test_fleet.py`, with real workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command


def test_register_makes_a_file_known_by_its_id_without_a_job(database: Command, tmp_path: Path) -> None:
    assert "There are no workflows yet in the database" in database("workflows").out
    answer = database("register", "flow.yaml")
    assert answer.out == "Workflow flow, version 1, is registered.\n"
    assert "holdfast submit flow" in answer.err
    (tmp_path / "flow.yaml").write_text((tmp_path / "flow.yaml").read_text().replace("inputs:", "version: 2\ninputs:"))
    newer = database("register", "flow.yaml", "--json").json
    assert list(newer) == ["workflow_id", "version", "definition_hash", "registered_at", "answer"]
    assert "is the current one already" in database("register", "flow.yaml").out
    (listed,) = database("workflows", "--json").json["workflows"]
    assert (listed["version"], listed["registered_at"]) == ("2", newer["registered_at"])
    assert set(listed["jobs"].values()) == {0}
    assert database("submit", "flow", "--json").json["version"] == "2"
    line = database("workflows").out.splitlines()[1].split()
    assert (line[:2], line[-2:]) == (["flow", "2"], ["1", "pending"])
    assert database("workflows", "--tenant", "maps", "--json").json == {"workflows": []}


def test_only_the_first_submission_and_register_decide_what_an_id_stands_for(database: Command, tmp_path: Path) -> None:
    first = (tmp_path / "flow.yaml").read_text()
    database("submit", "flow.yaml")
    (tmp_path / "flow.yaml").write_text(first.replace("inputs:", "version: 2\ninputs:"))
    assert database("submit", "flow.yaml", "--key", "b", "--json").json["version"] == "2"
    assert database("submit", "flow", "--key", "c", "--json").json["version"] == "1"
    assert [one["version"] for one in database("workflows", "--json").json["workflows"]] == ["1"]
    database("register", "flow.yaml")
    assert database("submit", "flow", "--key", "d", "--json").json["version"] == "2"
    (tmp_path / "flow.yaml").write_text(first)
    database("submit", "flow.yaml", "--key", "e")
    assert database("submit", "flow", "--key", "f", "--json").json["version"] == "2"
    assert database("submit", "flow.yaml", "--tenant", "maps", "--json").json["version"] == "1"
    assert database("submit", "flow", "--tenant", "maps", "--key", "g", "--json").json["version"] == "1"


def test_a_wrong_file_is_not_registered(command: Command, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("workflow_id: wrong\nnodes: {a: {type: odd}}\n")
    assert command("register", "wrong.yaml").code == 2
    assert not (tmp_path / ".holdfast").exists()


def test_stats_count_the_jobs_and_name_those_that_ask_for_a_person(database: Command) -> None:
    database("run", "flow.yaml")
    failed = database("run", "failing.yaml", "--json").json["job_id"]
    numbers = database("stats", "--json").json
    assert list(numbers) == ["jobs", "workflows", "queued", "running", "hours"]
    assert (numbers["jobs"]["completed"], numbers["jobs"]["failed"], len(numbers["hours"])) == (1, 1, 24)
    answer = database("stats")
    assert "Jobs   1 completed, 1 failed\nTasks  0 queued, 0 running\n" in answer.out
    assert answer.out.splitlines()[-1].split() == ["24", "hours", "2", "1", "0", "1", "0"]
    assert "1 failed or partial job of these hours is not acknowledged." in answer.err
    database("acknowledge", failed)
    assert "acknowledged" not in database("stats").err


def test_an_acknowledged_job_says_who_has_seen_it_and_why(database: Command) -> None:
    failed = database("run", "failing.yaml", "--json").json["job_id"]
    answer = database("acknowledge", failed[-8:], "--reason", "known since monday")
    assert answer.code == 0 and f"Job {failed} is acknowledged by" in answer.out
    seen = database("acknowledge", "--last", "--reason", "known since monday", "--json").json
    assert seen["job_id"] == failed and list(seen["acknowledged"]) == ["by", "reason", "at"]
    assert "known since monday" in database("status", failed).out
    assert "✘ failed, acknowledged" in database("status").out
    assert database("status", "--unacknowledged", "--json").json["jobs"] == []
    completed = database("run", "flow.yaml", "--json").json["job_id"]
    refused = database("acknowledge", completed)
    assert refused.code == 4 and "it is completed" in refused.err


@pytest.mark.parametrize("name", ["workflows", "queues", "stats"])
def test_without_a_database_there_is_nothing_and_none_is_made(command: Command, name: str, tmp_path: Path) -> None:
    assert f"{tmp_path}/.holdfast has no database." in command(name).out
    assert command(name, "--json").code == 0
    assert not (tmp_path / ".holdfast").exists()
