"""One case of every kind of fault (`make chaos` runs all of them), and a test that the judge finds what is wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.failpoint import ACTIONS, POINTS
from tests.chaos import undoing
from tests.chaos.case import Case, run_case
from tests.chaos.checks import Verdict, judge
from tests.chaos.faults import (
    AT_POINTS,
    BY_COMMAND,
    FAULTS,
    STRUCK_ELSEWHERE,
    Fault,
    calm,
    can_mount,
    small_disk,
)
from tests.chaos.fleet import Server
from tests.chaos.replicated import ReplicatedServer

CHOSEN = {
    "kill at report.after_commit",
    "stop at run.after",
    "lose the database at commit.after",
    "cut the network of the worker",
    "cut a commit before its answer",
    "stall the network of the worker past the lease",
    "swallow the network of the orchestrator, to client",
    "restart Postgres with -m immediate",
    "kill backends",
    "exhaust connections",
    "fill the disk",
    "lose history by a restored copy",
    "hold the interpreter past the lease",
    "crash a handler by a segfault",
    "crash a handler with child processes",
    "terminate a worker whose task ignores it",
    "kill during an undo at commit.after@1",
    "disturb an undo by a pause and a cancel",
    "kill during a correction at commit.after@2",
    "disturb a correction by two people",
    "strike over HTTP: kill the worker at report.after_commit",
}


def chosen() -> Iterator[object]:
    for fault in FAULTS:
        if fault.name in CHOSEN:
            marks = []
            if fault.needs_small_disk and not can_mount():
                marks.append(pytest.mark.skip(reason="only root may mount the small disk that this fills"))
            yield pytest.param(fault, id=fault.name, marks=marks)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("chaos") / "home", durable=False) as started:
        yield started


@pytest.fixture
def replicated_server(tmp_path: Path) -> Iterator[Server]:
    with ReplicatedServer(tmp_path / "replicated") as started:
        yield started


@pytest.fixture
def small_server(tmp_path: Path) -> Iterator[Server]:
    with small_disk(tmp_path / "disk") as started:
        yield started


def test_every_kind_of_fault_has_a_case() -> None:
    assert {fault.kind for fault in FAULTS if fault.name in CHOSEN} == {fault.kind for fault in FAULTS}
    assert {fault.name for fault in FAULTS} >= CHOSEN


def test_the_worker_of_an_undo_is_killed_at_twenty_points() -> None:
    kills = {fault.name for fault in FAULTS if fault.name.startswith("kill during an undo")}
    assert len(set(undoing.KILLS["worker"])) >= 20
    assert len(kills) == sum(len(points) for points in undoing.KILLS.values())


def test_every_failpoint_is_struck_in_every_way() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)
    ways = {"kill": "kill", "stop": "stop", "error": "lose the database"}
    assert {f"{way} at {point}" for way in ways.values() for point in [*AT_POINTS, *BY_COMMAND]} <= set(names)
    assert {point for point in POINTS if not point.startswith(STRUCK_ELSEWHERE)} == {*AT_POINTS, *BY_COMMAND}
    assert set(ACTIONS) - set(ways) == {"delay"}, "a delay is no fault"


@pytest.mark.parametrize("fault", list(chosen()))
def test_nothing_is_lost_doubled_or_stuck(fault: Fault, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    needed = "small_server" if fault.needs_small_disk else "replicated_server" if fault.needs_replicas else "server"
    server = request.getfixturevalue(needed)
    outcome = asyncio.run(run_case(fault.name, fault.strike, server, tmp_path / "case"))
    assert outcome.verdict.wrongs == [], outcome.complaints


TAMPERING = {
    "a job without its row": ("delete from jobs where job_id = %(chain)s", "lost"),
    "another result": ("update jobs set result = '0' where job_id = %(chain)s", "lost"),
    "a task that is open": (
        "update tasks set status = 'ready', finished_at = null where job_id = %(chain)s and node = 'first'",
        "lost",
    ),
    "a job that is open": ("update jobs set status = 'running', finished_at = null where job_id = %(chain)s", "stuck"),
    "a task that ended twice": (
        "insert into events (job_id, seq, event, node) select job_id, max(seq) + 1, 'node_completed', 'first'"
        " from events where job_id = %(chain)s group by job_id",
        "doubled",
    ),
    "a gap in the events": ("delete from events where job_id = %(chain)s and seq = 2", "doubled"),
    "a counter that is wrong": ("update nodes set completed_count = 0 where job_id = %(chain)s", "doubled"),
    "two jobs for one submission": (
        "insert into jobs select (jsonb_populate_record(j, jsonb_build_object("
        "'job_id', gen_random_uuid(), 'run', 2))).* from jobs j where job_id = %(chain)s",
        "doubled",
    ),
}


async def _finish_calmly(case: Case) -> None:
    try:
        await calm(case)
        await case.all_done()
    finally:
        case.fleet.end()


def test_the_judge_finds_nothing_after_calm_work_and_every_tampered_row(server: Server, tmp_path: Path) -> None:
    case = Case(server, server.new_database(), tmp_path)
    asyncio.run(_finish_calmly(case))
    effects = tmp_path / "effects"
    assert judge(case.url, case.jobs, effects).wrongs == []
    for what, (statement, kind) in TAMPERING.items():
        verdict = _tampered(server, case, statement, effects)
        assert getattr(verdict, kind), what
    whole = effects.read_text()
    effects.write_text(whole + whole.splitlines()[0] + "\n")
    assert judge(case.url, case.jobs, effects).doubled, "an epoch that was executed twice"
    first = json.loads(whole.splitlines()[0])
    effects.write_text(whole + json.dumps(first | {"epoch": 2}) + "\n")
    assert judge(case.url, case.jobs, effects).doubled, "an execution without an enqueue"


def _tampered(server: Server, case: Case, statement: str, effects: Path) -> Verdict:
    """The verdict on a copy of the database that the statement has changed."""
    copy = case.url + "_copy"
    with server.connect() as connection:
        connection.execute(f"create database {copy.rsplit('/', 1)[1]} template {case.url.rsplit('/', 1)[1]}".encode())
    with psycopg.connect(copy, autocommit=True, options="-c search_path=holdfast") as connection:
        ((chain,),) = connection.execute("select min(job_id::text) from jobs where workflow_id = 'chain'").fetchall()
        changed = connection.execute(statement.encode(), {"chain": chain})
        assert changed.rowcount > 0
    verdict = judge(copy, case.jobs, effects)
    server.drop_database(copy)
    return verdict
