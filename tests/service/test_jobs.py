"""Jobs over HTTP: submitting, reading and recovering them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.errors import Permanent
from holdfast.service.state import BODY_LIMIT_BYTES
from tests.conftest import eventually
from tests.running import registry, running
from tests.service.serving import API, Service, serving_http

pytestmark = pytest.mark.anyio

ECHO = {"workflow_id": "echo", "nodes": {"a": {"handler": "echo", "params": {"x": 1}}}}
BROKEN: list[bool] = [True]


def mendable() -> str:
    if BROKEN[0]:
        raise Permanent("not mended yet")
    return "done"


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with running(database_url, registry(mendable=mendable)), serving_http(database_url) as service:
        yield service


async def ended(client: Any, job_id: str) -> dict[str, Any]:
    async def has_ended() -> bool:
        status = (await client.get(f"{API}/jobs/{job_id}")).json()["status"]
        return status not in ("pending", "running")

    await eventually(has_ended)
    job: dict[str, Any] = (await client.get(f"{API}/jobs/{job_id}")).json()
    return job


async def test_the_same_submission_twice_is_one_job(service: Service) -> None:
    client = await service.as_role("submitter")
    first = await client.post(f"{API}/jobs", json={"definition": ECHO})
    assert (first.status_code, first.json()["answer"]) == (201, "created")
    again = await client.post(f"{API}/jobs", json={"definition": ECHO})
    assert (again.status_code, again.json()["job_id"]) == (200, first.json()["job_id"])
    assert (await ended(client, first.json()["job_id"]))["status"] == "completed"


async def test_a_failed_job_is_planned_and_resumed_over_http(service: Service) -> None:
    BROKEN[0] = True
    client = await service.as_role("operator")
    definition = {"workflow_id": "mend", "nodes": {"a": {"handler": "mendable"}}}
    job_id = (await client.post(f"{API}/jobs", json={"definition": definition})).json()["job_id"]
    assert (await ended(client, job_id))["status"] == "failed"
    BROKEN[0] = False
    plan = (await client.post(f"{API}/jobs/{job_id}/plan", json={"verb": "resume"})).json()
    assert [step["action"] for step in plan["steps"]] == ["rerun"]
    body = {"plan_id": plan["plan_id"], "reason": "mended"}
    done = await client.post(f"{API}/jobs/{job_id}/resume", params={"wait": 20}, json=body)
    assert (done.status_code, done.json()["answer"]) == (200, "applied")
    assert (await ended(client, job_id))["status"] == "completed"


async def test_a_wrong_definition_is_refused_with_the_place_of_each_mistake(service: Service) -> None:
    client = await service.as_role("submitter")
    wrong = {"workflow_id": "x", "nodes": {"a": {"handler": "echo", "tiemout_seconds": 3}}}
    refused = await client.post(f"{API}/jobs", json={"definition": wrong})
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    assert "tiemout_seconds" in str(refused.json()["errors"])


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'{"workflow": "a", "workflow": "b"}', 422),
        (b'{"inputs": NaN}', 422),
        (b'{"inputs": ' + b"[" * 5000 + b"]" * 5000 + b"}", 422),
        (b'{"workflow": "\\u0000"}', 422),
        (b"\xff\xfe", 422),
        (b"not json", 422),
        (b'{"surprise": 1}', 422),
        (b" " * (BODY_LIMIT_BYTES + 1), 413),
    ],
)
async def test_a_bad_body_is_refused_as_a_problem(service: Service, content: bytes, status: int) -> None:
    client = await service.as_role("submitter")
    refused = await client.post(f"{API}/jobs", content=content, headers={"content-type": "application/json"})
    assert refused.status_code == status
    assert refused.json()["code"]


async def test_a_head_request_has_the_headers_alone(service: Service) -> None:
    client = await service.as_role("viewer")
    answer = await client.head(f"{API}/jobs")
    assert (answer.status_code, answer.content) == (200, b"")
