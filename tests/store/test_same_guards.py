"""What a function for psql does to a job in each state, compared with the verb of the command line: the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest

from holdfast.client import Client
from holdfast.core.states import Rules
from holdfast.define.definition import Definition
from holdfast.define.load import load_text
from holdfast.errors import HoldfastError
from holdfast.operations.submitting import new_job
from holdfast.operations.verbs import Correction, Stale, Verb, VerbRequest
from holdfast.orchestrator.owner import Owner
from holdfast.store.postgres import PostgresStore
from tests.store.stage import Stage, report_of
from tests.store.test_by_hand import Person, logged_in
from tests.store.test_recovery import FAILURE, Play

pytestmark = pytest.mark.anyio

TEXT = """
workflow_id: wide
inputs: {items: {type: array}}
nodes:
  each:
    type: fan_out
    source: "{{ inputs.items }}"
    task: {handler: work, params: {n: "{{ item }}"}, retry: {max_retries: 0}, compensate: work}
    next: all
  all: {type: fan_in, next: choose}
  choose: {type: conditional, condition: "{{ nodes.all.output.count > 0 }}", on_true: tell, on_false: other}
  tell: {handler: work, rerun: {safe: never}}
  other: {handler: work}
"""
FLOW, FREE = load_text(TEXT), load_text(TEXT.replace("safe: never", "safe: always").replace(": wide", ": free"))
INPUTS = {"items": [0, 1, 2, 3]}
SLOWLY = Rules(chunk_size=1, window_size=1)
Outcome = tuple[bool, str]


async def submitted(stage: Stage, flow: Definition = FLOW, rules: Rules | None = None) -> Play:
    (answer,) = await stage.store.submit([new_job(flow, INPUTS, force=True)])
    owner = Owner(stage.store, await stage.orchestrator(), "o", rules or Rules(), lambda: 0.5)
    return Play(stage, owner, await stage.worker(), answer.job_id, flow, INPUTS)


async def running(stage: Stage, flow: Definition = FLOW, rules: Rules | None = None) -> Play:
    play = await submitted(stage, flow, rules)
    await play.cycle()
    return play


async def paused(stage: Stage) -> Play:
    play = await running(stage)
    await send(play, "pause")
    return play


async def stopping(stage: Stage) -> Play:
    play = await running(stage)
    await stage.claim(play.worker)
    await send(play, "cancel")
    return play


async def failed(stage: Stage) -> Play:
    play = await running(stage)
    await play.work(1)
    return play


async def partial(stage: Stage) -> Play:
    play = await failed(stage)
    await play.ask("skip", "each")
    await play.work()
    return play


async def cancelled(stage: Stage) -> Play:
    play = await running(stage)
    await send(play, "cancel")
    return play


async def completed(stage: Stage) -> Play:
    play = await running(stage)
    await play.work()
    return play


async def undoing(stage: Stage) -> Play:
    play = await completed(stage)
    await play.ask("undo")
    return play


async def undone(stage: Stage) -> Play:
    play = await undoing(stage)
    await play.work()
    return play


async def half_undone(stage: Stage) -> Play:
    """What could not be undone of a node stays completed."""
    play = await undoing(stage)
    leases = await stage.claim(play.worker)
    await stage.store.report(play.worker, [_undo_of(lease) for lease in leases])
    await play.cycle()
    return play


async def half_matched(stage: Stage) -> Play:
    """Cancelled before all items of a correction had their tasks."""
    play = await running(stage, FREE, SLOWLY)
    await play.work()
    assert isinstance(stage.store, PostgresStore)
    client = Client(stage.store)
    correction = Correction({"items": [0, 1, 2, 3, 4]}, stale=Stale.RERUN)
    await client.carry_out(await client.plan(play.job_id, VerbRequest(Verb.RESUME, correction=correction)), seconds=0)
    await play.owner.run_cycle()
    await send(play, "cancel")
    assert (await play.ask("clear", "each", items=[0])).reason == "the items of each are not all matched yet"
    return play


def _undo_of(lease: Any) -> Any:
    return report_of(lease, "failed", output=None, data=FAILURE) if lease.item == 2 else report_of(lease)


async def send(play: Play, kind: str) -> None:
    await play.stage.store.send(play.job_id, kind, "ann", "")
    await play.cycle()


STATES: dict[str, Callable[[Stage], Awaitable[Play]]] = {
    state.__name__: state
    for state in (
        running, paused, stopping, failed, partial, cancelled, completed, undoing, undone, half_undone,
        half_matched,
    )
}  # fmt: skip
CALLS: list[tuple[str, tuple[Any, ...], VerbRequest]] = [
    ("resume_job", (), VerbRequest(Verb.RESUME)),
    ("pause_job", (), VerbRequest(Verb.PAUSE)),
    ("unpause_job", (), VerbRequest(Verb.UNPAUSE)),
    ("cancel_job", (), VerbRequest(Verb.CANCEL)),
    *(("retry_node", (node,), VerbRequest(Verb.RETRY, node)) for node in ("each", "all", "tell", "other", "no")),
    *(
        ("skip_node", (node,), VerbRequest(Verb.SKIP, node))
        for node in ("each", "all", "choose", "tell", "other", "no")
    ),
    *(("clear_tasks", ("each", [n]), VerbRequest(Verb.CLEAR, "each", (n,))) for n in (1, 3, 9)),
    ("clear_tasks", ("tell", [0]), VerbRequest(Verb.CLEAR, "tell", (0,))),
]


@pytest.fixture
def url(database_url: str) -> str:
    """The functions are those of Postgres: the model has none."""
    return database_url


@pytest.fixture
def operator(database_url: str) -> Iterator[Person]:
    with logged_in(database_url, "in role holdfast_operator") as person:
        yield person


async def by_verb(play: Play, request: VerbRequest) -> Outcome:
    assert isinstance(play.stage.store, PostgresStore)
    client = Client(play.stage.store)
    try:
        plan = await client.plan(play.job_id, request)
        result = await client.carry_out(plan, seconds=0)
    except HoldfastError as refused:
        return False, str(refused)
    await play.cycle()
    answer = await client.answer(result.signal_id, seconds=0)
    return (answer.applied, answer.reason) if answer is not None else (True, "waits")


async def by_function(play: Play, operator: Person, function: str, arguments: tuple[Any, ...]) -> Outcome:
    try:
        signal_id = operator.send(function, play.job_id, *arguments)
    except psycopg.Error as refused:
        return False, refused.diag.message_primary or ""
    await play.cycle()
    applied, reason, _ = operator.answer(signal_id)
    return (applied, reason) if applied is not None else (True, "waits")


@pytest.mark.parametrize("state", STATES)
async def test_a_function_is_accepted_or_refused_as_its_verb_is(stage: Stage, operator: Person, state: str) -> None:
    differing = []
    for function, arguments, request in CALLS:
        play = await STATES[state](stage)
        verb = await by_verb(play, request)
        await send(play, "cancel")
        play = await STATES[state](stage)
        called = await by_function(play, operator, function, arguments)
        await send(play, "cancel")
        if verb[0] is not called[0]:
            differing.append((function, *arguments, verb, called))
    assert differing == []
