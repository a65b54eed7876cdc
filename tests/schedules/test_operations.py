"""What people do with schedules: on the database and over HTTP, with an audit, each tenant its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from holdfast import Client
from holdfast.define.load import load_text
from holdfast.errors import InvalidInput, NotFound, Refused
from holdfast.operations import schedules
from holdfast.operations.scope import Scope
from tests.running import client_of
from tests.schedules.stage import FAR, FLOW
from tests.test_faces import address_of

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["database", "http"])
async def client(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Client]:
    async with (
        address_of(database_url, request.param) as (url, key),
        Client.connect(url, Scope(actor="ann@desk"), api_key=key) as opened,
    ):
        await opened.register(FLOW)
        yield opened


async def test_a_schedule_shows_its_next_five_runs_in_order(client: Client) -> None:
    made = await client.add_schedule("night", "w", cron="0 2 * * *", time_zone="Africa/Kigali", inputs={"number": 3})
    assert (made.name, made.workflow_id, made.cron, made.time_zone) == ("night", "w", "0 2 * * *", "Africa/Kigali")
    assert (made.inputs, made.overlap, made.catch_up, made.source) == ({"number": 3}, "skip", "last", "person")
    assert [(run.hour, run.minute) for run in made.next_runs] == [(0, 0)] * 5
    steps = {later - run for run, later in pairwise(made.next_runs)}
    assert steps == {timedelta(days=1)}
    assert await client.schedule("night") == made
    assert [one.name for one in await client.schedules()] == ["night"]
    assert (made.last_tick, made.last_job) == (None, None)
    assert made.created_by.startswith("ann@desk")


async def test_a_second_schedule_of_a_name_is_refused_unless_it_replaces_the_first(client: Client) -> None:
    first = await client.add_schedule("s", "w", cron=FAR)
    with pytest.raises(Refused, match="There is a schedule 's' already"):
        await client.add_schedule("s", "w", every_seconds=60)
    assert await client.schedule("s") == first
    changed = await client.add_schedule("s", "w", every_seconds=60, overlap="queue", replace=True)
    assert (changed.cron, changed.every_seconds, changed.overlap) == (None, 60, "queue")
    assert changed.created_at == first.created_at
    assert changed.next_runs[0] < first.next_runs[0]


async def test_a_change_of_inputs_alone_keeps_the_next_run(client: Client) -> None:
    first = await client.add_schedule("s", "w", every_seconds=3600)
    changed = await client.add_schedule("s", "w", every_seconds=3600, inputs={"number": 2}, replace=True)
    assert (changed.next_runs, changed.inputs) == (first.next_runs, {"number": 2})


async def test_a_paused_schedule_stays_paused_when_it_is_changed(client: Client) -> None:
    await client.add_schedule("s", "w", cron=FAR)
    paused = await client.pause_schedule("s", reason="maintenance")
    assert paused.paused is not None and paused.paused.by.startswith("ann@desk")
    assert paused.paused.reason == "maintenance"
    assert paused.next_runs == ()
    assert (await client.add_schedule("s", "w", every_seconds=60, replace=True)).next_runs == ()
    with pytest.raises(Refused, match="is paused already, by ann@desk"):
        await client.pause_schedule("s")
    again = await client.unpause_schedule("s")
    assert (again.paused, len(again.next_runs)) == (None, 5)
    with pytest.raises(Refused, match="is not paused"):
        await client.unpause_schedule("s")


async def test_a_removed_schedule_is_gone_and_its_jobs_stay(client: Client) -> None:
    await client.add_schedule("s", "w", cron=FAR)
    job_id = (await client.trigger_schedule("s")).job_id
    assert job_id is not None
    assert (await client.remove_schedule("s")).last_job == job_id
    assert await client.schedules() == []
    assert (await client.job(job_id)).labels == {"schedule": "s"}


async def test_a_trigger_makes_a_job_now_and_leaves_the_next_run(client: Client) -> None:
    before = await client.add_schedule("s", "w", cron=FAR, inputs={"number": 4})
    triggered = await client.trigger_schedule("s")
    assert triggered.answer == "started" and triggered.job_id is not None
    job = await client.job(triggered.job_id)
    assert (job.workflow_id, job.inputs) == ("w", {"number": 4})
    assert job.correlation_id is not None and job.correlation_id.startswith("s@20")
    assert (await client.schedule("s")).next_runs == before.next_runs


async def test_a_trigger_while_the_last_job_runs_follows_the_overlap(client: Client) -> None:
    for overlap in ("skip", "queue", "replace"):
        await client.add_schedule(overlap, "w", cron=FAR, overlap=overlap)
        await client.trigger_schedule(overlap)
    with pytest.raises(Refused, match=r"was not triggered: its job .* has not ended"):
        await client.trigger_schedule("skip")
    queued = await client.trigger_schedule("queue")
    assert (queued.answer, queued.job_id) == ("waits", None)
    assert len((await client.schedule("queue")).waiting) == 1
    replaced = await client.trigger_schedule("replace")
    assert (replaced.answer, replaced.job_id) == ("replaces", None)


async def test_a_paused_schedule_can_be_triggered(client: Client) -> None:
    await client.add_schedule("s", "w", cron=FAR)
    await client.pause_schedule("s")
    assert (await client.trigger_schedule("s")).answer == "started"
    assert (await client.schedule("s")).paused is not None


Act = Callable[[Client], Awaitable[Any]]


@pytest.mark.parametrize("overlap", ["queue", "replace"])
async def test_a_paused_schedule_is_not_triggered_while_its_job_runs(client: Client, overlap: str) -> None:
    """The tick would wait for the end of the pause, and a job would be cancelled for it."""
    await client.add_schedule("s", "w", cron=FAR, overlap=overlap)
    first = await client.trigger_schedule("s")
    await client.pause_schedule("s")
    with pytest.raises(Refused, match=f"it is paused, and its job {first.job_id} has not ended") as refused:
        await client.trigger_schedule("s")
    assert "holdfast schedules unpause s" in str(refused.value.to_problem())
    assert (await client.schedule("s")).waiting == ()
    await client.unpause_schedule("s")
    assert (await client.trigger_schedule("s")).job_id is None


@pytest.mark.parametrize(
    ("act", "problem"),
    [
        (lambda c: c.add_schedule("a b", "w", cron=FAR), "is not the name of a schedule"),
        (lambda c: c.add_schedule("", "w", cron=FAR), "is not the name of a schedule"),
        (lambda c: c.add_schedule("x" * 101, "w", cron=FAR), "is not the name of a schedule"),
        (lambda c: c.add_schedule("s", "w", cron="0 2 * *"), "is not a cron expression"),
        (lambda c: c.add_schedule("s", "w"), "one of the two"),
        (lambda c: c.add_schedule("s", "w", cron=FAR, every_seconds=60), "one of the two"),
        (lambda c: c.add_schedule("s", "w", cron=FAR, time_zone="Mars/Base"), "no time zone"),
        (
            lambda c: c.add_schedule("s", "w", every_seconds=60, time_zone="Africa/Kigali"),
            "An interval has no time zone: it counts seconds, and Africa/Kigali would change nothing",
        ),
        (lambda c: c.add_schedule("s", "w", every_seconds=0), "is not possible"),
        (lambda c: c.add_schedule("s", "w", cron=FAR, overlap="both"), "'both' is no overlap"),
        (lambda c: c.add_schedule("s", "w", cron=FAR, catch_up="some"), "'some' is no catch-up"),
        (lambda c: c.add_schedule("s", "w", cron=FAR, inputs={"number": "x"}), "inputs"),
        (lambda c: c.add_schedule("s", "w", cron=FAR, inputs={"numbr": 1}), "inputs"),
    ],
)
async def test_bad_input_is_refused_at_the_door(client: Client, act: Act, problem: str) -> None:
    # The service checks the form of a request before anything else.
    with pytest.raises(InvalidInput, match=f"{problem}|The request is not valid"):
        await act(client)
    assert await client.schedules() == []


async def test_what_is_not_there_is_not_found(client: Client) -> None:
    with pytest.raises(NotFound, match="workflow 'nothing'"):
        await client.add_schedule("s", "nothing", cron=FAR)
    await client.add_schedule("night", "w", cron=FAR)
    for act in (
        client.schedule, client.remove_schedule, client.pause_schedule, client.unpause_schedule,
        client.trigger_schedule,
    ):  # fmt: skip
        with pytest.raises(NotFound) as refused:
            await act("nigth")
        assert "Did you mean 'night'" in str(refused.value.remedy)


async def test_every_change_is_one_line_of_the_audit(client: Client) -> None:
    await client.add_schedule("s", "w", cron=FAR, reason="for the report")
    await client.add_schedule("s", "w", every_seconds=60, replace=True)
    await client.pause_schedule("s")
    await client.unpause_schedule("s")
    job_id = (await client.trigger_schedule("s", reason="missed")).job_id
    await client.remove_schedule("s")
    lines = (await client.audit(action="schedule", instance="s")).lines[::-1]
    actions = ["add", "change", "pause", "unpause", "trigger", "remove"]
    assert [line.action for line in lines] == [f"schedule.{action}" for action in actions]
    assert all(line.actor.startswith("ann@desk") for line in lines)
    added, changed, *_, triggered, removed = lines
    assert (added.before, added.reason) == (None, "for the report")
    assert changed.before is not None and changed.before["cron"] == FAR
    assert changed.after is not None and changed.after["every_seconds"] == 60
    assert triggered.after == {"job_id": job_id, "answer": "started"} and triggered.reason == "missed"
    assert removed.after is None


async def test_what_is_refused_leaves_no_line_in_the_audit(client: Client) -> None:
    await client.add_schedule("s", "w", cron=FAR)
    await client.trigger_schedule("s")
    with pytest.raises(Refused):
        await client.trigger_schedule("s")
    with pytest.raises(Refused):
        await client.add_schedule("s", "w", cron=FAR)
    lines = (await client.audit(action="schedule")).lines
    assert [line.action for line in lines] == ["schedule.trigger", "schedule.add"]


async def test_a_trigger_whose_job_is_refused_changes_nothing(client: Client) -> None:
    await client.add_schedule("s", "w", cron=FAR)
    await client.register(
        load_text("workflow_id: w\nversion: 2\ninputs: {day: {required: true}}\nnodes: {a: {handler: echo}}")
    )
    before = await client.schedule("s")
    with pytest.raises(InvalidInput, match="input"):
        await client.trigger_schedule("s")
    assert await client.schedule("s") == before


async def test_a_tenant_sees_and_changes_its_own_schedules_alone(client: Client) -> None:
    await client.add_schedule("s", "w", cron=FAR)
    other = client.for_tenant("acme")
    assert await other.schedules() == []
    for act in (other.schedule, other.trigger_schedule, other.remove_schedule, other.pause_schedule):
        with pytest.raises(NotFound):
            await act("s")
    with pytest.raises(NotFound):
        await other.add_schedule("s", "w", cron=FAR)
    await other.register(FLOW)
    await other.add_schedule("s", "w", every_seconds=60)
    assert (await client.schedule("s")).cron == FAR
    job_id = (await other.trigger_schedule("s")).job_id
    assert job_id is not None
    with pytest.raises(NotFound):
        await client.job(job_id)


async def test_a_tenant_has_a_limited_number_of_schedules(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "MOST_SCHEDULES", 2)
    await client.add_schedule("a", "w", cron=FAR)
    await client.add_schedule("b", "w", cron=FAR)
    with pytest.raises(Refused, match="has 2 schedules, and may have no more"):
        await client.add_schedule("c", "w", cron=FAR)
    await client.add_schedule("b", "w", every_seconds=60, replace=True)


async def test_two_who_trigger_at_once_never_start_two_jobs_that_overlap(database_url: str) -> None:
    async with client_of(database_url) as one, client_of(database_url) as two:
        await one.client.register(FLOW)
        await one.client.add_schedule("s", "w", cron=FAR, overlap="queue")

        async def trigger(client: Client) -> list[str | None]:
            return [(await client.trigger_schedule("s")).job_id for _ in range(5)]

        found = await asyncio.gather(trigger(one.client), trigger(two.client))
        assert len([job for jobs in found for job in jobs if job is not None]) == 1
        assert len((await one.client.schedule("s")).waiting) == 9
