"""Each duty finds damage that a test has done in the database, logs it, and makes the job's owner repair it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.assembly import new_janitor
from holdfast.client import Client
from holdfast.janitor.service import Janitor
from holdfast.operations.scope import Scope
from holdfast.operations.verbs import Verb, VerbRequest
from holdfast.settings import Settings
from holdfast.store.payloads import Folder, Payloads, digest_of
from holdfast.store.postgres import PostgresStore
from holdfast.store.upkeep_rows import Finding
from tests.conftest import eventually
from tests.running import SHORT_LEASES, Engine, client_of, registry, serving

pytestmark = pytest.mark.anyio

ECHO = "workflow_id: echo_test\nnodes: {a: {handler: echo, next: b}, b: {handler: echo}}"
WIDE = """
workflow_id: wide
inputs: {items: {type: array}}
nodes:
  spread: {type: fan_out, source: "{{ inputs.items }}", task: {handler: hold, params: {item: "{{ item }}"}}, next: end}
  end: {handler: echo}
"""
LATE = "workflow_id: late\ntimeout_seconds: 3600\nnodes: {a: {handler: unserved}}"
PATIENT: dict[str, Any] = {"owner_lease_seconds": 600.0}
"""With so long a lease the services' own janitor does nothing: only the janitor of the test acts."""


