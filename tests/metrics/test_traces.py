"""Traces: a submission, its tasks and their attempts are one tree, whatever process did what."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from holdfast import Context, tracing
from holdfast.client import Client
from holdfast.define.load import load_text
from holdfast.operations.batches import SubmitRequest
from holdfast.operations.scope import Scope
from tests.chaos.fleet import Process
from tests.conftest import eventually
from tests.metrics.collector import Collector, Seen, collecting
from tests.running import Engine, client_of, registry, running, serving
from tests.service.processes import api_process
from tests.service.serving import API, serving_http
from tests.service.working import done, plain_worker

pytestmark = pytest.mark.anyio

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE, SPAN = CALLER.split("-")[1:3]
RETRIED = """
workflow_id: retried
nodes:
  each:
    type: fan_out
    source: "{{ [1, 2] }}"
    task: {handler: second_time, params: {item: "{{ item }}"}, retry: {max_retries: 1, initial_delay_seconds: 0.01}}
    next: all
  all: {type: fan_in, next: last}
  last: {handler: echo}
"""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
def traced(collector: Collector) -> Iterator[Collector]:
    """This process sends its spans."""
    tracing.start(collector.url, version="test", instance="here")
    try:
        yield collector
    finally:
        tracing.stop()


def second_time(item: int, ctx: Context) -> str | None:
    if item == 2 and ctx.attempt == 1:
        raise ValueError("not yet")
    return ctx.traceparent


async def arrived(collector: Collector, wanted: Callable[[Collector], object]) -> None:
    async def look() -> bool:
        return bool(wanted(collector))

    await eventually(look)


async def traceparent_of(engine: Engine, job_id: str) -> str | None:
    ((kept,),) = await engine.query("select traceparent from holdfast.jobs where job_id = %s", job_id)
    assert kept is None or isinstance(kept, str)
    return kept


def tree(spans: list[Seen]) -> dict[str, Seen]:
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans), "two spans have the same id"
    return by_id


async def test_a_submission_its_tasks_and_their_attempts_are_one_tree(database_url: str, traced: Collector) -> None:
    async with running(database_url, registry(second_time=second_time)) as engine:
        job_id = await engine.submit(RETRIED)
        assert (await engine.finished(job_id))["status"] == "completed"
        kept = await traceparent_of(engine, job_id)
    tracing.stop()
    (submitted,) = traced.named("submit")
    by_id = tree(traced.spans)
    assert kept == f"00-{submitted.trace_id}-{submitted.span_id}-01"
    assert submitted["workflow_id"] == "retried"
    tasks = {(span["node"], span["item"]): span for span in traced.named("task")}
    assert set(tasks) == {("each", 0), ("each", 1), ("last", None)}
    assert all(task.parent_id == submitted.span_id and not task.is_error for task in tasks.values())
    attempts = sorted(
        (by_id[one.parent_id]["item"] or 0, one["attempt"], one["outcome"]) for one in attempts_of(traced)
    )
    assert attempts == [(0, 1, "completed"), (0, 1, "completed"), (1, 1, "failed"), (1, 2, "completed")]
    (failed,) = [one for one in attempts_of(traced) if one.is_error]
    assert (failed["code"], failed["handler"], failed["job_id"]) == ("HANDLER_ERROR", "second_time", job_id)
    assert {span.trace_id for span in traced.spans} == {submitted.trace_id}
    # What a handler or a person writes is in no span.
    assert "not yet" not in str(traced.spans)


def attempts_of(collector: Collector) -> list[Seen]:
    return collector.named("attempt")


async def test_the_span_of_a_failed_task_has_its_code(database_url: str, traced: Collector) -> None:
    async with running(database_url, registry()) as engine:
        await engine.run("workflow_id: f\nnodes: {a: {handler: fail, params: {permanent: true}}}")
    tracing.stop()
    (task,) = traced.named("task")
    assert (task.is_error, task["outcome"], task["code"]) == (True, "failed", "HANDLER_ERROR")


async def test_a_task_that_a_person_runs_again_has_another_span(database_url: str, traced: Collector) -> None:
    runs: list[int] = []

    def flaky() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise ValueError("the first time")

    async with running(database_url, registry(flaky=flaky)) as engine:
        text = "workflow_id: f\nnodes: {a: {handler: flaky, retry: {max_retries: 0}}}"
        assert (await engine.run(text))["status"] == "failed"
        again = await engine.client.submit(load_text(text), resume=True)

        async def completed() -> bool:
            return bool((await engine.status(again.job_id))["status"] == "completed")

        await eventually(completed)
    tracing.stop()
    tasks = {span["generation"]: span for span in traced.named("task")}
    assert {number: one["outcome"] for number, one in tasks.items()} == {1: "failed", 2: "completed"}
    parents = {one.parent_id for one in attempts_of(traced)}
    assert parents == {one.span_id for one in tasks.values()}
    # Both belong to the submission that made the job; the second submission is a span of its own.
    assert len({one.parent_id for one in tasks.values()}) == 1


async def test_the_trace_of_a_caller_goes_on_through_the_service_and_its_processes(
    database_url: str, collector: Collector, tmp_path: Path
) -> None:
    environment = {"HOLDFAST_TRACES_URL": collector.url}
    orchestrator = Process("orchestrator", database_url, tmp_path, environment)
    worker = Process("worker", database_url, tmp_path, environment)
    try:
        async with (
            client_of(database_url) as engine,
            api_process(database_url, tmp_path, **environment) as (_, url),
        ):
            for process in (orchestrator, worker):
                await process.ready()
            key = (await engine.client.for_tenant("*").add_key("test", roles=["admin"], tenant="default")).key
            async with httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}) as http:
                body = {"definition": {"workflow_id": "w", "nodes": {"a": {"handler": "echo"}}}}
                answer = await http.post(f"{API}/jobs", json=body, headers={"traceparent": CALLER})
                assert answer.status_code == 201, answer.text
            await engine.finished(answer.json()["job_id"])
            await arrived(collector, lambda one: {span.name for span in one.spans} == {"submit", "task", "attempt"})
    finally:
        for process in (orchestrator, worker):
            process.kill()
    (submitted,), (task,), (attempt,) = (collector.named(name) for name in ("submit", "task", "attempt"))
    assert {span.trace_id for span in collector.spans} == {TRACE}
    assert (submitted.parent_id, task.parent_id, attempt.parent_id) == (SPAN, submitted.span_id, task.span_id)
    assert task.began <= attempt.began <= attempt.ended
    assert len({submitted.process, task.process, attempt.process}) == 3


async def test_a_service_without_a_collector_passes_the_trace_of_its_caller_on(database_url: str) -> None:
    async with client_of(database_url) as engine, serving_http(database_url) as service:
        client = await service.as_role("submitter")
        body = {"definition": {"workflow_id": "w", "nodes": {"a": {"handler": "echo"}}}}
        for number, (sent, kept) in enumerate({CALLER: CALLER, "00-zz-1-01": None, CALLER + "0": None}.items()):
            named = body | {"key": str(number)}
            job_id = (await client.post(f"{API}/jobs", json=named, headers={"traceparent": sent})).json()["job_id"]
            assert await traceparent_of(engine, job_id) == kept
        batch = {"jobs": [body | {"key": "batch"}]}
        answer = await client.post(f"{API}/jobs/batch", json=batch, headers={"traceparent": CALLER})
        assert await traceparent_of(engine, answer.json()["items"][0]["submission"]["job_id"]) == CALLER


async def test_a_program_with_a_trace_of_its_own_is_the_parent(database_url: str) -> None:
    tracer = TracerProvider().get_tracer("a program")
    definition = load_text("workflow_id: w\nnodes: {a: {handler: echo}}")
    async with client_of(database_url) as engine, serving_http(database_url) as service:
        key = await service.key("submitter")
        with tracer.start_as_current_span("own work") as span:
            context = span.get_span_context()
            expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-01"
            jobs = [(await engine.client.submit(definition, key="direct")).job_id]
            requests = [SubmitRequest(definition, key="one of many")]
            jobs += [one.job_id for one in await engine.client.submit_batch(requests) if hasattr(one, "job_id")]
            async with Client.connect(service.url, api_key=key) as remote:
                jobs.append((await remote.submit(definition, key="by the service")).job_id)
        assert [await traceparent_of(engine, job_id) for job_id in jobs] == [expected] * 3


async def test_a_job_of_a_schedule_is_a_tree_by_itself_or_below_the_person_who_let_it_tick(
    database_url: str, traced: Collector
) -> None:
    definition = load_text("workflow_id: w\nnodes: {a: {handler: echo}}")
    async with running(database_url, registry()) as engine:
        await engine.client.register(definition)
        await engine.client.add_schedule("often", "w", every_seconds=1)
        await engine.client.add_schedule("by_hand", "w", cron="0 0 1 1 *")

        async def ended() -> bool:
            return len((await engine.client.jobs(labels={"schedule": "often"}, status="completed")).jobs) > 0

        await eventually(ended)
        await engine.client.pause_schedule("often")
        person = Client(engine.store, Scope(traceparent=CALLER))
        triggered = await person.trigger_schedule("by_hand")
        assert triggered.job_id is not None
        await engine.finished(triggered.job_id)
    tracing.stop()
    by_id = tree(traced.spans)
    submits = traced.named("submit")
    assert {span.attributes["holdfast.schedule"] for span in submits} == {"often", "by_hand"}
    for span in submits:
        parent, of = (SPAN, TRACE) if span["schedule"] == "by_hand" else ("", span.trace_id)
        assert (span.parent_id, span.trace_id, span["workflow_id"]) == (parent, of, "w")
    tasks = traced.named("task")
    assert {by_id[task.parent_id]["schedule"] for task in tasks} == {"often", "by_hand"}


async def test_a_worker_over_http_gets_the_place_of_its_task(database_url: str, traced: Collector) -> None:
    async with (
        client_of(database_url) as engine,
        serving(database_url, work=False),
        serving_http(database_url) as service,
    ):
        worker = await plain_worker(service)
        job_id = await engine.submit("workflow_id: w\nnodes: {a: {handler: work}}")
        (task,) = await worker.claim(wait_seconds=20)
        place = tracing.Place.parse(task["traceparent"])
        assert place is not None
        await worker.report(done(task))
        await engine.finished(job_id)
    tracing.stop()
    (span,) = traced.named("task")
    assert (f"{place.trace_id:032x}", f"{place.span_id:016x}") == (span.trace_id, span.span_id)
    job = tracing.Place.parse(task["job_traceparent"])
    assert job is not None
    assert job.of_task(job_id, "a", -1, 1) == place


async def test_a_trace_that_is_not_sampled_is_kept_and_not_sent(database_url: str, traced: Collector) -> None:
    unsampled = CALLER[:-1] + "0"
    async with running(database_url, registry()) as engine:
        client = Client(engine.store, Scope(traceparent=unsampled))
        submission = await client.submit(load_text("workflow_id: w\nnodes: {a: {handler: echo}}"))
        await engine.finished(submission.job_id)
        kept = await traceparent_of(engine, submission.job_id)
        assert kept is not None
        assert (kept[:36], kept[-2:]) == (unsampled[:36], "00")
    tracing.stop()
    assert traced.spans == []


async def test_the_own_spans_of_a_handler_lie_below_its_attempt(database_url: str, traced: Collector) -> None:
    seen: dict[str, str] = {}

    def in_a_thread(ctx: Context) -> None:
        seen["thread"] = f"{trace.get_current_span().get_span_context().span_id:016x}"
        seen["says"] = (ctx.traceparent or "").split("-")[2]

    async def on_the_loop() -> None:
        seen["loop"] = f"{trace.get_current_span().get_span_context().span_id:016x}"

    async with running(database_url, registry(in_a_thread=in_a_thread, on_the_loop=on_the_loop)) as engine:
        await engine.run("workflow_id: w\nnodes: {a: {handler: in_a_thread, next: b}, b: {handler: on_the_loop}}")
    tracing.stop()
    own = {span["node"]: span.span_id for span in attempts_of(traced)}
    assert seen == {"thread": own["a"], "says": own["a"], "loop": own["b"]}


async def test_a_collector_that_is_away_holds_up_no_job(database_url: str) -> None:
    with collecting() as collector:
        pass
    tracing.start(collector.url, version="test", instance="here")
    try:
        async with running(database_url, registry()) as engine:
            assert (await engine.run("workflow_id: w\nnodes: {a: {handler: echo}}"))["status"] == "completed"
    finally:
        tracing.stop()


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        ("holdfast.assembly, holdfast.client, holdfast.remote.client, holdfast.cli.serve", "opentelemetry"),
        # FastAPI itself imports the interface, but nothing that sends.
        ("holdfast.service.app", "opentelemetry.sdk"),
    ],
)
def test_without_a_collector_no_process_imports_opentelemetry(modules: str, unwanted: str, tmp_path: Path) -> None:
    code = f"import sys, {modules}; print([name for name in sys.modules if name.startswith({unwanted!r})])"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert asked.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "text", ["", "00", CALLER.upper(), f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"{CALLER}\n", "٠" * 55]
)
def test_what_is_no_place_in_a_trace_is_none(text: str) -> None:
    assert tracing.Place.parse(text) is None
