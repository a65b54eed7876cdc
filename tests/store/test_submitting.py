"""Submissions on both stores: the same submission returns the same job, a forced one makes the next run."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.store.records import SubmitAnswer
from tests.store.stage import Stage, forced, new_job

pytestmark = pytest.mark.anyio


async def test_a_new_submission_makes_a_pending_job(stage: Stage) -> None:
    job = new_job("a")
    answer = (await stage.store.submit([job]))[0]
    assert answer == SubmitAnswer(job.job_id, True, True, "pending", 1, None, "1")
    assert await stage.behind.events(job.job_id) == [(1, "job_created")]
    assert await stage.store.definition(job.definition_hash) == job.definition


async def test_invariant_14_an_equal_submission_returns_the_existing_job(stage: Stage) -> None:
    first, again = await stage.submit("a"), await stage.submit("a")
    assert (again.job_id, again.created, again.same_body) == (first.job_id, False, True)
    assert (first.definition_hash, again.definition_hash) == (None, "d" * 64)
    assert len(await stage.behind.inbox(first.job_id)) == 1


async def test_invariant_14_the_answer_says_that_the_existing_job_has_another_body(stage: Stage) -> None:
    first, other = await stage.submit("a", body="one"), await stage.submit("a", body="two")
    assert (other.job_id, other.created, other.same_body) == (first.job_id, False, False)


async def test_invariant_14_many_equal_submissions_at_once_make_one_job(stage: Stage) -> None:
    stores = [stage.behind.another_store() for _ in range(5)]
    answers = await asyncio.gather(*(store.submit([new_job("a"), new_job("b")]) for store in stores))
    assert len({answer[0].job_id for answer in answers}) == 1
    assert [answer[0].created for answer in answers].count(True) == 1
    assert len({answer[1].job_id for answer in answers}) == 1


async def test_a_batch_with_the_same_submission_twice_makes_one_job(stage: Stage) -> None:
    first, second, other = await stage.store.submit([new_job("a"), new_job("a"), new_job("b")])
    assert (first.created, second.created, other.created) == (True, False, True)
    assert first.job_id == second.job_id


async def test_batches_in_opposite_order_do_not_block_each_other(stage: Stage) -> None:
    names = [f"job {n}" for n in range(300)]
    stores = [stage.behind.another_store() for _ in range(4)]
    orders = [names, names[::-1], names, names[::-1]]
    answers = await asyncio.gather(
        *(store.submit([new_job(name) for name in order]) for store, order in zip(stores, orders, strict=True))
    )
    assert sum(a.created for answer in answers for a in answer) == len(names)


async def test_tenants_do_not_share_identities(stage: Stage) -> None:
    # The hash of an identity includes the tenant, so the store gets two different identities.
    one, other = await stage.store.submit([new_job("a of one", tenant="one"), new_job("a of other", tenant="other")])
    assert one.created and other.created
    me = await stage.orchestrator()
    assert {row.tenant for row in (await stage.own(me)).claimed} == {"one", "other"}


async def test_a_forced_submission_makes_the_next_run_and_keeps_the_previous_one(stage: Stage) -> None:
    first = await stage.submit("a")
    job = forced("a")
    assert await stage.store.submit([job]) == [SubmitAnswer(job.job_id, True, True, "pending", 2, None, "1")]
    assert await stage.behind.previous(job.job_id) == first.job_id
    assert await stage.behind.previous(first.job_id) is None
    assert await stage.behind.events(job.job_id) == [(1, "job_created")]
    claimed = (await stage.own(await stage.orchestrator())).claimed
    assert {row.job_id: row.run for row in claimed} == {first.job_id: 1, job.job_id: 2}


async def test_a_forced_submission_without_a_previous_run_makes_the_first_run(stage: Stage) -> None:
    (answer,) = await stage.store.submit([forced("a")])
    assert (answer.created, answer.run) == (True, 1)
    assert await stage.behind.previous(answer.job_id) is None


async def test_an_equal_submission_returns_the_newest_run(stage: Stage) -> None:
    await stage.submit("a")
    newest = [(await stage.store.submit([forced("a")]))[0] for _ in range(2)][-1]
    again = await stage.submit("a")
    assert (again.job_id, again.created, again.run) == (newest.job_id, False, 3)


async def test_invariant_14_a_forced_submission_with_another_body_makes_no_job(stage: Stage) -> None:
    first = await stage.submit("a", body="one")
    (other,) = await stage.store.submit([forced("a", body="two")])
    assert (other.job_id, other.created, other.same_body) == (first.job_id, False, False)


async def test_forced_submissions_at_once_make_a_run_each(stage: Stage) -> None:
    stores = [stage.behind.another_store() for _ in range(6)]
    submissions = [store.submit([forced("a"), new_job("b")]) for store in stores[:-1]]
    *answers, plain = await asyncio.gather(*submissions, stores[-1].submit([new_job("a")]))
    forced_runs = [answer[0] for answer in answers]
    assert all(one.created for one in forced_runs)
    runs = sorted(one.run for one in [*forced_runs, *(one for one in plain if one.created)])
    assert runs == list(range(1, len(runs) + 1))
    assert [answer[1].created for answer in answers].count(True) == 1
    before = {one.run: one.job_id for one in [*forced_runs, *plain]}
    for one in forced_runs:
        assert await stage.behind.previous(one.job_id) == before.get(one.run - 1)


async def test_a_batch_with_the_same_forced_submission_twice_makes_both(stage: Stage) -> None:
    first, second, third = await stage.store.submit([new_job("a"), forced("a"), forced("a")])
    assert [(one.created, one.run) for one in (first, second, third)] == [(True, 1), (True, 2), (True, 3)]
    assert await stage.behind.previous(third.job_id) == second.job_id
