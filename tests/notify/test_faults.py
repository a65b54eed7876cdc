"""Processes that die, stand still or lose their database at each point between an event and its receiver."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from holdfast.errors import Permanent
from holdfast.failpoint import POINTS
from holdfast.notify.service import LEASE_SECONDS
from tests.conftest import eventually
from tests.marks import rest_in_chaos
from tests.notify.mailbox import mailbox
from tests.notify.receiver import Receiver
from tests.notify.stage import Stage
from tests.running import registry, running

pytestmark = pytest.mark.anyio

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
OURS = [point for point in POINTS if point.startswith("delivery.")]
STRIKES = rest_in_chaos(
    product(OURS, ("kill", "stop", "error")), ("delivery.sent", "kill"), ("delivery.marked", "error")
)


@contextmanager
def orchestrator(url: str, home: Path, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "HOLDFAST_DATABASE_URL": url,
        "HOLDFAST_HOME": str(home),
        "HOLDFAST_POLL_SECONDS": "0.2",
        "HOLDFAST_OUTGOING_ALLOW": "127.0.0.1",
        **more,
    }
    process = subprocess.Popen(
        [HOLDFAST, "orchestrator"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize(("point", "action"), STRIKES)
async def test_invariant_28_nothing_is_lost_when_a_process_is_struck(
    stage: Stage, receiver: Receiver, database_url: str, tmp_path: Path, point: str, action: str
) -> None:
    await stage.webhook(receiver.url, events=["node_failed", "job_failed"])
    jobs = [str(uuid.uuid4()) for _ in range(3)]
    for job_id in jobs:
        await stage.note("node_failed", job_id=job_id)
        await stage.note("job_failed", job_id=job_id)
    once = tmp_path / "once"
    fault = {"HOLDFAST_FAILPOINT": f"{point}:{action}@1", "HOLDFAST_FAILPOINT_ONCE": str(once)}

    async def is_struck() -> bool:
        return (once / point).exists()

    async def all_sent() -> bool:
        return {status for status, *_ in await stage.deliveries()} == {"sent"}

    with orchestrator(database_url, tmp_path, **fault):
        await eventually(is_struck)
        with orchestrator(database_url, tmp_path):
            await stage.pass_time(LEASE_SECONDS + 1)
            await eventually(all_sent, 60)
    ids = dict(await stage.sql("select delivery_id::text, outbox_id from deliveries"))
    assert set(receiver.ids) == ids.keys()
    assert len(ids) == 6
    # A receiver that forgets duplicates sees the events of each job in their order.
    for job_id in jobs:
        of_job = [request for request in receiver.requests if request.json["data"]["job_id"] == job_id]
        firsts = list(dict.fromkeys(request.id for request in of_job))
        assert [ids[one] for one in firsts] == sorted(ids[one] for one in firsts)


@pytest.mark.parametrize("point", rest_in_chaos(OURS, "delivery.claimed"))
async def test_each_event_is_in_one_mail_when_a_process_is_killed(
    stage: Stage, database_url: str, tmp_path: Path, point: str
) -> None:
    await stage.sql("insert into notify_settings (tenant, mail_domains) values ('default', array['example.org'])")
    rules = [{"email": "ann@example.org"}]
    for item in range(3):
        await stage.note("task_exhausted", node="each", items=[item], rules=rules)
    await stage.note("job_failed", rules=rules)
    once = tmp_path / "once"

    async def is_struck() -> bool:
        return (once / point).exists()

    async def all_sent() -> bool:
        return {status for status, *_ in await stage.deliveries()} == {"sent"}

    async with mailbox() as box:
        mails = {"HOLDFAST_SMTP_URL": f"smtp://127.0.0.1:{box.port}", "HOLDFAST_SMTP_FROM": "holdfast@example.org"}
        fault = {"HOLDFAST_FAILPOINT": f"{point}:kill@1", "HOLDFAST_FAILPOINT_ONCE": str(once)}
        with orchestrator(database_url, tmp_path, **mails, **fault):
            await eventually(is_struck)
            with orchestrator(database_url, tmp_path, **mails):
                await stage.pass_time(LEASE_SECONDS + 1)
                await eventually(all_sent, 60)
    contents = {str(mail["Message-ID"]): str(mail.get_body(("plain",))) for mail in box.mails}
    ((mails_made,),) = await stage.sql("select count(distinct head_id) from deliveries")
    assert len(contents) == mails_made == 1
    assert [text.count("1 item failed in each") for text in contents.values()] == [3]


async def test_a_receiver_that_is_down_for_a_while_has_each_event_of_a_job_once_by_its_id(
    stage: Stage, receiver: Receiver, database_url: str
) -> None:
    await stage.webhook(receiver.url, events=["task_exhausted", "job_failed"])
    receiver.mode = 500

    def draw(item: int) -> int:
        raise Permanent(f"nothing covers {item}", "NO_COVERAGE")

    items = ", ".join(map(str, range(50)))
    flow = f"""
