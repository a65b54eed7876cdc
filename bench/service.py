"""The HTTP service: submissions beside the same by a client on the database, and reads from an old database."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, NamedTuple
from uuid import uuid4

import orjson
import psutil

from bench.ageing import age
from bench.fleet import Fleet
from bench.requests import Answered, Request, send_all
from bench.workloads import all_finished, jobs_of, one_task, pick
from holdfast.client import Client
from holdfast.define.definition import Definition
from holdfast.define.workflow import Workflow
from holdfast.operations.scope import Scope
from holdfast.store.postgres import PostgresStore
from holdfast.views.history import FailedGroup

API = "/api/v1"
CONNECTIONS = 16
SINGLES, BATCHES, BATCH = 4_000, 100, 100
READS = 300
WORKFLOW = "bench_one"


@dataclass(frozen=True, slots=True)
class Submitted:
    """Jobs per second over HTTP and by the client, in rounds that took turns."""

    over_http: list[float]
    by_client: list[float]
    generator_share: float
    """The part of a core that the sender of the requests used."""

    @property
    def ratios(self) -> list[float]:
        return sorted(one / other for one, other in zip(self.over_http, self.by_client, strict=True))


class Read(NamedTuple):
    """How long the requests for something took, in milliseconds."""

    name: str
    p50: float
    p99: float


class Api:
    """`holdfast api` as a process of its own, and a key for it."""

    def __init__(self, database_url: str) -> None:
        command = [sys.executable, "-m", "bench", "--serve", "api", "--url", database_url]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "HOLDFAST_PORT": "0"})
        assert self._process.stdout is not None
        ready, _, self.url = self._process.stdout.readline().decode().strip().partition(" ")
        if ready != "ready":
            raise RuntimeError("the service did not start")

    @property
    def memory_mb(self) -> float:
        return float(psutil.Process(self._process.pid).memory_info().rss / 2**20)

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate()


@asynccontextmanager
async def api(database_url: str, store: PostgresStore) -> AsyncIterator[tuple[Api, str]]:
    key = await Client(store, Scope("*", "bench")).add_key("bench", roles=["admin"], tenant="default")
    process = Api(database_url)
    try:
        yield process, key.key
    finally:
        process.close()


async def compare_submits(url: str, store: PostgresStore, rounds: int) -> tuple[Submitted, Submitted, float, float]:
    """Single submits and batches, each over HTTP and by the client in turns; and the memory of the service, idle
    and afterwards."""
    await Client(store).register(one_task())
    async with api(url, store) as (process, key):
        idle_mb = process.memory_mb

        def singles_over_http() -> Answered:
            return send_all(process.url, key, [_single() for _ in range(SINGLES)], CONNECTIONS)

        def batches_over_http() -> Answered:
            return send_all(process.url, key, [_batch() for _ in range(BATCHES)], 1)

        singles = await _in_turns(SINGLES, singles_over_http, lambda: _by_client(url, _submit_singles), rounds)
        batches = await _in_turns(BATCHES * BATCH, batches_over_http, lambda: _by_client(url, _submit_many), rounds)
        return singles, batches, idle_mb, process.memory_mb


async def _in_turns(
    jobs: int, over_http: Callable[[], Answered], by_client: Callable[[], float], rounds: int
) -> Submitted:
    answered = []
    others = []
    for _ in range(rounds):
        answered.append(await asyncio.to_thread(over_http))
        others.append(await asyncio.to_thread(by_client))
    share = statistics.median(one.cpu_seconds / one.seconds for one in answered)
    return Submitted([jobs / one.seconds for one in answered], [jobs / seconds for seconds in others], share)


def _single() -> Request:
    return Request("POST", f"{API}/jobs", orjson.dumps({"workflow": WORKFLOW, "inputs": {"i": 1}, "key": uuid4().hex}))


def _batch() -> Request:
    jobs = [{"workflow": WORKFLOW, "inputs": {"i": 1}, "key": uuid4().hex} for _ in range(BATCH)]
    return Request("POST", f"{API}/jobs/batch", orjson.dumps({"jobs": jobs}))


def _by_client(url: str, work: Callable[[str], Any]) -> float:
    """The seconds that it takes in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        seconds: float = pool.submit(_run, work, url).result()
        return seconds


def _run(work: Callable[[str], Any], url: str) -> float:
    seconds: float = asyncio.run(work(url))
    return seconds


