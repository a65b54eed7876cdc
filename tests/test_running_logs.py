"""What running attempts print can be seen: part by part, fenced by the lease, and gone when the report has it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.masking import keep_secret, unfinished
from holdfast.store.output_rows import OutputPart
from holdfast.store.records import WorkerIdentity
from holdfast.views.history import Attempt, LogTime, last_lines, without_beginning
from holdfast.worker.context import Context
from tests.conftest import eventually
from tests.running import SHORT_LEASES, Engine, client_of, registry, running, serving

pytestmark = pytest.mark.anyio

ONE = "workflow_id: one\nnodes: {a: {handler: work, retry: {max_retries: 0}}}"
EACH = """
workflow_id: each
nodes: {a: {type: fan_out, source: "{{ [0, 1] }}", task: {handler: work, params: {item: "{{ item }}"}}}}
"""


async def output_of(engine: Engine, job_id: str, text: str) -> Attempt:
    """The running attempt whose output has this text."""

    async def has_it() -> Attempt | None:
        return next((one for one in await engine.client.running_attempts(job_id) if text in (one.log or "")), None)

    attempt = await eventually(has_it)
    assert attempt is not None
    return attempt


async def saved_rows(engine: Engine) -> int:
    return int((await engine.query("select count(*) from holdfast.attempt_output"))[0][0])


async def nothing_is_saved(engine: Engine) -> None:
    async def is_gone() -> bool:
        return await saved_rows(engine) == 0

    await eventually(is_gone)


async def test_what_a_running_attempt_prints_can_be_seen_and_goes_with_its_report(database_url: str) -> None:
    second, go = threading.Event(), threading.Event()

    def work() -> None:
        print("first")
        second.wait(30)
        print("second")
        go.wait(30)
        print("third")

    async with running(database_url, registry(work=work)) as engine:
        job_id = await engine.submit(ONE)
        seen = await output_of(engine, job_id, "first")
        assert (seen.node, seen.index, seen.attempt, seen.outcome) == ("a", None, 1, "running")
        assert (seen.log, seen.finished_at) == ("first\n", None)
        assert [one.line for one in seen.log_times] == [0]
        second.set()
        seen = await output_of(engine, job_id, "second")
        assert seen.log == "first\nsecond\n"
        assert [one.line for one in seen.log_times] == [0, 1]
        assert await engine.client.running_attempts(job_id, node="a", index=3) == []
        go.set()
        await engine.finished(job_id)
        (ended,) = await engine.client.attempts(job_id)
        assert ended.log == "first\nsecond\nthird\n"
        assert ended.log_times[:2] == seen.log_times
        assert await engine.client.running_attempts(job_id) == []
        await nothing_is_saved(engine)


async def test_following_gives_every_line_once_and_how_each_attempt_ended(database_url: str) -> None:
    go = threading.Event()

    def work(item: int) -> None:
        print(f"begin {item}")
        go.wait(30)
        print(f"end {item}")
        if item == 1:
            raise ValueError("odd")

    async with running(database_url, registry(work=work)) as engine:
        job_id = await engine.submit(EACH.replace('{{ item }}"}', '{{ item }}"}, retry: {max_retries: 0}'))
        texts: dict[int | None, str] = {0: "", 1: ""}
        outcomes: dict[int | None, str] = {}
        async for attempt in engine.client.follow_logs(job_id):
            texts[attempt.index] += attempt.log or ""
            outcomes[attempt.index] = attempt.outcome
            if all("begin" in text for text in texts.values()):
                go.set()
    assert outcomes == {0: "done", 1: "failed"}
    assert texts[0] == "begin 0\nend 0\n"
    assert texts[1].startswith("begin 1\nend 1\nTraceback")
    assert texts[1].count("ValueError: odd") == 1


async def test_following_a_job_that_has_ended_gives_its_logs_and_ends(database_url: str) -> None:
    async with running(database_url, registry(work=lambda: print("one\ntwo\nthree"))) as engine:
        job_id = await engine.submit(ONE)
        await engine.finished(job_id)
        assert [one.log async for one in engine.client.follow_logs(job_id)] == ["one\ntwo\nthree\n"]
        assert [one.log async for one in engine.client.follow_logs(job_id, tail=1)] == ["three\n"]


async def test_quiet_and_short_attempts_write_nothing(database_url: str) -> None:
    go = asyncio.Event()

    async def work() -> None:
        await go.wait()
        print("short")

    async with running(database_url, registry(work=work)) as engine:
        quiet = await engine.submit(ONE, key="quiet")

        async def runs_for_long() -> bool:
            old = "select 1 from holdfast.queue where claimed_at < now() - interval '2.5 s'"
            return bool(await engine.query(old))

        async with writes_refused(engine):
            await eventually(runs_for_long)
            go.set()
            for job_id in (quiet, await engine.submit(ONE, key="short")):
                assert (await engine.finished(job_id))["status"] == "completed"
                assert [one.log for one in await engine.client.attempts(job_id)] == ["short\n"]


@asynccontextmanager
async def writes_refused(engine: Engine) -> AsyncIterator[None]:
    """Any statement that writes output fails, and ends the worker."""
    await engine.query(
        "create function holdfast.refused() returns trigger language plpgsql as $$ begin raise 'written'; end $$"
    )
    try:
        await engine.query(
            "create trigger refused before insert or delete on holdfast.attempt_output"
            " execute function holdfast.refused()"
        )
        yield
    finally:
        await engine.query("drop function holdfast.refused cascade")


async def test_a_late_worker_saves_nothing(database_url: str) -> None:
    go = threading.Event()

    def work() -> None:
        print("mine")
        go.wait(30)

    async with running(database_url, registry(work=work)) as engine:
        job_id = await engine.submit(ONE)
        await output_of(engine, job_id, "mine")
        ((holder, epoch),) = await engine.query("select holder, epoch from holdfast.queue")
        store = engine.store.output()
        held = (job_id, "a", -1, epoch)
        part = OutputPart(held, 7, 0.0, "late\n", [[0, 0]])
        await store.save(WorkerIdentity(holder + 1, "other"), [part], [])
        await store.save(WorkerIdentity(holder, "old"), [part._replace(held=(job_id, "a", -1, epoch - 1))], [])
        assert "late" not in (await output_of(engine, job_id, "mine")).log  # type: ignore[operator]
        assert await saved_rows(engine) == 1
        await store.save(WorkerIdentity(holder, "same"), [part, part], [])
        await store.save(WorkerIdentity(holder, "same"), [part], [])
        assert (await output_of(engine, job_id, "late")).log == "mine\nlate\n"
        go.set()
        await engine.finished(job_id)


async def test_what_an_attempt_printed_before_its_worker_was_lost_stays(database_url: str) -> None:
    go = threading.Event()

    def work(*, ctx: Context) -> None:
        print(f"attempt {ctx.attempt} begins")
        go.wait(30)

    async with running(database_url, registry(work=work), **SHORT_LEASES) as engine:
        job_id = await engine.submit(ONE)
        await output_of(engine, job_id, "attempt 1")
        await engine.query("update holdfast.workers set ended_at = now()")
        await output_of(engine, job_id, "attempt 2")
        go.set()
        await engine.finished(job_id)
        attempts = await engine.client.attempts(job_id)
        followed = [(one.attempt, one.log) async for one in engine.client.follow_logs(job_id)]
    lost = [(1, "lost", "attempt 1 begins\n"), (2, "done", "attempt 2 begins\n")]
    assert [(one.attempt, one.outcome, one.log) for one in attempts] == lost
    assert followed == [(attempt, log) for attempt, _, log in lost]


async def test_output_of_a_worker_that_is_gone_is_shown_no_more(database_url: str) -> None:
    go = threading.Event()

    def work() -> None:
        print("mine")
        go.wait(30)

    async with running(database_url, registry(work=work)) as engine:
        job_id = await engine.submit(ONE)
        await output_of(engine, job_id, "mine")
        await engine.query("update holdfast.queue set epoch = epoch + 1")
        assert await engine.client.running_attempts(job_id) == []
        await engine.query("update holdfast.queue set epoch = epoch - 1")
        go.set()
        await engine.finished(job_id)


async def test_a_worker_that_stops_leaves_no_output_behind(database_url: str) -> None:
    async def work() -> None:
        print("begun")
        await asyncio.Event().wait()

    async with client_of(database_url) as engine, serving(database_url, work=False):
        async with serving(database_url, registry(work=work), orchestrate=False, grace_seconds=0.1):
            job_id = await engine.submit(ONE)
            await output_of(engine, job_id, "begun")
        assert await saved_rows(engine) == 0


async def test_secrets_are_masked_while_an_attempt_runs(database_url: str) -> None:
    secret = f"first line {os.getpid()}\nsecond line"
    keep_secret(secret)
    half, go = threading.Event(), threading.Event()

    def work() -> None:
        print("https://ann:geheim@example.org")
        print(secret[: secret.index("\n") + 4], end="")
        half.wait(30)
        print(secret[secret.index("\n") + 4 :])
        go.wait(30)

    async with running(database_url, registry(work=work)) as engine:
        job_id = await engine.submit(ONE)
        assert (await output_of(engine, job_id, "example")).log == "https://ann:***@example.org\n"
        half.set()
        assert (await output_of(engine, job_id, "***\n")).log == "https://ann:***@example.org\n***\n"
        go.set()
        await engine.finished(job_id)


def test_the_beginning_of_a_secret_is_recognised() -> None:
    keep_secret("opensesame77")
    assert unfinished("say opense") == len("opense")
    assert unfinished("say opensesame77") == 0
    assert unfinished("say nothing!") == 0


START = datetime(2026, 11, 15, 12, tzinfo=UTC)


def attempt(log: str, *lines: int) -> Attempt:
    """Each of the lines was printed in the second of its number."""
    times = tuple(LogTime(line, START + timedelta(seconds=line)) for line in lines)
    return Attempt("a", None, 1, "done", "w", START, START, None, log, None, times)


def seconds(one: Attempt) -> list[tuple[int, int]]:
    return [(time.line, (time.at - START).seconds) for time in one.log_times]


def test_the_last_lines_keep_their_times() -> None:
    whole = attempt("zero\none\ntwo\nthree\n", 0, 1, 3)
    assert last_lines(whole, None) is last_lines(whole, 4) is whole
    last = last_lines(whole, 2)
    assert (last.log, seconds(last)) == ("two\nthree\n", [(0, 1), (1, 3)])
    assert last_lines(attempt("zero\none", 0), 1).log == "one"
    assert last_lines(replace(whole, log=None, log_times=()), 1).log is None


def test_the_rest_of_a_log_follows_what_was_read() -> None:
    whole = attempt("x\nx\nx\nend\n", 0, 1, 2, 3)
    rest = without_beginning(whole, 4, "x\nx\n")
    assert (rest.log, seconds(rest)) == ("x\nend\n", [(0, 2), (1, 3)])
    assert without_beginning(whole, 0, "") is whole
    assert without_beginning(whole, len(whole.log or ""), "end\n").log is None


def test_the_rest_of_a_log_without_its_middle_follows_the_last_that_was_read() -> None:
    cut = attempt("begin\n… 9 characters were cut off here …\nread\nend\n", 0)
    assert without_beginning(cut, 5000, "read\n").log == "end\n"
    assert without_beginning(cut, 5000, "not there\n") is cut
