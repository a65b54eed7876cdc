"""`holdfast breakers`: what people see of them, and what happens to tasks when a person changes one."""

from __future__ import annotations

import json
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.operations.scope import current_actor
from tests.cli.conftest import Command, finished, spawn
from tests.cli.test_fleet import Start, node_of, started, status_of, until

__all__ = ["started"]

BEHIND = """
workflow_id: behind
breakers: {gateway: {window_calls: 4, min_calls: 2, cooldown_seconds: 600}}
nodes:
  call: {handler: echo, breaker: gateway}
"""
SHARED = """
workflow_id: shared
nodes:
  nap: {handler: sleep, params: {duration_seconds: 600}, concurrency: {limit: 1, key: bed}, next: other}
  other: {handler: echo}
"""
TYPES = {"until": "timestamptz", "calls": "jsonb", "settings": "jsonb"}
KEYS = [
    "name", "state", "held_by", "since", "until", "has_probe", "calls", "failed", "window_calls", "successes",
    "waiting", "running", "reason", "actor",
]  # fmt: skip


def submitted(database: Command, text: str = BEHIND, name: str = "behind", *more: str) -> str:
    Path(f"{name}.yaml").write_text(text)
    return str(database("submit", f"{name}.yaml", "--json", *more).json["job_id"])


def breaker(database: Command, name: str = "gateway") -> dict[str, Any]:
    found: list[dict[str, Any]] = database("breakers", "--json").json["breakers"]
    assert all(list(one) == KEYS for one in found)
    return next((one for one in found if one["name"] == name), {})


def declared(database: Command, started: Start) -> str:
    """A job behind a breaker, driven by an orchestrator; there is no worker yet."""
    job_id = submitted(database)
    started("orchestrator")
    until(lambda: breaker(database).get("waiting") == 1)
    return job_id


