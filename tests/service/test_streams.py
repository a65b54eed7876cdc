"""Streams of events over HTTP: each event once, in order, and for those alone who may see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from itertools import count
from typing import Any

import httpx2
import pytest

from holdfast.errors import Permanent
from holdfast.operations.streaming import Chosen, Happening, JobEvents, Place
from holdfast.service import event_streams, live
from holdfast.service.event_streams import job_messages, tenant_messages
from holdfast.service.live import Batch, Frame, Listener, frame, message
from tests.conftest import eventually
from tests.running import Engine, registry, running
from tests.service.serving import API, Service, serving_http
from tests.service.streaming import Message, first_place, messages, stream
from tests.service.test_jobs import ECHO, ended
from tests.store.plans import own_database

pytestmark = pytest.mark.anyio

BROKEN: list[bool] = [True]
MEND = {"workflow_id": "mend", "nodes": {"a": {"handler": "mendable"}}}


def mendable() -> str:
    if BROKEN[0]:
        raise Permanent("not mended yet")
    return "done"


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[Engine]:
    async with running(database_url, registry(mendable=mendable)) as engine:
        yield engine


@pytest.fixture
async def service(engine: Engine) -> AsyncIterator[Service]:
    async with serving_http(engine.url) as service:
        yield service


@pytest.fixture
async def apart(server_url: str, template_database: str) -> AsyncIterator[tuple[Service, Engine]]:
    """A service on a database that no other test gets afterwards: its schema may be changed."""
    with own_database(server_url, template_database) as url:
        async with running(url, registry()) as engine, serving_http(url) as service:
            yield service, engine


async def nothing() -> None:
    """What a listener asks whose credential never ends."""


async def submitted(client: httpx2.AsyncClient, definition: dict[str, Any] = ECHO, **body: Any) -> str:
    answer = await client.post(f"{API}/jobs", json={"definition": definition, **body})
    assert answer.status_code in (200, 201), answer.text
    return str(answer.json()["job_id"])


def paused(seconds: float = 0.0) -> dict[str, Any]:
    return {"workflow_id": "wait", "nodes": {"a": {"handler": "sleep", "params": {"duration_seconds": seconds}}}}


async def test_a_stream_of_a_job_brings_what_was_and_what_happens_then_its_end(
    service: Service, engine: Engine
) -> None:
    client = await service.as_role("submitter")
    job_id = await submitted(client, paused(1.0))
    async with stream(client, f"jobs/{job_id}/stream") as found:
        got = [one async for one in found]
    assert got[-1].event == "end"
    assert [one.data for one in got[:-1]] == await engine.events(job_id)
    assert [one.id for one in got[:-1]] == [str(one.data["seq"]) for one in got[:-1]]
    assert got[-2].data["event"] == "job_completed"


async def test_a_stream_of_a_job_that_has_ended_goes_on_behind_what_was_seen(service: Service) -> None:
    client = await service.as_role("submitter")
    job_id = await submitted(client)
    await ended(client, job_id)
    async with stream(client, f"jobs/{job_id}/stream", after="2") as found:
        numbers = [one.data["seq"] async for one in found if not one.event]
    async with stream(client, f"jobs/{job_id}/stream", after="0", last="2") as found:
        assert [one.data["seq"] async for one in found if not one.event] == numbers
    assert numbers[0] == 3
    async with stream(client, f"jobs/{job_id}/stream", last=str(numbers[-1])) as found:
        assert [one.event async for one in found] == ["end"]


async def test_a_recovery_goes_on_in_a_new_stream_behind_the_end(service: Service) -> None:
    BROKEN[0] = True
    client = await service.as_role("operator")
    job_id = await submitted(client, MEND)
    async with stream(client, f"jobs/{job_id}/stream") as found:
        first = [one async for one in found]
    assert (first[-2].data["event"], first[-1].event) == ("job_failed", "end")
    BROKEN[0] = False
    await client.post(f"{API}/jobs/{job_id}/resume", params={"wait": 20}, json={})
    async with stream(client, f"jobs/{job_id}/stream", last=first[-1].id) as found:
        second = [one async for one in found]
    assert second[0].data["event"] == "job_recovered"
    assert (second[-2].data["event"], second[-1].event) == ("job_completed", "end")
    async with stream(client, f"jobs/{job_id}/stream") as found:
        whole = [one async for one in found]
    assert whole == [*first[:-1], *second]


async def test_a_stream_with_a_number_that_the_job_does_not_have_starts_over(service: Service) -> None:
    client = await service.as_role("submitter")
    job_id = await submitted(client)
    await ended(client, job_id)
    async with stream(client, f"jobs/{job_id}/stream", last="4000") as found:
        got = [one async for one in found]
    assert got[0].event == "reset"
    assert got[1].data["seq"] == 1


async def collected(found: AsyncIterator[Message], jobs: set[str]) -> list[Message]:
    """The events until each of these jobs has completed."""
    got, left = [], set(jobs)
    while left:
        one = await asyncio.wait_for(anext(found), 30)
        if one.data is not None:
            got.append(one)
            left -= {one.data["job_id"]} if one.data["event"] == "job_completed" else set()
    return got


async def test_a_stream_of_all_jobs_has_those_of_its_tenant_alone(service: Service, engine: Engine) -> None:
    client, other = await service.as_role("submitter"), await service.as_role("submitter", tenant="other")
    async with stream(client, "events/stream") as found, stream(other, "events/stream") as theirs:
        await first_place(found)
        await first_place(theirs)
        mine = {await submitted(client, key=str(n)) for n in range(3)}
        foreign = {await submitted(other, key=str(n)) for n in range(3)}
        got, others = await collected(found, mine), await collected(theirs, foreign)
    assert {one.data["job_id"] for one in got} == mine
    assert {one.data["job_id"] for one in others} == foreign
    for job_id in mine:
        assert [one.data for one in got if one.data["job_id"] == job_id] == await engine.events(job_id)
    refused = await other.get(f"{API}/jobs/{mine.pop()}/stream")
    assert refused.status_code == 404


async def test_a_stream_of_all_jobs_goes_on_behind_any_event(service: Service) -> None:
    client = await service.as_role("submitter")
    async with stream(client, "events/stream") as found:
        place = await first_place(found)
        jobs = {await submitted(client, key=str(n)) for n in range(4)}
        got = await collected(found, jobs)
    for number in range(-1, len(got)):
        last = got[number].id if number >= 0 else place
        async with stream(client, "events/stream", after=last) as found:
            again = []
            async for one in found:
                if one.data is None:
                    break
                again.append(one)
        assert sorted((one.data["job_id"], one.data["seq"]) for one in again) == sorted(
            (one.data["job_id"], one.data["seq"]) for one in got[number + 1 :]
        )


async def test_a_listener_may_choose_workflows_and_events(service: Service) -> None:
    client = await service.as_role("submitter")
    async with stream(client, "events/stream", workflow=["echo"], event=["job_created", "job_completed"]) as found:
        place = await first_place(found)
        await ended(client, await submitted(client, paused(0.0)))
        job_id = await submitted(client)
        got = await collected(found, {job_id})
    assert [(one.data["job_id"], one.data["event"]) for one in got] == [
        (job_id, "job_created"),
        (job_id, "job_completed"),
    ]
    async with stream(client, "events/stream", last=place, workflow="wait", event="job_completed") as found:
        assert (await anext(found)).data["event"] == "job_completed"


@pytest.mark.parametrize(
    "place",
    ["nonsense", "1-00000001-5-5/3:3:", "1-00000001-5-5/9:3:", "1-00000001-5-5/3:9:5,4", "0" * 70_000, "1/2/3/4/5"],
)
async def test_a_place_that_no_stream_gave_is_refused(service: Service, place: str) -> None:
    client = await service.as_role("viewer")
    if place.endswith("/3:3:"):
        # It could have been another server's.
        async with stream(client, "events/stream", last=place) as found:
            assert (await anext(found)).event == "reset"
        return
    refused = await client.get(f"{API}/events/stream", headers={"Last-Event-ID": place})
    assert refused.status_code in (400, 422)
    if refused.status_code == 422:
        assert refused.json()["code"] == "INVALID_INPUT"


async def test_a_place_whose_next_events_are_pruned_starts_over(service: Service, engine: Engine) -> None:
    client = await service.as_role("submitter")
    async with stream(client, "events/stream") as found:
        place = await first_place(found)
        await collected(found, {await submitted(client)})
    await engine.client.prune(0.0)
    async with stream(client, "events/stream", last=place) as found:
        reset = await anext(found)
        assert reset.event == "reset"
        job_id = await submitted(client)
        assert {one.data["job_id"] for one in await collected(found, {job_id})} == {job_id}
    async with stream(client, "events/stream", last=reset.id) as found:
        assert {one.data["job_id"] for one in await collected(found, {job_id})} == {job_id}


async def test_a_head_request_for_a_stream_ends_at_once(service: Service) -> None:
    client = await service.as_role("viewer")
    answer = await client.head(f"{API}/events/stream")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


async def test_a_quiet_stream_says_that_it_lives(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of all jobs also says how far it has come, so that a client that comes again has little to read."""
    assert event_streams.COMMENT_SECONDS == 15.0
    monkeypatch.setattr(event_streams, "COMMENT_SECONDS", 0.3)
    client = await service.as_role("submitter")
    job_id = await submitted(client, paused(30.0))
    for path, has_place in (("events/stream", True), (f"jobs/{job_id}/stream", False)):
        async with client.stream("GET", f"{API}/{path}") as answer, asyncio.timeout(30):
            lines = answer.aiter_lines()
            comments = 0
            while comments < 3:
                line = await anext(lines)
                if line == ": alive":
                    comments += 1
                    assert (await anext(lines)).startswith("id: ") is has_place


