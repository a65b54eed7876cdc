"""`make bench`: W1 to W4 on a fresh embedded Postgres, beside the raw limits of the same run."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from bench import limits
from bench.fleet import Fleet, run_child
from bench.workloads import Measured, chain, fan, idle_latencies, jobs_of, measure, one_task, run_jobs
from holdfast.store.embedded import use_embedded
from holdfast.store.migrate import migrate
from holdfast.store.postgres import PostgresStore

GOALS = {"W1": 0.15, "W2b": 0.10, "W3 10,000": 0.25}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--serve", choices=["orchestrator", "worker", "both"])
    parser.add_argument("--url")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--widest", type=int, default=100_000, help="the widest fan-out of W3")
    given = parser.parse_args()
    if given.serve:
        run_child(given.serve, given.url)
        return
    folder = tempfile.TemporaryDirectory(prefix="holdfast-bench-", ignore_cleanup_errors=True)
    with folder as name, use_embedded(Path(name)) as url:
        asyncio.run(bench(url, given.runs, given.widest))


async def bench(url: str, runs: int, widest: int) -> None:
    await migrate(url)
    print(f"one small commit: {limits.commit_milliseconds(url):.2f} ms")
    print("limit: tasks/s that one connection claims and completes in batches of 100, measured before each run\n")
    store = PostgresStore(url, "bench")
    print(f"{'workload':<12} {'median':>10} {'rate':>16} {'of the limit':>13}  peak memory, and the limit")
    with Fleet(url) as fleet:
        await run_jobs(store, jobs_of(one_task(), [{"i": i} for i in range(500)]))
        w1 = [jobs_of(one_task(), [{"i": i} for i in range(10_000)]) for _ in range(runs)]
        show(await measure("W1", "jobs/s", 10_000, store, fleet, w1))
        w2b = [jobs_of(chain(10), [{}] * 200) for _ in range(runs)]
        show(await measure("W2b", "steps/s", 2_000, store, fleet, w2b))
        wide = {}
        for width in (1_000, 10_000, 100_000):
            if width <= widest:
                batches = [
                    jobs_of(fan(), [{"items": list(range(width))}]) for _ in range(runs if width < 100_000 else 1)
                ]
                wide[width] = await measure(f"W3 {width:,}", "items/s", width, store, fleet, batches)
                show(wide[width])
        if 100_000 in wide:
            factor = min(wide[100_000].seconds) / min(wide[10_000].seconds)
            print(f"{'':<12} 100,000 items take {factor:.1f} times as long as 10,000 (goal: at most 12)")
        w2a = [jobs_of(chain(50), [{}]) for _ in range(runs + 2)]
        show(await measure("W2a", "steps/s", 50, store, fleet, w2a))
        latencies = await idle_latencies(store, 200)
        p50, p99 = pick(latencies, 0.5), pick(latencies, 0.99)
        print(f"{'W4':<12} submit to handler start, idle: p50 {p50:.1f} ms, p99 {p99:.1f} ms (goal: p50 under 10)")
    with Fleet(url, ("orchestrator", "orchestrator", "worker")) as fleet:
        await run_jobs(store, jobs_of(one_task(), [{"i": i} for i in range(500)]))
        w1 = [jobs_of(one_task(), [{"i": i} for i in range(10_000)]) for _ in range(runs)]
        show(await measure("W1 by two", "jobs/s", 10_000, store, fleet, w1))
    with Fleet(url, ("both",)) as fleet:
        await run_jobs(store, jobs_of(one_task(), [{"i": i} for i in range(200)]))
        w2a = [jobs_of(chain(50), [{}]) for _ in range(runs + 2)]
        show(await measure("W2a in one", "steps/s", 50, store, fleet, w2a))
    await store.close()


def show(measured: Measured) -> None:
    seconds = sorted(measured.seconds)[len(measured.seconds) // 2]
    goal = GOALS.get(measured.name)
    note = f" (goal {goal:g})" if goal else ""
    each = f" = {seconds / measured.units * 1000:.2f} ms each" if measured.name.startswith("W2a") else ""
    peaks = ", ".join(f"{role} {memory:.0f} MB" for role, memory in sorted(measured.peaks.items()))
    limit = f"{min(measured.limits):,.0f} to {max(measured.limits):,.0f}"
    share = f"{measured.of_the_limit:>5.2f}{note}{each}"
    rate = f"{measured.rate:>8,.0f} {measured.unit:<8}"
    print(f"{measured.name:<12} {seconds:>9.3f}s {rate} {share}  {peaks}; {limit}", flush=True)


def pick(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


if __name__ == "__main__":
    main()
