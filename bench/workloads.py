"""W1 to W4: many small jobs, chains, fan-outs, and the time from an idle submit to the handler's start."""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.fleet import Fleet, now
from bench.limits import claim_and_complete
from holdfast.client import Client
from holdfast.define.definition import Definition
from holdfast.define.workflow import Workflow
from holdfast.operations.submitting import new_job
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import NewJob


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of one workload: seconds and limit of each round, and the peak memory."""

    name: str
    unit: str
    seconds: tuple[float, ...]
    limits: tuple[float, ...]
    units: int
    peaks: dict[str, float]

    @property
    def rate(self) -> float:
        return self.units / statistics.median(self.seconds)

    @property
    def of_the_limit(self) -> float:
        """The median of the rounds' shares, each of its own limit, because the machine's speed varies."""
        return statistics.median(self.units / s / limit for s, limit in zip(self.seconds, self.limits, strict=True))


def one_task() -> Definition:
    flow = Workflow("bench_one", inputs={"i": {"type": "integer"}})
    flow.start("start", next="a")
    flow.task("a", handler="bench.noop", params={"i": "{{ inputs.i }}"}, next="end")
    flow.end("end")
    return flow.definition()


def chain(steps: int) -> Definition:
    flow = Workflow(f"bench_chain_{steps}")
    for step in range(steps):
        after = [f"n{step - 1}"] if step else []
        flow.task(f"n{step}", handler="bench.noop", params={"i": step}, after=after)
    return flow.definition()


def fan() -> Definition:
    flow = Workflow("bench_fan", inputs={"items": {"type": "array"}})
    flow.fan_out("items", source="{{ inputs['items'] }}", handler="bench.noop", params={"i": "{{ item }}"})
    flow.fan_in("all", after=["items"])
    return flow.definition()


def noted_fan() -> Definition:
    flow = Workflow("bench_noted", inputs={"items": {"type": "array"}, "notes": {"type": "string"}})
    params = {"i": "{{ item }}", "notes": "{{ inputs.notes }}"}
    flow.fan_out("items", source="{{ inputs['items'] }}", handler="bench.noted", params=params)
    return flow.definition()


def stamp() -> Definition:
    flow = Workflow("bench_stamp")
    flow.task("a", handler="bench.stamp")
    return flow.definition()


def jobs_of(definition: Definition, inputs: Sequence[dict[str, Any]]) -> list[NewJob]:
    return [new_job(definition, values, key=uuid.uuid4().hex) for values in inputs]


async def run_jobs(store: PostgresStore, jobs: Sequence[NewJob]) -> float:
    """Submit the jobs and wait until all have completed; returns the seconds since the first submit."""
    client = Client(store)
    started = now()
    for first in range(0, len(jobs), 1000):
        await client.submit_many(jobs[first : first + 1000])
    await all_finished(store, jobs, started)
    return now() - started


async def all_finished(store: PostgresStore, jobs: Sequence[NewJob], started: float) -> None:
    """Wait for the end of all jobs with few queries, because queries add load.

    Asks for the last job until it has ended, then for all in one statement. The pause between two queries is at most
    half a per cent of the time so far.
    """
    waiting = [job.job_id for job in jobs]
    async with store.connections.use("bench") as connection:
        while waiting:
            cursor = await connection.execute("select status from jobs where job_id = %s", (waiting[-1],))
            row = await cursor.fetchone()
            if row is not None and row[0] not in ("pending", "running"):
                cursor = await connection.execute(
                    "select job_id::text, status from jobs where job_id = any(%s::uuid[]) and status <> 'completed'",
                    (waiting,),
                )
                unfinished = dict(await cursor.fetchall())
                assert set(unfinished.values()) <= {"pending", "running"}, f"not completed: {unfinished}"
                waiting = [job_id for job_id in waiting if job_id in unfinished]
                continue
            await asyncio.sleep(max(0.002 if len(jobs) < 10 else 0.02, (now() - started) / 200))
            assert now() - started < 600, "the benchmark does not end"


async def measure(
    name: str, unit: str, units: int, store: PostgresStore, fleet: Fleet, rounds: list[list[NewJob]]
) -> Measured:
    fleet.peaks.clear()
    limits, seconds = [], []
    for jobs in rounds:
        limits.append(claim_and_complete(store.connections.url, 100))
        seconds.append(await run_jobs(store, jobs))
    return Measured(name, unit, tuple(seconds), tuple(limits), units, dict(fleet.peaks))


def pick(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def idle_latencies(store: PostgresStore, times: int) -> list[float]:
    """Milliseconds from a submit to its handler's start, one job at a time on an idle system."""
    client, definition = Client(store), stamp()
    durations = []
    for job in jobs_of(definition, [{}] * times):
        await asyncio.sleep(0.02)
        submitted = time.monotonic()
        await client.submit_many([job])
        await all_finished(store, [job], now())
        async with store.connections.use("bench") as connection:
            cursor = await connection.execute("select result from jobs where job_id = %s", (job.job_id,))
            row = await cursor.fetchone()
        assert row is not None
        durations.append((row[0]["at"] - submitted) * 1000)
    return sorted(durations)
