"""Large data end to end: by reference in params, outputs and results, as artifacts, and refused if too large."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.define.load import load_text
from holdfast.define.registry import Registry, describe
from holdfast.define.workflow import Workflow
from holdfast.errors import PayloadRefused
from holdfast.operations.submitting import new_job
from holdfast.orchestrator import turns
from holdfast.worker.context import AsyncContext, Context
from tests.conftest import eventually
from tests.running import HOME, client_of, nodes, registry, running, serving
from tests.worker import isolated_objects

pytestmark = pytest.mark.anyio

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
ROOT = Path(__file__).parent.parent
LARGE = "x" * 100_000


def objects_of(job_id: str) -> set[str]:
    place = HOME / "payloads" / job_id
    return {file.name for file in place.iterdir()} if place.exists() else set()


def chain() -> Workflow:
    flow = Workflow("chain", inputs={"size": {"type": "integer"}})
    flow.task("make", handler="make", params={"size": "{{ inputs.size }}"})
    flow.task("use", handler="use", params={"text": "{{ nodes.make.output.text }}"}, after=["make"])
    return flow


async def make(size: int) -> dict[str, Any]:
    return {"text": "x" * size}


async def use(text: str) -> dict[str, Any]:
    return {"length": len(text), "text": text}


async def test_large_outputs_params_and_results_are_outside_the_database(database_url: str) -> None:
    async with running(database_url, registry(make=make, use=use)) as engine:
        status = await engine.run(chain().definition(), {"size": 100_000})
        assert status["status"] == "completed"
        assert status["result"] == {"length": 100_000, "text": LARGE}, "a reader should see the value"
        assert await engine.outputs(status["job_id"]) == {
            "make": {"text": LARGE},
            "use": {"length": 100_000, "text": LARGE},
        }
        tasks = await engine.query("select node, params, params_ref, output, output_ref from tasks order by node")
        (_, small, none, made, made_ref), (_, used_params, params_ref, used, used_ref) = tasks
        assert small == {"size": 100_000} and none is None and made is None
        assert made_ref == params_ref, "equal content should be one object"
        assert used_params is None and used is None
        kept = await engine.query("select digest, bytes from payloads where job_id = %s", status["job_id"])
        assert {digest for digest, _ in kept} == {made_ref, used_ref} == objects_of(status["job_id"])
        assert dict(kept)[made_ref] == len(LARGE) + 11
        assert await engine.query("select max(pg_column_size(n.*)) from nodes n") < [(2000,)]
        assert await engine.query("select result, result_ref from jobs") == [(None, used_ref)]


async def test_small_values_stay_in_the_database(database_url: str) -> None:
    async with running(database_url, registry(make=make, use=use)) as engine:
        status = await engine.run(chain().definition(), {"size": 60_000})
        assert status["result"]["length"] == 60_000
        assert await engine.query("select count(*) from payloads") == [(0,)]
        assert objects_of(status["job_id"]) == set()


async def test_another_orchestrator_continues_a_job_with_large_outputs(database_url: str) -> None:
    """An orchestrator that loads the job reads the large outputs that it needs."""
    async with client_of(database_url) as engine:
        async with serving(database_url, registry(make=make)):
            job_id = await engine.submit(chain().definition(), {"size": 100_000})

            async def made() -> bool:
                return bool((await engine.node(job_id, "make"))["status"] == "completed")

            await eventually(made)
        flow = await engine.query("select params, params_ref from tasks where node = 'use'")
        assert flow[0][0] is None and flow[0][1] is not None
        async with serving(database_url, registry(make=make, use=use)):
            assert (await engine.finished(job_id))["result"]["length"] == 100_000


async def test_an_unreadable_large_value_fails_its_task_with_a_clear_error(database_url: str, tmp_path: Path) -> None:
    async with client_of(database_url) as engine:
        async with serving(database_url, registry(make=make), home=tmp_path / "one"):
            job_id = await engine.submit(chain().definition(), {"size": 100_000})

            async def made() -> bool:
                return bool(await engine.query("select 1 from tasks where node = 'use'"))

            await eventually(made)
        async with (
            serving(database_url, registry(make=make, use=use), orchestrate=False, home=tmp_path / "other"),
            serving(database_url, work=False, home=tmp_path / "one"),
        ):

            async def failure() -> dict[str, Any] | None:
                error: dict[str, Any] | None = (await engine.node(job_id, "use"))["error"]
                return error

            error = await eventually(failure)
        assert f"of job {job_id} cannot be read from …/" in error["message"]
        ((log,),) = await engine.query("select log from attempts where node = 'use' limit 1")
        assert f"of job {job_id} cannot be read from {tmp_path / 'other'}" in log
        assert "HOLDFAST_STORAGE_URL" in error["message"]
        assert (await engine.outputs(job_id))["make"].keys() == {"payload"}


async def test_a_job_with_an_unreadable_payload_is_set_aside_and_continues_when_it_is_readable(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's store is not the orchestrator's. Other jobs must continue, and no work may be lost."""
    monkeypatch.setattr(turns, "ASIDE_SECONDS", (0.1, 0.2))
    handlers = registry(make=make, use=use)
    async with (
        client_of(database_url) as engine,
        serving(database_url, handlers, orchestrate=False, home=tmp_path / "worker"),
        serving(database_url, work=False, home=tmp_path / "orchestrator"),
    ):
        job_id = await engine.submit(chain().definition(), {"size": 100_000})

        async def set_aside() -> str | None:
            reason = (await engine.status(job_id))["reason"]
            return reason if reason and reason.startswith("orchestrator_error") else None

        reason = await eventually(set_aside)
        assert f"of job {job_id} cannot be read from {tmp_path / 'orchestrator'}" in reason
        neighbour = await engine.run(chain().definition(), {"size": 10})
        assert neighbour["status"] == "completed"
        (tmp_path / "orchestrator").mkdir(exist_ok=True)
        shutil.copytree(tmp_path / "worker" / "payloads", tmp_path / "orchestrator" / "payloads")
        shutil.rmtree(tmp_path / "worker" / "payloads")
        (tmp_path / "worker" / "payloads").symlink_to(tmp_path / "orchestrator" / "payloads")
        assert (await engine.finished(job_id))["status"] == "completed"
        assert await engine.query("select sum(attempt) from tasks where job_id = %s and node = 'make'", job_id) == [
            (1,)
        ]


