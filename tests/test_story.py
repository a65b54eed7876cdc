"""A long job whose last stage fails: everything before it is kept, and one verb finishes it."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.core.signals import Request, Verb
from holdfast.errors import Permanent
from tests.conftest import eventually
from tests.running import nodes, registry, running

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

    async def stack(tile: int) -> dict[str, int]:
        done[f"stack {tile}"] += 1
        return {"tile": tile}

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
