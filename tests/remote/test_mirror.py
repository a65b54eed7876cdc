"""The same question at the database and over a URL has the same answer, and streams bring the same events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client, Context, Verb, load_text, to_json
from holdfast.errors import Forbidden, HoldfastError, NotFound, PayloadUnavailable, Permanent, Unauthenticated
from holdfast.operations.scope import Scope
from holdfast.views.history import Event
from tests.conftest import eventually
from tests.running import HOME, registry, running
from tests.service.serving import Service, serving_http

pytestmark = pytest.mark.anyio

FLOW = load_text("""
workflow_id: flow
breakers: {gateway: {}}
nodes:
  each: {type: fan_out, source: "{{ [0, 1, 2] }}", task: {handler: work, params: {item: "{{ item }}"}}, next: ask}
  ask: {handler: echo, breaker: gateway}
""")
NO_JOB = "00000000-0000-0000-0000-000000000000"


CONTENT = bytes(range(256)) * 1000


def work(item: int, ctx: Context) -> int:
    print(f"item {item}")
    (ctx.workdir / "a b.bin").write_bytes(CONTENT)
    ctx.publish("a b.bin")
    ctx.checkpoint("begun", {"item": item})
    if item == 1:
        raise Permanent("item 1 is bad")
    return item


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_http(database_url) as service:
        yield service


@pytest.fixture
async def remote(service: Service) -> AsyncIterator[Client]:
    key = await service.key("admin", tenant="*", name="ann@desk")
    async with Client.connect(service.url, api_key=key) as client:
        yield client


@pytest.fixture
async def direct(database_url: str) -> AsyncIterator[Client]:
    storage = str(HOME / "payloads")
    async with Client.connect(database_url, Scope(actor="ann@desk"), storage_url=storage) as client:
        yield client


async def failed_job(database_url: str, client: Client) -> str:
    async with running(database_url, registry(work=work)):
        job_id = (await client.submit(FLOW, key="a", labels={"team": "maps"}, correlation_id="c-1")).job_id
        async for _ in client.watch(job_id):
            pass
    return job_id


async def answer_of(client: Client, name: str, *arguments: Any, **options: Any) -> Any:
    """The answer as it is, or the problem."""
    try:
        found = getattr(client, name)(*arguments, **options)
        return [one async for one in found] if hasattr(found, "__aiter__") else await found
    except HoldfastError as problem:
        return type(problem), problem.to_problem()


async def test_what_is_read_over_a_url_is_what_is_read_at_the_database(
    database_url: str, remote: Client, direct: Client
) -> None:
    job_id = await failed_job(database_url, remote)
    await remote.acknowledge(job_id, reason="seen")
    await remote.set_limit("queue:default", concurrency=3)
    await remote.keep_tenant("acme", queues=["default"])
    of_the_job = [
        ("job",), ("job_definition",), ("tasks",), ("attempts",), ("running_attempts",), ("retries",), ("outputs",),
        ("events",), ("why",), ("artifacts",), ("follow_logs",), ("failures", "each"), ("output", "each"),
        ("params", "ask"), ("checkpoints", "each"), ("output", "missing"), ("task_map", "each"), ("timeline",),
        ("generations",), ("results", "each"), ("results_page", "each"), ("artifact_page",),
    ]  # fmt: skip
    questions: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        *((name, (job_id, *more), {}) for name, *more in of_the_job),
        ("job", (job_id,), {"whole": False}),
        ("params", (job_id, "each"), {"index": 1}),
        ("task_details", (job_id, "each"), {"index": 1}),
        ("results", (job_id, "each"), {"status": "failed"}),
        ("artifact_page", (job_id,), {"limit": 1}),
        ("artifact_page", (job_id,), {"limit": 1, "after": ("each", 0, "a b.bin")}),
        ("artifacts", (job_id,), {"node": "each", "index": 2}),
        ("tasks", (job_id,), {"node": "each", "status": "failed"}),
        ("jobs", (), {"labels": {"team": "maps"}, "code": "HANDLER_ERROR", "status": ["failed", "partial"]}),
        ("lookup", (), {"correlation_id": "c-1"}),
        ("find_job", (job_id[-8:],), {}),
        ("find_job", (NO_JOB,), {}),
        *((name, (), {}) for name in ("statistics", "workflows", "queues", "hours", "fleet", "limits", "breakers")),
        *((name, (), {}) for name in ("defaults", "attention", "health", "pauses", "janitor_log", "janitor_actions")),
        *((name, (), {}) for name in ("tenants", "is_served")),
        ("workflow", ("flow",), {}),
        ("workflow_versions", ("flow",), {}),
        ("workflow_source", ("flow",), {}),
        ("workflow_graph", ("flow",), {}),
        ("workflow_drawing", ("flow", "mermaid"), {}),
        ("workflow_inputs", ("flow",), {}),
        ("workflow_statistics", ("flow",), {}),
        ("plan_jobs", (Verb.PAUSE,), {}),
    ]
    for name, arguments, options in questions:
        there, here = [await answer_of(one, name, *arguments, **options) for one in (remote, direct)]
        assert there == here, name


async def test_a_file_is_fetched_whole_or_in_part_and_verified(
    database_url: str, remote: Client, tmp_path: Path
) -> None:
    job_id = await failed_job(database_url, remote)
    first, *_ = await remote.artifacts(job_id)
    await remote.fetch_artifact(job_id, first, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == CONTENT
    part = b"".join([part async for part in remote.artifact_parts(job_id, first, first=1000, length=10)])
    assert part == CONTENT[1000:1010]
    rest = b"".join([part async for part in remote.artifact_parts(job_id, first, first=255_990)])
    assert rest == CONTENT[255_990:]
    with pytest.raises(NotFound):
        await remote.fetch_artifact(job_id, replace(first, name="b"), tmp_path / "other")
    with pytest.raises(PayloadUnavailable, match="did not arrive as it was published"):
        await remote.fetch_artifact(job_id, replace(first, digest="0" * 64), tmp_path / "other")
    assert [one.name for one in tmp_path.iterdir()] == ["copy"]


async def test_what_an_administrator_sees_of_all_tenants_is_the_same(
    service: Service, remote: Client, direct: Client
) -> None:
    await remote.for_tenant("acme").submit(FLOW)
    await remote.add_key("theirs", roles=["viewer"], tenant="acme")
    everywhere, installation = remote.for_tenant("*"), direct.for_tenant("*")
    assert await everywhere.keys() == await installation.keys()
    assert await everywhere.audit() == await installation.audit()
    assert [key.tenant for key in await remote.for_tenant("acme").keys()] == ["acme"]
    assert [job.workflow_id for job in (await remote.for_tenant("acme").jobs()).jobs] == ["flow"]


async def test_a_problem_has_the_words_that_it_has_at_the_database(remote: Client, direct: Client) -> None:
    job_id = (await remote.submit(FLOW)).job_id
    for name, arguments in (
        ("job", (NO_JOB,)),
        ("tasks", (job_id,)),
        ("acknowledge", (job_id,)),
        ("workflow", ("missing",)),
        ("change_breaker", ("missing", "open")),
        ("drop_limit", ("tenant",)),
        ("unpause_queue", ("default",)),
        ("revoke_key", ("hf_missing0",)),
    ):
        there, here = [await answer_of(one, name, *arguments) for one in (remote, direct)]
        assert there == here, name


async def test_another_tenants_key_finds_nothing_and_a_viewer_changes_nothing(service: Service, remote: Client) -> None:
    job_id = (await remote.submit(FLOW)).job_id
    async with Client.connect(service.url, api_key=await service.key("admin", tenant="acme")) as theirs:
        assert theirs.scope.tenant == "acme"
        with pytest.raises(NotFound):
            await theirs.job(job_id)
        with pytest.raises(Forbidden):
            await theirs.for_tenant("default").job(job_id)
    async with Client.connect(service.url, api_key=await service.key("viewer")) as viewer:
        assert (await viewer.job(job_id)).job_id == job_id
        with pytest.raises(Forbidden):
            await viewer.submit(FLOW)
        with pytest.raises(Forbidden):
            await viewer.cancel(job_id)


@pytest.mark.parametrize("key", [None, "hf_" + "x" * 51])
async def test_a_key_that_is_missing_or_wrong_is_refused_when_the_client_connects(
    service: Service, key: str | None
) -> None:
    with pytest.raises(Unauthenticated) as raised:
        async with Client.connect(service.url, api_key=key):
            pass
    assert "HOLDFAST_API_KEY" in str(raised.value.remedy)


async def test_a_stream_of_a_job_brings_its_events_in_order_until_its_end(
    database_url: str, remote: Client, direct: Client
) -> None:
    job_id = await failed_job(database_url, remote)
    stored = [event async for event in direct.events(job_id)]
    seen = [step async for step in remote.stream(job_id)]
    assert to_json([step.event for step in seen]) == to_json(stored)
    rest = [step.cursor async for step in remote.stream(job_id, after=seen[2].cursor)]
    assert rest == [step.cursor for step in seen[3:]]
    of_a_node = [event async for event in remote.events(job_id, node="1", follow=True)]
    assert [event.seq for event in of_a_node] == [event.seq for event in stored if event.node == "each"]
    with pytest.raises(NotFound, match="no node 'missing'"):
        async for _ in remote.events(job_id, node="missing", follow=True):
            pass


async def test_a_stream_of_a_tenant_goes_on_after_a_restart_of_the_service(database_url: str, direct: Client) -> None:
    received: list[Event] = []

    async def follow(client: Client) -> None:
        async for step in client.stream():
            if step.event is not None:
                received.append(step.event)

    async def has_begun() -> bool:
        """The stream begins with what happens after it was opened."""
        await direct.submit(FLOW, force=True)
        return bool(received)

    async with AsyncExitStack() as first:
        service = await first.enter_async_context(serving_http(database_url))
        port, key = int(service.url.rpartition(":")[2]), await service.key("viewer")
        async with Client.connect(service.url, api_key=key) as client, running(database_url, registry(work=work)):
            following = asyncio.create_task(follow(client))
            await eventually(has_begun)
            await first.aclose()
            job_id = (await direct.submit(FLOW, force=True)).job_id

            async def has_caught_up() -> bool:
                return any(event.job_id == job_id for event in received)

            async with serving_http(database_url, port=port):
                await eventually(has_caught_up)
            following.cancel()
    numbers = [(event.job_id, event.seq) for event in received]
    assert len(numbers) == len(set(numbers)), "each once"
