"""A long job whose last stage fails: everything before it is kept, and one verb finishes it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from holdfast.core.signals import Request, Verb
from holdfast.define.registry import Result
from holdfast.errors import PayloadRefused, Permanent
from tests.conftest import eventually
from tests.running import client_of, nodes, registry, running

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


async def test_a_stage_that_failed_after_1924_items_is_retried_alone_and_nothing_is_done_twice(
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
        signal_id = await engine.client.recover(job_id, Request(Verb.RETRY, "register"), reason="it was opened")

        async def is_answered() -> bool:
            return await engine.store.answer(signal_id) == (True, "generation 2")

        await eventually(is_answered)
        status = await engine.finished(job_id, 60)
    assert (status["status"], status["result"]) == ("completed", f"{ITEMS} tiles registered")
    assert done.pop("register") == 2
    assert set(done.values()) == {1} and len(done) == ITEMS + 1


@pytest.mark.parametrize("given", [0, "", [], None, {"count": 3}])
async def test_a_result_given_by_hand_is_taken_as_it_is_even_if_it_is_nothing(database_url: str, given: Any) -> None:
    async def register(of: Any) -> Any:
        return [of]

    flow = """
workflow_id: by_hand
nodes:
  ask: {handler: nobody_has_it, next: tell}
  tell: {handler: register, params: {of: "{{ nodes.ask.output }}"}}
"""
    async with running(database_url, registry(register=register)) as engine:
        job_id = await engine.submit(flow)
        await engine.client.recover(job_id, Request(Verb.SET, "ask", output=given))
        status = await engine.finished(job_id)
    assert (status["status"], status["result"]) == ("completed", [given])


async def test_a_result_that_is_too_large_is_refused_with_its_size(database_url: str) -> None:
    async with client_of(database_url) as engine:
        job_id = await engine.submit("workflow_id: w\nnodes: {a: {handler: echo}}")
        with pytest.raises(PayloadRefused, match="16,777,224 bytes"):
            await engine.client.recover(job_id, Request(Verb.SET, "a", output={"x": "y" * (16 * 1024 * 1024)}))


async def test_a_plan_and_what_is_done_agree_on_a_job_that_has_large_params_and_outputs(database_url: str) -> None:
    """What lies in the object store is reset like everything else."""
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
        plan = await engine.client.plan(job_id, Request(Verb.RERUN, "make"))
        assert plan.plan.tasks == 2
        await engine.client.recover(job_id, plan.request._replace(plan_id=plan.plan_id))

        async def is_completed() -> bool:
            return bool((await engine.status(job_id))["status"] == "completed")

        await eventually(is_completed)
        status = await engine.status(job_id)
    assert (status["result"], status["generation"]) == (200_000, 2)
