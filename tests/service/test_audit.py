"""The audit over HTTP: each change leaves one line with who, from where, what was and what is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from holdfast.client import Client
from holdfast.define.gates import BreakerRules
from holdfast.define.load import load_text
from holdfast.errors import NotFound
from holdfast.operations.scope import Scope
from holdfast.operations.verbs import Verb, VerbRequest
from tests.conftest import eventually
from tests.running import client_of, running, serving
from tests.service.serving import API, Service, serving_http

pytestmark = pytest.mark.anyio

ECHO = {"workflow_id": "echo", "nodes": {"a": {"handler": "echo"}}}
FAIL = {"workflow_id": "broken", "nodes": {"a": {"handler": "fail", "params": {"permanent": True}}}}
UNSERVED = {"workflow_id": "waits", "nodes": {"a": {"handler": "unserved"}}}


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_http(database_url) as service:
        yield service


async def lines(client: httpx2.AsyncClient, **wanted: str) -> list[dict[str, Any]]:
    answer = await client.get(f"{API}/audit", params=wanted)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_a_verb_leaves_a_line_with_the_request_and_events_name_the_request(database_url: str) -> None:
    async with running(database_url) as engine, serving_http(database_url) as service:
        client = await service.as_role("operator")
        job_id = (await client.post(f"{API}/jobs", json={"definition": FAIL})).json()["job_id"]
        await engine.finished(job_id)
        asked = await client.post(
            f"{API}/jobs/{job_id}/rerun",
            params={"wait": 20},
            json={"node": "a", "reason": "mended", "confirm": True},
            headers={"X-Request-Id": "by-hand-1"},
        )
        assert asked.status_code == 200, asked.text
        (line,) = await lines(client, instance=job_id)
        key = client.headers["authorization"].removeprefix("Bearer ")[:11]
        assert line["actor"] == f"test ({key})"
        assert (line["key"], line["address"], line["request_id"]) == (key, "127.0.0.1", "by-hand-1")
        assert (line["action"], line["reason"], line["tenant"]) == ("job.rerun", "mended", "default")
        assert line["before"] == {"status": "failed", "generation": 1}
        assert (line["after"]["node"], line["after"]["signal_id"]) == ("a", asked.json()["signal_id"])
        (event,) = [one for one in await engine.events(job_id) if one["event"] == "job_recovered"]
        assert event["data"]["request_id"] == "by-hand-1"


async def test_the_events_of_a_submission_a_pause_and_a_cancel_name_their_requests(database_url: str) -> None:
    async with (
        client_of(database_url) as engine,
        serving(database_url, work=False),
        serving_http(database_url) as service,
    ):
        client = await service.as_role("operator")
        made = await client.post(f"{API}/jobs", json={"definition": UNSERVED}, headers={"X-Request-Id": "the-first"})
        job_id = made.json()["job_id"]
        for verb in ("pause", "unpause", "cancel"):
            headers = {"X-Request-Id": f"the-{verb}"}
            address = f"{API}/jobs/{job_id}/{verb}"
            sent = await client.post(address, params={"wait": 20}, json={"confirm": True}, headers=headers)
            assert sent.status_code == 200, sent.text
        await engine.finished(job_id)
        named = {one["event"]: (one["data"] or {}).get("request_id") for one in await engine.events(job_id)}
        assert [named[event] for event in ("job_held", "job_released", "job_cancelled")] == [
            "the-pause", "the-unpause", "the-cancel"
        ]  # fmt: skip
        assert named["job_created"] == "the-first"
        actions = [one["action"] for one in await lines(client, action="job")]
        assert actions == ["job.cancel", "job.unpause", "job.pause"]


async def test_the_same_request_sent_twice_leaves_one_line(database_url: str) -> None:
    async with (
        client_of(database_url) as engine,
        serving(database_url, work=False),
        serving_http(database_url) as service,
    ):
        client = await service.as_role("operator")
        job_id = (await client.post(f"{API}/jobs", json={"definition": UNSERVED})).json()["job_id"]
        signals = set()
        for number in range(2):
            headers = {"Idempotency-Key": "monday", "X-Request-Id": f"try-{number}"}
            sent = await client.post(f"{API}/jobs/{job_id}/pause", params={"wait": 20}, json={}, headers=headers)
            assert sent.status_code == 200, sent.text
            signals.add(sent.json()["signal_id"])
        (line,) = await lines(client, instance=job_id)
        assert (line["action"], line["request_id"], {line["after"]["signal_id"]}) == ("job.pause", "try-0", signals)
        (event,) = [one for one in await engine.events(job_id) if one["event"] == "job_held"]
        assert event["data"]["request_id"] == "try-0"


async def test_a_verb_that_is_refused_or_planned_leaves_no_line(service: Service) -> None:
    client = await service.as_role("operator")
    job_id = (await client.post(f"{API}/jobs", json={"definition": ECHO})).json()["job_id"]
    assert (await client.post(f"{API}/jobs/{job_id}/plan", json={"verb": "cancel"})).status_code == 200
    assert (await client.post(f"{API}/jobs/{job_id}/resume", json={})).status_code == 409
    assert await lines(client, action="job") == [], "a submission is no line, either"


async def test_outputs_and_params_that_people_give_are_in_no_line(database_url: str) -> None:
    async with running(database_url) as engine:
        job_id = (
            await engine.run(load_text("workflow_id: f\nnodes: {a: {handler: fail, params: {permanent: true}}}"))
        )["job_id"]
        await engine.client.send(job_id, VerbRequest(Verb.SET, "a", output={"token": "hidden-9f3"}))
        (row,) = await engine.query("select action, after::text from holdfast.audit where instance = %s", job_id)
        assert row[0] == "job.set"
        assert "hidden-9f3" not in row[1]


async def test_keys_registrations_and_acknowledgements_leave_lines(database_url: str) -> None:
    async with running(database_url) as engine, serving_http(database_url) as service:
        admin = await service.as_role("admin")
        made = (await admin.post(f"{API}/keys", json={"name": "ci", "roles": ["viewer"]})).json()
        prefix = made["details"]["prefix"]
        assert (await admin.delete(f"{API}/keys/{prefix}")).status_code == 200
        (revoked, added) = await lines(admin, instance=prefix)
        assert (added["action"], added["before"], added["after"]["roles"]) == ("key.add", None, ["viewer"])
        assert (revoked["action"], revoked["before"]["name"]) == ("key.revoke", "ci")
        assert made["key"] not in str([added, revoked])
        for _ in range(2):
            await admin.post(f"{API}/workflows", json=ECHO)
        (registered,) = await lines(admin, action="workflow.register")
        assert (registered["instance"], registered["after"]["version"]) == ("echo", "1")
        job_id = (await admin.post(f"{API}/jobs", json={"definition": FAIL})).json()["job_id"]
        await engine.finished(job_id)
        await admin.post(f"{API}/jobs/{job_id}/acknowledge", json={"reason": "known"})
        (seen,) = await lines(admin, action="job.acknowledge")
        assert (seen["instance"], seen["reason"], seen["after"]) == (job_id, "known", {"generation": 1})


async def test_limits_queues_breakers_defaults_and_prunes_leave_lines_with_before_and_after(
    service: Service, database_url: str
) -> None:
    async with client_of(database_url) as engine:
        await engine.store.declare_breakers("default", [BreakerRules("gateway")])
        client = Client(engine.store, Scope(actor="ann@desk"))
        await client.set_limit("queue:maps", concurrency=2)
        await client.set_limit("queue:maps", concurrency=5)
        await client.pause_queue("maps", reason="lunch")
        await client.unpause_queue("maps")
        await client.drop_limit("queue:maps")
        await client.change_breaker("gateway", "open", reason="maintenance")
        await client.set_defaults({"retry.max_retries": 5}, reason="slow net")
        await client.reset_defaults()
        with pytest.raises(NotFound):
            await client.change_breaker("unknown", "open")
        await engine.query(
            "update holdfast.jobs set status = 'completed', finished_at = now() where job_id = %s",
            await engine.submit("workflow_id: w\nnodes: {a: {handler: echo}}"),
        )
        await engine.query("delete from holdfast.inbox")
        assert (await client.prune(0.0)).jobs == 1
        assert (await client.prune(0.0)).jobs == 0
    found = await lines(service.with_key(await service.key("admin", tenant="*")))
    by_ann = [one for one in reversed(found) if one["actor"] == "ann@desk"]
    assert [(one["action"], one["tenant"]) for one in by_ann] == [
        ("limit.set", "*"), ("limit.set", "*"), ("queue.pause", "*"), ("queue.unpause", "*"), ("limit.drop", "*"),
        ("breaker.open", "default"), ("defaults.set", "default"), ("defaults.reset", "default"), ("jobs.prune", "*"),
    ]  # fmt: skip
    assert by_ann[0]["before"] is None
    assert (by_ann[1]["before"]["concurrency"], by_ann[1]["after"]["concurrency"]) == (2, 5)
    assert by_ann[2]["after"]["paused_by"] == "ann@desk"
    assert by_ann[4]["after"] is None
    assert (by_ann[5]["before"]["state"], by_ann[5]["after"], by_ann[5]["reason"]) == (
        ("closed", {"held": True, "state": "open"}, "maintenance")
    )
    assert (by_ann[6]["before"], by_ann[6]["after"]) == ({"retry.max_retries": None}, {"retry.max_retries": 5})
    assert by_ann[8]["after"]["jobs"] == 1
    assert {one["address"] for one in by_ann} == {None}


async def test_a_change_that_fails_leaves_neither_the_change_nor_a_line(database_url: str) -> None:
    async with client_of(database_url) as engine:
        await engine.query("alter table holdfast.audit add constraint nothing_new check (action <> 'limit.set')")
        try:
            with pytest.raises(Exception, match="nothing_new"):
                await engine.client.set_limit("queue:maps", concurrency=2)
        finally:
            await engine.query("alter table holdfast.audit drop constraint nothing_new")
        assert await engine.client.limits() == []
        assert await engine.query("select action from holdfast.audit") == []


async def test_a_tenant_sees_its_own_lines_alone_and_an_administrator_of_all_sees_all(service: Service) -> None:
    ours, theirs = [await service.as_role("admin", tenant=tenant) for tenant in ("default", "acme")]
    for client in (ours, theirs):
        await client.post(f"{API}/workflows", json=ECHO)
    (line,) = await lines(theirs, action="workflow")
    assert line["tenant"] == "acme"
    assert {one["tenant"] for one in await lines(ours)} == {"default"}
    assert await lines(theirs, actor="admin@test", instance="nothing") == []
    everything = service.with_key(await service.key("admin", tenant="*"))
    assert {one["tenant"] for one in await lines(everything)} == {"default", "acme", "*"}
    assert {one["tenant"] for one in await lines(everything, tenant="acme")} == {"acme"}
    refused = await theirs.get(f"{API}/audit", params={"tenant": "default"})
    assert refused.status_code == 403


async def test_a_viewer_reads_the_audit_and_a_worker_does_not(service: Service) -> None:
    assert await lines(await service.as_role("viewer")) != []
    assert (await (await service.as_role("worker")).get(f"{API}/audit")).status_code == 403
    assert (await service.with_key(None).get(f"{API}/audit")).status_code == 401


async def test_the_audit_is_read_page_by_page_and_filtered(service: Service) -> None:
    client = await service.as_role("admin")
    for number in range(5):
        await client.post(f"{API}/workflows", json={**ECHO, "workflow_id": f"echo{number}"})
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": "2", "action": "workflow"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get(f"{API}/audit", params=params)).json()
        seen += [one["instance"] for one in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [f"echo{number}" for number in reversed(range(5))]
    (first, *_) = await lines(client, action="workflow")
    assert await lines(client, action="workflow", since=first["at"]) == [first]
    assert len(await lines(client, actor=first["key"])) == 5
    assert await lines(client, action="work") == [], "a part of a word is no action"
    assert (await client.get(f"{API}/audit", params={"cursor": "x"})).status_code == 422


async def test_old_lines_are_deleted_after_their_time(database_url: str) -> None:
    async with client_of(database_url) as engine:
        await engine.client.set_limit("queue:maps", concurrency=2)
        await engine.client.drop_limit("queue:maps")
        await engine.query("update holdfast.audit set at = now() - interval '12 days' where action = 'limit.set'")
        await engine.client.run_janitor(audit_days=20)
        assert len(await engine.query("select 1 from holdfast.audit where action like 'limit%%'")) == 2
        await engine.client.run_janitor()
        assert len(await engine.query("select 1 from holdfast.audit where action like 'limit%%'")) == 2, (
            "no time is set"
        )
        await engine.client.run_janitor(audit_days=10)
        rows = await engine.query("select action from holdfast.audit where action like 'limit%%'")
        assert rows == [("limit.drop",)]


async def test_many_jobs_that_are_paused_leave_a_line_each(database_url: str) -> None:
    async with client_of(database_url) as engine, serving(database_url, work=False):
        ids = {await engine.submit("workflow_id: w\nnodes: {a: {handler: unserved}}", key=str(n)) for n in range(3)}

        async def are_taken() -> bool:
            return await engine.query("select count(*) from holdfast.queue") == [(3,)]

        await eventually(are_taken)
        await engine.client.change_jobs(await engine.client.plan_jobs(Verb.PAUSE), reason="lunch", seconds=20)
        rows = await engine.query("select instance, reason from holdfast.audit where action = 'job.pause'")
        assert sorted(rows) == sorted((job_id, "lunch") for job_id in ids)
