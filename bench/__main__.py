"""`make bench`: W1 to W5, fairness and dead rows on a new embedded Postgres, compared with the machine's limit."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import statistics
import tempfile
from contextlib import closing
from pathlib import Path

from bench import limits, notifying, over_http
from bench.ageing import age, claim_milliseconds, open_snapshot, sizes
from bench.backlog import rate_behind
from bench.correcting import correct_one_of
from bench.fairness import alone_and_beside
from bench.fleet import SERVICE, WORKERS, Fleet, run_child
from bench.held import hold_back
from bench.killing import Killed, kill_each
from bench.listening import keep_commit_times, listen
from bench.recovering import cancel_and_resume
from bench.results import gather
from bench.traces import compare as compare_traces
from bench.workloads import Measured, chain, fan, idle_latencies, jobs_of, measure, one_task, pick, run_jobs
from holdfast.cli.session import begin_traces
from holdfast.embedded.server import use_embedded
from holdfast.settings import load_settings
from holdfast.store.migrate import apply_missing
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import NewJob

GOALS = {"W1": 0.15, "W2b": 0.10, "W3 10,000": 0.25}
SNAPSHOT_JOBS = 20_000
FEW_WAITING, MANY_WAITING = 10_000, 100_000
HELD_JOBS, HELD_TASKS = 5_000, 100_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--serve", choices=["orchestrator", SERVICE, *WORKERS])
    parser.add_argument("--url")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--widest", type=int, default=100_000, help="the widest fan-out (default: 100,000)")
    parser.add_argument("--results", action="store_true", help="only read the results of a wide fan-out")
    parser.add_argument("--correction", action="store_true", help="only correct one item of a wide fan-out")
    parser.add_argument(
        "--backlog", action="store_true", help="only run 10,000 and 100,000 jobs that waited before the start"
    )
    parser.add_argument(
        "--receivers", action="store_true", help="only run a wide fan-out whose items fail, with and without receivers"
    )
    parser.add_argument(
        "--over-http", action="store_true", help="only run tasks by a worker over HTTP, and by one at the database"
    )
    parser.add_argument("--aged", type=int, default=0, help="run this number of tasks, then measure W1 to W4 again")
    parser.add_argument(
        "--flooding",
        type=int,
        nargs="?",
        const=200,
        metavar="N",
        help="only stack N groups of flood maps (default: 200)",
    )
    parser.add_argument(
        "--large",
        type=int,
        nargs="?",
        const=4,
        metavar="GB",
        help="only make a COG of a raster with this decoded size in GB (default: 4)",
    )
    parser.add_argument(
        "--service",
        type=int,
        nargs="?",
        const=1_000_000,
        metavar="N",
        help="only submit over HTTP, and read from a database with N finished tasks (default: 1,000,000)",
    )
    parser.add_argument(
        "--listeners",
        type=int,
        nargs="?",
        const=2_000,
        metavar="N",
        help="only send events to N listeners, at higher and higher rates (default: 2,000)",
    )
    parser.add_argument(
        "--traces",
        type=int,
        nargs="?",
        const=10_000,
        metavar="N",
        help="only run a fan-out of N items without a trace, within one, and with its spans sent (default: 10,000)",
    )
    arguments = parser.parse_args()
    if arguments.serve:
        begin_traces(load_settings())
        run_child(arguments.serve, arguments.url)
        return
    folder = tempfile.TemporaryDirectory(prefix="holdfast-bench-", ignore_cleanup_errors=True)
    with folder as name:
        if arguments.listeners:
            with use_embedded(Path(name)) as url:
                keep_commit_times(url)
        with use_embedded(Path(name)) as url:
            run(arguments, url, Path(name))


def run(arguments: argparse.Namespace, url: str, home: Path) -> None:
    if arguments.flooding:
        asyncio.run(flooding(url, home, arguments.flooding, arguments.runs))
    elif arguments.large:
        asyncio.run(large(url, home, arguments.large))
    elif arguments.receivers:
        asyncio.run(receivers(url, arguments.runs, arguments.widest))
    elif arguments.over_http:
        asyncio.run(workers_over_http(url, arguments.runs, min(arguments.widest, 10_000)))
    elif arguments.backlog:
        asyncio.run(backlog(url, arguments.runs))
    elif arguments.service:
        asyncio.run(service(url, arguments.runs, arguments.service, arguments.widest))
    elif arguments.listeners:
        asyncio.run(listening(url, arguments.listeners))
    elif arguments.traces:
        asyncio.run(traced(url, arguments.runs, arguments.traces))
    elif arguments.results:
        asyncio.run(results_alone(url, arguments.widest))
    elif arguments.correction:
        asyncio.run(correction_alone(url, arguments.widest))
    else:
        asyncio.run(bench(url, arguments.runs, arguments.widest, arguments.aged))


async def service(url: str, runs: int, tasks: int, widest: int) -> None:
    from bench.service import compare_submits, read_all

    await apply_missing(url)
    store = PostgresStore(url, "bench")
    singles, batches, idle_mb, loaded_mb = await compare_submits(url, store, runs)
    for name, goal, compared in (("single", 0.3, singles), ("batch", 0.8, batches)):
        shares = compared.ratios
        print(
            f"{'service':<12} {name} submits: {statistics.median(compared.over_http):,.0f} jobs/s over HTTP,"
            f" {statistics.median(compared.by_client):,.0f} by the client; the share is"
            f" {statistics.median(shares):.2f} ({shares[0]:.2f} to {shares[-1]:.2f}; goal: at least {goal});"
            f" the sender of the requests used {compared.generator_share:.0%} of a core",
            flush=True,
        )
    print(f"{'service':<12} memory of the process: {idle_mb:.0f} MB idle, {loaded_mb:.0f} MB afterwards", flush=True)
    async for read in read_all(url, store, tasks, min(widest, 100_000)):
        print(
            f"{'service':<12} {read.name}: p50 {read.p50:.1f} ms, p99 {read.p99:.1f} ms (goal: p99 under 100)",
            flush=True,
        )
    await store.close()


async def results_alone(url: str, widest: int) -> None:
    await apply_missing(url)
    store = PostgresStore(url, "bench")
    await results(store, widest)
    await store.close()


async def correction_alone(url: str, widest: int) -> None:
    await apply_missing(url)
    store = PostgresStore(url, "bench")
    await correction(url, store, widest)
    await store.close()


async def receivers(url: str, runs: int, width: int) -> None:
    await apply_missing(url)
    store = PostgresStore(url, "bench")
    found = await notifying.compare(url, store, width, runs)
    await store.close()
    shares = sorted(one / other for one, other in zip(found.without, found.beside, strict=True))
    print(
        f"{'receivers':<12} {width:,} failing items: {width / statistics.median(found.without):,.0f} items/s without"
        f" receivers, {width / statistics.median(found.beside):,.0f} with; the share is {statistics.median(shares):.2f}"
        f" ({shares[0]:.2f} to {shares[-1]:.2f}); {found.rows:,} rows in the outbox for each job"
    )


async def workers_over_http(url: str, runs: int, width: int) -> None:
    await apply_missing(url)
    store = PostgresStore(url, "bench")
    for compared in await over_http.compare(url, store, width, runs):
        shares = compared.ratios
        print(
            f"{'over HTTP':<12} {compared.name}, 16 slots: {statistics.median(compared.over_http):,.0f} tasks/s over"
            f" HTTP, {statistics.median(compared.at_database):,.0f} at the database; the share is"
            f" {statistics.median(shares):.2f} ({shares[0]:.2f} to {shares[-1]:.2f}; goal: at least 0.5)"
        )
    await store.close()


async def backlog(url: str, runs: int) -> None:
    """Measure few and many jobs in turns, because the machine's speed varies."""
    await apply_missing(url)
    store = PostgresStore(url, "bench")
    await rate_behind(store, 1_000)
    few, many = [], []
    for _ in range(runs):
        few.append(await rate_behind(store, FEW_WAITING))
        many.append(await rate_behind(store, MANY_WAITING))
    await store.close()
    shares = sorted(one / other for one, other in zip(many, few, strict=True))
    print(
        f"{'backlog':<12} {FEW_WAITING:,} jobs that waited: {statistics.median(few):,.0f} jobs/s,"
        f" {MANY_WAITING:,}: {statistics.median(many):,.0f}; the share is {statistics.median(shares):.2f}"
        f" ({shares[0]:.2f} to {shares[-1]:.2f}; goal: at least 0.8)"
    )


