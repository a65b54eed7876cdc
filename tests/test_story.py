"""A long job whose last node fails: all earlier results are kept, and one verb completes it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from holdfast.define.registry import Result
from holdfast.errors import PayloadRefused, Permanent
from holdfast.operations.verbs import Verb, VerbRequest
from holdfast.worker.context import AsyncContext
from tests.conftest import eventually
from tests.running import Engine, client_of, nodes, registry, running

pytestmark = pytest.mark.anyio

ITEMS = 1924
STORY = """
workflow_id: tiles
inputs: {tiles: {type: array}}
nodes:
  validate: {handler: validate, next: stack}
  stack:
    type: fan_out
    source: "{{ inputs.tiles }}"
    task: {handler: stack, params: {tile: "{{ item }}"}, retry: {max_retries: 0}}
    next: stacked
  stacked: {type: fan_in, next: register}
  register: {handler: register, importance: important, params: {count: "{{ nodes.stacked.output.count }}"}}
"""


async def test_a_node_that_failed_after_1924_items_is_retried_alone_and_nothing_runs_twice(
    database_url: str,
) -> None:
    done: Counter[str] = Counter()
    is_open = [False]

    async def validate() -> str:
        done["validate"] += 1
        return "well"

    async def stack(tile: int) -> Result:
        done[f"stack {tile}"] += 1
        return Result({"tile": tile}, deliverables={"cogs": f"silver/stacked/{tile}.tif"})

    async def register(count: int) -> str:
        done["register"] += 1
        if not is_open[0]:
            raise Permanent("the catalogue is closed")
        return f"{count} tiles registered"

    handlers = registry(validate=validate, stack=stack, register=register)
    async with running(database_url, handlers) as engine:
        job_id = await engine.submit(STORY, {"tiles": list(range(ITEMS))})
        status = await engine.finished(job_id, 120)
        assert status["status"] == "partial"
        assert {name: node["status"] for name, node in nodes(status).items()} == {
            "validate": "completed", "stack": "completed", "stacked": "completed", "register": "failed",
        }  # fmt: skip
        assert status["outcome"]["deliverables"] == {
            "cogs": {"count": ITEMS, "location": "silver/stacked/", "usable": True}
        }
        assert status["outcome"]["stages"]["2"]["success_count"] == ITEMS
        assert (status["outcome"]["resumable"], status["outcome"]["resume_from"]) == (True, "register")
        is_open[0] = True
        signal_id = await engine.client.send(job_id, VerbRequest(Verb.RETRY, "register"), reason="it was opened")

        async def is_answered() -> bool:
            return await engine.store.answer(signal_id) == (True, "generation 2", None)

        await eventually(is_answered)
        status = await engine.finished(job_id, 60)
    assert (status["status"], status["result"]) == ("completed", f"{ITEMS} tiles registered")
    assert done.pop("register") == 2
    assert set(done.values()) == {1} and len(done) == ITEMS + 1


@pytest.mark.parametrize("output", [0, "", [], None, {"count": 3}])
async def test_an_output_that_a_person_sets_is_used_unchanged_even_if_it_is_empty(
    database_url: str, output: Any
) -> None:
    async def register(of: Any) -> Any:
        return [of]

    flow = """
workflow_id: by_hand
nodes:
  ask: {handler: unserved, next: use}
  use: {handler: register, params: {of: "{{ nodes.ask.output }}"}}
"""
    async with running(database_url, registry(register=register)) as engine:
        job_id = await engine.submit(flow)
        await engine.client.send(job_id, VerbRequest(Verb.SET, "ask", output=output))
        status = await engine.finished(job_id)
    assert (status["status"], status["result"]) == ("completed", [output])


async def test_a_result_that_is_too_large_is_refused_with_its_size(database_url: str) -> None:
    async with client_of(database_url) as engine:
        job_id = await engine.submit("workflow_id: w\nnodes: {a: {handler: echo}}")
        with pytest.raises(PayloadRefused, match="16,777,224 bytes"):
            await engine.client.send(job_id, VerbRequest(Verb.SET, "a", output={"x": "y" * (16 * 1024 * 1024)}))


async def test_a_plan_is_carried_out_on_a_job_with_large_params_and_outputs(database_url: str) -> None:
    """Values in the object store are reset like all others."""
    large, is_open = "x" * 100_000, [False]

    async def make(text: str) -> str:
        return text + large

    async def use(text: str) -> int:
        if not is_open[0]:
            raise Permanent("not yet")
        return len(text)

    flow = """
workflow_id: large
inputs: {text: {type: string}}
nodes:
  make: {handler: make, params: {text: "{{ inputs.text }}"}, next: use}
  use: {handler: use, params: {text: "{{ nodes.make.output }}"}}
