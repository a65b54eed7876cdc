"""Checkpoints on both stores: the next attempt resumes at the last checkpoint, and only the lease's holder saves."""

from __future__ import annotations

import pytest

from holdfast.store.batch import Batch
from tests.store.stage import Stage, report_of, retry_write

pytestmark = pytest.mark.anyio


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
