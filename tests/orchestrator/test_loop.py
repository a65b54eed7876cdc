"""The orchestrator as a service: takeovers, deadlines, retries, wide jobs, and a database that goes away."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from holdfast.core.states import Rules
from holdfast.errors import LostRace, Transient, Unreachable
from holdfast.orchestrator.loop import Orchestrator, _Timer
from holdfast.orchestrator.owner import CycleResult, Owner
from holdfast.store.batch import Batch, Handover
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import Committed
from tests.conftest import eventually
from tests.running import SHORT_LEASES, Engine, client_of, nodes, registry, running, serving, statuses
from tests.store.stage import PostgresBackstage, Stage, report_of, retry_write

pytestmark = pytest.mark.anyio

WAITS = """
workflow_id: waits
nodes: {a: {handler: wait, next: b}, b: {handler: echo}}
"""

WIDE = """
workflow_id: wide
inputs: {items: {type: array}}
nodes:
  spread:
    type: fan_out
    source: "{{ inputs.items }}"
    task: {handler: work, params: {item: "{{ item }}"}, retry: {max_retries: 0}}
    next: gather
  gather: {type: fan_in, aggregation: sum}
"""


def orchestrator(store: PostgresStore, **settings: Any) -> Orchestrator:
    defaults: dict[str, Any] = {
        "rules": Rules(grace_seconds=0.2), "lease_seconds": 1.0, "renew_seconds": 0.2, "scan_seconds": 0.2,
        "poll_seconds": 0.2,
    }  # fmt: skip
    return Orchestrator(store, settings.pop("name", "under test"), **(defaults | settings))


@asynccontextmanager
async def orchestrating(store: PostgresStore, **settings: Any) -> AsyncIterator[Orchestrator]:
    service, stop = orchestrator(store, **settings), asyncio.Event()
    task = asyncio.create_task(service.run(stop))
    try:
        await asyncio.wait_for(service.ready.wait(), 10)
        yield service
    finally:
        stop.set()
        await asyncio.wait_for(task, 10)
        await store.close()


class Mute(PostgresStore):
    """A store whose process dies suddenly: the end of its orchestrator never reaches the database."""

    async def end_orchestrator(self, orchestrator_id: int) -> None:
        pass


async def dispatched(engine: Engine, job_id: str, node: str = "a") -> None:
    async def is_dispatched() -> bool:
        return (await engine.node(job_id, node))["status"] in ("dispatched", "running")

    await eventually(is_dispatched)


async def test_another_takes_over_from_an_orchestrator_that_vanished(database_url: str) -> None:
    async with client_of(database_url) as engine:
        job_id = await engine.submit(ECHO)
        async with orchestrating(Mute(database_url), name="vanished"):
            await dispatched(engine, job_id)
        async with serving(database_url, **SHORT_LEASES):
            status = await engine.finished(job_id)
        events = await engine.events(job_id)
        owners = await engine.query("select epoch from holdfast.jobs")
    assert status["status"] == "completed"
    (change,) = [e["data"] for e in events if e["event"] == "owner_changed"]
    assert change["previous"] == "vanished"
    assert change["owner"] != "vanished"
    assert owners == [(2,)]


ECHO = "workflow_id: echo_test\nnodes: {a: {handler: echo, params: {x: 1}}}"


async def test_a_timer_runs_slow_work_less_often() -> None:
    timer = _Timer(0.0)
    assert timer.is_due()
    with timer.bounded():
        until = time.monotonic() + 0.02
        while time.monotonic() < until:
            pass
    assert not timer.is_due()
    assert timer.remaining() > 0.1
    timer.hasten()
    assert timer.is_due()


async def test_an_orchestrator_that_stops_in_good_order_gives_up_its_jobs_at_once(database_url: str) -> None:
    async with client_of(database_url) as engine:
        job_id = await engine.submit(ECHO)
        async with orchestrating(PostgresStore(database_url), lease_seconds=3600.0):
            await dispatched(engine, job_id)
        assert await engine.query("select count(*) from holdfast.orchestrators where ended_at is null") == [(0,)]
        async with serving(database_url):
            assert (await engine.finished(job_id))["status"] == "completed"


async def test_a_fenced_orchestrator_starts_again_under_a_new_lease(database_url: str) -> None:
    async with client_of(database_url) as engine, orchestrating(PostgresStore(database_url)) as service:
        first = service._owner
        assert first is not None
        job_id = await engine.submit(ECHO)
        await dispatched(engine, job_id)
        await engine.query("update holdfast.orchestrators set ended_at = now()")

        async def again() -> bool:
            return service._owner is not None and service._owner is not first

        await eventually(again)
        async with serving(database_url, orchestrate=False):
            assert (await engine.finished(job_id))["status"] == "completed"


async def test_two_orchestrators_share_the_jobs_and_each_runs_once(database_url: str) -> None:
    runs = Counter[int]()

    async def count(number: int) -> None:
        runs[number] += 1

    workflow = "workflow_id: counted\ninputs: {n: {type: integer}}\nnodes: {a: {handler: count, params: "
    workflow += '{number: "{{ inputs.n }}"}}}'
    async with running(database_url, registry(count=count)) as engine, orchestrating(PostgresStore(database_url)):
        jobs = await asyncio.gather(*(engine.submit(workflow, {"n": n}) for n in range(30)))
        for job_id in jobs:
            assert (await engine.finished(job_id))["status"] == "completed"
    assert runs == Counter(range(30))


async def test_the_deadline_of_a_job_fires_without_any_signal(database_url: str) -> None:
    async with client_of(database_url) as engine, orchestrating(PostgresStore(database_url), poll_seconds=60.0):
        job_id = await engine.submit("workflow_id: late\ntimeout_seconds: 1\nnodes: {a: {handler: no.such.handler}}")
        status = await engine.finished(job_id)
    assert (status["status"], status["error"]["code"]) == ("failed", "JOB_TIMEOUT")
    assert statuses(status) == {"a": "failed"}


async def test_the_deadline_of_a_job_that_was_taken_over_fires(database_url: str) -> None:
    async with client_of(database_url) as engine:
        job_id = await engine.submit("workflow_id: late\ntimeout_seconds: 1.5\nnodes: {a: {handler: no.such.handler}}")
        async with orchestrating(Mute(database_url)):
            await dispatched(engine, job_id)
        async with orchestrating(PostgresStore(database_url)):
            status = await engine.finished(job_id)
    assert status["error"]["code"] == "JOB_TIMEOUT"


async def test_jobs_are_not_forgotten_if_the_answer_to_a_takeover_is_lost(database_url: str) -> None:
    class LosesTheAnswer(PostgresStore):
        has_lost_an_answer = False

        async def take_over(self, *arguments: Any) -> dict[str, str]:
            former_owners = await super().take_over(*arguments)
            if former_owners and not self.has_lost_an_answer:
                self.has_lost_an_answer = True
                raise Unreachable("the connection broke before the answer")
            return former_owners

    async with client_of(database_url) as engine:
        job_id = await engine.submit("workflow_id: late\ntimeout_seconds: 1.5\nnodes: {a: {handler: no.such.handler}}")
        async with orchestrating(Mute(database_url)):
            await dispatched(engine, job_id)
        flaky = LosesTheAnswer(database_url)
        async with orchestrating(flaky):
            status = await engine.finished(job_id, 15)
    assert flaky.has_lost_an_answer
    assert status["error"]["code"] == "JOB_TIMEOUT"


async def test_invariant_10_a_retry_runs_at_its_time_and_not_before(database_url: str) -> None:
    async def tired(**params: Any) -> None:
        raise Transient("tired")

    async with running(database_url, registry(tired=tired)) as engine:
        status = await engine.run("""
