"""The simulation in pytest: some seeds, checks that a seed replays exactly, and that its faults really happen."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.correction_checkers import is_corrected
from tests.simulation.database import code_of
from tests.simulation.undo_counts import AFTER, DURING, count_undos
from tests.simulation.world import World, run_seed

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "200"))
CHUNK = 10
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_invariant_holds_under_every_seed(first: int) -> None:
    for seed in range(first, min(first + CHUNK, SEEDS)):
        try:
            run_seed(seed)
        except Exception as problem:
            raise AssertionError(f"replay with: python -m tests.simulation --first {seed} --seeds 1") from problem


def contents(world: World) -> str:
    """The trace, the final tables and the history of a world, as one text."""
    db = world.db
    tables = (db.jobs, db.nodes, db.tasks, db.queue, db.inbox, db.events, db.answers, db.orchestrators, db.workers)
    return "\n".join([*world.trace, *(repr(sorted(table.items(), key=repr)) for table in tables), repr(db.history)])


def fingerprint(seed: int) -> str:
    world = World(seed)
    world.run()
    return hashlib.sha256(contents(world).encode()).hexdigest()


@pytest.mark.parametrize("seed", [3, 17, 42])
def test_a_seed_replays_byte_for_byte(seed: int) -> None:
    first, second = World(seed), World(seed)
    first.run()
    second.run()
    assert first.trace == second.trace
    assert contents(first) == contents(second)


@pytest.mark.parametrize("seed", [42, 207])
def test_a_seed_replays_byte_for_byte_in_another_process_with_another_hash_seed(seed: int) -> None:
    script = f"from tests.simulation.test_simulation import fingerprint; print(fingerprint({seed}))"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": number, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        ).stdout.strip()
        for number in ("0", "1")
    ]  # fmt: skip
    assert outputs == [fingerprint(seed)] * 2


def test_different_seeds_are_different_worlds() -> None:
    assert len({fingerprint(seed) for seed in range(10)}) == 10


def test_every_fault_and_outcome_is_common() -> None:
    """A fault that never happens tests nothing: each of these must be common."""
    counts: Counter[str] = Counter()
    for seed in range(150):
        world = World(seed)
        world.run()
        history = world.db.history
        counts["reports rejected"] += history.rejected
        counts["jobs taken over"] += history.taken_over
        counts["commits of unknown outcome"] += history.commits_unknown
        counts["commits failed"] += history.commits_failed
        counts["jobs set aside"] += history.set_aside
        counts["steps of the clock"] += history.stepped_back
        counts["reports handed over"] += history.handed
        counts["databases gone back"] += history.gone_back
        counts["deaths alone"] += sum(map(len, history.deaths.values()))
        codes = Counter(code_of(task) for tasks in world.db.tasks.values() for task in tasks.values())
        counts["quarantined"] += codes["QUARANTINED"]
        counts["vanished too often"] += codes["REQUEUE_LIMIT"]
        counts.update(count_undos(world.db))
        counts["jobs corrected"] += sum(is_corrected(world.db, job_id) for job_id in world.db.jobs)
        counts.update(how for how in history.ended.values())
        counts.update(str(job["status"]) for job in world.db.jobs.values())
        counts.update(f"stopped: {job['stop_cause']}" for job in world.db.jobs.values())
        counts.update(event[1] for events in world.db.events.values() for event in events)
    often = [
        "reports rejected", "jobs taken over", "commits of unknown outcome", "commits failed", "expired", "withdrawn",
        "jobs set aside", "steps of the clock", "reports handed over", "deaths alone", "quarantined",
        "databases gone back", "vanished too often",
        "completed", "partial", "failed", "cancelled", "stopped: failed", "stopped: cancelled", "stopped: timeout",
        "owner_changed", "worker_lost", "node_retry_scheduled", "task_retry_scheduled", "node_skipped", "task_failed",
        "task_cancelled", "report_rejected", "vanished", "janitor_acted", "job_held", "job_released",
        "undos", "tasks undone", *DURING.values(), *AFTER.values(), "undos of failed jobs by themselves",
        "undos cancelled", "jobs corrected",
    ]  # fmt: skip
    assert {name: counts[name] for name in often if counts[name] < 5} == {}
