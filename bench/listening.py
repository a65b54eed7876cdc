"""The cost of listeners: memory of each, and the time from an event's commit until a listener has it.

Most listeners follow one job each, and take the next job when theirs has ended. All of them are in this process, which
also submits; the service, the orchestrator and the worker are processes of their own.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
import uuid
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import psutil
import psycopg

from bench.fleet import Fleet
from bench.workloads import pick
from holdfast.client import Client
from holdfast.define.definition import Definition
from holdfast.define.workflow import Workflow
from holdfast.operations.scope import Scope
from holdfast.operations.submitting import new_job
from holdfast.store.postgres import PostgresStore

OF_THE_TENANT = 20
NOTED = 3
"""Of so many of these every receipt is noted: the others would measure this process."""
TURN_SECONDS = 0.1
SETTLING_SECONDS, MEASURED_SECONDS = 5.0, 15.0
FIRST_RATE, STEP = 200.0, 1.5
REACHED = 0.8
"""The machine cannot do more when this share of a rate is not reached."""
LATE_SECONDS = 1.0
_EVENT = re.compile(rb'"seq":(\d+),"job_id":"([0-9a-f-]{36})"')


def keep_commit_times(url: str) -> None:
    """Let Postgres note when transactions commit, from its next start on."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("alter system set track_commit_timestamp = on")


@dataclass(frozen=True, slots=True)
class Round:
    """What listeners got at one rate of jobs; the latencies are in order."""

    jobs_per_second: float
    events_per_second: float
    of_jobs: list[float]
    of_tenant: list[float]
    listener_kb: float
    processor: float

    @property
    def p99(self) -> float:
        """Without end if some listeners got nothing that was committed in these seconds."""
        both = (self.of_jobs, self.of_tenant)
        return max(pick(ordered, 0.99) if ordered else math.inf for ordered in both)


class Receipt(NamedTuple):
    """An event that a listener got, and since when its stream was open."""

    job_id: str
    seq: int
    at: float
    open_since: float


