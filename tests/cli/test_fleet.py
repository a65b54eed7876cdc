"""Who owns what since when, and what no process serves: `status` and `doctor`, with real processes."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.cli.conftest import Command, finished, line_that_has, spawn

Answer = TypeVar("Answer")
Start = Callable[..., subprocess.Popen[str]]

ROUTED = """
workflow_id: routed
nodes:
  begin: {handler: echo, next: [render, each]}
  render: {handler: tiles.render, queue: heavy}
  each: {type: fan_out, source: "{{ [1, 2, 3] }}", task: {handler: echo, queue: light}}
"""
SHORT_LEASES = {
    "HOLDFAST_OWNER_LEASE_SECONDS": "1",
    "HOLDFAST_OWNER_RENEW_SECONDS": "0.2",
    "HOLDFAST_LEASE_SECONDS": "1",
    "HOLDFAST_RENEW_SECONDS": "0.2",
}


def until(look: Callable[[], Answer]) -> Answer:
    """The first true answer of `look`."""
    deadline = time.monotonic() + 30
    while not (answer := look()):
        assert time.monotonic() < deadline, "it did not become true within 30 s"
        time.sleep(0.02)
    return answer


@pytest.fixture
def started() -> Iterator[Start]:
    """Services that say that they run, and are killed at the end."""
    processes = []

    def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = spawn(*arguments, **environment)
        processes.append(process)
        assert process.stderr is not None
        line_that_has(process.stderr, "is running as")
        return process

    yield start
    for process in processes:
        process.kill()
        finished(process)


def status_of(database: Command, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = database("status", job_id, "--json").json
    return found


def node_of(database: Command, job_id: str, name: str) -> dict[str, Any]:
    return next(node for node in status_of(database, job_id)["nodes"] if node["node"] == name)


def test_status_and_doctor_name_the_processes_that_serve_the_database(database: Command, started: Start) -> None:
    job_id = database("submit", "slow.yaml", "--json").json["job_id"]
    started("orchestrator")
    started("worker", "--queue", "default", "--concurrency", "3")
    until(lambda: node_of(database, job_id, "nap")["status"] == "running")
    fleet = database("status", "--json").json
    owners = [one for one in fleet["orchestrators"] if one["jobs"]]
    assert [(one["jobs"], one["oldest_job"]) for one in owners] == [(1, job_id)]
    assert 0 < owners[0]["lease_seconds"] <= 10
    assert datetime.fromisoformat(owners[0]["started_at"]) < datetime.now(UTC)
    (serving,) = fleet["workers"]
    assert (serving["queues"], serving["concurrency"], serving["tasks"]) == (["default"], 3, 1)
    assert "echo" in serving["handlers"]
    assert (fleet["without_owner"], fleet["unserved"]) == ([], [])
    report = database("doctor", "--json").json
    assert list(report) == ["ok", "findings", "orchestrators", "workers", "without_owner", "unserved"]
    assert [one["id"] for one in report["workers"]] == [serving["id"]]
    process = owners[0]["name"].partition("/")[0]
    assert {one["name"] for one in fleet["orchestrators"]} == {process, f"{process}/2"}
    for text in (database("status").out, database("doctor").out):
        line = " ".join(text.split())
        owns = f"runs 2 orchestrators, owns 1 job, the oldest {job_id[-8:]} made"
        assert line.count(process) == 1 and f"{process} {owns}" in line
        handlers = f"{len(serving['handlers'])} handlers"
        assert f"{serving['name']} serves default with {handlers}, holds 1 task in 3 slots; started" in line


def test_queues_name_what_waits_and_what_to_start(database: Command, started: Start) -> None:
    assert "No task waits or runs in the database" in database("queues").out
    Path("routed.yaml").write_text(ROUTED)
    database("submit", "routed.yaml")
    started("orchestrator")
    started("worker", "--queue", "default", "--queue", "idle")

    def queues() -> dict[str, dict[str, Any]]:
        return {one["queue"]: one for one in database("queues", "--json").json["queues"]}

    until(lambda: queues().get("light", {}).get("queued") == 3 and queues().get("heavy", {}).get("queued") == 1)
    light = queues()["light"]
    assert list(light) == ["queue", "queued", "held", "running", "since", "workers", "unserved", "paused"]
    assert (light["held"], light["running"], light["workers"]) == (0, 0, [])
    assert [one["cause"] for one in light["unserved"]] == ["no_worker_for_queue"]
    idle = queues()["idle"]
    assert (idle["queued"], idle["since"], idle["unserved"], len(idle["workers"])) == (0, None, [], 1)
    answer = database("queues")
    assert "holdfast worker --queue light" in answer.err
    assert re.search(r"^light +3 +0 +0 +[\d.]+ s +none$", answer.out, re.MULTILINE)


def test_status_of_a_job_names_its_owner_and_since_when(database: Command, started: Start) -> None:
    job_id = database("submit", "slow.yaml", "--json").json["job_id"]
    assert status_of(database, job_id)["owner"] is None
    before = datetime.now(UTC)
    started("orchestrator")
    owner = until(lambda: status_of(database, job_id)["owner"])
    assert list(owner) == ["id", "name", "since", "alive"]
    assert owner["alive"]
    assert abs((datetime.fromisoformat(owner["since"]) - before).total_seconds()) < 60
    assert f"Owner {owner['name']} (id {owner['id']}) since" in " ".join(database("status", job_id).out.split())


def test_a_job_whose_owner_died_says_what_to_start_and_changes_hands(database: Command, started: Start) -> None:
    job_id = database("submit", "slow.yaml", "--json").json["job_id"]
    first = started("orchestrator", **SHORT_LEASES)
    owner = until(lambda: status_of(database, job_id)["owner"])
    first.kill()
    until(lambda: not status_of(database, job_id)["owner"]["alive"])
    (lost,) = database("status", "--json").json["without_owner"]
    assert (lost["owner"], lost["owner_id"], lost["jobs"], lost["oldest_job"]) == (
        owner["name"], owner["id"], 1, job_id,
    )  # fmt: skip
    card = database("status", job_id).out
    assert "it has ended" in card
    assert "holdfast up" in card
    assert "holdfast watch" not in card
    assert "holdfast orchestrator" in database("status").out
    started("orchestrator", **SHORT_LEASES)
    heir = until(lambda: (found := status_of(database, job_id)["owner"])["alive"] and found)
    assert heir["since"] > owner["since"]
    changes = until(lambda: [e for e in database("events", job_id, "--json").lines if e["event"] == "owner_changed"])
    assert changes[0]["data"] == {"owner": heir["name"], "previous": owner["name"]}
    assert database("status", "--json").json["without_owner"] == []


def test_work_that_no_worker_takes_names_its_queue_its_handler_and_what_to_start(
    database: Command, started: Start, tmp_path: Path
) -> None:
    (tmp_path / "routed.yaml").write_text(ROUTED)
    job_id = database("submit", "routed.yaml", "--json").json["job_id"]
    started("up", "--queue", "default")
    until(lambda: node_of(database, job_id, "each")["unserved"])
    each, render = node_of(database, job_id, "each")["unserved"], node_of(database, job_id, "render")["unserved"]
    assert list(each) == ["cause", "queue", "handler", "tasks", "since"]
    assert (each["cause"], each["queue"], each["handler"], each["tasks"]) == (
        "no_worker_for_queue", "light", "echo", 3,
    )  # fmt: skip
    assert (render["cause"], render["queue"], render["handler"]) == ("no_worker_for_queue", "heavy", "tiles.render")
    card = database("status", job_id)
    lines = card.out.splitlines()
    below = next(number for number, line in enumerate(lines) if line.startswith("… render")) + 1
    assert "↳ no worker serves 'heavy'" in lines[below]
    assert "holdfast worker --queue heavy --handlers MODULE" in card.err
    assert "holdfast worker --queue light\n" in card.err
    assert "holdfast worker --queue heavy --handlers MODULE" in database("status").out
    started("worker", "--queue", "light", "--queue", "heavy")
    until(lambda: node_of(database, job_id, "each")["status"] == "completed")
    assert node_of(database, job_id, "each")["unserved"] is None
    assert node_of(database, job_id, "render")["unserved"]["cause"] == "no_worker_for_handler"
    assert "↳ no worker has 'tiles.render'" in database("status", job_id).out


def test_hints_name_handlers_only_where_the_job_needs_some_of_its_own(database: Command, tmp_path: Path) -> None:
    (tmp_path / "routed.yaml").write_text(ROUTED)
    own = database("submit", "routed.yaml")
    assert "holdfast up --handlers MODULE" in own.err
    assert "holdfast up --handlers MODULE" in database("status", own.out.split()[1]).out
    plain = database("submit", "flow.yaml")
    assert "holdfast up" in plain.err
    assert "--handlers" not in plain.err
