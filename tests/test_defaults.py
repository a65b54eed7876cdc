"""The defaults of an installation on a real database: what jobs pin, and changing the defaults by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from holdfast import Client, load_text
from holdfast.define.definition import Definition, read_pinned
from holdfast.define.gates import BreakerRules
from holdfast.define.retry import Backoff, Jitter, Retry
from holdfast.errors import InvalidInput, Transient
from holdfast.operations.scope import Scope
from holdfast.operations.submitting import new_job
from holdfast.store.postgres import PostgresStore
from tests.conftest import eventually
from tests.define.test_defaults import EVERYTHING
from tests.running import registry, running
from tests.service.serving import serving_http

pytestmark = pytest.mark.anyio

PLAIN = load_text("workflow_id: plain\nbreakers: {crm: {}}\nnodes: {a: {handler: echo, breaker: crm}}")
OWN = load_text(
    "workflow_id: own\ntimeout_minutes: 1\nretry: {max_retries: 3}\n"
    "breakers: {crm: {cooldown_seconds: 30}}\nnodes: {a: {handler: echo}}"
)


@pytest.fixture(params=["database", "http"])
async def client(request: pytest.FixtureRequest, store: PostgresStore, database_url: str) -> AsyncIterator[Client]:
    if request.param == "database":
        yield Client(store, Scope(actor="ann@server"))
        return
    async with serving_http(database_url) as service:
        key = await service.key("admin", name="ann@server")
        async with Client.connect(service.url, api_key=key) as client:
            yield client


async def pinned(store: PostgresStore, job_id: str) -> Definition:
    async with store.connections.use("test") as connection:
        cursor = await connection.execute(
            "select w.definition::text from jobs j join workflows w using (definition_hash) where j.job_id = %s",
            (job_id,),
        )
        (row,) = await cursor.fetchall()
    return read_pinned(row[0])


async def submitted(client: Client, store: PostgresStore, definition: Definition, **options: Any) -> Definition:
    return await pinned(store, (await client.submit(definition, key=str(options), **options)).job_id)


def retry_of(definition: Definition) -> Retry:
    (node,) = definition.nodes
    assert node.task is not None
    return node.task.retry


async def test_a_job_pins_the_defaults_of_its_tenant_where_its_file_says_nothing(store: PostgresStore) -> None:
    ann, bob = Client(store, Scope("a")), Client(store, Scope("b"))
    await ann.set_defaults(EVERYTHING)
    plain, own, theirs = [
        await submitted(client, store, flow) for client, flow in ((ann, PLAIN), (ann, OWN), (bob, PLAIN))
    ]
    assert retry_of(plain) == Retry(5, Backoff.LINEAR, 2.0, 60.0, Jitter.NONE)
    assert plain.breakers == (BreakerRules("crm", 40, 90.0, 0.2, 12, None, 60.0, 2),)
    assert plain.timeout_seconds == 240 * 60
    assert (retry_of(own).max_retries, own.breakers[0].cooldown_seconds, own.timeout_seconds) == (3, 30.0, 60.0)
    assert (retry_of(own).backoff, own.breakers[0].probes) == (Backoff.LINEAR, 2)
    assert theirs.to_json() == PLAIN.to_json()
    # Many at once, of several tenants, are resolved each for its own.
    jobs = [new_job(PLAIN, {}, key="many", tenant=tenant) for tenant in ("a", "b", "c")]
    ids = [one.job_id for one in await ann.submit_many([*jobs, new_job(OWN, {}, key="many", tenant="a")])]
    found = [retry_of(await pinned(store, job_id)).max_retries for job_id in ids]
    assert found == [5, 3, 3, 3]


async def test_another_process_knows_of_a_change_without_asking_at_each_submission(
    database_url: str, client: Client, store: PostgresStore
) -> None:
    async with Client.connect(database_url, Scope("other")) as theirs, Client.connect(database_url) as ours:
        assert retry_of(await submitted(ours, store, PLAIN, priority=1)).max_retries == 3
        await client.set_defaults({"retry.max_retries": 5})
        both = [new_job(PLAIN, {}, key="both", tenant=tenant) for tenant in ("default", "other")]
        made = await ours.submit_many(both)
        assert [one.answer for one in made] == ["created", "created"], "nothing was made before the change was known"
        assert [retry_of(await pinned(store, one.job_id)).max_retries for one in made] == [5, 3]
        assert [one.answer for one in await ours.submit_many(both)] == ["already_processing"] * 2
        await client.reset_defaults()
        assert retry_of(await submitted(ours, store, PLAIN, priority=2)).max_retries == 3
        assert retry_of(await submitted(theirs, store, PLAIN, priority=2)).max_retries == 3


async def test_a_name_stands_for_the_workflow_as_written_and_is_resolved_at_each_submission(
    client: Client, store: PostgresStore
) -> None:
    await client.register(PLAIN)
    await client.set_defaults({"retry.max_retries": 5})
    assert retry_of(await submitted(client, store, await client.definition("plain"), priority=1)).max_retries == 5
    await client.set_defaults({"retry.max_retries": 6})
    assert retry_of(await submitted(client, store, await client.definition("plain"), priority=2)).max_retries == 6
    assert (await client.definition("plain")).hash() == PLAIN.hash()
    # A later definition stays the current one, although the earlier file is submitted with other defaults.
    newer = load_text("workflow_id: plain\nversion: 2\nnodes: {b: {handler: echo}}")
    await client.register(newer)
    await client.set_defaults({"retry.max_retries": 7})
    assert retry_of(await submitted(client, store, PLAIN, priority=3)).max_retries == 7
    assert (await client.definition("plain")).version == "2"
    assert [(one.workflow_id, one.version) for one in await client.workflows()] == [("plain", "2")]


async def test_a_changed_default_is_not_a_changed_definition(client: Client, store: PostgresStore) -> None:
    first = await client.submit(PLAIN)
    async with store.connections.use("test") as connection:
        await connection.execute("update jobs set status = 'completed', finished_at = now()")
    await client.set_defaults(EVERYTHING)
    again = await client.submit(PLAIN, refuse_changed=True)
    assert (again.job_id, again.answer, again.definition_changed) == (first.job_id, "already_completed", False)
    resolved = await client.submit(PLAIN, key="resolved")
    await client.reset_defaults()
    assert not (await client.submit(PLAIN, key="resolved")).definition_changed
    other = load_text("workflow_id: plain\nbreakers: {crm: {}}\nnodes: {a: {handler: echo}}")
    changed = await client.submit(other, key="resolved")
    assert (changed.job_id, changed.changes) == (resolved.job_id, ("node a differs in breaker",))


async def test_a_job_keeps_the_defaults_that_it_began_with(database_url: str) -> None:
    attempts: list[str] = []
    waits = asyncio.Event()

    async def flaky(name: str) -> None:
        attempts.append(name)
        if name == "early":
            await waits.wait()
        raise Transient("not today")

    flow = "workflow_id: flaky\nnodes: {a: {handler: flaky, params: {name: '{{ inputs.name }}'}}}"
    async with running(database_url, registry(flaky=flaky)) as engine:
        await engine.client.set_defaults({"retry.max_retries": 2, "retry.initial_delay_seconds": 0})
        early = await engine.submit(flow, {"name": "early"})

        async def has_begun() -> bool:
            return "early" in attempts

        await eventually(has_begun)
        await engine.client.set_defaults({"retry.max_retries": 0, "timeout_minutes": 0.002})
        waits.set()
        status = await engine.finished(early)
        assert (status["status"], attempts, status["error"]["code"]) == ("failed", ["early"] * 3, "HANDLER_ERROR")
        assert (await engine.run(flow, {"name": "late"}))["status"] == "failed"
        assert attempts[3:] == ["late"]
        slow = await engine.run("workflow_id: slow\nnodes: {a: {handler: sleep, params: {duration_seconds: 30}}}")
        assert (slow["status"], slow["error"]["code"]) == ("failed", "JOB_TIMEOUT")


async def test_defaults_are_set_together_or_not_at_all_and_tell_who_set_them(client: Client) -> None:
    with pytest.raises(InvalidInput) as refused:
        await client.set_defaults({"retry.max_retries": 5, "breaker.min_calls": 30})
    assert [problem.path for problem in refused.value.errors] == ["breaker.min_calls"]
    with pytest.raises(InvalidInput, match="No default is given"):
        await client.set_defaults({})
    assert {one.source for one in (await client.defaults()).defaults} == {"built_in"}
    changed = await client.set_defaults({"breaker.min_calls": 30, "breaker.window_calls": 40}, reason="few calls")
    shown = {one.name: one for one in (await client.defaults()).defaults if one.actor}
    assert {one.name: one for one in changed.defaults if one.actor} == shown
    assert {(name, one.value, one.source, one.actor, one.reason) for name, one in shown.items()} == {
        ("breaker.min_calls", 30, "set", client.scope.actor, "few calls"),
        ("breaker.window_calls", 40, "set", client.scope.actor, "few calls"),
    }
    # What is left must fit, too.
    with pytest.raises(InvalidInput, match="cannot hold"):
        await client.reset_defaults(["breaker.window_calls"])
    with pytest.raises(InvalidInput, match="this name"):
        await client.reset_defaults(["breaker.window_call"])
    await client.set_defaults({"timeout_minutes": 5})
    after = {one.name: one for one in (await client.reset_defaults(["timeout_minutes"], reason="enough")).defaults}
    timeout, calls = after["timeout_minutes"], after["breaker.min_calls"]
    assert (timeout.value, timeout.source, timeout.reason, calls.value) == (None, "built_in", "enough", 30)
    assert {one.source for one in (await client.reset_defaults()).defaults} == {"built_in"}


async def test_two_changes_at_once_are_checked_together(database_url: str, client: Client) -> None:
    waiting = (
        "select count(*) from pg_locks l join pg_database d on d.oid = l.database"
        " where l.locktype = 'advisory' and not l.granted and d.datname = current_database()"
    )
    await client.set_defaults({"retry.initial_delay_seconds": 10, "retry.max_delay_seconds": 100})
    async with (
        await psycopg.AsyncConnection.connect(database_url, autocommit=True) as watcher,
        Client.connect(database_url) as other,
    ):
        async with watcher.transaction():
            await watcher.execute("select pg_advisory_xact_lock(hashtextextended('holdfast defaults default', 0))")
            changes = [
                asyncio.create_task(client.set_defaults({"retry.initial_delay_seconds": 60})),
                asyncio.create_task(other.set_defaults({"retry.max_delay_seconds": 30})),
            ]

            async def both_wait() -> bool:
                return await (await watcher.execute(waiting)).fetchone() == (2,)

            await eventually(both_wait)
        done = await asyncio.gather(*changes, return_exceptions=True)
    assert sum(isinstance(one, InvalidInput) for one in done) == 1, done
    values = {one.name: one.value for one in (await client.defaults()).defaults}
    assert values["retry.initial_delay_seconds"] <= values["retry.max_delay_seconds"]


async def test_a_default_of_a_later_version_does_no_harm(client: Client, store: PostgresStore) -> None:
    await client.set_defaults({"retry.max_retries": 5})
    async with store.connections.use("test") as connection:
        await connection.execute(
            "insert into defaults (tenant, name, value, actor) values ('default', 'retry.luck', %s, 'x')",
            (json.dumps(7),),
        )
    assert retry_of(await submitted(client, store, PLAIN)).max_retries == 5
    await client.set_defaults({"retry.max_retries": 6})
    assert "retry.luck" not in {one.name for one in (await client.defaults()).defaults}
