"""Claims on both stores: what a lease contains, which tasks a worker may claim, in which order, and each only once."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.effects import Lane
from holdfast.store.batch import Batch
from holdfast.store.records import JobFacts, Lease
from tests.store.stage import Stage, enqueue_write, items_of, new_task

pytestmark = pytest.mark.anyio


async def test_a_lease_contains_everything_about_its_task(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me, size=3)
    await stage.enqueue(me, job_id, timeout_seconds=7.5)
    (lease,) = await stage.claim(worker)
    assert lease == Lease(job_id, "n", -1, 1, 1, "work", 7.5, False, {"item": -1}, None, 0, me)
    facts = (await stage.store.job_facts([job_id]))[job_id]
    assert facts == JobFacts(1, {"size": 3}, facts.definition_hash)
    assert await stage.store.definition(facts.definition_hash)


async def test_a_lease_says_that_its_task_has_a_contract(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    tasks = [new_task(job_id, "n", 0, {}, has_contract=True), new_task(job_id, "n", 1, {})]
    await cycle.commit(Batch(tasks=tasks, enqueued=[enqueue_write(job_id, "n", 0, 1)]))
    assert {lease.item: lease.has_contract for lease in await stage.claim(worker)} == {0: True, 1: False}


async def test_a_task_is_claimed_once(stage: Stage) -> None:
    me, first, second = await stage.orchestrator(), await stage.worker("one"), await stage.worker("two")
    await stage.enqueue(me, await stage.owned_job(me), items=range(10))
    stores = [stage.behind.another_store() for _ in range(4)]
    workers = [first, second, first, second]
    claims = await asyncio.gather(
        *(store.claim(worker, None, ["work"], 4) for store, worker in zip(stores, workers, strict=True))
    )
    claimed = [item for leases in claims for item in items_of(leases)]
    assert len(claimed) == len(set(claimed)) <= 10
    rest = items_of(await stage.claim(first))
    assert sorted(claimed + rest) == list(range(10))


async def test_a_worker_claims_only_tasks_of_its_queues_and_handlers(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    lanes = {"a": Lane("default", "work"), "b": Lane("heavy", "work"), "c": Lane("default", "other")}
    for node, lane in lanes.items():
        await stage.enqueue(me, job_id, node=node, lane=lane)
    assert await stage.store.claim(worker, ["light"], ["work", "other"], 10) == []
    assert await stage.store.claim(worker, None, [], 10) == []
    assert [lease.node for lease in await stage.store.claim(worker, ["heavy"], ["work", "other"], 10)] == ["b"]
    assert [lease.node for lease in await stage.store.claim(worker, None, ["other"], 10)] == ["c"]
    assert [lease.node for lease in await stage.store.claim(worker, None, ["work", "other"], 10)] == ["a"]


async def test_tasks_are_claimed_by_priority_then_rank_then_age(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    order = {"old": (0, 5), "new": (0, 5), "first": (0, 1), "urgent": (3, 9), "late": (-1, 0)}
    for node, (priority, rank) in order.items():
        lane = Lane("heavy" if node == "new" else "default", "work")
        await stage.enqueue(me, job_id, node=node, priority=priority, rank=rank, lane=lane)
    assert [lease.node for lease in await stage.claim(worker, 2)] == ["urgent", "first"]
    assert [lease.node for lease in await stage.claim(worker)] == ["old", "new", "late"]


async def test_the_ranks_of_the_items_of_a_range_follow_each_other(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    wide, narrow = await stage.owned_job(me), await stage.owned_job(me)
    await stage.enqueue(me, wide, items=range(5))
    await stage.enqueue(me, narrow)
    leases = await stage.claim(worker, 3)
    assert [(lease.job_id == wide, lease.item) for lease in leases] == [(True, 0), (False, -1), (True, 1)]


async def test_a_worker_that_is_gone_claims_nothing(stage: Stage) -> None:
    me, lapsed, ended = await stage.orchestrator(), await stage.worker(), await stage.worker()
    await stage.enqueue(me, await stage.owned_job(me))
    await stage.behind.lapse_worker(lapsed)
    await stage.store.end_worker(ended)
    assert await stage.claim(lapsed) == []
    assert await stage.claim(ended) == []
    assert len(await stage.claim(await stage.worker())) == 1
