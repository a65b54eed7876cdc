"""An owner's memory of its jobs is valid only for the connection and the database history that it read them from."""

from __future__ import annotations

import pytest

from holdfast.errors import Fenced, HistoryChanged, LostRace
from holdfast.store.batch import Batch
from holdfast.store.interface import Cycle
from holdfast.store.postgres import PostgresStore
from tests.store.stage import Stage, enqueue_write, node_row

pytestmark = pytest.mark.anyio


async def test_invariant_19_an_owner_notices_that_a_database_lacks_its_last_commit(stage: Stage) -> None:
    me = await stage.orchestrator()
    cycle = stage.store.cycle(me)
    for _ in range(3):
        await cycle.open(100, 100)
        await cycle.commit(Batch())
    await stage.behind.lose_last_commit(me)
    with pytest.raises(HistoryChanged):
        await cycle.open(100, 100)
    # The cycle has forgotten everything, and starts to remember again.
    for _ in range(2):
        await cycle.open(100, 100)
        await cycle.commit(Batch())


async def test_a_cycle_that_was_rolled_back_is_no_commit(stage: Stage) -> None:
    me = await stage.orchestrator()
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    await cycle.commit(Batch())
    for _ in range(2):
        await cycle.open(100, 100)
        await cycle.rollback()
    await cycle.open(100, 100)


async def test_the_commits_of_others_do_not_change_what_an_owner_remembers(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    mine, theirs = stage.store.cycle(me), stage.behind.another_store().cycle(other)
    for cycle in (mine, theirs, mine, theirs):
        await cycle.open(100, 100)
        await cycle.commit(Batch())


async def test_an_owner_that_has_forgotten_its_jobs_reads_their_ids_in_pages(stage: Stage) -> None:
    me, other = await stage.orchestrator(), await stage.orchestrator()
    mine = sorted([await stage.owned_job(me) for _ in range(3)])
    await stage.owned_job(other)
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    assert await cycle.owned(None, 2) == mine[:2]
    assert await cycle.owned(mine[1], 2) == mine[2:]
    assert await cycle.owned(mine[2], 2) == []


async def test_an_orchestrator_that_this_database_does_not_know_takes_over_nothing(stage: Stage) -> None:
    dead, unknown = await stage.orchestrator(), await stage.orchestrator()
    job_id = await stage.owned_job(dead)
    await stage.store.end_orchestrator(dead)
    await stage.behind.lose_orchestrator(unknown)
    assert await stage.store.take_over(unknown, 10) == {}
    with pytest.raises(Fenced):
        await stage.store.cycle(unknown).open(100, 100)
    assert list(await stage.store.take_over(await stage.orchestrator(), 10)) == [job_id]


async def test_an_owner_forgets_what_it_read_on_another_connection(store: PostgresStore) -> None:
    me = await store.register_orchestrator("o", 60)
    cycle = store.cycle(me)
    await cycle.open(100, 100)
    await cycle.commit(Batch())
    async with store.connections.use("stage") as connection:
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like '%cycle'"
            " and datname = current_database()"
        )
    with pytest.raises(HistoryChanged, match="new one"):
        await _open_until_it_is_refused(cycle)


async def _open_until_it_is_refused(cycle: Cycle) -> None:
    """A cycle may first notice the lost connection itself, as a lost race."""
    while True:
        try:
            await cycle.open(100, 100)
        except HistoryChanged:
            raise
        except LostRace:
            continue
        await cycle.rollback()


async def test_lane_ids_are_read_again_from_a_database_with_another_history(store: PostgresStore) -> None:
    stage = Stage(store, None)  # type: ignore[arg-type]
    me = await store.register_orchestrator("o", 60)
    job_id = await stage.owned_job(me)
    cycle = store.cycle(me)
    await cycle.open(100, 100)
    await cycle.commit(Batch(new_nodes=[node_row(job_id, "n")], enqueued=[enqueue_write(job_id, "n", 0, 0)]))
    async with store.connections.use("stage") as connection:
        await connection.execute("update lanes set lane_id = default")
        await connection.execute("delete from last_commits")
    with pytest.raises(HistoryChanged):
        await cycle.open(100, 100)
    worker = await stage.worker()
    await stage.enqueue(me, job_id, "m")
    assert [lease.node for lease in await stage.claim(worker)] == ["m"]