# Values that are too large


async def test_inputs_that_are_too_large_are_refused_at_submission(database_url: str) -> None:
    definition = load_text("workflow_id: w\nnodes: {a: {handler: echo, params: {x: '{{ inputs.x }}'}}}")
    with pytest.raises(
        PayloadRefused, match=r"The inputs of workflow w have 16,777,2\d\d bytes; the limit is 16,777,216"
    ):
        new_job(definition, {"x": "x" * 16 * 1024 * 1024})
    with pytest.raises(PayloadRefused, match="the limit is 100") as refusal:
        new_job(definition, {"x": "x" * 100}, limit_bytes=100)
    assert "HOLDFAST_PAYLOAD_LIMIT_BYTES" in str(refusal.value.remedy)
    problem = refusal.value.to_problem()
    assert (problem["code"], problem["status"]) == ("PAYLOAD_REFUSED", 413)
    async with client_of(database_url) as engine:
        assert await engine.query("select count(*) from jobs") == [(0,)]


async def test_params_and_outputs_that_are_too_large_fail_their_task_at_once(database_url: str) -> None:
    flow = Workflow("w", inputs={"text": {"type": "string"}})
    flow.task("double", handler="use", params={"text": "{{ inputs.text }}{{ inputs.text }}"})
    handlers = registry(make=make, use=use)
    async with running(database_url, handlers, payload_limit_bytes=1000) as engine:
        status = await engine.run(flow.definition(), {"text": "x" * 600})
        assert status["error"]["code"] == "PAYLOAD_REFUSED" and status["error"]["class"] == "permanent"
        assert "the params are larger than 1,000 bytes; no more can be given to a handler" in status["error"]["message"]
        assert "ctx.publish" in status["error"]["hint"]
        status = await engine.run(chain().definition(), {"size": 2000})
        error = nodes(status)["make"]["error"]
        assert (error["code"], error["class"], error["attempt"]) == ("PAYLOAD_REFUSED", "permanent", 1)
        assert "the output of make has 2,011 bytes; at most 1,000" in error["message"]


