"""`holdfast submit`: handing jobs in."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import Command, finished, spawn
from tests.cli.test_fleet import Start, started, until
from tests.marks import IN_CHAOS

__all__ = ["started"]

KEYS = [
    "job_id", "answer", "status", "workflow_id", "version", "identity", "run", "result", "failed_stage",
    "completed_stages", "definition_changed", "hint",
]  # fmt: skip

MENDABLE = """
workflow_id: mendable
inputs: {seconds: {type: number, default: 0}}
nodes:
  first: {handler: echo, next: second}
  second: {handler: mendable.work, retry: {max_retries: 0}, next: third}
  third: {handler: sleep, params: {duration_seconds: "{{ inputs.seconds }}"}}
"""
HANDLERS = """
from pathlib import Path
from holdfast import Permanent, handler

@handler("mendable.work")
def work() -> str:
    with Path("ran").open("a") as file:
        file.write("x")
    if not Path("mended").exists():
        raise Permanent("the road is closed")
    return "done"
"""
SLOWLY = ("--input", "seconds=600")


@pytest.fixture
def failed(database: Command) -> str:
    """A job that failed, in a directory with its handlers; no process is up any more."""
    return failed_job(database)


def failed_job(database: Command, *flags: str) -> str:
    Path("mendable.yaml").write_text(MENDABLE)
    Path("mendable.py").write_text(HANDLERS)
    serving = spawn("up", "--handlers", "mendable")
    waited = database("submit", "mendable.yaml", *flags, "--wait", "--json")
    serving.terminate()
    finished(serving)
    assert waited.code == 1, waited.err
    return str(waited.json["job_id"])


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
    assert database("submit", "unknown_workflow").code == 5


def test_without_an_orchestrator_it_is_recorded_and_says_what_to_start(database: Command) -> None:
    answer = database("submit", "flow.yaml")
    assert answer.code == 0
    assert "was created" in answer.out
    assert "holdfast up" in answer.err


@pytest.mark.parametrize(("file", "code"), [("flow.yaml", 0), ("failing.yaml", 1), ("half.yaml", 3)])
def test_wait_ends_with_the_status_object_and_the_jobs_exit_code(database: Command, file: str, code: int) -> None:
    serving = spawn("up")
    waited = database("submit", file, "--wait", "--json")
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


def test_a_submission_that_failed_before_shows_how_far_it_came_and_how_to_continue(
    database: Command, failed: str
) -> None:
    reply = database("submit", "mendable.yaml", "--json")
    assert (reply.code, list(reply.json)) == (0, KEYS)
    assert (reply.json["answer"], reply.json["job_id"], reply.json["status"]) == ("previously_failed", failed, "failed")
    assert (reply.json["failed_stage"], reply.json["completed_stages"]) == ("second", ["first"])
    assert reply.json["hint"].endswith(f"holdfast resume {failed}")
    shown = database("submit", "mendable.yaml")
    assert "ended failed" in shown.out and "Failed:    second\nCompleted: first\n" in shown.out
    assert f"holdfast resume {failed[-8:]} --handlers MODULE" in shown.err and "--force" in shown.err


def test_resume_without_an_orchestrator_is_recorded_and_says_what_to_start(
    database: Command, failed: str, started: Start
) -> None:
    reply = database("submit", "mendable.yaml", "--resume", "--json")
    assert (reply.code, reply.json["answer"], reply.json["job_id"], reply.json["run"]) == (0, "resumed", failed, 1)
    assert "holdfast up --handlers MODULE" in reply.err
    assert "watch" in reply.json["hint"]
    Path("mended").touch()
    started("up", "--handlers", "mendable")
    until(lambda: database("status", failed, "--json").json["status"] == "completed")
    assert database("status", failed, "--json").json["generation"] == 2
    assert Path("ran").read_text() == "xx"


def test_resume_and_wait_follow_the_job_to_its_new_end(database: Command, failed: str, started: Start) -> None:
    waiting = spawn("submit", "mendable.yaml", "--resume", "--wait", "--json")
    until(lambda: unread_signals() == 1)
    started("up", "--handlers", "mendable")
    again = finished(waiting)
    assert (again.code, again.json["status"], again.json["generation"]) == (1, "failed", 2), again.err
    Path("mended").touch()
    ended = database("submit", "mendable.yaml", "--resume", "--wait", "--json")
    assert (ended.code, ended.json["status"], ended.json["generation"]) == (0, "completed", 3), ended.err
    assert ended.json["job_id"] == failed
    reply = database("submit", "mendable.yaml", "--resume", "--json").json
    assert (reply["answer"], reply["result"] is None) == ("already_completed", False)


def unread_signals() -> int:
    with psycopg.connect(os.environ["HOLDFAST_DATABASE_URL"]) as connection:
        rows = connection.execute("select count(*) from holdfast.inbox where kind = 'recover'").fetchall()
    return int(rows[0][0])


def test_several_that_resume_at_once_resume_it_once(database: Command, started: Start) -> None:
    job_id = failed_job(database, *SLOWLY)
    Path("mended").touch()
    started("up", "--handlers", "mendable")
    trying = [spawn("submit", "mendable.yaml", *SLOWLY, "--resume", "--json") for _ in range(3)]
    replies = [finished(one) for one in trying]
    assert [one.code for one in replies] == [0, 0, 0], [one.err for one in replies]
    assert {one.json["job_id"] for one in replies} == {job_id}
    assert "resumed" in {one.json["answer"] for one in replies} <= {"resumed", "already_processing"}
    until(lambda: database("status", job_id, "--json").json["generation"] == 2)


def test_a_job_that_cannot_be_resumed_is_refused_with_the_reason(database: Command) -> None:
    job_id = database("submit", "slow.yaml", "--json").json["job_id"]
    with psycopg.connect(os.environ["HOLDFAST_DATABASE_URL"]) as connection:
        connection.execute("update holdfast.jobs set status = 'cancelled', finished_at = now()")
    refused = database("submit", "slow.yaml", "--resume")
    assert refused.code == 4
    assert f"Job {job_id} was not changed by resume: nothing of it would run again" in refused.err


ACCEPTED = """
workflow_id: accepted
nodes:
  each: {type: fan_out, source: "{{ [0] }}", tolerate: {failures: 1}, next: all,
    task: {handler: fail, params: {error_message: no luck, permanent: true}}}
  all: {type: fan_in, next: send}
  send: {handler: echo}
