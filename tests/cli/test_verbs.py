"""`holdfast plan`, `resume`, `retry`, `clear`, `rerun`: seeing what would run again, and having it run."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.progress import Lines
from holdfast.operations.scope import current_actor
from holdfast.sync_client import SyncClient
from tests.cli.conftest import Command, finished, spawn
from tests.cli.test_fleet import Start, started, until

__all__ = ["started"]

REPAIRABLE = """
workflow_id: repairable
inputs: {items: {type: array, default: [0, 1, 2]}}
nodes:
  split: {handler: echo, next: each}
  each:
    type: fan_out
    source: "{{ inputs.items }}"
    task: {handler: repairable.work, params: {item: "{{ item }}"}, retry: {max_retries: 0}}
    next: gather
  gather: {type: fan_in, next: tell}
  tell: {handler: echo}
"""
HANDLERS = """
from pathlib import Path
from holdfast import Permanent, handler

@handler("repairable.work")
def work(item: int) -> int:
    with Path("ran").open("a") as file:
        file.write(f"{item}\\n")
    if item == 1 and not Path("mended").exists():
        raise Permanent("the disk is full")
    return item
"""


@pytest.fixture
def failed(database: Command) -> str:
    """A job of which one item of three has failed, in a directory with its handlers; no process is up any more."""
    Path("repairable.yaml").write_text(REPAIRABLE)
    Path("repairable.py").write_text(HANDLERS)
    answer = database("run", "repairable.yaml", "--handlers", "repairable", "--json")
    assert answer.code == 1
    return str(answer.json["job_id"])


def ran() -> list[str]:
    return Path("ran").read_text().split()


def steps(plan: dict[str, Any]) -> dict[str, tuple[str, int | None]]:
    return {step["node"]: (step["action"], step["items"]) for step in plan["steps"]}


def test_a_plan_says_what_is_kept_and_what_runs_and_changes_nothing(database: Command, failed: str) -> None:
    answer = database("plan", failed, "--json")
    assert answer.code == 0
    assert list(answer.json) == [
        "plan_id", "job_id", "verb", "generation", "made_at", "tasks", "steps", "command", "unknown",
        "evaluates_result",
    ]  # fmt: skip
    assert list(answer.json["steps"][0]) == ["node", "action", "items", "reason", "confirm"]
    assert steps(answer.json) == {
        "split": ("keep", 1), "each": ("rerun", 1), "gather": ("rerun", 0), "tell": ("rerun", 1),
    }  # fmt: skip
    assert answer.json["command"] == f"holdfast resume {failed} --plan-id {answer.json['plan_id']}"
    shown = database("resume", failed, "--plan")
    assert "2 tasks would run" in shown.out and "nothing was changed" in shown.out
    assert database("status", failed, "--json").json["status"] == "failed"


RESULT = """
workflow_id: resulting
nodes: {list: {handler: fail, params: {error_message: no list, permanent: true}, next: each},
  each: {type: fan_out, source: "{{ nodes.list.output.found }}", task: {handler: echo}, next: all}, all: {type: fan_in}}
