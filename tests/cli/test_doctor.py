"""`doctor` and `migrate`: the installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.doctor import _isolation
from holdfast.worker import landlock, network
from tests.cli.conftest import Command, finished, line_that_has, spawn


def grades(answer: object) -> dict[str, str]:
    return {finding["check"]: finding["grade"] for finding in answer["findings"]}  # type: ignore[index]


def test_a_quiet_installation_is_told_as_it_is(database: Command) -> None:
    answer = database("doctor", "--json")
    assert answer.code == 0
    assert grades(answer.json) == {
        "versions": "ok", "settings": "ok", "disk": "ok", "database": "ok", "clock": "ok", "durability": "ok",
        "connections": "ok", "schema": "ok", "orchestrator": "warn", "worker": "warn", "inbox": "ok",
        "isolation": "ok" if network.is_enforced() and landlock.version() else "warn",
    }  # fmt: skip
    assert "holdfast up" in database("doctor").out


def test_a_kernel_that_cannot_close_folders_is_told_with_what_stays_in_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "is_enforced", lambda: True)
    monkeypatch.setattr(landlock, "version", lambda: 0)
    found = _isolation()
    assert (found.grade, "HOLDFAST_HOME" in found.message, "5.19" in str(found.remedy)) == ("warn", True, True)
    monkeypatch.setattr(network, "is_enforced", lambda: False)
    assert _isolation().grade == "warn"


def test_work_that_nobody_takes_is_named(database: Command, tmp_path: Path) -> None:
    (tmp_path / "orphan.yaml").write_text("workflow_id: orphan\nnodes: {a: {handler: nobody.has.it, queue: heavy}}\n")
    job_id = database("submit", "orphan.yaml", "--json").json["job_id"]
    serving = spawn("up")
    following = spawn("watch", job_id)
    assert following.stderr is not None
    line_that_has(following.stderr, "a: dispatched")
    findings = database("doctor", "--json").json["findings"]
    told = next(f for f in findings if f["check"] == "queue")
    assert "nobody.has.it" in told["message"]
    assert "heavy" in told["message"]
    assert any(f["check"] == "orchestrator" and "owns 1 job" in f["message"] for f in findings)
    for process in (serving, following):
        process.terminate()
        finished(process)


def test_an_unreachable_database_is_exit_6_and_the_password_stays_secret(command: Command) -> None:
    answer = command("doctor", "--database-url", "postgresql://me:hunter2@127.0.0.1:1/x")
    assert answer.code == 6
    assert "cannot be reached" in " ".join(answer.out.split())
    assert "hunter2" not in answer.out + answer.err


def test_bad_settings_are_exit_2(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_LEASE_SECONDS", "-1")
    answer = command("doctor", "--json")
    assert answer.code == 2
    assert grades(answer.json)["settings"] == "fail"


def test_a_database_without_our_schema_is_told_how_to_get_it(command: Command, empty_database_url: str) -> None:
    answer = command("doctor", "--database-url", empty_database_url, "--json")
    assert grades(answer.json)["schema"] == "warn"
    assert "holdfast migrate" in str(answer.json)


def test_migrate_applies_what_is_missing_once(command: Command, empty_database_url: str) -> None:
    first = command("migrate", "--database-url", empty_database_url)
    assert first.code == 0
    assert "applied 0001" in first.out
    assert command("migrate", "--database-url", empty_database_url).out == "The schema is up to date.\n"
    assert command("migrate", "--database-url", empty_database_url, "--json").json == {"applied": []}


def test_the_ddl_is_printed_without_a_database(command: Command) -> None:
    answer = command("migrate", "--ddl", "--database-url", "postgresql://nobody@127.0.0.1:1/x")
    assert answer.code == 0
    assert "create table jobs" in answer.out
    assert "create table jobs" in command("migrate", "--ddl", "--json").json["ddl"]
