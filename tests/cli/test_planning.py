"""Plans of cancel, pause and unpause, and the command that a plan names: it must work as it stands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Answer, Command, spawn
from tests.cli.test_fleet import Start, started, until
from tests.cli.test_verbs import HANDLERS, REPAIRABLE, failed

__all__ = ["failed", "started"]

WIDE = """
workflow_id: wide
nodes:
  first: {handler: echo, next: each}
  each:
    type: fan_out
    source: "{{ [1, 2, 3, 4, 5, 6, 7] }}"
    task: {handler: sleep, params: {duration_seconds: 600}, concurrency: {limit: 2}}
    next: gather
  gather: {type: fan_in}
"""
KEYS = [
    "plan_id",
    "job_id",
    "verb",
    "generation",
    "made_at",
    "tasks",
    "steps",
    "command",
    "unknown",
    "evaluates_result",
]


@pytest.fixture
def wide(database: Command, started: Start) -> str:
    """A job of which two items run and five are queued; an orchestrator is up."""
    Path("wide.yaml").write_text(WIDE)
    started("up", HOLDFAST_GRACE_SECONDS="0.1")
    job_id = str(database("submit", "wide.yaml", "--json").json["job_id"])
    until(lambda: database("status", job_id, "--json").json["counts"]["running"] == 2)
    return job_id


def steps(plan: Answer) -> list[tuple[str, str, int]]:
    return [(step["node"], step["action"], step["items"]) for step in plan.json["steps"]]


def named(plan: Answer) -> list[str]:
    """The words of the command that a plan names."""
    (line,) = [line for line in plan.err.splitlines() if "Do exactly this with: " in line]
    return shlex.split(line.partition("with: holdfast ")[2])


def status(database: Command, job_id: str) -> dict[str, Any]:
    answer: dict[str, Any] = database("status", job_id, "--json").json
    return answer


@pytest.mark.parametrize("asked", [("plan", "JOB", "cancel"), ("cancel", "JOB", "--plan")])
def test_the_plan_of_a_cancel_says_what_is_archived_and_what_has_the_grace(
    database: Command, wide: str, asked: tuple[str, ...]
) -> None:
    words = [wide if word == "JOB" else word for word in asked]
    plan = database(*words, "--json")
    assert plan.code == 0
    assert list(plan.json) == KEYS
    assert list(plan.json["steps"][0]) == ["node", "action", "items", "reason", "confirm"]
    assert (plan.json["verb"], plan.json["generation"], plan.json["tasks"]) == ("cancel", 1, 5)
    assert steps(plan) == [("first", "keep", 1), ("each", "cancel", 5), ("each", "keep", 2), ("gather", "cancel", 0)]
    assert plan.json["command"] == f"holdfast cancel {wide} --plan-id {plan.json['plan_id']} --yes"
    shown = database(*words)
    assert "5 tasks would be archived, and 2 tasks that run would have the grace period to finish." in shown.out
    assert plan.json["plan_id"] in shown.out and "nothing was changed" in shown.out
    assert (status(database, wide)["status"], status(database, wide)["counts"]["running"]) == ("running", 2)
    assert database(*named(shown)).code == 0
    until(lambda: status(database, wide)["status"] == "cancelled")
    assert status(database, wide)["counts"]["cancelled"] == 7


def test_the_plans_of_pause_and_unpause_say_what_is_held_and_what_goes_on(database: Command, wide: str) -> None:
    pause = database("plan", wide, "pause", "--json")
    assert (list(pause.json), pause.json["tasks"]) == (KEYS, 5)
    assert steps(pause) == [("first", "keep", 1), ("each", "hold", 5), ("each", "keep", 2), ("gather", "hold", 0)]
    shown = database("pause", wide, "--plan")
    assert "5 tasks would be held back, and 2 tasks that run would continue to their end." in shown.out
    assert status(database, wide)["held"] is None
    assert database(*named(shown)).code == 0
    assert status(database, wide)["held"]["by"] == "pause"
    unpause = database("plan", wide, "unpause", "--json")
    assert steps(unpause) == [("first", "keep", 1), ("each", "release", 5), ("each", "keep", 2), ("gather", "keep", 0)]
    unpaused = database("unpause", wide, "--plan")
    assert "5 tasks that were held back would continue, beside 2 tasks that run." in unpaused.out
    assert database(*named(unpaused), "--yes", "--reason", "back").code == 0
    assert status(database, wide)["held"] is None


def test_progress_of_the_job_does_not_spoil_the_plan_of_a_cancel(database: Command, started: Start) -> None:
    Path("wide.yaml").write_text(WIDE)
    job_id = str(database("submit", "wide.yaml", "--json").json["job_id"])
    before = database("plan", job_id, "cancel", "--json").json
    assert before["tasks"] == 0, "nothing is queued yet"
    started("up", HOLDFAST_GRACE_SECONDS="0.1")
    until(lambda: status(database, job_id)["counts"]["running"] == 2)
    assert database("cancel", job_id, "--yes", "--plan-id", before["plan_id"]).code == 0
    until(lambda: status(database, job_id)["status"] == "cancelled")


@pytest.mark.parametrize("verb", ["cancel", "unpause"])
def test_a_plan_is_stale_once_the_job_was_paused_again(database: Command, verb: str) -> None:
    job_id = str(database("submit", "slow.yaml", "--json").json["job_id"])
    assert database("pause", job_id).code == 0
    plan = database("plan", job_id, verb, "--json").json["plan_id"]
    assert database("unpause", job_id).code == 0
    assert database("pause", job_id).code == 0
    stale = database(verb, job_id, "--plan-id", plan, "--yes", "--json")
    assert stale.code == 4
    assert "changed since this plan was made" in stale.problem["detail"]
    assert f"{verb} {job_id[-8:]} --plan" in stale.problem["remedy"]
    assert status(database, job_id)["held"]["by"] == "pause"


def test_a_plan_of_an_earlier_generation_is_stale(database: Command) -> None:
    job_id = str(database("submit", "slow.yaml", "--json").json["job_id"])
    plan = database("plan", job_id, "cancel", "--json").json["plan_id"]
    assert database("cancel", job_id, "--yes", "--plan-id", plan).code == 0
    assert database("cancel", job_id, "--yes", "--plan-id", plan).code == 4
    resumed = spawn("resume", job_id)
    until(lambda: status(database, job_id)["counts"]["running"] == 1)
    stale = database("cancel", job_id, "--yes", "--plan-id", plan)
    assert stale.code == 4 and "changed since this plan was made" in stale.err
    resumed.kill()


def test_the_command_of_a_plan_brings_the_handlers_that_were_given(database: Command, failed: str) -> None:
    shown = database("plan", failed, "--handlers", "repairable")
    assert "--handlers repairable" in shown.err
    assert "MODULE" not in shown.err
    in_json = database("retry", failed, "each", "--plan", "--handlers", "repairable", "--json").json["command"]
    assert in_json.startswith(f"holdfast retry {failed} each --handlers repairable --plan-id ")
    Path("mended").touch()
    ended = database(*named(shown))
    assert ended.code == 0, ended.err


def test_without_an_orchestrator_a_plan_says_that_its_command_needs_the_handlers(
    database: Command, failed: str
) -> None:
    shown = database("plan", failed, "retry", "2")
    words = named(shown)
    assert words[-2:] == ["--handlers", "MODULE"]
    assert "No orchestrator is running" in shown.err and "has repairable.work" in shown.err
    Path("mended").touch()
    ended = database(*words[:-1], "repairable")
    assert ended.code == 0, ended.err
    built_in = database("run", "failing.yaml", "--json").json["job_id"]
    plain = database("plan", built_in)
    assert "--handlers" not in plain.err and "No orchestrator" not in plain.err


def test_with_an_orchestrator_the_command_of_a_plan_needs_nothing(
    database: Command, failed: str, started: Start
) -> None:
    Path("mended").touch()
    started("up", "--handlers", "repairable")
    shown = database("plan", failed)
    assert "--handlers" not in shown.err and "No orchestrator" not in shown.err
    assert database(*named(shown)).code == 0
    until(lambda: status(database, failed)["status"] == "completed")


def test_the_command_of_a_plan_to_set_a_result_names_the_file(database: Command, failed: str) -> None:
    Path("given file.json").write_text('{"results": [{"b": 1, "a": 2}], "é": 1, "zz": 0, "count": 1}')
    for asked in (["plan", failed, "set", "gather"], ["set", failed, "gather", "--plan"]):
        shown = database(*asked, "--output", "given file.json", "--handlers", "repairable")
        assert shown.code == 0
    ended = database(*named(shown), "--json")
    assert ended.out, ended.err
    assert {n["node"]: n["status"] for n in ended.json["nodes"]}["gather"] == "completed", ended.err


def test_status_and_why_name_a_resume_that_works_from_here(database: Command, failed: str, started: Start) -> None:
    resume = f"holdfast resume {failed[-8:]} --handlers MODULE"
    assert resume in database("status", failed).out
    assert f"holdfast plan {failed[-8:]}  " in database("status", failed).out
    Path("only.yaml").write_text("workflow_id: only\nnodes: {a: {handler: repairable.work, params: {item: 1}}}\n")
    cancelled = database("submit", "only.yaml", "--json").json["job_id"]
    assert database("cancel", cancelled, "--yes").code == 0
    assert f"holdfast resume {cancelled[-8:]} --handlers MODULE" in database("why", cancelled).out
    started("up", "--handlers", "repairable")
    until(lambda: f"holdfast resume {cancelled[-8:]}\n" in database("why", cancelled).out)
    assert "--handlers" not in database("status", failed).out


def test_the_end_of_a_run_names_a_plan_that_knows_the_handlers(database: Command) -> None:
    Path("repairable.yaml").write_text(REPAIRABLE)
    Path("repairable.py").write_text(HANDLERS)
    shown = database("run", "repairable.yaml", "--handlers", "repairable").out
    (line,) = [line for line in shown.splitlines() if "holdfast plan" in line]
    plan = database(*line.partition("holdfast ")[2].partition("   ")[0].split())
    assert "--handlers repairable" in plan.err


def test_retry_stage_is_retry_by_another_name(database: Command, failed: str) -> None:
    helps = [re.split("Arguments:|Examples?:", database(verb, "--help").out)[1] for verb in ("retry", "retry-stage")]
    assert helps[0] == helps[1]
    plans = [database(verb, failed, node, "--plan", "--json").json for verb, node in
             (("retry", "each"), ("retry-stage", "each"), ("retry-stage", "2"))]  # fmt: skip
    assert len({plan["plan_id"] for plan in plans}) == 1
    assert database("plan", failed, "retry-stage", "2", "--json").json["plan_id"] == plans[0]["plan_id"]
    Path("mended").touch()
    assert database("retry-stage", failed, "2", "--handlers", "repairable", "--reason", "mended").code == 0


def test_a_pause_that_is_only_recorded_says_what_to_start(database: Command) -> None:
    job_id = str(database("submit", "slow.yaml", "--json").json["job_id"])
    answer = database("pause", job_id, "--detach", "--yes")
    assert answer.code == 0
    assert "is recorded" in answer.out and "holdfast up" in answer.err