async def listening(url: str, number: int) -> None:
    await apply_missing(url)
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        port = found.getsockname()[1]
    os.environ |= {"HOLDFAST_PORT": str(port), "HOLDFAST_API_CONNECTIONS": str(2 * number + 200)}
    with Fleet(url, ("orchestrator", "resting", SERVICE)) as fleet:
        await listen(url, fleet, port, number)


async def traced(url: str, runs: int, width: int) -> None:
    await apply_missing(url)
    store = PostgresStore(url, "bench")
    found = await compare_traces(url, store, width, runs)
    await store.close()
    base = found.without
    for name, rounds in (
        ("no trace", base),
        ("a trace that is kept", found.kept),
        ("a trace that is sent", found.sent),
    ):
        cpu = statistics.median(one.cpu_seconds for one in rounds) / width * 1000
        shares = sorted(first.cpu_seconds / one.cpu_seconds for first, one in zip(base, rounds, strict=True))
        print(
            f"{'traces':<12} {width:,} items, {name}: {width / statistics.median(one.seconds for one in rounds):,.0f}"
            f" items/s, {cpu:.3f} ms of processor time for each; without a trace it is {statistics.median(shares):.2f}"
            f" of that ({shares[0]:.2f} to {shares[-1]:.2f})",
            flush=True,
        )
    print(f"{'traces':<12} a process that sends nothing finds that out in {found.asked_nanoseconds:.0f} ns")


