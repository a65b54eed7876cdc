"""What a backlog costs: jobs that wait before anybody serves them, few and many, each on processes that start then."""

from __future__ import annotations

from bench.fleet import Fleet, now
from bench.workloads import all_finished, jobs_of, one_task
from holdfast.client import Client
from holdfast.store.postgres import PostgresStore


async def rate_behind(store: PostgresStore, waiting: int) -> float:
    """Jobs a second, from the start of the processes until the last of those that waited has completed."""
    client, jobs = Client(store), jobs_of(one_task(), [{"i": i} for i in range(waiting)])
    for first in range(0, waiting, 1000):
        await client.submit_many(jobs[first : first + 1000])
    # The worker first: while it starts, an orchestrator would have begun already.
    with Fleet(store.connections.url, ("worker", "orchestrator")):
        started = now()
        await all_finished(store, jobs, started)
        return waiting / (now() - started)
