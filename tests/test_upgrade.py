"""A database of an older version migrates, and its jobs go on."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from holdfast.client import Client
from holdfast.operations.scope import Scope
from holdfast.operations.verbs import Verb, VerbRequest
from holdfast.store import migrate as migrating
from holdfast.store.migrate import apply_missing
from holdfast.store.schema import migrations
from tests.running import SHORT_LEASES, registry, running

pytestmark = pytest.mark.anyio

ROWS = (Path(__file__).parent / "store" / "rows_of_0016.sql").read_text(encoding="utf-8")
JOBS = dict(job.split("=") for job in ROWS.splitlines()[1].removeprefix("-- jobs: ").split())
"""The jobs by the state in which the upgrade finds them."""


async def act(how: str) -> dict[str, str]:
    """Completes now. Under the older version it failed for some params, or did not end."""
    return {"did": how}


async def carry_out(client: Client, job_id: str, verb: Verb, node: str | None = None) -> None:
    await client.carry_out(await client.plan(job_id, VerbRequest(verb, node)))


async def test_open_paused_failed_and_partial_jobs_of_an_older_database_go_on(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = migrations()
    with monkeypatch.context() as older:
        older.setattr(migrating, "migrations", lambda: everything[:16])
        await apply_missing(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        connection.execute(ROWS.encode())
        # The rows are old; the upgrade comes before the attempts that run have reached their time limit.
        connection.execute("update holdfast.queue set deadline_at = now() + interval '1 hour' where state = 'leased'")
    assert await apply_missing(empty_database_url) == list(everything[16:])
    async with running(empty_database_url, registry(act=act), **SHORT_LEASES) as engine:
        before = {name: await engine.status(job_id) for name, job_id in JOBS.items()}
        ended = {"completed": "completed", "failed": "failed", "partial": "partial"}
        assert {name: before[name]["status"] for name in ended} == ended
        assert before["completed"]["result"] == {"did": "good"}
        for name in ("open", "leased", "retrying"):
            assert (await engine.finished(JOBS[name]))["status"] == "completed", name
        assert (await engine.status(JOBS["paused"]))["status"] == "running"
        await engine.client.unpause(JOBS["paused"])
        await carry_out(engine.client, JOBS["failed"], Verb.RESUME)
        await carry_out(engine.client, JOBS["partial"], Verb.RETRY, "each")
        for name in ("paused", "failed", "partial"):
            assert (await engine.finished(JOBS[name]))["status"] == "completed", name
        partial = await engine.status(JOBS["partial"])
        assert partial["result"]["count"] == 3
        assert partial["generation"] == 2


async def test_a_tenant_of_an_older_database_finds_the_definitions_of_its_jobs(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = migrations()
    with monkeypatch.context() as older:
        older.setattr(migrating, "migrations", lambda: everything[:16])
        await apply_missing(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        connection.execute(ROWS.encode())
        connection.execute("update holdfast.jobs set tenant = 'acme' where status = 'completed'")
    await apply_missing(empty_database_url)
    for tenant in ("default", "acme"):
        async with Client.connect(empty_database_url, Scope(tenant)) as client:
            assert (await client.definition("one")).workflow_id == "one"
