"""Failing dependencies, with real workers and a real HTTP service: retries, breakers, probes and limits."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests import sources
from tests.conftest import eventually
from tests.gateway import URL, Gateway
from tests.marks import HTTP_IN_CHAOS, rest_in_chaos
from tests.running import Engine
from tests.service.serving import serving_http

pytestmark = pytest.mark.anyio
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
ROOT = Path(__file__).parent.parent
ONE = """
workflow_id: one
nodes:
  convert:
    handler: gateway.convert
    params: {number: 1}
    retry: {max_retries: 2, backoff: fixed, initial_delay_seconds: 0.5, jitter: none}
"""
MANY = """
workflow_id: many
inputs: {count: {type: array}}
breakers:
  gateway: {window_calls: 10, min_calls: 5, cooldown_seconds: 0.5, codes: [GW_5XX, GW_TIMEOUT]}
nodes:
  convert:
    type: fan_out
    source: "{{ inputs.count }}"
    task:
      handler: gateway.convert
      breaker: gateway
      params: {number: "{{ item }}"}
      retry: {max_retries: 1, initial_delay_seconds: 0.1}
    next: all
  all: {type: fan_in}
"""
SLOTS = 8


BY_URL = "{url: 'GATEWAY/health'}"


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway() as running:
        yield running


@pytest.fixture
async def engine(
    request: pytest.FixtureRequest, database_url: str, gateway: Gateway, tmp_path: Path, each_source: str
) -> AsyncIterator[Engine]:
    """An orchestrator and two workers, each in its own process; one of the workers may reach a failpoint. The workers
    are once at the database, and once over HTTP."""
    environment = {
        **os.environ,
        "HOLDFAST_DATABASE_URL": database_url,
        "HOLDFAST_HOME": str(tmp_path),
        "HOLDFAST_POLL_SECONDS": "0.5",
        "HOLDFAST_RENEW_SECONDS": "0.5",
        "HOLDFAST_GRACE_SECONDS": "1",
        "HOLDFAST_FAILPOINT_ONCE": str(tmp_path),
        "HOLDFAST_OUTGOING_ALLOW": "127.0.0.1",
        URL: gateway.url,
    }
    if hasattr(request, "param"):
        environment["HOLDFAST_FAILPOINT"] = request.param
    worker = [HOLDFAST, "worker", "--handlers", "tests.gateway", "--concurrency", str(SLOTS // 2)]
    async with AsyncExitStack() as stack:
        place = dict(environment)
        if each_source == sources.HTTP:
            service = await stack.enter_async_context(serving_http(database_url))
            place |= {"HOLDFAST_URL": service.url, "HOLDFAST_API_KEY": await service.key("worker")}
            del place["HOLDFAST_DATABASE_URL"]
        processes = [
            subprocess.Popen(command, cwd=ROOT, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for command, own in (([HOLDFAST, "orchestrator"], environment), (worker, place), (worker, place))
        ]
        engine = Engine(database_url)
        try:
            yield engine
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                await asyncio.to_thread(process.wait, 20)
            await engine.store.close()


async def rows(engine: Engine, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    async with engine.store.connections.use("test") as connection:
        return await (await connection.execute(statement.encode(), parameters)).fetchall()


async def breaker(engine: Engine) -> tuple[str, str]:
    breakers = await rows(engine, "select state, coalesce(reason, '') from breakers")
    return (breakers[0][0], breakers[0][1]) if breakers else ("unknown", "")


async def until_open(engine: Engine) -> None:
    async def is_open() -> bool:
        return (await breaker(engine))[0] == "open"

    await eventually(is_open)


async def pauses(engine: Engine, job_id: str) -> list[float]:
    """Seconds from the end of each attempt to the start of the next."""
    attempts = await rows(
        engine,
        "select extract(epoch from started_at)::float8, extract(epoch from finished_at)::float8 from attempts"
        " where job_id = %s order by attempt",
        job_id,
    )
    return [following[0] - earlier[1] for earlier, following in pairwise(attempts)]


@HTTP_IN_CHAOS
async def test_a_refused_request_is_permanent_and_sent_once(engine: Engine, gateway: Gateway) -> None:
    gateway.mode = "bad request"
    status = await engine.run(ONE)
    assert (status["status"], status["error"]["code"], status["error"]["class"]) == ("failed", "GW_4XX", "permanent")
    assert gateway.asked["1"] == 1


@HTTP_IN_CHAOS
@pytest.mark.parametrize(
    ("mode", "code"),
    rest_in_chaos([("bad gateway", "GW_5XX"), ("silent", "GW_TIMEOUT"), ("gone", "GW_5XX")], ("bad gateway", "GW_5XX")),
)
async def test_a_transient_failure_is_retried_after_the_right_delay(
    engine: Engine, gateway: Gateway, mode: Any, code: str
) -> None:
    if mode == "gone":
        gateway.close()
    gateway.mode = mode
    job_id = await engine.submit(ONE)
    status = await engine.finished(job_id)
    assert (status["status"], status["error"]["code"], status["error"]["class"]) == ("failed", code, "transient")
    assert status["error"]["attempt"] == 3
    waited = await pauses(engine, job_id)
    assert len(waited) == 2
    assert all(pause >= 0.5 for pause in waited)
    assert gateway.asked["1"] == (0 if mode == "gone" else 3)


@HTTP_IN_CHAOS
async def test_the_retry_after_of_the_gateway_is_honoured(engine: Engine, gateway: Gateway) -> None:
    gateway.mode = "busy"
    job_id = await engine.submit(ONE)

    async def has_answered_busy() -> bool:
        return gateway.asked["1"] >= 1

    await eventually(has_answered_busy)
    gateway.mode = "ok"
    assert (await engine.finished(job_id))["status"] == "completed"
    (event_data,) = [e["data"] for e in await engine.events(job_id) if e["event"] == "node_retry_scheduled"]
    assert event_data["message"] == "HTTPError: HTTP Error 503: Service Unavailable"
    ((waited,),) = await rows(
        engine,
        "select extract(epoch from t.started_at - a.finished_at)::float8 from attempts a join tasks t using (job_id)"
        " where job_id = %s and a.attempt = 1",
        job_id,
    )
    assert waited >= 1.9


async def test_an_outage_opens_the_breaker_which_closes_by_itself_without_spending_retries(
    engine: Engine, gateway: Gateway
) -> None:
    gateway.mode = "bad gateway"
    job_id = await engine.submit(MANY, {"count": list(range(200))})
    await until_open(engine)
    asked = sum(gateway.asked.values())
    # The breaker opened before every task had called the gateway.
    assert asked < 100

    async def probed_without_success() -> bool:
        return sum(gateway.asked.values()) >= asked + 3

    await eventually(probed_without_success)
    gateway.mode = "ok"
    status = await engine.finished(job_id, 60)
    assert (status["status"], status["result"]["count"]) == ("completed", 200)
    assert (await breaker(engine))[0] == "closed"
    events = [e for e in await engine.events(job_id) if e["event"].startswith(("breaker_", "job_held", "job_rel"))]
    assert {"breaker_opened", "breaker_closed"} <= {e["event"] for e in events}
    held, released = [e["data"] for e in events if e["event"].startswith("job_")]
    assert (held["by"], held["name"], released["name"]) == ("breaker", "gateway", "gateway")
    assert held["until"].endswith("Z") and released["since"].endswith("Z")
    # Retries were spent only before the breaker opened.
    assert (await rows(engine, "select sum(retry_count) < 5, count(*) from tasks where item >= 0")) == [(True, 200)]


@HTTP_IN_CHAOS
async def test_a_handler_that_guards_its_calls_waits_for_the_breaker_too(engine: Engine, gateway: Gateway) -> None:
    workflow = """