class Connection(asyncio.Protocol):
    """One listener. Only the events of a stream are looked at, not the framing around them."""

    def __init__(self, key: str, notes: list[Receipt] | None, free: deque[Connection]) -> None:
        """`notes` gets what the listener receives; when its stream has ended it is `free` again."""
        self._key, self._notes, self._free = key, notes, free
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._since = 0.0
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True

    def follow(self, path: str) -> None:
        assert self._transport is not None
        self._rest, self._since = b"", 0.0
        head = f"GET /api/v1/{path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self._key}\r\n\r\n"
        self._transport.write(head.encode())

    def data_received(self, data: bytes) -> None:
        now = time.time()
        self._since = self._since or now
        text = self._rest + data
        if self._notes is not None:
            end = 0
            for one in _EVENT.finditer(text):
                self._notes.append(Receipt(one[2].decode(), int(one[1]), now, self._since))
                end = one.end()
            text = text[end:]
        self._rest = text[-1000:]
        if self._rest.endswith(b"\r\n0\r\n\r\n"):
            self._free.append(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def resting() -> Definition:
    flow = Workflow("bench_rest", inputs={"seconds": {"type": "number"}})
    flow.task("a", handler="bench.rest", params={"seconds": "{{ inputs.seconds }}"})
    return flow.definition()


class Listeners:
    """All listeners, and what they have got."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key
        self.of_jobs: list[Receipt] = []
        self.of_tenant: list[Receipt] = []
        self.free: deque[Connection] = deque()
        self._all: list[Connection] = []

    async def open(self, number: int) -> None:
        """The first ones follow the tenant at once; the others are free for jobs."""
        for place in range(number):
            if place >= OF_THE_TENANT:
                self.free.append(await self._connected(self.of_jobs))
            else:
                one = await self._connected(self.of_tenant if place < NOTED else None)
                one.follow("events/stream")

    async def _connected(self, notes: list[Receipt] | None) -> Connection:
        loop = asyncio.get_running_loop()
        _, one = await loop.create_connection(lambda: Connection(self._key, notes, self.free), "127.0.0.1", self._port)
        self._all.append(one)
        return one

    @property
    def lost(self) -> int:
        return sum(one.is_lost for one in self._all)

    def close(self) -> None:
        for one in self._all:
            one.close()


async def submit_at(rate: float, seconds: float, client: Client, listeners: Listeners, job_seconds: float) -> float:
    """Submit jobs that last so long; a free listener follows each. Returns the rate that was reached."""
    definition, began, sent = resting(), time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        jobs = [
            new_job(definition, {"seconds": job_seconds}, key=uuid.uuid4().hex)
            for _ in range(int(passed * rate) - sent)
        ]
        if jobs:
            await client.submit_many(jobs)
        for job in jobs:
            if listeners.free:
                listeners.free.popleft().follow(f"jobs/{job.job_id}/stream")
        sent += len(jobs)
        await asyncio.sleep(TURN_SECONDS)
    return sent / (time.monotonic() - began)


async def listen(url: str, fleet: Fleet, port: int, number: int) -> None:
    """Print rounds at higher and higher rates, until the listeners get their events late."""
    store = PostgresStore(url, "bench")
    key = (await Client(store, Scope("*", "bench")).add_key("bench", roles=["viewer"], tenant="default")).key
    client, api = Client(store), psutil.Process(fleet.pids("api")[0])
    few = Listeners(port, key)
    await few.open(OF_THE_TENANT)
    await submit_at(50, 3, client, few, 0.1)
    few.close()
    without = api.memory_info().rss
    listeners, rate = Listeners(port, key), FIRST_RATE
    await listeners.open(number)
    while True:
        job_seconds = (number - OF_THE_TENANT) / rate
        await submit_at(rate, job_seconds + SETTLING_SECONDS, client, listeners, job_seconds)
        listeners.of_jobs.clear()
        listeners.of_tenant.clear()
        began, used = time.time(), api.cpu_times()
        reached = await submit_at(rate, MEASURED_SECONDS, client, listeners, job_seconds)
        now = api.cpu_times()
        processor = (now.user + now.system - used.user - used.system) / (time.time() - began)
        listener_kb = (api.memory_info().rss - without) / number / 1024
        await asyncio.sleep(2 * LATE_SECONDS)
        times = await commit_times(store, began)
        of_jobs, of_tenant = latencies(listeners.of_jobs, times), latencies(listeners.of_tenant, times)
        done = Round(reached, len(times) / MEASURED_SECONDS, of_jobs, of_tenant, listener_kb, processor)
        show(done, number, listeners.lost)
        if done.p99 > LATE_SECONDS or reached < rate * REACHED:
            break
        rate *= STEP
    listeners.close()
    await store.close()


async def commit_times(store: PostgresStore, since: float) -> dict[tuple[str, int], float]:
    """When the events since a time were committed."""
    async with store.connections.use("bench") as connection:
        cursor = await connection.execute(
            "select job_id::text, seq, extract(epoch from pg_xact_commit_timestamp(xid::xid))::float8 from events"
            " where at >= to_timestamp(%s)",
            (since,),
        )
        return {(job_id, seq): at for job_id, seq, at in await cursor.fetchall()}


def latencies(receipts: list[Receipt], times: dict[tuple[str, int], float]) -> list[float]:
    """From commit to receipt, of what was committed while the stream was open."""
    found = [(times[one.job_id, one.seq], one) for one in receipts if (one.job_id, one.seq) in times]
    return sorted(one.at - committed for committed, one in found if committed > one.open_since)


def show(done: Round, number: int, lost: int) -> None:
    def text(ordered: list[float]) -> str:
        if not ordered:
            return "nothing in time"
        return f"p50 {pick(ordered, 0.5) * 1000:,.0f} ms, p99 {pick(ordered, 0.99) * 1000:,.0f} ms ({len(ordered):,})"

    print(
        f"{'listeners':<12} {number:,} ({OF_THE_TENANT} of the tenant, the others of a job each) at"
        f" {done.jobs_per_second:,.0f} jobs/s, {done.events_per_second:,.0f} events/s: {done.listener_kb:.0f} KB each;"
        f" commit to receipt, of jobs: {text(done.of_jobs)}, of the tenant: {text(done.of_tenant)}; the service used"
        f" {done.processor:.2f} processors; {lost} connections lost",
        flush=True,
    )
