"""Each tick makes one job, whichever process lives, and by the database's clock alone."""

from __future__ import annotations

import asyncio
import time

import pytest

from holdfast.define.load import load_text
from holdfast.operations.schedules import prepare
from holdfast.schedules.deciding import decide_trigger
from holdfast.schedules.service import LOOK_SECONDS, MOST_AT_ONCE
from holdfast.store.schedule_rows import ScheduleRow
from holdfast.store.schedules import PostgresSchedules
from tests.conftest import eventually
from tests.running import running
from tests.schedules.stage import FAR, FLOW, Stage

pytestmark = pytest.mark.anyio


async def test_a_tick_makes_a_job_of_the_current_version_with_the_inputs(stage: Stage) -> None:
    await stage.add(inputs={"number": 7})
    newer = load_text("workflow_id: w\nversion: 2\ninputs: {number: {type: integer}}\nnodes: {a: {handler: echo}}")
    await stage.client.register(newer)
    await stage.let_tick()
    (job_id,) = await stage.jobs()
    job = await stage.client.job(job_id)
    assert (job.version, job.inputs) == ("2", {"number": 7})
    schedule = await stage.client.schedule("s")
    assert (schedule.last_answer, schedule.last_job, schedule.last_job_status) == ("started", job_id, "pending")


async def test_a_look_without_a_due_tick_makes_nothing(stage: Stage) -> None:
    await stage.add()
    await stage.one.run_once()
    assert await stage.jobs() == []


async def test_each_tick_makes_a_job_although_their_inputs_are_the_same(stage: Stage) -> None:
    await stage.add()
    for number in range(1, 4):
        await stage.let_tick()
        await stage.end_jobs()
        assert len(await stage.jobs()) == number


async def test_invariant_27_two_processes_that_look_at_once_make_one_job_of_each_tick(stage: Stage) -> None:
    for number in range(20):
        await stage.add(f"s{number}")
        await stage.pass_time("1 second", f"s{number}")
    await asyncio.gather(stage.one.run_once(), stage.two.run_once())
    for number in range(20):
        assert len(await stage.jobs(f"s{number}")) == 1


async def test_running_services_start_the_jobs_of_an_interval(database_url: str) -> None:
    async with running(database_url) as engine:
        await engine.client.register(FLOW)
        await engine.client.add_schedule("s", "w", every_seconds=1)

        async def three() -> bool:
            jobs = (await engine.client.jobs(labels={"schedule": "s"}, status="completed")).jobs
            return len(jobs) >= 3

        await eventually(three)
        await engine.client.remove_schedule("s")


async def test_the_last_tick_outlives_a_prune(stage: Stage) -> None:
    await stage.add()
    await stage.let_tick()
    await stage.end_jobs()
    before = await stage.client.schedule("s")
    assert (await stage.client.prune(0.0)).jobs == 1
    await stage.one.run_once()
    assert await stage.jobs() == []
    after = await stage.client.schedule("s")
    assert (after.last_tick, after.last_job, after.last_job_status) == (before.last_tick, before.last_job, None)
    await stage.let_tick()
    assert len(await stage.jobs()) == 1


async def test_a_tick_is_skipped_while_the_job_before_it_runs(stage: Stage) -> None:
    await stage.add(overlap="skip")
    await stage.let_tick()
    await stage.let_tick()
    assert len(await stage.jobs()) == 1
    assert (await stage.client.schedule("s")).last_answer == "skipped"
    await stage.end_jobs()
    await stage.one.run_once()
    assert len(await stage.jobs()) == 1


async def test_queued_ticks_start_one_after_the_other(stage: Stage) -> None:
    await stage.add(overlap="queue")
    for _ in range(3):
        await stage.let_tick()
    schedule = await stage.client.schedule("s")
    assert (schedule.last_answer, len(schedule.waiting)) == ("waits", 2)
    for number in (1, 2, 3, 3):
        assert len(await stage.jobs()) == number
        await stage.one.run_once()
        assert len(await stage.jobs()) == number, "the job before it has not ended"
        await stage.end_jobs()
        await asyncio.gather(stage.one.run_once(), stage.two.run_once())
    assert (await stage.client.schedule("s")).waiting == ()


