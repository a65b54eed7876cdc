"""Verbs over HTTP: requests that are sent twice, waiting for owners, signals, and who may cancel."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx2
import pytest

from holdfast.errors import Permanent
from holdfast.operations.answering import is_answered
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import SignalAnswer
from tests.cli.conftest import nothing_is_left_behind, spawn
from tests.conftest import eventually
from tests.marks import IN_CHAOS
from tests.running import HOME, Engine, client_of, registry, running
from tests.service.serving import API, Service, serving_http
from tests.service.test_jobs import ended

__all__ = ["nothing_is_left_behind"]

pytestmark = pytest.mark.anyio

BREAK = {"workflow_id": "break", "nodes": {"a": {"handler": "broken"}, "b": {"handler": "broken"}}}
LONG = {"workflow_id": "long", "nodes": {"a": {"handler": "sleep", "params": {"duration_seconds": 300}}}}
KEY = {"Idempotency-Key": "once"}
SURE = {"confirm": True}


def broken() -> None:
    raise Permanent("in its own way")


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[Engine]:
    async with running(database_url, registry(broken=broken)) as engine:
        yield engine


@pytest.fixture
async def service(engine: Engine) -> AsyncIterator[Service]:
    async with serving_http(engine.url) as service:
        yield service


@pytest.fixture
async def idle(database_url: str) -> AsyncIterator[Service]:
    """The service alone: no owner answers."""
    async with serving_http(database_url) as service:
        yield service


async def submitted(client: httpx2.AsyncClient, definition: dict[str, Any], **body: Any) -> str:
    answer = await client.post(f"{API}/jobs", json={"definition": definition, **body})
    assert answer.status_code in (200, 201), answer.text
    return str(answer.json()["job_id"])


async def recoveries(engine: Engine, job_id: str) -> int:
    return sum(event["event"] == "job_recovered" for event in await engine.events(job_id))


async def test_a_request_that_is_sent_again_has_the_same_signal_and_does_nothing_twice(
    service: Service, engine: Engine
) -> None:
    client = await service.as_role("operator")
    job_id = await submitted(client, BREAK)
    await ended(client, job_id)
    body = {"node": "a", "reason": "again"}
    first = await client.post(f"{API}/jobs/{job_id}/retry", params={"wait": 20}, json=body, headers=KEY)
    assert (first.status_code, first.json()["answer"]) == (200, "applied"), first.text
    await ended(client, job_id)
    again = await client.post(f"{API}/jobs/{job_id}/retry", params={"wait": 20}, json=body, headers=KEY)
    assert (again.status_code, again.json()) == (200, first.json())
    assert await recoveries(engine, job_id) == 1
    new = await client.post(f"{API}/jobs/{job_id}/retry", params={"wait": 20}, json=body)
    assert new.json()["signal_id"] != first.json()["signal_id"]
    assert await recoveries(engine, job_id) == 2


@pytest.mark.parametrize(
    ("verb", "body"),
    [("retry", {"node": "b"}), ("retry", {"node": "a", "reason": "else"}), ("rerun", {"node": "a"}), ("resume", {})],
)
async def test_another_request_under_the_same_key_is_refused(service: Service, verb: str, body: dict[str, Any]) -> None:
    client = await service.as_role("operator")
    job_id = await submitted(client, BREAK)
    await ended(client, job_id)
    await client.post(f"{API}/jobs/{job_id}/retry", params={"wait": 20}, json={"node": "a"}, headers=KEY)
    await ended(client, job_id)
    refused = await client.post(f"{API}/jobs/{job_id}/{verb}", params={"wait": 20}, json=body, headers=KEY)
    assert (refused.status_code, refused.json()["code"]) == (409, "REFUSED")
    assert "its key belongs to another request" in refused.json()["detail"]


async def test_the_same_key_is_free_for_another_job(service: Service) -> None:
    client = await service.as_role("operator")
    jobs = [await submitted(client, LONG, key=name) for name in ("one", "two")]
    answers = [await client.post(f"{API}/jobs/{one}/pause", params={"wait": 20}, headers=KEY) for one in jobs]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert len({answer.json()["signal_id"] for answer in answers}) == 2


async def test_requests_with_one_key_at_the_same_time_make_one_signal(service: Service, engine: Engine) -> None:
    client = await service.as_role("operator")
    job_id = await submitted(client, BREAK)
    await ended(client, job_id)
    path = f"{API}/jobs/{job_id}/retry"
    more: dict[str, Any] = {"params": {"wait": 20}, "json": {"node": "a"}, "headers": KEY}
    answers = await asyncio.gather(*(client.post(path, **more) for _ in range(12)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["signal_id"] for answer in answers}) == 1
    assert await recoveries(engine, job_id) == 1


@IN_CHAOS
async def test_a_request_is_sent_once_although_its_service_is_killed_before_the_answer(
    service: Service, engine: Engine
) -> None:
    key = await service.key("operator")
    client = service.with_key(key)
    job_id = await submitted(client, BREAK)
    await ended(client, job_id)
    where = ("--database-url", engine.url, "--port", "0", "--json")
    mortal = spawn("api", *where, HOLDFAST_FAILPOINT="request.after_commit:kill", HOLDFAST_HOME=str(HOME))
    assert mortal.stdout is not None
    url = json.loads(await asyncio.to_thread(mortal.stdout.readline))["url"]
    path = f"{API}/jobs/{job_id}/retry"
    more: dict[str, Any] = {"params": {"wait": 20}, "json": {"node": "a"}}
    async with httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}", **KEY}, timeout=30) as early:
        with pytest.raises(httpx2.TransportError):
            await early.post(path, **more)
    assert await asyncio.to_thread(mortal.wait) == -9
    again = await client.post(path, **more, headers=KEY)
    assert (again.status_code, again.json().get("answer")) == (200, "applied"), again.text
    assert await recoveries(engine, job_id) == 1
    requests = await engine.query("select signal_id from requests where job_id = %s", job_id)
    assert requests == [(again.json()["signal_id"],)]


async def test_a_refusal_by_the_owner_is_the_same_when_it_is_asked_again(idle: Service, database_url: str) -> None:
    client = await idle.as_role("operator")
    job_id = await submitted(client, LONG)
    paths = [f"{API}/jobs/{job_id}/{verb}" for verb in ("cancel", "pause")]
    sent = [await client.post(path, json=SURE, headers={"Idempotency-Key": path}) for path in paths]
    assert [answer.status_code for answer in sent] == [202, 202]
    async with running(database_url):
        refused = await client.post(paths[1], params={"wait": 20}, json=SURE, headers={"Idempotency-Key": paths[1]})
        assert (refused.status_code, refused.json()["code"]) == (409, "REFUSED"), refused.text
        again = await client.post(paths[1], params={"wait": 20}, json=SURE, headers={"Idempotency-Key": paths[1]})
        assert again.json()["detail"] == refused.json()["detail"]
        signal = await client.get(f"{API}/jobs/{job_id}/signals/{sent[1].json()['signal_id']}")
        assert (signal.json()["answer"], signal.json()["sent_at"]) == ("refused", None)


async def test_a_signal_waits_until_its_owner_answers(idle: Service, database_url: str) -> None:
    client = await idle.as_role("operator")
    job_id = await submitted(client, LONG)
    sent = await client.post(f"{API}/jobs/{job_id}/cancel", json={"reason": "enough", "confirm": True})
    assert sent.status_code == 202, sent.text
    signal_id = sent.json()["signal_id"]
    path = f"{API}/jobs/{job_id}/signals/{signal_id}"
    waiting = (await client.get(path)).json()
    assert (waiting["answer"], waiting["signal_id"], waiting["answered_at"]) == ("pending", signal_id, None)
    assert waiting["sent_at"] is not None
    async with running(database_url):

        async def is_applied() -> bool:
            return bool((await client.get(path)).json()["answer"] == "applied")

        await eventually(is_applied)
    assert (await client.get(path)).json()["answered_at"] is not None
    other = await idle.as_role("operator", tenant="other")
    assert (await other.get(path)).json()["detail"] == f"There is no job '{job_id}'."


async def test_the_signal_of_another_job_or_tenant_is_not_found(idle: Service) -> None:
    client, other = await idle.as_role("operator"), await idle.as_role("operator", tenant="other")
    ours, second = await submitted(client, LONG), await submitted(client, LONG, key="second")
    signal_id = (await client.post(f"{API}/jobs/{ours}/pause")).json()["signal_id"]
    assert (await client.get(f"{API}/jobs/{ours}/signals/{signal_id}")).status_code == 200
    wrong = await client.get(f"{API}/jobs/{second}/signals/{signal_id}")
    unknown = await client.get(f"{API}/jobs/{second}/signals/1")
    assert (wrong.status_code, unknown.status_code) == (404, 404)
    assert wrong.json()["detail"].replace(f"signal {signal_id}", "signal 1") == unknown.json()["detail"]
    theirs = await other.get(f"{API}/jobs/{ours}/signals/{signal_id}")
    nobodys = await other.get(f"{API}/jobs/{signal_id:032x}/signals/{signal_id}")
    assert (theirs.status_code, nobodys.status_code) == (404, 404)
    assert theirs.json()["detail"] == f"There is no job '{ours}'."


async def test_the_key_of_another_tenants_request_says_nothing(idle: Service) -> None:
    client, other = await idle.as_role("operator"), await idle.as_role("operator", tenant="other")
    job_id = await submitted(client, LONG)
    assert (await client.post(f"{API}/jobs/{job_id}/pause", headers=KEY)).status_code == 202
    for headers in (KEY, {}):
        theirs = await other.post(f"{API}/jobs/{job_id}/pause", headers=headers)
        assert (theirs.status_code, theirs.json()["detail"]) == (404, f"There is no job '{job_id}'.")


async def test_who_may_only_submit_cancels_what_it_submitted_and_nothing_else(service: Service) -> None:
    client, another = await service.as_role("submitter"), await service.as_role("submitter")
    viewer, operator = await service.as_role("viewer"), await service.as_role("operator")
    mine = await submitted(client, LONG, key="mine")
    batch = {"jobs": [{"definition": LONG, "key": "in a batch"}]}
    (made,) = (await client.post(f"{API}/jobs/batch", json=batch)).json()["items"]
    theirs = await submitted(another, LONG, key="theirs")
    for sender, job_id in ((client, theirs), (another, mine), (viewer, mine)):
        refused = await sender.post(f"{API}/jobs/{job_id}/cancel")
        assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    for job_id in (mine, made["submission"]["job_id"]):
        done = await client.post(f"{API}/jobs/{job_id}/cancel", params={"wait": 20}, json=SURE)
        assert (done.status_code, done.json()["answer"]) == (200, "applied"), done.text
    assert (await client.post(f"{API}/jobs/{mine}/resume")).status_code == 403
    assert (await operator.post(f"{API}/jobs/{theirs}/cancel", params={"wait": 20}, json=SURE)).status_code == 200


class CountingStore(PostgresStore):
    """A store that knows how often the answers to signals were read."""

    looks = 0

    async def answers(self, signal_ids: Sequence[int]) -> dict[int, SignalAnswer]:
        self.looks += 1
        return await super().answers(signal_ids)


async def test_all_who_wait_share_one_reader_of_the_answers(database_url: str) -> None:
    store = CountingStore(database_url)
    async with client_of(database_url) as engine:
        jobs = [await engine.submit("workflow_id: w\nnodes: {a: {handler: echo}}", key=f"{n}") for n in range(50)]
        signals = [await store.send(job_id, "pause", "ann@desk", "") for job_id in jobs]
        waiting = [asyncio.create_task(is_answered(store, signal, None)) for signal in signals]
        short = asyncio.create_task(is_answered(store, signals[0], 0.2))
        assert await short is False
        at_rest = store.looks
        assert 1 <= at_rest <= 6, "one statement per look, not one per signal"
        await engine.query(
            "insert into answers (signal_id, job_id, applied, reason) select id, job_id, true, '' from inbox"
        )
        assert all(await asyncio.gather(*waiting))
        assert store.looks <= at_rest + 6
        read = store.looks
        assert await is_answered(store, signals[0], None)
        assert store.looks == read + 1
    await store.close()


async def test_who_waits_learns_that_the_database_is_out_of_reach(database_url: str) -> None:
    store = PostgresStore(database_url)
    await store.answers([1])
    waiting = [asyncio.create_task(is_answered(store, number, None)) for number in (1, 2)]
    store.connections.url = "postgresql://127.0.0.1:1/nowhere"
    async with client_of(database_url) as engine:
        await engine.query(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
    problems = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(problem).__name__ for problem in problems} == {"Unreachable"}
    await store.close()


async def test_a_service_that_waits_answers_when_the_time_is_over(idle: Service) -> None:
    client = await idle.as_role("operator")
    job_id = await submitted(client, LONG)
    answer = await client.post(f"{API}/jobs/{job_id}/pause", params={"wait": 0.3})
    assert (answer.status_code, answer.json()["answer"]) == (202, "pending")
    refused = await client.post(f"{API}/jobs/{job_id}/pause", params={"wait": 61})
    assert refused.status_code == 422
