"""What attempts of workers over HTTP read and store: checkpoints, progress, results, objects and breakers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from holdfast.define.load import load_text
from holdfast.errors import PayloadUnavailable
from holdfast.remote.objects import RemoteObjects
from holdfast.remote.task_source import RemoteTaskSource
from holdfast.store.records import Lease
from holdfast.worker.context import LeaseLost
from tests.conftest import eventually
from tests.running import Engine, running
from tests.service.serving import API, Service, serving_http
from tests.service.working import PlainWorker, done, plain_worker, register

pytestmark = pytest.mark.anyio

LARGE = "x" * 300_000


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_http(database_url, upload_limit_bytes=2_000_000) as service:
        yield service


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[Engine]:
    async with running(database_url, work=False) as engine:
        yield engine


async def claimed(engine: Engine, worker: PlainWorker, flow: str, **inputs: Any) -> dict[str, Any]:
    """The first task of a job."""
    await engine.submit(load_text(flow), inputs)
    (task,) = await worker.claim(wait_seconds=20)
    return task


FLOW = "workflow_id: w\nnodes: {a: {handler: work}}"
TWO = """
workflow_id: two
breakers: {maps: {window_calls: 10, failure_share: 0.5, cooldown_seconds: 60}}
nodes:
  each: {type: fan_out, source: "{{ [1, 2, 3] }}", task: {handler: work, params: {item: "{{ item }}"}}, next: last}
  last: {handler: work, params: {big: "{{ inputs.big }}"}, breaker: maps}
