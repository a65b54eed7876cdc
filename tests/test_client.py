"""Submissions by programs: what makes two of them the same, and what each answer says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.client import Client, Submission, new_job
from holdfast.define.load import load_text
from holdfast.errors import InvalidInput, NotFound, Refused
from holdfast.store.postgres import PostgresStore

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


@pytest.fixture
def client(store: PostgresStore) -> Client:
    return Client(store)


async def end_job(store: PostgresStore, job_id: str, status: str, result: str | None = None) -> None:
    async with store.connections.use("test") as connection:
        await connection.execute(
            "update jobs set status = %s, finished_at = now(), result = %s where job_id = %s", (status, result, job_id)
        )


async def test_a_first_submission_is_created(client: Client) -> None:
    answer = await client.submit(REGION, {"region": "CIV"})
    assert (answer.answer, answer.status, answer.workflow_id, answer.version) == ("created", "pending", "maps", "2")
    assert (answer.run, answer.result) == (1, None)
    assert list(answer.to_json()) == [
        "job_id", "answer", "status", "workflow_id", "version", "identity", "run", "result", "failed_stage",
        "completed_stages", "hint",
    ]  # fmt: skip
    assert answer.to_json()["hint"] == f"Follow it with: holdfast watch {answer.job_id}"


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
    assert again.hint == f"It ended {status}. See why with: holdfast status {first.job_id}"


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


async def test_many_submissions_in_one_call_answer_one_by_one(client: Client) -> None:
    jobs = [new_job(REGION, {"region": region}) for region in ("CIV", "GHA", "CIV")]
    answers = await client.submit_many(jobs)
    assert [answer.answer for answer in answers] == ["created", "created", "already_processing"]
    assert answers[0].job_id == answers[2].job_id != answers[1].job_id


async def test_a_priority_goes_with_the_job(client: Client, store: PostgresStore) -> None:
    answer = await client.submit(REGION, {"region": "CIV"}, priority=7)
    opened = await store.cycle(await store.register_orchestrator("one", 60)).open(10, 10)
    assert [(row.job_id, row.priority) for row in opened.claimed] == [(answer.job_id, 7)]


async def test_the_definition_submitted_last_is_found_by_its_id(client: Client) -> None:
    with pytest.raises(NotFound, match="There is no workflow 'maps'"):
        await client.definition("maps")
    await client.submit(REGION, {"region": "CIV"})
    await client.submit(NEWER, {"region": "GHA"})
    assert (await client.definition("maps")).canonical_bytes() == NEWER.canonical_bytes()


async def test_a_cancel_of_a_job_that_is_not_there_is_told(client: Client) -> None:
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
