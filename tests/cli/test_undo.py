"""`holdfast undo`: its plan, its confirmation, its exit codes and its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Command, finished, spawn
from tests.marks import IN_CHAOS

ORDER = """
workflow_id: order
nodes:
  price: {handler: order.price, next: reserve}
  reserve: {handler: order.reserve, compensate: order.release, next: charge}
  charge: {handler: order.charge, retry: {max_retries: 0}, compensate: order.refund}
"""
HANDLERS = """
import os
from pathlib import Path
from holdfast import handler

def note(what):
    with Path("did").open("a") as file:
        file.write(f"{what}\\n")

@handler("order.price")
def price() -> int:
    return 30

@handler("order.reserve")
def reserve() -> None:
    note("reserve")

@handler("order.release")
def release() -> None:
    if Path("deadly").exists():
        os._exit(9)
    note("release")

@handler("order.charge")
def charge() -> None:
    note("charge")

@handler("order.refund")
def refund() -> None:
    note("refund")
    if Path("closed").exists():
        raise ConnectionError("the bank is closed")
"""


@pytest.fixture
def job(database: Command) -> str:
    """An order that is completed, in a directory with its handlers; no process is up any more."""
    Path("order.yaml").write_text(ORDER)
    Path("order.py").write_text(HANDLERS)
    answer = database("run", "order.yaml", "--handlers", "order", "--json")
    assert answer.code == 0
    Path("did").write_text("")
    return str(answer.json["job_id"])


def did() -> list[str]:
    return Path("did").read_text().split()


def test_an_undo_that_is_not_confirmed_without_a_terminal_does_nothing(database: Command, job: str) -> None:
    answer = database("undo", job, "--handlers", "order")
    assert answer.code == 4 and "2 tasks of charge, reserve would be undone" in answer.err
    assert "--yes" in answer.err and did() == []


def test_a_plan_says_what_is_undone_in_which_order_and_what_stays(database: Command, job: str) -> None:
    plan = database("undo", job, "--plan", "--json").json
    assert plan == plan | {"verb": "undo", "tasks": 2, "generation": 1}
    assert [(step["node"], step["action"], step["items"], step["reason"]) for step in plan["steps"]] == [
        ("charge", "undo", 1, "by order.refund"),
        ("reserve", "undo", 1, "by order.release"),
        ("price", "keep", 1, "nothing undoes it: it has no compensate"),
    ]
    assert database("plan", job, "undo", "--json").json["plan_id"] == plan["plan_id"]
    assert did() == []
    shown = database("plan", job, "undo", "--from", "charge")
    assert "1 task would be undone, in this order." in shown.out and "it comes before" in shown.out
    done = database("undo", job, "--plan-id", str(plan["plan_id"]), "--yes", "--handlers", "order")
    assert done.code == 0 and did() == ["refund", "release"]


@pytest.mark.parametrize("flags", [(), ("--wait",), ("--wait", "--json"), ("--json",)])
def test_a_whole_undo_ends_with_0_whether_a_person_waits_or_reads_json(
    database: Command, job: str, flags: tuple[str, ...]
) -> None:
    answer = database("undo", job, "--yes", "--handlers", "order", "--reason", "not wanted", *flags)
    assert answer.code == 0 and did() == ["refund", "release"]
    if "--json" in flags:
        status = answer.json
        assert (status["status"], status["reason"], status["error"]["code"]) == ("cancelled", "undone", "UNDONE")
        assert status["error"]["message"].endswith(": not wanted")
    else:
        assert "order cancelled (undone)" in answer.out
    assert database("watch", job).code == 7, "the job itself is cancelled"


def test_an_undo_that_leaves_something_ends_with_7_and_says_what_and_how_to_go_on(database: Command, job: str) -> None:
    Path("closed").touch()
    answer = database("undo", job, "--from", "charge", "--yes", "--handlers", "order")
    assert answer.code == 7 and did()[0] == "refund" and "release" not in did()
    shown = " ".join(answer.out.split())
    assert "1 not undone" in shown and "UNDO_INCOMPLETE" in shown and "the bank is closed" in shown
    assert f"undo {job[-8:]} --from charge --yes --handlers order" in shown
    assert f"events {job[-8:]} --node charge" in shown, "where it failed, not what was undone before"
    (task,) = database("tasks", job, "charge", "--json").json["tasks"]
    assert task["status"] == "completed" and task["undo_error"]["code"] == "HANDLER_ERROR"
    assert "not undone: HANDLER_ERROR" in database("tasks", job, "charge").out
    Path("closed").unlink()
    assert database("undo", job, "--from", "charge", "--yes", "--handlers", "order").code == 0
    assert "release" not in did()


def test_a_skip_that_goes_on_with_an_undo_says_so(database: Command, job: str) -> None:
    Path("closed").touch()
    assert database("undo", job, "--yes", "--handlers", "order").code == 7
    refused = database("skip", job, "charge", "--handlers", "order")
    assert refused.code == 4 and "what could not be undone of charge would count as undone" in refused.err
    plan = database("skip", job, "charge", "--plan")
    assert "charge would count as undone, and 1 task would be undone" in plan.out
    answer = database("skip", job, "charge", "--yes", "--handlers", "order")
    assert answer.code == 0 and "1 task to undo" in answer.err and did()[-1] == "release"
    assert "UNDONE" in answer.out


@IN_CHAOS
def test_an_undo_whose_process_was_killed_goes_on_with_the_same_command(database: Command, job: str) -> None:
    Path("deadly").touch()
    soon = {"HOLDFAST_LEASE_SECONDS": "1", "HOLDFAST_RENEW_SECONDS": "0.3", "HOLDFAST_OWNER_LEASE_SECONDS": "1"}
    killed = spawn("undo", job, "--yes", "--handlers", "order", HOLDFAST_OWNER_RENEW_SECONDS="0.3", **soon)
    assert finished(killed).code == 9 and did() == ["refund"]
    Path("deadly").unlink()
    # The driver that died counts as alive until its lease ends.
    answer = database("undo", job, "--yes", "--handlers", "order")
    while answer.code == 4:
        answer = database("undo", job, "--yes", "--handlers", "order")
    assert answer.code == 0 and "is being undone: driving it to its end from here" in answer.err
    assert did() == ["refund", "release"]


def refused(answer: Answer, code: int, text: str) -> None:
    assert answer.code == code
    assert text in answer.problem["detail"] and did() == []


def test_what_cannot_be_undone_is_refused_with_an_exit_code_of_its_own(database: Command, job: str) -> None:
    refused(database("undo", job, "--from", "nix", "--yes", "--json"), 5, "it has no node 'nix'")
    refused(database("undo", "nothing", "--yes", "--json"), 5, "nothing")
    refused(database("undo", job, "--from", "charge", "--only", "--json"), 2, "--only")
    refused(database("undo", job, "--plan-id", "0", "--yes", "--json"), 4, "has changed since")
    plain = database("run", "flow.yaml", "--json").json["job_id"]
    refused(database("undo", plain, "--yes", "--json"), 4, "nothing that has completed has a compensate")
    slow = database("submit", "slow.yaml", "--json").json["job_id"]
    refused(database("undo", slow, "--yes", "--json"), 4, "it is pending, and only a job that has ended can be undone")


def test_a_job_that_undoes_itself_ends_with_the_exit_code_of_a_failed_job(database: Command, job: str) -> None:
    text = ORDER.replace("workflow_id: order", "workflow_id: strict\non_failure: compensate")
    Path("strict.yaml").write_text(text.replace("handler: order.charge", "handler: fail"))
    answer = database("run", "strict.yaml", "--handlers", "order", "--json")
    assert answer.code == 1 and (answer.json["status"], answer.json["reason"]) == ("failed", "undone")
    assert did() == ["reserve", "release"]
