"""Injects every fault at every point into real processes: `python -m tests.chaos [--only NAME] [--runs N]`.

The recovery time begins with the fault, or with its end if nothing can work while it lasts. It ends when the first
affected task completes: one that was leased when a worker was struck, otherwise any task.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.chaos.case import Outcome, run_case
from tests.chaos.faults import FAULTS, Fault, calm, can_mount, small_disk
from tests.chaos.fleet import LEASE_SECONDS, Server
from tests.chaos.replicated import ReplicatedServer

_ROW = "{:<58} {:>4} {:>8} {:>8} {:>5} {:>8} {:>6} {:>9}"


def main() -> int:
    arguments = _arguments()
    chosen = [fault for fault in FAULTS if arguments.only is None or arguments.only in fault.name]
    if not chosen:
        print(
            f"No fault has '{arguments.only}' in its name. The faults are:",
            *sorted({f.name for f in FAULTS}),
            sep="\n  ",
        )
        return 2
    print(f"{len(chosen)} faults, each {arguments.runs} times, with leases of {LEASE_SECONDS:g} s")
    print(_ROW.format("fault", "runs", "p50 s", "max s", "lost", "doubled", "stuck", "rejected"))
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-chaos-", ignore_cleanup_errors=True) as scratch,
        ExitStack() as servers,
    ):
        return _run(chosen, arguments.runs, Path(scratch), servers)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--only", metavar="NAME", help="only faults with this in their name")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="how often to inject each fault (default 1)")
    return parser.parse_args()


def _run(chosen: Sequence[Fault], runs: int, scratch: Path, servers: ExitStack) -> int:
    server = servers.enter_context(Server(scratch / "home"))
    started = time.monotonic()
    outcome = asyncio.run(run_case("nothing", calm, server, scratch / "calm"))
    bad = _show("no fault", [outcome])
    small: Server | None = None
    by_kind: defaultdict[str, list[Outcome]] = defaultdict(list)
    for fault in chosen:
        if fault.needs_small_disk and not can_mount():
            print(f"{fault.name:<58} skipped: only root may mount the small disk that it fills")
            continue
        if fault.needs_small_disk and small is None:
            small = servers.enter_context(small_disk(scratch / "disk"))
        outcomes = []
        for number in range(runs):
            place = scratch / f"{chosen.index(fault)}-{number}"
            with ExitStack() as own:
                used = small if fault.needs_small_disk and small is not None else server
                if fault.needs_replicas:
                    used = own.enter_context(ReplicatedServer(scratch / f"{place.name}-replicated"))
                outcomes.append(asyncio.run(run_case(fault.name, fault.strike, used, place, number)))
        bad += _show(fault.name, outcomes)
        by_kind[fault.kind] += outcomes
    print("\nSummary by kind")
    for kind, of_kind in by_kind.items():
        _print_row(kind, of_kind)
    print(f"{'No errors' if not bad else f'{bad} errors'} in {time.monotonic() - started:.0f} s.")
    return 1 if bad else 0


def _show(name: str, outcomes: Sequence[Outcome]) -> int:
    wrong = _print_row(name, outcomes)
    for outcome in outcomes:
        for reason in outcome.verdict.wrongs[:10]:
            print(f"    {reason}")
        if outcome.verdict.wrongs:
            print(outcome.complaints, file=sys.stderr)
    return wrong


def _print_row(name: str, outcomes: Sequence[Outcome]) -> int:
    seconds = [o.recovery_seconds for o in outcomes if o.recovery_seconds is not None]
    verdicts = [o.verdict for o in outcomes]
    counts = [sum(len(lines) for lines in _each(verdicts, what)) for what in ("lost", "doubled", "stuck")]
    p50, longest = (f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}") if seconds else ("-", "-")
    rejected = sum(verdict.rejected for verdict in verdicts)
    print(_ROW.format(name, len(outcomes), p50, longest, *counts, rejected), flush=True)
    return sum(counts)


def _each(verdicts: Iterable[object], what: str) -> list[list[str]]:
    return [getattr(verdict, what) for verdict in verdicts]


if __name__ == "__main__":
    sys.exit(main())
