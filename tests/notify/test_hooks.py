"""Hooks of apps: called when a job has ended, at least once, by a process that has the app."""

from __future__ import annotations

import asyncio
import logging
import sys
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from importlib.metadata import EntryPoint

import pytest

from holdfast.client import Client
from holdfast.define.load import load_text
from holdfast.errors import InvalidInput
from holdfast.log_events import Line
from holdfast.notify.deciding import GIVE_UP_SECONDS, Ending
from holdfast.notify.hook_caller import EndedJob, HookCaller
from holdfast.notify.service import LEASE_SECONDS
from holdfast.operations import app_functions
from holdfast.operations.hooks import hook, known_hooks
from holdfast.operations.scope import Scope
from holdfast.store.notify_rows import ClaimedDelivery, NotedEvent
from tests.conftest import eventually
from tests.notify.hook_app import HOOK, HookApp
from tests.notify.stage import Stage
from tests.running import registry, running

pytestmark = pytest.mark.anyio

WAY = f"hook:{HOOK}"
FLOW = "workflow_id: tides\nnodes: {a: {handler: echo}}\n"


@contextmanager
def installed(app: HookApp, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process has the app."""
    with monkeypatch.context() as patch:
        patch.syspath_prepend(app.path)
        patch.setenv("LEDGER", str(app.ledger))
        known_hooks.cache_clear()
        try:
            yield
        finally:
            sys.modules.pop("ledger_app", None)
            known_hooks.cache_clear()


async def test_a_hook_gets_the_end_of_every_job_and_a_client_for_its_tenant(
    app: HookApp, stage: Stage, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = load_text(FLOW)
    with installed(app, monkeypatch):
        # The jobs are there before the process: it knows its hooks before its first cycle.
        others = Client(stage.store, Scope("maps"))
        mine = Client(stage.store, Scope())
        first = await mine.submit(definition)
        second, _ = [await others.submit(definition, key=key) for key in ("a", "b")]
        async with running(database_url):
            await eventually(lambda: has(app, 3))
            await eventually(stage.all_sent)
    by_job = {words[1]: words for words in app.ends}
    assert len(app.ends) == 3
    for job_id, tenant, jobs in ((first.job_id, "default", "1"), (second.job_id, "maps", "2")):
        _, _, of, workflow, status, generation, seq, acts_for, actor, seen = by_job[job_id]
        assert (of, workflow, status, generation) == (tenant, "tides", "completed", "1")
        assert (acts_for, actor, seen) == (tenant, "hook-ledger.note", jobs)
        assert int(seq) > 0
    shown = (await mine.deliveries()).deliveries
    assert [(one.id, one.kind, one.receiver, one.event, one.status, one.tries) for one in shown] == [
        (by_job[first.job_id][0], "hook", HOOK, "job_completed", "sent", 1)
    ]
    assert len((await others.deliveries()).deliveries) == 2


async def has(app: HookApp, calls: int) -> bool:
    return len(app.ends) >= calls


async def test_without_a_hook_a_job_that_ends_writes_nothing_for_receivers(stage: Stage, database_url: str) -> None:
    async with running(database_url) as engine:
        assert (await engine.run(FLOW))["status"] == "completed"
    assert await stage.sql("select count(*) from outbox") == [(0,)]


async def test_two_processes_call_a_hook_once_for_each_end(
    app: HookApp, stage: Stage, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.store.announce_hooks([HOOK])
    for _ in range(40):
        await stage.note("job_completed", job_id=str(uuid.uuid4()))
    with installed(app, monkeypatch):
        async with AsyncExitStack() as processes:
            for _ in range(2):
                await processes.enter_async_context(running(database_url, registry()))
            await eventually(stage.all_sent)
    assert len(app.ends) == len({words[0] for words in app.ends}) == 40


async def test_a_hook_that_raises_is_called_again_under_the_same_id_until_it_is_dead_and_redriven(
    app: HookApp, stage: Stage, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (app.ledger / "down").touch()
    with installed(app, monkeypatch):
        async with running(database_url) as engine:
            job_id = (await engine.run(FLOW))["job_id"]

            async def was_called() -> bool:
                await stage.retry_now()
                return len(app.ends) >= 2

            await eventually(was_called)

            async def is_dead() -> bool:
                await stage.pass_time(GIVE_UP_SECONDS + LEASE_SECONDS)
                return {status for status, *_ in await stage.deliveries()} == {"dead"}

            await eventually(is_dead)
            ((_, tries, error),) = await stage.deliveries()
            assert error == "RuntimeError: the ledger is down"
            assert tries >= 2
            (app.ledger / "down").unlink()
            client = Client(stage.store, Scope())
            (dead,) = (await client.deliveries(status="dead")).deliveries
            assert (await client.redrive(dead.id)).status == "waiting"
            await eventually(stage.all_sent)
    assert {tuple(words[:2]) for words in app.ends} == {(dead.id, job_id)}


async def test_a_hook_that_hangs_is_ended_and_called_again(stage: Stage) -> None:
    calls: list[str] = []

    async def hang(ended: EndedJob) -> None:
        calls.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            calls.append("cancelled")

    await stage.store.announce_hooks([HOOK])
    await stage.note("job_failed")
    async with asyncio.timeout(20):
        await stage.send(stage.notifier(hooks={WAY: HookCaller(HOOK, hang, seconds=0.05)}))
    assert calls == ["begun", "cancelled"]
    assert await stage.deliveries() == [("waiting", 1, "it did not end within 0.05 s")]
    # What hangs takes places: while it does, one end at a time is tried.
    assert len(await stage.sql("select 1 from failing_destinations where destination = %s", WAY)) == 1
    await stage.retry_now()
    await stage.send(stage.notifier(hooks={WAY: HookCaller(HOOK, hang, seconds=0.05)}))
    assert calls == ["begun", "cancelled"] * 2


async def test_a_hook_that_takes_no_notice_of_its_end_does_not_hold_the_process(stage: Stage) -> None:
    is_over = asyncio.Event()

    async def stubborn(ended: EndedJob) -> None:
        while not is_over.is_set():
            try:
                await is_over.wait()
            except asyncio.CancelledError:
                continue

    await stage.store.announce_hooks([HOOK])
    await stage.note("job_failed")
    notifier = stage.notifier(hooks={WAY: HookCaller(HOOK, stubborn, seconds=0.05, cancel_seconds=0.05)})
    try:
        async with asyncio.timeout(20):
            await stage.send(notifier)
    finally:
        is_over.set()
    assert await stage.deliveries() == [("waiting", 1, "it did not end within 0.05 s")]


def delivery() -> ClaimedDelivery:
    (event,) = [NotedEvent("job_partial", None, "j", "tides", None, 2, 9)]  # type: ignore[arg-type]
    return ClaimedDelivery("d", "maps", "hook", WAY, 1, 0.0, 0, (event,), "j")


async def test_whatever_a_hook_raises_is_its_own_failure_and_not_that_of_other_ends() -> None:
    for error, problem in (
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "it was cancelled"),
        (ValueError("two\nlines"), "ValueError: two lines"),
    ):

        async def fail(ended: EndedJob, error: BaseException = error) -> None:
            assert ended == EndedJob("d", "j", "maps", "tides", "partial", 2, 9)
            raise error

        assert await HookCaller(HOOK, fail).send(delivery()) == Ending(problem, is_of_destination=False)


async def test_a_process_that_stops_ends_the_hook_that_it_calls() -> None:
    calls: list[str] = []
    has_begun = asyncio.Event()

    async def hang(ended: EndedJob) -> None:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            calls.append("cancelled")

    sending = asyncio.create_task(HookCaller(HOOK, hang).send(delivery()))
    await has_begun.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert calls == ["cancelled"]


async def test_a_hook_that_no_process_has_is_forgotten_and_what_waits_for_it_ends(stage: Stage) -> None:
    await stage.store.announce_hooks([HOOK, "ledger.other"])
    await stage.note("job_failed", job_id=str(uuid.uuid4()))
    await stage.send()
    assert await stage.deliveries("status, tries") == [("waiting", 0), ("waiting", 0)]
    await stage.pass_time(GIVE_UP_SECONDS + 3700)
    await stage.sql("update hooks set seen_at = seen_at - interval '4 days'")
    await stage.store.announce_hooks([HOOK])
    await stage.store.notify().forget(30 * 86_400.0, GIVE_UP_SECONDS)
    assert await stage.sql("select name from hooks") == [(HOOK,)]
    assert await stage.deliveries("status, error") == [
        ("dead", f"no process that delivers has the hook {name}") for name in (HOOK, "ledger.other")
    ]


async def test_a_hook_gets_no_event_but_the_end_of_a_job(stage: Stage) -> None:
    await stage.store.announce_hooks([HOOK])
    for event in ("job_stuck", "node_failed", "job_cancelled"):
        await stage.note(event)
    await stage.send()
    rows = await stage.sql("select o.event from deliveries d join outbox o using (outbox_id)")
    assert rows == [("job_cancelled",)]


async def test_a_hook_must_be_a_coroutine_function_with_a_name_of_two_parts() -> None:
    with pytest.raises(InvalidInput, match="'tidy' is not the name of a hook"):
        hook("tidy")

    def plain(ended: EndedJob, client: Client) -> None: ...

    with pytest.raises(InvalidInput, match="is no coroutine function"):
        hook("things.tidy")(plain)  # type: ignore[type-var]


async def test_an_app_that_is_broken_is_left_out_and_the_others_hooks_are_known(
    app: HookApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    group = "holdfast.hooks"
    points = [EntryPoint("broken", "no_such_module", group), EntryPoint("empty", "json", group)]
    points.append(EntryPoint("ledger", "ledger_app", group))
    with installed(app, monkeypatch), monkeypatch.context() as patch:
        patch.setattr(app_functions, "entry_points", lambda group: points)
        with caplog.at_level(logging.ERROR, "holdfast.notify"):
            assert list(known_hooks()) == [HOOK]
    lines = [one.msg for one in caplog.records if isinstance(one.msg, Line)]
    assert [line.fields["app"] for line in lines] == ["broken", "empty"]
    assert lines[1].fields["reason"] == "ValueError: json has no hooks; decorate its functions with @hook"