async def flooding(url: str, home: Path, groups: int, runs: int) -> None:
    # Imported here: only this benchmark needs the raster libraries.
    from bench.flooding import compare

    await apply_missing(url)
    store = PostgresStore(url, "bench")
    compared = await compare(store, home, groups, runs)
    await store.close()
    print(
        f"{'flooding':<12} {groups:,} stacks of {compared.source_bytes / 1e6:.0f} MB by two processes, after start-up:"
        f" plain {compared.plain_rate:.1f} items/s, through the engine {compared.engine_rate:.1f}; the engine's share"
        f" of the time is {statistics.median(compared.engine_shares):.1%} ({compared.engine_shares[0]:.1%} to"
        f" {compared.engine_shares[-1]:.1%}; goal: at most 10 %); the same files"
    )


async def large(url: str, home: Path, gigabytes: int) -> None:
    from bench.large import process

    await apply_missing(url)
    store = PostgresStore(url, "bench")
    processed = await process(store, home, gigabytes)
    await store.close()
    rate = processed.decoded_bytes / 2**20 / processed.seconds
    print(
        f"{'large':<12} a raster with a decoded size of {processed.decoded_bytes / 2**30:.1f} GB, validated and made"
        f" a COG of {processed.cog_bytes / 1e6:,.0f} MB in {processed.seconds:.0f} s, {rate:.0f} MB/s;"
        f" peak memory {processed.peak_mb:.0f} MB, limit {processed.limit_mb:,} MB"
    )