workflow_id: stacks
nodes:
  each:
    type: fan_out
    source: "{{{{ [{items}] }}}}"
    task: {{handler: draw, params: {{item: "{{{{ item }}}}"}}, retry: {{max_retries: 0}}}}
"""
    async with running(database_url, registry(draw=draw), outgoing_allow=("127.0.0.1",)) as engine:
        status = await engine.run(flow)

        async def was_tried() -> bool:
            return bool(receiver.requests)

        await eventually(was_tried)
        receiver.mode = 200

        async def all_sent() -> bool:
            await stage.retry_now()
            return {row[0] for row in await stage.deliveries()} == {"sent"}

        await eventually(all_sent, 60)
    assert status["status"] == "failed"
    taken = {request.id: request.json for request in receiver.requests}
    noted = await stage.sql("select d.delivery_id::text, o.event from deliveries d join outbox o using (outbox_id)")
    assert taken.keys() == {row[0] for row in noted}
    assert sum(one["data"]["count"] for one in taken.values() if one["type"] == "task_exhausted") == 50
    (end,) = [one["data"] for one in taken.values() if one["type"] == "job_failed"]
    assert (end["state"], end["job_id"]) == ("FAILED", status["job_id"])
    assert end["outcome"]["recovery"][0]["command"] == f"holdfast resume {status['job_id']}"
    # The end of the job is the last that it takes for the first time.
    assert list(taken.values())[-1]["type"] == "job_failed"


async def test_a_process_that_stops_sends_what_is_due_before_it_ends(
    stage: Stage, receiver: Receiver, database_url: str, tmp_path: Path
) -> None:
    await stage.webhook(receiver.url)
    with orchestrator(database_url, tmp_path, HOLDFAST_POLL_SECONDS="3600") as process:

        async def is_there() -> bool:
            return bool(await stage.sql("select 1 from orchestrators where ended_at is null"))

        await eventually(is_there)
        await stage.note()
        process.terminate()
        assert await asyncio.to_thread(process.wait, 20) == 0
    assert [status for status, *_ in await stage.deliveries()] == ["sent"]


async def test_a_job_is_not_slowed_by_a_receiver_that_hangs(
    stage: Stage, receiver: Receiver, database_url: str
) -> None:
    """The cycle of an owner knows nothing of receivers: a whole job runs while they hang."""
    await stage.webhook(receiver.url)
    receiver.mode = "hangs"
    for _ in range(20):
        await stage.note(job_id=None)
    async with running(database_url, outgoing_allow=("127.0.0.1",)) as engine:

        async def hangs() -> bool:
            return len(receiver.requests) == 4

        await eventually(hangs)
        status = await engine.run("workflow_id: w\nnodes: {a: {handler: echo}}")
        assert status["status"] == "completed"
        await receiver.end()