workflow_id: retried
nodes: {a: {handler: tired, retry: {max_retries: 2, backoff: fixed, initial_delay_seconds: 0.3, jitter: none}}}
""")
        (gaps,) = await engine.query(
            "select array_agg(extract(epoch from s.started_at - e.at)::float8 order by s.attempt)"
            " from holdfast.attempts s join holdfast.events e on e.attempt = s.attempt - 1"
            " where e.event = 'node_retry_scheduled'"
        )
    assert status["status"] == "failed"
    assert len(gaps[0]) == 2
    assert all(gap >= 0.29 for gap in gaps[0])


async def test_a_retry_of_another_owner_wakes_in_time_although_our_own_is_far_away(
    database_url: str, store: PostgresStore
) -> None:
    async def tired(**params: Any) -> None:
        raise Transient("tired")

    backstage = PostgresBackstage(store)
    stage = Stage(store, backstage)
    async with running(database_url, registry(tired=tired)) as engine:
        far = await engine.submit("""
workflow_id: far
nodes: {a: {handler: tired, retry: {backoff: fixed, initial_delay_seconds: 300, jitter: none}}}
""")

        async def is_waiting() -> bool:
            return (await engine.node(far, "a"))["retry_at"] is not None

        await eventually(is_waiting)
        # The orchestrator does not know the job of this retry; only the rows in the queue matter.
        me, worker = await stage.orchestrator(), await stage.worker()
        lease = await stage.leased(me, str(uuid.uuid4()), worker)
        await store.report(worker, [report_of(lease, "failed", None)])
        opened = await stage.commit(me, Batch())
        await stage.commit(me, Batch(retried=[retry_write(lease, opened.now + 0.1)]))

        async def is_ready() -> bool:
            return [row["state"] for row in await stage.behind.queue(lease.job_id)] == ["ready"]

        await eventually(is_ready, 10)
    await backstage.close()


@pytest.mark.parametrize("width", [5000])
async def test_a_wide_fan_out_completes_and_its_counters_are_right(database_url: str, width: int) -> None:
    async def work(item: int) -> int:
        return item

    async with running(database_url, registry(work=work), concurrency=50) as engine:
        job_id = await engine.submit(WIDE, {"items": list(range(width))})
        status = await engine.finished(job_id, 60)
        windows = await engine.query("select count(*) from holdfast.events where event = 'task_dispatched'")
        done = await engine.query(
            "select count(*), count(distinct item) from holdfast.events where event = 'task_completed'"
        )
        remaining = await engine.query(
            "select (select count(*) from holdfast.queue), (select count(*) from holdfast.inbox)"
        )
    assert status["status"] == "completed", status["error"]
    assert status["result"] == {"total": sum(range(width)), "count": width}
    assert nodes(status)["spread"]["counts"] | {"total": width, "completed": width} == nodes(status)["spread"]["counts"]
    assert windows[0][0] > 1
    assert (done, remaining) == ([(width, width)], [(0, 0)])


async def test_a_job_completes_although_connections_are_killed(database_url: str) -> None:
    runs = Counter[int]()

    async def work(item: int) -> int:
        runs[item] += 1
        await asyncio.sleep(0.002)
        return item

    width = 400
    async with running(database_url, registry(work=work), concurrency=8, **SHORT_LEASES) as engine:
        job_id = await engine.submit(WIDE, {"items": list(range(width))})
        for share in (0.1, 0.4, 0.7):

            async def far_enough(share: float = share) -> bool:
                return len(runs) >= width * share

            await eventually(far_enough)
            kill_connections(database_url)

        async def over() -> Any:
            try:
                return await engine.finished(job_id, 40)
            except Unreachable:
                return None

        status = await eventually(over, 60)
        done = await engine.query(
            "select count(*), count(distinct item) from holdfast.events where event = 'task_completed'"
        )
    assert status["status"] == "completed", status["error"]
    assert status["result"] == {"total": sum(range(width)), "count": width}
    assert done == [(width, width)]


def kill_connections(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid() and application_name like 'holdfast%'"
        )


async def test_an_orchestrator_that_dies_while_a_fan_in_gathers_is_replaced(database_url: str) -> None:
    """Between the last report and the gathered results the job has neither a queued task nor a signal."""

    class DiesWhenItGathers(Mute):
        def cycle(self, orchestrator_id: int) -> Any:
            cycle = super().cycle(orchestrator_id)

            async def results(*arguments: Any, **named: Any) -> Any:
                died.set()
                await asyncio.Event().wait()

            cycle.results = results  # type: ignore[method-assign]
            return cycle

    died = asyncio.Event()

    async def work(item: int) -> int:
        return item

    async with client_of(database_url) as engine:
        job_id = await engine.submit(WIDE, {"items": [1, 2, 3]})
        doomed = DiesWhenItGathers(database_url)
        task = asyncio.create_task(orchestrator(doomed).run(asyncio.Event()))
        async with serving(database_url, registry(work=work), orchestrate=False):
            await asyncio.wait_for(died.wait(), 20)
        task.cancel()
        await asyncio.wait([task])
        await doomed.close()
        async with serving(database_url, **SHORT_LEASES):
            status = await engine.finished(job_id)
    assert (status["status"], status["result"]) == ("completed", {"total": 6, "count": 3})


async def test_an_owner_that_got_no_answer_to_its_commit_reads_its_jobs_again(
    database_url: str, store: PostgresStore
) -> None:
    """The commit succeeded, but its connection broke: the owner must neither lose the job nor begin it twice."""
    owner = Owner(store, await store.register_orchestrator("one", 60.0), "one", Rules(), lambda: 0.5)
    commit = owner._cycle.commit

    async def unanswered(batch: Batch, handover: Handover | None = None) -> Committed:
        await commit(batch, handover)
        raise LostRace("the connection broke before the answer")

    async with client_of(database_url) as engine:
        job_id = await engine.submit(ECHO)
        owner._cycle.commit = unanswered  # type: ignore[method-assign]
        with pytest.raises(LostRace):
            await owner.run_cycle()
        assert owner.jobs == {}
        owner._cycle.commit = commit  # type: ignore[method-assign]
        await owner.run_cycle()
        assert list(owner.jobs) == [job_id]
        events = [e["event"] for e in await engine.events(job_id)]
    assert events == ["job_created", "node_ready", "node_dispatched", "job_started"]


async def test_a_job_with_a_definition_that_no_longer_compiles_does_not_stop_the_others(database_url: str) -> None:
    async with client_of(database_url) as engine:
        broken = await engine.submit("workflow_id: broken\nnodes: {a: {handler: echo}}")
        await engine.query("update holdfast.workflows set definition = '{}' where workflow_id = 'broken'")
        neighbours = [await engine.submit(ECHO, key=str(n)) for n in range(20)]
        async with serving(database_url):
            for job_id in neighbours:
                assert (await engine.finished(job_id))["status"] == "completed"
            reasons = await engine.query("select reason from holdfast.jobs where job_id = %s", broken)
    assert reasons[0][0].startswith("orchestrator_error: ")


CHAIN = "workflow_id: chain\nnodes: {" + ", ".join(
    f"n{n}: {{handler: echo, params: {{steps: 0}}{f', next: n{n + 1}' if n < 9 else ''}}}" for n in range(10)
) + "}"  # fmt: skip


async def test_in_one_process_a_handover_leases_the_next_step_of_a_chain(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leased: list[list[str]] = []
    take = Orchestrator.take

    async def recording_take(self: Orchestrator, handover: Handover) -> CycleResult | None:
        result = await take(self, handover)
        assert result is not None and result.accepted == frozenset({0})
        leased.append([lease.node for lease in result.leases])
        return result

    monkeypatch.setattr(Orchestrator, "take", recording_take)
    async with running(database_url, registry()) as engine:
        assert (await engine.run(CHAIN))["status"] == "completed"
    # Sometimes the owner is busy at that moment, and the worker reports by itself.
    steps = [*([f"n{n}"] for n in range(1, 10)), []]
    assert leased == [step for step in steps if step in leased]
    assert len(leased) >= 5


async def test_a_worker_whose_owner_did_not_answer_reports_by_itself(database_url: str) -> None:
    """The cycle that accepted the report broke, so the worker does not know the outcome. The report must count once."""
    async with serving(database_url) as services, client_of(database_url) as engine:
        orchestrators = services.orchestrators
        broken: list[int] = []

        def break_once(owner: Owner) -> None:
            commit = owner._cycle.commit

            async def unanswered(batch: Batch, handover: Handover | None = None) -> Committed:
                committed = await commit(batch, handover)
                if handover is not None and not broken:
                    broken.append(len(handover.reports))
                    raise LostRace("the connection broke before the answer")
                return committed

            owner._cycle.commit = unanswered  # type: ignore[method-assign]

        for orchestrator in orchestrators:
            await asyncio.wait_for(orchestrator.ready.wait(), 10)
            assert orchestrator._owner is not None
            break_once(orchestrator._owner)
        job_id = await engine.submit(CHAIN)
        status = await engine.finished(job_id, 60)
        events = [e["event"] for e in await engine.events(job_id)]
    assert broken == [1]
    assert status["status"] == "completed"
    assert events.count("node_completed") == 10