async def bench(url: str, runs: int, widest: int, aged: int) -> None:
    await apply_missing(url)
    print(f"one small commit: {limits.commit_milliseconds(url):.2f} ms")
    print("limit: tasks/s that one connection claims and completes, 100 at a time, measured before each round\n")
    store = PostgresStore(url, "bench")
    print(f"{'workload':<12} {'median':>10} {'rate':>16} {'of the limit':>13}  peak memory, and the limit")
    with Fleet(url) as fleet:
        fresh = await standard(store, fleet, runs, widest)
        await fair(store, widest)
    with Fleet(url, ("orchestrator", "orchestrator", "worker")) as fleet:
        await run_jobs(store, jobs_of(one_task(), [{"i": i} for i in range(500)]))
        w1 = [jobs_of(one_task(), [{"i": i} for i in range(10_000)]) for _ in range(runs)]
        show(await measure("W1 by two", "jobs/s", 10_000, store, fleet, w1))
    with Fleet(url, ("both",)) as fleet:
        await run_jobs(store, jobs_of(one_task(), [{"i": i} for i in range(200)]))
        w2a = [jobs_of(chain(50), [{}]) for _ in range(runs + 2)]
        show(await measure("W2a in one", "steps/s", 50, store, fleet, w2a))
    for killed in await kill_each(url, store, min(10_000, widest)):
        show_killed(killed)
    await results(store, widest)
    await snapshot(url, store)
    await recovery(store, min(10_000, widest))
    await correction(url, store, min(100_000, widest))
    if aged:
        await old(url, store, runs, widest, aged, fresh)
    # Must be the last: its tasks stay held.
    await held_back(url, store)
    await store.close()


async def standard(store: PostgresStore, fleet: Fleet, runs: int, widest: int) -> dict[str, float]:
    """Measure W1 to W4; returns the seconds of each."""
    await run_jobs(store, jobs_of(one_task(), [{"i": i} for i in range(500)]))
    took = {}

    async def workload(name: str, unit: str, units: int, rounds: list[list[NewJob]]) -> Measured:
        measured = await measure(name, unit, units, store, fleet, rounds)
        show(measured)
        took[name] = statistics.median(measured.seconds)
        return measured

    many = [jobs_of(one_task(), [{"i": i} for i in range(10_000)]) for _ in range(runs)]
    await workload("W1", "jobs/s", 10_000, many)
    await workload("W2b", "steps/s", 2_000, [jobs_of(chain(10), [{}] * 200) for _ in range(runs)])
    wide = {}
    for width in (1_000, 10_000, 100_000):
        if width <= widest:
            times = runs if width < 100_000 else 1
            rounds = [jobs_of(fan(), [{"items": list(range(width))}]) for _ in range(times)]
            wide[width] = await workload(f"W3 {width:,}", "items/s", width, rounds)
    if 100_000 in wide:
        factor = min(wide[100_000].seconds) / min(wide[10_000].seconds)
        print(f"{'':<12} 100,000 items take {factor:.1f} times as long as 10,000 (goal: at most 12)")
    await workload("W2a", "steps/s", 50, [jobs_of(chain(50), [{}]) for _ in range(runs + 2)])
    latencies = await idle_latencies(store, 200)
    p50, p99 = pick(latencies, 0.5), pick(latencies, 0.99)
    print(f"{'W4':<12} submit to handler start, idle: p50 {p50:.1f} ms, p99 {p99:.1f} ms (goal: p50 under 10)")
    took["W4"] = p50 / 1000
    return took


async def recovery(store: PostgresStore, tasks: int) -> None:
    archived, sent_back = await cancel_and_resume(store, tasks)
    print(
        f"{'recovery':<12} {tasks:,} tasks archived in {archived:.2f} s (goal: well under 1),"
        f" sent back in {sent_back:.2f} s"
    )


async def correction(url: str, store: PostgresStore, width: int) -> None:
    """One corrected item of a wide fan-out."""
    done = await correct_one_of(url, store, width)
    print(
        f"{'correction':<12} 1 of {width:,} items corrected: planned in {done.plan_seconds:.1f} s (goal: under 5),"
        f" matched in {done.matched_seconds:.1f} s, longest cycle {done.longest_cycle_seconds:.2f} s (goal: under 0.5),"
        f" {done.tasks} to run",
        flush=True,
    )


