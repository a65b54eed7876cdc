"""`holdfast run`, as a process of its own and in this one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.session import drive
from holdfast.errors import Bug
from tests.cli.conftest import Command, finished, line_that_has, spawn


@pytest.fixture
def url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", database_url)
    return database_url


def test_a_real_process_runs_a_file_to_its_end_and_says_how_it_ended(url: str) -> None:
    answer = finished(spawn("run", "flow.yaml", "--input", "name=Ada"))
    assert answer.code == 0
    assert "flow completed" in answer.out
    assert "Hello, Ada!" in answer.out
    assert "holdfast events " in answer.out
    assert "each: completed, 3/3 items" in answer.err
    assert "\x1b" not in answer.out + answer.err


def test_json_is_one_status_object_on_stdout_and_nothing_on_stderr(database: Command) -> None:
    answer = database("run", "flow.yaml", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert list(answer.json) == [
        "job_id", "workflow_id", "status", "version", "run", "generation", "tenant", "inputs", "created_at",
        "started_at", "finished_at", "counts", "held", "error", "result", "nodes", "outcome", "owner", "reason",
        "unreadable", "labels", "acknowledged", "corrected",
    ]  # fmt: skip
    assert answer.json["status"] == "completed"
    assert answer.json["result"] == {"message": "Hello, World!", "name": "World"}


@pytest.mark.parametrize(
    ("file", "code", "status"), [("flow", 0, "completed"), ("failing", 1, "failed"), ("half", 3, "partial")]
)
def test_the_exit_code_says_how_the_job_ended(database: Command, file: str, code: int, status: str) -> None:
    answer = database("run", f"{file}.yaml", "--json")
    assert answer.code == code
    assert answer.json["status"] == status


def test_every_run_is_a_new_job(database: Command) -> None:
    first, second = (database("run", "flow.yaml", "--json").json["job_id"] for _ in range(2))
    assert first != second


def test_a_failed_run_shows_the_error_and_where_to_look(database: Command) -> None:
    answer = database("run", "failing.yaml")
    assert "HANDLER_ERROR in second: no luck" in answer.out
    assert "--node second" in answer.out


def test_alike_failures_of_items_are_shown_once(database: Command) -> None:
    answer = database("run", "items.yaml")
    assert answer.code == 1
    assert "each: 3 items failed (0, 1, 2): HANDLER_ERROR: item 1 is bad" in answer.out


def test_a_handler_that_does_not_exist_is_refused_before_a_job_is_made(database: Command, tmp_path: Path) -> None:
    (tmp_path / "unknown.yaml").write_text("workflow_id: u\nnodes: {a: {handler: ecko}}\n")
    answer = database("run", "unknown.yaml")
    assert answer.code == 2
    assert "There is no handler 'ecko' here. Did you mean 'echo'?" in answer.err
    assert "--handlers" in answer.err
    assert database("status", "--json").json["jobs"] == []


def test_handlers_come_from_modules_in_the_working_directory(url: str, tmp_path: Path) -> None:
    (tmp_path / "mine_for_run.py").write_text(
        "from holdfast import handler\n\n@handler('mine')\ndef mine(x: int) -> int:\n    print('note')\n    return 42\n"
    )
    (tmp_path / "mine.yaml").write_text("workflow_id: m\nnodes: {a: {handler: mine, params: {x: 21}}}\n")
    answer = finished(spawn("run", "mine.yaml", "--handlers", "mine_for_run", "--json"))
    assert answer.code == 0, answer.err
    assert answer.json["result"] == 42


LEAVING = """
import sys
from holdfast import handler

@handler("leave.thread")
def thread(status: int): sys.exit(status)

@handler("leave.loop")
async def loop(status: int): sys.exit(status)

