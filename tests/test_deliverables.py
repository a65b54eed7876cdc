"""Declared deliverables are part of the outcome, from the start of a job to its end."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.define.registry import Result
from holdfast.errors import Permanent
from tests.running import client_of, registry, running, serving

pytestmark = pytest.mark.anyio

TILES = """
workflow_id: tiles
inputs: {region: {type: string}, tiles: {type: array}}
nodes:
  stack:
    type: fan_out
    source: "{{ inputs.tiles }}"
    tolerate: {failures: 1}
    task: {handler: stack, params: {tile: "{{ item }}"}, retry: {max_retries: 0}}
    deliverable: {name: cogs, location: "{{ inputs.region | lower }}/{{ job.run }}/"}
    next: all
  all: {type: fan_in, next: register, deliverable: {name: list}}
  register:
    handler: register
    importance: important
    deliverable: {name: entry, location: "{{ nodes.register.output.url }}"}
    next: [announce, index]
  announce: {handler: announce, importance: optional, deliverable: {name: news, location: news/}}
  index: {handler: index, deliverable: {name: index, location: "{{ nodes.all.output.results[0].place }}/index"}}
"""


async def stack(tile: int) -> dict[str, Any]:
    if tile == 1:
        raise Permanent("clouds")
    return {"place": f"tiles/{tile}", "text": "x" * 200}


async def register() -> Any:
    return Result({"url": "https://example.org/1"}, deliverables={"copies": "copies/1"})


async def announce() -> None:
    raise Permanent("the channel is closed")


async def index() -> None:
    return None


async def test_declared_deliverables_are_listed_before_and_after_they_exist(database_url: str) -> None:
    handlers = registry(stack=stack, register=register, announce=announce, index=index)
    # Large outputs are in the object store; a location can use them all the same.
    async with client_of(database_url) as engine:
        job_id = await engine.submit(TILES, {"region": "CIV", "tiles": [0, 1, 2]})
        before = (await engine.status(job_id))["outcome"]["deliverables"]
        async with serving(database_url, handlers, payload_inline_bytes=100):
            after = (await engine.finished(job_id))["outcome"]["deliverables"]
    nothing = {"count": 0, "usable": False}
    assert before == {
        "cogs": {"location": "civ/1/"} | nothing,
        "list": {"location": None} | nothing,
        "entry": {"location": None} | nothing,
        "news": {"location": "news/"} | nothing,
        "index": {"location": None} | nothing,
    }
    assert after == {
        "cogs": {"count": 2, "location": "civ/1/", "usable": True},
        "list": {"count": 1, "location": None, "usable": True},
        "entry": {"count": 1, "location": "https://example.org/1", "usable": True},
        "news": {"location": "news/"} | nothing,
        "index": {"count": 1, "location": "tiles/0/index", "usable": True},
        "copies": {"count": 1, "location": "copies/1", "usable": True},
    }
    assert list(after) == ["cogs", "list", "entry", "news", "index", "copies"]
    assert list(after["cogs"]) == ["count", "location", "usable"]


async def test_deliverables_of_handlers_override_the_declaration(database_url: str) -> None:
    async def deliver(tile: int) -> Any:
        return Result(tile, deliverables={"cogs": f"real/{tile}.tif"} if tile else {})

    workflow = """
workflow_id: w
nodes:
  a:
    type: fan_out
    source: "{{ [0, 1, 2] }}"
    task: {handler: deliver, params: {tile: "{{ item }}"}}
    deliverable: {name: cogs, location: declared/}
"""
    async with running(database_url, registry(deliver=deliver)) as engine:
        status = await engine.run(workflow)
    assert status["outcome"]["deliverables"] == {"cogs": {"count": 2, "location": "real/", "usable": True}}


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("{{ inputs.region.name }}", None),
        ("{{ inputs.region | int }}", None),
        ("{{ nodes.a.output.nowhere }}/", None),
        ("{{ nodes.a.output }}", None),
        ("{{ inputs.missing }}", None),
        ("{{ 7 }}", "7"),
        ("  ", None),
        ("{{ nodes.a.status }}/{{ job.workflow_id }}", "completed/w"),
        ("{{ nodes.a.output.echoed_params.x | default('none') }}", "none"),
    ],
)
async def test_a_location_that_cannot_be_evaluated_is_null_and_breaks_nothing(
    database_url: str, location: str, shown: str | None
) -> None:
    workflow = f"""
workflow_id: w
inputs: {{region: {{type: string, default: CIV}}, missing: {{type: string}}}}
nodes:
  a: {{handler: echo, deliverable: {{name: cogs{f', location: "{location}"' if location.strip() else ""}}}}}
"""
    async with running(database_url) as engine:
        status = await engine.run(workflow)
    assert status["status"] == "completed"
    assert status["outcome"]["deliverables"] == {"cogs": {"count": 1, "location": shown, "usable": True}}
