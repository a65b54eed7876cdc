"""Faults of workers over HTTP: the service is killed in every call, a worker is killed, and a network is cut for longer
than a lease. Nothing is taken twice, and nothing is lost."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.assembly import new_worker_over_http
from holdfast.client import Client
from holdfast.define.load import load_text
from holdfast.operations.scope import Scope
from holdfast.settings import Settings
from holdfast.worker.context import AsyncContext
from tests.chaos.proxy import BOTH, Proxy
from tests.conftest import eventually
from tests.marks import IN_CHAOS
from tests.ports import free_port
from tests.running import HOME, QUICK, SHORT_LEASES, Engine, registry, running, streams_kept
from tests.service.processes import api_process
from tests.service.serving import API, Service, serving_http
from tests.service.working import PlainWorker, done, plain_worker, register

pytestmark = pytest.mark.anyio

FLOW = "workflow_id: w\nnodes: {a: {handler: work, next: b}, b: {handler: work}}"
CALLS: dict[str, dict[str, Any]] = {
    "claim_tasks": {"claim_id": "a", "free": 1, "wait_seconds": 20},
    "renew_worker": {"leases": ["{lease}"]},
    "save_checkpoint": {"lease": "{lease}", "seq": 1, "name": "half", "data": 1},
    "note_progress": {"progress": [{"lease": "{lease}", "done": 1, "total": 2}]},
    "report_tasks": {"reports": [{"lease": "{lease}", "outcome": "done", "output": 7}]},
    "leave_work": {},
}
"""What a worker sends one after the other, by the name of the route."""
PATHS = ("claim", "renew", "checkpoint", "progress", "report", "leave")


def filled(value: Any, lease: str) -> Any:
    if isinstance(value, dict):
        return {name: filled(one, lease) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, lease) for one in value]
    return lease if value == "{lease}" else value


@IN_CHAOS
async def test_a_service_killed_between_commit_and_answer_answers_each_call_the_same_when_it_is_made_again(
    database_url: str, tmp_path: Path
) -> None:
    async with Client.connect(database_url, Scope("default", "test")) as client:
        key = (await client.add_key("worker", roles=["worker"])).key
    headers = {"Authorization": f"Bearer {key}"}
    registration = {"name": "plain", "handlers": ["work"], "lease_seconds": 120, "registration_id": "one"}
    async with running(database_url, work=False) as engine:
        job_id = await engine.submit(load_text(FLOW))

        async def killed_in(name: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
            """The call, in which the service is killed after its commit; then the same call, twice."""
            fault = f"api.after_commit:kill~{name}"
            async with api_process(database_url, tmp_path, HOLDFAST_FAILPOINT=fault) as (process, url):
                async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
                    with pytest.raises(httpx2.TransportError):
                        await client.post(f"{API}/worker/{path}", json=body)
                assert await process.ended() == -signal.SIGKILL
            async with (
                api_process(database_url, tmp_path) as (_, url),
                httpx2.AsyncClient(base_url=url, headers=headers, timeout=60) as client,
            ):
                answers = [await client.post(f"{API}/worker/{path}", json=body) for _ in range(2)]
            assert [answer.is_success for answer in answers] == [True, True], answers[0].text
            assert answers[0].json() == answers[1].json()
            found: dict[str, Any] = answers[0].json()
            return found

        worker_id = (await killed_in("register_worker", "register", registration))["worker_id"]
        lease = ""
        for (name, body), path in zip(CALLS.items(), PATHS, strict=True):
            answer = await killed_in(name, path, {"worker_id": worker_id, **filled(body, lease)})
            if name == "claim_tasks":
                (task,) = answer["tasks"]
                lease = task["lease"]
            if name == "report_tasks":
                assert answer == {"reports": ["taken"]}
        async with serving_http(database_url) as service:
            other = await plain_worker(service)
            (last,) = await other.claim(wait_seconds=20)
            assert await other.report(done(last)) == ["taken"]
            status = await engine.finished(job_id)
        workers = await engine.query("select count(*) from holdfast.workers where name = 'plain'")
        saved = await engine.query("select name, data from holdfast.checkpoints")
        attempts = await engine.query("select node, outcome from holdfast.attempts")
    assert (status["status"], workers, attempts) == ("completed", [(2,)], [])
    assert saved in ([("half", 1)], [])


KILLED_IN = ("claim_tasks", "save_checkpoint", "store_payload", "report_tasks")
SPREAD = """
workflow_id: spread
nodes:
  each:
    type: fan_out
    source: "{{ [0, 1, 2, 3, 4] }}"
    task: {handler: work, params: {item: "{{ item }}"}, retry: {max_retries: 0}}
