"""`up`, `worker`, `orchestrator`: services and how they end."""

from __future__ import annotations

import json
import signal
import socket
import urllib.request
from pathlib import Path

import psycopg
import pytest

from holdfast.errors import ExitCode
from tests.cli.conftest import Command, finished, line_that_has, spawn
from tests.cli.test_fleet import until
from tests.marks import IN_CHAOS, rest_in_chaos

WAITING = """
import asyncio
from pathlib import Path
from holdfast import handler

@handler("until_allowed")
async def until_allowed():
    Path("begun").touch()
    if not Path("allowed").exists():
        await asyncio.Event().wait()
"""
WAITS = "workflow_id: waits\nnodes: {wait: {handler: until_allowed}}\n"


def begun_job(database: Command) -> str:
    """A job whose task has begun. A task that is only claimed goes back to the queue when its worker stops."""
    Path("waits.yaml").write_text(WAITS)
    job_id: str = database("submit", "waits.yaml", "--json").json["job_id"]
    until(Path("begun").exists)
    return job_id


def test_an_orchestrator_and_a_worker_do_together_what_up_does_alone(database: Command) -> None:
    orchestrator, worker = spawn("orchestrator"), spawn("worker", "--queue", "default", "--concurrency", "2")
    assert orchestrator.stderr is not None
    assert worker.stderr is not None
    line_that_has(orchestrator.stderr, "orchestrator is running")
    line_that_has(worker.stderr, "default, ")
    assert database("submit", "flow.yaml", "--wait").code == 0
    for process in (orchestrator, worker):
        process.terminate()
        assert finished(process).code == 0


@pytest.mark.parametrize("service", ["up", "worker", "orchestrator"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_service_ends_well_on_a_signal(database: Command, service: str, number: signal.Signals, code: int) -> None:
    process = spawn(service, "--json")
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())
    assert list(ready) == ["service", "name", "queues", "handlers", "concurrency"]
    assert ready["service"] == service
    process.send_signal(number)
    assert finished(process).code == code
    findings = database("doctor", "--json").json["findings"]
    alive = [f for f in findings if f["check"] in ("worker", "orchestrator") and f["grade"] == "ok"]
    assert alive == []


def test_a_worker_that_is_terminated_gives_its_task_back(database: Command) -> None:
    serving = spawn("up", HOLDFAST_GRACE_SECONDS="0.1")
    job_id = database("submit", "slow.yaml", "--json").json["job_id"]
    watching = spawn("watch", job_id)
    assert watching.stderr is not None
    line_that_has(watching.stderr, "nap: running")
    serving.terminate()
    assert finished(serving).code == 0
    watching.send_signal(signal.SIGINT)
    assert finished(watching).code == 130
    status = database("status", job_id, "--json").json
    assert (status["status"], status["counts"]["running"]) == ("running", 0)


@pytest.mark.parametrize(
    ("first", "second", "code"),
    rest_in_chaos(
        [
            (first, second, code)
            for first in (signal.SIGTERM, signal.SIGINT)
            for second, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130))
        ],
        (signal.SIGINT, signal.SIGINT, 130), (signal.SIGTERM, signal.SIGTERM, 143),
    ),
)  # fmt: skip
def test_a_second_signal_ends_a_service_at_once_and_says_what_it_left_behind(
    database: Command, first: signal.Signals, second: signal.Signals, code: int
) -> None:
    Path("waiting.py").write_text(WAITING)
    serving = spawn("up", "--handlers", "waiting", HOLDFAST_GRACE_SECONDS="3600")
    assert serving.stderr is not None
    line_that_has(serving.stderr, "up is running")
    job_id = begun_job(database)
    serving.send_signal(first)
    line_that_has(serving.stderr, "A second signal ends at once.")
    serving.send_signal(second)
    ended = finished(serving)
    assert ended.code == code
    left = "up ended at once and left 1 task and 1 job behind"
    assert ended.err == f"{left}; other processes take over when the lease ends, within 10 s.\n"
    status = database("status", job_id, "--json").json
    assert (status["status"], status["counts"]["running"]) == ("running", 1)


def test_a_service_that_is_stopped_before_it_is_ready_does_not_say_that_it_runs(
    database: Command, database_url: str
) -> None:
    with psycopg.connect(database_url) as locking, psycopg.connect(database_url, autocommit=True) as looking:
        locking.execute("lock table holdfast.workers in access exclusive mode")
        serving = spawn("worker")
        waits = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        until(lambda: looking.execute(waits).fetchone())
        serving.terminate()
        assert serving.stderr is not None
        line_that_has(serving.stderr, "Stopping:")
        locking.rollback()
    ended = finished(serving)
    assert ended.code == 0 and "is running" not in ended.err


@IN_CHAOS
def test_what_a_worker_left_behind_at_once_goes_on_elsewhere(database: Command) -> None:
    Path("waiting.py").write_text(WAITING)
    leases = {"HOLDFAST_GRACE_SECONDS": "3600", "HOLDFAST_LEASE_SECONDS": "3", "HOLDFAST_RENEW_SECONDS": "0.2"}
    orchestrator, first = spawn("orchestrator"), spawn("worker", "--handlers", "waiting", **leases)
    job_id = begun_job(database)
    watching = spawn("watch", job_id)
    assert first.stderr is not None
    first.terminate()
    line_that_has(first.stderr, "A second signal ends at once.")
    first.terminate()
    Path("allowed").touch()
    second = spawn("worker", "--handlers", "waiting", **leases)
    left, watched = finished(first), finished(watching)
    for process in (orchestrator, second):
        process.terminate()
        finished(process)
    assert (left.code, watched.code) == (143, 0)
    assert "left 1 task behind; other processes take over when the lease ends, within 3.0 s" in left.err
    events = [event["event"] for event in database("events", job_id, "--json").lines]
    assert "worker_lost" in events


@pytest.mark.parametrize(
    ("service", "works", "decides"),
    [("up", True, True), ("worker", True, False), ("orchestrator", False, True), ("api", False, False)],
)
def test_a_service_says_where_its_metrics_are_and_answers_a_supervisor_there(
    database: Command, service: str, works: bool, decides: bool
) -> None:
    process = spawn(service, "--json", "--metrics-port", "0", HOLDFAST_PORT="0")
    assert process.stdout is not None
    place = json.loads(process.stdout.readline())["metrics"]

    def text(url: str) -> str:
        with urllib.request.urlopen(url, timeout=20) as answer:
            assert answer.status == 200
            return str(answer.read().decode())

    page = text(place)
    assert ("\nholdfast_slots 16.0\n" in page) == works
    assert ("\nholdfast_jobs_owned 0.0\n" in page) == decides
    assert ('\nholdfast_readers{pool="api"} 8.0\n' in page) == (service == "api")
    assert f"\nholdfast_workers {float(works)}\n" in page
    assert "\nholdfast_database_up 1.0\n" in page
    root = place.removesuffix("/metrics")
    assert (text(f"{root}/livez"), text(f"{root}/readyz")) == ("alive\n", "ready\n")
    process.terminate()
    assert finished(process).code == 0


def test_a_service_whose_metrics_port_is_taken_says_so_and_ends(database: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = database("worker", "--metrics-port", str(port), "--json")
    assert refused.code == ExitCode.UNREACHABLE
    assert f"127.0.0.1:{port}" in refused.err