inputs: {big: {type: string, default: small}}
"""


async def get(worker: PlainWorker, task: dict[str, Any], path: str, **query: Any) -> httpx2.Response:
    headers = {"Holdfast-Lease": task["lease"]}
    return await worker.client.get(f"{API}/worker/{path}", headers=headers, params=query)


async def put(worker: PlainWorker, task: dict[str, Any], content: bytes, digest: str = "") -> httpx2.Response:
    path = f"{API}/worker/payload/{digest or hashlib.sha256(content).hexdigest()}"
    return await worker.client.put(path, headers={"Holdfast-Lease": task["lease"]}, content=content)


async def test_the_next_attempt_continues_from_the_last_checkpoint_also_after_a_repeated_one(
    service: Service, engine: Engine
) -> None:
    worker = await plain_worker(service)
    task = await claimed(engine, worker, FLOW)
    assert task["checkpoint_seq"] == 0
    for seq, page in ((1, 3), (2, 7), (2, 7)):
        body = {"lease": task["lease"], "seq": seq, "name": f"page {page}", "data": {"page": page}}
        assert await worker.ask("checkpoint", **body) == {"saved": True}
    failure = {"code": "LATER", "retry_after_seconds": 0}
    await worker.report({"lease": task["lease"], "outcome": "failed", "failure": failure})
    late = {"lease": task["lease"], "seq": 3, "name": "late", "data": None}
    assert await worker.ask("checkpoint", **late) == {"saved": False}
    (again,) = await worker.claim(wait_seconds=20)
    assert (again["attempt"], again["resume_point"]) == (2, {"name": "page 7", "data": {"page": 7}})
    assert again["checkpoint_seq"] == 2


async def test_a_checkpoint_that_is_too_large_is_refused(service: Service, engine: Engine) -> None:
    worker = await plain_worker(service)
    task = await claimed(engine, worker, FLOW)
    answer = await worker.send("checkpoint", lease=task["lease"], seq=1, name="n", data="x" * 5_000_000)
    assert answer.status_code == 422
    assert "at most 4,194,304" in answer.json()["detail"]


async def test_progress_and_what_attempts_print_are_seen_while_they_run(service: Service, engine: Engine) -> None:
    worker = await plain_worker(service)
    task = await claimed(engine, worker, FLOW)
    printed = {"lease": task["lease"], "part": 1, "started_at": 1.7e9, "log": "drawing\n", "log_times": [[0, 5]]}
    progress = {"lease": task["lease"], "done": 3, "total": 12, "text": "maps"}
    forged = {**progress, "lease": "x"}
    assert await worker.ask("progress", progress=[progress, forged], printed=[printed]) == {"noted": 2}
    shown = await engine.query("select progress from holdfast.queue")
    assert shown == [({"done": 3, "total": 12, "text": "maps"},)]
    lines = await engine.query("select log from holdfast.attempt_output")
    assert lines == [("drawing\n",)]
    await worker.ask("progress", ended=[task["lease"]])
    assert await engine.query("select log from holdfast.attempt_output") == []


async def test_a_task_reads_the_results_of_another_node_page_by_page(service: Service, engine: Engine) -> None:
    worker = await plain_worker(service)
    await engine.submit(load_text(TWO))
    tasks = await worker.claim(wait_seconds=20)
    while len(tasks) < 3:
        tasks += await worker.claim(wait_seconds=20)
    early = await get(worker, tasks[0], "results/each")
    assert (early.status_code, early.json()["code"]) == (404, "NOT_FOUND")
    outputs = [{"n": 0}, LARGE, None]
    await worker.report(*(done(task, outputs[task["index"]]) for task in tasks))
    (last,) = await worker.claim(wait_seconds=20)
    page = (await get(worker, last, "results/each")).json()["items"]
    digest = hashlib.sha256(f'"{LARGE}"'.encode()).hexdigest()
    assert page == [
        {"index": 0, "output": {"n": 0}, "output_ref": None},
        {"index": 1, "output": None, "output_ref": digest},
        {"index": 2, "output": None, "output_ref": None},
    ]
    assert (await get(worker, last, f"payload/{digest}")).content == f'"{LARGE}"'.encode()
    rest = await get(worker, last, "results/each", after=0, limit=1)
    assert [item["index"] for item in rest.json()["items"]] == [1]
    assert (await get(worker, last, "results/nonsense")).status_code == 404


async def test_large_params_and_outputs_and_files_travel_as_objects(service: Service, engine: Engine) -> None:
    worker = await plain_worker(service)
    flow = 'workflow_id: l\ninputs: {big: {type: string}}\nnodes: {a: {handler: work, params: {b: "{{ inputs.big }}"}}}'
    job_id = await engine.submit(load_text(flow), {"big": LARGE})
    (task,) = await worker.claim(wait_seconds=20)
    definition = (await get(worker, task, "definition")).json()
    assert definition["definition_hash"] == task["definition_hash"]
    assert definition["definition"]["workflow_id"] == "l"
    assert task["params"] is None
    assert (await get(worker, task, f"payload/{task['params_ref']}")).json() == {"b": LARGE}
    output, file = f'{{"b":"{LARGE}"}}'.encode(), b"\x00\xff" * 500_000
    for content in (output, file, file):
        stored = (await put(worker, task, content)).json()
        assert stored == {"digest": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    artifact = {"artifact": "map.bin", "digest": hashlib.sha256(file).hexdigest(), "bytes": len(file)}
    report = {
        "lease": task["lease"],
        "outcome": "done",
        "output_ref": hashlib.sha256(output).hexdigest(),
        "artifacts": [artifact],
    }
    assert await worker.report(report) == ["taken"]
    assert (await engine.finished(job_id))["status"] == "completed"
    assert (await engine.outputs(job_id))["a"] == {"b": LARGE}
    reader = await service.as_role("viewer")
    assert (await reader.get(f"{API}/jobs/{job_id}/artifacts/map.bin")).content == file


async def test_a_report_that_names_an_object_that_is_not_there_is_not_taken(service: Service, engine: Engine) -> None:
    worker = await plain_worker(service)
    task = await claimed(engine, worker, FLOW)
    content = b"here"
    digest = hashlib.sha256(content).hexdigest()
    assert await worker.report(done(task, artifacts=[{"artifact": "a", "digest": digest, "bytes": 4}])) == ["locked"]
    assert await worker.report({"lease": task["lease"], "outcome": "done", "output_ref": digest}) == ["locked"]
    assert (await put(worker, task, content)).status_code == 200
    assert await worker.report(done(task, artifacts=[{"artifact": "a", "digest": digest, "bytes": 5}])) == ["locked"]
    assert await worker.report(done(task, artifacts=[{"artifact": "a", "digest": digest, "bytes": 4}])) == ["taken"]


async def test_an_upload_that_is_not_what_it_says_or_too_large_leaves_nothing(service: Service, engine: Engine) -> None:
    worker = await plain_worker(service)
    task = await claimed(engine, worker, FLOW)
    wrong = await put(worker, task, b"other", "0" * 64)
    assert (wrong.status_code, wrong.json()["code"]) == (422, "INVALID_INPUT")
    large = await put(worker, task, b"x" * 2_000_001)
    assert (large.status_code, large.json()["code"]) == (413, "PAYLOAD_REFUSED")
    assert (await get(worker, task, f"payload/{'0' * 64}")).status_code == 503


async def test_objects_results_and_breakers_need_a_lease_that_is_held_now_by_a_worker_of_the_key(
    service: Service, engine: Engine
) -> None:
    client = await service.as_role("worker")
    worker = await register(client)
    task = await claimed(engine, worker, TWO.replace("[1, 2, 3]", "[1]"))
    stranger = await plain_worker(service)
    content = b"content"
    digest = hashlib.sha256(content).hexdigest()

    async def answers(who: PlainWorker, lease: dict[str, Any]) -> list[int]:
        found = [await put(who, lease, content)]
        found += [await get(who, lease, path) for path in (f"payload/{digest}", "results/each", "breakers/maps")]
        return [one.status_code for one in found]

    assert await answers(worker, task) == [200, 200, 404, 200]
    assert await answers(stranger, task) == [409] * 4
    assert await answers(worker, {"lease": f"{task['lease']}x"}) == [409] * 4
    await worker.ask("renew", leases=[], claimed_at=2**53)
    assert await answers(worker, task) == [409] * 4, "it was given back"


async def test_another_lease_of_the_job_stands_in_for_one_that_has_ended(service: Service, engine: Engine) -> None:
    """A regression: an attempt failed if its worker named the lease of another task, whose report was under way."""
    key = await service.key("worker")
    source = RemoteTaskSource(service.url, key)
    objects = RemoteObjects(service.url, key, source.tokens)
    worker = await source.register_worker("w", None, ["work"], 4, 60.0)
    job_id, held = await engine.submit(load_text(TWO)), list[Lease]()

    async def all_claimed() -> bool:
        held.extend((await source.report_and_claim(worker, [], None, ["work"], 3, None, lambda _: None))[1])
        return len(held) == 3

    await eventually(all_claimed)
    plain, digest = PlainWorker(service.with_key(key), worker.worker_id), hashlib.sha256(b"content").hexdigest()

    async def answer_is_lost(*leases: Lease) -> None:
        """The reports are taken, and the worker does not know it."""
        tokens = [source.tokens.of((job_id, lease.node, lease.item, lease.epoch)) for lease in leases]
        assert await plain.report(*(done({"lease": token}) for token in tokens)) == ["taken"] * len(tokens)

    async def store_and_read() -> None:
        await asyncio.to_thread(objects.write, job_id, digest, b"content")
        assert await asyncio.to_thread(objects.read, job_id, digest) == b"content"

    await answer_is_lost(held[0], held[2])
    await store_and_read()
    assert await source.results_page(job_id, "each", -2, 100, 100) is None, "it has not ended yet"
    assert await source.breaker("default", "maps") is not None
    await answer_is_lost(held[1])
    with pytest.raises(PayloadUnavailable, match="does not hold"):
        await store_and_read()
    with pytest.raises(LeaseLost):
        await source.results_page(job_id, "each", -2, 100, 100)
    await source.close()
    objects.close()


async def test_a_contract_is_checked_by_the_service(service: Service, engine: Engine) -> None:
    flow = "workflow_id: c\nnodes: {a: {handler: work, output_schema: {type: object, required: [maps]}}}"
    worker = await plain_worker(service)
    job_id = await engine.submit(load_text(flow))
    (task,) = await worker.claim(wait_seconds=20)
    assert await worker.report(done(task, {"sheets": 1})) == ["taken"]
    status = await engine.finished(job_id)
    assert (status["status"], status["error"]["code"]) == ("failed", "CONTRACT_VIOLATION")
    assert "output_schema" in status["error"]["message"]
    assert await worker.report(done(task, {"sheets": 1})) == ["taken"], "the same report again"
