"""Submissions by programs: what makes two of them the same, and what each answer says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from holdfast.client import Client
from holdfast.define.load import load_text
from holdfast.errors import InvalidInput, NotFound, Permanent, Refused
from holdfast.operations.scope import Scope, current_actor
from holdfast.operations.submitting import Submission, new_job
from holdfast.operations.verbs import Verb, VerbRequest
from holdfast.store.postgres import PostgresStore
from holdfast.views.encoding import to_json
from holdfast.views.history import Retries
from tests.conftest import eventually
from tests.running import client_of, registry, running
from tests.service.serving import serving_http

pytestmark = pytest.mark.anyio

REGION = load_text("""
workflow_id: maps
version: 2
inputs:
  region: {type: string, required: true}
  limit: {type: integer, default: 100}
  note: {type: string}
nodes: {a: {handler: echo}}
""")
OTHER = load_text("workflow_id: other\ninputs: {region: {type: string}}\nnodes: {a: {handler: echo}}")
NEWER = load_text("""
workflow_id: maps
version: 3
inputs: {region: {type: string, required: true}, limit: {type: integer, default: 100}, note: {type: string}}
nodes: {b: {handler: echo}}
""")


def identity(**given: Any) -> str:
    definition = given.pop("definition", REGION)
    inputs = given.pop("inputs", {"region": "CIV"})
    return new_job(definition, inputs, **given).identity


def test_defaults_are_filled_in_before_the_identity_is_computed() -> None:
    assert identity(inputs={"region": "CIV"}) == identity(inputs={"limit": 100, "region": "CIV"})
    assert identity(inputs={"region": "CIV"}) != identity(inputs={"region": "CIV", "limit": 99})
    assert new_job(REGION, {"region": "CIV"}).inputs == new_job(REGION, {"limit": 100, "region": "CIV"}).inputs


def test_the_order_of_inputs_does_not_matter() -> None:
    assert identity(inputs={"region": "CIV", "note": "x"}) == identity(inputs={"note": "x", "region": "CIV"})


def test_the_identity_knows_the_workflow_and_the_tenant_but_not_the_version() -> None:
    assert identity() != identity(definition=OTHER)
    assert identity() != identity(tenant="acme")
    assert identity() == identity(definition=NEWER)


def test_a_key_stands_for_the_inputs_within_its_tenant() -> None:
    assert identity(key="k", inputs={"region": "CIV"}) == identity(key="k", inputs={"region": "GHA"})
    assert identity(key="k") != identity(key="other")
    assert identity(key="k") != identity()
    assert identity(key="k", tenant="acme") != identity(key="k")


def test_no_key_can_be_made_to_look_like_a_body_or_another_tenant() -> None:
    body_hash = new_job(REGION, {"region": "CIV"}).body_hash
    assert identity(key=body_hash) != identity()
    assert identity(key="k", tenant="a") != identity(key="a\nk", tenant="")


def test_every_submission_has_an_id_of_its_own_that_grows_with_time() -> None:
    jobs = [new_job(REGION, {"region": "CIV"}) for _ in range(50)]
    assert len({job.job_id for job in jobs}) == 50
    assert [job.job_id for job in jobs] == sorted(job.job_id for job in jobs)


def test_inputs_that_do_not_fit_are_refused_before_anything_is_stored() -> None:
    with pytest.raises(InvalidInput):
        new_job(REGION, {})
    with pytest.raises(InvalidInput):
        new_job(REGION, {"region": "CIV", "limt": 3})


@pytest.fixture(params=["database", "http"])
async def client(request: pytest.FixtureRequest, store: PostgresStore, database_url: str) -> AsyncIterator[Client]:
    if request.param == "database":
        yield Client(store)
        return
    async with serving_http(database_url) as service:
        key = await service.key("admin", name=current_actor())
        async with Client.connect(service.url, api_key=key) as client:
            yield client


async def end_job(store: PostgresStore, job_id: str, status: str, result: str | None = None) -> None:
    async with store.connections.use("test") as connection:
        await connection.execute(
            "update jobs set status = %s, finished_at = now(), result = %s where job_id = %s", (status, result, job_id)
        )


async def test_a_first_submission_is_created(client: Client) -> None:
    answer = await client.submit(REGION, {"region": "CIV"})
    assert (answer.answer, answer.status, answer.workflow_id, answer.version) == ("created", "pending", "maps", "2")
    assert (answer.run, answer.result) == (1, None)
    assert list(to_json(answer)) == [
        "job_id", "answer", "status", "workflow_id", "version", "identity", "run", "result", "failed_stage",
        "completed_stages", "definition_changed", "hint",
    ]  # fmt: skip
    assert to_json(answer)["hint"] == f"Follow it with: holdfast watch {answer.job_id}"


async def test_the_answers_follow_the_job(client: Client, store: PostgresStore) -> None:
    first = await client.submit(REGION, {"region": "CIV"})

    async def again() -> Submission:
        answer = await client.submit(REGION, {"region": "CIV"})
        assert (answer.job_id, answer.identity) == (first.job_id, first.identity)
        return answer

    assert (await again()).answer == "already_processing"
    await end_job(store, first.job_id, "completed", '{"maps": 3}')
    done = await again()
    assert (done.answer, done.status, done.result) == ("already_completed", "completed", {"maps": 3})


@pytest.mark.parametrize("status", ["failed", "partial", "cancelled"])
async def test_a_job_that_did_not_end_well_was_previously_failed(
    client: Client, store: PostgresStore, status: str
) -> None:
    first = await client.submit(REGION, {"region": "CIV"})
    await end_job(store, first.job_id, status)
    again = await client.submit(REGION, {"region": "CIV"})
    assert (again.answer, again.status, again.job_id) == ("previously_failed", status, first.job_id)
    assert again.hint == f"It ended {status}. See how it ended with: holdfast status {first.job_id}"
    assert (again.failed_stage, again.completed_stages) == (None, ()), "nothing of it had begun"


STAGES = """
workflow_id: stages
nodes:
  begin: {type: start, next: [zebra, ape]}
  zebra: {handler: echo, next: pick}
  ape: {handler: echo, next: pick}
  pick: {type: conditional, condition: "1 > 0", on_true: work, on_false: other}
  work: {handler: work, retry: {max_retries: 0}, next: last}
  other: {handler: echo}
  last: {handler: echo}
