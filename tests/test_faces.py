"""The two faces of the operations: what `Client` does, `SyncClient` does too."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast
from holdfast import Client, SyncClient, Verb, VerbRequest, load_text, to_json
from holdfast.define.gates import BreakerRules
from holdfast.errors import InvalidInput, NeedsDatabase, NotFound, Permanent, Refused, Unreachable
from holdfast.operations.scope import Scope
from holdfast.remote.client import RemoteClient
from holdfast.remote.not_yet import NEEDS_A_DATABASE, NOT_YET
from holdfast.views.history import Retries
from tests.running import client_of, registry, running
from tests.service.serving import serving_http

pytestmark = pytest.mark.anyio

MAPS = load_text("workflow_id: maps\ninputs: {region: {type: string}}\nnodes: {draw: {handler: echo}}")
OTHER = load_text("workflow_id: other\nnodes: {a: {handler: echo}}")
ITEMS = load_text("""
workflow_id: items
nodes:
  each:
    type: fan_out
    source: "{{ [0, 1, 2] }}"
    task: {handler: work, params: {item: "{{ item }}"}, retry: {max_retries: 0}}
""")


def work(item: int) -> int:
    if item == 1:
        raise Permanent("item 1 is bad")
    return item


def fail_by_number(item: int) -> int:
    raise Permanent(f"item {item} is bad", code="ODD" if item % 2 else "EVEN")


class Face:
    """A client of either kind, called in the same way. The synchronous one is called in a thread."""

    def __init__(self, client: Client | SyncClient) -> None:
        self._client = client

    async def __call__(self, name: str, *arguments: Any, **options: Any) -> Any:
        method = getattr(self._client, name)
        if isinstance(self._client, Client):
            return await method(*arguments, **options)
        return await asyncio.to_thread(method, *arguments, **options)

    async def all(self, name: str, *arguments: Any, **options: Any) -> list[Any]:
        """Everything that an iterator gives."""
        values = getattr(self._client, name)(*arguments, **options)
        if isinstance(self._client, Client):
            return [value async for value in values]
        return await asyncio.to_thread(list, values)


@asynccontextmanager
async def address_of(database_url: str, place: str) -> AsyncIterator[tuple[str, str | None]]:
    """Where a client connects to: the database itself, or a service at it; and with which key."""
    if place == "database":
        yield database_url, None
        return
    async with serving_http(database_url) as service:
        yield service.url, await service.key("admin", tenant="*", name="ann@desk")


@pytest.fixture(params=["database", "http"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[Client, SyncClient])
async def face(request: pytest.FixtureRequest, database_url: str, place: str) -> AsyncIterator[Face]:
    scope = Scope(actor="ann@desk")
    async with address_of(database_url, place) as (url, key):
        if request.param is Client:
            async with Client.connect(url, scope, api_key=key) as client:
                yield Face(client)
        else:
            opened = SyncClient.connect(url, scope, api_key=key)
            yield Face(await asyncio.to_thread(opened.__enter__))
            await asyncio.to_thread(opened.__exit__, None, None, None)


def methods(kind: type) -> dict[str, inspect.Signature]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.signature(method) for name, method in found if not name.startswith("_")}


def shape(parameter: inspect.Parameter) -> tuple[Any, ...]:
    """Its name, kind, type and default; functions are compared by what they are, not by which."""
    default = callable if inspect.isfunction(parameter.default) else parameter.default
    return parameter.name, parameter.kind, parameter.annotation, default


def test_the_synchronous_client_has_every_method_with_the_same_parameters() -> None:
    ours, theirs = methods(SyncClient), methods(Client)
    assert set(ours) == set(theirs)
    for name, signature in theirs.items():
        # An event of asyncio is of no use outside of its loop.
        wanted = [shape(one) for one in signature.parameters.values() if one.name != "wake"]
        assert [shape(one) for one in ours[name].parameters.values()] == wanted, name


STEPS = {
    "correcting.plan_correction", "defaults.defaults_now", "known_workers.credential_of", "known_workers.tenant_of",
    "reading.identities_of_key", "schedules.new_row", "submitting.resume_failed",
}  # fmt: skip
"""What other operations are made of. No client asks for them alone."""


def test_a_client_has_every_operation() -> None:
    """Everything public in operations/ that takes a scope is called by a method, by its module or a name for that."""
    package = Path(holdfast.__file__).parent
    clients = " ".join(path.read_text(encoding="utf-8") for path in package.glob("client*.py"))
    operations = {
        f"{path.stem}.{function.name}"
        for path in (package / "operations").glob("*.py")
        for function in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and not function.name.startswith("_")
        if function.args.args and function.args.args[0].arg == "scope"
    }
    for module, name in re.findall(r"from holdfast\.operations import (\w+) as (\w+)", clients):
        clients = re.sub(rf"\b{name}\.", f"{module}.", clients)
    called = {one for one in operations if re.search(rf"\b{re.escape(one)}\b", clients)}
    assert len(called) > 80
    assert operations - called == STEPS


def test_a_client_over_a_url_has_every_method_or_says_which_need_a_database() -> None:
    refused = {*NEEDS_A_DATABASE, *NOT_YET}
    mirrored: dict[str, inspect.Signature] = {}
    for kind in RemoteClient.__mro__:
        if kind.__module__.startswith("holdfast.remote.") and kind is not RemoteClient:
            mirrored = {**methods(kind), **mirrored}
    # These send a verb, as `send` does.
    of_others = {"cancel", "pause", "unpause"}
    assert set(methods(Client)) == mirrored.keys() | refused | of_others
    assert not mirrored.keys() & (refused | of_others)
    for name, signature in mirrored.items():
        theirs = methods(Client)[name].parameters.values()
        assert [shape(one) for one in signature.parameters.values()] == [shape(one) for one in theirs], name


@pytest.mark.parametrize("name", sorted({*NEEDS_A_DATABASE, *NOT_YET}))
async def test_what_needs_a_database_says_so(database_url: str, name: str) -> None:
    async with address_of(database_url, "http") as (url, key), Client.connect(url, api_key=key) as client:
        with pytest.raises(NeedsDatabase, match=f"`{name}` needs the database itself"):
            getattr(client, name)()


async def test_jobs_are_listed_page_by_page_newest_first(face: Face) -> None:
    made = [(await face("submit", MAPS, {"region": str(number)})).job_id for number in range(5)]
    first = await face("jobs", limit=2)
    assert [job.job_id for job in first.jobs] == made[:2:-1]
    second = await face("jobs", limit=2, after=first.after)
    last = await face("jobs", limit=2, after=second.after)
    assert [job.job_id for page in (first, second, last) for job in page.jobs] == made[::-1]
    assert last.after is None
    assert (await face("jobs", limit=5)).after is None, "there is nothing behind a page that ends the list"


async def test_a_list_of_jobs_is_filtered(face: Face) -> None:
    now = datetime.now(UTC)
    named = (await face("submit", MAPS, {"region": "CIV"}, key="monday")).job_id
    maps = (await face("submit", MAPS, {"region": "GHA"})).job_id
    other = (await face("submit", OTHER)).job_id

    async def listed(**filters: Any) -> list[str]:
        return [job.job_id for job in (await face("jobs", **filters)).jobs]

    assert await listed(workflow_id="maps") == [maps, named]
    assert await listed(status="pending") == [other, maps, named]
    assert await listed(status=["completed", "failed"]) == []
    assert await listed(workflow_id="maps", key="monday") == [named]
    assert await listed(workflow_id="maps", key="monday", status="failed") == []
    assert await listed(workflow_id="other", key="monday") == []
    assert await listed(key="monday") == [named]
    assert await listed(key="tuesday") == []
    assert await listed(since=now - timedelta(hours=1)) == [other, maps, named]
    assert await listed(since=now + timedelta(hours=1)) == []
    assert await listed(until=now - timedelta(hours=1)) == []


async def test_a_job_that_fits_is_found_behind_many_that_do_not(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.store.listing.WALK_LENGTH", 2)
    other = (await face("submit", OTHER)).job_id
    for number in range(6):
        await face("submit", MAPS, {"region": str(number)})
    page = await face("jobs", workflow_id="other", limit=1)
    assert ([job.job_id for job in page.jobs], page.after) == ([other], None)


async def test_a_page_ends_after_a_bounded_walk_and_its_cursor_continues(
    face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.listing.WALK_LENGTH", 2)
    monkeypatch.setattr("holdfast.store.listing.LONGEST_WALK", 4)
    other = (await face("submit", OTHER)).job_id
    for number in range(6):
        await face("submit", MAPS, {"region": str(number)})
    page = await face("jobs", workflow_id="other", limit=1)
    assert page.jobs == ()
    page = await face("jobs", workflow_id="other", limit=1, after=page.after)
    assert ([job.job_id for job in page.jobs], page.after) == ([other], None)
    assert await face("find_job", "last") == (await face("jobs", limit=1)).jobs[0].job_id


async def test_a_list_does_not_show_how_many_jobs_other_tenants_have(
    database_url: str, face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page looks at a bounded number of jobs. Those of others are none of them, and no cursor names one."""
    monkeypatch.setattr("holdfast.store.listing.WALK_LENGTH", 2)
    monkeypatch.setattr("holdfast.store.listing.LONGEST_WALK", 4)
    mine = (await face("submit", OTHER)).job_id
    async with Client.connect(database_url, Scope("theirs", "bob@desk")) as theirs:
        for number in range(8):
            await theirs.submit(MAPS, {"region": str(number)})
    for filters in ({}, {"workflow_id": "other"}, {"code": "TIMEOUT"}, {"labels": {"team": "a"}}):
        page = await face("jobs", **filters, limit=1)
        found = [] if {"code", "labels"} & set(filters) else [mine]
        assert ([job.job_id for job in page.jobs], page.after) == (found, None), filters


