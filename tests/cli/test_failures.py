"""The failures of many items, in `status`, `why` and `logs`: grouped, counted, and none left out in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]


def fan_out(words: list[str], tolerate: str = "") -> str:
    return f"""
workflow_id: words
nodes:
  each:
    type: fan_out
    source: "{{{{ {words!r} }}}}"
    task: {{handler: fail, params: {{error_message: "{{{{ item }}}} is wrong", permanent: true}}}}
    {tolerate}
"""


BATCHES = """
workflow_id: batches
nodes:
  each: {type: fan_out, source: "{{ [1, 2, 3, 4, 5] }}", task: {handler: echo, params: {n: "{{ item }}"}}, next: all}
  all:
    type: fan_in
    handler: echo
    batch: {size: 1, handler: fail, params: {error_message: no room, permanent: true}}
"""


def run(database: Command, text: str) -> tuple[str, str]:
    """The id of the job of a workflow that does not complete, and its summary."""
    Path("words.yaml").write_text(text)
    answer = database("run", "words.yaml")
    assert answer.code in (1, 3)
    job_id: str = database("status", "--json").json["jobs"][0]["job_id"]
    return job_id, answer.out


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_summary_says_how_many_failures_it_leaves_out(database: Command) -> None:
    job_id, shown = run(database, fan_out(WORDS))
    listed = [line for line in lines(shown) if line.startswith("each: item ")]
    assert len(listed) == 5
    assert "each: 3 more items failed in other ways" in lines(shown)
    assert f"holdfast tasks {job_id[-8:]} each --status failed all of them" in lines(shown)


def test_items_that_failed_in_the_same_way_are_counted_together(database: Command) -> None:
    _, shown = run(database, fan_out([*WORDS[:2], "alpha"]))
    assert "each: 2 items failed (0, 2): HANDLER_ERROR: alpha is wrong" in lines(shown)
    assert "each: item 1 failed: HANDLER_ERROR: beta is wrong" in lines(shown)
    assert "more items" not in shown


def test_the_error_of_the_only_failed_item_stands_once(database: Command) -> None:
    _, shown = run(database, fan_out(["alpha"]))
    assert shown.count("alpha is wrong") == 1
    assert "Error HANDLER_ERROR in each[0]: 1 of 1 items failed; the first: alpha is wrong" in lines(shown)


def test_a_node_shows_what_completed_and_what_failed(database: Command) -> None:
    _, shown = run(database, BATCHES)
    (node,) = (line for line in lines(shown) if line.startswith("✘ all failed"))
    assert "0/5, 5 failed" in node
    assert "all: 5 batches failed (0, 1, 2, …): HANDLER_ERROR: no room" in lines(shown)
    _, shown = run(database, fan_out(WORDS[:3]))
    assert "0/3, 3 failed" in shown


def test_why_names_node_number_and_codes_of_tolerated_failures(database: Command) -> None:
    job_id, _ = run(database, fan_out(["alpha", "beta", "alpha"], "tolerate: {failures: 100%}"))
    shown = lines(database("why", job_id).out)
    assert "3 of 3 items of each failed (HANDLER_ERROR), and the workflow tolerates that" in shown
    assert "2 items failed (0, 2): HANDLER_ERROR: alpha is wrong" in shown
    assert "item 1 failed: HANDLER_ERROR: beta is wrong" in shown
    assert f"→ holdfast tasks {job_id[-8:]} each --status failed" in shown
    (whole, each) = database("why", job_id, "--json").json["reasons"]
    assert (whole["node"], whole["details"]) == (None, {"error": None})
    assert (each["node"], each["cause"]) == ("each", "partial")
    assert (each["details"]["failed"], each["details"]["items"]) == (3, 3)
    assert [group["number"] for group in each["details"]["failures"]] == [2, 1]


def test_one_item_is_one_item(database: Command) -> None:
    Path("words.yaml").write_text(fan_out(["alpha"], "tolerate: {failures: 100%}"))
    answer = database("run", "words.yaml")
    assert "each: completed, 0/1 item, 1 failed" in answer.err
    assert "1 of 1 item of each failed (HANDLER_ERROR)" in database("why", "last").out
    objective = database("status", "last", "--json").json["outcome"]["primary"][0]
    assert objective["details"] == "0 of 1 item completed"


def test_why_groups_the_failures_of_a_failed_node_and_says_what_it_leaves_out(database: Command) -> None:
    job_id, _ = run(database, fan_out(WORDS))
    shown = lines(database("why", job_id).out)
    assert len([line for line in shown if line.startswith("item ")]) == 5
    assert "3 more items failed in other ways" in shown
    assert f"→ holdfast tasks {job_id[-8:]} each --status failed" in shown
    (reason,) = database("why", job_id, "--json").json["reasons"]
    assert reason["details"]["failed"] == 8 and len(reason["details"]["failures"]) == 5
    keys = ["number", "items", "code", "message", "fingerprint", "first_at", "last_at"]
    assert list(reason["details"]["failures"][0]) == keys


@pytest.mark.parametrize("node", [["--node", "each"], []])
def test_the_logs_of_an_item_that_does_not_exist_are_not_found(database: Command, node: list[str]) -> None:
    job_id, _ = run(database, fan_out(WORDS[:2]))
    answer = database("logs", job_id, *node, "--item", "99")
    assert (answer.code, answer.out) == (5, "")
    assert f"Job {job_id} has no item 99" in answer.err
    assert "each has 2 items, 0 to 1." in answer.err
    assert database("logs", job_id, *node, "--item", "1").code == 0
