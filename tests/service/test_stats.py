"""What happened over time: the janitor counts each event once, however often and however late it looks."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import psycopg
import pytest

from holdfast.client import Client
from holdfast.define.load import load_text
from holdfast.janitor.rollup import Rollup
from holdfast.operations.scope import Scope
from tests.conftest import eventually
from tests.running import Engine, client_of, registry, running
from tests.service.serving import API, Service, serving_http

pytestmark = pytest.mark.anyio

PATIENT: dict[str, Any] = {"owner_lease_seconds": 600.0}
"""With so long a lease the services' own janitor does nothing: only the passes of the test count."""
WIDE = """
workflow_id: wide
nodes:
  each:
    type: fan_out
    source: "{{ [0, 1, 2, 3, 4, 5] }}"
    task: {handler: sometimes, params: {item: "{{ item }}"}, retry: {max_retries: 1, initial_delay_seconds: 0.01}}
    tolerate: {failures: 3}
    next: gather
  gather: {type: fan_in, next: last}
  last: {handler: echo}
"""
NAMES = (
    "jobs_submitted", "jobs_completed", "jobs_partial", "jobs_failed", "jobs_cancelled", "tasks_completed",
    "tasks_failed", "tasks_skipped", "tasks_cancelled", "attempts_failed",
)  # fmt: skip


def sometimes(item: int) -> int:
    if item == 3:
        raise ValueError("never")
    return item


async def count(engine: Engine) -> None:
    """One pass of the duty."""
    await Rollup(1.0).do(engine.store.janitor())


async def totals(engine: Engine, tenant: str | None = None) -> dict[str, int]:
    """The sums of all minutes, without those that are zero."""
    sums = ", ".join(f"coalesce(sum({name}), 0)::int" for name in NAMES)
    where = f"where tenant = '{tenant}'" if tenant is not None else ""
    (row,) = await engine.query(f"select {sums} from holdfast.stats {where}")
    return {name: number for name, number in zip(NAMES, row, strict=True) if number}


async def test_jobs_tasks_and_failed_attempts_are_counted_as_they_ended(database_url: str) -> None:
    async with running(database_url, registry(sometimes=sometimes), **PATIENT) as engine:
        assert (await engine.run(WIDE))["status"] == "partial"
        failed = await engine.run("workflow_id: f\nnodes: {a: {handler: fail, params: {permanent: true}}}")
        assert failed["status"] == "failed"
        await count(engine)
        # Five items, and the node `last`; the failed item had two attempts, the failed node one.
        assert await totals(engine) == {
            "jobs_submitted": 2, "jobs_partial": 1, "jobs_failed": 1, "tasks_completed": 6, "tasks_failed": 2,
            "attempts_failed": 3,
        }  # fmt: skip


async def test_items_that_a_cancel_ends_together_count_each(database_url: str) -> None:
    async with client_of(database_url) as engine, running(database_url, registry(), **PATIENT):
        wide = "workflow_id: w\nnodes: {e: {type: fan_out, source: '{{ [1, 2, 3] }}', task: {handler: unserved}}}"
        job_id = await engine.submit(wide)

        async def are_queued() -> bool:
            return await engine.query("select count(*) from holdfast.queue") == [(3,)]

        await eventually(are_queued)
        await engine.client.cancel(job_id)
        await engine.finished(job_id)
        await count(engine)
        assert await totals(engine) == {"jobs_submitted": 1, "jobs_cancelled": 1, "tasks_cancelled": 3}


async def test_passes_one_after_the_other_and_at_once_count_each_event_once(database_url: str) -> None:
    async with running(database_url, **PATIENT) as engine, client_of(database_url) as other:
        for number in range(5):
            await engine.submit("workflow_id: w\nnodes: {a: {handler: echo}}", key=str(number))
            await asyncio.gather(count(engine), count(other), count(engine))

        async def all_ended() -> bool:
            await asyncio.gather(count(engine), count(other))
            return (await totals(engine)).get("jobs_completed") == 5

        await eventually(all_ended)
        await asyncio.gather(*(count(one) for one in (engine, other) for _ in range(3)))
        assert await totals(engine) == {"jobs_submitted": 5, "jobs_completed": 5, "tasks_completed": 5}
        events = Counter(name for (name,) in await engine.query("select event from holdfast.events"))
        assert events["job_created"] == 5


async def test_an_event_whose_transaction_commits_late_counts_once_in_its_own_minute(database_url: str) -> None:
    async with client_of(database_url) as engine:
        job_id = await engine.submit("workflow_id: w\nnodes: {a: {handler: echo}}")
        late = await psycopg.AsyncConnection.connect(database_url)
        async with late:
            await late.execute(
                "insert into holdfast.events (job_id, seq, event, at)"
                " values (%s, 2, 'job_completed', now() - interval '7 minutes')",
                (job_id,),
            )
            await count(engine)
            other = await engine.submit("workflow_id: w\nnodes: {a: {handler: echo}}", key="other")
            assert other != job_id
            await count(engine)
            assert await totals(engine) == {"jobs_submitted": 2}, "what is not committed does not count"
            await late.commit()
        await count(engine)
        await count(engine)
        assert await totals(engine) == {"jobs_submitted": 2, "jobs_completed": 1}
        rows = await engine.query(
            "select minute <= now() - interval '6 minutes' from holdfast.stats where jobs_completed = 1"
        )
        assert rows == [(True,)]