@pytest.mark.parametrize("walk", [1, 2, 1000])
async def test_jobs_are_found_by_their_labels_page_by_page(
    face: Face, monkeypatch: pytest.MonkeyPatch, walk: int
) -> None:
    """Whether the walk over the newest jobs finds them, or the index does."""
    monkeypatch.setattr("holdfast.store.listing.WALK_LENGTH", walk)
    monkeypatch.setattr("holdfast.store.listing.LABEL_WALK", walk)
    made = []
    for number in range(6):
        labels = {"team": "maps", "number": str(number % 2)} if number != 3 else None
        made.append((await face("submit", MAPS, {"region": str(number)}, labels=labels)).job_id)

    async def listed(**filters: Any) -> list[str]:
        ids, after = [], None
        while True:
            page = await face("jobs", limit=2, after=after, **filters)
            ids += [job.job_id for job in page.jobs]
            after = page.after
            if after is None:
                return ids

    assert await listed(labels={"team": "maps"}) == [made[place] for place in (5, 4, 2, 1, 0)]
    assert await listed(labels={"team": "maps", "number": "1"}) == [made[5], made[1]]
    assert await listed(labels={"team": "maps"}, status="failed") == []
    assert await listed(labels={"team": "other"}) == []
    assert (await face("job", made[0])).labels == {"team": "maps", "number": "0"}
    assert (await face("job", made[3])).labels == {}