class Bench:
    """A database with an orchestrator, a client, and a janitor that does one pass on request."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store = engine.store.janitor()

    def janitor(self) -> Janitor:
        return Janitor(self.store, "by hand", lease_seconds=10.0)

    async def tidy(self) -> list[tuple[str, str]]:
        return [(f.duty, f.action) for f in await self.janitor().run_once()]

    async def damage(self, statement: str, *parameters: Any) -> None:
        async with self.engine.store.connections.use("damage") as connection:
            cursor = await connection.execute(statement.encode(), parameters)
            assert cursor.rowcount > 0, "nothing was damaged"

    async def events(self, job_id: str, name: str) -> list[dict[str, Any]]:
        return [event for event in await self.engine.events(job_id) if event["event"] == name]

    async def queued(self, job_id: str, number: int) -> None:
        async def are_queued() -> bool:
            rows = await self.engine.query("select count(*) from holdfast.queue where job_id = %s", job_id)
            return bool(rows == [(number,)])

        await eventually(are_queued)

    async def repaired(self, job_id: str) -> dict[str, Any]:
        """The data of the event that the owner writes for its repair."""

        async def repairs() -> list[dict[str, Any]]:
            return await self.events(job_id, "janitor_acted")

        (event,) = await eventually(repairs)
        return dict(event["data"])


@asynccontextmanager
async def bench(url: str) -> AsyncIterator[Bench]:
    async with client_of(url) as engine, serving(url, work=False, **PATIENT):
        yield Bench(engine)


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Bench]:
    async with bench(database_url) as made:
        yield made


async def finish(scene: Bench, job_id: str, status: str = "completed") -> dict[str, Any]:
    """Start a worker and wait for the end of the job; then a pass finds nothing."""
    handlers = registry(hold=lambda item: item)
    async with serving(scene.engine.url, handlers, orchestrate=False, **PATIENT):
        ended = await scene.engine.finished(job_id)
    assert ended["status"] == status, ended["error"]
    assert await scene.tidy() == []
    return ended


async def test_a_task_without_a_queue_row_is_queued_again_as_a_new_epoch(scene: Bench) -> None:
    job_id = await scene.engine.submit(ECHO)
    await scene.queued(job_id, 1)
    assert await scene.tidy() == []
    await scene.damage("delete from queue where job_id = %s", job_id)
    assert await scene.tidy() == [("stuck_tasks", "recheck")]
    assert (await scene.repaired(job_id))["requeued"] == {"a": []}
    assert await scene.engine.query("select epoch, attempt from holdfast.queue") == [(2, 2)]
    await finish(scene, job_id)


async def test_a_task_that_vanishes_again_and_again_fails_and_a_recovery_gives_it_new_chances(
    database_url: str,
) -> None:
    async with client_of(database_url) as engine:
        scene = Bench(engine)

        async def vanish(job_id: str) -> None:
            await scene.queued(job_id, 1)
            await scene.damage("delete from queue where job_id = %s", job_id)
            assert await scene.tidy() == [("stuck_tasks", "recheck")]

        async with serving(database_url, work=False, requeue_limit=1, **PATIENT):
            job_id = await engine.submit("workflow_id: echo_test\nnodes: {a: {handler: echo}}")
            await vanish(job_id)
            await vanish(job_id)
            ended = await engine.finished(job_id)
            error = ended["error"]
            assert (ended["status"], error["code"], error["class"], error["attempt"]) == (
                ("failed", "REQUEUE_LIMIT", "transient", 2)
            )
            assert error["hint"].startswith("Find out what deletes rows of the table queue")
            assert await engine.query("select requeue_count from holdfast.tasks") == [(1,)]
            await engine.client.carry_out(await engine.client.plan(job_id, VerbRequest(Verb.RESUME)))
            assert await engine.query("select requeue_count, attempt from holdfast.tasks") == [(0, 2)]
            await vanish(job_id)
            await finish(scene, job_id)


async def test_lost_items_of_a_fan_out_are_queued_again_and_the_others_do_not_change(scene: Bench) -> None:
    job_id = await scene.engine.submit(WIDE, {"items": list(range(20))})
    await scene.queued(job_id, 20)
    await scene.damage("delete from queue where job_id = %s and item in (3, 4, 17)", job_id)
    (finding,) = await scene.janitor().run_once()
    assert (finding.duty, finding.node, finding.item) == ("stuck_tasks", "spread", None)
    assert finding.before == {"tasks": 3, "first": [3, 4, 17]}
    assert (await scene.repaired(job_id))["requeued"] == {"spread": [[3, 4], [17, 17]]}
    epochs = await scene.engine.query("select item, epoch from holdfast.queue where epoch > 1 order by item")
    assert epochs == [(3, 2), (4, 2), (17, 2)]
    ended = await finish(scene, job_id)
    assert ended["counts"]["completed"] == 21


async def test_a_missed_deadline_ends_the_job(scene: Bench) -> None:
    job_id = await scene.engine.submit(LATE)
    await scene.queued(job_id, 1)
    await scene.damage("update jobs set deadline_at = now() - interval '5 s' where job_id = %s", job_id)
    assert await scene.tidy() == [], "its owner may still be about to act"
    await scene.damage("update jobs set deadline_at = now() - interval '1 min' where job_id = %s", job_id)
    assert await scene.tidy() == [("deadlines", "recheck")]
    ended = await scene.engine.finished(job_id)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "JOB_TIMEOUT")


async def test_a_node_that_should_have_started_starts(scene: Bench) -> None:
    job_id = await scene.engine.submit(ECHO)
    await scene.queued(job_id, 1)
    await scene.damage(
        "with done as (update tasks set status = 'completed', attempt = 1, output = '7', finished_at = now()"
        " where job_id = %s returning job_id), gone as (delete from queue q using done d where q.job_id = d.job_id)"
        " update nodes n set status = 'completed', completed_count = 1, output = '7', finished_at = now()"
        " from done d where n.job_id = d.job_id and n.node = 'a'",
        job_id,
    )
    findings = [f for f in await scene.janitor().run_once() if f.duty == "stages"]
    assert [(f.node, f.before) for f in findings] == [("b", {"sources": {"a": "completed"}})]
    await scene.repaired(job_id)
    await scene.queued(job_id, 1)
    await finish(scene, job_id)


@pytest.mark.parametrize("counter", ["completed", "waiting"])
async def test_counters_are_recounted_from_the_tasks(scene: Bench, counter: str) -> None:
    job_id = await scene.engine.submit(WIDE, {"items": [1, 2, 3]})
    await scene.queued(job_id, 3)
    await scene.damage(f"update nodes set {counter}_count = 2 where job_id = %s and node = 'spread'", job_id)
    (finding,) = await scene.janitor().run_once()
    assert (finding.duty, finding.node) == ("counters", "spread")
    assert finding.reason == f"its counters are wrong: {counter} is 2 instead of 0"
    assert (await scene.repaired(job_id))["recounted"] == ["spread"]
    assert await scene.engine.query(f"select {counter}_count from holdfast.nodes where node = 'spread'") == [(0,)]
    await finish(scene, job_id)


async def test_a_job_whose_first_signal_was_lost_starts(database_url: str) -> None:
    async with client_of(database_url) as engine:
        scene = Bench(engine)
        job_id = await engine.submit(ECHO)
        assert await scene.tidy() == []
        await scene.damage("delete from inbox where job_id = %s", job_id)
        assert await scene.tidy() == [("idle_jobs", "recheck")]
        assert await scene.tidy() == [], "its recheck is still unread"
        async with serving(database_url, **PATIENT):
            assert (await engine.finished(job_id))["status"] == "completed"
        await scene.repaired(job_id)


async def test_a_completed_job_with_wrong_counters_gets_an_error_and_a_remedy(scene: Bench) -> None:
    sound, job_id = await scene.engine.submit(ECHO, key="sound"), await scene.engine.submit(WIDE, {"items": [1, 2, 3]})
    for one in (sound, job_id):
        await finish(scene, one)
    early = "update jobs set started_at = null, finished_at = finished_at - interval '11 s'"
    await scene.damage(early)
    await scene.damage("update tasks set status = 'ready', finished_at = null where job_id = %s and item = 1", job_id)
    janitor = scene.janitor()
    assert [(f.duty, f.action, f.job_id) for f in await janitor.run_once()] == [("ended_jobs", "recheck", job_id)]
    event_data = await scene.repaired(job_id)
    assert event_data["disagreeing"] == ["spread"]
    status = await scene.engine.status(job_id)
    assert (status["status"], status["error"]["code"], status["error"]["node"]) == (
        "completed",
        "COUNTERS_DISAGREE",
        "spread",
    )
    assert status["outcome"]["recovery"][0]["command"] == f"holdfast rerun {job_id} --from spread --yes"
    assert await janitor.run_once() == [], "the janitor should report it only once"
    assert (await scene.engine.status(sound))["error"] is None
    await scene.engine.client.send(job_id, VerbRequest(Verb.RERUN, "spread"))
    await scene.queued(job_id, 3)
    assert (await finish(scene, job_id))["error"] is None


STRAY = (
    "insert into queue (job_id, node, item, epoch, attempt, lane_id, owner, timeout_seconds)"
    " values (%s, 'a', -1, 9, 9, 1, 0, 60)"
)


async def test_an_owner_removes_queue_rows_of_a_finished_job(scene: Bench) -> None:
    job_id = await scene.engine.submit(ECHO)
    before = await finish(scene, job_id)
    await scene.damage(STRAY, job_id)
    await scene.damage("insert into inbox (job_id, kind) values (%s, 'cancel')", job_id)
    assert ("orphans", "recheck") in await scene.tidy()
    await scene.queued(job_id, 0)

    async def is_answered() -> bool:
        return await scene.engine.query("select applied from holdfast.answers") == [(False,)]

    await eventually(is_answered)
    assert await scene.engine.finished(job_id) == before, "a finished job should not change"
    assert await scene.tidy() == []


async def test_queue_rows_and_signals_of_jobs_that_do_not_exist_are_deleted_and_logged(scene: Bench) -> None:
    unknown_job = str(uuid.uuid4())
    await scene.damage(STRAY, unknown_job)
    await scene.damage("insert into inbox (owner, job_id, kind) values (777, %s, 'recheck')", unknown_job)
    done = [f for f in await scene.janitor().run_once() if f.duty == "orphans"]
    deleted = {(f.action, f.job_id, (f.before or {})["table"], (f.before or {})["job"]) for f in done}
    assert deleted == {("delete", unknown_job, "queue", None), ("delete", unknown_job, "inbox", None)}
    assert await scene.tidy() == []


async def test_a_queue_row_whose_lane_does_not_exist_is_queued_again_in_the_right_lane(scene: Bench) -> None:
    job_id = await scene.engine.submit(WIDE, {"items": [1, 2, 3]})
    await scene.queued(job_id, 3)
    await scene.damage("update queue set lane_id = 777 where job_id = %s and item = 1", job_id)
    assert await scene.tidy() == [("orphans", "delete"), ("stuck_tasks", "recheck")]
    assert (await scene.repaired(job_id))["requeued"] == {"spread": [[1, 1]]}
    await finish(scene, job_id)


async def test_deleted_lanes_are_created_again(scene: Bench) -> None:
    job_id = await scene.engine.submit(ECHO)
    await scene.queued(job_id, 1)
    await scene.damage("delete from lanes")
    assert await scene.tidy() == [("orphans", "delete"), ("stuck_tasks", "recheck")]
    await scene.repaired(job_id)
    assert await scene.engine.query("select 1 from holdfast.queue q join holdfast.lanes l using (lane_id)")
    await finish(scene, job_id)


async def test_an_orchestrator_that_ends_a_lease_logs_it(scene: Bench) -> None:
    job_id = await scene.engine.submit(ECHO)
    await scene.queued(job_id, 1)
    worker = await scene.engine.store.register_worker("gone", None, ["echo"], 1, 60.0)
    (lease,) = await scene.engine.store.claim(worker, None, ["echo"], 1)
    await scene.damage("update workers set lease_until = now() - interval '1 s'")

    async def actions() -> list[Any]:
        return await scene.engine.query("select duty, action, node, reason from holdfast.janitor_actions")

    async def has_actions() -> bool:
        return bool(await actions())

    await eventually(has_actions)
    assert await actions() == [("expired_leases", "expire", "a", "gone is gone")]
    assert lease.epoch == 1
    await finish(scene, job_id)


async def test_the_janitor_ends_leases_too(database_url: str) -> None:
    async with client_of(database_url) as engine:
        scene = Bench(engine)
        async with serving(database_url, work=False, **PATIENT):
            job_id = await engine.submit(ECHO)
            await scene.queued(job_id, 1)
        worker = await engine.store.register_worker("gone", None, ["echo"], 1, 60.0)
        await engine.store.claim(worker, None, ["echo"], 1)
        assert await scene.tidy() == []
        await scene.damage("update workers set lease_until = now() - interval '1 s'")
        assert await scene.tidy() == [("expired_leases", "expire")]
        assert await scene.tidy() == []
        assert await engine.query("select kind, outcome from holdfast.inbox") == [("report", "lost")]


async def test_many_equal_failures_raise_one_alert(scene: Bench, caplog: pytest.LogCaptureFixture) -> None:
    job_id = await scene.engine.submit(ECHO)
    await scene.queued(job_id, 1)
    error = '{"code": "HANDLER_ERROR", "message": "no route", "fingerprint": "f00"}'
    await scene.damage(
        "insert into attempts (job_id, node, item, attempt, epoch, outcome, error)"
        " select %s, 'a', n, 1, 1, 'failed', %s::jsonb from generate_series(1, 99) n",
        job_id,
        error,
    )
    assert await scene.tidy() == []
    await scene.damage(
        "insert into attempts (job_id, node, item, attempt, epoch, outcome, error)"
        " values (%s, 'a', 100, 1, 1, 'failed', %s::jsonb)",
        job_id,
        error,
    )
    with caplog.at_level(logging.WARNING, "holdfast.janitor"):
        assert await scene.tidy() == [("repeated_failures", "alert")]
        assert await scene.tidy() == []
    (record,) = [record for record in caplog.records if record.name == "holdfast.janitor"]
    reason = "100 equal failures in one job of echo_test within an hour: HANDLER_ERROR: no route"
    assert record.levelno == logging.ERROR
    line, _, since = record.getMessage().partition(", since=")
    assert line == f"janitor_alert: {reason} (severity=error, kind=repeated_failures, job={job_id}, count=100"
    assert since.endswith("Z, action=alert)")


async def test_a_breaker_that_stays_open_raises_an_alert_once_an_hour(scene: Bench) -> None:
    behind = "workflow_id: behind\nbreakers: {b: {cooldown_seconds: 60}}\nnodes: {a: {handler: echo, breaker: b}}"
    await scene.queued(await scene.engine.submit(behind), 1)
    opened = "insert into breaker_changes (name, state, reason, changed_at) values ('b', 'open', 'it fell', now() - %s)"
    await scene.damage("update breakers set state = 'open', until = now() + interval '1 h', reason = 'it fell'")
    await scene.damage(opened, timedelta(seconds=599))
    assert await scene.tidy() == []
    await scene.damage(opened, timedelta(seconds=601))
    (finding,) = await scene.janitor().run_once()
    assert (finding.duty, finding.action, finding.before and finding.before["breaker"]) == (
        "long_open_breakers",
        "alert",
        "b",
    )
    assert finding.reason.endswith("1 s, one task waits behind it: it fell")
    assert await scene.tidy() == []
    another = "insert into breakers (name, state, settings, changed_at) select 'c', state, settings, now() - %s"
    await scene.damage(f"{another} from breakers", timedelta(days=1))
    (other,) = await scene.janitor().run_once()
    assert other.before and other.before["breaker"] == "c"
    await scene.damage("update janitor_actions set at = now() - interval '61 minutes'")
    assert await scene.tidy() == [("long_open_breakers", "alert")] * 2


async def test_an_alert_is_an_event_for_the_webhooks_of_its_tenant_that_subscribe_to_it(scene: Bench) -> None:
    webhook = (
        "insert into webhooks (tenant, name, url, events, secret, created_by) values (%s, 'w', 'u', %s, 's', 'me')"
    )
    outbox = "select tenant, event, data ->> 'duty', job_id from outbox"
    behind = "workflow_id: behind\nbreakers: {b: {cooldown_seconds: 60}}\nnodes: {a: {handler: echo, breaker: b}}"
    await scene.queued(await scene.engine.submit(behind), 1)
    await scene.damage(webhook, "other", ["janitor_alert"])
    await scene.damage("update breakers set state = 'open', changed_at = now() - interval '1 day'")
    assert await scene.tidy() == [("long_open_breakers", "alert")]
    assert await scene.engine.query(outbox) == []
    await scene.damage(webhook, "default", ["janitor_alert", "job_failed"])
    await scene.damage("update janitor_actions set at = now() - interval '61 minutes'")
    assert await scene.tidy() == [("long_open_breakers", "alert")]
    assert await scene.engine.query(outbox) == [("default", "janitor_alert", "long_open_breakers", None)]


async def test_a_breaker_that_a_person_opened_raises_an_alert_after_a_day(scene: Bench) -> None:
    behind = "workflow_id: behind\nbreakers: {b: {cooldown_seconds: 1}}\nnodes: {a: {handler: echo, breaker: b}}"
    await scene.queued(await scene.engine.submit(behind), 1)
    await Client(scene.engine.store, Scope(actor="ann@server")).change_breaker("b", "open")
    await scene.damage("update breakers set changed_at = now() - interval '23 hours'")
    assert await scene.tidy() == []
    await scene.damage("update breakers set changed_at = now() - interval '25 hours'")
    (finding,) = await scene.janitor().run_once()
    assert finding.reason == (
        "breaker b, opened by ann@server, has been open for 90000 s, one task waits behind it: opened by hand"
    )


async def test_a_problem_that_no_recheck_repairs_raises_an_alert(scene: Bench) -> None:
    """A task row in the middle of a fan-out is missing: the owner cannot know the params of its item."""
    job_id = await scene.engine.submit(WIDE, {"items": [1, 2, 3]})
    await scene.queued(job_id, 3)
    await scene.damage("delete from queue where job_id = %s and item = 1", job_id)
    await scene.damage("delete from tasks where job_id = %s and item = 1", job_id)

    async def read() -> bool:
        return await scene.engine.query("select 1 from holdfast.inbox") == []

    for _ in range(3):
        assert await scene.tidy() == [("counters", "recheck")]
        await eventually(read)
    assert await scene.tidy() == [("counters", "alert")]
    assert await scene.tidy() == []
    (alert,) = [a for a in await scene.store.actions(10) if a.action == "alert"]
    assert alert.reason.endswith("; 3 attempts to repair it failed")


async def test_rows_of_ended_processes_and_old_log_lines_are_deleted(scene: Bench) -> None:
    run = str(uuid.uuid4())
    await scene.damage(
        "insert into janitor_actions (run, duty, action, reason, at)"
        " select %s, 'orphans', 'delete', 'long ago', now() - interval '31 days' from generate_series(1, 3)",
        run,
    )
    await scene.damage(
        "insert into workers (name, handlers, concurrency, lease_until, ended_at)"
        " values ('old', '{}', 1, now() - interval '2 h', now() - interval '2 h')"
    )
    await scene.damage(
        "with old as (insert into orchestrators (name, lease_until, ended_at)"
        " values ('old', now() - interval '2 h', now() - interval '2 h') returning orchestrator_id)"
        " insert into last_commits select orchestrator_id, 1 from old"
    )
    await scene.damage(
        "insert into plans (job_id, plan_id, generation, last_seq, definition_hash, inputs, content, made_at)"
        " select gen_random_uuid(), 'p', 1, 1, 'h', '{}', '{}', now() - hours * interval '1 h'"
        " from unnest(array[1, 25]) hours"
    )
    # One is the answer to a request with a key, which may be sent again.
    await scene.damage(
        "with job as (select gen_random_uuid() as id),"
        " kept as (insert into requests (job_id, key, digest, verb, signal_id)"
        " select id, 'k', 'd', 'cancel', 1 from job)"
        " insert into answers (signal_id, job_id, applied, reason, answered_at)"
        " select signal, id, true, '', now() - interval '25 h' from job, unnest(array[1, 2]) signal"
    )
    (done,) = await scene.janitor().run_once()
    assert (done.duty, done.before) == (
        "retention",
        {"workers": 1, "orchestrators": 1, "answers": 1, "plans": 1, "janitor_actions": 3, "audit": 0, "stats": 0},
    )
    assert await scene.engine.query("select 1 from holdfast.last_commits where mark = 1") == []
    assert await scene.engine.query("select signal_id from holdfast.answers") == [(1,)]
    assert await scene.tidy() == []


OLD = "update jobs set started_at = null, finished_at = now() - interval '31 days' where job_id = %s"


async def test_finished_jobs_are_kept_for_the_retention_time(scene: Bench, tmp_path: Path) -> None:
    old, young = await scene.engine.submit(ECHO, key="old"), await scene.engine.submit(ECHO, key="young")
    for job_id in (old, young):
        await finish(scene, job_id)
    await scene.damage(OLD, old)
    assert await scene.tidy() == [], "without the setting they should be kept forever"
    janitor = new_janitor(scene.engine.store, Settings(home=tmp_path, retention_days=30))
    (finding,) = await janitor.run_once(dry_run=True)
    assert (finding.duty, finding.action) == ("retention", "delete")
    assert finding.reason == "jobs that finished more than 30 days ago"
    assert finding.before is not None and finding.before.pop("oldest").endswith("Z")
    assert finding.before == {"jobs": 1, "tasks": 2, "bytes": 0, "workflows": {"echo_test": {"completed": 1}}}
    assert len(await scene.engine.query("select 1 from holdfast.jobs")) == 2
    (done,) = await janitor.run_once()
    (line,) = await scene.store.actions(10)
    assert (line.duty, line.action, line.reason, line.before) == (done.duty, done.action, finding.reason, done.before)
    assert await janitor.run_once() == []
    assert await scene.engine.query("select job_id::text from holdfast.jobs") == [(young,)]


async def test_objects_that_a_killed_prune_left_are_removed(scene: Bench, tmp_path: Path) -> None:
    job_id = await scene.engine.submit(ECHO)
    await finish(scene, job_id)
    await scene.damage(OLD, job_id)
    Folder(tmp_path).write(job_id, digest_of(b"large"), b"large")
    await scene.store.pruning.prune(0)
    store = PostgresStore(scene.engine.url, payloads=Payloads(Folder(tmp_path)))
    janitor = Janitor(store.janitor(), "by hand", lease_seconds=10.0)
    assert await janitor.run_once() == [], "the process that pruned may be about to remove them"
    await scene.damage("update discarded set discarded_at = now() - interval '11 s'")
    (finding,) = await janitor.run_once(dry_run=True)
    assert (finding.duty, finding.action, finding.before) == ("retention", "delete", {"jobs": 1})
    (done,) = await janitor.run_once()
    assert (done.reason, done.before) == ("objects of jobs that were deleted", {"jobs": 1})
    assert list(tmp_path.iterdir()) == []
    assert await janitor.run_once() == []
    assert len(await scene.store.actions(10)) == 1
    await store.close()


async def test_a_dry_run_returns_the_findings_and_changes_nothing(scene: Bench) -> None:
    job_id = await scene.engine.submit(ECHO)
    await scene.queued(job_id, 1)
    await scene.damage("delete from queue where job_id = %s", job_id)
    findings = await scene.janitor().run_once(dry_run=True)
    assert [(f.duty, f.action) for f in findings] == [("stuck_tasks", "recheck"), ("idle_jobs", "recheck")]
    assert await scene.engine.query("select 1 from holdfast.janitor_actions") == []
    assert await scene.engine.query("select 1 from holdfast.inbox") == []


async def test_five_janitors_at_once_act_as_one_invariant_16(database_url: str) -> None:
    async with client_of(database_url) as engine:
        scene = Bench(engine)
        async with serving(database_url, work=False, **PATIENT):
            job_id = await engine.submit(WIDE, {"items": list(range(5))})
            await scene.queued(job_id, 5)
        await scene.damage("delete from queue where job_id = %s and item < 3", job_id)
        clients = [client_of(database_url) for _ in range(5)]
        stores = [await client.__aenter__() for client in clients]
        janitors = [Janitor(one.store.janitor(), "one of five", lease_seconds=10.0) for one in stores]
        done: list[list[Finding]] = await asyncio.gather(*(janitor.run_once() for janitor in janitors))
        assert [len(findings) for findings in done if findings] == [1]
        for client in clients:
            await client.__aexit__(None, None, None)
        assert await engine.query("select count(*) from holdfast.inbox where kind = 'recheck'") == [(1,)]
        async with serving(database_url, registry(hold=lambda item: item), **PATIENT):
            ended = await engine.finished(job_id)
    assert (ended["status"], ended["counts"]["completed"]) == ("completed", 6)


async def test_one_janitor_leads_and_another_takes_over_when_its_lease_expires(database_url: str) -> None:
    async with client_of(database_url) as engine:
        store = engine.store.janitor()
        assert await store.lead("first", 60.0)
        assert not await store.lead("second", 60.0)
        assert await store.lead("first", 60.0)
        leader = await store.leader()
        assert leader is not None and leader.holder == "first"
        await engine.query("update holdfast.leaders set lease_until = now() - interval '1 s'")
        assert await store.leader() is None
        assert await store.lead("second", 60.0)
        assert not await store.lead("first", 60.0)
        await store.resign("second")
        assert await store.lead("first", 60.0)


async def test_the_services_run_a_janitor_that_repairs_by_itself(database_url: str) -> None:
    async with client_of(database_url) as engine, serving(database_url, work=False, **SHORT_LEASES):
        scene = Bench(engine)
        job_id = await engine.submit(ECHO)
        await scene.queued(job_id, 1)
        await scene.damage("delete from queue where job_id = %s", job_id)
        await scene.repaired(job_id)
        await scene.queued(job_id, 1)
