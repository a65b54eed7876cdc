"""`holdfast janitor`: the log, one pass by hand, and one that only looks."""

from __future__ import annotations

import psycopg

from tests.cli.conftest import Command


def lose_the_signal(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert connection.execute("delete from holdfast.inbox").rowcount == 1


def test_a_dry_run_shows_what_it_would_do_and_once_does_it(database: Command, database_url: str) -> None:
    assert database("janitor", "--once").out == "Nothing was found: everything is in order.\n"
    job_id = database("submit", "flow.yaml", "--json").json["job_id"]
    lose_the_signal(database_url)
    looked = database("janitor", "--dry-run", "--json").json
    assert looked["dry_run"]
    assert [(f["duty"], f["action"], f["job_id"]) for f in looked["findings"]] == [("idle_jobs", "recheck", job_id)]
    assert "holdfast janitor --once" in database("janitor", "--dry-run").err
    assert database("janitor", "--json").json == {"leader": None, "actions": [], "alerts": []}
    done = database("janitor", "--once")
    alerts, findings = done.out.split("\n\n")
    assert (done.code, findings.split()[4:7]) == (0, ["idle_jobs", "recheck", job_id[-8:]])
    assert alerts.split()[5:9] == ["info", "idle_jobs", job_id[-8:], "1"]
    assert "holdfast orchestrator" in done.err
    logged = database("janitor", "--json").json
    (action,), (alert,) = logged["actions"], logged["alerts"]
    assert alert == {
        "severity": "info", "kind": "idle_jobs", "job_id": job_id, "node": None, "count": 1, "since": action["at"],
    }  # fmt: skip
    assert list(action) == [
        "run", "duty", "action", "job_id", "node", "index", "reason", "before", "after", "at",
    ]  # fmt: skip
    assert (action["duty"], action["before"]) == ("idle_jobs", {"status": "pending", "reason": None})
    shown = database("janitor")
    assert "idle_jobs" in shown.out and job_id[-8:] in shown.out
    assert "No process looks after this database now." in shown.err


def test_without_a_database_nothing_is_set_up(command: Command) -> None:
    assert command("janitor").out.startswith("There is no database yet")
    assert command("janitor", "--json").json == {"leader": None, "actions": [], "alerts": []}
    assert command("janitor", "--once", "--json").json == {"dry_run": False, "findings": [], "alerts": []}


def test_nothing_done_is_said(database: Command) -> None:
    database("migrate")
    assert database("janitor").out == "The janitor has had nothing to do.\n"
