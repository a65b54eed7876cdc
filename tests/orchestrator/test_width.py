"""A wide fan-out: how much memory its owner needs, and how soon other jobs get their turn."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

import pytest

from holdfast.core.states import Rules
from holdfast.define.load import load_text
from holdfast.operations.submitting import new_job
from holdfast.orchestrator.owner import NARROW_DRAIN_LIMIT, NARROW_SHARE, Owner
from holdfast.pacing import WIDE_FROM
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import NewJob
from tests.store.stage import report_of

pytestmark = pytest.mark.anyio

WIDE = load_text("""
workflow_id: wide
inputs: {items: {type: array}}
nodes:
  spread: {type: fan_out, source: "{{ inputs.items }}", task: {handler: work, params: {item: "{{ item }}"}}, next: all}
  all: {type: fan_in}
""")
SMALL = load_text("workflow_id: small\nnodes: {a: {handler: work}}")


def wide(width: int) -> NewJob:
    """A wide job. All its items are null, which is one object, so that only the owner's own objects are counted."""
    return new_job(WIDE, {"items": [None] * width})


async def owner_of(store: PostgresStore) -> Owner:
    return Owner(store, await store.register_orchestrator("o", 600), "o", Rules(), lambda: 0.5)


async def expand(owner: Owner) -> None:
    while owner.has_work:
        await owner.run_cycle()


def reachable(roots: Iterable[Any]) -> int:
    """The number of objects that can be reached from these, without code and modules."""
    counted: set[int] = set()
    waiting = list(roots)
    while waiting:
        item = waiting.pop()
        if id(item) not in counted and not isinstance(item, type | ModuleType | FunctionType):
            counted.add(id(item))
            waiting += gc.get_referents(item)
    return len(counted)


async def held_in_memory(store: PostgresStore, width: int) -> int:
    """The number of objects of an owner whose fan-out is expanded and has some of its reports."""
    await store.submit([wide(width)])
    owner = await owner_of(store)
    await owner.run_cycle()
    await expand(owner)
    worker = await store.register_worker("w", None, ["work"], 100, 600)
    leases = await store.claim(worker, None, ["work"], 150)
    await store.report(worker, [report_of(lease) for lease in leases])
    assert (await owner.run_cycle()).signals == 150
    ((job_id, state),) = owner.jobs.items()
    assert (state.nodes["spread"].expanded, state.nodes["spread"].completed) == (width, 150)
    objects = reachable([value for name, value in vars(owner).items() if name not in ("_store", "_cycle")])
    async with store.connections.use("test") as connection:
        await connection.execute("delete from queue where job_id = %s", (job_id,))
        await connection.execute("update jobs set owner = null where job_id = %s", (job_id,))
    return objects


async def test_the_memory_of_an_owner_does_not_grow_with_the_width_of_a_fan_out(store: PostgresStore) -> None:
    narrow, broad = await held_in_memory(store, 200), await held_in_memory(store, 20_000)
    # In Python, each counter above 256 is an object of its own.
    assert broad <= narrow + 50, (narrow, broad)


async def test_a_job_that_is_submitted_while_a_wide_one_expands_begins_before_the_expansion_ends(
    store: PostgresStore,
) -> None:
    broad, small = wide(20_000), new_job(SMALL, {})
    await store.submit([broad])
    owner = await owner_of(store)
    await owner.run_cycle()
    await store.submit([small])
    await expand(owner)
    async with store.connections.use("test") as connection:
        cursor = await connection.execute(
            "select job_id::text, event from events where event in ('task_ready', 'job_started') and node is distinct"
            " from 'all' order by xid, job_id, seq"
        )
        order = await cursor.fetchall()
    begun = order.index((small.job_id, "job_started"))
    chunks = [number for number, row in enumerate(order) if row == (broad.job_id, "task_ready")]
    assert len(chunks) == 10
    # One chunk came before the small job, and at most one in the cycle that began it.
    assert sum(number > begun for number in chunks) >= 8


async def test_the_task_of_a_small_job_is_claimed_before_the_queued_items_of_a_wide_one(store: PostgresStore) -> None:
    broad, small = wide(20_000), new_job(SMALL, {})
    await store.submit([broad])
    owner = await owner_of(store)
    await owner.run_cycle()
    await store.submit([small])
    await expand(owner)
    worker = await store.register_worker("w", None, ["work"], 100, 600)
    leases = await store.claim(worker, None, ["work"], 10)
    assert [lease.job_id for lease in leases][:2] == [broad.job_id, small.job_id]


async def test_the_report_of_a_small_job_does_not_wait_behind_those_of_a_wide_one(store: PostgresStore) -> None:
    broad, small = wide(400), new_job(SMALL, {})
    await store.submit([broad])
    owner = await owner_of(store)
    await owner.run_cycle()
    await store.submit([small])
    await owner.run_cycle()
    worker = await store.register_worker("w", None, ["work"], 1000, 600)
    leases = await store.claim(worker, None, ["work"], 500)
    theirs = [report_of(lease) for lease in leases if lease.job_id == broad.job_id]
    (ours,) = [report_of(lease) for lease in leases if lease.job_id == small.job_id]
    await store.report(worker, theirs[:WIDE_FROM])
    alone = await owner.run_cycle()
    assert (alone.signals, alone.yields) == (WIDE_FROM, False)
    another = new_job(SMALL, {"i": 2})
    await store.submit([another])
    await owner.run_cycle()
    await store.report(worker, theirs[WIDE_FROM:])
    await store.report(worker, [ours])
    result = await owner.run_cycle()
    assert result.signals == NARROW_SHARE + 1
    assert result.finished == (small.job_id,)
    assert result.more and result.yields
    assert (await owner.run_cycle()).signals == NARROW_DRAIN_LIMIT
