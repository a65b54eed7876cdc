"""Finding jobs over HTTP: lookups, and the filters of lists."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from holdfast.errors import Permanent
from tests.running import registry, running
from tests.service.serving import API, Service, serving_http
from tests.service.test_jobs import ended

pytestmark = pytest.mark.anyio

PUBLISH = {"workflow_id": "publish", "nodes": {"a": {"handler": "publish", "params": {"text": "{{ inputs.text }}"}}}}
BREAK = {"workflow_id": "break", "nodes": {"a": {"handler": "broken", "retry": {"max_retries": 0}}}}


def publish(text: str, *, ctx: Any) -> Any:
    (ctx.workdir / "file.txt").write_text(text)
    return ctx.publish("file.txt")


def broken() -> None:
    raise Permanent("in its own way")


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with running(database_url, registry(publish=publish, broken=broken)), serving_http(database_url) as service:
        yield service


async def submitted(client: httpx2.AsyncClient, **body: Any) -> str:
    answer = await client.post(f"{API}/jobs", json={"definition": PUBLISH, "inputs": {"text": "a"}, **body})
    assert answer.status_code in (200, 201), answer.text
    return str(answer.json()["job_id"])


async def found(client: httpx2.AsyncClient, path: str, **params: Any) -> list[str]:
    answer = await client.get(f"{API}/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return [one["job_id"] for one in answer.json()["items"]]


async def test_a_job_is_found_by_each_of_its_marks_and_by_its_files_within_its_tenant_only(service: Service) -> None:
    client, other = await service.as_role("submitter"), await service.as_role("submitter", tenant="other")
    marks = {"correlation_id": "order 1", "external_ids": {"gateway": "g:1"}, "key": "my key"}
    job_id, theirs = await submitted(client, **marks), await submitted(other, **marks)
    await ended(client, job_id)
    await ended(other, theirs)
    wanted: list[dict[str, str]] = [
        {"correlation_id": "order 1"},
        {"external_id": "gateway:g:1"},
        {"key": "my key"},
        {"artifact": hashlib.sha256(b"a").hexdigest()},
        {"artifact": f"sha256:{hashlib.sha256(b'a').hexdigest().upper()}"},
    ]
    for one in wanted:
        assert await found(client, "lookup", **one) == [job_id]
        assert await found(other, "lookup", **one) == [theirs]
    for one in ({"correlation_id": "order"}, {"external_id": "other:g:1"}, {"key": "?"}, {"artifact": "0" * 64}):
        assert await found(client, "lookup", **one) == []


async def test_a_lookup_has_pages_newest_first(service: Service) -> None:
    client = await service.as_role("submitter")
    marks = {"correlation_id": "many", "external_ids": {"portal": "many"}}
    jobs = [await submitted(client, key=str(number), **marks) for number in range(5)]
    for wanted in ({"correlation_id": "many"}, {"external_id": "portal:many"}):
        seen: list[str] = []
        cursor: str | None = None
        while True:
            more = {"cursor": cursor} if cursor is not None else {}
            page = (await client.get(f"{API}/lookup", params={**wanted, **more, "limit": 2})).json()
            seen += [one["job_id"] for one in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == jobs[::-1]


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"key": "a", "correlation_id": "b"},
        {"external_id": "no colon"},
        {"external_id": ":value"},
        {"artifact": "abc"},
        {"correlation_id": ""},
        {"key": "a\0b"},
        {"key": "a", "cursor": "nonsense"},
        {"key": "a", "limit": 501},
        {"surprise": "a"},
    ],
)
async def test_a_lookup_for_nothing_or_for_nonsense_is_refused(service: Service, wanted: dict[str, Any]) -> None:
    client = await service.as_role("viewer")
    refused = await client.get(f"{API}/lookup", params=wanted)
    assert (refused.status_code, refused.json()["code"]) == (422, "INVALID_INPUT")


async def test_a_list_has_the_jobs_of_a_correlation_a_fingerprint_or_a_text(service: Service) -> None:
    client = await service.as_role("submitter")
    first = await submitted(client, key="the key", correlation_id="order-77")
    second = await submitted(client, definition=BREAK, inputs={})
    job = await ended(client, second)
    await ended(client, first)
    assert await found(client, "jobs", correlation="order-77") == [first]
    assert await found(client, "jobs", correlation="order-77", status="failed") == []
    assert await found(client, "jobs", fingerprint=job["error"]["fingerprint"]) == [second]
    assert await found(client, "jobs", fingerprint="nothing") == []
    texts = {first[-8:]: [first], first: [first], "the key": [first], "order-7": [first], "publi": [first]}
    texts |= {"break": [second], second[-7:].upper(): [second], first[:6]: [second, first], "%": [], "_": [], "ö": []}
    for text, jobs in texts.items():
        assert (text, await found(client, "jobs", text=text)) == (text, jobs)
    other = await service.as_role("viewer", tenant="other")
    for text in (first, "the key", "order-77"):
        assert await found(other, "jobs", text=text) == []
