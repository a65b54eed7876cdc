"""Output schemas end to end: an output that violates its contract fails its task at once and permanently."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from holdfast.define.registry import Registry
from holdfast.operations.verbs import Verb, VerbRequest
from holdfast.worker import known_jobs
from holdfast.worker.context import AsyncContext
from tests.conftest import eventually
from tests.running import client_of, nodes, registry, running, serving
from tests.worker import isolated

pytestmark = pytest.mark.anyio

SCENES = """
workflow_id: scenes
inputs: {scenes: {type: array}}
nodes:
  stack:
    type: fan_out
    source: "{{ inputs.scenes }}"
    tolerate: {failures: 1}
    task:
      handler: HANDLER
      params: {bands: "{{ item }}"}
      retry: {max_retries: 5, initial_delay_seconds: 0}
      errors: [{match: output_schema, class: transient}]
      output_schema:
        type: object
        properties: {bands: {type: array, minItems: 1, items: {type: object, properties: {red: {type: integer}}}}}
        required: [bands]
    next: gather
  gather: {type: fan_in}
"""


async def test_one_item_that_violates_its_contract_fails_alone_and_is_never_retried(database_url: str) -> None:
    ran: Counter[int] = Counter()

    async def stack(bands: list[Any]) -> dict[str, Any]:
        ran[len(bands)] += 1
        return {"bands": bands}

    scenes = [[{"red": 1}], [{"red": 1}, {"red": "none"}], [{"red": 1}] * 3]
    async with running(database_url, registry(stack=stack)) as engine:
        job_id = await engine.submit(SCENES.replace("HANDLER", "stack"), {"scenes": scenes})
        status = await engine.finished(job_id)
        items = await engine.query(
            "select item, status, attempt, error from tasks where job_id = %s order by item", job_id
        )
    assert status["status"] == "partial"
    assert nodes(status)["stack"]["status"] == "completed"
    assert [row[:3] for row in items if row[0] >= 0] == [(0, "completed", 1), (1, "failed", 1), (2, "completed", 1)]
    error = items[1][3]
    assert (error["code"], error["class"]) == ("CONTRACT_VIOLATION", "permanent")
    assert error["message"] == (
        'the output of stack does not match its output_schema: at /bands/1/red: expected an integer, got "none"'
    )
    assert error["hint"] == "Compare what the workflow declares with what the handler takes and returns."
    assert status["result"]["failed"] == [1]
    assert ran == {1: 1, 2: 1, 3: 1}


async def test_a_separate_worker_checks_the_contract_of_a_handler_in_a_process(database_url: str) -> None:
    handlers = Registry()
    handlers.add_module(isolated)
    async with client_of(database_url) as engine, serving(database_url, work=False):
        job_id = await engine.submit(SCENES.replace("HANDLER", "tells_bands"), {"scenes": [[], [{"red": 1}], []]})
        async with serving(database_url, handlers, orchestrate=False):
            status = await engine.finished(job_id)
    assert (status["status"], status["error"]["code"]) == ("failed", "CONTRACT_VIOLATION")
    assert "2 of 3 items failed" in status["error"]["message"]
    assert "at /bands: expected an array of at least 1 item, got []" in status["error"]["message"]


async def test_the_contract_is_that_of_the_definition_that_the_job_has_pinned(database_url: str) -> None:
    """Several versions of a workflow run at once: each job has the contract of its own version."""

    async def give() -> str:
        return "text"

    plain = "workflow_id: w\nversion: {}\nnodes: {{a: {{handler: give{}}}}}"
    contracts = ["", ", output_schema: {type: integer}", ", output_schema: {type: string}"]
    definitions = [plain.format(n, contract) for n, contract in enumerate(contracts)]
    async with client_of(database_url) as engine:
        job_ids = [
            await engine.submit(text, key=f"{n} {again}") for again in range(5) for n, text in enumerate(definitions)
        ]
        async with serving(database_url, registry(give=give)):
            ended = [(await engine.finished(job_id))["status"] for job_id in job_ids]
    assert ended == ["completed", "failed", "completed"] * 5


async def test_a_worker_with_more_jobs_than_its_cache_holds_uses_the_right_inputs_and_contracts(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has claimed and not begun still needs its job's inputs and contracts, whatever it claims meanwhile."""
    monkeypatch.setattr(known_jobs, "KNOWN_JOBS", 3)
    monkeypatch.setattr(known_jobs, "KNOWN_DEFINITIONS", 2)

    async def give(*, ctx: AsyncContext) -> Any:
        return ctx.inputs.get("number")

    workflow = "workflow_id: w\nversion: {}\nnodes: {{a: {{handler: give, output_schema: {{const: {}}}}}}}"
    async with client_of(database_url) as engine:
        job_ids = [
            await engine.submit(workflow.format(n, n if n % 2 else "none"), {"number": n}, key=str(n))
            for n in range(60)
        ]
        async with serving(database_url, registry(give=give), concurrency=2):
            ended = [await engine.finished(job_id) for job_id in job_ids]
    assert [status["status"] for status in ended] == ["failed", "completed"] * 30
    assert [status["result"] for status in ended] == [n if n % 2 else None for n in range(60)]
    assert all(f"got {n}" in status["error"]["message"] for n, status in enumerate(ended) if n % 2 == 0)


async def test_a_recovered_task_is_checked_like_the_first_time(database_url: str) -> None:
    gives: list[Any] = ["wrong", "wrong again", 3]

    async def give() -> Any:
        return gives.pop(0)

    async with running(database_url, registry(give=give)) as engine:
        job_id = await engine.submit("workflow_id: w\nnodes: {a: {handler: give, output_schema: {type: integer}}}")
        for wanted in ("failed", "failed"):
            assert (await engine.finished(job_id))["status"] == wanted
            left = len(gives)
            await engine.client.send(job_id, VerbRequest(Verb.RESUME))

            async def ran_again(left: int = left) -> bool:
                return len(gives) < left

            await eventually(ran_again)
        assert (await engine.finished(job_id))["result"] == 3


async def test_a_batch_that_violates_its_contract_fails_alone_and_permanently(database_url: str) -> None:
    async def register(page: dict[str, Any]) -> Any:
        return page["offset"] if page["offset"] else "nothing"

    flow = """
workflow_id: batches
nodes:
  each: {type: fan_out, source: "{{ [1, 2, 3] }}", task: {handler: echo}, next: all}
  all:
    type: fan_in
    handler: echo
    output_schema: {type: object}
    batch: {handler: register, size: 1, output_schema: {type: integer}}
"""
    async with running(database_url, registry(register=register)) as engine:
        status = await engine.run(flow)
    assert (status["status"], status["error"]["code"]) == ("failed", "CONTRACT_VIOLATION")
    assert status["error"]["message"].startswith("1 of 3 batches failed")
    assert 'expected an integer, got "nothing"' in status["error"]["message"]
