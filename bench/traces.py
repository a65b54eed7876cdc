"""The cost of traces: a fan-out without a trace, within one that stays unsent, and within one that a collector gets."""

from __future__ import annotations

import asyncio
import os
import timeit
import uuid
from typing import NamedTuple

import psutil

from bench.fleet import Fleet
from bench.notifying import accept
from bench.workloads import fan, jobs_of, one_task, run_jobs
from holdfast import tracing
from holdfast.operations.submitting import new_job
from holdfast.store.postgres import PostgresStore

PLACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ROLES = ("orchestrator", "worker")


class Round(NamedTuple):
    seconds: float
    cpu_seconds: float
    """Of the processor, by the orchestrator and the worker together."""


class Traced(NamedTuple):
    """The rounds of each kind."""

    without: list[Round]
    """The job has no trace."""
    kept: list[Round]
    """The job has a place in a trace, and no process sends its spans."""
    sent: list[Round]
    asked_nanoseconds: float
    """What a process that sends nothing pays to ask whether it sends; an attempt asks once, and a cycle once."""


async def compare(url: str, store: PostgresStore, width: int, runs: int) -> Traced:
    """In turns, because the machine's speed varies."""
    collector = await asyncio.start_server(accept, "127.0.0.1", 0)
    there = f"http://127.0.0.1:{collector.sockets[0].getsockname()[1]}/v1/traces"
    without, kept, sent = [], [], []
    async with collector:
        for _ in range(runs):
            without.append(await _round(url, store, width, None))
            kept.append(await _round(url, store, width, PLACE))
            os.environ["HOLDFAST_TRACES_URL"] = there
            try:
                sent.append(await _round(url, store, width, PLACE))
            finally:
                del os.environ["HOLDFAST_TRACES_URL"]
    times = 1_000_000
    return Traced(without, kept, sent, timeit.timeit(tracing.is_on, number=times) / times * 1e9)


async def _round(url: str, store: PostgresStore, width: int, traceparent: str | None) -> Round:
    with Fleet(url, ROLES) as fleet:
        await run_jobs(store, jobs_of(one_task(), [{"i": i} for i in range(200)]))
        processes = [psutil.Process(pid) for role in ROLES for pid in fleet.pids(role)]
        used = _cpu_seconds(processes)
        inputs = {"items": list(range(width))}
        job = new_job(fan(), inputs, key=uuid.uuid4().hex, traceparent=traceparent)
        seconds = await run_jobs(store, [job])
        return Round(seconds, _cpu_seconds(processes) - used)


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    used: float = sum(times.user + times.system for times in (process.cpu_times() for process in processes))
    return used
