"""Some seeds on the real store in pytest, checks that a seed replays exactly, and that its faults really happen."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from tests.interleaving.observer import Observer, prepare
from tests.interleaving.world import GatedWorld, check_for_circles, run_seed

SEEDS = (1, 4, 6)
LOCK = "update holdfast.lanes set queue = queue"


@pytest.fixture
def observer(empty_database_url: str) -> Iterator[Observer]:
    prepare(empty_database_url)
    observer = Observer(empty_database_url)
    yield observer
    observer.close()


def test_every_invariant_holds_on_the_real_store(observer: Observer) -> None:
    counts = {"cut": 0, "lost": 0, "handed": 0, "rejected": 0, "taken over": 0, "stepped back": 0}
    for seed in SEEDS:
        try:
            history = run_seed(seed, observer).db.history
        except Exception as problem:
            raise AssertionError(f"replay with: python -m tests.interleaving --first {seed} --seeds 1") from problem
        counts["cut"] += history.commits_failed
        counts["lost"] += history.commits_unknown
        counts["handed"] += history.handed
        counts["rejected"] += history.rejected
        counts["taken over"] += history.taken_over
        counts["stepped back"] += history.stepped_back
    assert all(counts.values()), f"some faults never happened: {counts}"


def test_a_seed_draws_the_same_interleaving_again(observer: Observer) -> None:
    first = GatedWorld(6, observer)
    first.run()
    second = GatedWorld(6, observer)
    second.run()
    assert first.trace == second.trace
    assert first.db.events == second.db.events


def test_the_observer_sees_a_lock_wait_and_ends_it_by_ending_the_holder(observer: Observer) -> None:
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


def test_a_circle_of_waits_is_a_deadlock_and_a_chain_is_not() -> None:
    check_for_circles({1: [2], 2: [3]})
    with pytest.raises(AssertionError, match="deadlock"):
        check_for_circles({1: [2], 2: [3], 3: [1]})
