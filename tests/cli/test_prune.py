"""`holdfast prune`: what would go, what went, and what a prune that was killed has left to the next."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
import typer

from tests.cli.conftest import Command, finished, spawn

LARGE = """
workflow_id: large
nodes:
  make: {handler: echo, params: {text: "{{ inputs.text }}"}, next: use}
  use: {handler: echo, params: {text: "{{ nodes.make.output.echoed_params.text }}"}}
inputs: {text: {type: string}}
"""


def query(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def age(url: str, days: int) -> None:
    query(url, f"update jobs set started_at = null, finished_at = finished_at - interval '{days} days'")


@pytest.fixture
def old_job(database: Command, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A job with large values that ended 40 days ago."""
    monkeypatch.setenv("HOLDFAST_PAYLOAD_INLINE_BYTES", "100")
    (tmp_path / "large.yaml").write_text(LARGE)
    job_id = str(database("run", "large.yaml", "--input", f"text={'x' * 1000}", "--json").json["job_id"])
    age(database_url, 40)
    return job_id


def objects(tmp_path: Path) -> list[str]:
    return [place.name for place in (tmp_path / ".holdfast/payloads").iterdir()]


def rows_left(url: str) -> int:
    tables = ("jobs", "nodes", "tasks", "events", "payloads", "attempts", "checkpoints", "artifacts", "discarded")
    return sum(int(str(query(url, f"select count(*) from {table}")[0][0])) for table in tables)


def test_a_dry_run_shows_what_goes_and_yes_deletes_it(
    database: Command, database_url: str, tmp_path: Path, old_job: str
) -> None:
    young = database("run", "flow.yaml", "--json").json["job_id"]
    looked = database("prune", "--dry-run", "--json").json
    assert list(looked) == ["dry_run", "jobs", "tasks", "bytes", "pruned", "oldest_left", "leftovers"]
    assert (looked["dry_run"], looked["jobs"], looked["tasks"], looked["leftovers"]) == (True, 1, 2, 0)
    (row,) = looked["pruned"]
    assert list(row) == ["workflow_id", "status", "jobs", "tasks", "bytes", "oldest"]
    stored = sum(file.stat().st_size for file in (tmp_path / ".holdfast/payloads" / old_job).iterdir())
    assert (row["workflow_id"], row["status"], row["bytes"]) == ("large", "completed", stored)
    assert looked["oldest_left"]["job_id"] == young
    shown = database("prune", "--dry-run", "--status", "completed")
    assert shown.out.splitlines()[0].split() == ["workflow", "status", "jobs", "tasks", "payloads", "oldest"]
    assert "1 job, 2 tasks and " in shown.out and f"job {young} of flow" in shown.out
    assert "holdfast prune --older-than 30d --status completed --yes" in shown.err
    assert old_job in objects(tmp_path)
    done = database("prune", "--yes")
    assert done.code == 0 and " of payloads deleted.\n" in done.out and f"job {young} of flow" in done.out
    assert old_job not in objects(tmp_path)
    assert database("status", old_job).code == 5
    assert database("prune", "--yes").out.startswith("There is nothing to prune: no finished job is that old.\n")
    assert database("prune", "--older-than", "0s", "--yes", "--json").json["oldest_left"] is None
    assert rows_left(database_url) == 0


@pytest.mark.parametrize("statuses", [["failed"], ["partial", "cancelled"]])
def test_only_jobs_that_ended_as_asked_for_go(database: Command, old_job: str, statuses: list[str]) -> None:
    flags = [word for status in statuses for word in ("--status", status)]
    assert database("prune", *flags, "--yes", "--json").json["jobs"] == 0
    assert database("prune", *flags, "--status", "completed", "--yes", "--json").json["jobs"] == 1


def test_without_a_terminal_and_yes_nothing_is_deleted(database: Command, old_job: str) -> None:
    answer = database("prune")
    assert (answer.code, answer.out) == (4, "")
    assert "--dry-run" in answer.err and "--yes" in answer.err
    assert database("status", old_job).code == 0


def test_on_a_terminal_it_shows_what_goes_and_asks(
    database: Command, old_job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answers(reply: bool) -> None:
        def confirm(text: str, **options: Any) -> bool:
            asked.append(text)
            return reply

        monkeypatch.setattr(typer, "confirm", confirm)

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    answers(False)
    refused = database("prune")
    assert (refused.code, refused.out) == (4, "")
    assert "large" in refused.err and "nothing was pruned." in refused.err
    assert database("status", old_job).code == 0
    answers(True)
    assert database("prune", "--json").json["jobs"] == 1
    assert len(asked) == 2 and asked[0].startswith("Delete 1 job, 2 tasks and ")
    assert database("prune").code == 0
    assert len(asked) == 2, "where nothing goes, there is nothing to ask"


@pytest.mark.parametrize("point", ["prune.after_commit", "prune.after_objects"])
def test_what_a_killed_prune_left_is_finished_by_the_next(
    database: Command, database_url: str, tmp_path: Path, old_job: str, point: str
) -> None:
    killed = spawn("prune", "--yes", HOLDFAST_DATABASE_URL=database_url, HOLDFAST_FAILPOINT=f"{point}:kill")
    assert finished(killed).code == -9
    assert query(database_url, "select job_id::text from discarded") == [(old_job,)]
    assert (old_job in objects(tmp_path)) == (point == "prune.after_commit")
    assert rows_left(database_url) == 1, "the line that says so"
    assert database("prune", "--dry-run", "--json").json["leftovers"] == 1
    second = database("prune", "--yes", "--json").json
    assert (second["jobs"], second["leftovers"]) == (0, 0)
    assert rows_left(database_url) == 0
    assert objects(tmp_path) == []


def test_without_a_database_nothing_is_set_up(command: Command, tmp_path: Path) -> None:
    assert command("prune").out == "There is no database yet, so there is nothing to prune.\n"
    assert command("prune", "--dry-run", "--json").json["pruned"] == []
    assert not (tmp_path / ".holdfast").exists()
