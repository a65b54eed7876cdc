"""What a verb refuses: with which code, for what reason, and with what else can be done; in words and as JSON."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import HOLDFAST, Answer, Command, line_that_has, spawn

REFUSING = """
workflow_id: refusing
nodes:
  split: {handler: echo, next: each}
  each:
    type: fan_out
    source: "{{ [1, 2, 3] }}"
    task: {handler: fail, params: {error_message: no luck, permanent: true}}
    next: gather
  gather: {type: fan_in, next: choose}
  choose: {type: conditional, condition: "{{ nodes.gather.output.count }} > 2", on_true: tell, on_false: tell}
  tell: {handler: echo}
"""
SINGLE = """
workflow_id: single
nodes: {each: {type: fan_out, source: "{{ [1] }}", task: {handler: fail, params: {error_message: "", permanent: true}}}}
"""
EMPTY = """
workflow_id: empty
nodes: {each: {type: fan_out, source: "{{ [] }}", task: {handler: echo}}}
"""
GUARDED = """
workflow_id: guarded
nodes:
  each:
    type: fan_out
    source: "{{ [1, 2] }}"
    tolerate: {failures: 1}
    task: {handler: echo, params: {n: "{{ item }}"}}
    rerun: {within_hours: 24}
    next: tell
  tell: {handler: echo, rerun: {safe: never}}
"""
HOLDS = """
workflow_id: holds
nodes:
  long: {handler: stubborn.hold}
"""
STUBBORN = """
import threading
from holdfast import handler

@handler("stubborn.hold")
def hold() -> None:
    threading.Event().wait(600)
