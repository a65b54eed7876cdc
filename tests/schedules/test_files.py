"""`schedule` in a workflow file: a registration applies it, and pauses the schedule when the key leaves the file."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import Client, Workflow
from holdfast.define.load import load_text
from holdfast.errors import InvalidDefinition, Refused
from holdfast.operations.scope import Scope
from tests.chaos.fleet import Process
from tests.running import client_of
from tests.schedules.stage import Stage
from tests.test_faces import address_of

pytestmark = pytest.mark.anyio

PLAIN = """
workflow_id: maps
inputs: {region: {type: string, default: RWA}}
nodes: {a: {handler: echo}}
"""
NIGHTLY = f"""{PLAIN}
schedule:
  cron: "0 2 * * *"
  time_zone: Africa/Kigali
  inputs: {{region: KEN}}
  overlap: queue
  catch_up: all
"""


@pytest.fixture(params=["database", "http"])
async def client(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Client]:
    async with (
        address_of(database_url, request.param) as (url, key),
        Client.connect(url, Scope(actor="ann@desk"), api_key=key) as opened,
    ):
        yield opened


async def test_a_registration_makes_the_schedule_of_the_file(client: Client) -> None:
    registration = await client.register(load_text(NIGHTLY))
    assert registration.schedule is not None
    assert registration.schedule.answer == "added"
    (made,) = await client.schedules()
    assert registration.schedule.schedule == made
    assert (made.name, made.workflow_id, made.cron, made.time_zone) == ("maps", "maps", "0 2 * * *", "Africa/Kigali")
    assert (made.inputs, made.overlap, made.catch_up, made.source) == ({"region": "KEN"}, "queue", "all", "file")
    assert len(made.next_runs) == 5


async def test_a_submission_applies_no_schedule(client: Client) -> None:
    await client.submit(load_text(NIGHTLY))
    assert await client.schedules() == []


async def test_the_schedule_is_no_part_of_the_definition(client: Client) -> None:
    assert load_text(NIGHTLY).hash() == load_text(PLAIN).hash()
    first = await client.submit(load_text(PLAIN))
    assert (await client.submit(load_text(NIGHTLY))).job_id == first.job_id


async def test_the_same_file_again_changes_nothing_and_another_one_changes_the_schedule(client: Client) -> None:
    first = await client.register(load_text(NIGHTLY))
    again = await client.register(load_text(NIGHTLY))
    assert first.schedule is not None and again.schedule is not None
    assert (again.answer, again.schedule.answer) == ("already_current", "unchanged")
    assert again.schedule.schedule == first.schedule.schedule
    changed = await client.register(load_text(NIGHTLY.replace("0 2 * * *", "0 3 * * *")))
    assert changed.schedule is not None and changed.schedule.answer == "changed"
    assert (await client.schedule("maps")).cron == "0 3 * * *"
    lines = (await client.audit(action="schedule")).lines
    assert [line.action for line in lines] == ["schedule.register"] * 2, "what changes nothing leaves no line"


async def test_a_schedule_whose_key_left_the_file_is_paused_and_says_so(client: Client) -> None:
    await client.register(load_text(NIGHTLY))
    registration = await client.register(load_text(PLAIN))
    assert registration.schedule is not None and registration.schedule.answer == "paused"
    left = await client.schedule("maps")
    assert (left.source, left.next_runs) == ("left_file", ())
    assert left.paused is not None and left.paused.reason == "the file of the workflow no longer has `schedule`"
    concern = next(one for one in await client.attention() if one.cause == "schedule_left_file")
    assert (concern.instance, concern.details) == ("maps", left.paused.reason)
    assert concern.remedy is not None and concern.remedy.command == "holdfast schedules remove maps"
    again = await client.register(load_text(PLAIN))
    assert again.schedule is None, "it has been said"


async def test_a_key_that_comes_back_lets_the_schedule_tick_again(client: Client) -> None:
    await client.register(load_text(NIGHTLY))
    await client.register(load_text(PLAIN))
    await client.register(load_text(NIGHTLY))
    back = await client.schedule("maps")
    assert (back.source, back.paused, len(back.next_runs)) == ("file", None, 5)


async def test_what_a_person_has_paused_stays_paused(client: Client) -> None:
    await client.register(load_text(NIGHTLY))
    await client.pause_schedule("maps", reason="maintenance")
    for text in (NIGHTLY, PLAIN, NIGHTLY):
        await client.register(load_text(text))
        found = await client.schedule("maps")
        assert found.paused is not None and found.paused.reason == "maintenance", text


async def test_a_person_who_unpauses_a_schedule_that_left_its_file_keeps_it(client: Client) -> None:
    await client.register(load_text(NIGHTLY))
    await client.register(load_text(PLAIN))
    kept = await client.unpause_schedule("maps")
    assert (kept.source, kept.paused) == ("person", None)
    await client.register(load_text(PLAIN))
    assert await client.schedule("maps") == kept


async def test_a_file_takes_no_schedule_from_a_person_and_a_person_none_from_a_file(client: Client) -> None:
    await client.register(load_text(PLAIN))
    await client.add_schedule("maps", "maps", every_seconds=60)
    with pytest.raises(Refused, match="a person keeps the schedule 'maps'"):
        await client.register(load_text(NIGHTLY.replace("nodes:", "version: 2\nnodes:")))
    assert (await client.workflow("maps")).version == "1", "all or nothing"
    await client.remove_schedule("maps")
    await client.register(load_text(NIGHTLY))
    with pytest.raises(Refused, match="the file of workflow maps has it"):
        await client.add_schedule("maps", "maps", every_seconds=60, replace=True)


async def test_a_workflow_built_in_python_has_a_schedule_too(client: Client) -> None:
    flow = Workflow("built", schedule={"every_seconds": 900})
    flow.task("a", handler="echo")
    await client.register(flow.definition())
    assert (await client.schedule("built")).every_seconds == 900


async def test_a_definition_that_comes_from_the_database_leaves_the_schedule_as_it_is(database_url: str) -> None:
    async with client_of(database_url) as engine:
        await engine.client.register(load_text(NIGHTLY))
        before = await engine.client.schedule("maps")
        await engine.client.register(await engine.client.definition("maps"))
        assert await engine.client.schedule("maps") == before


@pytest.mark.parametrize(
    ("schedule", "path", "says"),
    [
        ("{cron: 61 * * * *}", "schedule.cron", "its minute is wrong"),
        ("{cron: 0 0 * * *, every_seconds: 60}", "schedule.cron", "one of the two"),
        ("{}", "schedule", "one of the two"),
        ("{every_seconds: 0}", "schedule.every_seconds", "1"),
        ("{every_seconds: 60, time_zone: Mars/Base}", "schedule.time_zone", "no time zone"),
        ("{every_seconds: 60, time_zone: Africa/Kigali}", "schedule.time_zone", "An interval has no time zone"),
        ("{every_seconds: 60, overlap: both}", "schedule.overlap", "skip"),
        ("{every_seconds: 60, catchup: all}", "schedule.catchup", "catchup"),
        ("{every_seconds: 60, inputs: {region: 7}}", "schedule.inputs", "region"),
        ("{every_seconds: 60, inputs: {regoin: KEN}}", "schedule.inputs", "regoin"),
    ],
)
def test_a_schedule_with_a_mistake_is_refused_with_its_place(schedule: str, path: str, says: str) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        load_text(f"{PLAIN}schedule: {schedule}\n")
    (problem,) = refused.value.errors
    assert problem.path is not None and problem.path.startswith(path.partition(".")[0])
    assert (problem.path, problem.line) == (path, 5)
    assert says in f"{problem.message} {problem.suggestion}"


async def test_a_registration_that_dies_half_way_changes_neither_workflow_nor_schedule(
    stage: Stage, tmp_path: Path
) -> None:
    (tmp_path / "maps.yaml").write_text(NIGHTLY)
    process = Process(
        "register", stage.engine.url, tmp_path, {"HOLDFAST_FAILPOINT": "register.scheduled:kill"},
        [str(tmp_path / "maps.yaml")],
    )  # fmt: skip
    assert await process.ended() == -signal.SIGKILL, process.log.read_text()
    assert await stage.client.schedules() == []
    assert [one.workflow_id for one in await stage.client.workflows()] == ["w"]