"""
    async with running(database_url, registry(make=make, use=use)) as engine:
        job_id = await engine.submit(flow, {"text": large})
        assert (await engine.finished(job_id))["status"] == "failed"
        is_open[0] = True
        plan = await engine.client.plan(job_id, VerbRequest(Verb.RERUN, "make"))
        assert plan.tasks == 2
        await engine.client.send(job_id, replace(plan.request, plan_id=plan.plan_id))

        async def is_completed() -> bool:
            return bool((await engine.status(job_id))["status"] == "completed")

        await eventually(is_completed)
        status = await engine.status(job_id)
    assert (status["result"], status["generation"]) == (200_000, 2)


BATCHED = """
workflow_id: tiles_in_batches
inputs: {tiles: {type: array}}
nodes:
  stack:
    type: fan_out
    source: "{{ inputs.tiles }}"
    tolerate: {failures: 5}
    task: {handler: stack, params: {tile: "{{ item }}"}, retry: {max_retries: 0}}
    next: register
  register:
    type: fan_in
    importance: important
    batch: {handler: register, params: {region: "civ"}}
    handler: finalize
    retry: {max_retries: 0}
"""


async def test_1924_items_are_registered_in_20_batches_and_only_failed_ones_run_again(database_url: str) -> None:
    """First a batch fails and is retried alone. Then an item is repaired, and its own batch runs again."""
    done: Counter[str] = Counter()
    broken, closed = {777}, {3}

    async def stack(tile: int) -> int:
        done["stack"] += 1
        if tile in broken:
            raise Permanent("it cannot be read")
        return tile

    async def register(page: dict[str, Any], region: str, ctx: AsyncContext) -> dict[str, Any]:
        done[f"batch {ctx.index}"] += 1
        tiles = [tile async for tile in ctx.results(**page)]
        assert all(page["offset"] <= tile < page["offset"] + page["limit"] for tile in tiles)
        if ctx.index in closed:
            raise Permanent("the catalogue is closed")
        return {"region": region, "registered": len(tiles)}

    async def finalize(ctx: AsyncContext) -> dict[str, Any]:
        done["finalize"] += 1
        counts = [one["registered"] async for one in ctx.results("register")]
        stacked = [tile async for tile in ctx.results("stack")]
        return {"batches": len(counts), "registered": sum(counts), "stacked": len(stacked)}

    async with running(database_url, registry(stack=stack, register=register, finalize=finalize)) as engine:
        job_id = await engine.submit(BATCHED, {"tiles": list(range(ITEMS))})
        status = await engine.finished(job_id, 120)
        node = nodes(status)["register"]
        assert (status["status"], node["status"]) == ("partial", "failed")
        assert node["progress"] == {"done": 20, "total": 20}
        assert (node["counts"]["total"], node["counts"]["completed"], node["counts"]["failed"]) == (20, 19, 1)
        assert status["outcome"]["secondary"][0]["details"] == "19 of 20 batches completed"
        assert done == Counter({"stack": ITEMS, **{f"batch {batch}": 1 for batch in range(20)}})

        closed.clear()
        status = await recovered(engine, job_id, VerbRequest(Verb.RETRY, "register"))
        assert status["result"] == {"batches": 20, "registered": ITEMS - 1, "stacked": ITEMS - 1}
        assert (status["status"], done["stack"], done["batch 3"], done["finalize"]) == ("partial", ITEMS, 2, 1)

        broken.clear()
        plan = await engine.client.plan(job_id, VerbRequest(Verb.RESUME))
        assert {step.node: step.items for step in plan.steps if step.action == "rerun"} == {"stack": 1, "register": 2}
        status = await recovered(engine, job_id, replace(plan.request, plan_id=plan.plan_id))
        assert (status["status"], status["result"]["registered"]) == ("completed", ITEMS)
        assert nodes(status)["register"]["counts"]["completed"] == 21
    expected = Counter({f"batch {batch}": 1 for batch in range(20)})
    expected.update({"stack": ITEMS + 1, "batch 3": 1, f"batch {777 // 97}": 1, "finalize": 2})
    assert done == expected


async def recovered(engine: Engine, job_id: str, request: VerbRequest) -> dict[str, Any]:
    """Carry out a verb; returns the status of the job at its end."""
    signal_id = await engine.client.send(job_id, request)

    async def is_applied() -> bool:
        answer = await engine.store.answer(signal_id)
        assert answer is None or answer[0], answer
        return answer is not None

    await eventually(is_applied)
    return await engine.finished(job_id, 60)