def soon() -> str:
    """A time before the end of the cooldown, but not by much."""
    return (datetime.now(UTC) + timedelta(seconds=590)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def put(url: str, **columns: Any) -> None:
    """The breaker as an owner would have written it."""
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as connection:
        for column, value in columns.items():
            statement = f"update breakers set {column} = %s::{TYPES.get(column, 'text')}"
            connection.execute(statement.encode(), (value,))


def changes(url: str) -> list[tuple[str, str, str | None]]:
    with psycopg.connect(url, options="-c search_path=holdfast") as connection:
        return connection.execute("select state, reason, actor from breaker_changes order by id").fetchall()


def test_what_a_person_opens_stays_open_until_a_person_closes_it(
    database: Command, database_url: str, started: Start
) -> None:
    job_id = declared(database, started)
    opened = database("breakers", "open", "gateway", "--yes", "--reason", "maintenance", "--json").json
    me = current_actor()
    assert (opened["verb"], opened["breaker"]["state"], opened["breaker"]["held_by"]) == ("open", "open", me)
    started("worker")
    until(lambda: database("status", "--json").json["workers"])
    shown = " ".join(database("breakers").out.split())
    assert f"held by {me}: maintenance" in shown
    assert "holdfast breakers close gateway" in database("breakers").err
    assert node_of(database, job_id, "call")["status"] == "dispatched"
    closed = database("breakers", "close", "gateway", "--yes")
    assert (closed.code, closed.out) == (0, "Breaker gateway is closed; 1 task behind it.\n")
    until(lambda: status_of(database, job_id)["status"] == "completed")
    assert changes(database_url) == [("open", "maintenance", me), ("closed", "closed by hand", me)]


def test_a_change_whose_command_is_killed_before_its_commit_never_was(
    database: Command, database_url: str, started: Start
) -> None:
    declared(database, started)
    opening = ("breakers", "open", "gateway", "--yes")
    assert finished(spawn(*opening, HOLDFAST_FAILPOINT="breaker.changed:kill")).code == -signal.SIGKILL
    assert breaker(database)["state"] == "closed"
    assert changes(database_url) == []
    assert database(*opening).code == 0
    assert breaker(database)["state"] == "open"


def test_a_breaker_that_opened_by_itself_says_why_and_when_it_is_tried(
    database: Command, database_url: str, started: Start
) -> None:
    declared(database, started)
    put(database_url, state="open", reason="2 of the last 2 calls failed", until=soon())
    assert "2 of the last 2 calls failed; tried again at" in " ".join(database("breakers").out.split())
    put(database_url, state="half_open", settings=json.dumps({"window_calls": 1}))
    assert "0 of 1 call succeeded" in " ".join(database("breakers").out.split())
    put(database_url, state="open", settings=json.dumps({"probe_url": "http://localhost/", "window_calls": 4}))
    found = breaker(database)
    assert (found["state"], found["held_by"], found["has_probe"]) == ("open", None, True)
    assert "waits for its probe" in " ".join(database("breakers").out.split())


def test_a_job_behind_an_open_breaker_is_held_and_says_until_when(
    database: Command, database_url: str, started: Start
) -> None:
    job_id = declared(database, started)
    status = status_of(database, job_id)
    assert (status["held"], node_of(database, job_id, "call")["held"]) == (None, None)
    in_a_while = soon()
    put(database_url, state="open", reason="2 of the last 2 calls failed", until=in_a_while)
    status = status_of(database, job_id)
    since = breaker(database)["since"]
    held: dict[str, Any] = {"by": "breaker", "name": "gateway", "since": since, "until": in_a_while}
    held["reason"] = "2 of the last 2 calls failed"
    assert status["held"] == held
    assert list(status["held"]) == list(held)
    assert node_of(database, job_id, "call")["held"] == held
    started("worker")
    until(lambda: "held by breaker gateway, for" in " ".join(database("status", job_id).out.split()))
    shown = " ".join(database("status", job_id).out.split())
    assert "Held by breaker gateway since" in shown
    assert ", tried again at" in shown
    put(database_url, state="closed")
    assert status_of(database, job_id)["held"] is None


def test_a_job_is_held_by_a_limit_that_another_job_fills(database: Command, started: Start) -> None:
    first = submitted(database, SHARED, "shared", "--key", "one")
    started("orchestrator")
    started("worker")
    until(lambda: node_of(database, first, "nap")["status"] == "running")
    second = submitted(database, SHARED, "shared", "--key", "two")
    held = until(lambda: status_of(database, second)["held"])
    assert (held["by"], held["name"], held["until"]) == ("limit", "key:bed", None)
    assert node_of(database, second, "other")["held"] is None
    assert status_of(database, first)["held"] is None


def test_a_reset_forgets_the_failures(database: Command, database_url: str, started: Start) -> None:
    declared(database, started)
    put(database_url, calls="[[1.0, true], [2.0, false]]")
    assert (breaker(database)["failed"], breaker(database)["calls"]) == (1, 2)
    assert "1 of 2" in database("breakers").out
    assert database("breakers", "reset", "gateway", "--yes", "--reason", "new cable").code == 0
    assert (breaker(database)["failed"], breaker(database)["calls"]) == (0, 0)
    assert changes(database_url) == [("closed", "new cable", current_actor())]


def test_what_makes_no_sense_is_refused_and_changes_nothing(
    database: Command, database_url: str, started: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared(database, started)
    unasked = database("breakers", "open", "gateway")
    assert (unasked.code, "--yes" in unasked.err) == (4, True)
    closed = database("breakers", "close", "gateway", "--yes")
    assert (closed.code, "closed already" in closed.err) == (4, True)
    assert changes(database_url) == []
    assert database("breakers", "open").code == 2
    assert database("breakers", "break", "gateway").code == 2
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *question, **options: False)
    assert database("breakers", "open", "gateway").code == 4
    assert changes(database_url) == []
    database("breakers", "open", "gateway", "--yes")
    again = database("breakers", "open", "gateway", "--yes", "--json")
    assert (again.code, again.problem["detail"]) == (4, "Breaker gateway is held open already.")


def test_an_unknown_name_is_refused_with_those_that_are_known(database: Command, started: Start) -> None:
    declared(database, started)
    problem = database("breakers", "open", "gatway", "--yes", "--json")
    assert problem.code == 5
    assert problem.problem["remedy"] == "Did you mean 'gateway'? Known: gateway."


def test_without_breakers_it_says_so(database: Command, command: Command) -> None:
    assert database("breakers", "--json").json == {"breakers": []}
    assert database("breakers").out.startswith("There are no breakers")
    assert database("breakers", "open", "x", "--yes").code == 5