"""


def test_a_plan_says_what_cannot_be_known_yet(database: Command) -> None:
    Path("resulting.yaml").write_text(RESULT)
    job = database("run", "resulting.yaml", "--json").json["job_id"]
    plan = database("plan", job, "--json").json
    assert (plan["tasks"], plan["unknown"], steps(plan)["each"]) == (1, 1, ("rerun", None))
    assert "1 task, besides 1 fan-out of unknown width would run." in database("plan", job).out


def test_a_job_that_failed_in_its_own_result_is_resumed_and_nothing_else_runs(database: Command) -> None:
    text = "workflow_id: rt\nnodes: {a: {handler: echo}}\nresult: {v: '{{ nodes.a.output.missing }}'}\n"
    Path("rt.yaml").write_text(text)
    status = database("run", "rt.yaml", "--json").json
    assert (status["status"], status["counts"]["completed"], status["outcome"]["resumable"]) == ("failed", 1, True)
    job = status["job_id"]
    plan = database("plan", job, "--json").json
    assert (plan["tasks"], plan["evaluates_result"]) == (0, True)
    shown = database("plan", job)
    assert "No task would run; the workflow's result would be evaluated again." in shown.out
    assert "holdfast resume" in database("why", job).out
    again = database("resume", job, "--json")
    assert (again.code, again.json["generation"], again.json["counts"]["total"]) == (1, 2, 1)


def test_the_command_that_the_end_of_a_run_prints_continues_the_job_from_there(database: Command, failed: str) -> None:
    shown = database("run", "repairable.yaml", "--handlers", "repairable")
    (command,) = [line for line in shown.out.splitlines() if "holdfast resume" in line]
    words = command.partition("holdfast ")[2].partition("   ")[0].split()
    assert words[0] == "resume" and words[2:] == ["--handlers", "repairable"]
    Path("mended").touch()
    Path("ran").unlink()
    ended = database(*words)
    assert ended.code == 0, ended.err
    assert "completed" in ended.out
    assert ran() == ["1"], "only what was missing"


def test_a_job_that_fails_again_ends_with_its_code_and_can_be_resumed_again(database: Command, failed: str) -> None:
    again = database("resume", failed, "--handlers", "repairable", "--json")
    assert (again.code, again.json["status"], again.json["generation"]) == (1, "failed", 2)
    Path("mended").touch()
    assert database("retry", failed, "2", "--handlers", "repairable").code == 0
    assert ran() == ["0", "1", "2", "1", "1"] or sorted(ran()[:3]) == ["0", "1", "2"]
    assert database("status", failed, "--json").json["generation"] == 3


def test_with_an_orchestrator_the_owner_does_it_and_the_command_says_so(
    database: Command, failed: str, started: Start
) -> None:
    Path("mended").touch()
    started("up", "--handlers", "repairable")
    until(lambda: database("status", "--json").json["workers"])
    answer = database("retry", failed, "each", "--reason", "the disk was emptied", "--json")
    assert (answer.code, answer.json["answer"], answer.json["tasks"]) == (0, "applied", 2)
    until(lambda: database("status", failed, "--json").json["status"] == "completed")
    events = [line for line in database("events", failed, "--json").lines if line["event"] == "job_recovered"]
    assert [(e["data"]["verb"], e["data"]["reason"]) for e in events] == [("retry", "the disk was emptied")]


def test_wait_follows_the_job_to_its_new_end_and_exits_with_its_code(
    database: Command, failed: str, started: Start
) -> None:
    started("up", "--handlers", "repairable")
    until(lambda: database("status", "--json").json["workers"])
    again = database("resume", failed, "--wait", "--json")
    assert (again.code, again.json["status"], again.json["generation"]) == (1, "failed", 2), again.err
    Path("mended").touch()
    shown = database("retry", failed, "each", "--wait")
    assert (shown.code, "completed" in shown.out) == (0, True), shown.err
    assert f"Job {failed} continues: 2 tasks to run" in shown.err and "each: completed" in shown.err
    cleared = database("clear", failed, "each", "--item", "0", "--yes", "--wait", "--json")
    assert (cleared.code, cleared.json["status"], cleared.json["generation"]) == (0, "completed", 4), cleared.err
    Path("mended").unlink()
    redone = database("rerun", failed, "--from", "each", "--yes", "--wait", "--json")
    assert (redone.code, redone.json["status"], redone.json["generation"]) == (1, "failed", 5), redone.err


def test_a_task_with_params_of_a_person_is_marked_until_its_node_begins_again(database: Command, failed: str) -> None:
    Path("params.json").write_text('{"item": 7}')
    given = ("clear", failed, "each", "--item", "1", "--params", "params.json", "--handlers", "repairable")
    done = database(*given)
    assert done.code == 0 and "3/3, 1 corrected" in done.out
    assert ran()[-1] == "7"
    assert "params corrected" in database("tasks", failed, "each").out
    tasks = database("tasks", failed, "each", "--json").json["tasks"]
    assert [one.get("corrected") for one in tasks] == [None, True, None]
    Path("mended").touch()
    again = database("rerun", failed, "--from", "each", "--yes", "--handlers", "repairable")
    assert again.code == 0 and "corrected" not in again.out and sorted(ran()[-3:]) == ["0", "1", "2"]


def test_wait_and_detach_do_not_go_together(command: Command) -> None:
    refused = command("resume", "12345678", "--wait", "--detach")
    assert refused.code == 2
    assert "--wait and --detach exclude each other" in refused.err


def test_what_had_completed_runs_again_only_if_a_person_says_so(
    database: Command, failed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("clear", failed, "each", "--item", "0")
    refused = database(*asked)
    assert refused.code == 4
    assert "1 task of each had completed" in refused.err and "--yes" in refused.err
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *question, **options: False)
    assert database(*asked).code == 4
    assert database("status", failed, "--json").json["generation"] == 1
    ended = database(*asked, "--yes", "--handlers", "repairable")
    assert ended.code == 1, "item 1 is as bad as before"
    assert ran()[3:] == ["0"]


def test_a_plans_id_does_exactly_that_or_nothing(database: Command, failed: str) -> None:
    shown = database("plan", failed, "retry", "each", "--json").json["plan_id"]
    wrong = database("retry", failed, "each", "--plan-id", "0123456789abcdef")
    assert wrong.code == 4 and "has changed since" in wrong.err and "--plan" in wrong.err
    Path("mended").touch()
    done = database("retry", failed, "each", "--plan-id", shown, "--handlers", "repairable")
    assert done.code == 0, done.err
    assert database("retry", failed, "each", "--plan-id", shown).code == 4


def test_a_rerun_begins_with_a_node_and_takes_all_that_follows(database: Command, failed: str) -> None:
    Path("mended").touch()
    ended = database("rerun", failed, "--from", "each", "--yes", "--handlers", "repairable")
    assert ended.code == 0
    assert sorted(ran()[3:]) == ["0", "1", "2"]


def test_detach_only_records_it_and_says_what_to_start(database: Command, failed: str) -> None:
    answer = database("resume", failed, "--detach")
    assert answer.code == 0
    assert "recorded" in answer.out and "holdfast up --handlers MODULE" in answer.err
    assert database("status", failed, "--json").json["status"] == "failed"


def test_the_status_of_a_failed_job_names_what_recovers_each_part(database: Command, failed: str) -> None:
    outcome = database("status", failed, "--json").json["outcome"]
    assert (outcome["resumable"], outcome["resume_from"]) == (True, "each")
    whole, stage = outcome["recovery"]
    assert (whole["node"], whole["command"]) == (None, f"holdfast resume {failed}")
    assert (stage["node"], stage["command"]) == ("each", f"holdfast retry {failed} each")
    assert stage["request"] == {"method": "POST", "path": f"/api/v1/jobs/{failed}/retry", "body": {"node": "each"}}
    card = database("status", failed).out
    assert "holdfast resume" in card and "holdfast plan" in card


def test_a_resume_after_kill_nine_runs_only_the_items_that_are_missing(database: Command) -> None:
    Path("repairable.yaml").write_text(REPAIRABLE)
    Path("repairable.py").write_text(HANDLERS.replace("if item == 1", "import time; time.sleep(0.05)\n    if False"))
    items = "items=" + str(list(range(60)))
    leases = {"HOLDFAST_LEASE_SECONDS": "2", "HOLDFAST_RENEW_SECONDS": "0.5", "HOLDFAST_OWNER_LEASE_SECONDS": "2"}
    leases |= {"HOLDFAST_OWNER_RENEW_SECONDS": "0.5", "HOLDFAST_CONCURRENCY": "2"}
    process = spawn("run", "repairable.yaml", "--handlers", "repairable", "--input", items, **leases)
    until(lambda: Path("ran").exists() and len(ran()) >= 10)
    os.kill(process.pid, 9)
    process.wait()
    (job,) = database("status", "--json").json["jobs"]
    assert job["status"] == "running" and job["counts"]["completed"] > 1
    until(lambda: not database("status", "--json").json["orchestrators"])
    ended = finished(spawn("resume", job["job_id"], "--handlers", "repairable", "--json", **leases))
    assert ended.code == 0, ended.err
    assert (ended.json["status"], ended.json["generation"]) == ("completed", 1)
    # What ran when it was killed has run twice; what was finished and reported has not.
    assert set(ran()) == {str(number) for number in range(60)}
    assert len(ran()) <= 60 + (60 - job["counts"]["completed"])


WAITING = """
workflow_id: waiting
nodes: {work: {handler: waiting.work, retry: {max_retries: 0}}}
"""
WAITING_HANDLERS = """
import time
from pathlib import Path
from holdfast import Permanent, handler

