"""`holdfast limits`: what people see of them, and what happens to tasks when a person changes one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.operations.scope import current_actor
from tests.cli.conftest import Command
from tests.cli.test_fleet import Start, node_of, started, until

__all__ = ["started"]

WIDE = """
workflow_id: wide
nodes:
  each: {type: fan_out, source: "{{ [1, 2, 3, 4] }}", task: {handler: sleep, params: {duration_seconds: 600}}}
"""
SHARED = """
workflow_id: shared
nodes: {nap: {handler: sleep, params: {duration_seconds: 600}, concurrency: {limit: 1, key: bed}}}
"""
KEYS = [
    "name", "tenant", "concurrency", "rate", "backlog", "running", "waiting", "open_jobs", "changed_at", "actor",
    "paused",
]  # fmt: skip


def submitted(database: Command, name: str, text: str, *more: str) -> str:
    Path(f"{name}.yaml").write_text(text)
    return str(database("submit", f"{name}.yaml", "--json", *more).json["job_id"])


def limit(database: Command, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = database("limits", "--json").json["limits"]
    assert all(list(one) == KEYS for one in found)
    return next((one for one in found if one["name"] == name), {})


def test_a_queue_runs_as_many_as_a_person_allows(database: Command, started: Start) -> None:
    answer = database("limits", "set", "queue:default", "--concurrency", "1")
    assert (answer.code, answer.out) == (0, "Limit queue:default: 1 at once.\n")
    job_id = submitted(database, "wide", WIDE)
    started("orchestrator")
    started("worker")
    found = until(lambda: (one := limit(database, "queue:default"))["running"] == 1 and one["waiting"] == 3 and one)
    assert (found["tenant"], found["concurrency"], found["rate"], found["actor"]) == (None, 1, None, current_actor())
    shown = " ".join(database("limits").out.split())
    assert f"queue:default 1 at once 1 3 {current_actor()}" in shown
    database("limits", "set", "queue:default", "--concurrency", "2")
    until(lambda: node_of(database, job_id, "each")["counts"]["running"] == 2)
    dropped = database("limits", "drop", "queue:default", "--json").json
    assert (dropped["verb"], dropped["limit"]["concurrency"]) == ("drop", 2)
    until(lambda: node_of(database, job_id, "each")["counts"]["running"] == 4)
    assert database("limits", "--json").json == {"limits": []}


def test_what_a_workflow_declares_can_be_overridden_and_given_back(database: Command, started: Start) -> None:
    submitted(database, "shared", SHARED, "--key", "one")
    first = started("orchestrator")
    found = until(lambda: limit(database, "key:bed"))
    assert (found["tenant"], found["concurrency"], found["actor"]) == ("default", 1, None)
    assert database("limits", "drop", "key:bed").code == 4
    assert database("limits", "set", "key:bed", "--concurrency", "5").code == 0
    first.kill()
    submitted(database, "shared", SHARED, "--key", "two")
    second = started("orchestrator")
    until(lambda: limit(database, "key:bed")["waiting"] == 2)
    assert (limit(database, "key:bed")["concurrency"], limit(database, "key:bed")["actor"]) == (5, current_actor())
    given_back = database("limits", "drop", "key:bed")
    assert (given_back.code, given_back.out) == (0, "Limit key:bed of tenant default is its workflow's again.\n")
    second.kill()
    submitted(database, "shared", SHARED, "--key", "three")
    started("orchestrator")
    until(lambda: limit(database, "key:bed")["concurrency"] == 1)


def test_a_rate_is_so_many_in_so_many_seconds(database: Command) -> None:
    set_up = database("limits", "set", "tenant", "--rate", "100/60", "--backlog", "1000", "--json").json["limit"]
    assert (set_up["tenant"], set_up["rate"], set_up["backlog"]) == (
        "default",
        {"limit": 100, "per_seconds": 60.0},
        1000,
    )
    database("limits", "set", "tenant", "--backlog", "2")
    assert "100 in 60 s, 2 open jobs" in " ".join(database("limits").out.split())
    assert limit(database, "tenant")["open_jobs"] == 0


def test_a_full_backlog_is_exit_code_4_with_what_to_do(database: Command) -> None:
    database("limits", "set", "tenant", "--backlog", "1")
    submitted(database, "wide", WIDE, "--key", "one")
    refused = database("submit", "wide.yaml", "--key", "two", "--json")
    assert (refused.code, refused.problem["code"]) == (4, "BACKLOG_FULL")
    assert refused.problem["detail"].startswith("The backlog of tenant default is full: 1 job")
    assert "--backlog 2" in refused.problem["remedy"]
    assert database("submit", "wide.yaml", "--key", "one", "--json").json["answer"] == "already_processing"


def test_mistakes_are_refused_and_change_nothing(database: Command) -> None:
    assert database("limits", "set").code == 2
    assert database("limits", "drop").code == 2
    assert database("limits", "set", "queue:default").code == 2
    bad = database("limits", "set", "queue:default", "--rate", "often")
    assert (bad.code, "--rate 100/60" in bad.err) == (2, True)
    unknown = database("limits", "set", "key:bed", "--concurrency", "2", "--json")
    assert (unknown.code, unknown.problem["remedy"]) == (5, "There are none.")
    database("limits", "set", "queue:default", "--concurrency", "2")
    assert "Did you mean 'queue:default'?" in database("limits", "drop", "queue:defalt").err
    assert [one["name"] for one in database("limits", "--json").json["limits"]] == ["queue:default"]


def test_without_limits_it_says_so(database: Command) -> None:
    shown = database("limits")
    assert (shown.out, "holdfast limits set" in shown.err) == ("There are no limits.\n", True)
