"""The memory needed to read the results of a wide fan-out: that of one page, whatever the width."""

from __future__ import annotations

from dataclasses import dataclass

from bench.fleet import Fleet, now
from bench.workloads import jobs_of, run_jobs
from holdfast.define.definition import Definition
from holdfast.define.workflow import Workflow
from holdfast.store.postgres import PostgresStore


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a worker has read, and its peak memory."""

    count: int
    bytes: int
    peak_mb: float
    reading_seconds: float
    seconds: float


def weighty(width: int, size_bytes: int) -> Definition:
    flow = Workflow("bench_weighty", inputs={"items": {"type": "array"}})
    params = {"i": "{{ item }}", "size_bytes": size_bytes}
    flow.fan_out("items", source="{{ inputs['items'] }}", handler="bench.weighty", params=params)
    flow.task("all", handler="bench.gathered", params={"node": "items"}, after=["items"])
    return flow.definition()


async def gather(store: PostgresStore, width: int, size_bytes: int) -> Gathered:
    """Run a fan-out of this width with outputs of this size; then one task reads all of them."""
    started = now()
    jobs = jobs_of(weighty(width, size_bytes), [{"items": list(range(width))}])
    with Fleet(store.connections.url):
        await run_jobs(store, jobs)
    async with store.connections.use("bench") as connection:
        cursor = await connection.execute("select result from jobs where job_id = %s", (jobs[0].job_id,))
        row = await cursor.fetchone()
    assert row is not None
    return Gathered(**row[0], seconds=now() - started)
