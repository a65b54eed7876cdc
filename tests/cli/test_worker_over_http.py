"""`holdfast worker --url`: a worker without a database, as people start it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.define.load import load_text
from tests.cli.conftest import HOLDFAST
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


@pytest.mark.parametrize(
    ("roles", "arguments", "words"),
    [
        (["viewer"], [], "may not work"),
        (["worker"], ["--metrics-port", "0"], "has no port for metrics"),
        ([], [], "not valid"),
    ],
)
async def test_a_worker_that_cannot_work_over_http_says_why(
    service: Service, tmp_path: Path, roles: list[str], arguments: list[str], words: str
) -> None:
    key = await service.key(*roles) if roles else f"hf_{'0' * 51}"
    async with worker(tmp_path, *arguments, HOLDFAST_URL=service.url, HOLDFAST_API_KEY=key) as process:
        said = (await asyncio.wait_for(process.communicate(), 60))[0].decode()
        assert process.returncode != 0
    assert words in said
