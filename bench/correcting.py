"""The cost of correcting one item of a wide job: its plan, and the cycles of the owner that carries it out."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from bench.fleet import Fleet
from bench.workloads import jobs_of, run_jobs
from holdfast.client import Client
from holdfast.core.states import Rules
from holdfast.define.workflow import Workflow
from holdfast.operations.verbs import Correction, Stale, Verb, VerbRequest
from holdfast.orchestrator.owner import Owner
from holdfast.store.postgres import PostgresStore


class Corrected(NamedTuple):
    plan_seconds: float
    longest_cycle_seconds: float
    matched_seconds: float
    """Until every item has its task."""
    tasks: int
    """How many run again."""


async def correct_one_of(url: str, store: PostgresStore, width: int) -> Corrected:
    """Run a fan-out of this width, then correct one of its items. The owner of the correction needs no worker."""
    items: list[Any] = list(range(width))
    flow = Workflow("bench_corrected", inputs={"items": {"type": "array"}})
    flow.fan_out("items", source="{{ inputs['items'] }}", handler="bench.noop", params={"i": "{{ item }}"})
    (job,) = jobs_of(flow.definition(), [{"items": items}])
    with Fleet(url, ("both",)):
        await run_jobs(store, [job])
    client = Client(store)
    items[width // 2] = "corrected"
    began = time.perf_counter()
    correction = Correction({"items": items}, stale=Stale.RERUN)
    plan = await client.plan(job.job_id, VerbRequest(Verb.RESUME, correction=correction))
    plan_seconds = time.perf_counter() - began
    owner = Owner(store, await store.register_orchestrator("bench", 600), "bench", Rules(), lambda: 0.5)
    await client.carry_out(plan, seconds=0)
    longest, began = 0.0, time.perf_counter()
    while True:
        cycle_began = time.perf_counter()
        more = (await owner.run_cycle()).more
        longest = max(longest, time.perf_counter() - cycle_began)
        if not more:
            break
    matched_seconds = time.perf_counter() - began
    await client.cancel(job.job_id)
    while (await owner.run_cycle()).more:
        pass
    await store.end_orchestrator(owner.orchestrator_id)
    step = next(step for step in plan.steps if step.node == "items")
    return Corrected(plan_seconds, longest, matched_seconds, step.items or 0)
