"""`python -m tests.interleaving --seeds 300 [--first N]`: run seeds, print what failed and how to replay it."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import psycopg
from psycopg import sql

from holdfast.embedded.server import use_embedded
from tests.conftest import hurry, with_database
from tests.interleaving.observer import Observer, prepare
from tests.interleaving.world import run_seed
from tests.simulation.__main__ import commit_id
from tests.simulation.undo_counts import count_undos

_observer: Observer


def start(server_url: str) -> None:
    """Give this process a database of its own."""
    global _observer
    logging.disable(logging.CRITICAL)
    name = f"interleaving_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
    url = with_database(server_url, name)
    prepare(url)
    _observer = Observer(url)


def attempt(seed: int) -> tuple[int, str | None, Counter[str]]:
    try:
        world = run_seed(seed, _observer)
    except Exception:
        return seed, traceback.format_exc(limit=-6), Counter()
    history = world.db.history
    facts = {
        "steps": len(world.trace),
        "stale reports rejected": history.rejected,
        "jobs taken over": history.taken_over,
        "answers lost": history.commits_unknown,
        "connections cut": history.commits_failed,
        "reports handed over": history.handed,
        "waits for a lock": world.blocked,
        "undos": count_undos(world.db)["undos"],
    }
    return seed, None, Counter(facts)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interleaving")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--failures", type=int, default=10, help="stop after this number of failed seeds")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    started = time.monotonic()
    failures = 0
    totals: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-interleaving-", ignore_cleanup_errors=True) as home,
        use_embedded(Path(home)) as url,
    ):
        hurry(url)
        with multiprocessing.Pool(options.processes, start, (url,)) as pool:
            for seed, problem, facts in pool.imap_unordered(attempt, seeds):
                totals += facts
                if problem is not None:
                    failures += 1
                    print(f"seed={seed} commit={commit_id()}\n{problem}", flush=True)
                    if failures >= options.failures:
                        break
    summary = ", ".join(f"{number} {name}" for name, number in totals.items())
    print(f"{len(seeds)} seeds in {time.monotonic() - started:.1f} s: {failures} failed; {summary}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
