"""Jobs in whose cycles orchestrators die are found, advanced alone, and in the end left alone; on both stores."""

from __future__ import annotations

import pytest

from holdfast.store.interface import Batch
from tests.store.stage import Stage

pytestmark = pytest.mark.anyio
PATIENCE_SECONDS = 1000.0


async def die(stage: Stage, *job_ids: str) -> None:
    me = await stage.orchestrator()
    await stage.store.note_open_cycle(me, job_ids)
    await stage.behind.end_without_farewell(me)


async def test_nothing_is_dangerous_while_orchestrators_live_or_leave(stage: Stage) -> None:
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
    found = await stage.store.dangers(PATIENCE_SECONDS)
    assert (found.are_near, sorted(found.suspects), found.killers) == (True, sorted(jobs), [])
    assert await stage.store.dangers(PATIENCE_SECONDS) == found, "a death counts once"


async def test_a_job_of_which_two_died_while_they_advanced_it_alone_is_left_alone(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id, other = await stage.owned_job(me), await stage.owned_job(me)
    await die(stage, job_id, other)
    await stage.store.dangers(PATIENCE_SECONDS)
    await die(stage, job_id)
    assert (await stage.store.dangers(PATIENCE_SECONDS)).killers == []
    await die(stage, job_id)
    found = await stage.store.dangers(PATIENCE_SECONDS)
    assert (found.suspects, found.killers) == ([other], [job_id])


async def test_a_job_of_which_nobody_has_died_for_long_is_worth_another_try(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    for _ in range(3):
        await die(stage, job_id)
        await stage.store.dangers(PATIENCE_SECONDS)
    found = await stage.store.dangers(-1.0)
    assert (found.suspects, found.killers) == ([job_id], [])


async def test_a_commit_that_advanced_a_suspect_alone_clears_it_and_closes_its_cycle(stage: Stage) -> None:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await die(stage, job_id)
    assert (await stage.store.dangers(PATIENCE_SECONDS)).suspects == [job_id]
    await stage.store.note_open_cycle(me, [job_id])
    await stage.commit(me, Batch(survived=[job_id], closes_cycle=True))
    await stage.behind.end_without_farewell(me)
    assert (await stage.store.dangers(PATIENCE_SECONDS)).deaths == {}