def wide(aggregation: str = "collect") -> str:
    return f"""
workflow_id: wide
nodes:
  f:
    type: fan_out
    source: "{{{{ inputs['items'] }}}}"
    task: {{handler: item, params: {{n: "{{{{ item }}}}"}}}}
    next: g
  g: {{type: fan_in, aggregation: {aggregation}}}
"""


async def test_a_fan_in_that_would_be_too_large_fails_with_a_hint(database_url: str) -> None:
    async def item(n: int) -> str:
        return "x" * 400

    async with running(database_url, registry(item=item), payload_limit_bytes=1000) as engine:
        status = await engine.run(wide(), {"items": [1, 2, 3, 4]})
        assert status["status"] == "failed"
        error = nodes(status)["g"]["error"]
        assert (error["code"], error["class"]) == ("PAYLOAD_REFUSED", "permanent")
        assert "the first 3 results have 1,206 bytes together; at most 1,000" in error["message"]
        assert "ctx.results" in error["hint"]


async def test_large_items_are_gathered_one_by_one(database_url: str) -> None:
    async def item(n: int) -> dict[str, Any]:
        return {"n": n, "text": LARGE}

    async with running(database_url, registry(item=item)) as engine:
        status = await engine.run(wide("sum"), {"items": list(range(20))})
        assert status["result"] == {"total": 190, "count": 20}
        status = await engine.run(wide(), {"items": list(range(5))})
        assert [one["n"] for one in status["result"]["results"]] == [0, 1, 2, 3, 4]
        assert await engine.query("select count(*) from tasks where item >= 0 and output is not null") == [(0,)]


# Results in pages


def after_a_fan_out(handler: str) -> Workflow:
    flow = Workflow("paged", inputs={"items": {"type": "any"}})
    flow.fan_out("stack", source="{{ inputs['items'] }}", handler="item", params={"n": "{{ item }}"})
    flow.task("gather", handler=handler, after=["stack"])
    return flow


async def item(n: int) -> Any:
    return {"n": n, "text": LARGE if n == 3 else ""}


def summed(ctx: Context) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "all": [one["n"] for one in ctx.results("stack")],
        "slice": [one["n"] for one in ctx.results("stack", offset=2, limit=3)],
        "nothing": list(ctx.results("stack", offset=100)),
        "large": sum(len(one["text"]) for one in ctx.results("stack")),
    }


async def summed_async(ctx: AsyncContext) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "all": [one["n"] async for one in ctx.results("stack")],
        "slice": [one["n"] async for one in ctx.results("stack", offset=2, limit=3)],
        "nothing": [one async for one in ctx.results("stack", offset=100)],
        "large": sum([len(one["text"]) async for one in ctx.results("stack")]),
    }


WANTED = {"all": list(range(10)), "slice": [2, 3, 4], "nothing": [], "large": 100_000}


@pytest.mark.parametrize("kind", ["thread", "async", "process", "async_process"])
async def test_a_node_pages_through_the_results_of_another(database_url: str, kind: str) -> None:
    gathers = {
        "thread": describe(summed, "gather"),
        "async": describe(summed_async, "gather"),
        "process": describe(isolated_objects.sums_results, "gather", isolation="process"),
        "async_process": describe(isolated_objects.sums_results_async, "gather", isolation="process"),
    }
    handlers = registry(item=item)
    handlers.add(gathers[kind])
    async with running(database_url, handlers) as engine:
        status = await engine.run(after_a_fan_out("gather").definition(), {"items": list(range(10))})
        output = (await engine.outputs(status["job_id"]))["gather"]
        assert (output.pop("pid") == os.getpid()) == (kind in ("thread", "async"))
        assert output == WANTED