async def test_a_replacing_tick_cancels_waits_and_starts(database_url: str) -> None:
    async with running(database_url) as engine:
        nap = load_text("workflow_id: w\nnodes: {a: {handler: sleep, params: {duration_seconds: 600}}}")
        await engine.client.register(nap)
        await engine.client.add_schedule("s", "w", cron=FAR, overlap="replace")
        first = (await engine.client.trigger_schedule("s")).job_id
        assert first is not None
        second = await engine.client.trigger_schedule("s", reason="newer data")
        assert (second.answer, second.job_id) == ("replaces", None)
        assert (await engine.finished(first))["status"] == "cancelled"

        async def replaced() -> bool:
            return (await engine.client.schedule("s")).last_job != first

        await eventually(replaced)
        schedule = await engine.client.schedule("s")
        assert (schedule.last_answer, schedule.waiting) == ("started", ())
        assert len((await engine.client.jobs(labels={"schedule": "s"})).jobs) == 2
        (line,) = (await engine.client.audit(action="job.cancel")).lines
        assert (line.actor, line.instance) == ("schedule s", first)


@pytest.mark.parametrize(("catch_up", "jobs"), [("none", 0), ("last", 1), ("all", 4)])
async def test_after_a_time_without_processes_the_catch_up_decides(stage: Stage, catch_up: str, jobs: int) -> None:
    await stage.add(every_seconds=3600, catch_up=catch_up)
    await stage.pass_time("3 hours 30 minutes")
    for _ in range(6):
        await stage.one.run_once()
        await stage.end_jobs()
    assert len(await stage.jobs()) == jobs
    (next_run, *_) = (await stage.client.schedule("s")).next_runs
    (minutes,) = (await stage.engine.query("select extract(epoch from %s - now()) / 60", next_run))[0]
    assert 29 < minutes <= 30


async def test_a_tick_whose_inputs_no_longer_fit_is_an_alert_and_the_next_one_runs(stage: Stage) -> None:
    await stage.add()
    other = load_text(
        "workflow_id: w\nversion: 2\ninputs: {day: {type: string, required: true}}\nnodes: {a: {handler: echo}}"
    )
    await stage.client.register(other)
    await stage.let_tick()
    await stage.let_tick()
    schedule = await stage.client.schedule("s")
    assert await stage.jobs() == []
    assert (schedule.last_answer, schedule.paused) == ("refused", None)
    assert schedule.problem is not None and "day" in schedule.problem
    (alert,) = await stage.alerts()
    assert "schedule s" in alert and "day" in alert
    concerns = {one.cause: one for one in await stage.client.attention()}
    assert concerns["schedule_failed"].instance == "s"
    remedy = concerns["schedule_failed"].remedy
    assert remedy is not None and remedy.command == "holdfast schedules trigger s"
    await stage.client.register(load_text("workflow_id: w\nversion: 3\nnodes: {a: {handler: echo}}"))
    await stage.let_tick()
    assert len(await stage.jobs()) == 1
    assert (await stage.client.schedule("s")).problem is None
    assert "schedule_failed" not in {one.cause for one in await stage.client.attention()}


async def test_a_tick_that_a_full_backlog_refuses_is_an_alert(stage: Stage) -> None:
    await stage.client.set_limit("tenant", backlog=1)
    await stage.client.submit(FLOW, {"number": 5})
    await stage.add()
    await stage.let_tick()
    assert await stage.jobs() == []
    schedule = await stage.client.schedule("s")
    assert schedule.problem is not None and "backlog" in schedule.problem
    assert len(await stage.alerts()) == 1
    await stage.end_jobs()
    await stage.let_tick()
    assert len(await stage.jobs()) == 1


async def test_a_tick_that_has_its_job_already_is_over(stage: Stage) -> None:
    """The clock of the database was set back, and the schedule was unpaused since."""
    await stage.add()
    await stage.let_tick()
    await stage.end_jobs()
    made = await stage.jobs()
    await stage.engine.query("update holdfast.schedules set next_at = last_tick, revision = revision + 1")
    await stage.one.run_once()
    schedule = await stage.client.schedule("s")
    assert await stage.jobs() == made
    assert schedule.problem == f"job {made[0]} is the job of this tick already"
    await stage.let_tick()
    assert len(await stage.jobs()) == 2


async def test_a_tick_of_a_tenant_that_may_not_use_a_queue_is_an_alert(stage: Stage) -> None:
    await stage.add()
    await stage.client.keep_tenant("default", queues=["maps"])
    await stage.let_tick()
    schedule = await stage.client.schedule("s")
    assert schedule.problem is not None and "'a' uses the queue 'default'" in schedule.problem


async def test_the_jobs_of_ticks_have_the_defaults_of_the_tenant(stage: Stage) -> None:
    await stage.add()
    await stage.let_tick()
    await stage.end_jobs()
    await stage.client.set_defaults({"timeout_minutes": 7})
    await stage.let_tick()
    newest = (await stage.jobs())[-1]
    assert (await stage.client.job_definition(newest)).definition["timeout_seconds"] == 420


