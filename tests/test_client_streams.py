"""Streams of events on a database, with both clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import Client, SyncClient, load_text, to_json
from holdfast.errors import InvalidInput, NotFound
from holdfast.operations.scope import Scope
from tests.conftest import eventually
from tests.running import Engine, running

pytestmark = pytest.mark.anyio

ECHO = load_text("workflow_id: echo\nnodes: {a: {handler: echo}}")
OTHER = load_text("workflow_id: other\nnodes: {a: {handler: echo}}")


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[Engine]:
    async with running(database_url) as engine:
        yield engine


async def test_a_stream_of_a_job_has_its_events_and_ends(engine: Engine) -> None:
    job_id = await engine.submit(ECHO)
    steps = [step async for step in engine.client.stream(job_id)]
    assert [to_json(step.event) for step in steps] == await engine.events(job_id)
    rest = [step async for step in engine.client.stream(job_id, after=steps[1].cursor)]
    assert rest == steps[2:]
    assert not any(step.is_reset for step in steps)
    again = [step async for step in engine.client.stream(job_id, after=900)]
    assert (again[0].is_reset, again[1:]) == (True, steps)


async def test_a_stream_of_all_jobs_goes_on_where_another_stopped(engine: Engine) -> None:
    theirs = Client(engine.store, Scope("theirs", "test"))
    stream = engine.client.stream()
    first = asyncio.ensure_future(anext(stream))

    async def has_begun() -> bool:
        await theirs.submit(ECHO, key=str(id(object())))
        await engine.submit(ECHO, key=str(id(object())))
        return first.done()

    await eventually(has_begun)
    seen = first.result()
    await stream.aclose()  # type: ignore[attr-defined]
    assert seen.event is not None
    job_id = await engine.submit(OTHER)
    mine: list[Any] = []
    async for step in engine.client.stream(after=seen.cursor):
        assert step.event is not None
        mine.append((step.event.job_id, step.event.seq))
        if step.event.job_id == job_id and step.event.event == "job_completed":
            break
    assert len(mine) == len(set(mine))
    assert (seen.event.job_id, seen.event.seq) not in mine
    tenants = await engine.query(
        "select distinct j.tenant from jobs j where j.job_id = any(%s::uuid[])", [m[0] for m in mine]
    )
    assert tenants == [("default",)]
    chosen = engine.client.stream(after=seen.cursor, workflows=["other"], events=["job_completed"])
    step = await anext(chosen)
    assert step.event is not None and (step.event.job_id, step.event.event) == (job_id, "job_completed")
    await chosen.aclose()  # type: ignore[attr-defined]


async def test_the_synchronous_client_streams_too_and_may_stop_early(engine: Engine) -> None:
    job_id = await engine.submit(ECHO)
    await engine.finished(job_id)

    def look() -> tuple[list[Any], Any]:
        with SyncClient.connect(engine.url) as client:
            whole = [step.event for step in client.stream(job_id)]
            return whole, next(iter(client.stream(job_id, after=2)))

    whole, third = await asyncio.to_thread(look)
    assert [to_json(event) for event in whole] == await engine.events(job_id)
    assert third.cursor == "3"


async def test_a_stream_of_what_does_not_exist_is_refused(engine: Engine) -> None:
    job_id = await engine.submit(ECHO)
    with pytest.raises(NotFound, match="There is no job"):
        await anext(Client(engine.store, Scope("theirs", "test")).stream(job_id))
    with pytest.raises(InvalidInput, match="no place in a stream"):
        await anext(engine.client.stream(after="nonsense"))
    with pytest.raises(InvalidInput, match="number of an event"):
        await anext(engine.client.stream(job_id, after="-1"))