@handler("waiting.work")
def work() -> str:
    if not Path("mended").exists():
        raise Permanent("no luck")
    while not Path("released").exists():
        time.sleep(0.05)
    return "done"
"""


@pytest.mark.parametrize("is_served", [True, False])
def test_of_several_who_resume_a_job_at_once_one_does_and_the_others_are_refused(
    database: Command, started: Start, is_served: bool
) -> None:
    Path("waiting.yaml").write_text(WAITING)
    Path("waiting.py").write_text(WAITING_HANDLERS)
    job = database("run", "waiting.yaml", "--handlers", "waiting", "--json").json["job_id"]
    Path("mended").touch()
    if is_served:
        started("up", "--handlers", "waiting")
    trying = [spawn("resume", job, "--handlers", "waiting", "--json") for _ in range(3)]
    losers = [one for one in trying if is_served or one is not winner_of(trying)]
    answers = [finished(one) for one in losers]
    assert sorted(one.code for one in answers) == ([0, 4, 4] if is_served else [4, 4]), [one.err for one in answers]
    assert all("it is running" in one.err for one in answers if one.code)
    refused = database("resume", job)
    assert refused.code == 4 and "it is running" in refused.err
    Path("released").touch()
    until(lambda: database("status", job, "--json").json["status"] == "completed")
    assert database("status", job, "--json").json["generation"] == 2
    assert is_served or finished(winner_of(trying)).code == 0


def winner_of(processes: list[Any]) -> Any:
    """The one that drives the job, when all the others have ended."""
    until(lambda: sum(one.poll() is None for one in processes) <= 1)
    return next((one for one in processes if one.returncode in (None, 0)), processes[0])


def test_a_job_goes_on_without_what_is_skipped_and_ends_partial(database: Command, failed: str) -> None:
    refused = database("skip", failed, "each")
    assert refused.code == 4 and "each would be skipped" in refused.err
    ended = database("skip", failed, "each", "--yes", "--reason", "not needed", "--handlers", "repairable")
    assert ended.code == 3, ended.err
    status = database("status", failed, "--json").json
    assert status["status"] == "partial"
    assert {n["node"]: n["counts"]["skipped"] for n in status["nodes"]}["each"] == 1
    assert sorted(ran()) == ["0", "1", "2"]


def test_a_result_that_is_given_by_hand_is_taken_for_the_nodes(database: Command, failed: str) -> None:
    Path("given.json").write_text('{"results": [7], "count": 1}')
    given = ("set", failed, "gather", "--output", "given.json")
    assert "would be set to the contents of given.json" in database(*given).err
    ended = database(*given, "--yes", "--handlers", "repairable", "--json")
    assert (ended.code, ended.json["status"]) == (1, "failed"), "each is as bad as before"
    gather = next(node for node in ended.json["nodes"] if node["node"] == "gather")
    assert gather["status"] == "completed"
    assert database("set", failed, "each", "--output", "given.json").code == 4
    assert database("set", failed, "gather", "--output", "nowhere.json").code == 2


def test_a_job_that_is_paused_says_so_and_goes_on_when_it_is_let(
    database: Command, started: Start, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job_id = database("submit", "flow.yaml", "--json").json["job_id"]
    paused = database("pause", job_id, "--reason", "lunch")
    assert paused.code == 0 and "is paused" in paused.out and "holdfast unpause" in paused.err
    status = database("status", job_id, "--json").json
    assert (status["held"]["by"], status["held"]["reason"], status["status"]) == ("pause", "lunch", "running")
    why = database("why", job_id)
    person = re.escape(current_actor())
    assert re.search(rf"is paused, by {person} [\d.]+ s ago: lunch\n", why.out)
    assert "holdfast unpause" in why.out + why.err
    card = database("status", job_id).out
    assert re.search(r"^⏸ flow paused for [\d.]+ s ", card)
    assert re.search(rf"Paused +by {person} [\d.]+ s ago: lunch", card)
    assert f"Next      holdfast unpause {job_id[-8:]}" in card
    listed = database("status").out
    assert "⏸ paused" in listed and re.search(rf"↳ paused by {person} [\d.]+ s ago: lunch", listed)
    assert database("status", "--json").json["jobs"][0]["held"] == status["held"]
    with SyncClient.connect(database_url) as client:
        Lines().show(client.job(job_id))
    assert re.search(rf"paused by {person} [\d.]+ s ago: lunch", capsys.readouterr().err)
    assert database("pause", job_id).code == 4
    started("up")
    until(lambda: database("status", "--json").json["workers"])
    answer = database("unpause", job_id, "--json")
    assert (answer.code, answer.json["answer"]) == (0, "applied")
    until(lambda: database("status", job_id, "--json").json["status"] == "completed")
    assert database("unpause", job_id).code == 4
    assert database("pause", "ffffffffffff").code == 5


def test_status_says_who_set_a_result_and_what_is_stale_after_only(database: Command, tmp_path: Path) -> None:
    job_id = database("run", "failing.yaml", "--json").json["job_id"]
    (tmp_path / "given.json").write_text("1")

    def nodes() -> dict[str, Any]:
        return {node["node"]: node for node in database("status", job_id, "--json").json["nodes"]}

    database("set", job_id, "second", "--output", "given.json", "--yes", "--reason", "the sensor was off")
    given = nodes()["second"]["by_hand"]
    assert (given["verb"], given["by"], given["reason"]) == ("set", current_actor(), "the sensor was off")
    person = re.escape(current_actor())
    assert re.search(
        rf"By hand   second: set by {person} [\d.]+ s ago: the sensor was off", database("status", job_id).out
    )
    assert not any(node["stale"] for node in nodes().values())

    database("rerun", job_id, "--from", "first", "--only", "--yes")
    assert not any(node["stale"] for node in nodes().values()), "a result that a person has set does not grow old"
    database("rerun", job_id, "--from", "first", "--yes")
    database("set", job_id, "second", "--output", "given.json", "--yes")
    database("rerun", job_id, "--from", "third", "--only", "--yes")
    assert not any(node["stale"] for node in nodes().values()) and nodes()["second"]["by_hand"]["reason"] is None

    flow = database("run", "flow.yaml", "--json").json["job_id"]
    database("clear", flow, "each", "--item", "1", "--only", "--yes")
    status = database("status", flow, "--json").json
    assert [node["node"] for node in status["nodes"] if node["stale"]] == ["gather", "is_long", "long", "end"]
    card = database("status", flow).out
    assert "Stale     gather, is_long, long: completed before a node above ran again" in card
    assert len(re.findall(r"completed +stale ", card)) == 3
    database("rerun", flow, "--from", "gather", "--yes")
    assert not any(node["stale"] for node in database("status", flow, "--json").json["nodes"])
