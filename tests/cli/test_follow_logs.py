"""`holdfast logs` of a job that runs: what was printed so far, the last lines, and following to the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command, finished, line_that_has, spawn

HANDLERS = """
import time
from pathlib import Path
from holdfast import handler

@handler("talks")
def talks():
    for number in range(4):
        print(f"line {number}")
    while not Path("allowed").exists():
        time.sleep(0.02)
    print("goodbye")

@handler("is_quiet")
def is_quiet():
    while not Path("allowed").exists():
        time.sleep(0.02)
"""


@pytest.fixture(autouse=True)
def files(in_a_directory_of_its_own: Path) -> None:
    Path("talking.py").write_text(HANDLERS)
    for name in ("talks", "is_quiet"):
        Path(f"{name}.yaml").write_text(f"workflow_id: {name}\nnodes: {{a: {{handler: {name}}}}}\n")


def test_logs_show_a_running_attempt_and_follow_it_to_its_end(database: Command) -> None:
    serving = spawn("up", "--handlers", "talking", PYTHONPATH=".", HOLDFAST_LOG_LEVEL="error")
    job = database("submit", "talks.yaml", "--json").json["job_id"]
    shown = next(out for out in (database("logs", job).out for _ in range(1000)) if "| " in out)
    following = spawn("logs", job, "-f", "--tail", "3")
    assert following.stdout is not None
    first = line_that_has(following.stdout, "| ")
    assert first.startswith("a  ") and first.endswith("| line 1\n"), "the last three lines of what was printed before"
    assert "a  attempt 1  running" in shown
    assert [line.partition("| ")[2] for line in shown.splitlines() if "| " in line] == [f"line {n}" for n in range(4)]
    (last,) = database("logs", job, "--node", "a", "--tail", "1", "--json").lines
    assert (last["outcome"], last["log"], last["finished_at"]) == ("running", "line 3\n", None)
    assert [time["line"] for time in last["log_times"]] == [0]
    Path("allowed").touch()
    # The stream has read ahead: what it holds would be missing from the answer of the process.
    rest = following.stdout.read().splitlines()
    assert finished(following).code == 0
    assert [line.partition("| ")[2] for line in rest[:3]] == ["line 2", "line 3", "goodbye"]
    assert rest[3:] == ["a  attempt 1 done"]
    ended = database("logs", job, "--tail", "2").out.splitlines()
    assert [line.partition("| ")[2] for line in ended[1:]] == ["line 3", "goodbye"]
    serving.terminate()
    finished(serving)


def test_logs_of_an_attempt_that_has_printed_nothing_say_so(database: Command) -> None:
    spawn("up", "--handlers", "talking", PYTHONPATH=".")
    job = database("submit", "is_quiet.yaml", "--json").json["job_id"]
    watching = spawn("watch", job)
    assert watching.stderr is not None
    line_that_has(watching.stderr, "a: running")
    answer = database("logs", job)
    assert (answer.code, answer.out) == (0, "")
    assert "Attempt 1 of a is running and has printed nothing yet." in answer.err
    Path("allowed").touch()
    assert finished(watching).code == 0
    assert "Nothing was printed and no attempt failed." in database("logs", job).err
