"""The short forms: submitting by a workflow's name, and trying again what has failed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.errors import Permanent
from tests.running import registry, running
from tests.service.serving import API, Service, serving_http
from tests.service.test_jobs import ended

pytestmark = pytest.mark.anyio

STEPS = {
    "workflow_id": "steps",
    "inputs": {"region": {"type": "string", "default": "CIV"}},
    "nodes": {
        "a": {"handler": "echo", "next": "b"},
        "b": {"handler": "mendable", "retry": {"max_retries": 0}},
    },
}
BROKEN: list[bool] = [True]


def mendable() -> str:
    if BROKEN[0]:
        raise Permanent("not mended yet")
    return "done"


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    BROKEN[0] = True
    async with running(database_url, registry(mendable=mendable)), serving_http(database_url) as service:
        client = await service.as_role("submitter")
        assert (await client.post(f"{API}/workflows", json=STEPS)).status_code == 201
        yield service


async def submitted(client: Any, **options: Any) -> tuple[int, Any]:
    answer = await client.post("/api/jobs/submit/steps", json={"region": "CIV"}, params=options)
    return answer.status_code, answer.json()


async def test_the_status_of_a_short_submission_says_what_it_has_led_to(service: Service) -> None:
    client = await service.as_role("operator")
    status, first = await submitted(client)
    assert (status, first["status"]) == (201, "created")
    await ended(client, first["job_id"])
    status, again = await submitted(client)
    assert (status, again["status"], again["failed_stage"]) == (200, "previously_failed", "b")
    assert (again["completed_stages"], again["job_id"]) == (["a"], first["job_id"])
    BROKEN[0] = False
    status, resumed = await submitted(client, resume=True)
    assert (status, resumed["status"], resumed["job_id"]) == (200, "resumed", first["job_id"])
    assert (await ended(client, first["job_id"]))["status"] == "completed"
    assert (await submitted(client))[1]["status"] == "already_completed"
    status, forced = await submitted(client, force=True)
    assert (status, forced["status"], forced["run"]) == (201, "forced", 2)


async def test_a_failed_stage_is_retried_by_its_number_and_an_ending_of_the_job(service: Service) -> None:
    client = await service.as_role("operator")
    for path in ("/api/jobs/retry-stage/{ending}/2", "/api/jobs/{ending}/retry", f"{API}/jobs/{{id}}/retry-stage"):
        BROKEN[0] = True
        job_id = (await submitted(client, force=True))[1]["job_id"]
        assert (await ended(client, job_id))["status"] == "failed"
        BROKEN[0] = False
        body = {"node": "2"} if path.startswith(API) else {}
        address = path.format(ending=job_id[-12:], id=job_id)
        done = await client.post(address, params={"wait": 30}, json={"reason": "mended", **body})
        assert (done.status_code, done.json()["answer"]) == (200, "applied"), done.text
        job = await ended(client, job_id)
        assert (job["status"], job["generation"]) == ("completed", 2)


async def test_short_forms_refuse_what_the_long_ones_refuse(service: Service) -> None:
    client, viewer = await service.as_role("operator"), await service.as_role("viewer")
    assert (await viewer.post("/api/jobs/submit/steps", json={})).status_code == 403
    assert (await viewer.post("/api/jobs/retry-stage/abcdef12/1", json={})).status_code == 403
    assert (await client.post("/api/jobs/submit/nowhere", json={})).status_code == 404
    assert (await client.post("/api/jobs/submit/steps", json={"surprise": 1})).status_code == 422
    assert (await client.post("/api/jobs/submit/steps", json=[1])).status_code == 422
    assert (await client.post("/api/jobs/submit/steps", json={}, params={"resum": True})).status_code == 422
    assert (await submitted(client, resume=True, force=True))[0] == 422
    assert (await client.post("/api/jobs/retry-stage/abcdef12/1", json={})).status_code == 404
    other = await service.as_role("operator", tenant="other")
    job_id = (await submitted(client))[1]["job_id"]
    assert (await other.post(f"/api/jobs/{job_id}/retry", json={})).status_code == 404
