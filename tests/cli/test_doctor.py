"""`doctor` and `migrate`: the installation."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from holdfast.cli.doctor import _isolation
from holdfast.store.installation import PostgresInstallation
from holdfast.worker import landlock, network
from tests.chaos.faults import can_mount, small_disk
from tests.cli.conftest import Answer, Command, finished, line_that_has, spawn

NOWHERE = "postgresql://127.0.0.1:1/x"
"""A service that is not refused ends all the same."""
ONE = "workflow_id: one\nnodes: {a: {handler: echo}}\n"


def grades(answer: object) -> dict[str, str]:
    return {finding["check"]: finding["grade"] for finding in answer["findings"]}  # type: ignore[index]


def test_a_quiet_installation_has_only_good_findings(database: Command) -> None:
    answer = database("doctor", "--json")
    assert answer.code == 0
    assert grades(answer.json) == {
        "versions": "ok", "project": "ok", "settings": "ok", "disk": "ok", "database": "ok", "clock": "ok",
        "durability": "ok", "connections": "ok", "writing": "ok", "schema": "ok", "orchestrator": "warn",
        "worker": "warn", "inbox": "ok",
        "isolation": "ok" if network.is_enforced() and landlock.version() else "warn",
    }  # fmt: skip
    assert "holdfast up" in database("doctor").out


def test_a_kernel_that_cannot_close_folders_is_a_warning_that_names_what_stays_in_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network, "is_enforced", lambda: True)
    monkeypatch.setattr(landlock, "version", lambda: 0)
    found = _isolation()
    assert (found.grade, "HOLDFAST_HOME" in found.message, "5.19" in str(found.remedy)) == ("warn", True, True)
    monkeypatch.setattr(network, "is_enforced", lambda: False)
    assert _isolation().grade == "warn"


def test_work_that_no_worker_takes_is_named(database: Command, tmp_path: Path) -> None:
    (tmp_path / "orphan.yaml").write_text("workflow_id: orphan\nnodes: {a: {handler: missing.handler, queue: heavy}}\n")
    job_id = database("submit", "orphan.yaml", "--json").json["job_id"]
    serving = spawn("up")
    following = spawn("watch", job_id)
    assert following.stderr is not None
    line_that_has(following.stderr, "a: dispatched")
    findings = database("doctor", "--json").json["findings"]
    finding = next(f for f in findings if f["check"] == "queue")
    assert "missing.handler" in finding["message"]
    assert "heavy" in finding["message"]
    assert any(f["check"] == "orchestrator" and "owns 1 job" in f["message"] for f in findings)
    for process in (serving, following):
        process.terminate()
        finished(process)


def test_an_unreachable_database_is_exit_6_and_the_password_stays_secret(command: Command) -> None:
    answer = command("doctor", "--database-url", "postgresql://me:hunter2@127.0.0.1:1/x")
    assert answer.code == 6
    assert "cannot be reached" in " ".join(answer.out.split())
    assert "hunter2" not in answer.out + answer.err


def test_one_task_at_a_time_is_one(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CONCURRENCY", "1")
    assert ", 1 task at a time" in command("doctor").out


def test_bad_settings_are_exit_2(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_LEASE_SECONDS", "-1")
    answer = command("doctor", "--json")
    assert answer.code == 2
    assert grades(answer.json)["settings"] == "fail"


def test_wrong_settings_of_an_app_are_named_and_a_worker_does_not_start_with_them(
    database: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_RASTER_CONTAINERS", "silver=ftp://host/x")
    monkeypatch.setenv("HOLDFAST_RASTER_ROOTS", "/nowhere")
    answer = database("doctor", "--json")
    assert answer.code == 2
    wrong, missing = [finding for finding in answer.json["findings"] if finding["check"] == "raster"]
    assert (wrong["grade"], missing["grade"]) == ("fail", "warn")
    assert wrong["message"] == "HOLDFAST_RASTER_CONTAINERS has the invalid entry 'silver=ftp…'."
    assert "NAME=s3://BUCKET/FOLDER" in wrong["remedy"]
    for service in ("worker", "up"):
        refused = database(service, "--database-url", NOWHERE)
        assert refused.code == 2
        assert f"{wrong['message']} {wrong['remedy']}" in refused.err and "/nowhere" not in refused.err
    assert database("run", "flow.yaml").code == 0, "it runs no task of that app"
    monkeypatch.delenv("HOLDFAST_RASTER_CONTAINERS")
    assert database("doctor").code == 0, "a warning"


def test_a_module_of_handlers_may_check_its_own_settings(command: Command, tmp_path: Path) -> None:
    (tmp_path / "harbour_tides.py").write_text(
        "from holdfast import handler\n"
        "from holdfast.extend.settings import SettingsCheck, SettingsProblem, variable\n\n"
        "def problems():\n"
        "    if not variable('TIDES'):\n"
        "        yield SettingsProblem('HOLDFAST_TIDES is missing.', 'Name the harbour.')\n\n"
        "CHECK = SettingsCheck('tides', problems)\n\n"
        "@handler('tides.high')\ndef high() -> None: ...\n"
    )
    (tmp_path / "holdfast.toml").write_text('handlers = ["harbour_tides"]\n')
    refused = command("worker", "--database-url", NOWHERE)
    assert refused.code == 2 and "HOLDFAST_TIDES is missing. Name the harbour." in refused.err
    assert grades(command("doctor", "--json").json)["tides"] == "fail"


def test_handlers_that_cannot_be_imported_are_a_finding(command: Command, tmp_path: Path) -> None:
    (tmp_path / "torn_handlers.py").write_text("1 / 0\n")
    (tmp_path / "holdfast.toml").write_text('handlers = ["torn_handlers"]\n')
    answer = command("doctor", "--json")
    assert (answer.code, grades(answer.json)["handlers"]) == (2, "fail")


def test_a_database_without_our_schema_says_how_to_get_it(command: Command, empty_database_url: str) -> None:
    answer = command("doctor", "--database-url", empty_database_url, "--json")
    assert answer.code == 6
    assert grades(answer.json)["schema"] == "fail"
    assert "holdfast migrate" in str(answer.json)
    assert "database from --database-url" in str(answer.json)


def test_a_schema_of_another_application_is_named(command: Command, empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("create schema holdfast create table parts (n int)")
    answer = command("doctor", "--database-url", empty_database_url)
    assert answer.code == 6
    assert "belongs to another application" in " ".join(answer.out.split())


@pytest.mark.parametrize(
    "words",
    [
        "status", "events 0123456", "why 0123456", "limits", "breakers", "janitor --once", "submit one.yaml",
        "run one.yaml", "up", "worker", "orchestrator",
    ],
)  # fmt: skip
def test_no_command_but_migrate_changes_an_empty_database(
    command: Command, empty_database_url: str, words: str
) -> None:
    Path("one.yaml").write_text(ONE)
    answer = command(*words.split(), "--database-url", empty_database_url)
    assert answer.code == 6
    assert "There is no schema holdfast in this database" in answer.err
    assert "holdfast migrate" in answer.err
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        assert connection.execute("select from pg_namespace where nspname = 'holdfast'").fetchall() == []


def test_up_sets_an_empty_database_up_if_asked(command: Command, empty_database_url: str) -> None:
    Path("one.yaml").write_text(ONE)
    process = spawn("up", "--migrate", "--database-url", empty_database_url)
    assert process.stderr is not None
    line_that_has(process.stderr, "up is running")
    assert command("submit", "one.yaml", "--wait", "--database-url", empty_database_url).code == 0
    process.terminate()
    assert finished(process).code == 0


def test_statements_that_were_run_by_hand_are_found_by_migrate(command: Command, empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(command("migrate", "--ddl").out.encode())
    assert command("migrate", "--database-url", empty_database_url).out == "The schema is up to date.\n"


def test_bootstrap_shows_makes_and_rebuilds_the_schema(command: Command, empty_database_url: str) -> None:
    def bootstrap(*words: str) -> Answer:
        return command("bootstrap", *words, "--database-url", empty_database_url)

    assert "has not been set up" in bootstrap().out and "holdfast migrate" in bootstrap("status").err
    assert bootstrap("tables", "--json").json == {"tables": []}
    assert "applied 0001" in bootstrap("deploy").out
    state = bootstrap("status", "--json").json
    assert (state["is_current"], state["missing"]) == (True, [])
    Path("one.yaml").write_text(ONE)
    assert command("run", "one.yaml", "--database-url", empty_database_url).code == 0
    assert {"table": "jobs", "rows": 1} in [
        {"table": one["table"], "rows": one["rows"]} for one in bootstrap("tables", "--json").json["tables"]
    ]
    name = empty_database_url.rsplit("/", 1)[1]
    for wrong in ((), ("postgres",)):
        refused = bootstrap("rebuild", *wrong)
        assert refused.code == 4 and f"holdfast bootstrap rebuild {name}" in refused.err
    assert "Every job is gone" in bootstrap("rebuild", name).out
    assert command("status", "--database-url", empty_database_url, "--json").json["jobs"] == []


def test_a_database_that_takes_no_writes_is_exit_6(command: Command, database_url: str) -> None:
    name = database_url.rsplit("/", 1)[1]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"alter database {name} set default_transaction_read_only = on".encode())
        try:
            answer = command("doctor", "--database-url", database_url, "--json")
        finally:
            connection.execute(f"alter database {name} reset default_transaction_read_only".encode())
    assert answer.code == 6
    assert grades(answer.json)["writing"] == "fail"
    assert "takes no writes" in str(answer.json)


@pytest.mark.skipif(not can_mount(), reason="only root may mount the small disk that this fills")
def test_a_full_disk_is_exit_6(command: Command, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as server:
        url = server.new_database()
        # The first connection to a database writes a file; without it no session could begin.
        psycopg.connect(url).close()
        with suppress(OSError), (server.home / "ballast").open("wb") as file:
            while True:
                file.write(bytes(2**16))
        answer = command("doctor", "--database-url", url, "--json")
    assert answer.code == 6
    assert grades(answer.json)["writing"] == "fail"
    assert "has no room on its disk" in str(answer.json)


def test_a_home_that_cannot_be_written_is_exit_6(
    command: Command, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", "/proc/holdfast")
    answer = command("doctor", "--database-url", database_url, "--json")
    assert answer.code == 6
    assert grades(answer.json)["home"] == "fail"


def test_migrate_applies_what_is_missing_once(command: Command, empty_database_url: str) -> None:
    first = command("migrate", "--database-url", empty_database_url)
    assert first.code == 0
    assert "applied 0001" in first.out
    assert command("migrate", "--database-url", empty_database_url).out == "The schema is up to date.\n"
    assert command("migrate", "--database-url", empty_database_url, "--json").json == {"applied": []}


def test_migrate_says_who_can_make_the_role_of_operators_where_it_may_not(
    command: Command, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def may_not(installation: PostgresInstallation) -> bool:
        return False

    monkeypatch.setattr(PostgresInstallation, "admit_operators", may_not)
    first = command("migrate", "--database-url", empty_database_url)
    assert first.code == 0 and "applied 0027" in first.out
    assert "Let an administrator run: create role holdfast_operator; Then run: holdfast migrate" in first.err
    # Those who do not need the role are not reminded of it.
    assert command("migrate", "--database-url", empty_database_url).err == ""


def test_the_ddl_is_printed_without_a_database(command: Command) -> None:
    answer = command("migrate", "--ddl", "--database-url", "postgresql://someone@127.0.0.1:1/x")
    assert answer.code == 0
    assert "create table jobs" in answer.out
    assert "create table jobs" in command("migrate", "--ddl", "--json").json["ddl"]