async def test_reading_thousands_of_results_needs_the_memory_of_a_page(database_url: str) -> None:
    """A real worker reads 1,924 results of 1.09 MB in total, and reports its peak memory."""
    flow = Workflow("many", inputs={"items": {"type": "any"}})
    flow.fan_out("stack", source="{{ inputs['items'] }}", handler="weighs", params={"size": 567})
    flow.task("gather", handler="weighed", after=["stack"])
    command = [HOLDFAST, "worker", "--handlers", "tests.worker.isolated_objects", "--database-url", database_url]
    async with client_of(database_url) as engine, serving(database_url, work=False):
        with subprocess.Popen(command, cwd=ROOT, env=os.environ | {"HOLDFAST_HOME": str(HOME)}) as worker:
            try:
                status = await engine.run(flow.definition(), {"items": [None] * 1924})
            finally:
                worker.terminate()
        read = status["result"]
        assert (read["count"], read["bytes"]) == (1924, 1_090_908)
        assert read["pid"] == worker.pid
        assert read["peak_mb"] < 200


async def test_reading_results_of_an_unknown_node_is_an_error(database_url: str) -> None:
    def asks(ctx: Context) -> list[Any]:
        return list(ctx.results("stak"))

    async with running(database_url, registry(item=item, asks=asks)) as engine:
        status = await engine.run(after_a_fan_out("asks").definition(), {"items": [1]})
        error = nodes(status)["gather"]["error"]
        assert (error["code"], error["class"], error["attempt"]) == ("CONTRACT_VIOLATION", "permanent", 1)
        assert "node stak of job" in error["message"] and "comes before gather" in error["message"]


async def test_a_negative_offset_is_refused(database_url: str) -> None:
    def asks(ctx: Context) -> list[Any]:
        return list(ctx.results("stack", offset=-1))

    async with running(database_url, registry(item=item, asks=asks)) as engine:
        status = await engine.run(after_a_fan_out("asks").definition(), {"items": [1]})
        assert "offset=-1" in nodes(status)["gather"]["error"]["message"]


# Artifacts and working directories


def publishing() -> Workflow:
    flow = Workflow("publishing")
    flow.task("write", handler="write")
    flow.task("read", handler="read", params={"file": "{{ nodes.write.output.file }}"}, after=["write"])
    return flow


def write(ctx: Context) -> dict[str, Any]:
    assert list(ctx.workdir.iterdir()) == []
    (ctx.workdir / "tile.bin").write_bytes(b"tile" * 1000)
    return {"file": ctx.publish("tile.bin"), "where": str(ctx.workdir)}


def read(file: dict[str, Any], ctx: Context) -> dict[str, Any]:
    place = ctx.fetch(file)
    assert place.parent == ctx.workdir
    return {"bytes": place.read_bytes().decode()[:8], "name": place.name, "where": str(ctx.workdir)}


async def read_async(file: dict[str, Any], ctx: AsyncContext) -> dict[str, Any]:
    place = await ctx.fetch(file)
    again = await ctx.publish(place, name="copy/of.bin")
    return {"bytes": place.read_bytes().decode()[:8], "name": again["artifact"], "where": str(ctx.workdir)}


DIGEST = hashlib.sha256(b"tile" * 1000).hexdigest()


