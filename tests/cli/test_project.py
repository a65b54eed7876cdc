"""Commands in a folder with a project file: they need no --handlers."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Command, finished, line_that_has, spawn

SALES = "from holdfast import handler\n\n@handler\ndef report(day: str) -> str:\n    return f'sales of {day}'\n"
FLOW = """
workflow_id: nightly
nodes:
  report: {handler: project_sales.report, params: {day: monday}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project_sales.py").write_text(SALES)
    (tmp_path / "holdfast.toml").write_text('handlers = ["project_sales"]\nqueues = ["default"]\n')
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "nightly.yaml").write_text(FLOW)
    return tmp_path


def test_run_validate_and_resume_find_the_handlers_of_the_project(
    project: Path, database: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "flows")
    assert database("validate", "nightly.yaml").code == 0
    answer = database("run", "nightly.yaml", "--json")
    assert (answer.code, answer.json["result"]) == (0, "sales of monday")
    (project / "flows" / "wrong.yaml").write_text(FLOW.replace("sales.report", "sales.raport"))
    assert "Did you mean 'project_sales.report'?" in database("validate", "wrong.yaml").err
    submitted = database("submit", "nightly.yaml")
    assert "holdfast up" in submitted.err and "--handlers" not in submitted.err


def test_a_worker_serves_the_queues_of_the_project(project: Path, database_url: str) -> None:
    process = spawn("worker", "--json", HOLDFAST_DATABASE_URL=database_url)
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())
    process.terminate()
    finished(process)
    assert ready["queues"] == ["default"]
    assert "project_sales.report" in ready["handlers"]


def test_doctor_names_the_project_file(project: Path, database: Command) -> None:
    findings = {one["check"]: one for one in database("doctor", "--json").json["findings"]}
    assert findings["project"]["message"] == f"{project / 'holdfast.toml'} sets handlers, queues"
    (project / "holdfast.toml").unlink()
    findings = {one["check"]: one for one in database("doctor", "--json").json["findings"]}
    assert findings["project"]["message"].startswith("no holdfast.toml")


def test_a_wrong_project_file_is_refused_by_every_command(project: Path, command: Command) -> None:
    (project / "holdfast.toml").write_text("handlrs = []\n")
    for words in (["status"], ["validate", "flow.yaml"], ["run", "flow.yaml"]):
        answer = command(*words)
        assert answer.code == 2
        assert "holdfast.toml:1:1: There is no key 'handlrs'. Did you mean 'handlers'?" in answer.err


def test_a_worker_with_older_code_than_its_files_is_named(project: Path, database: Command, database_url: str) -> None:
    (project / "flows" / "nightly.yaml").write_text(FLOW.replace("day: monday", "wrong: 1"))
    process = spawn("up", HOLDFAST_DATABASE_URL=database_url, HOLDFAST_RENEW_SECONDS="0.2")
    line_that_has(process.stderr, "up is running")
    job = database("submit", "flows/nightly.yaml", "--wait", "--json").json["job_id"]
    (project / "project_sales.py").write_text(f"{SALES}# corrected\n")
    logged = line_that_has(process.stderr, "older_code")
    assert re.search(r" warning  older_code +worker=\S+ files=project_sales.py reason=\"restart the worker\"$", logged)
    deadline = time.monotonic() + 30
    while not (workers := database("status", "--json").json["workers"])[0]["changed_files"]:
        assert time.monotonic() < deadline
    name = workers[0]["name"]
    assert f"→ {name} runs older code than project_sales.py: restart it" in database("status").out
    assert f"  {name} runs older code than project_sales.py: restart it" in database("why", job).out
    doctor = database("doctor", "--json").json["findings"]
    assert [one for one in doctor if one["check"] == "worker" and one["grade"] == "warn"] == [
        {
            "check": "worker",
            "grade": "warn",
            "message": f"{name} runs older code than project_sales.py",
            "remedy": "Restart it.",
        }
    ]
