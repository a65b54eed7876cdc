"""Submissions over HTTP: their marks, batches, and transactions that several share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.client import Client
from holdfast.define.load import load_text
from holdfast.errors import InvalidInput
from holdfast.operations.scope import Scope
from holdfast.store.postgres import PostgresStore
from tests.running import registry, running
from tests.service.serving import API, Service, serving_http
from tests.service.test_jobs import ended

pytestmark = pytest.mark.anyio

ECHO = {"workflow_id": "echo", "inputs": {"i": {"type": "integer", "default": 0}}, "nodes": {"a": {"handler": "echo"}}}
MARKS = {
    "correlation_id": "order 4711",
    "external_ids": {"gateway": "g-1", "portal": "p/1"},
    "callback_url": "https://portal.example/done",
    "notify": [{"on": ["job_failed", "node_failed"], "email": "ops@example.org"}],
}


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_http(database_url) as service:
        yield service


async def test_the_marks_of_the_first_submission_stand_in_the_status_and_those_of_later_ones_do_not(
    service: Service,
) -> None:
    client = await service.as_role("submitter")
    first = await client.post(f"{API}/jobs", json={"definition": ECHO, **MARKS})
    assert first.status_code == 201
    later = {"correlation_id": "other", "external_ids": {"gateway": "g-2"}, "callback_url": "https://other.example/"}
    again = await client.post(f"{API}/jobs", json={"definition": ECHO, **later})
    assert (again.status_code, again.json()["job_id"]) == (200, first.json()["job_id"])
    job = (await client.get(f"{API}/jobs/{first.json()['job_id']}")).json()
    assert {name: job[name] for name in MARKS} == MARKS
    found = await client.get(f"{API}/lookup", params={"external_id": "gateway:g-2"})
    assert found.json() == {"items": [], "next_cursor": None}


async def test_a_job_without_marks_has_no_keys_for_them(service: Service) -> None:
    client = await service.as_role("submitter")
    job_id = (await client.post(f"{API}/jobs", json={"definition": ECHO})).json()["job_id"]
    assert not set(MARKS) & set((await client.get(f"{API}/jobs/{job_id}")).json())


async def test_the_first_event_of_a_job_names_the_request_that_made_it(service: Service) -> None:
    client = await service.as_role("submitter")
    two = {"jobs": [{"definition": ECHO, "key": "1"}, {"definition": ECHO, "key": "2"}]}
    batch = await client.post(f"{API}/jobs/batch", json=two, headers={"X-Request-Id": "of-two"})
    made = {one["submission"]["job_id"]: "of-two" for one in batch.json()["items"]}
    first, second = await asyncio.gather(
        *(
            client.post(f"{API}/jobs", json={"definition": ECHO, "key": name}, headers={"X-Request-Id": name})
            for name in ("one", "other")
        )
    )
    made |= {first.json()["job_id"]: "one", second.json()["job_id"]: "other"}
    again = await client.post(f"{API}/jobs", json={"definition": ECHO, "key": "one"}, headers={"X-Request-Id": "late"})
    assert again.json()["job_id"] == first.json()["job_id"]
    for job_id, request_id in made.items():
        (created,) = (await client.get(f"{API}/jobs/{job_id}/events")).json()["items"]
        assert (created["event"], created["data"]["request_id"]) == ("job_created", request_id)


@pytest.mark.parametrize(
    "mark",
    [
        {"correlation_id": ""},
        {"correlation_id": "a\nb"},
        {"correlation_id": "x" * 201},
        {"external_ids": {"a b": "1"}},
        {"external_ids": {"a": ""}},
        {"external_ids": {"a": "x" * 401}},
        {"external_ids": {f"n{i}": "1" for i in range(21)}},
        {"external_ids": {"a": 1}},
        {"callback_url": "ftp://host/"},
        {"callback_url": "https:///path"},
        {"callback_url": "https://user:word@host/"},
        {"callback_url": "https://host/a b"},
        {"callback_url": "http://[::1"},
        {"callback_url": "javascript:alert(1)"},
        {"callback_url": f"https://host/{'x' * 2000}"},
        {"notify": [{"on": ["failed"]}]},
        {"notify": [{"on": ["faild"], "webhook": "pager"}]},
        {"notify": [{"on": [], "webhook": "pager"}]},
        {"notify": [{"on": ["failed"], "email": "a@b\r\nBcc: c@d"}]},
        {"notify": [{"on": ["failed"], "callback": "https://host/"}]},
        {"notify": [{"on": ["failed"], "webhook": "pager"}] * 21},
    ],
)
async def test_a_bad_mark_is_refused_and_nothing_is_stored(service: Service, mark: dict[str, Any]) -> None:
    client = await service.as_role("submitter")
    refused = await client.post(f"{API}/jobs", json={"definition": ECHO, **mark})
    assert (refused.status_code, refused.json()["code"]) == (422, "INVALID_INPUT")
    assert (await client.get(f"{API}/jobs")).json()["items"] == []


async def test_the_hint_warns_of_a_callback_to_an_address_that_is_known_not_to_be_public(service: Service) -> None:
    client = await service.as_role("submitter")
    for host, where in (("10.0.0.7", "10.0.0.7 is not a public address"), ("portal.example", None)):
        body = {"definition": ECHO, "key": host, "callback_url": f"https://{host}/done"}
        made = await client.post(f"{API}/jobs", json=body)
        follow = f"Follow it with: holdfast watch {made.json()['job_id']}"
        allowed = "it is called only where HOLDFAST_OUTGOING_ALLOW lists it"
        warned = f"{follow}. Its callback: {where}: {allowed}" if where is not None else follow
        assert (made.status_code, made.json()["hint"]) == (201, warned)
        again = await client.post(f"{API}/jobs", json=body)
        assert again.json()["hint"] == follow, "the first submission was warned"


async def test_an_empty_key_is_refused_wherever_it_stands(service: Service, database_url: str) -> None:
    """All submissions that forget their key would be one job."""
    client = await service.as_role("submitter")
    for headers, body in (({"Idempotency-Key": ""}, {}), ({}, {"key": ""}), ({"Idempotency-Key": "a"}, {"key": ""})):
        refused = await client.post(f"{API}/jobs", json={"definition": ECHO, **body}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (422, "INVALID_INPUT")
    short = await client.post("/api/jobs/submit/echo", json={}, headers={"Idempotency-Key": ""})
    assert (short.status_code, short.json()["code"]) == (422, "INVALID_INPUT")
    async with Client.connect(database_url, Scope("default", "test")) as direct:
        for key in ("", "k" * 501):
            with pytest.raises(InvalidInput, match="A key has 1 to 500 characters"):
                await direct.submit(load_text("workflow_id: a\nnodes: {a: {handler: echo}}"), key=key)
    assert (await client.get(f"{API}/jobs")).json()["items"] == []


async def test_a_handler_sees_the_marks_of_its_job(database_url: str) -> None:
    async with running(database_url, registry(tell=tell)), serving_http(database_url) as service:
        client = await service.as_role("submitter")
        definition = {"workflow_id": "tell", "nodes": {"a": {"handler": "tell"}}, "result": "{{ nodes.a.output }}"}
        made = await client.post(f"{API}/jobs", json={"definition": definition, **MARKS})
        job = await ended(client, made.json()["job_id"])
    assert job["result"] == ["order 4711", {"gateway": "g-1", "portal": "p/1"}]


def tell(*, ctx: Any) -> list[Any]:
    return [ctx.correlation_id, ctx.external_ids]


async def test_a_batch_answers_each_submission_in_order_and_an_invalid_one_stops_no_other(service: Service) -> None:
    client = await service.as_role("submitter")
    await client.post(f"{API}/jobs", json={"definition": ECHO, "inputs": {"i": 7}})
    bad = {"workflow_id": "bad", "nodes": {"a": {"handler": "echo", "surprise": 1}}}
    jobs = [
        {"workflow": "echo", "inputs": {"i": 1}, **MARKS},
        {"workflow": "nowhere"},
        {"workflow": "echo", "inputs": {"i": "text"}},
        {"workflow": "echo", "inputs": {"i": 7}},
        {"definition": bad},
        {"workflow": "echo", "surprise": 1},
        {"workflow": "echo", "definition": ECHO},
        {"workflow": "echo", "inputs": {"i": 1}},
        {"workflow": "echo", "inputs": {"i": 2}, "key": "two"},
        {"workflow": "echo", "inputs": {"i": 3}, "key": "two"},
        {"workflow": "echo", "correlation_id": ""},
    ]
    answer = await client.post(f"{API}/jobs/batch", json={"jobs": jobs})
    assert answer.status_code == 200
    items = answer.json()["items"]
    assert [one["status"] for one in items] == [201, 404, 422, 200, 422, 422, 422, 200, 201, 409, 422]
    assert [one["submission"] is None for one in items] == [one["status"] > 201 for one in items]
    assert items[7]["submission"]["job_id"] == items[0]["submission"]["job_id"]
    assert items[4]["problem"]["errors"][0]["path"] == "nodes.a.surprise"
    assert items[5]["problem"]["errors"][0]["path"] == "body.jobs.5.surprise"
    assert len((await client.get(f"{API}/jobs")).json()["items"]) == 3


@pytest.mark.parametrize("jobs", [[], [{"workflow": "echo"}] * 1001, "text", None])
async def test_a_batch_of_another_size_is_refused(service: Service, jobs: Any) -> None:
    client = await service.as_role("submitter")
    assert (await client.post(f"{API}/jobs/batch", json={"jobs": jobs})).status_code == 422


async def test_a_viewer_submits_nothing(service: Service) -> None:
    client = await service.as_role("viewer")
    for path, body in (("jobs", {"definition": ECHO}), ("jobs/batch", {"jobs": [{"definition": ECHO}]})):
        assert (await client.post(f"{API}/{path}", json=body)).status_code == 403


async def test_submissions_at_once_are_each_answered_with_their_own_job(service: Service) -> None:
    client = await service.as_role("submitter")
    await client.post(f"{API}/jobs", json={"definition": ECHO, "inputs": {"i": -1}})

    async def submit(number: int) -> tuple[int, Any]:
        inputs: dict[str, Any] = {"i": number // 2} if number % 10 else {"i": "text"}
        answer = await client.post(f"{API}/jobs", json={"workflow": "echo", "inputs": inputs})
        return answer.status_code, answer.json()

    answers = await asyncio.gather(*map(submit, range(60)))
    assert all((status == 422) == (number % 10 == 0) for number, (status, _) in enumerate(answers))
    made = [body for status, body in answers if status != 422]
    jobs = {body["job_id"]: (await client.get(f"{API}/jobs/{body['job_id']}")).json()["inputs"]["i"] for body in made}
    assert sorted(jobs.values()) == list(range(30))
    for number, (status, body) in enumerate(answers):
        assert status == 422 or jobs[body["job_id"]] == number // 2


async def test_submissions_that_share_a_transaction_keep_to_the_backlog_of_their_tenant(
    database_url: str, store: PostgresStore
) -> None:
    store.share_commits()
    definition = load_text("workflow_id: echo\nnodes: {a: {handler: echo}}")
    full, free = Client(store, Scope("full")), Client(store, Scope("free"))
    await full.set_limit("tenant", tenant="full", backlog=3)
    answers = await asyncio.gather(
        *(full.submit(definition, {"i": number}) for number in range(10)),
        *(free.submit(definition, {"i": number}) for number in range(10)),
        return_exceptions=True,
    )
    kinds = [type(one).__name__ for one in answers]
    assert sorted(kinds[:10]) == ["BacklogFull"] * 7 + ["Submission"] * 3
    assert set(kinds[10:]) == {"Submission"}