@pytest.mark.parametrize(
    ("writer", "reader", "isolation", "name"),
    [
        (write, read, "thread", "tile.bin"),
        (write, read_async, "thread", "copy/of.bin"),
        (isolated_objects.publishes, isolated_objects.fetches, "process", "tile.bin"),
    ],
)
async def test_a_later_task_fetches_the_published_file(
    database_url: str, writer: Any, reader: Any, isolation: str, name: str
) -> None:
    handlers = Registry([describe(writer, "write", isolation=isolation), describe(reader, "read", isolation=isolation)])
    async with running(database_url, handlers) as engine:
        status = await engine.run(publishing().definition())
        outputs = await engine.outputs(status["job_id"])
        assert outputs["write"]["file"] == {"artifact": "tile.bin", "digest": DIGEST, "bytes": 4000}
        assert (outputs["read"]["bytes"], outputs["read"]["name"]) == ("tiletile", name)
        places = [Path(outputs[node]["where"]) for node in ("write", "read")]
        assert places[0] != places[1]

        async def gone() -> bool:
            return not any(place.exists() for place in places)

        await eventually(gone)
        published = await engine.reader.artifacts(status["job_id"])
        assert [(a.node, a.item, a.name, a.digest, a.bytes, a.attempt) for a in published][-1] == (
            "write", -1, "tile.bin", DIGEST, 4000, 1,
        )  # fmt: skip
        assert await engine.query("select distinct digest, bytes from payloads") == [(DIGEST, 4000)]


async def test_a_file_is_visible_only_after_its_attempt_has_succeeded(database_url: str) -> None:
    looked = threading.Event()
    attempts: list[int] = []

    def fails_at_first(ctx: Context) -> str:
        (ctx.workdir / "a.txt").write_text(f"attempt {ctx.attempt}")
        ctx.publish("a.txt")
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            raise RuntimeError("after publishing")
        assert looked.wait(20)
        return "done"

    flow = Workflow("w")
    flow.task("a", handler="fails", retry={"initial_delay_seconds": 0})
    async with running(database_url, registry(fails=fails_at_first)) as engine:
        job_id = await engine.submit(flow.definition())

        async def second() -> bool:
            return 2 in attempts

        await eventually(second)
        assert await engine.reader.artifacts(job_id) == []
        looked.set()
        await engine.finished(job_id)
        (artifact,) = await engine.reader.artifacts(job_id)
        assert artifact.attempt == 2
        assert artifact.digest == hashlib.sha256(b"attempt 2").hexdigest()


async def test_the_file_of_a_zombie_never_becomes_visible(database_url: str) -> None:
    """The attempt publishes, loses its lease without noticing, and reports after another attempt was accepted."""
    published, release = threading.Event(), threading.Event()

    def work(ctx: Context) -> str:
        (ctx.workdir / "a.txt").write_text(f"attempt {ctx.attempt}")
        ctx.publish("a.txt")
        if ctx.attempt == 1:
            published.set()
            assert release.wait(30)
        return f"attempt {ctx.attempt}"

    flow = Workflow("w")
    flow.task("a", handler="work")
    blind: dict[str, Any] = {"lease_seconds": 600.0, "renew_seconds": 500.0}
    async with client_of(database_url) as engine, serving(database_url, work=False):
        job_id = await engine.submit(flow.definition())
        async with serving(database_url, registry(work=work), orchestrate=False, **blind):
            await asyncio.to_thread(published.wait, 20)
            await engine.query("update workers set lease_until = now() - interval '1 s'")
            async with serving(database_url, registry(work=work), orchestrate=False):
                assert (await engine.finished(job_id))["result"] == "attempt 2"
                release.set()

                async def rejected() -> bool:
                    return any(event["event"] == "report_rejected" for event in await engine.events(job_id))

                await eventually(rejected)
        (artifact,) = await engine.reader.artifacts(job_id)
        assert (artifact.attempt, artifact.digest) == (2, hashlib.sha256(b"attempt 2").hexdigest())
        orphan = hashlib.sha256(b"attempt 1").hexdigest()
        assert orphan in objects_of(job_id), "the object should exist without a reference"
        assert (orphan,) not in await engine.query("select digest from payloads")


async def test_an_invalid_reference_is_refused(database_url: str) -> None:
    def asks(ctx: Context) -> None:
        ctx.fetch({"path": "/etc/passwd"})

    flow = Workflow("w")
    flow.task("a", handler="asks", retry={"max_retries": 0})
    async with running(database_url, registry(asks=asks)) as engine:
        status = await engine.run(flow.definition())
        assert "is not a reference that ctx.publish has returned" in nodes(status)["a"]["error"]["message"]
