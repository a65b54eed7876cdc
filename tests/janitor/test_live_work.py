"""The janitor beside live work: it does nothing to healthy jobs, and under kills no task is doubled or lost."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from holdfast.errors import Transient
from holdfast.janitor.service import Janitor
from tests.conftest import eventually
from tests.running import SHORT_LEASES, Engine, client_of, registry, serving

pytestmark = pytest.mark.anyio

BUSY = """
workflow_id: busy
inputs: {items: {type: array}}
nodes:
  before: {handler: echo, next: spread}
  spread:
    type: fan_out
    source: "{{ inputs.items }}"
    task: {handler: shaky, params: {item: "{{ item }}"}, retry: {max_retries: 5, initial_delay_seconds: 0.02}}
    next: gather
  gather: {type: fan_in, aggregation: sum, next: after}
  after: {handler: echo}
"""
ITEMS, JOBS = 40, 4


async def tidy_without_end(engine: Engine, findings: Counter[str]) -> None:
    """Do pass after pass, as fast as possible."""
    janitor = Janitor(engine.store.janitor(), "restless", lease_seconds=10.0)
    while True:
        for finding in await janitor.run_once():
            findings[f"{finding.duty}: {finding.reason}"] += 1
        findings["passes"] += 1
        await asyncio.sleep(0)


def shaky(tried: Counter[int]) -> object:
    async def run(item: int) -> int:
        tried[item] += 1
        if tried[item] % 7 == 3:
            raise Transient("not this time")
        return 1

    return run


async def all_completed(engine: Engine, jobs: list[str]) -> None:
    for job_id in jobs:
        ended = await engine.finished(job_id, 120.0)
        assert (ended["status"], ended["counts"]["completed"]) == ("completed", ITEMS + 2), ended["error"]
        assert ended["result"]["echoed_params"] == {}
        assert (await engine.outputs(job_id))["gather"] == {"total": ITEMS, "count": ITEMS}


async def test_the_janitor_does_nothing_to_healthy_jobs_invariant_16(database_url: str) -> None:
    findings: Counter[str] = Counter()
    handlers = registry(shaky=shaky(Counter()))  # type: ignore[arg-type]
    async with client_of(database_url) as engine, client_of(database_url) as other, serving(database_url, handlers):
        store = asyncio.create_task(tidy_without_end(other, findings))
        jobs = [await engine.submit(BUSY, {"items": list(range(ITEMS))}, key=str(n)) for n in range(JOBS)]
        await all_completed(engine, jobs)
        store.cancel()
    assert findings.pop("passes") > 5
    assert findings == {}


async def test_under_kills_no_task_is_doubled_or_lost_invariant_16(database_url: str) -> None:
    """Services start and lose their connections, again and again, while the janitor does pass after pass."""
    findings: Counter[str] = Counter()
    tried: Counter[int] = Counter()
    handlers = registry(shaky=shaky(tried))  # type: ignore[arg-type]
    async with client_of(database_url) as engine, client_of(database_url) as other:
        store = asyncio.create_task(tidy_without_end(other, findings))
        jobs = [await engine.submit(BUSY, {"items": list(range(ITEMS))}, key=str(n)) for n in range(JOBS)]
        for lives in range(3):
            async with serving(database_url, handlers, concurrency=2, **SHORT_LEASES):

                async def has_progressed(least: int = 20 * (lives + 1)) -> bool:
                    return tried.total() >= least

                await eventually(has_progressed)
                await engine.query(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and application_name ~ 'worker|orchestrator'"
                )
                await engine.query("update holdfast.workers set lease_until = now() - interval '1 s'")
        async with serving(database_url, handlers, **SHORT_LEASES):
            await all_completed(engine, jobs)
        store.cancel()
        rows = await engine.query("select count(*), count(distinct (job_id, node, item)) from holdfast.tasks")
        acted = await engine.query("select count(*) from holdfast.events where event = 'janitor_acted'")
    assert rows == [(JOBS * (ITEMS + 2),) * 2]
    assert acted == [(0,)]
    assert {text for text in findings if not text.startswith(("passes", "expired_leases"))} == set()
