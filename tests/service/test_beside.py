"""A definition takes up to a second to read: the process answers others meanwhile, and reads one after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import orjson
import pytest

from holdfast.define.load import load_text, read_text
from holdfast.service.beside import Beside
from tests.running import Engine, running
from tests.service.serving import API, Service, serving_http

pytestmark = pytest.mark.anyio

DEFINITION = {"workflow_id": "beside", "nodes": {"a": {"handler": "echo"}}}
TEXT = orjson.dumps(DEFINITION).decode()
SOURCE = {"kind": "json", "content": TEXT}
PATIENCE_SECONDS = 10.0
BRINGS: dict[str, dict[str, Any]] = {
    "submission": {"url": f"{API}/jobs", "json": {"definition": DEFINITION}},
    "text of a submission": {"url": f"{API}/jobs", "json": {"source": SOURCE}},
    "batch": {"url": f"{API}/jobs/batch", "json": {"jobs": [{"definition": DEFINITION}]}},
    "registration": {"url": f"{API}/workflows", "json": DEFINITION},
    "yaml": {"url": f"{API}/workflows", "content": TEXT, "headers": {"Content-Type": "application/yaml"}},
    "check": {"url": f"{API}/workflows/validate", "json": DEFINITION},
    "plan": {"url": f"{API}/jobs/JOB/plan", "json": {"verb": "resume", "definition": DEFINITION}},
    "correction": {"url": f"{API}/jobs/JOB/resume", "json": {"definition": DEFINITION, "confirm": True}},
    "short correction": {"url": "/api/jobs/retry-stage/JOB/1", "json": {"source": SOURCE}},
    "command": {"url": f"{API}/commands/workflow.register", "json": {"source": TEXT}},
}


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[Engine]:
    async with running(database_url) as engine:
        yield engine


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_http(database_url) as service:
        yield service


@pytest.mark.parametrize("request_", BRINGS.values(), ids=BRINGS.keys())
async def test_the_process_answers_others_while_it_reads_a_definition(
    service: Service, engine: Engine, monkeypatch: pytest.MonkeyPatch, request_: dict[str, Any]
) -> None:
    failed = await engine.submit("workflow_id: beside\nnodes: {a: {handler: fail, retry: {max_retries: 0}}}")
    await engine.finished(failed)
    client = await service.as_role("operator")
    reading, answered = threading.Event(), threading.Event()
    was_answered = []

    def slowly(read: Any) -> Any:
        def slow(*arguments: Any, **more: Any) -> Any:
            reading.set()
            was_answered.append(answered.wait(PATIENCE_SECONDS))
            return read(*arguments, **more)

        return slow

    for module in ("service.definitions", "extend.builtin_commands"):
        monkeypatch.setattr(f"holdfast.{module}.load_text", slowly(load_text))
    monkeypatch.setattr("holdfast.service.definitions.read_text", slowly(read_text))
    url = request_["url"].replace("JOB", failed)
    sending = asyncio.create_task(client.post(**{**request_, "url": url}))
    await asyncio.to_thread(reading.wait, PATIENCE_SECONDS)
    assert (await client.get("/livez")).status_code == 200
    answered.set()
    assert (await sending).status_code in (200, 201, 202)
    assert was_answered == [True]


async def test_the_same_definition_of_many_submissions_is_read_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def counted(text: str, *more: Any) -> Any:
        read.append(text)
        return load_text(text, *more)

    monkeypatch.setattr("holdfast.service.definitions.load_text", counted)
    wrong = {"workflow_id": "beside", "nodes": {"a": {"handlr": "echo"}}}
    jobs = [{"definition": one, "key": f"{n}"} for n in range(50) for one in (DEFINITION, wrong)]
    jobs.append({"source": SOURCE, "key": "text"})
    client = await service.as_role("submitter")
    items = (await client.post(f"{API}/jobs/batch", json={"jobs": jobs})).json()["items"]
    assert [one["status"] for one in items] == [201, 422] * 50 + [201]
    assert {one["problem"]["code"] for one in items if one["problem"]} == {"INVALID_DEFINITION"}
    assert len(read) == 3


async def test_pieces_of_work_run_one_after_the_other_and_one_that_fails_stops_no_other() -> None:
    beside, begun, may_end = Beside(), [], threading.Event()

    def work(number: int) -> int:
        begun.append(number)
        assert may_end.wait(PATIENCE_SECONDS)
        if number == 1:
            raise ValueError("one")
        return number

    pieces = [asyncio.create_task(beside.run(partial(work, number))) for number in range(3)]
    for _ in range(3):
        # The threads have time for another piece.
        await asyncio.to_thread(lambda: None)
    assert begun == [0]
    may_end.set()
    first, second, third = await asyncio.gather(*pieces, return_exceptions=True)
    assert (first, str(second), third) == (0, "one", 2)
    assert begun == [0, 1, 2]
