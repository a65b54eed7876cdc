"""The cost of receivers: a fan-out whose items all fail, with and without a receiver of each failure."""

from __future__ import annotations

import asyncio
import base64
import os
from typing import NamedTuple

from bench.fleet import Fleet
from bench.workloads import jobs_of, run_jobs
from holdfast.define.definition import Definition
from holdfast.define.workflow import Workflow
from holdfast.store.postgres import PostgresStore


class Notified(NamedTuple):
    without: list[float]
    """Seconds of each round."""
    beside: list[float]
    rows: int
    """How many rows the outbox has after a round with a receiver."""


def _failing(*, has_receiver: bool) -> Definition:
    notify = [{"on": ["task_exhausted", "node_failed", "completed"], "webhook": "pager"}] if has_receiver else None
    flow = Workflow("bench_notified" if has_receiver else "bench_failing", notify=notify)
    flow.fan_out(
        "items",
        source="{{ inputs['items'] }}",
        handler="bench.failing",
        params={"i": "{{ item }}"},
        tolerate={"failures": "100%", "counts_as": "completed"},
    )
    return flow.definition()


async def compare(url: str, store: PostgresStore, width: int, runs: int) -> Notified:
    """In turns, because the machine's speed varies."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    os.environ["HOLDFAST_OUTGOING_ALLOW"] = "127.0.0.1"
    receiver = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = receiver.sockets[0].getsockname()[1]
    async with store.connections.use("bench") as connection:
        await connection.execute(
            "insert into webhooks (tenant, name, url, events, secret, created_by)"
            " values ('default', 'pager', %s, '{}', %s, 'bench')",
            (f"http://127.0.0.1:{port}/", "whsec_" + base64.b64encode(os.urandom(32)).decode()),
        )
    async with receiver:
        with Fleet(url):
            await _rounds(store, width, runs, seconds)
    async with store.connections.use("bench") as connection:
        row = await (await connection.execute("select count(*) from outbox")).fetchone()
    assert row is not None
    return Notified(seconds[False], seconds[True], row[0] // runs)


async def _rounds(store: PostgresStore, width: int, runs: int, seconds: dict[bool, list[float]]) -> None:
    for _ in range(runs):
        for has_receiver, found in seconds.items():
            (job,) = jobs_of(_failing(has_receiver=has_receiver), [{"items": list(range(width))}])
            found.append(await run_jobs(store, [job]))


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A receiver that takes everything."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.partition(b":")[2]))
    writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
    await writer.drain()
    writer.close()
