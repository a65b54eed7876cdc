"""`holdfast.run`: a workflow from a script or a notebook."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast
from holdfast import InvalidDefinition, InvalidInput, JobFailed, Permanent, Workflow, handler


@handler("running.double")
def double(x: int) -> int:
    return 2 * x


@handler("running.refuse")
def refuse() -> None:
    raise Permanent("no such customer", code="UNKNOWN_CUSTOMER")


def doubling() -> Workflow:
    flow = Workflow("doubling", inputs={"x": {"type": "integer", "required": True}})
    flow.task("a", handler=double, params={"x": "{{ inputs.x }}"})
    return flow


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_GRACE_SECONDS", "0.2")


def test_a_workflow_runs_and_the_job_is_returned(database_url: str) -> None:
    job = holdfast.run(doubling(), {"x": 4}, database_url=database_url)
    assert (job.status, job.result, job.inputs) == ("completed", 8, {"x": 4})


def test_it_runs_inside_a_running_event_loop(database_url: str) -> None:
    async def notebook() -> Any:
        return holdfast.run(doubling(), {"x": 5}, database_url=database_url)

    assert asyncio.run(notebook()).result == 10


def test_a_failed_job_is_an_error_with_its_id_and_the_next_command(database_url: str) -> None:
    flow = Workflow("asking")
    flow.task("ask", handler=refuse)
    with pytest.raises(JobFailed) as failed:
        holdfast.run(flow, database_url=database_url)
    job, name = failed.value.job, failed.value.job.job_id[-8:]
    assert failed.value.message == (f"Job {job.job_id} of asking failed in ask: UNKNOWN_CUSTOMER: no such customer")
    assert failed.value.remedy == (
        f"See why with: holdfast why {name}. Continue it with: holdfast resume {name} --handlers tests.test_running"
    )
    assert str(failed.value).endswith("--handlers tests.test_running")
    assert (job.status, job.error.code) == ("failed", "UNKNOWN_CUSTOMER")


def test_files_and_modules_of_handlers_are_accepted(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "run_tripling.py").write_text(
        "from holdfast import handler\n\n@handler\ndef triple(x):\n    return 3 * x\n"
    )
    (tmp_path / "flow.yaml").write_text(
        "workflow_id: tripling\nnodes: {a: {handler: run_tripling.triple, params: {x: 2}}}\n"
    )
    assert holdfast.run("flow.yaml", handlers=["run_tripling"], database_url=database_url).result == 6
    (tmp_path / "holdfast.toml").write_text('handlers = ["run_tripling"]\n')
    assert holdfast.run(tmp_path / "flow.yaml", database_url=database_url).result == 6
    flow = Workflow("w")
    flow.task("a", handler="running.triple")
    with pytest.raises(InvalidInput, match=r"no handler 'running\.triple'"):
        holdfast.run(flow, database_url=database_url)


def test_params_that_do_not_fit_a_handler_are_refused_before_a_job_is_made(tmp_path: Path) -> None:
    """No database is needed for it: the address leads nowhere."""
    nowhere = "postgresql://nowhere.invalid/none"
    flow = Workflow("doubling")
    flow.task("a", handler=double, params={"y": "{{ inputs.x }}"})
    (tmp_path / "w.yaml").write_text("workflow_id: w\nnodes:\n  a: {handler: running.double, params: {x: two}}\n")
    with pytest.raises(InvalidDefinition, match=r"The handler running\.double of node 'a' has no parameter 'y'\."):
        holdfast.run(flow, {"x": 4}, database_url=nowhere)
    with pytest.raises(InvalidDefinition, match=r"(?s)w\.yaml has an error.*w\.yaml:3:44: .*'x' must be int, not str"):
        holdfast.run("w.yaml", handlers=[double], database_url=nowhere)
    with pytest.raises(InvalidDefinition, match=r"^The workflow doubling has 2 errors"):
        holdfast.run(flow.definition(), handlers=[double], database_url=nowhere)


def test_a_job_that_takes_too_long_stays_and_the_error_names_its_node(database_url: str) -> None:
    flow = Workflow("w")
    flow.task("nap", handler="sleep", params={"duration_seconds": 600})
    with pytest.raises(TimeoutError, match=r"did not end within 0\.5 s: nap is \w+$"):
        holdfast.run(flow, database_url=database_url, timeout=0.5)


SCRIPT = """
import holdfast
from holdfast import Workflow, handler


@handler
def greet(name: str) -> str:
    print("captured")
    return f"Hello, {name}!"


flow = Workflow("greeting")
flow.task("greet", handler=greet, params={"name": "Ada"})

if __name__ == "__main__":
    print(holdfast.run(flow).result)
"""


def test_a_script_needs_no_database(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    ran = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, env=environment, check=False)
    assert (ran.returncode, ran.stdout) == (0, "Hello, Ada!\n"), ran.stderr
    assert ran.stderr == ""
    assert (tmp_path / ".holdfast").is_dir()


def test_ctrl_c_hands_the_tasks_back_and_keeps_the_job(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "long.py").write_text(
        # As in a terminal: the children of a shell's background job ignore it.
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import asyncio, pathlib\nimport holdfast\n\n"
        "@holdfast.handler\nasync def nap():\n    pathlib.Path('begun').touch()\n    await asyncio.sleep(600)\n\n"
        "flow = holdfast.Workflow('long')\nflow.task('nap', handler=nap)\n"
        "holdfast.run(flow)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "long.py"],
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "HOLDFAST_DATABASE_URL": database_url,
        },
    )
    try:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            # Ends it, and prints where each thread is.
            process.send_signal(signal.SIGABRT)
            pytest.fail(f"it did not end: {process.communicate()[1]}")
    finally:
        process.kill()
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert "never retrieved" not in errors and "was destroyed" not in errors
    with psycopg.connect(database_url) as connection:
        states = connection.execute("select state from holdfast.queue").fetchall()
        alive = connection.execute("select count(*) from holdfast.workers where ended_at is null").fetchone()
    assert (states, alive) == ([("ready",)], (0,))
