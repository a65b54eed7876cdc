"""A session that keeps rows locked in an idle transaction stops only the jobs that need these rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.conftest import eventually
from tests.running import SHORT_LEASES, Engine, client_of, registry, serving

pytestmark = pytest.mark.anyio

WORK = "workflow_id: work\nnodes: {a: {handler: work, next: b}, b: {handler: echo}}"
ECHO = "workflow_id: echoes\nnodes: {a: {handler: echo}}"
NEIGHBOURS = 5
OF_THE_JOB = {
    "jobs": "select 1 from jobs where job_id = %(job)s for update",
    "nodes": "select 1 from nodes where job_id = %(job)s for update",
    "tasks": "select 1 from tasks where job_id = %(job)s for update",
    "queue": "select 1 from queue where job_id = %(job)s for update",
    "inbox": "select 1 from inbox where job_id = %(job)s for update",
}
OF_THE_FLEET = {
    "orchestrators": "select 1 from orchestrators for update",
    "workers": "select 1 from workers for update",
}


@contextmanager
def locked(url: str, statement: str, job_id: str) -> Iterator[psycopg.Connection[Any]]:
    """Keep the rows locked inside the block."""
    with psycopg.connect(url, options="-c search_path=holdfast", application_name="forgetful") as connection:
        *first, last = statement.split("; ")
        for one in first:
            connection.execute(one.encode())
        assert connection.execute(last.encode(), {"job": job_id}).fetchall(), "nothing was locked"
        yield connection
        connection.rollback()


async def all_running(engine: Engine, number: int) -> None:
    async def running() -> bool:
        return await engine.query("select count(*) from holdfast.queue where state = 'leased'") == [(number,)]

    await eventually(running)


@pytest.mark.parametrize("table", OF_THE_JOB)
async def test_invariant_23_a_job_with_a_locked_row_waits_alone_and_completes_after_the_lock(
    database_url: str, table: str
) -> None:
    go = asyncio.Event()
    async with client_of(database_url) as engine, serving(database_url, registry(work=go.wait)):
        victim, *neighbours = [await engine.submit(WORK, key=str(n)) for n in range(1 + NEIGHBOURS)]
        await all_running(engine, 1 + NEIGHBOURS)
        if table == "inbox":
            await leave_a_signal(engine, victim)
        with locked(database_url, OF_THE_JOB[table], victim):
            go.set()
            for job_id in neighbours:
                assert (await engine.finished(job_id))["status"] == "completed"
            assert (await engine.status(victim))["status"] == "running"
        assert (await engine.finished(victim))["status"] == "completed"
        rejected = await engine.query("select count(*) from holdfast.events where event = 'report_rejected'")
        repeated = await engine.query("select count(*) from holdfast.tasks where lost_count > 0 or attempt <> 1")
    assert (rejected, repeated) == ([(int(table == "inbox"),)], [(0,)])


async def leave_a_signal(engine: Engine, job_id: str) -> None:
    """Insert a signal that does not wake its owner, so that the test can lock it before the owner reads it."""
    await engine.query(
        "insert into holdfast.inbox (owner, job_id, kind, node, item, epoch, attempt, outcome)"
        " select owner, job_id, 'rejected', 'a', -1, 0, 0, 'done' from holdfast.jobs where job_id = %s",
        job_id,
    )


@pytest.mark.parametrize("table", OF_THE_FLEET)
async def test_processes_whose_own_rows_are_locked_continue_under_new_rows(database_url: str, table: str) -> None:
    go = asyncio.Event()
    async with client_of(database_url) as engine, serving(database_url, registry(work=go.wait), **SHORT_LEASES):
        jobs = [await engine.submit(WORK, key=str(n)) for n in range(1 + NEIGHBOURS)]
        await all_running(engine, 1 + NEIGHBOURS)
        with locked(database_url, OF_THE_FLEET[table], jobs[0]):
            go.set()
            for job_id in jobs:
                assert (await engine.finished(job_id))["status"] == "completed"
            await another_row(engine, table)
            assert (await engine.finished(await engine.submit(WORK, key="late")))["status"] == "completed"


async def test_an_orchestrator_waits_for_a_locked_table_and_keeps_its_row(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of(database_url) as engine, serving(database_url):
        assert (await engine.run(ECHO))["status"] == "completed"
        before = await engine.query("select count(*) from holdfast.orchestrators")

        async def is_waiting() -> bool:
            return "orchestrator_retreats: The database at" in caplog.text

        with locked(database_url, "lock table inbox in access exclusive mode; select 1", ""):
            await eventually(is_waiting)
        assert (await engine.finished(await engine.submit(ECHO, key="late")))["status"] == "completed"
        assert await engine.query("select count(*) from holdfast.orchestrators") == before


async def another_row(engine: Engine, table: str) -> None:
    """Wait until a process has a new row: it cannot renew the lease in a locked one."""

    async def is_there() -> bool:
        first, last = f"select min(started_at) from holdfast.{table}", f"select max(started_at) from holdfast.{table}"
        newer = f"select 1 where ({last}) > ({first}) + interval '0.2 s'"
        return bool(await engine.query(newer))

    await eventually(is_there)


async def test_many_locked_jobs_cost_their_neighbours_little(database_url: str) -> None:
    """An owner tries each locked job alone, and not for long."""
    go = asyncio.Event()
    async with client_of(database_url) as engine, serving(database_url, registry(work=go.wait), concurrency=50):
        victims = [await engine.submit(WORK, key=str(n)) for n in range(40)]
        neighbours = [await engine.submit(WORK, key=f"other {n}") for n in range(NEIGHBOURS)]
        await all_running(engine, 40 + NEIGHBOURS)
        everything = "select 1 from jobs where job_id = any(%(job)s::uuid[]) for update"
        with locked(database_url, everything, "{" + ",".join(victims) + "}"):
            go.set()
            for job_id in neighbours:
                assert (await engine.finished(job_id, 10))["status"] == "completed"
        for job_id in victims:
            assert (await engine.finished(job_id))["status"] == "completed"