"""


class Worksite:
    """A handler that fails until it was mended, and how often it ran."""

    def __init__(self) -> None:
        self.is_mended = False
        self.calls = 0

    def work(self) -> str:
        self.calls += 1
        if not self.is_mended:
            raise Permanent("the road is closed")
        return "done"


@pytest.fixture
def site() -> Worksite:
    return Worksite()


async def test_a_failed_job_names_its_stages_in_the_order_of_the_file(database_url: str, site: Worksite) -> None:
    definition = load_text(STAGES)
    async with running(database_url, registry(work=site.work)) as engine:
        job_id = (await engine.run(definition))["job_id"]
        other_id = (await engine.run("workflow_id: fine\nnodes: {a: {handler: echo}}"))["job_id"]
        fine = new_job(load_text("workflow_id: fine\nnodes: {a: {handler: echo}}"), {})
        answers = await engine.client.submit_many([new_job(definition, {}), fine])
    failed = to_json(answers[0])
    assert (failed["answer"], failed["job_id"], failed["status"]) == ("previously_failed", job_id, "failed")
    assert (failed["failed_stage"], failed["completed_stages"]) == ("work", ["zebra", "ape", "pick"])
    assert failed["hint"].endswith(f"holdfast resume {job_id}")
    assert (answers[1].answer, answers[1].job_id, answers[1].completed_stages) == (
        "already_completed",
        other_id,
        ("a",),
    )


async def test_resume_lets_a_failed_job_go_on_where_it_stopped(database_url: str, site: Worksite) -> None:
    definition = load_text(STAGES)
    async with running(database_url, registry(work=site.work)) as engine:
        job_id = (await engine.run(definition))["job_id"]
        site.is_mended = True
        answer = await engine.client.submit(definition, resume=True)
        assert (answer.answer, answer.job_id, answer.run, answer.failed_stage) == ("resumed", job_id, 1, "work")
        assert answer.signal_id is not None
        assert answer.hint == f"Follow it with: holdfast watch {job_id}"
        await eventually(lambda: engine.store.answer(answer.signal_id or 0))
        ended = await engine.finished(job_id)
        assert (ended["status"], ended["generation"], ended["counts"]["completed"]) == ("completed", 2, 4)
        assert site.calls == 2, "what completed stays"
        (recovered,) = [event for event in await engine.events(job_id) if event["event"] == "job_recovered"]
        assert recovered["data"]["reason"] == "submitted again"
        again = await engine.client.submit(definition, resume=True)
        assert (again.answer, again.job_id, again.result) == ("already_completed", job_id, ended["result"])


async def test_many_that_resume_a_job_at_once_resume_it_once(database_url: str, site: Worksite) -> None:
    definition = load_text(STAGES)
    async with running(database_url, registry(work=site.work)) as engine:
        job_id = (await engine.run(definition))["job_id"]
    async with client_of(database_url) as engine:
        stores = [PostgresStore(database_url) for _ in range(4)]
        answers = await asyncio.gather(*(Client(one).submit(definition, resume=True) for one in stores))
        for one in stores:
            await one.close()
        assert [answer.answer for answer in answers] == ["resumed"] * 4
    async with running(database_url, registry(work=site.work)) as engine:
        for answer in answers:
            assert answer.signal_id is not None
            await eventually(partial(engine.store.answer, answer.signal_id))
        replies = [await engine.store.answer(answer.signal_id or 0) for answer in answers]
        assert sorted(one[0] for one in replies if one is not None) == [False, False, False, True]
        assert (await engine.finished(job_id))["generation"] == 2
    assert site.calls == 2, "it failed again, and no client resumed it a second time"


async def test_a_resume_that_comes_late_does_not_run_what_failed_again_meanwhile(
    database_url: str, site: Worksite
) -> None:
    definition = load_text(STAGES)
    async with running(database_url, registry(work=site.work)) as engine:
        job_id = (await engine.run(definition))["job_id"]
    async with client_of(database_url) as engine:
        answer = await engine.client.submit(definition, resume=True)
        ((sent,),) = await engine.query("select data from inbox where kind = 'recover'")
    async with running(database_url, registry(work=site.work)) as engine:
        await eventually(lambda: engine.store.answer(answer.signal_id or 0))
        assert (await engine.finished(job_id))["generation"] == 2
        late = await engine.store.send(job_id, "recover", "another", "submitted again", sent)
        refused = await eventually(lambda: engine.store.answer(late))
        assert not refused.applied and "has changed" in refused.reason
    assert site.calls == 2


async def test_resume_changes_nothing_for_a_job_that_is_not_over(client: Client) -> None:
    first = await client.submit(REGION, {"region": "CIV"}, resume=True)
    again = await client.submit(REGION, {"region": "CIV"}, resume=True)
    assert (first.answer, again.answer, again.job_id) == ("created", "already_processing", first.job_id)
    assert again.signal_id is None


TOLERANT = """
workflow_id: tolerant
nodes:
  work: {handler: work, importance: optional, retry: {max_retries: 0}, next: after}
  after: {handler: echo, next: bad}
  bad: {handler: fail, params: {error_message: no luck, permanent: true}}
