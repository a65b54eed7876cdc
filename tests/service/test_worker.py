"""Workers over HTTP, in plain requests: what they see, what they may do, and what comes of the same request again.

The test plays the orchestrator.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.core.effects import Lane
from holdfast.define.load import load_text
from holdfast.store.batch import Batch
from holdfast.store.connection import Connections
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import WorkerIdentity
from tests.conftest import eventually
from tests.running import running
from tests.service.serving import API, Service, serving_http
from tests.service.working import PlainWorker, done, plain_worker, register
from tests.store.stage import PostgresBackstage, Stage, new_job, retry_write
from tests.worker.service import report_lease

pytestmark = pytest.mark.anyio


@pytest.fixture
async def stage(store: PostgresStore) -> AsyncIterator[Stage]:
    backstage = PostgresBackstage(store)
    yield Stage(store, backstage)
    await backstage.close()


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_http(database_url) as service:
        yield service


async def queued(stage: Stage, items: int = 1, **options: Any) -> tuple[int, str]:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me, region="CIV")
    await stage.enqueue(me, job_id, items=range(items), **options)
    return me, job_id


async def test_a_claimed_task_has_all_that_a_handler_may_ask(service: Service, stage: Stage) -> None:
    _, job_id = await queued(stage, 2)
    worker = await plain_worker(service)
    tasks = await worker.claim()
    assert [task["index"] for task in tasks] == [0, 1]
    task = tasks[0]
    assert (task["job_id"], task["node"], task["handler"], task["params"]) == (job_id, "n", "work", {"item": 0})
    assert (task["inputs"], task["attempt"], task["epoch"]) == ({"region": "CIV"}, 1, 1)
    assert (task["resume_point"], task["timeout_seconds"], task["suspect"]) == (None, 60.0, False)
    assert (task["tenant"], task["generation"], task["undo"]) == ("default", 1, False)
    assert task["deadline"].endswith("Z")


async def test_the_inputs_of_a_job_come_once_for_all_its_tasks_to_a_worker_that_asks_for_that(
    service: Service, stage: Stage
) -> None:
    """A regression: a claim of 100 tasks had the inputs of their job 100 times."""
    me, job_id = await queued(stage, 2)
    other = await stage.owned_job(me, region="NLD")
    await stage.enqueue(me, other)
    worker = await plain_worker(service)
    once = {"claim_id": "a", "free": 3, "inputs_once": True}
    claimed = [await worker.ask("claim", **once) for _ in range(2)]
    assert claimed[0] == claimed[1]
    assert [task["inputs"] for task in claimed[0]["tasks"]] == [None] * 3
    assert claimed[0]["inputs"] == {job_id: {"region": "CIV"}, other: {"region": "NLD"}}


async def test_each_outcome_reaches_the_owner_as_that_of_any_worker(service: Service, stage: Stage) -> None:
    me, _ = await queued(stage, 4)
    worker = await plain_worker(service)
    tasks = await worker.claim()
    failure = {"code": "GONE", "message": "no such map", "class": "permanent"}
    fates = await worker.report(
        done(tasks[0], {"maps": 3}, log="drawn\n", log_times=[[0, 12]]),
        {"lease": tasks[1]["lease"], "outcome": "failed", "failure": failure},
        {"lease": tasks[2]["lease"], "outcome": "given_back"},
        {"lease": tasks[3]["lease"], "outcome": "lost", "failure": {"message": "it was killed"}, "alone": True},
    )
    assert fates == ["taken"] * 4
    signals = {signal.item: signal for signal in await stage.signals(me)}
    assert [signals[item].outcome for item in range(4)] == ["done", "failed", "given_back", "lost"]
    assert {signal.worker for signal in signals.values()} == {"plain"}
    assert signals[1].data is not None
    assert {name: signals[1].data[name] for name in failure} == failure
    assert [signals[item].alone for item in range(4)] == [False, False, False, True]
    assert signals[0].data is not None
    assert (signals[0].data["log"], signals[0].data["log_times"]) == ("drawn\n", [[0, 12]])


async def test_the_same_claim_again_gets_the_same_tasks_and_no_more(service: Service, stage: Stage) -> None:
    me, job_id = await queued(stage, 3)
    worker = await plain_worker(service)
    first = await worker.ask("claim", claim_id="a", free=2)
    await stage.enqueue(me, job_id, "m", items=range(5))
    again = await worker.ask("claim", claim_id="a", free=100)
    assert again == first
    assert len(first["tasks"]) == 2
    assert await worker.report(done(first["tasks"][0])) == ["taken"]
    left = await worker.ask("claim", claim_id="a", free=100)
    assert left["tasks"] == first["tasks"][1:], "what was reported is not given out again"
    assert len(await worker.claim()) == 6


async def test_the_same_claim_many_times_at_once_gets_the_same_tasks(service: Service, stage: Stage) -> None:
    await queued(stage, 10)
    worker = await plain_worker(service)
    answers = await asyncio.gather(*(worker.ask("claim", claim_id="a", free=3) for _ in range(8)))
    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0]["tasks"]) == 3


async def test_a_claim_beside_another_one_of_the_same_worker_in_another_process_leases_nothing(
    service: Service, stage: Stage, store: PostgresStore
) -> None:
    """Nor does it wait for the other one, which may be a leave."""
    _, job_id = await queued(stage, 10)
    worker = await plain_worker(service)
    async with store.connections.use("another process") as other, other.transaction():
        await other.execute("select from workers where worker_id = %s for no key update", [worker.worker_id])
        async with asyncio.timeout(20):
            assert await worker.claim(free=3) == []
        assert {row["state"] for row in await stage.behind.queue(job_id)} == {"ready"}
    assert len(await worker.claim(free=3)) == 3


async def test_the_same_registration_again_is_the_same_worker(service: Service) -> None:
    client = await service.as_role("worker")
    first = await register(client, registration_id="machine-7 at boot 12")
    again = await register(client, registration_id="machine-7 at boot 12")
    other = await register(client, registration_id="machine-7 at boot 13")
    foreign = await plain_worker(service, registration_id="machine-7 at boot 12")
    assert first.worker_id == again.worker_id
    assert len({first.worker_id, other.worker_id, foreign.worker_id}) == 3
    await first.ask("leave")
    late = await client.post(
        f"{API}/worker/register",
        json={"name": "plain", "handlers": ["work"], "registration_id": "machine-7 at boot 12"},
    )
    assert (late.status_code, late.json()["code"]) == (409, "WORKER_GONE")


async def test_a_report_again_is_taken_if_it_was_also_after_its_owner_has_read_it(
    service: Service, database_url: str
) -> None:
    async with running(database_url, work=False) as engine:
        flow = "workflow_id: w\nnodes: {a: {handler: work, retry: {max_retries: 0}}}"
        worker = await plain_worker(service)
        for outcome, status in (("done", "completed"), ("failed", "failed")):
            submitted = await engine.client.submit(load_text(flow), key=outcome)
            (task,) = await worker.claim(wait_seconds=20)
            report = {"lease": task["lease"], "outcome": outcome}
            assert [await worker.report(report) for _ in range(3)] == [["taken"]] * 3
            assert (await engine.finished(submitted.job_id))["status"] == status
            assert await worker.report(report) == ["taken"]
            other = {**report, "outcome": "failed" if outcome == "done" else "done"}
            assert await worker.report(other) == ["rejected"], "it says something else"
            assert (await engine.status(submitted.job_id))["status"] == status


async def test_a_lease_of_an_older_epoch_is_rejected_and_its_owner_learns_of_it(service: Service, stage: Stage) -> None:
    me, _ = await queued(stage)
    worker = await plain_worker(service)
    (old,) = await worker.claim()
    assert await worker.report({"lease": old["lease"], "outcome": "given_back"}) == ["taken"]
    (signal,) = await stage.signals(me)
    again = retry_write(report_lease(signal), None, retries=0)
    await stage.commit(me, Batch(handled=[signal.id], retried=[again]))
    (new,) = await worker.claim()
    assert new["epoch"] == old["epoch"] + 1
    assert await worker.report(done(old, "old"), done(new, "new")) == ["rejected", "taken"]
    signals = await stage.signals(me)
    assert sorted((one.kind, one.epoch, one.output) for one in signals) == [
        ("rejected", old["epoch"], None),
        ("report", new["epoch"], None),
    ]


async def test_no_worker_can_make_or_change_a_lease_or_use_that_of_another(service: Service, stage: Stage) -> None:
    _, job_id = await queued(stage)
    client = await service.as_role("worker")
    worker, neighbour = await register(client), await register(client, name="neighbour")
    stranger = await plain_worker(service)
    (task,) = await worker.claim()
    body, _, signature = task["lease"].partition(".")
    forged = [f"{body}.{signature[:-1]}", f"{body}.", f"{body[:-2]}AA.{signature}", "x", ".", f"{body}.{'A' * 43}", "ü"]
    assert await worker.report(*({**done(task), "lease": one} for one in forged)) == ["rejected"] * len(forged)
    for other in (neighbour, stranger):
        assert await other.report(done(task)) == ["rejected"]
        assert (await other.ask("renew", leases=[task["lease"]]))["lost"] == [task["lease"]]
    assert await stage.behind.inbox(job_id) == []
    assert (await worker.ask("renew", leases=[task["lease"]]))["lost"] == []
    assert await worker.report(done(task)) == ["taken"]


async def test_a_worker_of_another_key_does_not_exist(service: Service, stage: Stage) -> None:
    worker = await plain_worker(service)
    stranger = PlainWorker(await service.as_role("worker"), worker.worker_id)
    requests: dict[str, dict[str, Any]] = {
        "claim": {"claim_id": "a", "free": 1},
        "renew": {},
        "report": {"reports": [{"lease": "x", "outcome": "done"}]},
        "leave": {},
    }
    missing = PlainWorker(stranger.client, 1)
    for what, body in requests.items():
        answers = [await one.send(what, **body) for one in (stranger, missing)]
        texts = [answer.json()["detail"].replace(str(worker.worker_id), "1") for answer in answers]
        assert [answer.status_code for answer in answers] == [404, 404], what
        assert texts[0] == texts[1]


async def test_a_worker_gets_tasks_of_its_tenant_alone_and_one_of_the_installation_those_of_all(
    service: Service, stage: Stage, store: PostgresStore
) -> None:
    me = await stage.orchestrator()
    jobs = {}
    for tenant in ("default", "second"):
        (answer,) = await store.submit([new_job(tenant=tenant)])
        jobs[tenant] = answer.job_id
    await stage.own(me)
    for tenant, job_id in jobs.items():
        await stage.enqueue(me, job_id, items=range(2), lane=Lane("default", "work", tenant))
    first = await plain_worker(service)
    tasks = await first.claim()
    assert {task["job_id"] for task in tasks} == {jobs["default"]}
    of_all = await register(await service.as_role("admin", tenant="*"))
    rest = await of_all.claim()
    assert {task["tenant"] for task in rest} == {"second"}
    other = await service.as_role("worker", tenant="second")
    called = await other.post(f"{API}/callbacks/task-result", json=done(tasks[0]))
    assert called.json() == {"result": "rejected"}
    seen = (await (await service.as_role("viewer", tenant="second")).get(f"{API}/workers")).json()["items"]
    assert [one["name"] for one in seen] == ["plain"]
    assert [one["id"] for one in seen] == [of_all.worker_id], "the worker of another tenant is not shown"


async def test_a_program_with_the_token_of_a_lease_reports_once_by_the_callback(service: Service, stage: Stage) -> None:
    me, _ = await queued(stage)
    worker = await plain_worker(service)
    (task,) = await worker.claim()
    other = await service.as_role("worker")
    answers = [await other.post(f"{API}/callbacks/task-result", json=done(task, {"paid": True})) for _ in range(2)]
    assert [answer.json() for answer in answers] == [{"result": "taken"}] * 2
    assert len(await stage.signals(me)) == 1
    forged = await other.post(f"{API}/callbacks/task-result", json={"lease": "x.y", "outcome": "done"})
    assert forged.json() == {"result": "rejected"}


async def test_what_a_renewal_does_not_list_goes_back_and_what_was_claimed_later_stays(
    service: Service, stage: Stage
) -> None:
    me, job_id = await queued(stage, 3)
    worker = await plain_worker(service)
    first = await worker.ask("claim", claim_id="1", free=1)
    second = await worker.ask("claim", claim_id="2", free=1)
    third = await worker.ask("claim", claim_id="3", free=1)
    held = [answer["tasks"][0]["lease"] for answer in (first, second, third)]
    renewed = await worker.ask("renew", leases=[held[1]])
    assert renewed["lost"] == []
    assert [signal.item for signal in await stage.signals(me)] == [0]
    await worker.ask("renew", leases=[], claimed_at=second["claimed_at"])
    assert [signal.item for signal in await stage.signals(me)] == [0, 1]
    assert (await worker.ask("renew", leases=[held[0], held[2]]))["lost"] == [held[0]]
    by_names = [job_id, "n", 2, third["tasks"][0]["epoch"]]
    assert (await worker.ask("renew", leases=[by_names]))["lost"] == []
    assert {signal.outcome for signal in await stage.signals(me)} == {"given_back"}


async def test_a_renewal_names_tasks_of_cancelled_jobs_and_those_that_may_still_begin(
    service: Service, stage: Stage, store: PostgresStore
) -> None:
    await queued(stage, 2)
    worker = await plain_worker(service)
    held = [task["lease"] for task in await worker.claim()]
    assert (await worker.ask("renew", leases=held, begin=held[:1]))["may_begin"] == held[:1]
    async with store.connections.use("stage") as connection:
        await connection.execute("update jobs set stop_cause = 'cancelled', stop_until = now()")
    renewed = await worker.ask("renew", leases=held, begin=held)
    assert (renewed["cancelled"], renewed["may_begin"], renewed["lost"]) == (held, [], [])


async def test_a_worker_that_leaves_gives_everything_back(service: Service, stage: Stage) -> None:
    me, _ = await queued(stage, 3)
    worker = await plain_worker(service)
    assert len(await worker.claim()) == 3
    await worker.ask("leave")
    signals = await stage.signals(me)
    assert [(one.outcome, one.task_lost) for one in signals] == [("given_back", 0)] * 3
    for what, body in {"claim": {"claim_id": "z", "free": 1}, "renew": {}}.items():
        answer = await worker.send(what, **body)
        assert (answer.status_code, answer.json()["code"]) == (409, "WORKER_GONE")


async def test_a_worker_whose_lease_has_ended_must_register_again(service: Service, stage: Stage) -> None:
    await queued(stage, 2)
    worker = await plain_worker(service)
    (task,) = await worker.claim(free=1)
    await stage.behind.lapse_worker(WorkerIdentity(worker.worker_id, "plain"))
    with_reports = await worker.ask("claim", claim_id="x", free=1, reports=[done(task)])
    assert (with_reports["reports"], with_reports["tasks"]) == (["rejected"], [])
    answer = await worker.send("claim", claim_id="x", free=1)
    assert answer.json()["code"] == "WORKER_GONE"
    assert "register again" in answer.json()["remedy"]


async def test_reports_that_come_with_a_claim_are_handled_first_and_again_change_nothing(
    service: Service, stage: Stage
) -> None:
    me, _ = await queued(stage, 3)
    worker = await plain_worker(service)
    (task,) = await worker.claim(free=1)
    both = {"claim_id": "both", "free": 1, "reports": [done(task), {**done(task), "lease": "x"}], "wait_seconds": 30}
    answers = [await worker.ask("claim", **both) for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[0]["reports"] == ["taken", "rejected"]
    assert [one["index"] for one in answers[0]["tasks"]] == [1]
    assert len(await stage.signals(me)) == 1


async def test_a_claim_that_waits_is_answered_when_work_comes_and_asks_the_database_nothing_before(
    service: Service, stage: Stage, store: PostgresStore
) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    worker = await plain_worker(service)
    waiting = asyncio.create_task(worker.claim(wait_seconds=30))

    async def has_looked_since_it_listens() -> bool:
        began = dict(await statements(store))
        listens = began.get("holdfast listener")
        return listens is not None and began["holdfast api work"] > listens

    await eventually(has_looked_since_it_listens)
    asked = await statements(store)
    assert [await statements(store) for _ in range(20)] == [asked] * 20
    assert not waiting.done()
    await stage.enqueue(me, job_id)
    await store.notify_workers()
    (task,) = await asyncio.wait_for(waiting, 10)
    assert task["job_id"] == job_id


async def test_a_claim_costs_as_many_statements_however_long_it_waits(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks when it begins to wait and when its time is over, and never between. Whether a key holds is read once
    for all that wait."""
    sent: list[str] = []

    async def noting(own: Connections, role: str, *statements: Any, real: Any = Connections.exchange) -> Any:
        if own._name == "holdfast api" and role != "identities":
            sent.append(role)
        return await real(own, role, *statements)

    def using(own: Connections, role: str, real: Any = Connections.use) -> Any:
        if own._name == "holdfast api" and role != "identities":
            sent.append(role)
        return real(own, role)

    monkeypatch.setattr(Connections, "exchange", noting)
    monkeypatch.setattr(Connections, "use", using)
    workers = [await plain_worker(service) for _ in range(3)]
    for worker in workers:
        assert await worker.claim(wait_seconds=0.1) == [], "so that it listens, and knows the worker"
    costs = []
    for seconds in (0.1, 2.5):
        sent.clear()
        assert await asyncio.gather(*(worker.claim(wait_seconds=seconds) for worker in workers)) == [[]] * 3
        costs.append(sorted(sent))
    assert costs[0] == costs[1]
    assert len(costs[0]) == 6, "two looks of each"


