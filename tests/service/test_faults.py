"""Faults of the service: it is killed before it answers, loses its database, and is asked to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from holdfast.client import Client
from holdfast.operations.scope import Scope
from tests.chaos.fleet import Server
from tests.conftest import eventually
from tests.marks import IN_CHAOS
from tests.service.processes import api_process
from tests.service.serving import API

pytestmark = pytest.mark.anyio

ECHO = {"workflow_id": "echo", "inputs": {"i": {"type": "integer", "default": 0}}, "nodes": {"a": {"handler": "echo"}}}
CLIENTS = 6


async def headers(url: str, *roles: str) -> dict[str, str]:
    async with Client.connect(url, Scope("default", "test")) as client:
        return {"Authorization": f"Bearer {(await client.add_key('test', roles=roles)).key}"}


def job_ids(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {str(row[0]) for row in connection.execute("select job_id from holdfast.jobs")}


async def test_a_service_killed_between_commit_and_answer_has_made_each_job_once(
    database_url: str, tmp_path: Path
) -> None:
    keep = await headers(database_url, "submitter")
    body: dict[str, Any] = {"definition": ECHO, "inputs": {"i": 7}}
    named = {"path": f"{API}/jobs", "json": body, "headers": {"Idempotency-Key": "order-1"}}
    batch = {"path": f"{API}/jobs/batch", "json": {"jobs": [body | {"inputs": {"i": i}} for i in range(9, 12)]}}
    plain = {"path": f"{API}/jobs", "json": body | {"inputs": {"i": 8}}}
    requests = {"submit.after_commit:kill": named, "api.after_commit:kill@1": batch, "api.after_commit:kill": plain}

    async def kill(fault: str, request: dict[str, Any]) -> None:
        async with api_process(database_url, tmp_path, HOLDFAST_FAILPOINT=fault) as (process, url):
            with pytest.raises(httpx2.TransportError):
                await send(url, keep, request)
            assert await process.ended() == -signal.SIGKILL

    await asyncio.gather(*(kill(fault, request) for fault, request in requests.items()))
    made = job_ids(database_url)
    async with api_process(database_url, tmp_path) as (_, url):
        again = [await send(url, keep, request) for request in requests.values()]
    assert [answer.status_code for answer in again] == [200, 200, 200]
    answered = [again[0].json(), again[2].json(), *(one["submission"] for one in again[1].json()["items"])]
    assert {one["answer"] for one in answered} == {"already_processing"}
    assert len(made) == 5
    assert {one["job_id"] for one in answered} == made == job_ids(database_url)


@IN_CHAOS
async def test_a_service_killed_after_it_has_sent_a_verb_answers_with_the_same_signal(
    database_url: str, tmp_path: Path
) -> None:
    keep = await headers(database_url, "operator")
    async with api_process(database_url, tmp_path, HOLDFAST_FAILPOINT="api.after_commit:kill~pause_job") as (one, url):
        made = await send(url, keep, {"path": f"{API}/jobs", "json": {"definition": ECHO}})
        job_id = made.json()["job_id"]
        body = {"reason": "the service is slow"}
        pause = {"path": f"{API}/jobs/{job_id}/pause", "json": body, "headers": {"Idempotency-Key": "pause-1"}}
        with pytest.raises(httpx2.TransportError):
            await send(url, keep, pause)
        assert await one.ended() == -signal.SIGKILL
    sent = signals(database_url)
    assert len(sent) == 1
    async with api_process(database_url, tmp_path) as (_, url):
        again = [await send(url, keep, pause) for _ in range(2)]
    assert [answer.status_code for answer in again] == [202, 202]
    assert {answer.json()["signal_id"] for answer in again} == sent == signals(database_url)


def signals(url: str) -> set[int]:
    with psycopg.connect(url) as connection:
        return {row[0] for row in connection.execute("select id from holdfast.inbox where kind = 'pause'")}


async def send(url: str, keep: dict[str, str], request: dict[str, Any]) -> httpx2.Response:
    more = request.get("headers", {})
    async with httpx2.AsyncClient(base_url=url, headers={**keep, **more}, timeout=30) as client:
        return await client.post(request["path"], json=request["json"])


async def test_a_service_that_is_asked_to_end_answers_what_it_has_begun(database_url: str, tmp_path: Path) -> None:
    keep = await headers(database_url, "submitter")
    async with (
        api_process(database_url, tmp_path, HOLDFAST_FAILPOINT="api.after_commit:delay=1.5") as (process, url),
        httpx2.AsyncClient(headers=keep, timeout=30) as client,
    ):
        submitting = asyncio.create_task(client.post(f"{url}{API}/jobs", json={"definition": ECHO}))

        async def is_made() -> bool:
            return bool(job_ids(database_url))

        await eventually(is_made)
        process.send(signal.SIGTERM)
        answer = await submitting
        assert (answer.status_code, answer.json()["answer"]) == (201, "created")
        assert await process.ended() == 0
        with pytest.raises(httpx2.TransportError):
            await client.get(f"{url}/livez")


async def test_a_service_that_is_asked_to_end_answers_those_who_wait(database_url: str, tmp_path: Path) -> None:
    """No owner answers, and who waits would wait longer than the process has time for."""
    keep = await headers(database_url, "operator")
    async with (
        api_process(database_url, tmp_path) as (process, url),
        httpx2.AsyncClient(base_url=url + API, headers=keep, timeout=60) as client,
    ):
        jobs = [(await client.post("/jobs", json={"definition": ECHO, "key": f"{n}"})).json()["job_id"] for n in (1, 2)]
        long = {"wait": 60}
        pausing = asyncio.create_task(client.post(f"/jobs/{jobs[0]}/pause", json={}, params=long))
        await eventually(lambda: is_sent(database_url, jobs[0]))
        asking = asyncio.create_task(client.get(f"/signals/{max(signals(database_url))}", params=long))
        pausing_all = asyncio.create_task(client.post("/pauses", json={"workflow": "echo"}, params=long))
        await eventually(lambda: is_sent(database_url, jobs[1]))
        process.send(signal.SIGTERM)
        paused, asked, paused_all = await asyncio.gather(pausing, asking, pausing_all)
        assert (paused.status_code, paused.json()["answer"]) == (202, "pending")
        assert (asked.status_code, asked.json()["answer"]) == (200, None)
        assert (paused_all.status_code, len(paused_all.json()["jobs"]["pending"])) == (200, 2)
        assert await process.ended() == 0


@IN_CHAOS
async def test_a_request_that_outlasts_the_end_of_its_service_is_refused_with_retry_after(
    database_url: str, tmp_path: Path
) -> None:
    keep = await headers(database_url, "submitter")
    slow = {"HOLDFAST_FAILPOINT": "api.after_commit:delay=60", "HOLDFAST_GRACE_SECONDS": "1"}
    body = {"definition": ECHO}
    async with api_process(database_url, tmp_path, **slow) as (process, url), httpx2.AsyncClient(timeout=30) as client:
        submitting = asyncio.create_task(client.post(f"{url}{API}/jobs", json=body, headers=keep))

        async def is_made() -> bool:
            return bool(job_ids(database_url))

        await eventually(is_made)
        process.send(signal.SIGTERM)
        answer = await submitting
        assert (answer.status_code, answer.json()["code"]) == (503, "SERVICE_ENDING")
        assert answer.headers["retry-after"] == "2"
        assert answer.headers["x-request-id"]
        assert await process.ended() == 0
        assert "Traceback" not in process.log.read_text()
    async with api_process(database_url, tmp_path) as (_, url):
        again = await send(url, keep, {"path": f"{API}/jobs", "json": body})
    assert (again.status_code, {again.json()["job_id"]}) == (200, job_ids(database_url))


async def is_sent(url: str, job_id: str) -> bool:
    with psycopg.connect(url) as connection:
        query = "select 1 from holdfast.inbox where kind = 'pause' and job_id = %s"
        return connection.execute(query, (job_id,)).fetchone() is not None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "server", durable=False) as started:
        yield started


class Load:
    """Clients that submit and read until they are stopped."""

    def __init__(self, url: str, keep: dict[str, str]) -> None:
        self.url = url
        self._headers = keep
        self.statuses: list[int] = []
        self.wrong: list[str] = []
        self.acknowledged: set[str] = set()
        self.is_over = False

    async def run(self, number: int) -> None:
        async with httpx2.AsyncClient(headers=self._headers, timeout=30) as client:
            count = 0
            while not self.is_over:
                count += 1
                body = {"definition": ECHO, "key": f"{number}-{count}"}
                self._note(await client.post(f"{self.url}{API}/jobs", json=body))
                self._note(await client.get(f"{self.url}{API}/jobs", params={"limit": 5}))

    def _note(self, answer: httpx2.Response) -> None:
        self.statuses.append(answer.status_code)
        if answer.is_success:
            if "job_id" in answer.json():
                self.acknowledged.add(answer.json()["job_id"])
        elif answer.status_code != 503 or "retry-after" not in answer.headers:
            self.wrong.append(f"{answer.status_code} {answer.headers} {answer.text}")
        elif answer.headers["content-type"] != "application/problem+json":
            self.wrong.append(answer.text)


@IN_CHAOS
async def test_a_restart_of_postgres_is_answered_with_503_and_the_service_goes_on(
    server: Server, tmp_path: Path
) -> None:
    url = server.new_database()
    keep = await headers(url, "submitter")
    async with api_process(url, tmp_path) as (process, address):
        load = Load(address, keep)
        clients = [asyncio.create_task(load.run(number)) for number in range(CLIENTS)]

        async def has(number: int, status: int) -> bool:
            return load.statuses.count(status) >= number

        try:
            await eventually(lambda: has(20, 201))
            await asyncio.to_thread(server.stop_at_once)
            await eventually(lambda: has(CLIENTS, 503))
            await asyncio.to_thread(server.start)
            seen = load.statuses.count(201)
            await eventually(lambda: has(seen + 50, 201))
        finally:
            load.is_over = True
            with suppress(httpx2.TransportError):
                await asyncio.gather(*clients)
        assert load.wrong == []
        assert process.is_alive
        async with httpx2.AsyncClient(timeout=30) as client:
            assert (await client.get(f"{address}/readyz")).status_code == 200
    assert load.acknowledged <= job_ids(url)