"""


@IN_CHAOS
async def test_a_worker_whose_service_is_killed_in_each_call_runs_every_task_once(
    database_url: str, tmp_path: Path
) -> None:
    """It makes each call again: nothing is lost, nothing runs twice, and no retry is spent."""
    ran: list[tuple[str, int | None]] = []

    async def work(item: int, *, ctx: AsyncContext) -> str:
        ran.append((ctx.job_id, ctx.index))
        await ctx.checkpoint("half", {"item": item})
        return f"{item}" * 70_000

    async with Client.connect(database_url, Scope("default", "test")) as client:
        key = (await client.add_key("worker", roles=["worker"])).key
    port = free_port()
    settings = Settings(**QUICK | {"poll_seconds": 30.0, "lease_seconds": 120.0})
    worker = new_worker_over_http(f"http://127.0.0.1:{port}", key, settings, registry(work=work))
    with streams_kept():
        async with running(database_url, work=False) as engine, worker:
            jobs = []
            for name in KILLED_IN:
                fault = {"HOLDFAST_PORT": str(port), "HOLDFAST_FAILPOINT": f"api.after_commit:kill~{name}"}
                async with api_process(database_url, tmp_path, HOLDFAST_HOME=str(HOME), **fault) as (process, _):
                    jobs.append(await engine.submit(load_text(SPREAD), key=name))
                    assert await process.ended(60) == -signal.SIGKILL
            async with api_process(database_url, tmp_path, HOLDFAST_HOME=str(HOME), HOLDFAST_PORT=str(port)):
                ended = [await engine.finished(job_id, 60) for job_id in jobs]
            attempts = await engine.query("select node, item, outcome from holdfast.attempts")
            retried = await engine.query("select 1 from holdfast.tasks where attempt > 1 or lost_count > 0")
    assert [status["status"] for status in ended] == ["completed"] * len(KILLED_IN)
    assert sorted(ran) == sorted((job_id, item) for job_id in jobs for item in range(5))
    assert (attempts, retried) == ([], [])


async def one_task(engine: Engine, worker: PlainWorker) -> tuple[str, dict[str, Any]]:
    job_id = await engine.submit(load_text("workflow_id: one\nnodes: {a: {handler: work, retry: {max_retries: 0}}}"))
    (task,) = await worker.claim(wait_seconds=20)
    return job_id, task


async def finished_by_another(service: Service, engine: Engine, job_id: str, late: dict[str, Any]) -> None:
    """Another worker gets the task when the first one's lease is over; what that one reports late is not taken."""
    other = await plain_worker(service, name="other")
    (again,) = await eventually(lambda: other.claim(wait_seconds=5), 30)
    assert (again["attempt"], again["suspect"], again["epoch"]) == (2, True, late["epoch"] + 1)
    assert await other.report(done(again, "other")) == ["taken"]
    status = await engine.finished(job_id)
    assert (status["status"], status["result"]) == ("completed", "other")


async def test_what_a_killed_worker_held_goes_to_another_one_when_its_lease_is_over(database_url: str) -> None:
    async with serving_http(database_url) as service, running(database_url, work=False, **SHORT_LEASES) as engine:
        worker = await plain_worker(service, lease_seconds=3.0)
        job_id, task = await one_task(engine, worker)
        await finished_by_another(service, engine, job_id, task)
        assert await worker.report(done(task, "late")) == ["rejected"]
        assert (await engine.status(job_id))["result"] == "other"


async def test_the_report_of_a_worker_cut_off_for_longer_than_its_lease_is_rejected(database_url: str) -> None:
    async with (
        serving_http(database_url) as service,
        running(database_url, work=False, **SHORT_LEASES) as engine,
        Proxy(int(service.url.rpartition(":")[2])) as proxy,
    ):
        client = service.with_key(await service.key("worker"))
        client.base_url = httpx2.URL(f"http://127.0.0.1:{proxy.port}")
        client.timeout = httpx2.Timeout(1.0)
        worker = await register(client, lease_seconds=3.0)
        client.timeout = httpx2.Timeout(30.0)
        job_id, task = await one_task(engine, worker)
        proxy.hold(*BOTH)
        client.timeout = httpx2.Timeout(1.0)
        with pytest.raises(httpx2.TransportError):
            await worker.send("renew", leases=[task["lease"]])
        await finished_by_another(service, engine, job_id, task)
        proxy.heal()
        client.timeout = httpx2.Timeout(30.0)
        answer = await worker.send("renew", leases=[task["lease"]])
        assert answer.json()["code"] == "WORKER_GONE"
        assert await worker.report(done(task, "late")) == ["rejected"]
        assert (await engine.status(job_id))["result"] == "other"