async def statements(store: PostgresStore) -> Any:
    """When each session of the service has begun its last statement."""
    async with store.connections.use("stage") as connection:
        found = await connection.execute(
            "select application_name, query_start from pg_stat_activity where datname = current_database()"
            " and application_name in ('holdfast listener', 'holdfast api work', 'holdfast api main') order by 1"
        )
        return await found.fetchall()


async def test_a_claim_whose_time_is_over_gets_no_tasks(service: Service, stage: Stage) -> None:
    worker = await plain_worker(service)
    assert await worker.claim(wait_seconds=0.05) == []


async def test_a_claim_does_not_outlive_its_key(service: Service, stage: Stage, store: PostgresStore) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    made = await service.admin.add_key("short", roles=["worker"], tenant="default")
    worker = await register(service.with_key(made.key))
    waiting = asyncio.create_task(worker.send("claim", claim_id="a", free=1, wait_seconds=30))

    async def waits() -> bool:
        return service.desk.arrivals.waiting == 1

    await eventually(waits)
    await service.admin.revoke_key(made.details.prefix)

    async def is_forgotten() -> bool:
        return (await worker.client.get(f"{API}/session")).status_code == 401

    await eventually(is_forgotten)
    await stage.enqueue(me, job_id)
    await store.notify_workers()
    assert (await asyncio.wait_for(waiting, 10)).status_code == 401
    assert [row["state"] for row in await stage.behind.queue(job_id)] == ["ready"]


async def test_a_claim_whose_client_has_gone_takes_nothing(
    service: Service, stage: Stage, store: PostgresStore
) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    worker = await plain_worker(service)
    waiting = asyncio.create_task(worker.claim(wait_seconds=30))

    async def waits(number: int) -> bool:
        return service.desk.arrivals.waiting == number

    await eventually(lambda: waits(1))
    waiting.cancel()

    async def is_cut() -> bool:
        return service.connections == 0

    await eventually(is_cut)
    await stage.enqueue(me, job_id)

    async def has_ended() -> bool:
        await store.notify_workers()
        return await waits(0)

    await eventually(has_ended)
    assert [row["state"] for row in await stage.behind.queue(job_id)] == ["ready"]


async def test_a_service_that_ends_answers_the_claims_that_wait(database_url: str) -> None:
    async with serving_http(database_url) as service:
        worker = await plain_worker(service)
        waiting = asyncio.create_task(worker.claim(wait_seconds=30))

        async def waits() -> bool:
            return service.desk.arrivals.waiting == 1

        await eventually(waits)
        service.request_stop()
        assert await asyncio.wait_for(waiting, 10) == []
