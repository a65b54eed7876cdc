"""What `explain_job` advises in each state is what the owner accepts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator

import pytest

from holdfast.core.states import Rules
from holdfast.define.load import load_text
from holdfast.operations.submitting import new_job
from holdfast.orchestrator.owner import Owner
from tests.store.stage import Stage, report_of
from tests.store.test_by_hand import Person, logged_in
from tests.store.test_recovery import FAILURE, Play
from tests.store.test_same_guards import (
    cancelled,
    completed,
    failed,
    paused,
    running,
    send,
    stopping,
    undoing,
)

pytestmark = pytest.mark.anyio

ORDER = load_text("""
workflow_id: order
on_failure: compensate
nodes:
  reserve: {handler: work, compensate: work, next: charge}
  charge: {handler: work, compensate: work, next: ship}
  ship: {handler: work, retry: {max_retries: 0}}
""")
_CALL = re.compile(r": (select holdfast\.\w+\(.*\);)$")


async def next_task(play: Play, node: str, *, fails: bool = False) -> None:
    (lease,) = await play.stage.claim(play.worker)
    assert lease.node == node
    report = report_of(lease, "failed", output=None, data=FAILURE) if fails else report_of(lease)
    await play.stage.store.report(play.worker, [report])
    await play.cycle()


async def submitted(stage: Stage) -> Play:
    (answer,) = await stage.store.submit([new_job(ORDER, {}, force=True)])
    owner = Owner(stage.store, await stage.orchestrator(), "o", Rules(), lambda: 0.5)
    play = Play(stage, owner, await stage.worker(), answer.job_id, ORDER, {})
    await play.cycle()
    return play


async def undoing_itself(stage: Stage) -> Play:
    play = await submitted(stage)
    await next_task(play, "reserve")
    await next_task(play, "charge")
    await next_task(play, "ship", fails=True)
    return play


async def undone_by_itself(stage: Stage) -> Play:
    play = await undoing_itself(stage)
    await next_task(play, "charge")
    await next_task(play, "reserve")
    return play


async def half_undone_by_itself(stage: Stage) -> Play:
    """The customer is still charged, and the reservation waits for that."""
    play = await undoing_itself(stage)
    await next_task(play, "charge", fails=True)
    return play


async def undone_by_a_person(stage: Stage) -> Play:
    play = await submitted(stage)
    for node in ("reserve", "charge", "ship"):
        await next_task(play, node)
    assert (await play.ask("undo")).applied
    for node in ("charge", "reserve"):
        await next_task(play, node)
    return play


async def half_undone_by_a_person(stage: Stage) -> Play:
    play = await submitted(stage)
    for node in ("reserve", "charge", "ship"):
        await next_task(play, node)
    assert (await play.ask("undo", "charge")).applied
    await next_task(play, "charge", fails=True)
    return play


async def failing(stage: Stage) -> Play:
    """It runs, and an item has failed."""
    play = await running(stage)
    leases = await stage.claim(play.worker, 2)
    await play.report(leases[:1], leases[0].item)
    await play.cycle()
    return play


async def stopping_with_a_failure(stage: Stage) -> Play:
    play = await failing(stage)
    await send(play, "cancel")
    return play


STATES: dict[str, Callable[[Stage], Awaitable[Play]]] = {
    state.__name__: state
    for state in (
        running, failing, paused, stopping, stopping_with_a_failure, failed, cancelled, completed, undoing,
        undone_by_a_person, half_undone_by_a_person, undoing_itself, undone_by_itself, half_undone_by_itself,
    )
}  # fmt: skip


@pytest.fixture
def url(database_url: str) -> str:
    """The functions are those of Postgres: the model has none."""
    return database_url


@pytest.fixture
def operator(database_url: str) -> Iterator[Person]:
    with logged_in(database_url, "in role holdfast_operator") as person:
        yield person


def calls_in(lines: list[str]) -> list[str]:
    found = [call[1] for line in lines if (call := _CALL.search(line)) is not None]
    return [call for call in found if "explain_job" not in call]


@pytest.mark.parametrize("state", STATES)
async def test_what_is_advised_is_accepted(stage: Stage, operator: Person, state: str) -> None:
    play = await STATES[state](stage)
    refused = []
    for number in range(len(calls_in(operator.explain(play.job_id)))):
        call = calls_in(operator.explain(play.job_id))[number]
        ((signal_id,),) = operator.connection.execute(call.replace("JOB", play.job_id).encode()).fetchall()
        await play.cycle()
        applied, reason, _ = operator.answer(signal_id)
        if applied is False:
            refused.append((call, reason))
        await send(play, "cancel")
        play = await STATES[state](stage)
    assert refused == []


async def test_after_a_job_undid_itself_a_resume_is_advised_and_no_single_node(stage: Stage, operator: Person) -> None:
    play = await undone_by_itself(stage)
    assert advice(operator, play) == [
        "run again what was undone, and what is missing: select holdfast.resume_job('JOB');",
        "see what failed: select * from holdfast.failed_tasks where job_id = 'JOB';",
    ]


async def test_after_a_failed_undo_a_person_is_advised_to_undo_the_rest_or_to_skip_what_is_left(
    stage: Stage, operator: Person
) -> None:
    play = await half_undone_by_itself(stage)
    assert advice(operator, play) == [
        "run again what was undone, and what is missing: select holdfast.resume_job('JOB');",
        "undo the rest of it: holdfast undo JOB",
        "count what could not be undone of charge as undone: select holdfast.skip_node('JOB', 'charge');",
        "see what failed: select * from holdfast.failed_tasks where job_id = 'JOB';",
    ]


async def test_after_a_failed_undo_of_a_part_the_rest_of_that_part_is_advised(stage: Stage, operator: Person) -> None:
    play = await half_undone_by_a_person(stage)
    assert "undo the rest of it: holdfast undo JOB --from charge" in advice(operator, play)


def advice(operator: Person, play: Play) -> list[str]:
    lines = operator.explain(play.job_id)
    return [line.strip() for line in lines[lines.index("What you can do next:") + 1 :]]
