"""What every store promises: the same scenarios on Postgres and on the simulator's model of it."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from holdfast.core.signals import EndedTask, TaskCounts, TaskView, UnqueuedTask
from holdfast.errors import Fenced
from holdfast.store.interface import (
    AnswerWrite,
    Batch,
    Cycle,
    FailedTaskWrite,
    Gathered,
    Handover,
    ItemResult,
    JobFacts,
    Lane,
    Lease,
    TaskWrite,
    Wide,
    Withdrawal,
    WorkerIdentity,
)
from tests.store.stage import (
    LANE,
    LEASE_SECONDS,
    Stage,
    enqueue_write,
    event_write,
    finish_write,
    forced,
    held,
    new_job,
    node_row,
    owned,
    report_of,
    retry_write,
)

pytestmark = pytest.mark.anyio

ERROR = {"code": "CANCELLED", "message": "the job was cancelled"}


def items(leases: list[Lease]) -> list[int]:
    return [lease.item for lease in leases]


# Submissions


async def test_a_new_submission_makes_a_pending_job(stage: Stage) -> None:
    job = new_job("a")
    answer = (await stage.store.submit([job]))[0]
    assert answer == (job.job_id, True, True, "pending", 1, None, "1")
    assert await stage.behind.events(job.job_id) == [(1, "job_created")]
    assert await stage.store.definition(job.definition_hash) == job.definition


async def test_invariant_14_an_equal_submission_answers_with_the_job_that_is_there(stage: Stage) -> None:
    first, again = await stage.submit("a"), await stage.submit("a")
    assert (again.job_id, again.created, again.same_body) == (first.job_id, False, True)
    assert len(await stage.behind.inbox(first.job_id)) == 1


async def test_invariant_14_another_body_under_the_same_identity_is_told(stage: Stage) -> None:
    first, other = await stage.submit("a", body="one"), await stage.submit("a", body="two")
    assert (other.job_id, other.created, other.same_body) == (first.job_id, False, False)


async def test_invariant_14_many_at_once_make_one_job(stage: Stage) -> None:
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
    # The identity is hashed over the tenant: the store gets different ones.
    one, other = await stage.store.submit([new_job("a of one", tenant="one"), new_job("a of other", tenant="other")])
    assert one.created and other.created
    me = await stage.orchestrator()
    assert {row.tenant for row in (await stage.own(me)).claimed} == {"one", "other"}


async def test_a_forced_submission_makes_the_next_run_and_the_one_before_stays(stage: Stage) -> None:
    first = await stage.submit("a")
    job = forced("a")
    assert await stage.store.submit([job]) == [(job.job_id, True, True, "pending", 2, None, "1")]
    assert await stage.behind.previous(job.job_id) == first.job_id
    assert await stage.behind.previous(first.job_id) is None
    assert await stage.behind.events(job.job_id) == [(1, "job_created")]
    claimed = (await stage.own(await stage.orchestrator())).claimed
    assert {row.job_id: row.run for row in claimed} == {first.job_id: 1, job.job_id: 2}


async def test_a_forced_submission_without_one_before_is_a_first_run(stage: Stage) -> None:
    (answer,) = await stage.store.submit([forced("a")])
    assert (answer.created, answer.run) == (True, 1)
    assert await stage.behind.previous(answer.job_id) is None


async def test_an_equal_submission_answers_with_the_newest_run(stage: Stage) -> None:
    await stage.submit("a")
    newest = [(await stage.store.submit([forced("a")]))[0] for _ in range(2)][-1]
    again = await stage.submit("a")
    assert (again.job_id, again.created, again.run) == (newest.job_id, False, 3)


async def test_invariant_14_another_body_is_told_to_a_forced_submission_too(stage: Stage) -> None:
    first = await stage.submit("a", body="one")
    (other,) = await stage.store.submit([forced("a", body="two")])
    assert (other.job_id, other.created, other.same_body) == (first.job_id, False, False)


async def test_forced_submissions_at_once_make_a_run_each(stage: Stage) -> None:
    stores = [stage.behind.another_store() for _ in range(6)]
    asked = [store.submit([forced("a"), new_job("b")]) for store in stores[:-1]]
    *answers, plain = await asyncio.gather(*asked, stores[-1].submit([new_job("a")]))
    made = [answer[0] for answer in answers]
    assert all(one.created for one in made)
    runs = sorted(one.run for one in [*made, *(one for one in plain if one.created)])
    assert runs == list(range(1, len(runs) + 1))
    assert [answer[1].created for answer in answers].count(True) == 1
    before = {one.run: one.job_id for one in [*made, *plain]}
    for one in made:
        assert await stage.behind.previous(one.job_id) == before.get(one.run - 1)


async def test_a_batch_with_the_same_forced_submission_twice_makes_both(stage: Stage) -> None:
    first, second, third = await stage.store.submit([new_job("a"), forced("a"), forced("a")])
    assert [(one.created, one.run) for one in (first, second, third)] == [(True, 1), (True, 2), (True, 3)]
    assert await stage.behind.previous(third.job_id) == second.job_id


# Claiming jobs


async def test_an_open_cycle_claims_unowned_jobs_with_their_signals(stage: Stage) -> None:
    job_id = (await stage.submit("a", size=3)).job_id
    cycle = stage.store.cycle(await stage.orchestrator())
    opened = await cycle.open(100, 100)
    await cycle.rollback()
    (row,), (signal,) = opened.claimed, opened.signals
    assert (row.job_id, row.status, row.owner, row.epoch, row.last_seq) == (job_id, "pending", None, 0, 1)
    assert (row.inputs, row.tenant, row.generation, row.created_at <= opened.now) == ({"size": 3}, "default", 1, True)
    assert (signal.job_id, signal.kind) == (job_id, "submitted")


async def test_a_commit_hands_the_job_over(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    job_id = await stage.owned_job(me)
    assert await stage.behind.job_owner(job_id) == (me, 1)
    assert await stage.behind.inbox(job_id) == []
    opened = await stage.own(other)
    assert (opened.claimed, opened.signals) == ([], [])


async def test_a_rollback_gives_the_job_back(stage: Stage) -> None:
    job_id = (await stage.submit()).job_id
    first = stage.store.cycle(await stage.orchestrator())
    await first.open(100, 100)
    await first.rollback()
    opened = await stage.own(await stage.orchestrator())
    assert [row.job_id for row in opened.claimed] == [job_id]


async def test_an_open_undoes_what_the_cycle_had_not_committed(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    await cycle.write(Batch(tasks=[TaskWrite(job_id, "n", -1, {})]))
    await cycle.open(100, 100)
    await cycle.commit(Batch(tasks=[TaskWrite(job_id, "n", -1, {"second": True})]))
    assert (await stage.behind.task(job_id, "n", -1))["status"] == "ready"


async def test_invariant_2_two_open_cycles_never_get_the_same_job(stage: Stage) -> None:
    jobs = {(await stage.submit()).job_id for _ in range(6)}
    here, there = stage.store, stage.behind.another_store()
    mine, theirs = here.cycle(await stage.orchestrator()), there.cycle(await stage.orchestrator())
    first, second = await asyncio.gather(mine.open(3, 100), theirs.open(100, 100))
    claimed = [row.job_id for row in (*first.claimed, *second.claimed)]
    assert len(claimed) == len(set(claimed))
    assert set(claimed) <= jobs
    third = await stage.behind.another_store().cycle(await stage.orchestrator()).open(100, 100)
    assert not {row.job_id for row in third.claimed} & set(claimed)
    await mine.rollback()
    await theirs.rollback()


async def test_invariant_2_two_signals_of_one_job_do_not_give_it_to_two_owners(stage: Stage) -> None:
    job_id = (await stage.submit()).job_id
    await stage.store.send(job_id, "cancel", "someone", "at once")
    me, other = await stage.orchestrator(), await stage.orchestrator()
    mine, theirs = stage.store.cycle(me), stage.behind.another_store().cycle(other)
    first = await mine.open(1, 100)
    assert [row.job_id for row in first.claimed] == [job_id]
    second = await theirs.open(100, 100)
    assert (second.claimed, second.signals) == ([], [])
    await theirs.rollback()
    await mine.commit(Batch(handled=[s.id for s in first.signals], jobs=[owned(first.claimed[0], me)]))
    await stage.store.sweep_inbox()
    assert [s.kind for s in await stage.signals(me)] == ["cancel"]


async def test_the_number_of_claims_and_of_drained_signals_is_bounded(stage: Stage) -> None:
    me = await stage.orchestrator()
    for _ in range(5):
        await stage.submit()
    cycle = stage.store.cycle(me)
    assert len((await cycle.open(2, 100)).claimed) == 2
    await cycle.rollback()
    job_id = (await stage.own(me)).claimed[0].job_id
    for number in range(3):
        await stage.store.send(job_id, "cancel", "someone", str(number))
    assert len((await cycle.open(100, 2)).signals) == 2
    await cycle.rollback()


async def test_the_signals_of_a_wide_job_come_last_and_not_all_at_once(stage: Stage) -> None:
    me = await stage.orchestrator()
    for _ in range(2):
        await stage.submit()
    wide, small = sorted(row.job_id for row in (await stage.own(me)).claimed)
    for job_id in (wide, wide, wide, small):
        await stage.store.send(job_id, "cancel", "someone", "enough")
    cycle = stage.store.cycle(me)
    heard = (await cycle.open(100, 100, wide=Wide(wide, 2))).signals
    assert [row.job_id for row in heard] == [small, wide, wide]
    assert heard[1].id < heard[2].id < heard[0].id
    await cycle.rollback()
    assert [row.job_id for row in (await cycle.open(100, 100)).signals] == [wide, wide, wide, small]
    await cycle.rollback()


# Signals


async def test_signals_are_drained_oldest_first(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id, other_id = await stage.owned_job(me), await stage.owned_job(me)
    sent = [await stage.store.send(j, "cancel", "someone", "why") for j in (job_id, other_id, job_id)]
    assert [s.id for s in await stage.signals(me)] == sent == sorted(sent)


async def test_a_signal_carries_who_sent_it_and_why(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.store.send(job_id, "cancel", "ann@host", 'no "longer" wanted, {really}')
    (signal,) = await stage.signals(me)
    assert (signal.kind, signal.actor, signal.reason) == ("cancel", "ann@host", 'no "longer" wanted, {really}')


async def test_a_signal_is_handled_exactly_once(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    signal_id = await stage.store.send(job_id, "cancel", "someone", "")
    assert await stage.store.answer(signal_id) is None
    assert [s.id for s in await stage.signals(me)] == [signal_id]
    answers = [AnswerWrite(signal_id, job_id, False, "it is too late")]
    await stage.commit(me, Batch(handled=[signal_id], answers=answers))
    assert await stage.signals(me) == []
    assert await stage.store.answer(signal_id) == (False, "it is too late")


async def test_a_signal_to_a_job_that_nobody_owns_makes_it_claimable(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    (row,), _ = await cycle.load([job_id])
    done = owned(row, None, epoch=1, status="completed", finished_at=row.created_at + 1)
    await cycle.commit(Batch(jobs=[done]))
    await stage.store.send(job_id, "cancel", "someone", "")
    opened = await stage.own(await stage.orchestrator())
    assert [(r.job_id, r.status, r.epoch) for r in opened.claimed] == [(job_id, "completed", 1)]
    assert [s.kind for s in opened.signals] == ["cancel"]


# Fences and takeovers


async def test_an_ended_orchestrator_is_fenced(stage: Stage) -> None:
    me = await stage.orchestrator()
    assert await stage.store.renew_orchestrator(me, LEASE_SECONDS)
    await stage.store.end_orchestrator(me)
    assert not await stage.store.renew_orchestrator(me, LEASE_SECONDS)
    with pytest.raises(Fenced):
        await stage.store.cycle(me).open(100, 100)


async def test_an_open_cycle_keeps_its_orchestrator_from_being_ended(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.behind.lapse_orchestrator(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    there = stage.behind.another_store()
    assert await there.take_over(other, 10) == {}
    await cycle.commit(Batch())
    assert list(await there.take_over(other, 10)) == [job_id]
    with pytest.raises(Fenced):
        await cycle.open(100, 100)


async def test_a_lapsed_lease_that_nobody_ended_may_be_renewed(stage: Stage) -> None:
    me = await stage.orchestrator()
    await stage.behind.lapse_orchestrator(me)
    assert await stage.store.renew_orchestrator(me, LEASE_SECONDS)
    assert await stage.store.take_over(await stage.orchestrator(), 10) == {}


async def test_invariant_2_a_takeover_raises_the_epoch_of_the_job(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    job_id = await stage.owned_job(me)
    assert await stage.store.take_over(other, 10) == {}
    await stage.store.end_orchestrator(me)
    assert list(await stage.store.take_over(other, 10)) == [job_id]
    assert await stage.behind.job_owner(job_id) == (other, 2)


async def test_a_takeover_tells_from_whom_each_job_was_taken(stage: Stage) -> None:
    first, second, heir = [await stage.orchestrator(name) for name in ("first", "second", "heir")]
    owned = {await stage.owned_job(first): "first", await stage.owned_job(second): "second"}
    await stage.store.end_orchestrator(first)
    await stage.behind.lapse_orchestrator(second)
    assert await stage.store.take_over(heir, 10) == owned


async def test_a_takeover_takes_no_more_than_its_limit(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    jobs = {await stage.owned_job(me) for _ in range(3)}
    await stage.store.end_orchestrator(me)
    first = await stage.store.take_over(other, 2)
    second = await stage.store.take_over(other, 2)
    assert (len(first), len(second), {*first, *second}) == (2, 1, jobs)


async def test_a_finished_job_is_not_taken_over(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    (row,), _ = await cycle.load([job_id])
    await cycle.commit(Batch(jobs=[owned(row, None, epoch=1, status="failed", finished_at=row.created_at + 1)]))
    await stage.store.end_orchestrator(me)
    assert await stage.store.take_over(await stage.orchestrator(), 10) == {}


async def test_the_signals_of_a_taken_job_follow_it_by_the_sweep(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    job_id = await stage.owned_job(me)
    signal_id = await stage.store.send(job_id, "cancel", "someone", "")
    await stage.store.end_orchestrator(me)
    await stage.store.take_over(other, 10)
    assert await stage.signals(other) == []
    assert await stage.store.sweep_inbox() == 1
    assert [s.id for s in await stage.signals(other)] == [signal_id]
    assert await stage.store.sweep_inbox() == 0


async def test_an_owner_loads_only_its_own_jobs(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(other)
    await cycle.open(100, 100)
    jobs, _ = await cycle.load([job_id])
    await cycle.rollback()
    assert jobs == []


async def test_a_job_that_belongs_to_another_is_not_overwritten(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    (row,), _ = await cycle.load([job_id])
    await cycle.rollback()
    await stage.commit(other, Batch(jobs=[owned(row, other, epoch=7, status="running")]))
    assert await stage.behind.job_owner(job_id) == (me, 1)


# What a cycle writes


async def test_jobs_and_nodes_come_back_as_they_were_written(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    (row,), nodes = await cycle.load([job_id])
    assert nodes == []
    written = owned(
        row, me, status="running", epoch=1, reason="stopping", error={"code": "X", "message": "ä \"b\" {c}, \\d"},
        started_at=row.created_at + 1, deadline_at=row.created_at + 60.5, stop_cause="failed",
        stop_until=row.created_at + 2, stop_leases_ended=True,
    )  # fmt: skip
    node = node_row(
        job_id, "n", status="running", reason="why, \"so\"", importance="important", output={"a": [1, None, "ü"]},
        error={"code": "Y"}, attempt=2, width=9, expanded=8, enqueued=7, completed=1, failed=2, skipped=1, cancelled=3,
        taken=["b", "c"], retry_at=1_000_000.5, started_at=1_000_001.25, finished_at=1_000_002.75,
        spent={"f00d": 3},
    )  # fmt: skip
    await cycle.commit(Batch(jobs=[written], new_nodes=[node, node_row(job_id, "null", taken=["null"])]))
    await cycle.open(100, 100)
    (loaded,), nodes = await cycle.load([job_id])
    await cycle.rollback()
    for name in ("status", "owner", "epoch", "error", "stop_cause", "stop_leases_ended"):
        assert getattr(loaded, name) == getattr(written, name)
    for name in ("started_at", "deadline_at", "stop_until"):
        assert getattr(loaded, name) == pytest.approx(getattr(written, name), abs=1e-5)
    assert sorted(nodes, key=lambda n: n.node) == [node, node_row(job_id, "null", taken=["null"])]


async def test_a_node_that_is_written_again_is_replaced(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.commit(me, Batch(new_nodes=[node_row(job_id, "n", width=2, expanded=2)]))
    after = node_row(job_id, "n", status="completed", width=2, expanded=2, completed=2, output={"fan_out_count": 2})
    await stage.commit(me, Batch(nodes=[after]))
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    assert (await cycle.load([job_id]))[1] == [after]
    await cycle.rollback()


async def test_the_number_of_the_last_event_comes_with_the_job(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.commit(me, Batch(events=[event_write(job_id, 2, "job_started"), event_write(job_id, 3, "node_ready")]))
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    assert (await cycle.load([job_id]))[0][0].last_seq == 3
    await cycle.rollback()
    assert await stage.behind.events(job_id) == [(1, "job_created"), (2, "job_started"), (3, "node_ready")]


async def test_a_range_of_tasks_is_queued_without_the_refused_ones(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    tasks = [TaskWrite(job_id, "n", item, {"item": item}) for item in (0, 1, 3)]
    refused = [FailedTaskWrite(job_id, "n", 2, {"code": "TEMPLATE_ERROR"})]
    await stage.commit(me, Batch(tasks=tasks, failed_tasks=refused, enqueued=[enqueue_write(job_id, "n", 0, 2)]))
    assert [(row["item"], row["epoch"], row["attempt"]) for row in await stage.behind.queue(job_id)] == [
        (0, 1, 1),
        (1, 1, 1),
    ]
    assert (await stage.behind.task(job_id, "n", 2))["status"] == "failed"
    assert (await stage.behind.task(job_id, "n", 3))["status"] == "ready"


async def test_what_was_rolled_back_is_not_claimable(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    await cycle.write(Batch(tasks=[TaskWrite(job_id, "n", -1, {})], enqueued=[enqueue_write(job_id, "n", -1, -1)]))
    assert await stage.claim(worker) == []
    await cycle.rollback()
    assert await stage.claim(worker) == []


async def test_examining_a_job_finds_the_tasks_that_are_neither_queued_nor_told_of(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    node = node_row(job_id, "n", width=6, expanded=5, enqueued=4)
    own = node_row(job_id, "own", status="dispatched", width=1, expanded=1, enqueued=1)
    tasks = [TaskWrite(job_id, "n", item, {}) for item in range(5)] + [TaskWrite(job_id, "own", -1, {})]
    wanted = [enqueue_write(job_id, "n", 0, 2), enqueue_write(job_id, "own", -1, -1)]
    await stage.commit(me, Batch(new_nodes=[node, own], tasks=tasks, enqueued=wanted))
    leases = {(lease.node, lease.item): lease for lease in await stage.claim(worker)}
    await stage.store.report(worker, [report_of(leases[("n", 1)]), report_of(leases[("own", -1)], output=b"7")])
    signals = await stage.signals(me)
    await stage.commit(me, Batch(handled=[s.id for s in signals], finished=[finish_write(s) for s in signals]))
    await stage.store.report(worker, [report_of(leases[("n", 0)])])
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    found = (await cycle.examine([job_id]))[job_id]
    await cycle.rollback()
    assert found.counts == {"n": TaskCounts(5, 4, 1, 0, 0, 0, 2), "own": TaskCounts(1, -1, 1, 0, 0, 0, -1)}
    assert found.unqueued == [UnqueuedTask("n", 3, TaskView("ready", 1, 0), None)]
    assert found.ended == {"own": EndedTask("completed", 1, 7)}


async def test_results_come_in_item_order_with_the_failed_ones_named(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(5))
    leases = {lease.item: lease for lease in await stage.claim(worker)}
    outputs = {3: b'{"value": 3}', 0: b'"zero"', 4: b"null", 1: b"[1]"}
    for item, output in outputs.items():
        await stage.store.report(worker, [report_of(leases[item], output=output)])
    await stage.store.report(worker, [report_of(leases[2], "failed", None, data=b'{"code": "X"}')])
    signals = await stage.signals(me)
    done = [finish_write(s, "failed" if s.outcome == "failed" else "completed") for s in signals]
    await stage.commit(me, Batch(handled=[s.id for s in signals], finished=done))
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    assert [(g.item, g.status, g.output) for g in await gathered(cycle, job_id, "n")] == [
        (0, "completed", "zero"),
        (1, "completed", [1]),
        (2, "failed", None),
        (3, "completed", {"value": 3}),
        (4, "completed", None),
    ]
    assert await gathered(cycle, job_id, "other") == []
    await cycle.rollback()


async def gathered(cycle: Cycle, job_id: str, node: str) -> list[Gathered]:
    """All pages."""
    found: list[Gathered] = []
    more = True
    while more:
        page, more = await cycle.results(job_id, node, found[-1].item if found else -1)
        found += page
    return found


async def test_results_of_an_ended_node_come_in_pages(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(6))
    leases = {lease.item: lease for lease in await stage.claim(worker)}
    await stage.store.report(worker, [report_of(leases[i], output=str(i).encode()) for i in (5, 4, 2, 1, 0)])
    await stage.store.report(worker, [report_of(leases[3], "failed", None, data=b'{"code": "X"}')])
    signals = await stage.signals(me)
    done = [finish_write(s, "failed" if s.outcome == "failed" else "completed") for s in signals]
    running = node_row(job_id, "n", width=6, expanded=6, enqueued=6)
    await stage.commit(me, Batch(handled=[s.id for s in signals], finished=done, new_nodes=[running]))
    assert await stage.store.results_page(job_id, "n", -2, 99, 2) is None, "it has not ended"
    assert await stage.store.results_page(job_id, "no_such_node", -2, 99, 2) is None
    await stage.commit(me, Batch(nodes=[running._replace(status="failed")]))

    async def items(after: int, until: int, limit: int) -> list[tuple[int, Any]]:
        page = await stage.store.results_page(job_id, "n", after, until, limit)
        assert page is not None
        return [(r.item, orjson.loads(r.output or b"null")) for r in page]

    assert await items(-2, 99, 2) == [(0, 0), (1, 1)]
    assert await items(1, 99, 2) == [(2, 2), (4, 4)], "the failed one is left out"
    assert await items(4, 99, 2) == [(5, 5)]
    assert await items(5, 99, 2) == []
    assert await items(1, 4, 9) == [(2, 2)]


async def test_the_own_result_of_a_node_is_its_only_one(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    lease = await stage.leased(me, job_id, worker)
    await stage.store.report(worker, [report_of(lease, output=b'"one"')])
    (signal,) = await stage.signals(me)
    ended = node_row(job_id, lease.node, status="completed", width=1, expanded=1, completed=1)
    await stage.commit(me, Batch(handled=[signal.id], finished=[finish_write(signal)], new_nodes=[ended]))
    assert await stage.store.results_page(job_id, lease.node, -2, 99, 9) == [ItemResult(-1, b'"one"', None)]


async def test_invariant_1_a_finish_of_an_old_epoch_changes_nothing(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease, "given_back", None)])
    (signal,) = await stage.signals(me)
    await stage.commit(me, Batch(handled=[signal.id], retried=[retry_write(lease, None)]))
    await stage.commit(me, Batch(finished=[finish_write(signal)]))
    task = await stage.behind.task(*held(lease)[:3])
    assert (task["status"], task["epoch"]) == ("ready", 2)


async def test_invariant_4_a_finished_task_stays_as_it_is(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease)])
    (signal,) = await stage.signals(me)
    await stage.commit(me, Batch(handled=[signal.id], finished=[finish_write(signal)]))
    await stage.commit(me, Batch(finished=[finish_write(signal, "failed", error={"code": "X"})]))
    await stage.commit(me, Batch(retried=[retry_write(lease, None)]))
    task = await stage.behind.task(*held(lease)[:3])
    assert (task["status"], task["output"], task["error"], task["epoch"]) == ("completed", 1, None, 1)
    assert await stage.behind.queue(lease.job_id) == []


# Retries


async def test_a_retry_is_a_new_epoch_that_can_be_claimed_at_once(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease, "failed", None)])
    retry = retry_write(lease, None, error={"code": "X"}, retries=1, lost=2, crashes=1, suspect=True)
    await stage.commit(me, Batch(handled=[s.id for s in await stage.signals(me)], retried=[retry]))
    (again,) = await stage.claim(worker)
    assert (again.epoch, again.attempt, again.suspect, again.params) == (2, 2, True, lease.params)
    task = await stage.behind.task(*held(lease)[:3])
    assert (task["status"], task["epoch"], task["attempt"], task["error"]) == ("ready", 2, 1, {"code": "X"})
    assert (task["retries"], task["lost"], task["crashes"]) == (1, 2, 1)


async def test_invariant_10_a_retry_is_not_claimable_before_its_time(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease, "failed", None)])
    opened = await stage.commit(me, Batch())
    await stage.commit(me, Batch(retried=[retry_write(lease, opened.now + 3600)]))
    assert await stage.store.wake_due() == 0
    assert await stage.claim(worker) == []
    await stage.behind.pass_due_time(lease.job_id)
    assert await stage.claim(worker) == []
    assert await stage.store.wake_due() == 1
    assert [again.epoch for again in await stage.claim(worker)] == [2]
    assert await stage.store.wake_due() == 0


async def test_invariant_2_a_retry_of_an_epoch_that_is_over_changes_nothing(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease, "failed", None)])
    await stage.commit(me, Batch(retried=[retry_write(lease, None, epoch=5)]))
    (again,) = await stage.claim(worker)
    await stage.store.report(worker, [report_of(again, "failed", None)])
    await stage.commit(me, Batch(retried=[retry_write(lease, None, epoch=5), retry_write(lease, None, epoch=4)]))
    assert await stage.behind.queue(lease.job_id) == []


# Withdrawals


async def withdraw(stage: Stage, me: int, *withdrawals: Withdrawal) -> dict[str, dict[str, list[int]]]:
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    ended = await cycle.withdraw(withdrawals)
    await cycle.commit(Batch())
    return {job: {node: sorted(found) for node, found in nodes.items()} for job, nodes in ended.items()}


async def test_invariant_11_a_withdrawal_ends_what_is_queued_and_leaves_what_is_leased(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id, other_id = await stage.owned_job(me), await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(4))
    leased = {lease.item for lease in await stage.claim(worker, 2)}
    await stage.enqueue(me, other_id)
    ended = await withdraw(stage, me, Withdrawal(job_id, "cancelled", False, ERROR, ()))
    assert ended == {job_id: {"n": sorted({0, 1, 2, 3} - leased)}}
    for item in range(4):
        task = await stage.behind.task(job_id, "n", item)
        assert (task["status"], task["error"]) == (("ready", None) if item in leased else ("cancelled", ERROR))
    assert [lease.job_id for lease in await stage.claim(worker)] == [other_id]


async def test_a_withdrawal_can_be_that_of_one_node(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, "n", range(2))
    await stage.enqueue(me, job_id, "m", range(2))
    ended = await withdraw(stage, me, Withdrawal(job_id, "cancelled", False, ERROR, (), (), "n"))
    assert {node: sorted(items) for node, items in ended[job_id].items()} == {"n": [0, 1]}
    assert {row["node"] for row in await stage.behind.queue(job_id)} == {"m"}


async def test_a_withdrawal_of_the_leases_too_fences_their_holders(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    ended = await withdraw(stage, me, Withdrawal(lease.job_id, "failed", True, ERROR, ()))
    assert ended == {lease.job_id: {"n": [-1]}}
    assert await stage.store.renew_worker(worker, LEASE_SECONDS, [held(lease)]) == []
    assert await stage.store.report(worker, [report_of(lease)]) == 0
    assert (await stage.behind.task(*held(lease)[:3]))["status"] == "failed"


async def test_a_withdrawal_ends_the_rows_that_never_were_queued(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    tasks = [TaskWrite(job_id, "n", item, {}) for item in range(5)]
    await stage.commit(me, Batch(tasks=tasks, enqueued=[enqueue_write(job_id, "n", 0, 1)]))
    ended = await withdraw(stage, me, Withdrawal(job_id, "cancelled", False, ERROR, (("n", 2, 4),)))
    assert ended == {job_id: {"n": [0, 1, 2, 3, 4]}}


async def test_a_task_whose_report_is_unread_is_not_withdrawn(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease)])
    assert await withdraw(stage, me, Withdrawal(lease.job_id, "cancelled", True, ERROR, ())) == {lease.job_id: {}}
    assert [s.kind for s in await stage.signals(me)] == ["report"]


async def test_a_withdrawal_sees_what_the_same_cycle_wrote(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    tasks = [TaskWrite(job_id, "n", item, {}) for item in range(3)]
    await cycle.write(Batch(tasks=tasks, enqueued=[enqueue_write(job_id, "n", 0, 1)]))
    ended = await cycle.withdraw([Withdrawal(job_id, "cancelled", False, ERROR, (("n", 2, 2),))])
    await cycle.commit(Batch())
    assert {node: sorted(found) for node, found in ended[job_id].items()} == {"n": [0, 1, 2]}
    assert await stage.behind.queue(job_id) == []


async def test_a_retry_that_waits_for_its_time_is_withdrawn(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.report(worker, [report_of(lease, "failed", None)])
    (signal,) = await stage.signals(me)
    opened = await stage.commit(me, Batch())
    await stage.commit(me, Batch(handled=[signal.id], retried=[retry_write(lease, opened.now + 3600)]))
    ended = await withdraw(stage, me, Withdrawal(lease.job_id, "cancelled", False, ERROR, ()))
    assert ended == {lease.job_id: {"n": [-1]}}


# Claims of workers


async def test_a_lease_tells_what_to_do(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me, size=3)
    await stage.enqueue(me, job_id, timeout_seconds=7.5)
    (lease,) = await stage.claim(worker)
    assert lease == Lease(job_id, "n", -1, 1, 1, "work", 7.5, False, {"item": -1}, None, 0, me)
    facts = (await stage.store.job_facts([job_id]))[job_id]
    assert facts == JobFacts(1, {"size": 3}, facts.definition_hash)
    assert await stage.store.definition(facts.definition_hash)


async def test_a_lease_tells_that_its_task_has_a_contract(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    tasks = [TaskWrite(job_id, "n", 0, {}, has_contract=True), TaskWrite(job_id, "n", 1, {})]
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
    claimed = [item for leases in claims for item in items(leases)]
    assert len(claimed) == len(set(claimed)) <= 10
    rest = items(await stage.claim(first))
    assert sorted(claimed + rest) == list(range(10))


async def test_a_claim_takes_only_its_queues_and_handlers(stage: Stage) -> None:
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


async def test_a_claim_goes_by_priority_then_rank_then_age(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    wanted = {"old": (0, 5), "new": (0, 5), "first": (0, 1), "urgent": (3, 9), "late": (-1, 0)}
    for node, (priority, rank) in wanted.items():
        lane = Lane("heavy" if node == "new" else "default", "work")
        await stage.enqueue(me, job_id, node=node, priority=priority, rank=rank, lane=lane)
    assert [lease.node for lease in await stage.claim(worker, 2)] == ["urgent", "first"]
    assert [lease.node for lease in await stage.claim(worker)] == ["old", "new", "late"]


async def test_the_items_of_a_range_rank_one_behind_the_other(stage: Stage) -> None:
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


# Reports


async def test_a_report_reaches_the_owner_with_all_that_it_says(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker("worker one")
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    report = report_of(lease, "done", b'{"a": 1}', data=b'{"log": "x"}')
    assert await stage.store.report(worker, [report]) == 1
    (signal,) = await stage.signals(me)
    assert (signal.kind, signal.outcome, signal.worker) == ("report", "done", "worker one")
    assert (signal.job_id, signal.node, signal.item, signal.epoch) == held(lease)
    assert (signal.attempt, signal.started_at, signal.output) == (1, 1_000_000.0, {"a": 1})
    assert (signal.data, signal.alone) == ({"log": "x"}, False)
    assert (signal.task_status, signal.task_epoch, signal.task_attempt) == ("ready", 1, 0)
    assert await stage.behind.queue(lease.job_id) == []


async def test_a_report_says_that_its_attempt_died_alone(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(2))
    first, second = await stage.claim(worker, 2)
    died = report_of(first, "lost", None, alone=True, data=b'{"message": "killed"}')
    assert await stage.store.report(worker, [died, report_of(second)]) == 2
    told = {signal.item: (signal.outcome, signal.alone, signal.data) for signal in await stage.signals(me)}
    assert told == {first.item: ("lost", True, {"message": "killed"}), second.item: ("done", False, None)}


async def test_the_output_of_an_item_goes_from_its_report_to_its_task(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker, items=[0])
    await stage.store.report(worker, [report_of(lease, output=b'{"text": "\\"q\\", \\\\ {} \\u00e4"}')])
    (signal,) = await stage.signals(me)
    await stage.commit(me, Batch(handled=[signal.id], finished=[finish_write(signal)]))
    task = await stage.behind.task(*held(lease)[:3])
    assert task["output"] == {"text": '"q", \\ {} ä'}


async def rejected(stage: Stage, me: int) -> list[tuple[str | None, int | None]]:
    return [(s.outcome, s.epoch) for s in await stage.signals(me) if s.kind == "rejected"]


async def test_invariant_1_a_second_report_changes_nothing_and_is_told(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    assert await stage.store.report(worker, [report_of(lease)]) == 1
    assert await stage.store.report(worker, [report_of(lease, "failed", None)]) == 0
    assert [s.kind for s in await stage.signals(me)] == ["report", "rejected"]
    assert await rejected(stage, me) == [("failed", 1)]


@pytest.mark.parametrize("wrong", [0, 2])
async def test_invariant_1_a_report_with_another_epoch_changes_nothing(stage: Stage, wrong: int) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    assert await stage.store.report(worker, [report_of(lease, epoch=wrong)]) == 0
    assert await rejected(stage, me) == [("done", wrong)]
    assert await stage.store.report(worker, [report_of(lease)]) == 1


async def test_invariant_1_a_zombie_cannot_report_for_the_next_attempt(stage: Stage) -> None:
    me, zombie, worker = await stage.orchestrator(), await stage.worker(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), zombie)
    await stage.behind.lapse_worker(zombie)
    await stage.store.expire()
    await stage.commit(me, Batch(handled=[s.id for s in await stage.signals(me)], retried=[retry_write(lease, None)]))
    (again,) = await stage.claim(worker)
    assert await stage.store.report(zombie, [report_of(lease), report_of(again)]) == 0
    assert await stage.store.report(worker, [report_of(again)]) == 1


async def test_invariant_1_a_report_of_another_worker_changes_nothing(stage: Stage) -> None:
    me, worker, other = await stage.orchestrator(), await stage.worker(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    assert await stage.store.report(other, [report_of(lease)]) == 0
    assert await rejected(stage, me) == [("done", 1)]


async def test_invariant_1_a_report_after_the_workers_lease_changes_nothing(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.behind.lapse_worker(worker)
    assert await stage.store.report(worker, [report_of(lease)]) == 0
    assert await rejected(stage, me) == [("done", 1)]
    assert len(await stage.behind.queue(lease.job_id)) == 1


async def test_invariant_1_a_report_after_the_attempts_deadline_changes_nothing(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.behind.pass_deadline(lease)
    assert await stage.store.report(worker, [report_of(lease)]) == 0
    assert await rejected(stage, me) == [("done", 1)]


async def test_of_many_reports_only_the_held_ones_are_taken(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(3))
    leases = await stage.claim(worker)
    reports = [report_of(leases[0]), report_of(leases[1], epoch=9), report_of(leases[2])]
    assert await stage.store.report(worker, reports) == 2
    assert await stage.store.report(worker, []) == 0
    assert sorted((s.kind, s.item) for s in await stage.signals(me)) == [
        ("rejected", leases[1].item),
        *sorted([("report", leases[0].item), ("report", leases[2].item)]),
    ]


async def test_the_same_report_twice_in_one_batch_is_taken_once(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    assert await stage.store.report(worker, [report_of(lease), report_of(lease)]) == 1
    assert [s.kind for s in await stage.signals(me)].count("report") == 1


async def test_a_late_report_of_a_finished_job_reaches_whoever_claims_it(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    (row,), _ = await cycle.load([lease.job_id])
    await cycle.withdraw([Withdrawal(lease.job_id, "cancelled", True, ERROR, ())])
    await cycle.commit(Batch(jobs=[owned(row, None, epoch=1, status="cancelled", finished_at=row.created_at + 1)]))
    assert await stage.store.report(worker, [report_of(lease)]) == 0
    (signal,) = (await stage.own(me)).signals
    assert (signal.kind, signal.node, signal.item, signal.epoch, signal.worker) == ("rejected", "n", -1, 1, "worker")
    assert (await stage.behind.task(*held(lease)[:3]))["status"] == "cancelled"


# Leases that end


async def test_a_renewal_returns_the_leases_that_are_still_held(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    await stage.enqueue(me, await stage.owned_job(me), items=range(3))
    leases = await stage.claim(worker)
    await stage.store.report(worker, [report_of(leases[0])])
    still = await stage.store.renew_worker(worker, LEASE_SECONDS, [held(lease) for lease in leases])
    assert still is not None
    assert sorted(still) == sorted(held(lease) for lease in leases[1:])
    assert await stage.store.renew_worker(worker, LEASE_SECONDS, []) == []


async def test_a_worker_that_was_declared_gone_cannot_renew(stage: Stage) -> None:
    lapsed, ended = await stage.worker(), await stage.worker()
    await stage.behind.lapse_worker(lapsed)
    await stage.store.end_worker(ended)
    assert await stage.store.renew_worker(lapsed, LEASE_SECONDS, []) is None
    assert await stage.store.renew_worker(ended, LEASE_SECONDS, []) is None


async def test_the_leases_of_a_lapsed_worker_are_reported_lost(stage: Stage) -> None:
    me, worker, other = await stage.orchestrator(), await stage.worker(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(2))
    lost = await stage.claim(worker, 1)
    kept = await stage.claim(other, 1)
    assert await stage.store.expire() == 0
    await stage.behind.lapse_worker(worker)
    assert await stage.store.expire() == 1
    (signal,) = await stage.signals(me)
    assert (signal.kind, signal.outcome, signal.item, signal.epoch) == ("report", "lost", lost[0].item, 1)
    assert [row["item"] for row in await stage.behind.queue(job_id)] == items(kept)
    assert await stage.store.expire() == 0
    assert await stage.store.renew_worker(worker, LEASE_SECONDS, []) is None


async def test_the_leases_of_a_worker_that_left_are_reported_lost(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.end_worker(worker)
    await stage.behind.lapse_worker(worker)
    assert await stage.store.expire() == 1
    assert [s.outcome for s in await stage.signals(me)] == ["lost"]


async def test_an_attempt_past_its_deadline_is_reported_as_timed_out(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.behind.pass_deadline(lease)
    assert await stage.store.expire() == 1
    (signal,) = await stage.signals(me)
    assert signal.data is not None
    assert (signal.outcome, signal.data["code"], signal.epoch) == ("failed", "TIMEOUT", 1)
    assert await stage.store.renew_worker(worker, LEASE_SECONDS, [held(lease)]) == []


async def test_a_lease_of_a_job_that_was_taken_over_reports_to_the_new_owner(stage: Stage) -> None:
    me, other, worker = await stage.orchestrator(), await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    await stage.store.end_orchestrator(me)
    await stage.store.take_over(other, 10)
    assert await stage.store.report(worker, [report_of(lease)]) == 1
    await stage.store.sweep_inbox()
    assert [(s.kind, s.outcome) for s in await stage.signals(other)] == [("report", "done")]


async def test_leases_that_the_worker_does_not_know_of_go_back_unspent(stage: Stage) -> None:
    me, worker, other = await stage.orchestrator(), await stage.worker(), await stage.worker()
    await stage.enqueue(me, await stage.owned_job(me), items=range(3))
    known, stray = await stage.claim(worker, 2)
    (foreign,) = await stage.claim(other)
    assert await stage.store.release_strays(worker, [held(known)], 3600.0) == 0
    assert await stage.store.release_strays(worker, [held(known)], -1.0) == 1
    (signal,) = await stage.signals(me)
    assert (signal.kind, signal.outcome, signal.item, signal.epoch) == ("report", "given_back", stray.item, 1)
    assert await stage.store.report(worker, [report_of(stray)]) == 0
    assert await stage.store.report(worker, [report_of(known)]) == 1
    assert await stage.store.report(other, [report_of(foreign)]) == 1


# Checkpoints


async def test_the_next_attempt_resumes_at_the_last_checkpoint(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    assert await stage.store.save_checkpoint(worker, lease, 1, "first", b'{"step": 1}')
    assert await stage.store.save_checkpoint(worker, lease, 2, "second", b'{"step": 2}')
    await stage.store.report(worker, [report_of(lease, "given_back", None)])
    await stage.commit(me, Batch(handled=[s.id for s in await stage.signals(me)], retried=[retry_write(lease, None)]))
    (again,) = await stage.claim(worker)
    assert (again.resume_point, again.checkpoint_seq) == (("second", {"step": 2}), 2)


async def test_a_checkpoint_whose_answer_was_lost_is_saved_again_and_counts_once(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    assert await stage.store.save_checkpoint(worker, lease, 1, "first", b"1")
    assert await stage.store.save_checkpoint(worker, lease, 1, "first", b"1")
    await stage.store.report(worker, [report_of(lease, "given_back", None)])
    await stage.commit(me, Batch(handled=[s.id for s in await stage.signals(me)], retried=[retry_write(lease, None)]))
    (again,) = await stage.claim(worker)
    assert (again.resume_point, again.checkpoint_seq) == (("first", 1), 1)
    assert await stage.store.save_checkpoint(worker, again, 1, "of the next attempt", b"2")


async def test_invariant_1_a_checkpoint_without_the_lease_is_refused(stage: Stage) -> None:
    me, worker, other = await stage.orchestrator(), await stage.worker(), await stage.worker()
    lease = await stage.leased(me, await stage.owned_job(me), worker)
    assert not await stage.store.save_checkpoint(other, lease, 1, "not mine", b"1")
    assert not await stage.store.save_checkpoint(worker, lease._replace(epoch=2), 1, "another epoch", b"1")
    await stage.store.report(worker, [report_of(lease, "given_back", None)])
    assert not await stage.store.save_checkpoint(worker, lease, 1, "too late", b"1")
    await stage.commit(me, Batch(handled=[s.id for s in await stage.signals(me)], retried=[retry_write(lease, None)]))
    (again,) = await stage.claim(worker)
    assert again.resume_point is None
    await stage.behind.lapse_worker(worker)
    assert not await stage.store.save_checkpoint(worker, again, 1, "gone", b"1")


# Handovers: a worker and an owner in one process


def handover(worker: WorkerIdentity, *leases: Lease, limit: int = 10) -> Handover:
    return Handover(worker, [report_of(lease) for lease in leases], None, ["work"], limit)


async def test_a_handover_takes_the_report_and_leases_the_next_task_in_one_transaction(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    given = handover(worker, await stage.leased(me, job_id, worker))
    cycle = stage.store.cycle(me)
    opened = await cycle.open(100, 100, (), given)
    (signal,) = opened.signals
    assert (opened.taken, signal.outcome, signal.output) == (frozenset({0}), "done", 1)
    batch = Batch(
        finished=[finish_write(signal)],
        handled=[signal.id],
        tasks=[TaskWrite(job_id, "next", -1, {"item": -1})],
        enqueued=[enqueue_write(job_id, "next", -1, -1)],
    )
    committed = await cycle.commit(batch, given)
    assert [(lease.node, lease.owner) for lease in committed.leases] == [("next", me)]
    assert (await stage.behind.task(job_id, "n", -1))["output"] == 1
    assert await stage.behind.inbox(job_id) == []
    assert [row["state"] for row in await stage.behind.queue(job_id)] == ["leased"]
    assert await stage.store.report(worker, [report_of(committed.leases[0])]) == 1


async def test_the_output_of_an_item_that_was_handed_over_reaches_its_task(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    given = handover(worker, await stage.leased(me, job_id, worker, items=[0]))
    cycle = stage.store.cycle(me)
    (signal,) = (await cycle.open(100, 100, (), given)).signals
    await cycle.commit(Batch(finished=[finish_write(signal)], handled=[signal.id]), given)
    assert (await stage.behind.task(job_id, "n", 0))["output"] == 1


async def test_a_handover_that_is_rolled_back_has_not_happened(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    lease = await stage.leased(me, job_id, worker)
    cycle = stage.store.cycle(me)
    assert (await cycle.open(100, 100, (), handover(worker, lease))).taken == {0}
    await cycle.rollback()
    assert await stage.behind.inbox(job_id) == []
    assert await stage.store.report(worker, [report_of(lease)]) == 1


async def test_invariant_1_a_handover_of_a_lease_that_was_lost_changes_nothing(stage: Stage) -> None:
    me, worker, other = await stage.orchestrator(), await stage.worker(), await stage.worker("other")
    job_id = await stage.owned_job(me)
    lease = await stage.leased(me, job_id, worker)
    cycle = stage.store.cycle(me)
    for given in (handover(other, lease), handover(worker, lease._replace(epoch=lease.epoch + 1))):
        opened = await cycle.open(100, 100, (), given)
        assert (opened.taken, opened.signals) == (frozenset(), [])
        await cycle.commit(Batch(), given)
    assert [row["state"] for row in await stage.behind.queue(job_id)] == ["leased"]


async def test_a_handover_that_nobody_decided_waits_in_the_inbox(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    given = handover(worker, await stage.leased(me, job_id, worker))
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100, (), given)
    await cycle.commit(Batch(), given)
    assert [signal.outcome for signal in await stage.signals(me)] == ["done"]


async def test_work_for_others_is_left_when_the_worker_is_full_or_does_not_serve_it(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    lease = await stage.leased(me, job_id, worker)
    cycle = stage.store.cycle(me)
    elsewhere = Lane("default", "another handler", "default")
    for number, (limit, lane, left) in enumerate([(2, LANE, False), (1, LANE, True), (2, elsewhere, True)]):
        given = handover(worker, lease, limit=limit)
        await cycle.open(100, 100, (), given)
        node = f"next{number}"
        batch = Batch(
            tasks=[TaskWrite(job_id, node, -1, {})], enqueued=[enqueue_write(job_id, node, -1, -1, lane=lane)]
        )
        assert (await cycle.commit(batch, given)).work_left == left


async def test_two_withdrawals_of_one_job_in_one_cycle_tell_what_either_ended(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    both = [Withdrawal(job_id, status, False, ERROR, ()) for status in ("failed", "cancelled")]
    assert {job: dict(nodes) for job, nodes in (await cycle.withdraw(both)).items()} == {job_id: {"n": [-1]}}
    await cycle.rollback()