async def test_one_schedule_that_cannot_tick_stops_no_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its time zone is gone from this machine. The tick stays, for a machine that knows it."""
    await stage.add("a", time_zone="Africa/Kigali")
    await stage.add("b")
    for name in ("a", "b"):
        await stage.pass_time("1 second", name)
    await stage.engine.query("update holdfast.schedules set time_zone = 'Mars/Base' where name = 'a'")
    for _ in range(3):
        await stage.one.run_once()
    assert (await stage.jobs("a"), len(await stage.jobs("b"))) == ([], 1)
    assert len(await stage.alerts()) == 1
    assert "cannot tick" in caplog.text
    assert (await stage.client.schedule("a")).next_runs != ()
    await stage.engine.query("update holdfast.schedules set time_zone = 'Africa/Kigali' where name = 'a'")
    await stage.one.run_once()
    assert len(await stage.jobs("a")) == 1


async def test_as_many_schedules_that_cannot_tick_as_one_look_moves_keep_no_other_from_ticking(stage: Stage) -> None:
    await stage.add("bad0", time_zone="Africa/Kigali")
    await stage.engine.query(
        "insert into holdfast.schedules select (jsonb_populate_record(s, jsonb_build_object("
        "'name', 'bad' || n, 'schedule_id', gen_random_uuid()))).*"
        " from holdfast.schedules s, generate_series(1, %s) n",
        MOST_AT_ONCE - 1,
    )
    await stage.engine.query(
        "update holdfast.schedules set time_zone = 'Mars/Base', next_at = now() - interval '1 minute'"
    )
    await stage.add("good")
    await stage.pass_time("1 second", "good")
    await stage.engine.query("cluster holdfast.schedules using schedules_pkey")
    # It is the last one in the table. Each look picks all but one of them.
    for _ in range(20):
        await stage.one.run_once()
        if await stage.jobs("good"):
            break
    assert len(await stage.jobs("good")) == 1


async def test_a_schedule_that_cannot_tick_is_tried_once_a_second(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.add(time_zone="Africa/Kigali")
    await stage.pass_time("1 second")
    await stage.engine.query("update holdfast.schedules set time_zone = 'Mars/Base'")
    looks: list[float] = []
    due = PostgresSchedules.due

    async def noted(self: PostgresSchedules, limit: int) -> list[ScheduleRow]:
        looks.append(time.monotonic())
        return await due(self, limit)

    monkeypatch.setattr(PostgresSchedules, "due", noted)
    stop = asyncio.Event()
    serving = asyncio.create_task(stage.one.run(stop))

    async def has_looked() -> bool:
        return len(looks) >= 3

    await eventually(has_looked)
    stop.set()
    await serving
    assert looks[2] - looks[0] > 1.5 * LOOK_SECONDS


async def test_a_paused_schedule_does_not_tick_and_catches_nothing_up(stage: Stage) -> None:
    await stage.add(every_seconds=3600, catch_up="all", overlap="queue")
    await stage.let_tick()
    await stage.let_tick()
    await stage.client.pause_schedule("s", reason="maintenance")
    await stage.end_jobs()
    await stage.one.run_once()
    assert len(await stage.jobs()) == 1, "a tick that waits begins after the pause"
    paused = await stage.client.schedule("s")
    assert (paused.next_runs, len(paused.waiting)) == ((), 1)
    assert paused.paused is not None and paused.paused.reason == "maintenance"
    await stage.engine.query("update holdfast.schedules set anchored_at = anchored_at - interval '5 hours'")
    await stage.client.unpause_schedule("s")
    await stage.one.run_once()
    await stage.end_jobs()
    await stage.one.run_once()
    assert len(await stage.jobs()) == 2


async def test_an_alert_of_a_schedule_is_an_event_for_the_webhooks_of_its_tenant(stage: Stage) -> None:
    await stage.client.keep_webhook("ops", "https://ops.example/hook", events=["janitor_alert"])
    await stage.add()
    await stage.client.keep_tenant("default", queues=["maps"])
    await stage.let_tick()
    await stage.let_tick()
    found = await stage.engine.query("select tenant, event, data ->> 'schedule' from holdfast.outbox")
    assert found == [("default", "janitor_alert", "s")]


async def test_who_has_read_an_older_row_moves_nothing_and_makes_no_job(stage: Stage) -> None:
    """Its job would be another one: of two ticks of people, or of two that replace each other."""
    await stage.add()
    store = stage.stores[0]
    before = await store.schedules().find("default", "s")
    assert before is not None
    await stage.client.trigger_schedule("s")
    await stage.end_jobs()
    late = await prepare(store, before, before.now)
    assert await store.schedules().move(before, decide_trigger(before), late) == (False, False)
    assert len(await stage.jobs()) == 1