async def test_labels_are_no_part_of_the_identity(face: Face) -> None:
    first = await face("submit", OTHER, labels={"a": "1"})
    again = await face("submit", OTHER, labels={"a": "2"})
    assert (again.job_id, again.answer) == (first.job_id, "already_processing")
    assert (await face("job", first.job_id)).labels == {"a": "1"}


async def test_a_submission_like_a_job_has_its_inputs_where_it_has_none(face: Face) -> None:
    first = await face("submit", MAPS, {"region": "CIV"})
    assert (await face("submit", MAPS, like=first.job_id)).job_id == first.job_id
    other = await face("submit", MAPS, {"region": "GHA"}, like=first.job_id)
    assert (await face("job", other.job_id)).inputs == {"region": "GHA"}
    with pytest.raises(NotFound):
        await face("submit", MAPS, like="00000000-0000-0000-0000-000000000000")


async def test_jobs_are_found_by_the_code_of_a_failure(database_url: str, face: Face) -> None:
    """Also by that of an item which is not the first that failed."""
    async with running(database_url, registry(work=fail_by_number)):
        job_id = (await face("submit", ITEMS)).job_id
        await face.all("watch", job_id)
    for code, found in {"ODD": [job_id], "EVEN": [job_id], "OTHER": []}.items():
        assert [job.job_id for job in (await face("jobs", code=code)).jobs] == found, code


