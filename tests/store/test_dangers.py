"""Jobs in whose cycles orchestrators die: owners advance them alone, and set them aside at last; on both stores."""

from __future__ import annotations

import pytest

from holdfast.store.batch import Batch
from tests.store.stage import Stage

pytestmark = pytest.mark.anyio
PATIENCE_SECONDS = 1000.0


async def die(stage: Stage, *job_ids: str) -> None:
    me = await stage.orchestrator()
    await stage.store.note_open_cycle(me, job_ids)
    await stage.behind.end_suddenly(me)


async def test_no_job_is_a_suspect_while_orchestrators_live_or_leave_in_good_order(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.store.note_open_cycle(me, [job_id])
    assert await stage.store.dangers(PATIENCE_SECONDS) == (False, {})
    await stage.store.forget_open_cycle(me)
    await stage.store.end_orchestrator(me)
    assert await stage.store.dangers(PATIENCE_SECONDS) == (False, {})


async def test_the_jobs_of_a_dead_orchestrators_open_cycle_are_suspects(stage: Stage) -> None:
    me = await stage.orchestrator()
    jobs = [await stage.owned_job(me) for _ in range(2)]
    await stage.owned_job(me)
    await die(stage, *jobs)
    dangers = await stage.store.dangers(PATIENCE_SECONDS)
    assert (dangers.are_near, sorted(dangers.suspects), dangers.killers) == (True, sorted(jobs), [])
    assert await stage.store.dangers(PATIENCE_SECONDS) == dangers, "a death counts once"


async def test_a_job_that_killed_two_orchestrators_while_advanced_alone_is_a_killer(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id, other = await stage.owned_job(me), await stage.owned_job(me)
    await die(stage, job_id, other)
    await stage.store.dangers(PATIENCE_SECONDS)
    await die(stage, job_id)
    assert (await stage.store.dangers(PATIENCE_SECONDS)).killers == []
    await die(stage, job_id)
    dangers = await stage.store.dangers(PATIENCE_SECONDS)
    assert (dangers.suspects, dangers.killers) == ([other], [job_id])


async def test_a_killer_becomes_a_suspect_again_after_a_long_time_without_a_death(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    for _ in range(3):
        await die(stage, job_id)
        await stage.store.dangers(PATIENCE_SECONDS)
    dangers = await stage.store.dangers(-1.0)
    assert (dangers.suspects, dangers.killers) == ([job_id], [])


async def test_a_commit_that_advanced_a_suspect_alone_clears_it_and_closes_its_cycle(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await die(stage, job_id)
    assert (await stage.store.dangers(PATIENCE_SECONDS)).suspects == [job_id]
    await stage.store.note_open_cycle(me, [job_id])
    await stage.commit(me, Batch(survived=[job_id], closes_cycle=True))
    await stage.behind.end_suddenly(me)
    assert (await stage.store.dangers(PATIENCE_SECONDS)).deaths == {}
