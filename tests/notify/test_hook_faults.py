"""Hooks of apps in real processes: with and without the app, and struck at each point."""

from __future__ import annotations

import asyncio
import os
import subprocess
import uuid
from pathlib import Path

import pytest

from holdfast.notify.service import LEASE_SECONDS
from tests.conftest import eventually
from tests.notify.hook_app import HOOK, HookApp
from tests.notify.receiver import Receiver
from tests.notify.stage import Stage
from tests.notify.test_faults import HOLDFAST, STRIKES, orchestrator
from tests.running import running

pytestmark = pytest.mark.anyio

FLOW = "workflow_id: tides\nnodes: {a: {handler: echo}}\n"


async def test_a_job_that_a_real_process_runs_calls_its_hook_before_the_process_ends(
    app: HookApp, stage: Stage, database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "tides.yaml"
    file.write_text(FLOW)
    settings = {"HOLDFAST_DATABASE_URL": database_url, "HOLDFAST_HOME": str(tmp_path), **app.environment}
    ran = await asyncio.to_thread(
        subprocess.run, [HOLDFAST, "run", str(file)], env={**os.environ, **settings}, capture_output=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert [(words[3], words[4]) for words in app.ends] == [("tides", "completed")]
    assert await stage.deliveries("kind, receiver, status") == [("hook", f"hook:{HOOK}", "sent")]
    listed = await asyncio.to_thread(
        subprocess.run, [HOLDFAST, "deliveries"], env={**os.environ, **settings}, capture_output=True, timeout=60
    )
    assert f"hook {HOOK}" in listed.stdout.decode()


async def test_a_process_without_the_app_notes_ends_for_the_hook_and_leaves_them_to_those_that_have_it(
    app: HookApp, stage: Stage, receiver: Receiver, database_url: str, tmp_path: Path
) -> None:
    await stage.webhook(receiver.url, events=["job_completed"])
    async with running(database_url, outgoing_allow=("127.0.0.1",)) as engine:
        await engine.run(FLOW)
        # As another process does that has the app.
        await stage.store.announce_hooks([HOOK])

        async def is_noted() -> bool:
            status = await engine.run(FLOW.replace("tides", f"tides{uuid.uuid4().hex[:8]}"))
            return bool(
                await stage.sql("select 1 from deliveries where kind = 'hook' and job_id = %s::uuid", status["job_id"])
            )

        await eventually(is_noted)

        async def webhooks_have_all() -> bool:
            return not await stage.sql("select 1 from deliveries where kind = 'webhook' and status <> 'sent'")

        await eventually(webhooks_have_all)
        waiting = await stage.sql("select job_id::text, status, tries from deliveries where kind = 'hook'")
    assert {row[1:] for row in waiting} == {("waiting", 0)}
    with orchestrator(database_url, tmp_path, **app.environment):
        await eventually(stage.all_sent)
    assert sorted(words[1] for words in app.ends) == sorted(row[0] for row in waiting)


@pytest.mark.parametrize(("point", "action"), STRIKES)
async def test_invariant_28_no_end_is_lost_to_a_hook_when_a_process_is_struck(
    app: HookApp, stage: Stage, database_url: str, tmp_path: Path, point: str, action: str
) -> None:
    await stage.store.announce_hooks([HOOK])
    jobs = [str(uuid.uuid4()) for _ in range(3)]
    for job_id in jobs:
        await stage.note("job_failed", job_id=job_id, tenant="maps")
        await stage.note("job_completed", job_id=job_id, tenant="maps")
    once = tmp_path / "once"
    fault = {"HOLDFAST_FAILPOINT": f"{point}:{action}@1", "HOLDFAST_FAILPOINT_ONCE": str(once)}

    async def is_struck() -> bool:
        return (once / point).exists()

    with orchestrator(database_url, tmp_path, **app.environment, **fault):
        await eventually(is_struck)
        with orchestrator(database_url, tmp_path, **app.environment):
            await stage.pass_time(LEASE_SECONDS + 1)
            await eventually(stage.all_sent)
    ids = dict(await stage.sql("select delivery_id::text, outbox_id from deliveries"))
    assert len(ids) == 6
    assert {words[0] for words in app.ends} == ids.keys()
    for job_id in jobs:
        # A hook that forgets what it has handled sees the ends of each job in their order.
        firsts = list(dict.fromkeys(words[0] for words in app.ends if words[1] == job_id))
        assert [ids[one] for one in firsts] == sorted(ids[one] for one in firsts)
