"""`python -m tests.simulation.mutants.run [--only NAME]`: breaks the code on purpose and sees whether a test notices.

Each patch beside this file is one breakage; its first lines say what it breaks and which invariant should notice.
It is applied to a copy of the code, on which the quickest tests that may notice run first. A mutant that survives is
a hole in the tests.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
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
    "tests/store/test_batches.py",
    "tests/store/test_clock.py",
    "-k",
    "not model",
)
SIMULATION = (
    sys.executable, "-m", "tests.simulation", "--seeds", "400", "--processes", "1", "--failures", "1",
)  # fmt: skip


class Mutant(NamedTuple):
    name: str
    patch: Path
    about: str
    killers: tuple[tuple[str, ...], ...]


class Verdict(NamedTuple):
    mutant: Mutant
    killed_by: str | None
    problem: str | None
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants.run")
    parser.add_argument("--only", metavar="NAME", help="only the mutants whose name contains this")
    given = parser.parse_args()
    mutants = [
        m for m in map(read_mutant, sorted(FOLDER.glob("*.patch"))) if given.only is None or given.only in m.name
    ]
    if not mutants:
        print(f"There is no mutant like '{given.only}'.")
        return 1
    if not sound(mutants):
        return 1
    print(f"{'mutant':42} {'seconds':>7}  killed by", flush=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        verdicts = [_shown(verdict) for verdict in pool.map(examine, mutants)]
    survivors = [v for v in verdicts if v.killed_by is None]
    print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} mutants were killed.")
    for verdict in survivors:
        print(f"  {verdict.mutant.name}: {verdict.problem or 'SURVIVED'} ({verdict.mutant.about})")
    return 1 if survivors else 0


def read_mutant(patch: Path) -> Mutant:
    """What the patch says of itself, and the tests that should notice it, by the file that it changes."""
    lines = patch.read_text().splitlines()
    about = " ".join(line.removeprefix("# ") for line in lines if line.startswith("# "))
    changed = next(line.removeprefix("+++ b/") for line in lines if line.startswith("+++ "))
    killers: tuple[tuple[str, ...], ...] = (CORE, SIMULATION)
    if changed.startswith(("src/holdfast/orchestrator/", "src/holdfast/store/loading.py")):
        killers = (SIMULATION, CORE)
    elif changed.startswith("src/holdfast/store/"):
        killers = (STORE,)
    return Mutant(patch.stem, patch, about, killers)


def sound(mutants: Sequence[Mutant]) -> bool:
    """Whether the tests pass on the code as it is: otherwise they would kill everything and prove nothing."""
    commands = list(dict.fromkeys(command for mutant in mutants for command in mutant.killers))
    with ThreadPoolExecutor(AT_ONCE) as pool, tempfile.TemporaryDirectory(prefix="holdfast-whole-") as folder:
        copy(Path(folder))
        codes = list(pool.map(lambda command: run(command, Path(folder)), commands))
    for command, code in zip(commands, codes, strict=True):
        if code != 0:
            print(f"Without any mutant, this fails already: {shown(command)}")
    return not any(codes)


def examine(mutant: Mutant) -> Verdict:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"holdfast-{mutant.name}-") as folder:
        copy(Path(folder))
        applied = subprocess.run(
            ["git", "apply", "--unsafe-paths", "--recount", str(mutant.patch)],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if applied.returncode != 0:
            return Verdict(mutant, None, "the patch does not apply", time.monotonic() - started)
        for command in mutant.killers:
            if run(command, Path(folder)) != 0:
                return Verdict(mutant, shown(command), None, time.monotonic() - started)
    return Verdict(mutant, None, None, time.monotonic() - started)


def copy(folder: Path) -> None:
    for name in ("src", "tests", "examples"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.patch"))
    shutil.copy(ROOT / "pyproject.toml", folder)


def run(command: Sequence[str], folder: Path) -> int:
    """The exit code; a mutant that makes the tests hang is noticed, too."""
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return -1
    return done.returncode


def shown(command: Sequence[str]) -> str:
    if "tests.simulation" in command:
        return "simulation"
    return "store's tests" if command is STORE else "core's tests"


def _shown(verdict: Verdict) -> Verdict:
    outcome = verdict.killed_by or verdict.problem or "SURVIVED"
    print(f"{verdict.mutant.name:42} {verdict.seconds:7.1f}  {outcome}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