async def fair(store: PostgresStore, widest: int) -> None:
    """Compare small jobs alone with small jobs beside a wide one."""
    width = min(100_000, widest)
    alone, beside = await alone_and_beside(store, width)
    print(
        f"{'fairness':<12} small job, submit to finished: alone p50 {alone.p50:.1f} ms, p99 {alone.p99:.1f} ms;"
        f" beside {width:,} items p50 {beside.p50:.1f} ms, p99 {beside.p99:.1f} ms ({len(beside.ordered)} jobs);"
        f" p99 {beside.p99 / alone.p99:.1f} times (goal: at most 3)",
        flush=True,
    )


def show_killed(killed: Killed) -> None:
    print(
        f"{'W5':<12} {killed.role} killed, {killed.affected:,} items affected: the first done by another process after"
        f" {killed.first_seconds:.1f} s, all done {killed.extra_seconds:.1f} s later than without a kill,"
        f" {killed.twice} executed twice, {killed.lost} lost (goal: 0)",
        flush=True,
    )


async def results(store: PostgresStore, widest: int) -> None:
    """One task reads all results of a fan-out: of a small one, and of the widest."""
    for width, size_bytes in ((1_924, 567), (min(100_000, widest), 2_000)):
        read = await gather(store, width, size_bytes)
        print(
            f"{'results':<12} {read.count:,} results of {read.bytes / 1e6:.2f} MB read in {read.reading_seconds:.1f} s;"
            f" the worker's peak was {read.peak_mb:.0f} MB (goal: under 200), the whole job took {read.seconds:.0f} s",
            flush=True,
        )


async def snapshot(url: str, store: PostgresStore) -> None:
    """Claims while dead rows pile up because an open snapshot keeps vacuum from removing them."""
    with Fleet(url, ("orchestrator",)):
        without = await claim_milliseconds(store, SNAPSHOT_JOBS)
        async with open_snapshot(url):
            beside = await claim_milliseconds(store, SNAPSHOT_JOBS)
    print(
        f"{'snapshot':<12} a claim of 100: {without:.1f} ms; after {SNAPSHOT_JOBS:,} jobs with an open snapshot"
        f" {beside:.1f} ms, {beside / without:.1f} times (goal: at most 3)",
        flush=True,
    )


async def held_back(url: str, store: PostgresStore) -> None:
    """Claims beside many held tasks, which are ready but behind an open breaker or a full limit."""
    with Fleet(url, ("orchestrator",)):
        without = await claim_milliseconds(store, HELD_JOBS)
        await hold_back(store, HELD_TASKS)
        beside = await claim_milliseconds(store, HELD_JOBS)
    print(
        f"{'held back':<12} a claim of 100: {without:.1f} ms; beside {HELD_TASKS:,} tasks that a breaker or a limit"
        f" holds back {beside:.1f} ms, {beside / without:.1f} times",
        flush=True,
    )


async def old(url: str, store: PostgresStore, runs: int, widest: int, aged: int, fresh: dict[str, float]) -> None:
    """Measure W1 to W4 again, after `aged` more tasks."""
    before = await sizes(store)
    with Fleet(url) as fleet:
        seconds = await age(store, aged, min(100_000, widest))
        after = await sizes(store)
        print(f"\nafter {aged:,} more tasks ({seconds:.0f} s): ", end="")
        print(", ".join(f"{name} {before[name] / 2**20:.1f} to {after[name] / 2**20:.1f} MB" for name in before))
        again = await standard(store, fleet, runs, widest)
    for name, took in again.items():
        print(f"{name:<12} aged: {took / fresh[name]:.2f} times as long as fresh (goal: at most 1.5)")


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


if __name__ == "__main__":
    main()
