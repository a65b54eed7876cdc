"""The fleet over HTTP: who serves, what holds tasks back, and changing that. A tenant sees its own share alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from holdfast.client import Client
from holdfast.define.definition import Definition
from holdfast.define.gates import BreakerRules
from holdfast.define.load import load_text
from holdfast.operations.scope import Scope
from tests.conftest import eventually
from tests.running import Engine, client_of, registry, running, serving
from tests.service.serving import API, Service, serving_http

pytestmark = pytest.mark.anyio

ECHO = load_text("workflow_id: echo\nnodes: {a: {handler: echo}}")
FAIL = load_text("workflow_id: broken\nnodes: {a: {handler: fail, params: {permanent: true, error_message: no luck}}}")
NAP = load_text("workflow_id: nap\nnodes: {a: {handler: sleep, params: {duration_seconds: 600}}}")
UNSERVED = load_text("workflow_id: waits\nnodes: {a: {handler: nowhere, queue: maps}}")


class Stage:
    """A service, an engine beside it, and clients of two tenants."""

    def __init__(self, service: Service, engine: Engine) -> None:
        self.service = service
        self.engine = engine

    async def submit(self, definition: Definition, tenant: str = "default", key: str | None = None) -> str:
        client = Client(self.engine.store, Scope(tenant, "ann@desk"))
        return (await client.submit(definition, key=key)).job_id

    async def get(self, path: str, *roles: str, tenant: str = "default", **wanted: str) -> Any:
        """The items of a list, or the whole answer."""
        client = await self.service.as_role(*(roles or ("viewer",)), tenant=tenant)
        answer = await client.get(f"{API}{path}", params=wanted)
        assert answer.status_code == 200, answer.text
        return answer.json().get("items", answer.json())

    async def administrator(self) -> httpx2.AsyncClient:
        return self.service.with_key(await self.service.key("admin", tenant="*"))

    async def queued(self, number: int) -> None:
        async def are_queued() -> bool:
            return await self.engine.query("select count(*) from holdfast.queue") == [(number,)]

        await eventually(are_queued)


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    """With an orchestrator, whose janitor does nothing for so long a lease, and without a worker."""
    async with (
        client_of(database_url) as engine,
        serving(database_url, work=False, owner_lease_seconds=600.0),
        serving_http(database_url) as service,
    ):
        yield Stage(service, engine)


READS = [
    "/fleet", "/workers", "/orchestrators", "/queues", "/breakers", "/limits", "/pauses", "/attention", "/stats",
    "/janitor", "/janitor/actions", "/audit",
]  # fmt: skip


async def test_every_read_needs_the_permission_to_read(stage: Stage) -> None:
    viewer, worker, stranger = (
        await stage.service.as_role("viewer"), await stage.service.as_role("worker"), stage.service.with_key(None)
    )  # fmt: skip
    for path in [*(f"{API}{one}" for one in READS), "/health"]:
        assert (await viewer.get(path)).status_code == 200, path
        assert (await worker.get(path)).status_code == 403, path
        assert (await stranger.get(path)).status_code == 401, path


async def test_every_change_needs_the_permission_to_operate(stage: Stage) -> None:
    client = await stage.service.as_role("submitter")
    for method, path in [
        ("POST", "/breakers/gateway/open"), ("POST", "/breakers/gateway/close"), ("POST", "/breakers/gateway/reset"),
        ("PUT", "/limits/tenant"), ("DELETE", "/limits/tenant"), ("POST", "/pauses"), ("DELETE", "/pauses/all"),
        ("POST", "/janitor/run"),
    ]:  # fmt: skip
        refused = await client.request(method, f"{API}{path}", json={})
        assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN"), path


async def test_workers_and_orchestrators_are_shown_with_the_work_of_the_tenant_alone(database_url: str) -> None:
    async with running(database_url) as engine, serving_http(database_url) as service:
        stage = Stage(service, engine)
        job_id = await stage.submit(NAP, "acme")

        async def is_running() -> bool:
            return await engine.query("select state from holdfast.queue") == [("leased",)]

        await eventually(is_running)
        (theirs,) = await stage.get("/workers", tenant="acme")
        (ours,) = await stage.get("/workers")
        assert (theirs["tasks"], ours["tasks"]) == (1, 0)
        assert theirs["name"] == ours["name"]
        assert "echo" in ours["handlers"]
        owned = [one for one in await stage.get("/orchestrators", tenant="acme") if one["jobs"]]
        assert [(one["jobs"], one["oldest_job"]) for one in owned] == [(1, job_id)]
        for answer in (await stage.get("/orchestrators"), await stage.get("/fleet")):
            assert job_id not in str(answer)
        assert {one["jobs"] for one in await stage.get("/orchestrators")} == {0}
        (everything,) = (await (await stage.administrator()).get(f"{API}/workers")).json()["items"]
        assert everything["tasks"] == 1


async def test_tasks_that_no_worker_serves_are_shown_to_their_tenant_alone(stage: Stage) -> None:
    await stage.submit(UNSERVED, "acme")
    await stage.queued(1)
    (unserved,) = (await stage.get("/fleet", tenant="acme"))["unserved"]
    assert (unserved["queue"], unserved["handler"], unserved["tasks"]) == ("maps", "nowhere", 1)
    assert (await stage.get("/fleet"))["unserved"] == []
    await stage.submit(UNSERVED)
    await stage.queued(2)
    (queue,) = await stage.get("/queues")
    assert [one["tasks"] for one in queue["unserved"]] == [1], "the task of the other tenant is not counted"


async def test_limits_of_queues_are_the_installations_and_count_the_tasks_of_the_tenant(stage: Stage) -> None:
    admin = await stage.administrator()
    operator = await stage.service.as_role("operator", tenant="acme")
    body = {"concurrency": 3, "rate": {"limit": 10, "per_seconds": 2}}
    for name in ("queue:maps", "tenant"):
        refused = await operator.put(f"{API}/limits/{name}", json={"concurrency": 3})
        assert refused.status_code == 403, refused.text
        assert "the installation's" in refused.json()["detail"]
        assert (await operator.delete(f"{API}/limits/{name}")).status_code == 403
    made = await admin.put(f"{API}/limits/queue:maps", json=body)
    assert (made.status_code, made.json()["concurrency"], made.json()["rate"]["limit"]) == (200, 3, 10)
    assert (await admin.put(f"{API}/limits/tenant", params={"tenant": "acme"}, json={"backlog": 7})).status_code == 200
    await stage.submit(UNSERVED, "acme")
    await stage.queued(1)
    assert [(one["name"], one["waiting"]) for one in await stage.get("/limits")] == [("queue:maps", 0)]
    theirs = {one["name"]: one["waiting"] for one in await stage.get("/limits", tenant="acme")}
    assert theirs == {"queue:maps": 1, "tenant": 1}
    assert len((await admin.get(f"{API}/limits")).json()["items"]) == 2
    dropped = await admin.delete(f"{API}/limits/queue:maps")
    assert (dropped.status_code, dropped.json()["concurrency"]) == (200, 3)
    assert (await admin.delete(f"{API}/limits/queue:maps")).status_code == 404


async def test_names_that_cannot_be_stored_are_refused(stage: Stage) -> None:
    admin = await stage.administrator()
    for method, path in [
        ("POST", "/breakers/a%00b/open"), ("PUT", "/limits/key:a%00b"), ("DELETE", "/limits/key:a%00b"),
        ("DELETE", "/pauses/workflow:a%00b"), ("DELETE", "/pauses/queue:a%00b"), ("PUT", "/limits/key:a%2Fb"),
    ]:  # fmt: skip
        body = {"concurrency": 1} if method == "PUT" else {}
        refused = await admin.request(method, f"{API}{path}", json=body)
        assert refused.status_code in (404, 422), (path, refused.text)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("maps", {"concurrency": 1}),
        ("queue:maps", {}),
        ("queue:maps", {"concurrency": 0}),
        ("queue:maps", {"backlog": 1}),
        ("queue:maps", {"rate": {"limit": 1}}),
        ("queue:maps", {"concurrency": 10**12}),
        ("queue:maps", {"surprise": 1}),
    ],
)
async def test_a_limit_that_is_none_is_refused(stage: Stage, name: str, body: dict[str, Any]) -> None:
    refused = await (await stage.administrator()).put(f"{API}/limits/{name}", json=body)
    assert refused.status_code == 422, refused.text


async def test_a_breaker_is_opened_closed_and_reset_by_its_tenant_alone(stage: Stage) -> None:
    await stage.engine.store.declare_breakers("acme", [BreakerRules("gateway")])
    theirs = await stage.service.as_role("operator", tenant="acme")
    ours = await stage.service.as_role("operator")
    opened = await theirs.post(f"{API}/breakers/gateway/open", json={"reason": "maintenance"})
    assert (opened.status_code, opened.json()["state"], opened.json()["reason"]) == (200, "open", "maintenance")
    assert (await theirs.post(f"{API}/breakers/gateway/open", json={})).status_code == 409
    for path in ("gateway", "never"):
        answer = await ours.post(f"{API}/breakers/{path}/close", json={})
        assert answer.status_code == 404
        assert answer.json()["detail"] == f"There is no breaker '{path}'."
    assert await stage.get("/breakers") == []
    assert (await theirs.post(f"{API}/breakers/gateway/close", json={})).json()["state"] == "closed"
    assert (await theirs.post(f"{API}/breakers/gateway/reset", json={})).json()["calls"] == 0


async def test_a_queue_is_paused_by_an_administrator_of_the_installation(stage: Stage) -> None:
    admin = await stage.administrator()
    operator = await stage.service.as_role("operator")
    assert (await operator.post(f"{API}/pauses", json={"queue": "maps"})).status_code == 403
    made = await admin.post(f"{API}/pauses", json={"queue": "maps", "reason": "lunch"})
    assert (made.status_code, made.json()["id"], made.json()["queue"]["queue"]) == (200, "queue:maps", "maps")
    assert (await admin.post(f"{API}/pauses", json={"queue": "maps"})).status_code == 409
    (pause,) = await stage.get("/pauses")
    assert (pause["id"], pause["queue"], pause["reason"]) == ("queue:maps", "maps", "lunch")
    assert (await operator.delete(f"{API}/pauses/queue:maps")).status_code == 403
    assert (await admin.delete(f"{API}/pauses/queue:maps")).status_code == 200
    assert (await admin.delete(f"{API}/pauses/queue:maps")).status_code == 409
    assert await stage.get("/pauses") == []


async def test_the_jobs_of_a_workflow_are_paused_and_let_go_on_and_those_of_others_are_not(stage: Stage) -> None:
    ours = [await stage.submit(UNSERVED, key=str(number)) for number in range(2)]
    theirs = await stage.submit(UNSERVED, "acme")
    await stage.queued(3)
    operator = await stage.service.as_role("operator")
    plan = (await operator.post(f"{API}/pauses", json={"workflow": "waits", "dry_run": True})).json()
    assert sorted(plan["plan"]["job_ids"]) == sorted(ours)
    assert await stage.get("/pauses") == []
    done = await operator.post(f"{API}/pauses", params={"wait": 20}, json={"workflow": "waits", "reason": "lunch"})
    assert (done.status_code, done.json()["id"], done.json()["jobs"]["jobs"]) == (200, "workflow:waits", 2)
    (pause,) = await stage.get("/pauses")
    assert (pause["id"], pause["workflow_id"], pause["count"]) == ("workflow:waits", "waits", 2)
    assert await stage.get("/pauses", tenant="acme") == []
    assert (await stage.engine.status(theirs))["held"] is None
    ended = await operator.delete(f"{API}/pauses/all", params={"wait": 20, "reason": "back"})
    assert (ended.status_code, ended.json()["jobs"]["jobs"]) == (200, 2)
    assert await stage.get("/pauses") == []
    assert (await operator.post(f"{API}/pauses", json={"workflow": "never"})).status_code == 404


@pytest.mark.parametrize("body", [{}, {"all": True, "queue": "maps"}, {"queue": "maps", "dry_run": True}, {"all": 1}])
async def test_a_pause_of_nothing_or_of_two_things_is_refused(stage: Stage, body: dict[str, Any]) -> None:
    assert (await (await stage.administrator()).post(f"{API}/pauses", json=body)).status_code == 422


async def test_the_janitor_is_run_by_an_administrator_of_the_installation_alone(stage: Stage) -> None:
    for roles, tenant in ((("operator",), "default"), (("admin",), "acme")):
        client = await stage.service.as_role(*roles, tenant=tenant)
        assert (await client.post(f"{API}/janitor/run", json={"dry_run": True})).status_code == 403
    admin = await stage.administrator()
    job_id = await stage.submit(UNSERVED, "acme")
    await stage.queued(1)
    await stage.engine.query("delete from holdfast.queue")
    looked = (await admin.post(f"{API}/janitor/run", json={"dry_run": True})).json()
    assert {one["job_id"] for one in looked["findings"]} == {job_id}
    done = (await admin.post(f"{API}/janitor/run", json={})).json()
    assert "stuck_tasks" in {one["duty"] for one in done["findings"]}
    actions = await stage.get("/janitor/actions", tenant="acme")
    assert {one["job_id"] for one in actions} == {job_id}
    assert await stage.get("/janitor/actions") == []
    assert (await stage.get("/janitor"))["actions"] == []
    runs = await stage.engine.query("select tenant, actor from holdfast.audit where action = 'janitor.run'")
    assert [tenant for tenant, _ in runs] == ["*"], "a look that changes nothing is no change"


async def test_the_actions_of_the_janitor_are_read_page_by_page(stage: Stage) -> None:
    await stage.engine.query(
        "insert into holdfast.janitor_actions (run, duty, action, reason)"
        " select gen_random_uuid(), 'orphans', 'delete', 'number ' || i from generate_series(1, 5) i"
    )
    admin = await stage.administrator()
    seen, cursor = [], None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor is not None else {})
        page = (await admin.get(f"{API}/janitor/actions", params=params)).json()
        seen += [one["reason"] for one in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [f"number {number}" for number in (5, 4, 3, 2, 1)]


async def test_attention_names_unseen_failures_with_what_helps_until_a_person_acknowledges_them(
    database_url: str,
) -> None:
    async with running(database_url) as engine, serving_http(database_url) as service:
        stage = Stage(service, engine)
        jobs = [await stage.submit(FAIL, key=str(number)) for number in range(2)]
        for job_id in jobs:
            await engine.finished(job_id)
        (concern,) = await stage.get("/attention")
        assert (concern["cause"], concern["severity"], concern["count"]) == ("job_failed", "error", 2)
        assert (concern["workflow_id"], concern["details"]) == ("broken", "HANDLER_ERROR: no luck")
        assert concern["instance"] in jobs
        assert concern["remedy"]["command"] == f"holdfast why {concern['instance']}"
        followed = await stage.get(concern["remedy"]["path"])
        assert followed["job_id"] == concern["instance"]
        assert await stage.get("/attention", tenant="acme") == []
        operator = await service.as_role("operator")
        for job_id in jobs:
            await operator.post(f"{API}/jobs/{job_id}/acknowledge", json={})
        assert await stage.get("/attention") == []


async def test_attention_names_what_is_held_paused_open_or_unserved(stage: Stage) -> None:
    await stage.engine.store.declare_breakers("default", [BreakerRules("gateway")])
    operator, admin = await stage.service.as_role("operator"), await stage.administrator()
    await operator.post(f"{API}/breakers/gateway/open", json={"reason": "maintenance"})
    await stage.submit(UNSERVED)
    await stage.queued(1)
    await admin.post(f"{API}/pauses", json={"queue": "maps"})
    await operator.post(f"{API}/pauses", params={"wait": 20}, json={"all": True})
    found = {one["cause"]: one for one in await stage.get("/attention")}
    assert set(found) == {"breaker_open", "queue_paused", "job_paused", "no_worker_for_queue"}
    assert (found["breaker_open"]["instance"], found["breaker_open"]["remedy"]["path"]) == (
        ("gateway", "/breakers/gateway/close")
    )
    assert found["queue_paused"]["remedy"]["path"] is None, "only an administrator can end this one"
    seen_by_admin = (await admin.get(f"{API}/attention")).json()["items"]
    (path,) = [one["remedy"]["path"] for one in seen_by_admin if one["cause"] == "queue_paused"]
    assert (await admin.delete(f"{API}{path}")).status_code == 200
    remedy = found["job_paused"]["remedy"]
    sent = await operator.request(remedy["method"], f"{API}{remedy['path']}", params={"wait": 20}, json=remedy["body"])
    assert sent.status_code == 200, sent.text
    remedy = found["breaker_open"]["remedy"]
    assert (await operator.post(f"{API}{remedy['path']}", json=remedy["body"])).status_code == 200
    assert [one["cause"] for one in await stage.get("/attention")] == ["no_worker_for_queue"]
    assert await stage.get("/attention", tenant="acme") == []


async def test_attention_names_jobs_without_an_owner_signals_without_an_answer_and_alerts(database_url: str) -> None:
    async with client_of(database_url) as engine, serving_http(database_url) as service:
        stage = Stage(service, engine)
        job_id = await stage.submit(ECHO)
        await engine.client.cancel(job_id)
        assert await stage.get("/attention") == [], "what is young may still be taken care of"
        await engine.query("update holdfast.jobs set created_at = now() - interval '1 minute'")
        await engine.query("update holdfast.inbox set sent_at = now() - interval '1 minute'")
        await engine.query(
            "insert into holdfast.janitor_actions (run, duty, action, job_id, reason)"
            " values (gen_random_uuid(), 'stuck_tasks', 'alert', %s, 'hopeless'),"
            " (gen_random_uuid(), 'orphans', 'alert', null, 'of no job')",
            job_id,
        )
        found = await stage.get("/attention")
        assert {one["cause"] for one in found} == {"owner_gone", "unanswered", "janitor_alert"}
        assert {one["instance"] for one in found} == {job_id}
        assert "of no job" not in str(found)
        assert await stage.get("/attention", tenant="acme") == []
        everything = (await (await stage.administrator()).get(f"{API}/attention")).json()["items"]
        assert "of no job" in str(everything)


async def test_health_is_degraded_with_reasons_until_all_services_run(database_url: str) -> None:
    async with client_of(database_url) as engine, serving_http(database_url) as service:
        stage = Stage(service, engine)
        client = await service.as_role("viewer")
        await stage.submit(UNSERVED, "acme")
        alone = (await client.get("/health")).json()
        assert (alone["status"], len(alone["reasons"]), alone["database"]) == ("degraded", 3, "ok")
        assert (alone["orchestrators"], alone["workers"], alone["schema"] >= 35) == (0, 0, True)
        async with serving(database_url, registry(), owner_lease_seconds=1.0, owner_renew_seconds=0.2):

            async def is_well() -> dict[str, Any] | None:
                health: dict[str, Any] = (await client.get("/health")).json()
                return health if health["status"] == "ok" else None

            well = await eventually(is_well)
            assert (well["reasons"], well["workers"]) == ([], 1)
            assert well["janitor"] is not None
            assert well["janitor_passed_at"] is not None
            await stage.queued(1)
            assert (well["queued"], well["oldest_waiting"]) == (0, None), "the task is another tenant's"
            theirs = (await (await service.as_role("viewer", tenant="acme")).get("/health")).json()
            assert (theirs["status"], theirs["queued"]) == ("degraded", 1)
            assert theirs["oldest_waiting"] is not None
            assert "'nowhere' in the queue 'maps'" in theirs["reasons"][0]
