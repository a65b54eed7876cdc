"""The data of a job for programs: outputs, params and results, of any size."""

from __future__ import annotations

import asyncio
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client, Context, SyncClient, load_text, to_json
from holdfast.errors import NotFound, PayloadUnavailable
from holdfast.operations.scope import Scope
from tests.running import HOME, Engine, client_of, registry, running

pytestmark = pytest.mark.anyio

ITEMS = load_text("""
workflow_id: items
nodes:
  each:
    type: fan_out
    source: "{{ [0, 1, 2] }}"
    task: {handler: work, params: {item: "{{ item }}"}}
    next: gather
  gather: {type: fan_in}
""")
STORAGE = str(HOME / "payloads")


def publish(ctx: Context) -> str:
    (ctx.workdir / "a.txt").write_text("a file")
    ctx.checkpoint("written", {"lines": 1})
    ctx.publish("a.txt")
    return "done"


def work(item: int) -> Any:
    return "x" * 100_000 if item == 1 else item


async def a_job(database_url: str) -> str:
    async with running(database_url, registry(work=work)) as engine:
        job_id: str = (await engine.run(ITEMS))["job_id"]
        return job_id


async def test_large_values_come_from_the_object_store_that_the_client_names(database_url: str) -> None:
    job_id = await a_job(database_url)
    async with Client.connect(database_url, storage_url=STORAGE) as client:
        assert (await client.output(job_id, "gather")).value["results"] == [0, "x" * 100_000, 2]
        assert (await client.output(job_id, "each", index=1)).value == "x" * 100_000
        outputs = [result.output async for result in client.results(job_id, "each")]
        assert outputs == [0, "x" * 100_000, 2]
    async with Client.connect(database_url) as client:
        assert (await client.output(job_id, "each", index=0)).value == 0, "a small value needs no object store"
        with pytest.raises(PayloadUnavailable, match="this client has none"):
            await client.output(job_id, "each", index=1)


async def test_the_synchronous_client_reads_the_same_data(database_url: str) -> None:
    job_id = await a_job(database_url)

    def read() -> None:
        with SyncClient.connect(database_url, storage_url=STORAGE) as client:
            assert to_json(client.params(job_id, "each", index=2)) == {
                "job_id": job_id, "node": "each", "item": 2, "status": "completed", "value": {"item": 2},
            }  # fmt: skip
            assert client.output(job_id, "each").items == 3
            assert [result.item for result in client.results(job_id, "each", status="completed")] == [0, 1, 2]
            assert [task.index for task in client.tasks(job_id, node="1", after=("each", 0))] == [1, 2]

    await asyncio.to_thread(read)


async def test_files_and_checkpoints_of_a_job_can_be_read(database_url: str, tmp_path: Path) -> None:
    async with running(database_url, registry(publish=publish)) as engine:
        flow = load_text("workflow_id: files\nnodes: {a: {handler: publish}}")
        job_id = (await engine.run(flow))["job_id"]

    def read() -> None:
        with SyncClient.connect(database_url, storage_url=STORAGE) as client:
            (point,) = client.checkpoints(job_id, "a")
            assert (point.item, point.number, point.name, point.value) == (None, 1, "written", {"lines": 1})
            (artifact,) = client.artifacts(job_id)
            assert client.artifacts(job_id, limit=5, after=artifact) == []
            client.fetch_artifact(job_id, artifact, tmp_path / "copy")
            with pytest.raises(NotFound, match="has no artifact 'b' of a"):
                client.fetch_artifact(job_id, replace(artifact, name="b"), tmp_path / "other")

    await asyncio.to_thread(read)
    assert (tmp_path / "copy").read_text() == "a file"
    async with Client.connect(database_url, Scope("acme")) as client:
        with pytest.raises(NotFound):
            await client.artifacts(job_id)


async def test_another_tenant_finds_no_data(database_url: str) -> None:
    job_id = await a_job(database_url)
    async with client_of(database_url) as engine:
        reader = engine.store.reads("acme")
        assert await reader.node_output(job_id, "gather") is None
        assert await reader.task_output(job_id, "each", 0) is None
        assert await reader.task_params(job_id, "each", 0) is None
        assert [row async for row in reader.results(job_id, "each")] == []
        assert await reader.failed_items(job_id, "each", 5) == []
        with pytest.raises(NotFound):
            await Client(engine.store, Scope("acme")).output(job_id, "gather")


async def wide_job(engine: Engine, width: int) -> str:
    """A job with that many completed items, each with an output of a kilobyte, without running them."""
    job_id = await engine.submit(ITEMS)
    await engine.query(
        "insert into nodes (job_id, node, status, width, expanded_count, completed_count)"
        " values (%s, 'each', 'running', %s, %s, %s)",
        job_id, width, width, width,
    )  # fmt: skip
    await engine.query(
        "insert into tasks (job_id, node, item, status, attempt, params, output, finished_at)"
        " select %s, 'each', n, 'completed', 1, '{}', to_jsonb(repeat('x', 1000)), now()"
        " from generate_series(0, %s - 1) n",
        job_id, width,
    )  # fmt: skip
    return job_id


async def test_the_results_of_a_wide_fan_out_are_never_all_in_memory(database_url: str) -> None:
    width = 20_000
    async with client_of(database_url) as engine:
        job_id = await wide_job(engine, width)
        number = 0
        tracemalloc.start()
        try:
            async for result in engine.client.results(job_id, "each"):
                assert result.item == number
                number += 1
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert number == width
    assert peak < 8 * 1024 * 1024, "all of them have 20 MB"
