"""The cost of the end and of the recovery of a wide job: all its tasks are archived, then all are reset."""

from __future__ import annotations

import time

from bench.workloads import fan, jobs_of
from holdfast.client import Client
from holdfast.core.states import Rules
from holdfast.operations.verbs import Verb, VerbRequest
from holdfast.orchestrator.owner import Owner
from holdfast.store.postgres import PostgresStore


async def cancel_and_resume(store: PostgresStore, tasks: int) -> tuple[float, float]:
    """Seconds of the cycle that cancels this number of tasks, and of the one that resets them; needs no worker."""
    owner = Owner(store, await store.register_orchestrator("bench", 600), "bench", Rules(), lambda: 0.5)
    (job,) = jobs_of(fan(), [{"items": list(range(tasks))}])
    client = Client(store)
    await client.submit_many([job])
    await _settle(owner)
    took = []
    await client.cancel(job.job_id)
    took.append(await _settle(owner))
    await client.send(job.job_id, VerbRequest(Verb.RESUME))
    took.append(await _settle(owner))
    await client.cancel(job.job_id)
    await _settle(owner)
    await store.end_orchestrator(owner.orchestrator_id)
    return took[0], took[1]


async def _settle(owner: Owner) -> float:
    began = time.perf_counter()
    while (await owner.run_cycle()).more:
        pass
    return time.perf_counter() - began
