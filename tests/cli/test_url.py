"""The command line over a URL: the same commands, the same answers, and what needs the database says so."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.bootstrap import KEY_FILE
from tests.cli.conftest import Command, finished, spawn

KEY = "hf_" + "0" * 51


@pytest.fixture
def engine(database_url: str) -> Iterator[None]:
    """A process with an orchestrator and a worker."""
    process = spawn("up", "--json", HOLDFAST_DATABASE_URL=database_url, HOLDFAST_API="0")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["service"] == "up"
    yield
    process.terminate()
    process.wait()


@pytest.mark.usefixtures("engine")
def test_a_job_is_submitted_watched_corrected_and_explained_over_a_url(over_url: Command) -> None:
    made = over_url("submit", "failing.yaml", "--wait", "--json")
    assert (made.code, made.json["status"]) == (1, "failed")
    job_id = made.json["job_id"]
    assert over_url("watch", job_id, "--json").lines[-1] == over_url("status", job_id, "--json").json
    assert "no luck" in over_url("why", job_id).out
    planned = over_url("plan", job_id, "resume", "--json").json
    assert planned["command"].startswith(f"holdfast resume {job_id} --plan-id ")
    again = over_url(*shlex.split(planned["command"])[1:], "--wait", "--json")
    assert (again.code, again.json["generation"]) == (1, 2)
    mended = Path("failing.yaml").read_text().replace("handler: fail, params", "handler: echo, params")
    Path("mended.yaml").write_text(mended)
    done = over_url("resume", job_id, "--workflow", "mended.yaml", "--stale", "rerun", "--yes", "--wait", "--json")
    assert (done.code, done.json["status"], done.json["generation"]) == (0, "completed", 3)
    events = over_url("events", job_id, "--follow", "--json").lines
    assert [one["event"] for one in events][-1] == "job_completed"
    assert [one["seq"] for one in events] == list(range(1, len(events) + 1))


@pytest.mark.usefixtures("engine")
def test_a_task_with_params_of_a_person_is_marked_over_a_url(over_url: Command) -> None:
    job_id = over_url("submit", "flow.yaml", "--wait", "--json").json["job_id"]
    Path("params.json").write_text('{"number": 20}')
    given = ("clear", job_id, "each", "--item", "1", "--params", "params.json", "--yes", "--wait", "--json")
    each = next(one for one in over_url(*given).json["nodes"] if one["node"] == "each")
    assert each["corrected"] == 1
    tasks = over_url("tasks", job_id, "each", "--json").json["tasks"]
    assert [one.get("corrected") for one in tasks] == [None, True, None]
    assert "params corrected" in over_url("tasks", job_id, "each").out
    assert "1 corrected" in over_url("status", job_id).out
    assert "corrected params of each[1]" in over_url("events", job_id).out


@pytest.mark.usefixtures("engine")
def test_a_running_job_is_paused_continued_and_cancelled_over_a_url(over_url: Command) -> None:
    job_id = over_url("submit", "slow.yaml", "--json").json["job_id"]
    assert over_url("pause", job_id, "--reason", "lunch", "--json").json["answer"] == "applied"
    refused = over_url("pause", job_id, "--json")
    assert (refused.code, refused.problem["code"]) == (4, "REFUSED")
    assert over_url("unpause", job_id).code == 0
    assert over_url("cancel", job_id).code == 4, "a cancel must be confirmed"
    cancelled = over_url("cancel", job_id, "--yes", "--json")
    assert (cancelled.code, cancelled.json["verb"]) == (0, "cancel")
    assert over_url("watch", job_id, "--json").code == 7


def test_a_verb_without_an_orchestrator_waits_for_one(over_url: Command) -> None:
    job_id = over_url("submit", "slow.yaml", "--json").json["job_id"]
    sent = over_url("pause", job_id)
    assert sent.code == 0
    assert "its owner has not answered yet" in sent.out
    assert "No orchestrator is running. Start one with: holdfast up" in sent.err


def test_the_service_keeps_the_text_of_the_file(over_url: Command, database_url: str) -> None:
    text = Path("flow.yaml").read_text()
    assert over_url("submit", "flow.yaml").code == 0

    async def stored() -> str:
        async with Client.connect(database_url) as client:
            return (await client.workflow_source("flow")).content

    assert asyncio.run(stored()) == text


def test_a_registered_workflow_is_submitted_by_its_name_over_a_url(over_url: Command) -> None:
    assert over_url("register", "flow.yaml", "--json").json["answer"] == "registered"
    made = over_url("submit", "flow", "--input", "name=Ann", "--json")
    assert (made.code, made.json["answer"], made.json["workflow_id"]) == (0, "created", "flow")
    assert over_url("submit", "flow.yaml", "--input", "name=Ann", "--json").json["answer"] == "already_processing"
    assert over_url("submit", "flw", "--json").code == 5


@pytest.mark.parametrize(
    "line",
    [
        "run flow.yaml",
        "up",
        "orchestrator",
        "api",
        "migrate",
        "prune --yes",
    ],
)
def test_what_needs_the_database_says_so_and_what_to_do(over_url: Command, line: str) -> None:
    answer = over_url(*line.split(), "--json")
    assert (answer.code, answer.problem["code"]) == (2, "NEEDS_A_DATABASE")
    assert "--database-url" in answer.problem["remedy"]


def test_the_doctor_examines_the_service_and_not_the_database(over_url: Command, served: tuple[str, str]) -> None:
    report = over_url("doctor", "--json")
    found = {one["check"]: one["message"] for one in report.json["findings"]}
    assert report.code == 0
    assert found["service"].startswith(f"{served[0]} answers; the key is that of ")
    assert "behind the service" in found["database"]


def test_the_flags_exclude_each_other_and_so_do_the_variables(
    database: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = database("status", "--url", "http://127.0.0.1:1", "--database-url", "postgresql://a@b/c")
    assert (both.code, "exclude each other" in both.err) == (2, True)
    other = database("status", "--database-url", "http://127.0.0.1:8321")
    assert (other.code, "--url http://127.0.0.1:8321" in other.err) == (2, True)
    assert database("status", "--url", "127.0.0.1:8321").code == 2
    monkeypatch.setenv("HOLDFAST_URL", "http://127.0.0.1:1")
    assert database("status").code == 2
    monkeypatch.delenv("HOLDFAST_DATABASE_URL")
    assert database("status").code == 6


def test_a_flag_wins_over_a_variable(database: Command, served: tuple[str, str], database_url: str) -> None:
    key = {"HOLDFAST_API_KEY": served[1]}
    assert finished(spawn("status", "--url", served[0], "--json", **key)).code == 0
    served_elsewhere = {"HOLDFAST_URL": "http://127.0.0.1:1"}
    assert finished(spawn("status", "--database-url", database_url, **served_elsewhere)).code == 0


def test_a_command_that_is_advised_names_the_url_again(
    command: Command, served: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, key = served
    monkeypatch.setenv("HOLDFAST_API_KEY", key)
    answer = command("submit", "flow.yaml", "--url", url)
    watch = next(line for line in answer.err.splitlines() if "holdfast watch" in line)
    assert watch.endswith(f" --url {url}")
    assert "holdfast up\n" in answer.err, "one starts a service beside its database"


def test_on_this_machine_the_key_of_who_started_the_service_is_used(
    command: Command, served: tuple[str, str], tmp_path: Path
) -> None:
    url, key = served
    refused = command("status", "--url", url, "--json")
    assert (refused.code, refused.problem["code"]) == (4, "UNAUTHENTICATED")
    assert "HOLDFAST_API_KEY" in refused.problem["remedy"]
    home = tmp_path / ".holdfast"
    home.mkdir()
    (home / KEY_FILE).write_text(f"{key}\n")
    assert command("status", "--url", url, "--json").code == 0


def test_only_an_administrator_of_the_installation_names_a_tenant(over_url: Command) -> None:
    made = over_url("submit", "flow.yaml", "--tenant", "acme", "--json").json
    assert over_url("status", made["job_id"], "--tenant", "acme", "--json").json["tenant"] == "acme"
    assert over_url("status", made["job_id"], "--json").code == 5
    key = over_url("keys", "add", "ours", "--role", "admin", "--tenant", "acme", "--json").json["key"]
    theirs = finished(spawn("status", made["job_id"], "--json", HOLDFAST_API_KEY=key))
    assert theirs.json["tenant"] == "acme"
    refused = finished(spawn("status", "--tenant", "default", "--json", HOLDFAST_API_KEY=key))
    assert (refused.code, refused.problem["code"]) == (4, "FORBIDDEN")


def test_a_service_out_of_reach_has_the_exit_code_for_that_and_shows_no_key(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_API_KEY", KEY)
    monkeypatch.setenv("HOLDFAST_LOG_LEVEL", "debug")
    answer = command("status", "--url", "http://127.0.0.1:1")
    assert answer.code == 6
    assert "The service at http://127.0.0.1:1 does not answer" in answer.err
    assert KEY not in answer.err + answer.out


def test_no_log_shows_the_key(over_url: Command, served: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_LOG_LEVEL", "debug")
    answer = over_url("status")
    assert answer.code == 0
    assert served[1] not in answer.err + answer.out


@pytest.mark.usefixtures("engine")
def test_data_of_a_job_is_read_over_a_url(over_url: Command) -> None:
    job_id = over_url("submit", "flow.yaml", "--wait", "--json").json["job_id"]
    assert over_url("output", job_id, "gather", "--json").json["value"]["count"] == 3
    assert over_url("params", job_id, "each", "--item", "1", "--json").json["value"] == {"number": 2}
    assert [one["index"] for one in over_url("tasks", job_id, "each", "--json").json["tasks"]] == [0, 1, 2]
    assert over_url("stats", "--json").json["jobs"]["completed"] == 1
