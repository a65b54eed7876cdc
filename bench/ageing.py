"""The cost of an old database: after many tasks, and with dead rows that vacuum cannot remove yet."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from bench.workloads import all_finished, fan, jobs_of, one_task, run_jobs
from holdfast.client import Client
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import Lease, Report

HANDLER = "bench.noop"


async def age(store: PostgresStore, tasks: int, widest: int) -> float:
    """Run this number of tasks, as wide fan-outs one after the other; returns the seconds."""
    seconds = 0.0
    while tasks > 0:
        width = min(tasks, widest)
        seconds += await run_jobs(store, jobs_of(fan(), [{"items": list(range(width))}]))
        tasks -= width
    return seconds


async def sizes(store: PostgresStore) -> dict[str, int]:
    """The bytes of the hot tables, indexes included."""
    async with store.connections.use("bench") as connection:
        cursor = await connection.execute(
            "select t, pg_total_relation_size(t::regclass) from unnest(array['queue', 'inbox']) t"
        )
        return dict(await cursor.fetchall())


@asynccontextmanager
async def open_snapshot(url: str) -> AsyncIterator[None]:
    """Hold a snapshot open, like a long report, a dump or a forgotten connection."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("begin isolation level repeatable read")
        await connection.execute("select 1")
        yield


async def claim_milliseconds(store: PostgresStore, jobs: int) -> float:
    """The median time of a claim in the last fifth of `jobs` one-task jobs, a hundred at a time.

    Needs an orchestrator and no worker: this function makes the claims.
    """
    client, durations = Client(store), []
    worker = await store.register_worker("bench", None, [HANDLER], 100, 3600)
    for _ in range(0, jobs, 100):
        submitted = jobs_of(one_task(), [{"i": i} for i in range(100)])
        started = time.perf_counter()
        await client.submit_many(submitted)
        done = 0
        while done < len(submitted):
            begun = time.perf_counter()
            leases = await store.claim(worker, None, [HANDLER], 100)
            if leases:
                durations.append((time.perf_counter() - begun) * 1000)
                await store.report(worker, [_done(lease) for lease in leases])
                done += len(leases)
            else:
                await asyncio.sleep(0.002)
        await all_finished(store, submitted, started)
    await store.end_worker(worker)
    return statistics.median(durations[-len(durations) // 5 :])


def _done(lease: Lease) -> Report:
    return Report(*lease[:5], outcome="done", started_at=time.time(), output=b"1", owner=lease.owner)
