"""Withdrawals on both stores: waiting tasks end at once, leased ones only on request."""

from __future__ import annotations

import pytest

from holdfast.core.effects import WithdrawTasks
from holdfast.core.states import Status
from holdfast.store.batch import Batch
from tests.store.stage import ERROR, LEASE_SECONDS, Stage, enqueue_write, held, new_task, report_of, retry_write

pytestmark = pytest.mark.anyio


async def withdraw(stage: Stage, me: int, *withdrawals: WithdrawTasks) -> dict[str, dict[str, list[int]]]:
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    ended = await cycle.withdraw(withdrawals)
    await cycle.commit(Batch())
    return {job: {node: sorted(items) for node, items in nodes.items()} for job, nodes in ended.items()}


async def test_invariant_11_a_withdrawal_ends_queued_tasks_and_leaves_leased_ones(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id, other_id = await stage.owned_job(me), await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(4))
    leased = {lease.item for lease in await stage.claim(worker, 2)}
    await stage.enqueue(me, other_id)
    ended = await withdraw(stage, me, WithdrawTasks(job_id, Status.CANCELLED, False, ERROR, ()))
    assert ended == {job_id: {"n": sorted({0, 1, 2, 3} - leased)}}
    for item in range(4):
        task = await stage.behind.task(job_id, "n", item)
        assert (task["status"], task["error"]) == (("ready", None) if item in leased else ("cancelled", ERROR))
    assert [lease.job_id for lease in await stage.claim(worker)] == [other_id]


async def test_a_withdrawal_can_be_limited_to_one_node(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, "n", range(2))
    await stage.enqueue(me, job_id, "m", range(2))
    ended = await withdraw(stage, me, WithdrawTasks(job_id, Status.CANCELLED, False, ERROR, (), (), "n"))
    assert {node: sorted(items) for node, items in ended[job_id].items()} == {"n": [0, 1]}
    assert {row["node"] for row in await stage.behind.queue(job_id)} == {"m"}


async def test_a_withdrawal_that_includes_leases_fences_their_holders(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    ended = await withdraw(stage, me, WithdrawTasks(lease.job_id, Status.FAILED, True, ERROR, ()))
    assert ended == {lease.job_id: {"n": [-1]}}
    assert await stage.store.renew_worker(worker, LEASE_SECONDS, [held(lease)]) == []
    assert await stage.store.report(worker, [report_of(lease)]) == 0
    assert (await stage.behind.task(*held(lease)[:3]))["status"] == "failed"


async def test_a_withdrawal_ends_tasks_that_were_never_queued(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    tasks = [new_task(job_id, "n", item, {}) for item in range(5)]
    await stage.commit(me, Batch(tasks=tasks, enqueued=[enqueue_write(job_id, "n", 0, 1)]))
    ended = await withdraw(stage, me, WithdrawTasks(job_id, Status.CANCELLED, False, ERROR, (("n", 2, 4),)))
    assert ended == {job_id: {"n": [0, 1, 2, 3, 4]}}


async def test_a_task_whose_report_is_unread_is_not_withdrawn(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease)])
    ended = await withdraw(stage, me, WithdrawTasks(lease.job_id, Status.CANCELLED, True, ERROR, ()))
    assert ended == {lease.job_id: {}}
    assert [s.kind for s in await stage.signals(me)] == ["report"]


async def test_a_withdrawal_sees_the_writes_of_its_own_cycle(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    tasks = [new_task(job_id, "n", item, {}) for item in range(3)]
    await cycle.write(Batch(tasks=tasks, enqueued=[enqueue_write(job_id, "n", 0, 1)]))
    ended = await cycle.withdraw([WithdrawTasks(job_id, Status.CANCELLED, False, ERROR, (("n", 2, 2),))])
    await cycle.commit(Batch())
    assert {node: sorted(items) for node, items in ended[job_id].items()} == {"n": [0, 1, 2]}
    assert await stage.behind.queue(job_id) == []


async def test_a_retry_that_waits_for_its_time_is_withdrawn(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease, "failed", None)])
    (signal,) = await stage.signals(me)
    opened = await stage.commit(me, Batch())
    await stage.commit(me, Batch(handled=[signal.id], retried=[retry_write(lease, opened.now + 3600)]))
    ended = await withdraw(stage, me, WithdrawTasks(lease.job_id, Status.CANCELLED, False, ERROR, ()))
    assert ended == {lease.job_id: {"n": [-1]}}


async def test_two_withdrawals_of_one_job_in_one_cycle_return_all_ended_tasks(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    both = [WithdrawTasks(job_id, status, False, ERROR, ()) for status in (Status.FAILED, Status.CANCELLED)]
    assert {job: dict(nodes) for job, nodes in (await cycle.withdraw(both)).items()} == {job_id: {"n": [-1]}}
    await cycle.rollback()