"""


def test_resume_of_a_job_that_lacks_only_tolerated_items_runs_nothing_and_names_what_does(
    database: Command, started: Start
) -> None:
    Path("accepted.yaml").write_text(ACCEPTED)
    started("up")
    job = database("submit", "accepted.yaml", "--wait", "--json").json["job_id"]
    again = database("submit", "accepted.yaml", "--resume")
    assert again.code == 0, again.err
    assert f"job {job} before; it ended partial.\n" in again.out
    assert "Nothing is missing but items whose failure the workflow tolerates. Nothing was run.\n" in again.out
    assert f"  → Run them again with: holdfast resume {job[-8:]} --tolerated --yes\n" in again.err
    waited = database("submit", "accepted.yaml", "--resume", "--wait", "--json")
    assert (waited.code, waited.json["status"], waited.json["generation"]) == (3, "partial", 1)
    words = again.err.partition("holdfast ")[2].splitlines()[0].split()
    assert database(*words, "--wait", "--json").json["generation"] == 2


def test_force_makes_a_new_job_beside_the_one_that_is_there(database: Command, failed: str) -> None:
    forced = database("submit", "mendable.yaml", "--force", "--json")
    assert (forced.code, forced.json["answer"], forced.json["status"], forced.json["run"]) == (
        0,
        "forced",
        "pending",
        2,
    )
    assert (forced.json["failed_stage"], forced.json["completed_stages"]) == (None, [])
    assert "holdfast up" in forced.err
    created = database("events", forced.json["job_id"], "--json").lines[0]
    assert (created["seq"], created["event"], created["data"]["previous"]) == (1, "job_created", failed)
    assert database("status", failed, "--json").json["status"] == "failed"
    again = database("submit", "mendable.yaml", "--json").json
    assert (again["answer"], again["job_id"], again["run"]) == ("already_processing", forced.json["job_id"], 2)
    assert "run 3 of the same submission" in database("submit", "mendable.yaml", "--force").out


def test_force_without_a_job_before_creates_one(database: Command) -> None:
    first = database("submit", "flow.yaml", "--force", "--json").json
    assert (first["answer"], first["run"]) == ("created", 1)


@IN_CHAOS
def test_processes_that_force_at_once_make_a_job_each(database: Command) -> None:
    database("submit", "flow.yaml")
    replies = [finished(one) for one in [spawn("submit", "flow.yaml", "--force", "--json") for _ in range(4)]]
    assert [one.code for one in replies] == [0] * 4, [one.err for one in replies]
    assert sorted(one.json["run"] for one in replies) == [2, 3, 4, 5]


def test_force_and_wait_follow_the_new_job(database: Command, started: Start) -> None:
    started("up")
    first, second = (database("submit", "flow.yaml", "--force", "--wait", "--json") for _ in range(2))
    assert (first.code, first.json["run"], second.code, second.json["run"]) == (0, 1, 0, 2)


def test_resume_and_force_do_not_go_together(command: Command) -> None:
    refused = command("submit", "flow.yaml", "--resume", "--force")
    assert refused.code == 2
    assert "--resume and --force" in refused.err
    assert not Path(".holdfast").exists(), "no database was started for it"


@pytest.mark.parametrize("file", ["flow.yaml", "failing.yaml"])
def test_a_changed_file_is_not_ignored(database: Command, file: str) -> None:
    first = database("submit", file, "--json").json
    assert database("resume", first["job_id"]).code in (0, 1)
    again = database("submit", file, "--json").json
    assert (again["job_id"], again["definition_changed"]) == (first["job_id"], False)
    Path(file).write_text(Path(file).read_text().replace("handler: echo", "handler: hello_world"))
    for flags in ((), ("--resume",)):
        refused = database("submit", file, *flags, "--json")
        assert (refused.code, refused.problem["code"]) == (4, "DEFINITION_CHANGED")
        assert "Nothing was run" in refused.problem["detail"] and "differs in handler" in refused.problem["detail"]
        assert "--force" in refused.problem["remedy"] and "--key" in refused.problem["remedy"]
        assert f"holdfast resume {first['job_id']} --workflow FILE" in refused.problem["remedy"]
    assert database("submit", file, "--key", "another", "--json").json["answer"] == "created"
    assert database("submit", file, "--force", "--json").json["answer"] == "forced"


def test_a_completed_job_says_that_nothing_was_run(database: Command) -> None:
    first = database("submit", "flow.yaml", "--json").json
    assert database("resume", first["job_id"]).code == 0
    assert database("submit", "flow.yaml", "--json").json["completed_stages"] == [
        "read", "each", "gather", "is_long", "long",
    ]  # fmt: skip
    answer = database("submit", "flow.yaml")
    assert "it has completed. Nothing was run." in answer.out
    assert "--force" in answer.err and "--key NAME" in answer.err


def test_a_known_workflow_that_has_changed_says_so_and_answers(database: Command) -> None:
    first = database("submit", "flow.yaml", "--json").json
    Path("flow.yaml").write_text(Path("flow.yaml").read_text().replace("hello_world", "echo"))
    open_job = database("submit", "flow.yaml", "--json").json
    assert (open_job["answer"], open_job["definition_changed"]) == ("already_processing", True)
    assert "The workflow has changed since that job was made: node long differs in handler" in (
        database("submit", "flow.yaml").err
    )
    assert open_job["job_id"] == first["job_id"]