@pytest.mark.parametrize(
    "filters",
    [
        {"status": "lost"},
        {"limit": 0},
        {"limit": 1001},
        {"after": "nonsense"},
        {"labels": {"a b": "c"}},
        {"labels": {"a": "x" * 201}},
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(face: Face, filters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await face("jobs", **filters)


async def test_a_job_and_all_its_parts_can_be_read(database_url: str, face: Face) -> None:
    async with running(database_url, registry(work=work)):
        job_id = (await face("submit", ITEMS)).job_id
        looks = await face.all("watch", job_id)
        events = await face.all("events", job_id, follow=True)
    assert looks[-1].status == "failed"
    assert all(before != after for before, after in pairwise(looks))
    assert [event.event for event in events][-1] == "job_failed"
    # A stream has times with milliseconds.
    assert to_json(await face.all("events", job_id, after=events[-2].seq)) == to_json(events[-1:])
    job = await face("job", await face("find_job", job_id[-8:]))
    assert (job.is_terminal, job.counts.completed, job.counts.failed) == (True, 2, 1)
    assert list(to_json(job))[:3] == ["job_id", "workflow_id", "status"]
    assert [(task.index, task.status) for task in await face("tasks", job_id)] == [
        (0, "completed"), (1, "failed"), (2, "completed"),
    ]  # fmt: skip
    (bad,) = await face("tasks", job_id, node="each", status="failed")
    assert bad.error.message == "item 1 is bad"
    assert [task.index for task in await face("tasks", job_id, after=("each", 1))] == [2]
    (attempt,) = await face("attempts", job_id)
    assert (attempt.node, attempt.index, attempt.outcome) == ("each", 1, "failed")
    (group,) = await face("failures", job_id, "each")
    assert (group.number, group.items) == (1, (1,))
    assert (await face("retries", job_id), await face("artifacts", job_id)) == (Retries(0, 0), [])
    assert await face("outputs", job_id) == {"each": None}, "it failed"
    why = await face("why", job_id)
    assert (why.reasons[0].cause, why.reasons[0].node) == ("failed", "each")
    numbers = await face("statistics")
    assert (numbers.jobs["failed"], numbers.workflows) == (1, {"items": {"failed": 1}})
    assert (numbers.queued, numbers.running) == (0, 0)
    with pytest.raises(NotFound, match="no node 'eahc'"):
        await face("tasks", job_id, node="eahc")


async def test_an_older_definition_that_is_registered_again_is_the_current_one(face: Face) -> None:
    first, second = (load_text(f"workflow_id: w\nversion: {n}\nnodes: {{a: {{handler: echo}}}}") for n in (1, 2))
    assert (await face("register", first)).answer == "registered"
    assert (await face("register", second)).answer == "registered"
    current = await face("register", second)
    assert (current.answer, current.version) == ("already_current", "2")
    assert (await face("definition", "w")) == second
    again = await face("register", first)
    assert again.answer == "registered" and again.registered_at > current.registered_at
    assert (await face("definition", "w")) == first
    await face("submit", second)
    assert (await face("definition", "w")) == first, "a submission registers only what is new"
    (workflow,) = await face("workflows")
    assert (workflow.workflow_id, workflow.version, workflow.jobs["pending"]) == ("w", "1", 1)
    assert workflow.registered_at == again.registered_at


async def test_a_definition_becomes_the_current_one_although_the_clock_went_back(database_url: str, face: Face) -> None:
    first, second = (load_text(f"workflow_id: w\nversion: {n}\nnodes: {{a: {{handler: echo}}}}") for n in (1, 2))
    await face("register", first)
    await face("register", second)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update holdfast.registrations set registered_at = registered_at + interval '1 day'")
    await face("register", first)
    assert (await face("definition", "w")) == first


async def test_a_failed_job_is_acknowledged_until_a_recovery(database_url: str, face: Face) -> None:
    waiting = (await face("submit", OTHER)).job_id
    with pytest.raises(Refused, match="it is pending"):
        await face("acknowledge", waiting)
    with pytest.raises(NotFound):
        await face("acknowledge", "00000000-0000-0000-0000-000000000000")
    async with running(database_url, registry(work=work)):
        job_id = (await face("submit", ITEMS)).job_id
        await face.all("watch", job_id)
        assert [job.job_id for job in (await face("jobs", unacknowledged=True)).jobs] == [job_id]
        assert (await face("hours"))[-1].unacknowledged + (await face("hours"))[-2].unacknowledged == 1
        await face("acknowledge", job_id, reason="first")
        await face("acknowledge", job_id, reason="known")
        seen = (await face("job", job_id)).acknowledged
        assert seen.by.startswith("ann@desk") and seen.reason == "known"
        assert (await face("jobs", unacknowledged=True)).jobs == ()
        assert (await face("jobs", status="failed")).jobs[0].acknowledged == seen
        await face("carry_out", await face("plan", job_id, VerbRequest(Verb.RESUME)))
        await face.all("watch", job_id)
    assert (await face("job", job_id)).acknowledged is None
    assert [job.job_id for job in (await face("jobs", unacknowledged=True)).jobs] == [job_id]


async def test_the_hours_count_the_jobs_that_ended(database_url: str, face: Face) -> None:
    async with running(database_url, registry(work=work)):
        for definition in (ITEMS, OTHER):
            await face.all("watch", (await face("submit", definition)).job_id)
    hours = await face("hours")
    assert len(hours) == 24 and all(one.start.minute == 0 for one in hours)
    assert [one.start for one in hours] == sorted(one.start for one in hours)
    assert sum(one.ended for one in hours[-2:]) == sum(one.completed + one.failed for one in hours) == 2
    for number in (0, 745):
        with pytest.raises(InvalidInput):
            await face("hours", number)


@pytest.mark.parametrize("held_by", ["pause", "limit", "breaker"])
async def test_held_tasks_are_counted_apart(database_url: str, face: Face, held_by: str) -> None:
    rows = {
        "pause": "update queue set state = 'paused'",
        "limit": "insert into limits (tenant, name, concurrency) values ('', 'queue:default', 1);"
        " insert into queue (job_id, node, item, epoch, attempt, lane_id, owner, timeout_seconds, state, holder)"
        " select gen_random_uuid(), 'n', 0, 1, 1, lane_id, 1, 60, 'leased', 1 from lanes",
        "breaker": "update lanes set breaker = 'gateway';"
        " insert into breakers (name, state, settings) values ('gateway', 'open', '{}')",
    }
    with psycopg.connect(database_url, autocommit=True, options="-c search_path=holdfast") as connection:
        connection.execute("insert into lanes (queue, handler) values ('default', 'echo')")
        connection.execute(
            "insert into queue (job_id, node, item, epoch, attempt, lane_id, owner, timeout_seconds)"
            " select gen_random_uuid(), 'n', 0, 1, 1, lane_id, 1, 60 from lanes"
        )
        (queue,) = await face("queues")
        assert (queue.queue, queue.queued, queue.held, queue.running) == ("default", 1, 0, 0)
        connection.execute(rows[held_by].encode())
        (queue,) = await face("queues")
        assert (queue.queued, queue.held, queue.running) == (0, 1, 1 if held_by == "limit" else 0)


async def test_a_verb_is_planned_sent_and_answered(database_url: str, face: Face) -> None:
    job_id = (await face("submit", ITEMS)).job_id
    plan = await face("plan", job_id, VerbRequest(Verb.PAUSE))
    assert (plan.verb, plan.command) == ("pause", f"holdfast pause {job_id} --plan-id {plan.plan_id}")
    assert not await face("is_served", job_id)
    pending = await face("carry_out", plan, reason="lunch", exactly=True, seconds=0)
    assert to_json(pending) == {
        "job_id": job_id, "verb": "pause", "signal_id": pending.signal_id, "answer": "pending",
    }  # fmt: skip
    async with running(database_url, registry(work=work)):
        assert (await face("settle", pending, seconds=None)).is_applied
        assert (await face("fleet")).orchestrators
        with pytest.raises(Refused, match="has paused it already"):
            await face("plan", job_id, VerbRequest(Verb.PAUSE))
        with pytest.raises(Refused, match="was not changed by pause"):
            await face("carry_out", plan, seconds=30)
        unpause = await face("carry_out", await face("plan", job_id, VerbRequest(Verb.UNPAUSE)), seconds=30)
        assert unpause.is_applied
        assert (await face.all("watch", job_id, whole=False))[-1].status == "failed"
        again = await face("carry_out", await face("plan", job_id, VerbRequest(Verb.RESUME)), seconds=30)
        assert (again.answer, again.tasks, again.status) == ("applied", 1, None)
        assert (await face.all("watch", job_id, whole=False))[-1].generation == 2


async def test_each_tenant_sees_and_changes_only_its_own_breakers(database_url: str) -> None:
    async with client_of(database_url) as engine:
        await engine.store.declare_breakers("acme", [BreakerRules("gateway")])
        acme, other = (Client(engine.store, Scope(tenant, "ann@desk")) for tenant in ("acme", "default"))
        assert [(one.name, one.state) for one in await acme.breakers()] == [("gateway", "closed")]
        assert await other.breakers() == []
        with pytest.raises(NotFound, match="no breaker 'gateway'"):
            await other.change_breaker("gateway", "open")
        assert (await acme.change_breaker("gateway", "open", reason="maintenance")).state == "open"
        await engine.store.declare_breakers("default", [BreakerRules("gateway")])
        assert [one.state for one in await other.breakers()] == ["closed"]


async def test_a_resumed_submission_is_settled(database_url: str, face: Face) -> None:
    async with running(database_url, registry(work=work)):
        job_id = (await face("submit", ITEMS)).job_id
        await face.all("watch", job_id)
        resumed = await face("submit", ITEMS, resume=True)
        assert (resumed.answer, resumed.signal_id is None) == ("resumed", False)
        settled = await face("settle_submission", resumed, seconds=30)
        assert (settled.answer, settled.signal_id) == ("resumed", None)


async def test_gates_and_the_janitor_are_reached(face: Face) -> None:
    limit = await face("set_limit", "queue:default", rate=(5, 1.0))
    assert (limit.name, limit.rate.limit, limit.actor[:8]) == ("queue:default", 5, "ann@desk")
    assert await face("limits") == [limit]
    assert (await face("drop_limit", "queue:default")).name == "queue:default"
    assert await face("breakers") == []
    with pytest.raises(NotFound):
        await face("change_breaker", "gateway", "open")
    assert to_json(await face("run_janitor", dry_run=True)) == {"dry_run": True, "findings": [], "alerts": []}
    assert to_json(await face("janitor_log")) == {"leader": None, "actions": [], "alerts": []}


@pytest.mark.parametrize("place", ["database"])
async def test_old_jobs_are_pruned_at_the_database(face: Face) -> None:
    assert to_json(await face("prune", 0.0, dry_run=True)) == {
        "dry_run": True, "jobs": 0, "tasks": 0, "bytes": 0, "pruned": [], "oldest_left": None, "leftovers": 0,
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="'running' is not the status of a finished job"):
        await face("prune", 0.0, statuses=["running"])


async def test_a_synchronous_client_works_inside_of_a_running_event_loop(database_url: str) -> None:
    assert asyncio.get_running_loop().is_running()
    with SyncClient.connect(database_url, Scope("acme")) as client:
        job_id = client.submit(OTHER).job_id
        assert client.job(job_id).tenant == client.scope.tenant == "acme"


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "holdfast client"]


@pytest.fixture
def no_threads() -> Iterator[None]:
    before = len(threads())
    yield
    assert len(threads()) == before


@pytest.mark.usefixtures("no_threads")
def test_a_synchronous_client_leaves_no_thread_behind(database_url: str) -> None:
    with SyncClient.connect(database_url) as client:
        job_id = client.submit(OTHER).job_id
        assert threads()
        looks = client.watch(job_id)
        assert next(looks).status == "pending"
        looks.close()  # type: ignore[attr-defined]
        unfinished = client.events(job_id, follow=True)
        assert next(unfinished).event == "job_created"


@pytest.mark.usefixtures("no_threads")
def test_a_database_out_of_reach_is_the_callers_error_and_leaves_no_thread_behind() -> None:
    with (
        pytest.raises(Unreachable),
        SyncClient.connect("postgresql://user@127.0.0.1:1/none"),
    ):
        pass
