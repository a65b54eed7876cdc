"""`python -m tests.simulation --seeds 2000 [--first N]`: run seeds, print what failed and how to replay it."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import subprocess
import sys
import time
import traceback

from tests.simulation.world import run_seed


def attempt(seed: int) -> tuple[int, str | None, tuple[int, int, int]]:
    try:
        history = run_seed(seed).db.history
    except Exception:
        return seed, traceback.format_exc(limit=-6), (0, 0, 0)
    return seed, None, (history.rejected, history.taken_over, history.commits_unknown)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--failures", type=int, default=10, help="stop after this number of failed seeds")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seeds = range(options.first, options.first + options.seeds)
    started = time.monotonic()
    failures = 0
    totals = [0, 0, 0]
    with multiprocessing.Pool(options.processes) as pool:
        for seed, problem, facts in pool.imap_unordered(attempt, seeds, chunksize=10):
            totals = [a + b for a, b in zip(totals, facts, strict=True)]
            if problem is not None:
                failures += 1
                print(f"seed={seed} commit={commit_id()}\n{problem}", flush=True)
                if failures >= options.failures:
                    break
    seconds = time.monotonic() - started
    rejected, taken_over, unknown = totals
    print(
        f"{len(seeds)} seeds in {seconds:.1f} s: {failures} failed; {rejected} stale reports rejected,"
        f" {taken_over} jobs taken over, {unknown} commits of unknown outcome"
    )
    return 1 if failures else 0


def commit_id() -> str:
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return git.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
