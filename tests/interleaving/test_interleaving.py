"""Some seeds on the real store: every invariant holds, a seed can be replayed, and the faults really occur."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from tests.interleaving.observer import Observer, prepare
from tests.interleaving.world import GatedWorld, check_for_circles, run_seed

SEEDS = (1, 4, 6, 7, 11)
LOCK = "update holdfast.lanes set queue = queue"


@pytest.fixture
def observer(empty_database_url: str) -> Iterator[Observer]:
    prepare(empty_database_url)
    made = Observer(empty_database_url)
    yield made
    made.close()


def test_every_invariant_holds_on_the_real_store(observer: Observer) -> None:
    seen = {"cut": 0, "lost": 0, "handed": 0, "rejected": 0, "taken over": 0, "stepped back": 0}
    for seed in SEEDS:
        try:
            history = run_seed(seed, observer).db.history
        except Exception as problem:
            raise AssertionError(f"replay with: python -m tests.interleaving --first {seed} --seeds 1") from problem
        seen["cut"] += history.commits_failed
        seen["lost"] += history.commits_unknown
        seen["handed"] += history.handed
        seen["rejected"] += history.rejected
        seen["taken over"] += history.taken_over
        seen["stepped back"] += history.stepped_back
    assert all(seen.values()), f"some of the faults never occurred: {seen}"


def test_a_seed_chooses_the_same_interleaving_again(observer: Observer) -> None:
    first = GatedWorld(4, observer)
    first.run()
    second = GatedWorld(4, observer)
    second.run()
    assert first.trace == second.trace
    assert first.db.events == second.db.events


def test_a_wait_for_a_lock_is_seen_and_ends_with_the_connection_that_holds_it(observer: Observer) -> None:
    with (
        closing(psycopg.connect(observer.url, autocommit=True)) as holder,
        closing(psycopg.connect(observer.url, autocommit=True)) as waiter,
        ThreadPoolExecutor(1) as pool,
    ):
        holder.execute("insert into holdfast.lanes (queue, handler) values ('q', 'h')")
        holder.execute("begin")
        holder.execute(LOCK)
        waiting = pool.submit(waiter.execute, LOCK)
        pids = [holder.info.backend_pid, waiter.info.backend_pid]
        while not (waits := observer.waits(pids)):
            pass
        assert waits == {pids[1]: [pids[0]]}
        observer.end([pids[0]])
        assert waiting.result(20).rowcount == 1
        assert observer.waits(pids) == {}


def test_a_chain_of_waits_is_no_deadlock_and_a_circle_is_one() -> None:
    check_for_circles({1: [2], 2: [3]})
    with pytest.raises(AssertionError, match="deadlock"):
        check_for_circles({1: [2], 2: [3], 3: [1]})