@handler("leave.process", isolation="process")
def process(status: int): sys.exit(status)
"""

LEAVES = """
workflow_id: leaves
nodes:
""" + "".join(
    f"  {kind}: {{handler: leave.{kind}, params: {{status: 3}}, importance: optional, next: last,"
    " errors: [{exit_code: 3, class: permanent, code: E3}]}\n"
    for kind in ("thread", "loop", "process")
) + "  last: {handler: leave.thread, params: {status: 0}, retry: {max_retries: 0}}\n"  # fmt: skip


def test_a_handler_that_calls_sys_exit_fails_and_run_ends_as_its_job_does(url: str, tmp_path: Path) -> None:
    (tmp_path / "leaving_handlers.py").write_text(LEAVING)
    (tmp_path / "leaves.yaml").write_text(LEAVES)
    answer = finished(spawn("run", "leaves.yaml", "--handlers", "leaving_handlers", "--json"))
    assert answer.code == 1
    nodes = {node["node"]: node for node in answer.json["nodes"]}
    assert {(nodes[kind]["error"]["code"], nodes[kind]["attempt"]) for kind in ("thread", "loop", "process")} == {
        ("E3", 1)
    }
    assert nodes["last"]["error"]["message"] == "SystemExit: 0"


def test_a_module_of_handlers_that_calls_sys_exit_is_refused(database: Command, tmp_path: Path) -> None:
    (tmp_path / "gone_handlers.py").write_text("raise SystemExit(0)\n")
    answer = database("run", "flow.yaml", "--handlers", "gone_handlers")
    assert answer.code == 2
    assert "'gone_handlers' cannot be imported: gone_handlers.py, line 1: SystemExit: 0" in answer.err


def test_an_exit_that_reaches_the_loop_is_never_taken_for_the_end_of_the_job() -> None:
    async def waits() -> int:
        asyncio.get_running_loop().call_soon(sys.exit, 0)
        await asyncio.Event().wait()
        return 0

    with pytest.raises(Bug, match="SystemExit: 0"):
        drive(waits())


def test_a_thread_that_a_handler_leaves_behind_does_not_keep_the_command(url: str, tmp_path: Path) -> None:
    """Both kinds: one that the handler started, and one of the pool of the loop."""
    (tmp_path / "leaving.py").write_text(
        "import asyncio, threading\n"
        "from holdfast import handler\n\n"
        "@handler('leave')\n"
        "async def leave():\n"
        "    threading.Thread(target=threading.Event().wait, args=(600,)).start()\n"
        "    asyncio.get_running_loop().run_in_executor(None, threading.Event().wait, 600)\n"
        "    return 'left'\n"
    )
    (tmp_path / "leave.yaml").write_text("workflow_id: l\nnodes: {a: {handler: leave}}\n")
    answer = finished(spawn("run", "leave.yaml", "--handlers", "leaving", "--json"))
    assert (answer.code, answer.json["result"]) == (0, "left")


@pytest.mark.parametrize(("name", "text"), [("in.json", '{"name": "Bea"}'), ("in.yaml", "name: Bea\n")])
def test_inputs_come_from_a_file_and_flags_win(database: Command, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert database("run", "flow.yaml", "--inputs", name, "--json").json["result"]["name"] == "Bea"
    both = database("run", "flow.yaml", "--inputs", name, "--input", "name=Cas", "--json")
    assert both.json["result"]["name"] == "Cas"


def test_ctrl_c_leaves_the_job_and_says_how_to_go_on(url: str) -> None:
    process = spawn("run", "slow.yaml", HOLDFAST_GRACE_SECONDS="0.1")
    assert process.stderr is not None
    line_that_has(process.stderr, "nap: running")
    process.send_signal(signal.SIGINT)
    answer = finished(process)
    assert answer.code == 130
    assert "stays as it is" in answer.err
    assert "holdfast up" in answer.err
    assert "holdfast cancel" in answer.err


def test_the_job_of_an_interrupted_run_has_no_owner_and_its_task_went_back(url: str, database: Command) -> None:
    process = spawn("run", "slow.yaml", HOLDFAST_GRACE_SECONDS="0.1")
    assert process.stderr is not None
    line_that_has(process.stderr, "nap: running")
    process.send_signal(signal.SIGINT)
    finished(process)
    job = database("status", "--json").json["jobs"][0]
    assert job["status"] == "running"
    assert database("status", job["job_id"], "--json").json["counts"]["running"] == 0


def test_a_second_ctrl_c_ends_at_once(url: str) -> None:
    process = spawn("run", "slow.yaml", HOLDFAST_GRACE_SECONDS="3000")
    assert process.stderr is not None
    line_that_has(process.stderr, "nap: running")
    process.send_signal(signal.SIGINT)
    line_that_has(process.stderr, "Ctrl-C again ends at once")
    process.send_signal(signal.SIGINT)
    assert finished(process).code == 130


def test_a_reader_that_leaves_is_no_error(url: str) -> None:
    holdfast = Path(sys.executable).with_name("holdfast")
    shell = f"{holdfast} run flow.yaml --json >/dev/null; {holdfast} migrate --ddl | head -n 1; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, env=os.environ.copy(), timeout=60)
    assert ran.stdout.splitlines()[-1] == "0"
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr


def test_without_a_database_url_run_brings_its_own_postgres(tmp_path: Path) -> None:
    answer = finished(spawn("run", "flow.yaml", "--json"), seconds=120)
    assert answer.code == 0, answer.err
    assert (tmp_path / ".holdfast").is_dir()
    assert finished(spawn("status", "--json")).json["jobs"][0]["job_id"] == answer.json["job_id"]


def test_a_run_drives_its_own_job_alone_and_names_others_that_are_unfinished(database: Command) -> None:
    other = database("submit", "flow.yaml", "--json").json["job_id"]
    ran = database("run", "flow.yaml", "--json")
    assert (ran.code, ran.json["status"]) == (0, "completed")
    assert "another job is unfinished" in ran.err and other[-8:] in ran.err and "holdfast up" in ran.err
    assert database("status", other, "--json").json["status"] == "pending"