"""
NO_JOB = "ffffffffffff"
Job = Callable[[str], str]


@pytest.fixture
def job(database: Command, database_url: str) -> Job:
    """A job in the state that is named."""
    texts = {"refusing": REFUSING, "single": SINGLE, "empty": EMPTY, "guarded": GUARDED, "holds": HOLDS}
    for name, text in texts.items():
        Path(f"{name}.yaml").write_text(text)
    Path("stubborn.py").write_text(STUBBORN)
    Path("given.json").write_text("{}")

    def make(state: str) -> str:
        match state:
            case "none":
                database("status")
                return NO_JOB
            case "failed" | "single" | "empty" | "guarded" | "completed":
                file = {"failed": "refusing", "completed": "flow"}.get(state, state)
                return str(database("run", f"{file}.yaml", "--json").json["job_id"])
            case "old":
                job_id = make("guarded")
                with psycopg.connect(database_url) as connection:
                    connection.execute("update tasks set finished_at = finished_at - interval '25 hours'")
                return job_id
            case "stopping":
                process = spawn("run", "holds.yaml", "--handlers", "stubborn", HOLDFAST_GRACE_SECONDS="500")
                assert process.stderr is not None
                line_that_has(process.stderr, "long: running")
                (one,) = database("status", "--json").json["jobs"]
                assert database("cancel", one["job_id"], "--yes").code == 0
                return str(one["job_id"])
            case _:
                job_id = str(database("submit", "slow.yaml", "--json").json["job_id"])
                if state == "paused":
                    assert database("pause", job_id).code == 0
                return job_id

    return make


def refused(database: Command, words: str, job_id: str) -> tuple[Answer, dict[str, Any]]:
    """The refusal in words and as the problem object; both say the same, and nothing was changed by either."""
    typed = [job_id if word == "JOB" else word for word in words.split()]
    before = database("events", job_id).out
    shown, problem = database(*typed), database(*typed, "--json")
    assert database("events", job_id).out == before
    assert (shown.out, problem.out) == ("", "")
    assert problem.code == shown.code
    found = problem.problem
    assert list(found) == ["type", "title", "status", "detail", "instance", "code", "remedy", "errors"]
    assert shown.err.splitlines()[0] == f"error: {found['detail']}"
    assert shown.err.splitlines()[-1] == f"  → {found['remedy']}"
    assert "JOB" not in shown.err or "holdfast plan JOB" in words or shown.code == 2
    return shown, found


CASES = [
    # state, what is typed, exit code, why, what else
    ("none", "resume JOB", 5, "There is no job", "holdfast status"),
    ("none", "retry JOB each", 5, "There is no job", "holdfast status"),
    ("none", "retry-stage JOB 2", 5, "There is no job", "holdfast status"),
    ("none", "clear JOB each", 5, "There is no job", "holdfast status"),
    ("none", "rerun JOB --from each", 5, "There is no job", "holdfast status"),
    ("none", "skip JOB each", 5, "There is no job", "holdfast status"),
    ("none", "set JOB each --output given.json", 5, "There is no job", "holdfast status"),
    ("none", "cancel JOB", 5, "There is no job", "holdfast status"),
    ("none", "pause JOB", 5, "There is no job", "holdfast status"),
    ("none", "unpause JOB", 5, "There is no job", "holdfast status"),
    ("none", "plan JOB", 5, "There is no job", "holdfast status"),
    ("none", "plan JOB cancel", 5, "There is no job", "holdfast status"),
    ("none", "resume fff", 2, "too short", "last 6 characters"),
    # a node that is not there
    ("failed", "retry JOB missing", 5, "it has no node 'missing'", "split, each, gather, choose, tell"),
    ("failed", "retry-stage JOB 9", 5, "it has no node '9'", "split, each, gather, choose, tell"),
    ("failed", "clear JOB missing", 5, "it has no node 'missing'", "split, each, gather, choose, tell"),
    ("failed", "rerun JOB --from missing", 5, "it has no node 'missing'", "split, each, gather, choose, tell"),
    ("failed", "skip JOB missing", 5, "it has no node 'missing'", "split, each, gather, choose, tell"),
    ("failed", "set JOB missing --output given.json", 5, "it has no node 'missing'", "split, each, gather"),
    # an item that is not there
    ("failed", "clear JOB each --item 99999", 5, "no item 99999. each has 3 items, 0 to 2.", "holdfast status"),
    ("failed", "clear JOB 2 --item 3", 5, "no item 3. each has 3 items, 0 to 2.", "holdfast status"),
    ("failed", "clear JOB each --item 0 --item 7", 5, "no item 7. each has 3 items", "holdfast status"),
    ("failed", f"clear JOB each --item {2**31}", 5, "each has 3 items", "holdfast status"),
    ("failed", f"clear JOB each --item {10**30}", 2, "each has 3 items", "--item 0"),
    ("failed", "clear JOB each --item -1", 2, "no item -1. each has 3 items, 0 to 2.", "holdfast status"),
    ("failed", "clear JOB each --item two", 2, "'two' is not the number of an item. each has 3 items", "--item 0"),
    ("failed", "clear JOB 2 --item 1_0", 2, "'1_0' is not the number of an item. each has 3 items", "--item 0"),
    ("failed", "plan JOB clear each --item two", 2, "each has 3 items, 0 to 2.", "--item 0"),
    ("failed", "clear JOB split --item 0", 5, "split has one task and no items", "clear JOB split"),
    ("failed", "clear JOB missing --item two", 5, "it has no node 'missing'", "split, each"),
    ("failed", "clear JOB tell --item 0", 4, "tell was never reached", "holdfast retry"),
    ("failed", "clear JOB split --item two", 2, "'two' is not the number of an item. split has no items.", "--item 0"),
    ("single", "clear JOB each --item 1", 5, "each has 1 item, 0.", "holdfast status"),
    ("empty", "clear JOB each --item 0", 5, "each has no items.", "holdfast status"),
    # what was never reached
    ("failed", "retry JOB tell", 4, "tell was never reached", "retry JOB each"),
    ("failed", "retry-stage JOB 5", 4, "tell was never reached", "retry JOB each"),
    ("failed", "clear JOB tell", 4, "tell was never reached", "retry JOB each"),
    ("failed", "rerun JOB --from tell", 4, "tell was never reached", "retry JOB each"),
    ("open", "retry JOB nap", 4, "nap was never reached", "Wait until it is reached"),
    # what is in the wrong state
    ("completed", "resume JOB", 4, "it is completed", "rerun JOB --from NODE"),
    ("open", "resume JOB --plan-id 0123456789abcdef", 4, "it is pending", "holdfast why JOB"),
    ("open", "plan JOB resume", 4, "it is pending", "holdfast why JOB"),
    ("failed", "retry JOB split", 4, "split is completed", "rerun JOB --from split"),
    ("failed", "skip JOB split", 4, "split is completed", "rerun JOB --from split"),
    ("failed", "set JOB split --output given.json", 4, "split is completed", "rerun JOB --from split"),
    ("failed", "skip JOB choose", 4, "choose decides what runs", "Skip what it leads to"),
    ("failed", "set JOB each --output given.json", 4, "each has a result for each item", "set the fan-in"),
    ("failed", "clear JOB each --code OTHER", 4, "nothing of it would run again", "holdfast status JOB"),
    ("failed", "clear JOB each --fingerprint f", 4, "nothing of it would run again", "holdfast status JOB"),
    ("completed", "cancel JOB --yes", 4, "it is already completed", "holdfast status JOB"),
    ("completed", "plan JOB cancel", 4, "it is already completed", "holdfast status JOB"),
    ("completed", "pause JOB", 4, "it is already completed", "holdfast status JOB"),
    ("completed", "pause JOB --plan", 4, "it is already completed", "holdfast status JOB"),
    ("failed", "unpause JOB", 4, "it is already failed", "holdfast resume JOB"),
    ("open", "unpause JOB", 4, "it is not paused", "holdfast why JOB"),
    ("open", "plan JOB unpause", 4, "it is not paused", "holdfast why JOB"),
    ("paused", "pause JOB", 4, "has paused it already", "holdfast unpause JOB"),
    ("paused", "plan JOB pause", 4, "has paused it already", "holdfast unpause JOB"),
    ("stopping", "cancel JOB --yes", 4, "it is already stopping (cancelled)", "holdfast watch JOB"),
    ("stopping", "pause JOB", 4, "it is stopping (cancelled)", "holdfast watch JOB"),
    ("stopping", "unpause JOB", 4, "it is stopping (cancelled)", "holdfast watch JOB"),
    ("stopping", "plan JOB resume", 4, "it is still stopping", "holdfast watch JOB"),
    ("stopping", "clear JOB long --yes", 4, "it is still stopping", "holdfast watch JOB"),
    # a plan of something else
    ("failed", "resume JOB --plan-id 0123456789abcdef", 4, "has changed since", "resume SHORT --plan"),
    ("failed", "retry JOB each --plan-id 0123456789abcdef", 4, "has changed since", "retry SHORT each --plan"),
    ("failed", "clear JOB each --item 1 --plan-id 01", 4, "has changed since", "clear SHORT each --item 1 --plan"),
    ("failed", "rerun JOB --from each --plan-id 01", 4, "has changed since", "rerun SHORT --from each --plan"),
    ("failed", "skip JOB each --yes --plan-id 01", 4, "has changed since", "skip SHORT each --plan"),
    ("failed", "set JOB gather --output given.json --plan-id 01", 4, "changed", "gather --output given.json --plan"),
    ("open", "cancel JOB --yes --plan-id 01", 4, "has changed since", "cancel SHORT --plan"),
    ("open", "pause JOB --plan-id 01", 4, "has changed since", "pause SHORT --plan"),
    ("paused", "unpause JOB --plan-id 01", 4, "has changed since", "unpause SHORT --plan"),
    # what was not confirmed
    ("failed", "clear JOB split", 4, "1 task of split had completed and would run again", "--yes"),
    ("failed", "rerun JOB --from split", 4, "1 task of split had completed and would run again", "--yes"),
    ("failed", "skip JOB each", 4, "each would be skipped", "--yes"),
    ("failed", "set JOB gather --output given.json", 4, "set to the contents of given.json", "--yes"),
    ("open", "cancel JOB", 4, "no terminal to ask on", "--yes"),
    # what completed and may not run again, or no longer
    ("guarded", "rerun JOB --from tell", 4, "what tell has completed may never run again", "submit guarded --force"),
    ("guarded", "clear JOB each --item 1 --yes", 4, "tell has completed may never", "the same command and --only"),
    ("old", "rerun JOB --from each --only --yes", 4, "may run again for 24 hours, and these are over", "--force"),
    ("old", "clear JOB each --item 1 --only", 4, "may run again for 24 hours, and these are over", "--force"),
    # what makes no sense
    ("failed", "plan JOB retry", 2, "`retry` needs a node", "plan JOB retry NODE"),
    ("failed", "plan JOB rerun", 2, "`rerun` needs a node", "plan JOB rerun --from NODE"),
    ("failed", "plan JOB set gather", 2, "`set` needs an output", "--output FILE"),
    ("failed", "plan JOB skip each --output given.json", 2, "skip takes no --output", "holdfast set JOB"),
    ("failed", "plan JOB resume each", 2, "resume is about the whole job", "holdfast clear JOB NODE"),
    ("failed", "plan JOB cancel each", 2, "cancel is about the whole job", "holdfast clear JOB NODE"),
    ("failed", "plan JOB retry each --item 1", 2, "retry is about the whole node", "holdfast clear JOB NODE --item N"),
    ("failed", "plan JOB skip each --only", 2, "skip takes no --only", "leave it out"),
    ("failed", "plan JOB explode", 2, "explode", "holdfast plan --help"),
    ("failed", "rerun JOB", 2, "--from", "holdfast rerun --help"),
    ("failed", "set JOB gather", 2, "--output", "holdfast set --help"),
    ("failed", "set JOB gather --output nowhere.json", 2, "There is no output file nowhere.json", "JSON or YAML"),
]  # fmt: skip


@pytest.mark.parametrize("state", sorted({case[0] for case in CASES}))
def test_a_refusal_says_why_and_what_else_can_be_done(database: Command, job: Job, state: str) -> None:
    """All cases of a state share one job: a refusal changes nothing."""
    job_id = job(state)
    for words, code, why, remedy in (case[1:] for case in CASES if case[0] == state):
        shown, problem = refused(database, words, job_id)
        assert shown.code == code, f"{words}: {shown.err}"
        assert why in problem["detail"], words
        wanted = remedy.replace("SHORT", job_id[-8:])
        wanted = wanted if code == 2 else wanted.replace("JOB", job_id)
        assert wanted in problem["remedy"], words


def test_an_ending_that_several_jobs_have_is_refused_with_their_names(database: Command, database_url: str) -> None:
    first, second = (database("submit", "slow.yaml", "--key", key, "--json").json["job_id"] for key in "ab")
    twin = "00000000-0000-7000-8000-" + first[-12:]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("set session_replication_role = replica")
        for table in ("jobs", "events", "inbox"):
            connection.execute(f"update holdfast.{table} set job_id = %s where job_id = %s", (twin, second))
    answer = database("cancel", first[-12:], "--yes")
    assert answer.code == 4
    assert first in answer.err and twin in answer.err and "more characters" in answer.err


def test_a_job_whose_tasks_no_process_can_run_is_not_driven(database: Command, job: Job) -> None:
    Path("holds.yaml").write_text(HOLDS.replace("long: {handler: stubborn.hold}", "long: {handler: missing.handler}"))
    job_id = database("submit", "holds.yaml", "--json").json["job_id"]
    assert database("cancel", job_id, "--yes").code == 0
    shown, problem = refused(database, "resume JOB", job_id)
    assert shown.code == 2
    assert "no handler 'missing.handler'" in problem["errors"][0]["message"]
    assert "--handlers MODULE" in problem["remedy"]


def test_a_plan_with_a_blocked_step_is_shown_before_it_is_refused(database: Command, job: Job) -> None:
    job_id = job("guarded")
    shown, problem = (database("plan", job_id, "rerun", "--from", "each", *flags) for flags in ((), ("--json",)))
    assert (shown.code, problem.code) == (4, 4)
    assert "tell  rerun       1  blocked: what tell has completed may never run again" in shown.out
    assert "what tell has completed may never run again" in shown.err and "--only" in shown.err
    steps = {step["node"]: step.get("blocked") for step in problem.json["steps"]}
    assert steps == {"each": None, "tell": "what tell has completed may never run again"}
    assert (problem.json["command"], problem.problem["code"]) == (None, "REFUSED")


def test_a_person_who_says_no_reads_that_nothing_was_done(
    database: Command, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = job("failed")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *question, **options: False)
    answer = database("skip", job_id, "each")
    assert answer.code == 4
    assert f"Not confirmed; job {job_id} is unchanged" in answer.err and "--plan" in answer.err


def test_what_the_owner_refuses_comes_with_what_else_can_be_done(database: Command, job: Job) -> None:
    """What was looked at has been overtaken by a signal that comes first; the owner reads both in one cycle."""
    job_id = job("failed")
    assert database("resume", job_id, "--detach", "--json").json["answer"] == "pending"
    answer = database("retry", job_id, "each")
    assert answer.code == 4
    why, remedy = answer.err.splitlines()[-2:]
    assert why == f"error: Job {job_id} was not changed by retry: each is running."
    assert remedy == f"  → Run it again all the same: holdfast rerun {job_id} --from each"
    assert database("status", job_id, "--json").json["generation"] == 2


def test_an_interrupt_at_a_question_ends_the_command_at_once(database: Command, job: Job) -> None:
    job_id = job("failed")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(HOLDFAST[0], [*HOLDFAST, "skip", job_id, "each"])
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    with contextlib.suppress(OSError):  # The terminal goes with the command.
        while select.select([terminal], [], [], 30.0)[0] and os.read(terminal, 4096):
            pass
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert database("status", job_id, "--json").json["generation"] == 1