async def test_a_stream_of_few_events_says_that_it_lives_although_many_others_happen(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And how far it has come: what it has passed over would else be read again."""
    monkeypatch.setattr(event_streams, "COMMENT_SECONDS", 0.5)
    client = await service.as_role("submitter")
    async with client.stream("GET", f"{API}/events/stream", params={"workflow": "rare"}) as answer:
        found = messages(answer)
        first = await first_place(found)

        async def others() -> None:
            for number in count():
                await submitted(client, key=str(number))

        busy = asyncio.create_task(others())
        async with asyncio.timeout(30):
            places = [await anext(found) for _ in range(3)]
        busy.cancel()
    assert all(one == Message("", one.id, None) and one.id not in (None, first) for one in places)
    job_id = await submitted(client, {**ECHO, "workflow_id": "rare"})
    async with stream(client, "events/stream", last=places[-1].id, workflow="rare") as again:
        assert {one.data["job_id"] for one in await collected(again, {job_id})} == {job_id}


async def test_a_listener_that_goes_away_while_it_joins_leaves_nothing_behind(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, release = asyncio.Event(), asyncio.Event()
    place = service.live.store.place

    async def slow_place() -> Place:
        asked.set()
        await release.wait()
        return await place()

    monkeypatch.setattr(service.live.store, "place", slow_place)
    with service.live.listening("default", credential="stays", check=nothing) as stays:
        with service.live.listening("default", "job", credential="leaves", check=nothing):
            await asyncio.wait_for(asked.wait(), 30)
        release.set()
        assert isinstance((await stays.take(30))[0], Place)
        assert service.live.groups == {"default": 1}


async def test_an_event_is_encoded_once_for_all_who_listen(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[tuple[str, int]] = []

    def counted(seen: Happening) -> Frame:
        encoded.append((seen.event.job_id, seen.event.seq))
        return frame(seen)

    monkeypatch.setattr(live, "frame", counted)
    client = await service.as_role("submitter")
    async with AsyncExitStack() as stack:
        found = [await stack.enter_async_context(stream(client, "events/stream")) for _ in range(3)]
        for one in found:
            await first_place(one)
        jobs = {await submitted(client, key=str(number)) for number in range(2)}
        got = [await collected(one, jobs) for one in found]
    assert len(encoded) == len(set(encoded))
    assert {(one.data["job_id"], one.data["seq"]) for several in got for one in several} <= set(encoded)


async def test_the_streams_of_a_revoked_key_end(service: Service) -> None:
    made = await service.admin.add_key("watcher", roles=["viewer"], tenant="default")
    submitter = await service.as_role("submitter")
    job_id = await submitted(submitter, paused(30.0))
    client = service.with_key(made.key)
    async with stream(client, "events/stream") as found, stream(client, f"jobs/{job_id}/stream") as of_job:
        await first_place(found)
        await anext(of_job)
        await service.admin.for_tenant("default").revoke_key(made.details.prefix)
        for one in (found, of_job):
            last = [message async for message in one][-1]
            assert (last.event, last.data["code"]) == ("revoked", "UNAUTHENTICATED")


async def test_one_who_reads_slowly_gets_nothing_more_that_waits_once_its_key_has_ended(service: Service) -> None:
    """What a stream has taken from what waits is sent piece by piece, as fast as its client reads."""
    entered: list[Listener] = []

    @contextmanager
    def enter() -> Iterator[Listener]:
        with service.live.listening("default", credential="test", check=nothing) as listener:
            entered.append(listener)
            yield listener

    messages = tenant_messages(service.live, enter, "default", Chosen(), None)
    assert b"open" in await anext(messages)
    assert b"id: " in await anext(messages)
    (listener,) = entered
    for text in (b"first", b"second", b"third"):
        listener.give(Batch([], text))
    assert await anext(messages) == b"first"
    listener.end(message("revoked", {}))
    assert [part async for part in messages] == [message("revoked", {})]


async def test_a_process_that_ends_tells_its_streams_to_come_again(engine: Engine) -> None:
    async with serving_http(engine.url) as service:
        client = await service.as_role("submitter")
        job_id = await submitted(client, paused(30.0))
        kept = [client.stream("GET", f"{API}/{path}") for path in ("events/stream", f"jobs/{job_id}/stream")]
        tails = []
        for one in kept:
            answer = await one.__aenter__()
            lines = answer.aiter_lines()
            while not (await anext(lines)).startswith("id: "):
                pass
            tails.append(asyncio.create_task(_rest(lines)))
        service.request_stop()
        for tail in tails:
            text = await asyncio.wait_for(tail, 20)
            assert "event: restart" in text
            assert any(line.startswith("retry: ") for line in text)


async def _rest(lines: AsyncIterator[str]) -> list[str]:
    return [line async for line in lines]


async def test_a_listener_that_goes_away_leaves_nothing_behind(service: Service) -> None:
    client = await service.as_role("submitter")
    job_id = await submitted(client, paused(30.0))
    for path in ("events/stream", f"jobs/{job_id}/stream"):
        async with stream(client, path) as found:
            await anext(found)

            async def is_there() -> bool:
                return service.live.listeners == 1

            await eventually(is_there)

        async def is_gone() -> bool:
            return service.live.listeners == 0 and service.live.position is None

        await eventually(is_gone)


async def test_what_is_committed_before_a_stream_of_a_job_joins_the_reader_is_not_lost(
    service: Service, engine: Engine
) -> None:
    """The first page is as old as it can be: nothing had happened when it was read."""
    client = await service.as_role("submitter")
    job_id = await submitted(client)
    await ended(client, job_id)
    page = JobEvents(is_over=False, last_seq=0, events=[])

    def enter() -> AbstractContextManager[Listener]:
        return service.live.listening("default", job_id, credential="test", check=nothing)

    async with asyncio.timeout(30):
        sent = [part async for part in job_messages(service.live, enter, "default", job_id, 0, page)]
    numbers = [int(line[4:]) for part in sent for line in part.split(b"\n") if line.startswith(b"id: ")]
    assert numbers[:-1] == [event["seq"] for event in await engine.events(job_id)]
    assert b"event: end" in sent[-1]


async def test_streams_start_over_when_the_database_has_another_history(apart: tuple[Service, Engine]) -> None:
    """A table that was made again stands for a standby that was promoted, or for a backup that was restored."""
    service, engine = apart
    client = await service.as_role("submitter")
    job_id = await submitted(client, paused(30.0))

    async def runs() -> bool:
        return len(await engine.events(job_id)) >= 4

    await eventually(runs)
    async with stream(client, "events/stream") as found, stream(client, f"jobs/{job_id}/stream") as of_job:
        await first_place(found)
        assert [(await anext(of_job)).id for _ in range(4)] == ["1", "2", "3", "4"]
        async with engine.store.connections.use("test") as connection, connection.transaction():
            await connection.execute("create table again (like events including all)")
            await connection.execute("insert into again select * from events where seq <= 2")
            await connection.execute("drop table events")
            await connection.execute("alter table again rename to events")
        reset = await asyncio.wait_for(anext(found), 30)
        while reset.data is None:
            reset = await asyncio.wait_for(anext(found), 30)
        assert reset.event == "reset"
        again = [await asyncio.wait_for(anext(of_job), 30) for _ in range(3)]
        assert [(one.event, one.id) for one in again] == [("reset", "0"), ("", "1"), ("", "2")]


async def test_streams_end_when_their_reader_fails_and_work_again_afterwards(apart: tuple[Service, Engine]) -> None:
    service, engine = apart
    client = await service.as_role("viewer")
    async with stream(client, "events/stream") as found:
        await first_place(found)
        async with engine.store.connections.use("test") as connection:
            await connection.execute("alter table pruned_events rename to away")
            try:
                async with asyncio.timeout(30):
                    assert [one.event async for one in found][-1] == "restart"
            finally:
                await connection.execute("alter table away rename to pruned_events")
    async with stream(client, "events/stream") as found:
        await first_place(found)


async def test_one_who_reads_too_slowly_is_cut_and_loses_nothing(service: Service, engine: Engine) -> None:
    """The other listener of the same events gets all of them meanwhile."""
    client = await service.as_role("submitter")
    job_id = await submitted(client, paused(30.0))
    large, number = "x" * 400, 30_000
    async with stream(client, "events/stream") as slow, stream(client, "events/stream") as quick:
        await first_place(slow)
        await first_place(quick)
        for part in range(0, number, 3_000):
            await engine.query(
                "insert into events (job_id, seq, event, data)"
                " select %s, 1000 + n, 'task_completed', jsonb_build_object('text', %s::text)"
                " from generate_series(%s::int + 1, %s::int + 3000) n",
                job_id, large, part, part,
            )  # fmt: skip
        seen: set[int] = set()
        while len(seen) < number:
            one = await asyncio.wait_for(anext(quick), 30)
            if one.data is not None and one.data["seq"] > 1000:
                seen.add(one.data["seq"])
        async with asyncio.timeout(60):
            got = [one async for one in slow]
    assert got[-1].event == "behind"
    read = [one for one in got if one.data is not None and not one.event and one.data["seq"] > 1000]
    assert len(read) < number
    have = {one.data["seq"] for one in read}
    last = [one.id for one in got if one.id is not None][-1]
    while len(have) < number:
        async with stream(client, "events/stream", last=last) as found:
            async for one in found:
                last = one.id or last
                if one.data is not None and not one.event and one.data["seq"] > 1000:
                    assert one.data["seq"] not in have
                    have.add(one.data["seq"])
                if len(have) == number:
                    break