async def test_a_pass_that_does_not_commit_has_counted_nothing(database_url: str) -> None:
    async with client_of(database_url) as engine:
        await engine.submit("workflow_id: w\nnodes: {a: {handler: echo}}")
        await engine.query("alter table holdfast.stats add constraint nothing_yet check (jobs_submitted = 0)")
        try:
            with pytest.raises(psycopg.errors.CheckViolation):
                await count(engine)
        finally:
            await engine.query("alter table holdfast.stats drop constraint nothing_yet")
        assert await totals(engine) == {}
        await count(engine)
        assert await totals(engine) == {"jobs_submitted": 1}


async def test_a_database_with_another_history_of_transactions_counts_on(database_url: str) -> None:
    async with client_of(database_url) as engine:
        await engine.submit("workflow_id: w\nnodes: {a: {handler: echo}}")
        await engine.query(
            "insert into holdfast.stats_progress (snapshot) values ('9000000000:9000000000:'::pg_snapshot)"
            " on conflict (is_only_row) do update set snapshot = excluded.snapshot"
        )
        await count(engine)
        await engine.submit("workflow_id: w\nnodes: {a: {handler: echo}}", key="new")
        await count(engine)
        assert await totals(engine) == {"jobs_submitted": 1}


async def test_old_minutes_are_deleted_after_their_time(database_url: str) -> None:
    async with client_of(database_url) as engine:
        await engine.submit("workflow_id: w\nnodes: {a: {handler: echo}}")
        await count(engine)
        await engine.query(
            "insert into holdfast.stats (tenant, minute, jobs_failed) values ('default', now() - interval '12 days', 4)"
        )
        await engine.client.run_janitor(stats_days=20)
        assert await totals(engine) == {"jobs_submitted": 1, "jobs_failed": 4}
        await engine.client.run_janitor(stats_days=10)
        assert await totals(engine) == {"jobs_submitted": 1}


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_http(database_url) as service:
        yield service


async def steps(client: httpx2.AsyncClient, **wanted: str) -> list[dict[str, Any]]:
    answer = await client.get(f"{API}/stats", params=wanted)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_steps_are_sums_of_minutes_and_steps_without_events_are_zero(service: Service, database_url: str) -> None:
    async with client_of(database_url) as engine:
        hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
        for minute, number in ((0, 2), (30, 3), (61, 5)):
            await engine.query(
                "insert into holdfast.stats (tenant, minute, jobs_failed) values ('default', %s, %s)",
                hour + timedelta(minutes=minute),
                number,
            )
    client = await service.as_role("viewer")
    by_hour = await steps(client, since=(hour + timedelta(minutes=7)).isoformat(), step="3600")
    assert [one["jobs_failed"] for one in by_hour] == [5, 5, 0, 0]
    assert datetime.fromisoformat(by_hour[0]["start"]) == hour
    by_minute = await steps(client, since=hour.isoformat())
    assert sum(one["jobs_failed"] for one in by_minute) == 10
    assert by_minute[30]["jobs_failed"] == 3
    assert len(await steps(client)) == 60


async def test_a_time_that_is_still_to_come_has_no_steps(service: Service) -> None:
    client = await service.as_role("viewer")
    for since in ("2999-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        assert await steps(client, since=since) == []
    beyond = await client.get(f"{API}/stats", params={"since": "9999-12-31T23:59:59-14:00"})
    assert (beyond.status_code, beyond.json()["errors"][0]["path"]) == (422, "query.since")


async def test_a_tenant_sees_its_own_numbers_and_an_administrator_of_all_the_sums(
    service: Service, database_url: str
) -> None:
    async with client_of(database_url) as engine:
        for tenant in ("default", "acme", "acme"):
            scope = Scope(tenant, "ann@desk")
            flow = load_text("workflow_id: w\nnodes: {a: {handler: echo}}")
            await Client(engine.store, scope).submit(flow, force=True)
        await count(engine)

    async def submitted(client: httpx2.AsyncClient, **wanted: str) -> int:
        return sum(one["jobs_submitted"] for one in await steps(client, **wanted))

    assert await submitted(await service.as_role("viewer")) == 1
    assert await submitted(await service.as_role("viewer", tenant="acme")) == 2
    assert await submitted(await service.as_role("viewer", tenant="empty")) == 0
    admin = service.with_key(await service.key("admin", tenant="*"))
    assert (await submitted(admin), await submitted(admin, tenant="acme")) == (3, 2)
    assert (await (await service.as_role("worker")).get(f"{API}/stats")).status_code == 403


@pytest.mark.parametrize(
    "wanted",
    [
        {"step": "90"},
        {"step": "0"},
        {"since": "2001-01-01T00:00:00Z"},
        {"since": "2026-01-01T00:00:00"},
        {"since": "0001-01-01T00:00:00+14:00"},
    ],
)
async def test_steps_that_cannot_be_shown_are_refused(service: Service, wanted: dict[str, str]) -> None:
    client = await service.as_role("viewer")
    assert (await client.get(f"{API}/stats", params=wanted)).status_code == 422


async def test_the_running_janitor_counts_by_itself(database_url: str) -> None:
    async with running(database_url, owner_lease_seconds=1.0, owner_renew_seconds=0.2) as engine:
        await engine.run("workflow_id: w\nnodes: {a: {handler: echo}}")

        async def is_counted() -> bool:
            return (await totals(engine)).get("jobs_completed") == 1

        await eventually(is_counted)