async def _submit_singles(url: str) -> float:
    """Single submits of the client, as many at once as there are connections."""
    async with Client.connect(url) as client:
        definition, left = await client.definition(WORKFLOW), iter(range(SINGLES))

        async def submit_some() -> None:
            for _ in left:
                await client.submit(definition, {"i": 1}, key=uuid4().hex)

        begun = time.perf_counter()
        await asyncio.gather(*(submit_some() for _ in range(CONNECTIONS)))
        return time.perf_counter() - begun


async def _submit_many(url: str) -> float:
    async with Client.connect(url) as client:
        definition = await client.definition(WORKFLOW)
        begun = time.perf_counter()
        for _ in range(BATCHES):
            await client.submit_many(jobs_of(definition, [{"i": 1}] * BATCH))
        return time.perf_counter() - begun


def faulty() -> Definition:
    """A fan-out of which each hundredth item fails, in three ways."""
    flow = Workflow("bench_faulty", inputs={"items": {"type": "array"}})
    tolerate = {"failures": "2%", "counts_as": "completed"}
    params = {"i": "{{ item }}"}
    flow.fan_out("items", source="{{ inputs['items'] }}", handler="bench.faulty", params=params, tolerate=tolerate)
    return flow.definition()


async def read_all(url: str, store: PostgresStore, tasks: int, width: int) -> AsyncIterator[Read]:
    """Each kind of read, from a database with that many finished tasks."""
    async with Client.connect(url) as client:
        with Fleet(url):
            await age(store, tasks, width)
            marked = await _marked_jobs(client, store)
            (wide,) = jobs_of(faulty(), [{"items": list(range(width))}])
            begun = time.perf_counter()
            await client.submit_many([wide])
            await all_finished(store, [wide], begun)
        async with api(url, store) as (process, key):
            for name, paths in _reads(wide.job_id, marked, await _failure(client, wide.job_id)).items():
                requests = [Request("GET", API + path) for path in _repeated(paths, READS)]
                answered = await asyncio.to_thread(send_all, process.url, key, requests, 1)
                p50, p99 = (1000 * pick(answered.durations, share) for share in (0.5, 0.99))
                yield Read(name, p50, p99)


async def _marked_jobs(client: Client, store: PostgresStore) -> list[str]:
    """Small jobs with labels and other marks, that have ended."""
    begun, jobs = time.perf_counter(), jobs_of(one_task(), [{"i": i} for i in range(20_000)])
    marked = [
        job._replace(labels={"team": f"t{i % 50}"}, correlation_id=f"cause {i % 500}") for i, job in enumerate(jobs)
    ]
    for first in range(0, len(marked), 1000):
        await client.submit_many(marked[first : first + 1000])
    await all_finished(store, marked, begun)
    return [job.job_id for job in marked]


async def _failure(client: Client, job_id: str) -> FailedGroup:
    (group, *_) = await client.failures(job_id, "items")
    return group


def _reads(wide: str, small: Sequence[str], failed: FailedGroup) -> dict[str, list[str]]:
    items = f"/jobs/{wide}/nodes/items"
    return {
        "a job": [f"/jobs/{job_id}" for job_id in small[::67]],
        "a wide job": [f"/jobs/{wide}"],
        "newest jobs": ["/jobs"],
        "jobs by status": ["/jobs?status=cancelled", "/jobs?status=completed"],
        "jobs by workflow": ["/jobs?workflow=bench_one", "/jobs?workflow=bench_faulty"],
        "jobs by code": [f"/jobs?code={failed.code}"],
        "jobs by fingerprint": [f"/jobs?fingerprint={failed.fingerprint}"],
        "jobs by label": [f"/jobs?label=team%3Dt{i}" for i in range(50)],
        "jobs by correlation": [f"/jobs?correlation=cause%20{i}" for i in range(500)],
        "jobs by text": [f"/jobs?text={small[7][:13]}", f"/jobs?text={small[9][-8:]}", "/jobs?text=bench_o"],
        "open jobs": ["/jobs?status=running"],
        "a page of tasks": [f"{items}/tasks?limit=100", f"{items}/tasks?limit=100&cursor=50000"],
        "failed tasks": [f"{items}/tasks?status=failed&limit=100"],
        "the map": [f"{items}/map"],
        "the failure clusters": [f"{items}/failures"],
        "the timeline": [f"/jobs/{wide}/timeline"],
        "events": [f"/jobs/{wide}/events?limit=500", f"/jobs/{wide}/events?limit=500&cursor=50000"],
    }


def _repeated(paths: Sequence[str], times: int) -> Iterable[str]:
    return (paths[i % len(paths)] for i in range(times))
