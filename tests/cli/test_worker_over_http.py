"""`holdfast worker --url`: a worker without a database, as people start it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from holdfast import tracing
from holdfast.client import Client
from holdfast.define.load import load_text
from holdfast.operations.scope import Scope
from tests.cli.conftest import HOLDFAST
from tests.metrics.collector import collecting
from tests.metrics.scraping import Scrape
from tests.running import Engine, running
from tests.service.serving import Service, serving_http

pytestmark = pytest.mark.anyio

HANDLERS = """
from holdfast import Context, Permanent, handler

@handler("draw")
def draw(item, big="", *, ctx: Context):
    print("drawing", item)
    ctx.checkpoint("begun", {"item": item})
    ctx.progress(1, 2, "half")
    (ctx.workdir / "map.txt").write_text(f"map {item}")
    return {"map": ctx.publish("map.txt", f"map-{item}.txt"), "region": ctx.inputs["region"], "big": big}

@handler("bind")
def bind(*, ctx: Context):
    found = list(ctx.results("each"))
    maps = [ctx.fetch(one["map"]).read_text() for one in found]
    return {"maps": maps, "bytes": sum(len(one["big"]) for one in found)}

@handler("sign", isolation="process")
def sign(token, note, *, ctx: Context):
    print("signing with", token)
    return {"length": len(token), "note": len(note), "token": token}

@handler("query", database=True)
def query(*, ctx: Context):
    return ctx.database_url
"""
FLOW = """
workflow_id: atlas
inputs: {region: {type: string}, big: {type: string}}
nodes:
  each:
    type: fan_out
    source: "{{ [0, 1, 2, 3] }}"
    task: {handler: draw, params: {item: "{{ item }}", big: "{{ inputs.big }}"}}
    next: bound
  bound: {handler: bind}
"""


SIGNED = """
workflow_id: signed
inputs: {note: {type: string}}
nodes:
  sign: {handler: sign, params: {token: "{{ secrets.TOKEN }}", note: "{{ inputs.note }}"}}
"""
REFERENCE = "{{ secrets.TOKEN }}"


@asynccontextmanager
async def worker(folder: Path, *arguments: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    (folder / "drawing.py").write_text(HANDLERS)
    process = await asyncio.create_subprocess_exec(
        *HOLDFAST, "worker", "--handlers", "drawing", *arguments,
        env=os.environ | environment | {"HOLDFAST_HOME": str(folder / "elsewhere")}, cwd=folder,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_http(database_url) as service:
        yield service


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[Engine]:
    async with running(database_url, work=False) as engine:
        yield engine


async def test_a_worker_without_a_database_runs_a_workflow_with_files_and_large_values(
    service: Service, engine: Engine, tmp_path: Path
) -> None:
    key = await service.key("worker")
    job_id = await engine.submit(load_text(FLOW), {"region": "CIV", "big": "x" * 200_000})
    async with worker(tmp_path, "--url", service.url, HOLDFAST_API_KEY=key) as process:
        status = await engine.finished(job_id, 60)
        process.terminate()
        said = (await process.communicate())[0].decode()
        assert process.returncode == 0, said
    assert status["status"] == "completed", status
    assert status["result"] == {"maps": [f"map {item}" for item in range(4)], "bytes": 800_000}
    assert "these handlers are left out: query" in said
    assert "worker is running" in said
    assert await engine.query("select count(*) from holdfast.workers where bound_to is not null") == [(1,)]
    assert await engine.query("select count(*) from holdfast.workers where ended_at is null") == [(0,)]


async def test_a_worker_without_a_database_has_the_secrets_and_the_service_has_none(
    service: Service, engine: Engine, tmp_path: Path
) -> None:
    key, secret = await service.key("worker"), "a-secret-of-the-worker-alone"
    # Large params come by themselves, after the claim.
    notes = [REFERENCE, REFERENCE + "x" * 100_000]
    job_ids = [await engine.submit(load_text(SIGNED), {"note": note}) for note in notes]
    environment = {"HOLDFAST_API_KEY": key, "HOLDFAST_SECRET_TOKEN": secret}
    async with worker(tmp_path, "--url", service.url, **environment) as process:
        ended = [await engine.finished(job_id, 60) for job_id in job_ids]
        process.terminate()
        said = (await process.communicate())[0].decode()
    for status, note in zip(ended, notes, strict=True):
        assert status["result"] == {"length": len(secret), "note": len(note), "token": "***"}, status
        (attempt,) = await engine.client.attempts(status["job_id"])
        assert attempt.log == "signing with ***\n"
    assert secret not in said


async def _until_ready(output: asyncio.StreamReader) -> AsyncIterator[bytes]:
    async for line in output:
        yield line
        if line.startswith(b"{"):
            return


async def test_a_worker_over_http_shows_what_it_has_counted_and_sends_its_spans(
    engine: Engine, service: Service, tmp_path: Path
) -> None:
    key = await service.key("worker")
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    client = Client(engine.store, Scope(traceparent=caller))
    with collecting() as collector:
        environment = {"HOLDFAST_API_KEY": key, "HOLDFAST_TRACES_URL": collector.url}
        arguments = ("--url", service.url, "--metrics-port", "0", "--json")
        async with worker(tmp_path, *arguments, **environment) as process:
            assert process.stdout is not None
            # Its log lines go the same way.
            lines = [line async for line in _until_ready(process.stdout)]
            place = json.loads(lines[-1])["metrics"]
            job_id = (await client.submit(load_text(FLOW), {"region": "CIV", "big": ""})).job_id
            await engine.finished(job_id, 60)
            async with httpx2.AsyncClient() as scraper:
                page = Scrape((await scraper.get(place)).text)
                for path, text in (("/livez", "alive\n"), ("/readyz", "ready\n")):
                    assert (await scraper.get(place.removesuffix("/metrics") + path)).text == text
            process.terminate()
            await process.communicate()
    assert page.value("holdfast_attempts_total", outcome="completed", code="") == 5
    assert page.value("holdfast_slots") == 16
    assert "holdfast_workers" not in page.names
    job = tracing.Place.parse(caller)
    assert job is not None
    tasks = {job.of_task(job_id, "each", item, 1).span_id for item in range(4)}
    tasks.add(job.of_task(job_id, "bound", -1, 1).span_id)
    assert {int(span.parent_id, 16) for span in collector.named("attempt")} == tasks
    assert {span.trace_id for span in collector.spans} == {f"{job.trace_id:032x}"}


@pytest.mark.parametrize(("roles", "words"), [(["viewer"], "may not work"), ([], "not valid")])
async def test_a_worker_that_cannot_work_over_http_says_why(
    service: Service, tmp_path: Path, roles: list[str], words: str
) -> None:
    key = await service.key(*roles) if roles else f"hf_{'0' * 51}"
    async with worker(tmp_path, HOLDFAST_URL=service.url, HOLDFAST_API_KEY=key) as process:
        said = (await asyncio.wait_for(process.communicate(), 60))[0].decode()
        assert process.returncode != 0
    assert words in said
