"""The cost of a backlog: few and many jobs wait before the processes start that run them."""

from __future__ import annotations

from bench.fleet import Fleet, now
from bench.workloads import all_finished, jobs_of, one_task
from holdfast.client import Client
from holdfast.store.postgres import PostgresStore


async def rate_behind(store: PostgresStore, waiting: int) -> float:
    """Jobs per second, from the start of the processes until the last waiting job has completed."""
    client, jobs = Client(store), jobs_of(one_task(), [{"i": i} for i in range(waiting)])
    for first in range(0, waiting, 1000):
        await client.submit_many(jobs[first : first + 1000])
    # The worker starts first: otherwise the orchestrator would work while the worker is starting.
    with Fleet(store.connections.url, ("worker", "orchestrator")):
        started = now()
        await all_finished(store, jobs, started)
        return waiting / (now() - started)
