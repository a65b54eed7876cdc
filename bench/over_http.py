"""Workers without a database beside workers at the database: the same tasks in turns, with the same slots."""

from __future__ import annotations

import os
from typing import NamedTuple

from bench.fleet import Fleet
from bench.service import Api
from bench.workloads import chain, fan, jobs_of, one_task, run_jobs
from holdfast.client import Client
from holdfast.operations.scope import Scope
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import NewJob

JOBS, CHAINS, STEPS = 2_000, 100, 10
AT_DATABASE, OVER_HTTP = "sixteen", "over_http"
"""The roles that are compared: each has 16 slots."""


class Compared(NamedTuple):
    """Tasks per second of one kind of work, in rounds that took turns."""

    name: str
    over_http: list[float]
    at_database: list[float]

    @property
    def ratios(self) -> list[float]:
        return sorted(one / other for one, other in zip(self.over_http, self.at_database, strict=True))


async def compare(url: str, store: PostgresStore, width: int, rounds: int) -> list[Compared]:
    """A wide fan-out, many small jobs, and chains."""
    made = await Client(store, Scope("*", "bench")).add_key("bench", roles=["worker"], tenant="default")
    api = Api(url)
    os.environ |= {"HOLDFAST_URL": api.url, "HOLDFAST_API_KEY": made.key}
    found = {name: Compared(name, [], []) for name in _work(width)}
    try:
        for _ in range(rounds):
            for role in (OVER_HTTP, AT_DATABASE):
                with Fleet(url, ("orchestrator", role)):
                    await run_jobs(store, jobs_of(one_task(), [{"i": i} for i in range(200)]))
                    for name, (tasks, jobs) in _work(width).items():
                        compared = found[name]
                        rates = compared.over_http if role == OVER_HTTP else compared.at_database
                        rates.append(tasks / await run_jobs(store, jobs))
    finally:
        api.close()
    return list(found.values())


def _work(width: int) -> dict[str, tuple[int, list[NewJob]]]:
    """How many tasks, in which jobs."""
    return {
        f"a fan-out of {width:,}": (width, jobs_of(fan(), [{"items": list(range(width))}])),
        f"{JOBS:,} jobs of one": (JOBS, jobs_of(one_task(), [{"i": i} for i in range(JOBS)])),
        f"{CHAINS} chains of {STEPS}": (CHAINS * STEPS, jobs_of(chain(STEPS), [{}] * CHAINS)),
    }
