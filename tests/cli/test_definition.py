"""`definition`, and how other commands show that a job was corrected."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import Command

GROUPS = """
workflow_id: groups
inputs:
  numbers: {type: array, default: [1, 2, 3]}
  title: {type: string, default: tital}
nodes:
  each: {type: fan_out, source: "{{ inputs.numbers }}", task: {handler: echo, params: {n: "{{ item }}"}}, next: last}
  last: {handler: echo, params: {title: "{{ inputs.title }}", word: one}}
"""


@pytest.fixture
def corrected(database: Command) -> str:
    """A job that completed, was corrected twice, and ran once more without a correction."""
    Path("groups.yaml").write_text(GROUPS)
    job = str(database("run", "groups.yaml", "--json").json["job_id"])
    yes = ("--stale", "rerun", "--yes", "--json")
    other = ("--input", "numbers=[1, 3, 4]", "--reason", "two is wrong")
    assert database("resume", job, *other, *yes).json["status"] == "completed"
    Path("groups.yaml").write_text(GROUPS.replace("word: one", "word: two"))
    assert database("resume", job, "--workflow", "groups.yaml", *yes).json["generation"] == 3
    assert database("rerun", job, "--from", "last", "--yes", "--json").json["generation"] == 4
    return job


def test_a_definition_is_shown_for_each_generation(database: Command, corrected: str) -> None:
    now = database("definition", corrected, "--json").json
    assert (now["generation"], now["since"], now["changes"], now["unreadable"]) == (4, 3, None, None)
    assert now["inputs"]["numbers"] == [1, 3, 4] and now["definition"]["workflow_id"] == "groups"
    (first, second) = now["corrections"]
    assert (first["generation"], first["reason"], first["changes"]) == (2, "two is wrong", ["inputs.numbers"])
    assert (second["generation"], second["reason"], second["changes"]) == (3, None, ["node last differs in params"])
    assert first["by"] and first["at"] < second["at"]

    of_two = database("definition", corrected, "--generation", "2", "--json").json
    assert of_two["changes"] == {
        "inputs": [{"name": "numbers", "change": "changed", "before": [1, 2, 3], "after": [1, 3, 4]}],
        "workflow": [],
        "lines": [],
    }
    of_one = database("definition", corrected, "--generation", "1", "--json").json
    assert (of_one["since"], of_one["changes"], of_one["inputs"]["numbers"]) == (1, None, [1, 2, 3])
    assert of_one["definition_hash"] == of_two["definition_hash"] != now["definition_hash"]
    words = [one["task"]["params"]["word"] for one in (of_one["definition"]["nodes"][1], now["definition"]["nodes"][1])]
    assert words == ["one", "two"]

    for generation in ("0", "5"):
        refused = database("definition", corrected, "--generation", generation, "--json")
        assert refused.code == 5 and "It has generations 1 to 4." in refused.problem["detail"]


def test_people_read_what_a_correction_changed_before_the_definition(database: Command, corrected: str) -> None:
    shown = database("definition", corrected, "--generation", "3").out
    changed, _, definition = shown.partition("\nDefinition\n")
    assert "  node last differs in params\n" in changed
    assert "-     word: one\n" in changed and "+     word: two\n" in changed
    assert "  workflow_id: groups\n" in definition and "        word: two\n" in definition
    shown = database("definition", corrected, "--generation", "2").out
    assert "  inputs.numbers: [1, 2, 3] → [1, 3, 4]\n" in shown and ": two is wrong\n" in shown
    assert "Corrections" not in shown
    now = database("definition", corrected)
    assert "Generation  4 (present), as since generation 3\n" in now.out and "Changed" not in now.out
    assert [line.split()[:2] for line in now.out.splitlines() if line.startswith("  generation")] == [
        ["generation", "2"],
        ["generation", "3"],
    ]
    assert f"definition {corrected[-8:]} --generation 3" in now.err


def test_a_job_that_was_never_corrected_follows_its_submission(database: Command) -> None:
    job = database("run", "failing.yaml", "--json").json["job_id"]
    shown = database("definition", job, "--json").json
    assert (shown["generation"], shown["since"], shown["corrections"], shown["changes"]) == (1, 1, [], None)
    assert database("status", job, "--json").json["corrected"] is None
    refused = database("definition", job, "--generation", "2")
    assert refused.code == 5 and "generation 1 alone" in refused.err


def test_a_definition_of_another_version_is_shown_as_it_is_stored(
    database: Command, corrected: str, database_url: str
) -> None:
    now = database("definition", corrected, "--json").json["definition_hash"]
    strange = json.dumps({"workflow_id": "groups", "form": "of the future"})
    with psycopg.connect(database_url, autocommit=True) as connection:
        statement = "update holdfast.workflows set definition = %s where definition_hash = %s"
        connection.execute(statement, [strange, now])
    shown = database("definition", corrected, "--generation", "3", "--json")
    assert shown.code == 0 and "cannot be read" in shown.json["unreadable"]
    assert shown.json["definition"] == json.loads(strange)
    assert shown.json["changes"]["workflow"] == ["this version cannot read both definitions"]
    people = database("definition", corrected)
    assert (people.code, '"form": "of the future"' in people.out) == (0, True)
    assert "cannot be read" in people.err and "Use that version or a newer one" in people.err


def test_status_tasks_and_events_show_a_correction(database: Command, corrected: str) -> None:
    status = database("status", corrected, "--json").json
    assert status["corrected"] == database("definition", corrected, "--json").json["corrections"][-1]
    card = database("status", corrected).out
    assert f"Corrected workflow (generation 3, by {status['corrected']['by']})" in card
    assert "3/3, 1 gone" in card

    tasks = database("tasks", corrected, "each", "--json").json["tasks"]
    assert [(one["index"], one["status"], one.get("gone")) for one in tasks] == [
        (0, "completed", None), (1, "skipped", True), (2, "completed", None), (3, "completed", None),
    ]  # fmt: skip
    (line,) = (line for line in database("tasks", corrected, "each").out.splitlines() if "skipped" in line)
    assert line.endswith("  gone")

    lines = database("events", corrected).out.splitlines()
    recovered = [line for line in lines if "job_recovered" in line]
    assert "corrected inputs.numbers, stale rerun," in recovered[0] and "reason two is wrong" in recovered[0]
    assert "corrected node last differs in params, stale rerun," in recovered[1]
    (skipped,) = (line for line in lines if "task_skipped" in line)
    assert skipped.endswith("items 1, count 1, their items are gone")


def test_a_card_names_the_inputs_and_the_reason_of_the_last_correction(database: Command) -> None:
    Path("groups.yaml").write_text(GROUPS)
    job = database("run", "groups.yaml", "--json").json["job_id"]
    Path("groups.yaml").write_text(GROUPS.replace("word: one", "word: two"))
    both = ("--input", "title=title", "--workflow", "groups.yaml", "--reason", "a typo")
    assert database("resume", job, *both, "--stale", "rerun", "--yes", "--json").code == 0
    card = database("status", job).out
    assert "Corrected inputs.title, workflow (generation 2, by " in card and ": a typo)" in card
