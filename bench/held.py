"""The cost of held tasks: ready, but behind an open breaker or a full limit."""

from __future__ import annotations

import asyncio

from bench.ageing import HANDLER
from bench.workloads import jobs_of
from holdfast.client import Client
from holdfast.define.definition import Definition
from holdfast.define.workflow import Workflow
from holdfast.store.postgres import PostgresStore

WIDTH = 1000
"""The number of items that one fan-out has in the queue at a time."""


def _held(**gate: object) -> Definition:
    flow = Workflow("bench_held", inputs={"items": {"type": "array"}}, breakers={"bench.down": {}})
    flow.fan_out("items", source="{{ inputs['items'] }}", handler=HANDLER, **gate)  # type: ignore[arg-type]
    return flow.definition()


async def hold_back(store: PostgresStore, tasks: int) -> None:
    """Queue this number of tasks that no claim returns; needs an orchestrator and no worker."""
    async with store.connections.use("bench") as connection:
        await connection.execute(
            "insert into breakers (name, settings, state, held) values ('bench.down', %s, 'open', true)",
            ('{"name": "bench.down"}',),
        )
    worker = await store.register_worker("bench: holds the only slot", None, [HANDLER], 1, 3600)
    kinds = [_held(breaker="bench.down"), _held(concurrency={"limit": 1})]
    jobs = [jobs_of(kind, [{"items": list(range(WIDTH))}] * (tasks // WIDTH // len(kinds))) for kind in kinds]
    for jobs_of_kind in jobs:
        await Client(store).submit_many(jobs_of_kind)
    async with store.connections.use("bench") as connection:
        while True:
            row = await (await connection.execute("select count(*) from queue where state = 'ready'")).fetchone()
            if row is not None and row[0] >= sum(len(jobs_of_kind) for jobs_of_kind in jobs) * WIDTH:
                break
            await asyncio.sleep(0.1)
    assert len(await store.claim(worker, None, [HANDLER], 100)) == 1, "only one task should pass the limit"
