"""Owners on both stores: how they claim jobs and read signals. A job has one owner, a signal is handled once."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.effects import AnswerSignal
from holdfast.remedies import Remedy
from holdfast.store.batch import Batch
from holdfast.store.records import SignalAnswer, Wide
from tests.store.stage import Stage, new_task, owned, report_of

pytestmark = pytest.mark.anyio


async def test_an_open_cycle_claims_unowned_jobs_with_their_signals(stage: Stage) -> None:
    job_id = (await stage.submit("a", size=3)).job_id
    cycle = stage.store.cycle(await stage.orchestrator())
    opened = await cycle.open(100, 100)
    await cycle.rollback()
    (row,), (signal,) = opened.claimed, opened.signals
    assert (row.job_id, row.status, row.owner, row.epoch, row.last_seq) == (job_id, "pending", None, 0, 1)
    assert (row.inputs, row.tenant, row.generation, row.created_at <= opened.now) == ({"size": 3}, "default", 1, True)
    assert (signal.job_id, signal.kind) == (job_id, "submitted")


async def test_an_orchestrator_for_one_job_neither_claims_nor_takes_over_others(stage: Stage) -> None:
    dead = await stage.orchestrator()
    orphans = [await stage.owned_job(dead) for _ in range(2)]
    mine, other = [(await stage.submit()).job_id for _ in range(2)]
    await stage.store.end_orchestrator(dead)
    driver = await stage.store.register_orchestrator("run", 60.0, mine)
    assert [row.job_id for row in (await stage.own(driver)).claimed] == [mine]
    assert await stage.store.take_over(driver, 100) == {}
    successor = await stage.store.register_orchestrator("run", 60.0, orphans[1])
    assert set(await stage.store.take_over(successor, 100)) == {orphans[1]}
    assert [row.job_id for row in (await stage.own(await stage.orchestrator())).claimed] == [other]


async def test_a_commit_makes_the_orchestrator_the_owner(stage: Stage) -> None:
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


async def test_opening_a_cycle_undoes_its_uncommitted_writes(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    await cycle.write(Batch(tasks=[new_task(job_id, "n", -1, {})]))
    await cycle.open(100, 100)
    await cycle.commit(Batch(tasks=[new_task(job_id, "n", -1, {"second": True})]))
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
    first = await mine.open(100, 100)
    assert [row.job_id for row in first.claimed] == [job_id]
    second = await theirs.open(100, 100)
    assert (second.claimed, second.signals) == ([], [])
    await theirs.rollback()
    await mine.commit(Batch(handled=[s.id for s in first.signals], jobs=[owned(first.claimed[0], me)]))
    assert await stage.behind.inbox(job_id) == []


async def test_a_claim_of_a_job_reads_what_was_asked_of_it_however_many_other_signals_wait(stage: Stage) -> None:
    jobs = [(await stage.submit()).job_id for _ in range(4)]
    await stage.store.send(jobs[0], "pause", "someone", "not yet")
    cycle = stage.store.cycle(await stage.orchestrator())
    opened = await cycle.open(2, 100)
    await cycle.rollback()
    assert {row.job_id for row in opened.claimed} == set(jobs[:2])
    assert [(row.job_id, row.kind) for row in opened.signals] == [
        (jobs[0], "submitted"), (jobs[1], "submitted"), (jobs[0], "pause"),
    ]  # fmt: skip


async def test_what_is_asked_of_a_job_far_behind_is_read_at_once(stage: Stage) -> None:
    jobs = [(await stage.submit()).job_id for _ in range(4)]
    await stage.store.send(jobs[3], "cancel", "someone", "not needed")
    me = await stage.orchestrator()
    opened = await stage.own(me, 2)
    assert sorted(row.job_id for row in opened.claimed) == sorted([jobs[0], jobs[1], jobs[3]])
    assert [(row.job_id, row.kind) for row in opened.signals][2:] == [(jobs[3], "cancel")]


async def test_a_job_waits_for_what_is_asked_of_it_while_more_is_asked_than_a_cycle_reads(stage: Stage) -> None:
    """The others go on: what is asked may stay unread for long, of a job that another session keeps locked."""
    *jobs, other = [(await stage.submit()).job_id for _ in range(4)]
    for job_id in reversed(jobs):
        await stage.store.send(job_id, "cancel", "someone", "none of them")
    me = await stage.orchestrator()
    assert [(row.job_id, row.kind) for row in (await stage.own(me, 2)).signals] == [
        (other, "submitted"), (jobs[2], "cancel"), (jobs[1], "cancel"),
    ]  # fmt: skip
    kinds = [(row.job_id, row.kind) for row in (await stage.own(me, 2)).signals]
    assert kinds == [(jobs[0], "submitted"), (jobs[0], "cancel")]


async def test_a_signal_far_ahead_does_not_hide_the_jobs_before_it(stage: Stage) -> None:
    jobs = [(await stage.submit()).job_id for _ in range(3)]
    await stage.store.send(jobs[0], "pause", "someone", "not yet")
    me = await stage.orchestrator()
    assert {row.job_id for row in (await stage.own(me, 2)).claimed} == set(jobs[:2])
    assert [row.job_id for row in (await stage.own(me, 2)).claimed] == jobs[2:]


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


async def test_the_signals_of_a_wide_job_come_last_and_in_portions(stage: Stage) -> None:
    me = await stage.orchestrator()
    for _ in range(2):
        await stage.submit()
    wide, small = sorted(row.job_id for row in (await stage.own(me)).claimed)
    for job_id in (wide, wide, wide, small):
        await stage.store.send(job_id, "cancel", "someone", "enough")
    cycle = stage.store.cycle(me)
    signals = (await cycle.open(100, 100, wide=Wide(wide, 2))).signals
    assert [row.job_id for row in signals] == [small, wide, wide]
    assert signals[1].id < signals[2].id < signals[0].id
    await cycle.rollback()
    assert [row.job_id for row in (await cycle.open(100, 100)).signals] == [wide, wide, wide, small]
    await cycle.rollback()


async def test_signals_are_drained_oldest_first(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id, other_id = await stage.owned_job(me), await stage.owned_job(me)
    ids = [await stage.store.send(j, "cancel", "someone", "why") for j in (job_id, other_id, job_id)]
    assert [s.id for s in await stage.signals(me)] == ids == sorted(ids)


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
    remedy = Remedy("Continue it with", "retry", job_id, 'a "node"', ("--only",))
    answers = [AnswerSignal(signal_id, job_id, False, "it is too late", remedy)]
    await stage.commit(me, Batch(handled=[signal_id], answers=answers))
    assert await stage.signals(me) == []
    assert await stage.store.answer(signal_id) == SignalAnswer(False, "it is too late", remedy)


async def test_handled_signals_are_deleted_and_those_between_them_stay(stage: Stage) -> None:
    """This holds for signals close together and far apart, and for jobs with and without an owner."""
    me = await stage.orchestrator()
    for _ in range(12):
        await stage.submit()
    cycle = stage.store.cycle(me)
    opened = await cycle.open(100, 100)
    handled, rest = opened.signals[::11], opened.signals[1:11]
    await cycle.commit(Batch(handled=[s.id for s in handled], jobs=[owned(row, me) for row in opened.claimed]))
    await stage.store.sweep_inbox()
    assert {s.id for s in await stage.signals(me)} == {s.id for s in rest}
    await stage.commit(me, Batch(handled=[rest[0].id, rest[-1].id]))
    await stage.commit(me, Batch(handled=[s.id for s in rest[3:6]]))
    assert [s.id for s in await stage.signals(me)] == [s.id for s in (*rest[1:3], *rest[6:9])]


async def test_a_signal_to_an_unowned_job_makes_it_claimable(stage: Stage) -> None:
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


async def test_jobs_set_aside_get_only_signals_of_people_and_the_janitor(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    owned_one, unowned = await stage.owned_job(me), (await stage.submit()).job_id
    await stage.store.report(worker, [report_of(await stage.leased(me, owned_one, worker))])
    for job_id in (owned_one, unowned):
        for kind in ("cancel", "pause", "unpause", "recover", "recheck"):
            await stage.store.send(job_id, kind, "ann", "")
    cycle = stage.store.cycle(me)
    signals = (await cycle.open(100, 100, aside=[owned_one, unowned])).signals
    await cycle.rollback()
    kinds = ["cancel", "pause", "unpause", "recover", "recheck"]
    assert [s.kind for s in signals if s.job_id == owned_one] == kinds
    assert [s.kind for s in signals if s.job_id == unowned] == kinds
    assert len((await cycle.open(100, 100)).signals) == len(signals) + 2
    await cycle.rollback()