workflow_id: guarded
breakers: {gateway: {window_calls: 4, min_calls: 2, cooldown_seconds: 0.5}}
nodes:
  one: {handler: gateway.guarded, params: {numbers: [1, 2, 3]}, retry: {max_retries: 3, initial_delay_seconds: 0.1}}
"""
    gateway.mode = "bad gateway"
    job_id = await engine.submit(workflow)
    await until_open(engine)
    gateway.mode = "ok"
    status = await engine.finished(job_id)
    assert (status["status"], status["result"]) == ("completed", ["well: 1", "well: 2", "well: 3"])


@HTTP_IN_CHAOS
@pytest.mark.parametrize("probe", rest_in_chaos([BY_URL, "{handler: gateway.check}"], BY_URL))
async def test_a_probe_calls_the_dependency_before_any_task_does(engine: Engine, gateway: Gateway, probe: str) -> None:
    probing = f"probe: {probe.replace('GATEWAY', gateway.url)}"
    workflow = MANY.replace("window_calls: 10, min_calls: 5", f"window_calls: 2, min_calls: 2, {probing}")
    gateway.mode = "bad gateway"
    job_id = await engine.submit(workflow, {"count": list(range(100))})

    async def probed() -> bool:
        return gateway.asked["health"] >= 2

    await eventually(probed)
    state, reason = await breaker(engine)
    assert state == "open"
    assert "its probe failed" in reason
    # The breaker opened before every task had called the gateway.
    assert sum(number for path, number in gateway.asked.items() if path != "health") < 100
    gateway.mode = "ok"
    assert (await engine.finished(job_id, 60))["status"] == "completed"
    assert (await rows(engine, "select count(*) from breaker_changes where reason = 'its probe passed'")) == [(1,)]


@HTTP_IN_CHAOS
@pytest.mark.parametrize("engine", ["probe.claimed:kill", "probe.asked:kill"], indirect=True)
async def test_a_worker_that_dies_while_it_probes_delays_the_breaker_for_a_while_only(
    engine: Engine, gateway: Gateway, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    workflow = MANY.replace(
        "window_calls: 10, min_calls: 5", "window_calls: 2, min_calls: 2, probe: {handler: gateway.check}"
    )
    gateway.mode = "bad gateway"
    job_id = await engine.submit(workflow, {"count": list(range(20))})
    point: str = request.node.callspec.params["engine"].partition(":")[0]

    async def one_has_died() -> bool:
        return (tmp_path / point).exists()

    await eventually(one_has_died)
    gateway.mode = "ok"
    ((blocked, state),) = await rows(engine, "select probing_until > now(), state from breakers")
    assert (blocked, state) == (True, "open")
    await rows(engine, "update breakers set probing_until = now() returning 1")
    assert (await engine.finished(job_id, 60))["status"] == "completed"
    assert (await rows(engine, "select count(*) from breaker_changes where reason = 'its probe passed'")) == [(1,)]


@HTTP_IN_CHAOS
async def test_a_limit_holds_over_two_workers(engine: Engine, gateway: Gateway) -> None:
    workflow = """
workflow_id: limited
inputs: {count: {type: array}, account: {type: string}}
nodes:
  convert:
    type: fan_out
    source: "{{ inputs.count }}"
    task:
      handler: gateway.convert
      params: {number: "{{ item }}"}
      concurrency: {limit: 2, key: "{{ inputs.account }}"}
    next: all
  all: {type: fan_in}
"""
    gateway.seconds = 0.02
    jobs = [await engine.submit(workflow, {"count": list(range(20)), "account": "one"}, key=str(n)) for n in range(3)]
    for job_id in jobs:
        assert (await engine.finished(job_id, 60))["status"] == "completed"
    assert gateway.most_at_once <= 2
    assert sum(gateway.asked.values()) == 60
