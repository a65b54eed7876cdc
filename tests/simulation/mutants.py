"""`python -m tests.simulation.mutants [--only NAME]` breaks the code on purpose and checks that a test notices.

Each entry of `mutants.toml` is one breakage, made in a copy of the code. The quickest tests that may notice it run
first. A mutant that survives is a hole in the tests.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_suffix(".toml")
ROOT = TABLE.parents[2]
SECONDS = 600
AT_ONCE = 2

PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:randomly")
CORE = (
    *PYTEST,
    "tests/core",
    "tests/simulation/test_found.py",
    "tests/simulation/test_owner.py",
    "tests/orchestrator/test_owner.py",
)
STORE = (
    *PYTEST,
    "tests/store/test_fencing.py",
    "tests/store/test_submitting.py",
    "tests/store/test_owning.py",
    "tests/store/test_takeovers.py",
    "tests/store/test_history.py",
    "tests/store/test_dangers.py",
    "tests/store/test_writing.py",
    "tests/store/test_reading.py",
    "tests/store/test_withdrawing.py",
    "tests/store/test_claiming.py",
    "tests/store/test_reporting.py",
    "tests/store/test_leases.py",
    "tests/store/test_checkpoints.py",
    "tests/store/test_handovers.py",
    "tests/store/test_gates.py",
    "tests/store/test_recovery.py",
    "tests/test_corrections.py",
    "tests/store/test_batches.py",
    "tests/store/test_by_hand.py",
    "tests/store/test_undoing.py",
    "tests/store/test_clock.py",
    "tests/service/test_audit.py",
    "tests/service/test_stats.py",
    "tests/metrics/test_page.py",
    "-k",
    "not model",
)
SCHEDULES = (
    *PYTEST,
    "tests/define/test_timing.py",
    "tests/schedules/test_deciding.py",
    "tests/schedules/test_ticks.py",
    "tests/schedules/test_files.py",
    "-k",
    "not http",
)
OF_SCHEDULES = (
    "src/holdfast/define/timing.py",
    "src/holdfast/operations/registering.py",
    "src/holdfast/schedules/",
    "src/holdfast/store/schedules.py",
    "src/holdfast/store/sql/schedules.sql",
)
WORKERS = (*PYTEST, "tests/service/test_worker.py")
OF_WORKERS = ("src/holdfast/store/bound_workers.py", "src/holdfast/store/sql/bound_workers.sql")
REQUESTS = (*PYTEST, "tests/service/test_verbs.py")
OF_REQUESTS = ("src/holdfast/store/requests.py", "src/holdfast/store/sql/requests.sql")
NOTIFY = (
    *PYTEST,
    "tests/test_outgoing.py",
    "tests/test_notices.py",
    "tests/notify/test_deciding.py",
    "tests/notify/test_webhooks.py",
    "tests/notify/test_hooks.py",
    "tests/notify/test_mails.py",
    "tests/notify/test_people.py",
)
OF_NOTIFY = (
    "src/holdfast/notify/",
    "src/holdfast/outgoing.py",
    "src/holdfast/store/notify.py",
    "src/holdfast/store/sql/notify.sql",
    "src/holdfast/store/sql/webhooks.sql",
)
KILLERS = {OF_SCHEDULES: SCHEDULES, OF_WORKERS: WORKERS, OF_REQUESTS: REQUESTS, OF_NOTIFY: NOTIFY}
"""Of files that have tests of their own: nothing else is run."""
SIMULATION = (
    sys.executable, "-m", "tests.simulation", "--seeds", "400", "--processes", "1", "--failures", "1",
)  # fmt: skip


class Mutant(NamedTuple):
    name: str
    why: str
    file: str
    old: str
    new: str

    @property
    def killers(self) -> tuple[tuple[str, ...], ...]:
        """The commands that should fail with this mutant; they depend on the file that it changes."""
        for files, killer in KILLERS.items():
            if self.file.startswith(files):
                return (killer,)
        if self.file.startswith(("src/holdfast/orchestrator/", "src/holdfast/store/loading.py")):
            return SIMULATION, CORE
        return (STORE,) if self.file.startswith("src/holdfast/store/") else (CORE, SIMULATION)

    def apply(self, folder: Path) -> bool:
        """Break the copy in `folder`. Returns False if the code does not contain `old` exactly once."""
        place = folder / self.file
        text = place.read_text()
        if text.count(self.old) != 1:
            return False
        place.write_text(text.replace(self.old, self.new))
        return True


class Verdict(NamedTuple):
    mutant: Mutant
    killed_by: str | None
    problem: str | None
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants")
    parser.add_argument("--only", metavar="NAME", help="only the mutants whose name contains this")
    options = parser.parse_args()
    mutants = [mutant for mutant in read_table() if options.only is None or options.only in mutant.name]
    if not mutants:
        print(f"There is no mutant like '{options.only}'.")
        return 1
    if not sound(mutants):
        return 1
    print(f"{'mutant':42} {'seconds':>7}  killed by", flush=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        verdicts = [_print(verdict) for verdict in pool.map(examine, mutants)]
    survivors = [v for v in verdicts if v.killed_by is None]
    print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} mutants were killed.")
    for verdict in survivors:
        print(f"  {verdict.mutant.name}: {verdict.problem or 'SURVIVED'} ({verdict.mutant.why})")
    return 1 if survivors else 0


def read_table() -> list[Mutant]:
    return [Mutant(name, **entry) for name, entry in tomllib.loads(TABLE.read_text()).items()]


def sound(mutants: Sequence[Mutant]) -> bool:
    """Whether the tests pass without a mutant: otherwise they would kill every mutant and prove nothing."""
    commands = list(dict.fromkeys(command for mutant in mutants for command in mutant.killers))
    with ThreadPoolExecutor(AT_ONCE) as pool, tempfile.TemporaryDirectory(prefix="holdfast-whole-") as folder:
        copy(Path(folder))
        codes = list(pool.map(lambda command: run(command, Path(folder)), commands))
    for command, code in zip(commands, codes, strict=True):
        if code != 0:
            print(f"Without any mutant, this fails already: {title(command)}")
    return not any(codes)


def examine(mutant: Mutant) -> Verdict:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"holdfast-{mutant.name}-") as folder:
        copy(Path(folder))
        if not mutant.apply(Path(folder)):
            return Verdict(mutant, None, "the code has changed: adapt `old`", time.monotonic() - started)
        for command in mutant.killers:
            if run(command, Path(folder)) != 0:
                return Verdict(mutant, title(command), None, time.monotonic() - started)
    return Verdict(mutant, None, None, time.monotonic() - started)


def copy(folder: Path) -> None:
    for name in ("src", "tests", "examples"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)


def run(command: Sequence[str], folder: Path) -> int:
    """The exit code; -1 if a mutant makes the tests hang."""
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return -1
    return done.returncode


def title(command: Sequence[str]) -> str:
    if "tests.simulation" in command:
        return "simulation"
    names = {
        STORE: "store's tests",
        SCHEDULES: "schedules' tests",
        WORKERS: "workers' tests",
        REQUESTS: "requests' tests",
        NOTIFY: "notify's tests",
    }
    return names.get(tuple(command), "core's tests")


def _print(verdict: Verdict) -> Verdict:
    outcome = verdict.killed_by or verdict.problem or "SURVIVED"
    print(f"{verdict.mutant.name:42} {verdict.seconds:7.1f}  {outcome}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
