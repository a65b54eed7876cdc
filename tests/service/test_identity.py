"""Keys and tenants over HTTP: how keys end, what their use leaves, and which queues a tenant may use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import psycopg
import pytest

from holdfast.client import Client
from holdfast.define.definition import Definition
from holdfast.define.load import load_text
from holdfast.errors import QueueRefused
from holdfast.operations import keys as key_operations
from holdfast.operations.identity import Identity, Role
from holdfast.operations.submitting import new_job
from holdfast.operations.verbs import Correction, Verb, VerbRequest
from holdfast.service.identity.liveness import Liveness
from holdfast.store.postgres import PostgresStore
from tests.conftest import eventually
from tests.running import registry, running
from tests.service.serving import API, Service, serving_http
from tests.service.test_jobs import ended

pytestmark = pytest.mark.anyio

MAPS = """
workflow_id: maps
nodes:
  draw: {handler: echo, queue: maps}
  count: {handler: echo, queue: QUEUE, compensate: {handler: echo, queue: maps}}
"""


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_http(database_url) as service:
        yield service


def workflow(queue: str) -> dict[str, Any]:
    nodes = {"draw": {"handler": "echo", "queue": "maps"}, "count": {"handler": "echo", "queue": queue}}
    return {"workflow_id": "maps", "nodes": nodes}


async def test_a_revoked_key_ends_within_five_seconds_at_every_process(database_url: str) -> None:
    async with serving_http(database_url) as one, serving_http(database_url) as two:
        key = await one.key("viewer")
        clients = [one.with_key(key), two.with_key(key)]
        assert [(await client.get(f"{API}/jobs")).status_code for client in clients] == [200, 200]
        admin = await one.as_role("admin")
        assert (await admin.delete(f"{API}/keys/{key[:11]}")).status_code == 200

        async def have_ended() -> bool:
            return [(await client.get(f"{API}/jobs")).status_code for client in clients] == [401, 401]

        await eventually(have_ended, 5.0)


async def test_of_two_who_revoke_a_key_at_once_one_does(service: Service) -> None:
    admin, prefix = await service.as_role("admin"), (await service.key("viewer"))[:11]
    answers = await asyncio.gather(*(admin.delete(f"{API}/keys/{prefix}") for _ in range(5)))
    assert sorted(one.status_code for one in answers) == [200, 409, 409, 409, 409]


async def test_a_key_that_has_expired_is_refused(service: Service, database_url: str) -> None:
    soon = datetime.now(UTC) + timedelta(days=1)
    made = await service.admin.add_key("a", roles=["viewer"], tenant="t", expires_at=soon)
    assert (await service.with_key(made.key).get(f"{API}/jobs")).status_code == 200
    # A process that knows a key may accept it for some seconds more.
    other = await service.admin.add_key("b", roles=["viewer"], tenant="t", expires_at=soon)
    expire_keys(database_url)
    assert (await service.with_key(other.key).get(f"{API}/jobs")).status_code == 401


def expire_keys(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("update holdfast.api_keys set expires_at = now()")


async def test_a_key_that_would_have_expired_already_is_refused(service: Service) -> None:
    admin = await service.as_role("admin")
    before = (await admin.get(f"{API}/keys")).json()["items"]
    for moment in (datetime.now(UTC) - timedelta(seconds=1), datetime(1999, 1, 1, tzinfo=UTC)):
        body = {"name": "ci", "roles": ["viewer"], "expires_at": moment.isoformat()}
        refused = await admin.post(f"{API}/keys", json=body)
        assert (refused.status_code, refused.json()["code"]) == (422, "INVALID_INPUT")
        assert "which is in the past" in refused.json()["detail"]
    assert (await admin.get(f"{API}/keys")).json()["items"] == before


async def test_what_only_begins_like_a_key_revokes_none(service: Service) -> None:
    admin, key = await service.as_role("admin"), await service.key("viewer")
    for wrong in (f"{key[:11]}garbage", key[:10], f"{key[:-1]}{'a' if key[-1] != 'a' else 'b'}", f"x{key[:11]}"):
        assert (await admin.delete(f"{API}/keys/{wrong}")).status_code == 404, wrong
    assert (await service.with_key(key).get(f"{API}/jobs")).status_code == 200
    assert (await admin.delete(f"{API}/keys/{key}")).status_code == 200


@pytest.mark.parametrize("cut", [slice(0, -1), slice(1, None), slice(3, None)])
async def test_a_part_of_a_key_is_no_key(service: Service, cut: slice) -> None:
    key = await service.key("viewer")
    for wrong in (key[cut], f"{key}a", f"{key[:-1]}é", key.swapcase(), f"{key} {key}"):
        headers = {"Authorization": f"Bearer {wrong}".encode()}
        answer = await service.with_key(None).get(f"{API}/jobs", headers=headers)  # type: ignore[arg-type]
        assert answer.status_code == 401


async def test_only_the_use_of_the_whole_key_is_noted_once_a_minute(service: Service, database_url: str) -> None:
    key = await service.key("viewer")

    def row() -> Any:
        with psycopg.connect(database_url) as connection:
            return connection.execute(
                "select last_used_at, ctid::text, last_used_at = date_trunc('minute', last_used_at)"
                " from holdfast.api_keys"
            ).fetchone()

    before = row()
    wrong = key[:11] + "0" * 43
    assert (await service.with_key(wrong).get(f"{API}/jobs")).status_code == 401
    assert row() == before, "a guess writes nothing"
    assert await service.admin.knows_key(key)
    used = row()
    assert (used[0] is not None, used[2]) == (True, True)
    for _ in range(5):
        assert await service.admin.knows_key(key)
    # The minute may have changed once in between, but not more often.
    again = row()
    assert again == used or (again[0] - used[0]).total_seconds() == 60


async def test_a_key_that_is_over_is_not_marked_as_used(service: Service, database_url: str) -> None:
    key = (await service.admin.add_key("a", roles=["viewer"], tenant="t")).key
    expire_keys(database_url)
    assert not await service.admin.knows_key(key)
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select last_used_at from holdfast.api_keys").fetchone() == (None,)


async def test_an_open_stream_learns_within_seconds_that_its_credential_has_ended(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(database_url)
    admin = Client(store).for_tenant("*")
    try:
        made = await admin.add_key("a", roles=["viewer"], tenant="t")
        identity = await key_operations.identity_of_key(store, made.key)
        assert identity is not None
        identities = store.identities()
        reads: list[int] = []

        class Counting:
            def identities(self) -> Any:
                return self

            async def living(self, keys: list[str], sessions: list[str]) -> set[tuple[str, str]]:
                reads.append(len(keys))
                return await identities.living(keys, sessions)

        now = [0.0]
        liveness = Liveness(Counting(), lambda: now[0])  # type: ignore[arg-type]
        answers = await asyncio.gather(*(liveness.is_still_valid(identity) for _ in range(1000)))
        assert (all(answers), reads) == (True, [1]), "a thousand streams of one key cost one statement"
        await admin.revoke_key(made.details.prefix)
        now[0] += 1.9
        assert await liveness.is_still_valid(identity)
        now[0] += 0.2
        assert not await liveness.is_still_valid(identity)
        token = Identity("a (oidc b)", "t", (Role.VIEWER,), expires_at=datetime.now(UTC) + timedelta(hours=1))
        assert await liveness.is_still_valid(token)
        late = Identity("a (oidc b)", "t", (Role.VIEWER,), expires_at=datetime.now(UTC))
        assert not await liveness.is_still_valid(late)
    finally:
        await store.close()


async def test_tenants_are_made_and_bound_by_administrators_of_the_installation_alone(service: Service) -> None:
    admin = await service.as_role("admin", tenant="*")
    made = await admin.post(f"{API}/tenants", json={"name": "acme", "queues": ["maps", "maps", "cpu"]})
    assert (made.status_code, made.json()["queues"]) == (201, ["maps", "cpu"])
    free = await admin.post(f"{API}/tenants", json={"name": "acme"})
    assert (free.status_code, free.json()["queues"]) == (200, None)
    (listed,) = (await admin.get(f"{API}/tenants")).json()["items"]
    assert (listed["name"], listed["created_by"][:4]) == ("acme", "test")
    for body in (
        {"name": ""},
        {"name": "*"},
        {"name": "a\nb"},
        {"name": "a" * 101},
        {"name": "a", "queues": []},
        {"name": "a", "queues": ["no queue"]},
        {"name": "a", "queues": "maps"},
        {"name": "a", "limit": 1},
    ):
        assert (await admin.post(f"{API}/tenants", json=body)).status_code == 422, body
    for client in (await service.as_role("admin", tenant="acme"), await service.as_role("operator")):
        assert (await client.get(f"{API}/tenants")).status_code == 403
        assert (await client.post(f"{API}/tenants", json={"name": "b"})).status_code == 403


async def test_a_tenant_submits_only_workflows_that_keep_to_its_queues(service: Service) -> None:
    admin = await service.as_role("admin", tenant="*")
    await admin.post(f"{API}/tenants", json={"name": "acme", "queues": ["maps"]})
    acme, other = await service.as_role("submitter", tenant="acme"), await service.as_role("submitter", tenant="x")
    assert (await acme.post(f"{API}/jobs", json={"definition": workflow("maps")})).status_code == 201
    for method_path in ("/jobs", "/workflows"):
        wrong = workflow("gpu")
        body = {"definition": wrong} if method_path == "/jobs" else wrong
        refused = await acme.post(f"{API}{method_path}", json=body)
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (403, "QUEUE_REFUSED")
        assert [one["path"] for one in problem["errors"]] == ["nodes.count.queue"]
        assert (await other.post(f"{API}{method_path}", json=body)).status_code in (200, 201)
    batch = [{"definition": workflow("gpu")}, {"definition": workflow("maps"), "key": "k"}, {"workflow": "nowhere"}]
    answers = (await acme.post(f"{API}/jobs/batch", json={"jobs": batch})).json()["items"]
    assert [one["status"] for one in answers] == [403, 201, 404]
    assert {one["workflow_id"] for one in (await acme.get(f"{API}/workflows")).json()["items"]} == {"maps"}


async def test_a_workflow_that_was_registered_before_the_binding_runs_no_more(service: Service) -> None:
    admin = await service.as_role("admin", tenant="*")
    acme = await service.as_role("submitter", tenant="acme")
    assert (await acme.post(f"{API}/workflows", json=workflow("gpu"))).status_code == 201
    await admin.post(f"{API}/tenants", json={"name": "acme", "queues": ["maps"]})

    async def is_refused() -> bool:
        one = await acme.post(f"{API}/jobs", json={"workflow": "maps", "force": True})
        two = await acme.post("/api/jobs/submit/maps", json={})
        return (one.status_code, two.status_code) == (403, 403)

    await eventually(is_refused, 5.0)


async def test_every_way_to_submit_keeps_to_the_queues(database_url: str) -> None:
    store = PostgresStore(database_url)
    acme = Client(store).for_tenant("acme")
    try:
        await acme.keep_tenant("acme", queues=["maps"])
        allowed, wrong = load_text(MAPS.replace("QUEUE", "maps")), load_text(MAPS.replace("QUEUE", "gpu"))
        undoing = load_text(MAPS.replace("queue: maps}}", "queue: gpu}}").replace("QUEUE", "maps"))
        (made,) = await acme.submit_many([new_job(allowed, {}, tenant="acme")])
        for definition in (wrong, undoing):
            with pytest.raises(QueueRefused):
                await acme.submit(definition)
            with pytest.raises(QueueRefused):
                await acme.submit(definition, force=True)
            with pytest.raises(QueueRefused):
                await acme.submit_many([new_job(definition, {}, tenant="acme")])
            with pytest.raises(QueueRefused):
                await acme.register(definition)
        await acme.for_tenant("default").submit(wrong)
        assert [one.workflow_id for one in await acme.workflows()] == ["maps"]
        assert made.answer == "created"
    finally:
        await store.close()


async def test_a_correction_cannot_bring_another_queue(database_url: str) -> None:
    async with running(database_url, registry()) as engine, serving_http(database_url) as service:
        client = await service.as_role("operator", tenant="acme")
        failing = {"workflow_id": "w", "nodes": {"a": {"handler": "fail", "params": {"permanent": True}}}}
        job_id = (await client.post(f"{API}/jobs", json={"definition": failing})).json()["job_id"]
        assert (await ended(client, job_id))["status"] == "failed"
        await engine.client.keep_tenant("acme", queues=["default"])
        corrected = {"workflow_id": "w", "nodes": {"a": {"handler": "echo", "queue": "gpu"}}}

        async def is_refused() -> bool:
            plan = await client.post(f"{API}/jobs/{job_id}/plan", json={"verb": "resume", "definition": corrected})
            return (plan.status_code, plan.json().get("code")) == (403, "QUEUE_REFUSED")

        await eventually(is_refused, 5.0)
        for verb in ("resume", "retry", "rerun"):
            body = {"definition": corrected, **({"node": "a"} if verb != "resume" else {})}
            refused = await client.post(f"{API}/jobs/{job_id}/{verb}", json=body)
            assert (verb, refused.status_code) == (verb, 403)
        with pytest.raises(QueueRefused):
            await engine.client.for_tenant("acme").plan(
                job_id, VerbRequest(Verb.RESUME, correction=Correction({}, _of(corrected)))
            )


def _of(document: dict[str, Any]) -> Definition:
    return load_text(orjson.dumps(document).decode())