"""


async def test_resume_runs_nothing_again_that_had_completed(database_url: str, site: Worksite) -> None:
    definition = load_text(TOLERANT)
    async with running(database_url, registry(work=site.work)) as engine:
        job_id = (await engine.run(definition))["job_id"]
        with pytest.raises(Refused, match=f"Job {job_id} was not resumed: after had completed and would run") as no:
            await engine.client.submit(definition, resume=True)
        assert f"holdfast resume {job_id} --yes" in (no.value.remedy or "")
        assert (await engine.status(job_id))["generation"] == 1


ACCEPTED = """
workflow_id: accepted
nodes:
  each: {{type: fan_out, source: "{{{{ [0, 1] }}}}", tolerate: {{failures: 2}}, task: {task}{behind}}}
"""
BAD_TASK = "{handler: fail, params: {error_message: no luck, permanent: true}}"


@pytest.mark.parametrize(
    ("guard", "command"),
    [("", "resume {} --tolerated --yes"), (", rerun: {safe: never}", "retry {} each --only")],
    ids=["completed work behind", "work behind that must not run again"],
)
async def test_resume_of_a_job_that_lacks_only_tolerated_items_says_so_and_runs_nothing(
    database_url: str, guard: str, command: str
) -> None:
    behind = f", next: all}}\n  all: {{type: fan_in, next: send}}\n  send: {{handler: echo{guard}"
    definition = load_text(ACCEPTED.format(task=BAD_TASK, behind=behind))
    async with running(database_url) as engine:
        job_id = (await engine.run(definition))["job_id"]
        answer = await engine.client.submit(definition, resume=True)
        assert (answer.answer, answer.status, answer.job_id) == ("previously_failed", "partial", job_id)
        assert answer.misses_only_tolerated and answer.signal_id is None
        assert answer.hint == (
            "It ended partial: nothing is missing but items whose failure the workflow tolerates."
            f" Run them again with: holdfast {command.format(job_id)}"
        )
        assert (await engine.status(job_id))["generation"] == 1


async def test_resume_runs_tolerated_items_again_if_nothing_has_completed_behind_them(database_url: str) -> None:
    definition = load_text(ACCEPTED.format(task=BAD_TASK, behind=""))
    async with running(database_url) as engine:
        job_id = (await engine.run(definition))["job_id"]
        answer = await engine.client.submit(definition, resume=True)
        assert (answer.answer, answer.misses_only_tolerated) == ("resumed", False)
        await eventually(lambda: engine.store.answer(answer.signal_id or 0))
        assert (await engine.finished(job_id))["generation"] == 2


async def test_a_job_of_which_nothing_would_run_is_not_resumed(client: Client, store: PostgresStore) -> None:
    first = await client.submit(REGION, {"region": "CIV"})
    await end_job(store, first.job_id, "cancelled")
    with pytest.raises(Refused, match=f"Job {first.job_id} was not changed by resume: nothing of it would run again"):
        await client.submit(REGION, {"region": "CIV"}, resume=True)


@pytest.mark.parametrize("status", ["pending", "completed", "failed"])
async def test_force_makes_a_new_job_however_the_one_before_ended(
    client: Client, store: PostgresStore, status: str
) -> None:
    first = await client.submit(REGION, {"region": "CIV"}, force=True)
    assert (first.answer, first.run) == ("created", 1), "nothing was there before"
    if status != "pending":
        await end_job(store, first.job_id, status)
    second = await client.submit(NEWER, {"region": "CIV"}, force=True, priority=3)
    assert (second.answer, second.status, second.run, second.version) == ("forced", "pending", 2, "3")
    assert second.identity == first.identity and second.job_id != first.job_id
    again = await client.submit(REGION, {"region": "CIV"})
    assert (again.answer, again.job_id, again.run) == ("already_processing", second.job_id, 2)
    async with store.connections.use("test") as connection:
        jobs = await connection.execute("select run, status, previous::text, priority from jobs order by run")
        assert await jobs.fetchall() == [(1, status, None, 0), (2, "pending", first.job_id, 3)]
        created = "select job_id::text, seq, event, data - 'request_id' from events order by job_id"
        events = await connection.execute(created)
        assert await events.fetchall() == [
            (first.job_id, 1, "job_created", {"workflow_id": "maps", "version": "2"}),
            (second.job_id, 1, "job_created", {"workflow_id": "maps", "version": "3", "previous": first.job_id}),
        ]


async def test_many_forces_at_once_make_a_job_each(client: Client, database_url: str) -> None:
    first = await client.submit(REGION, {"region": "CIV"})
    stores = [PostgresStore(database_url) for _ in range(5)]
    answers = await asyncio.gather(
        *(Client(store).submit(REGION, {"region": "CIV"}, force=True) for store in stores for _ in "abc")
    )
    for store in stores:
        await store.close()
    assert {answer.answer for answer in answers} == {"forced"}
    assert sorted(answer.run for answer in answers) == list(range(2, 17))
    assert len({answer.job_id for answer in [first, *answers]}) == 16


async def test_another_body_under_a_key_cannot_be_forced(client: Client) -> None:
    first = await client.submit(REGION, {"region": "CIV"}, key="monday")
    with pytest.raises(Refused, match=f"The key of job {first.job_id} was used with other inputs"):
        await client.submit(REGION, {"region": "GHA"}, key="monday", force=True)


async def test_a_full_backlog_refuses_forced_jobs_too(client: Client, store: PostgresStore) -> None:
    await Client(store).set_limit("tenant", backlog=2)
    await client.submit(REGION, {"region": "CIV"})
    assert (await client.submit(REGION, {"region": "CIV"}, force=True)).run == 2
    with pytest.raises(Refused, match="backlog of tenant default is full"):
        await client.submit(REGION, {"region": "CIV"}, force=True)


async def test_a_submission_cannot_both_resume_and_force(client: Client) -> None:
    with pytest.raises(InvalidInput, match="cannot both"):
        await client.submit(REGION, {"region": "CIV"}, resume=True, force=True)


async def test_an_equal_submission_of_a_newer_version_answers_with_the_job_that_is_there(client: Client) -> None:
    first = await client.submit(REGION, {"region": "CIV"})
    again = await client.submit(NEWER, {"region": "CIV"})
    assert (again.job_id, again.answer, again.version) == (first.job_id, "already_processing", "2")


async def test_invariant_14_another_body_under_the_same_key_is_refused(client: Client) -> None:
    first = await client.submit(REGION, {"region": "CIV"}, key="monday")
    assert (await client.submit(REGION, {"region": "CIV"}, key="monday")).answer == "already_processing"
    with pytest.raises(Refused, match=rf"The key of job {first.job_id} was used with other inputs") as refusal:
        await client.submit(REGION, {"region": "GHA"}, key="monday")
    assert refusal.value.instance == first.job_id
    assert "another key" in str(refusal.value.remedy)


async def test_invariant_14_many_clients_at_once_make_one_job(client: Client, database_url: str) -> None:
    stores = [PostgresStore(database_url) for _ in range(4)]
    answers = await asyncio.gather(*(Client(store).submit(REGION, {"region": "CIV"}) for store in stores for _ in "ab"))
    for store in stores:
        await store.close()
    assert len({answer.job_id for answer in answers}) == 1
    assert sorted(answer.answer for answer in answers) == ["already_processing"] * 7 + ["created"]


@pytest.mark.parametrize("client", ["database"], indirect=True)
async def test_many_submissions_in_one_call_answer_one_by_one(client: Client) -> None:
    jobs = [new_job(REGION, {"region": region}) for region in ("CIV", "GHA", "CIV")]
    answers = await client.submit_many(jobs)
    assert [answer.answer for answer in answers] == ["created", "created", "already_processing"]
    assert answers[0].job_id == answers[2].job_id != answers[1].job_id


async def test_a_priority_goes_with_the_job(client: Client, store: PostgresStore) -> None:
    answer = await client.submit(REGION, {"region": "CIV"}, priority=7)
    opened = await store.cycle(await store.register_orchestrator("one", 60)).open(10, 10)
    assert [(row.job_id, row.priority) for row in opened.claimed] == [(answer.job_id, 7)]


async def test_an_id_stands_for_the_definition_submitted_first_or_registered_last(client: Client) -> None:
    with pytest.raises(NotFound, match="has no workflow 'maps'"):
        await client.definition("maps")
    await client.submit(REGION, {"region": "CIV"})
    await client.submit(NEWER, {"region": "GHA"})
    assert (await client.definition("maps")).canonical_bytes() == REGION.canonical_bytes()
    await client.register(NEWER)
    assert (await client.definition("maps")).canonical_bytes() == NEWER.canonical_bytes()


async def test_a_cancel_of_a_job_that_does_not_exist_is_refused(client: Client) -> None:
    with pytest.raises(NotFound, match="There is no job"):
        await client.cancel("00000000-0000-7000-8000-000000000000")


async def test_a_cancel_names_who_asked(client: Client, store: PostgresStore) -> None:
    job_id = (await client.submit(REGION, {"region": "CIV"})).job_id
    await client.cancel(job_id, reason="wrong region")
    opened = await store.cycle(await store.register_orchestrator("one", 60)).open(10, 10)
    (signal,) = [s for s in opened.signals if s.kind == "cancel"]
    assert signal.reason == "wrong region"
    assert "@" in str(signal.actor)


async def test_a_full_backlog_refuses_new_jobs_and_answers_for_those_that_are_there(store: PostgresStore) -> None:
    client = Client(store)
    await client.set_limit("tenant", backlog=2)
    first, _ = [await client.submit(REGION, {"region": region}) for region in ("CIV", "GHA")]
    with pytest.raises(Refused, match="backlog of tenant default is full: 2 jobs are open, and 2 may be") as refused:
        await client.submit(REGION, {"region": "TGO"})
    assert "holdfast limits set tenant --tenant default --backlog 4" in (refused.value.remedy or "")
    again = await client.submit(REGION, {"region": "CIV"})
    assert (again.job_id, again.answer) == (first.job_id, "already_processing")
    await client.drop_limit("tenant")
    assert (await client.submit(REGION, {"region": "TGO"})).answer == "created"


async def test_submissions_at_once_do_not_pass_a_backlog_together(store: PostgresStore, database_url: str) -> None:
    await Client(store).set_limit("tenant", backlog=3)
    others = [PostgresStore(database_url) for _ in range(6)]
    try:
        tried = [Client(one).submit(REGION, {"region": str(number)}) for number, one in enumerate(others)]
        answers = await asyncio.gather(*tried, return_exceptions=True)
    finally:
        for one in others:
            await one.close()
    assert sorted(type(answer).__name__ for answer in answers) == ["BacklogFull"] * 3 + ["Submission"] * 3


async def test_a_limit_of_another_tenant_and_one_without_a_backlog_bound_nothing(store: PostgresStore) -> None:
    client = Client(store)
    await client.set_limit("tenant", tenant="acme", backlog=1)
    await client.set_limit("tenant", concurrency=1)
    for region in ("CIV", "GHA"):
        assert (await client.submit(REGION, {"region": region})).answer == "created"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("nonsense", {"concurrency": 1}),
        ("queue:", {"concurrency": 1}),
        ("queue:default", {"concurrency": 1, "tenant": "acme"}),
        ("queue:default", {"backlog": 1}),
        ("queue:default", {"concurrency": 0}),
        ("queue:default", {"rate": (1, 0.0)}),
        ("tenant", {}),
    ],
)
async def test_a_limit_that_makes_no_sense_is_refused(store: PostgresStore, name: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await Client(store).set_limit(name, **given)
    assert await Client(store).limits() == []


async def test_a_key_belongs_to_its_tenant_and_its_workflow_invariant_14() -> None:
    other = replace(REGION, workflow_id="other")
    given = {"region": "CIV"}
    same = [new_job(REGION, given, key="k"), new_job(REGION, {"region": "RWA"}, key="k")]
    apart = [new_job(other, given, key="k"), new_job(REGION, given, key="k", tenant="t"), new_job(REGION, given)]
    assert same[0].identity == same[1].identity
    assert len({same[0].identity, *(job.identity for job in apart)}) == 4


async def test_a_client_is_opened_by_the_address_of_its_database(database_url: str) -> None:
    async with Client.connect(database_url, Scope(actor="ann@desk")) as client:
        job = await client.submit(REGION, {"region": "CIV"})
        assert (job.answer, (await client.definition("maps")).version) == ("created", "2")
        await client.cancel(job.job_id, reason="not needed")
        assert await client.answer(1, seconds=0.0) is None
    async with running(database_url) as engine:
        status = await engine.finished(job.job_id)
    assert status["status"] == "cancelled"
    assert "ann@desk" in status["error"]["message"]


async def test_a_tenant_neither_plans_nor_changes_the_jobs_of_another(database_url: str, store: PostgresStore) -> None:
    ours, theirs = Client(store, Scope("acme")), Client(store, Scope("other"))
    job = await ours.submit(REGION, {"region": "CIV"})
    assert (await theirs.submit(REGION, {"region": "CIV"})).answer == "created"
    for attempt in (
        lambda: theirs.cancel(job.job_id),
        lambda: theirs.pause(job.job_id),
        lambda: theirs.send(job.job_id, VerbRequest(Verb.RESUME)),
        lambda: theirs.plan(job.job_id, VerbRequest(Verb.RESUME)),
        lambda: theirs.plan(job.job_id, VerbRequest(Verb.CANCEL)),
    ):
        with pytest.raises(NotFound):
            await attempt()
    signal_id = await ours.cancel(job.job_id)
    async with running(database_url) as engine:
        await engine.finished(job.job_id)
    assert await theirs.answer(signal_id, seconds=0.0) is None
    assert await ours.answer(signal_id) == (True, "cancelled", None)


async def test_attempts_that_lost_their_worker_are_counted_among_those_that_were_tried_again(database_url: str) -> None:
    failing = {0, 1}

    def flaky(item: int) -> int:
        if item in failing:
            failing.discard(item)
            raise ConnectionError("not yet")
        return item

    flow = load_text("""
workflow_id: w
nodes:
  each:
    type: fan_out
    source: "{{ [0, 1, 2] }}"
    task: {handler: flaky, params: {item: "{{ item }}"}, retry: {initial_delay_seconds: 0.01}}
""")
    async with running(database_url, registry(flaky=flaky)) as engine:
        job_id = (await engine.run(flow))["job_id"]
        assert await engine.client.retries(job_id) == Retries(2, lost=0)
        await engine.query("update holdfast.attempts set outcome = 'lost' where outcome = 'failed' and item = 0")
        assert await engine.client.retries(job_id) == Retries(2, lost=1)
