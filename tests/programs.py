"""Programs that some tests need and that no package of Python has: from PATH, or unpacked from the package of Debian.

Nothing is installed: the package lies below `.venv/`, and so does all that `apt-get` remembers. Needs no right of root.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / ".venv" / "programs"
SECONDS = 180
_APT = ("Acquire::Retries=1", "Acquire::http::Timeout=20", "Acquire::https::Timeout=20", "APT::Sandbox::User=root")


class Missing(Exception):
    """The program is not here and cannot be had; the text says why."""


def program(name: str, package: str) -> str:
    """Where the program is. A test that cannot have it is skipped, and the last lines of the run say so."""
    try:
        return _found(name, package)
    except Missing as reason:
        pytest.skip(f"NOT TESTED: there is no {name}, and {reason}; install {package}")


@cache
def _found(name: str, package: str) -> str:
    if (there := shutil.which(name)) is not None:
        return there
    folder = ROOT / package
    ROOT.mkdir(parents=True, exist_ok=True)
    with (ROOT / f"{package}.lock").open("w") as lock:
        # Test processes run beside each other: one of them gets the package.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _unpack(package, folder)
    for place in ("usr/bin", "usr/sbin"):
        if (folder / place / name).exists():
            return str(folder / place / name)
    raise Missing(f"the package {package} does not have it")


def _unpack(package: str, folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise Missing("this is no Debian")
    work = ROOT / f"{package}.new"
    shutil.rmtree(work, ignore_errors=True)
    for part in ("state/lists/partial", "cache/archives/partial", "unpacked"):
        (work / part).mkdir(parents=True)
    places = (f"Dir::State={work}/state", f"Dir::Cache={work}/cache", "Dir::State::status=/var/lib/dpkg/status")
    apt = ("apt-get", "-q", *(part for option in (*places, *_APT) for part in ("-o", option)))
    _run(*apt, "update", folder=work)
    _run(*apt, "download", package, folder=work)
    for found in work.glob("*.deb"):
        _run("dpkg", "-x", str(found), str(work / "unpacked"), folder=work)
    (work / "unpacked").replace(folder)
    shutil.rmtree(work)


def _run(*command: str, folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Missing(f"{command[0]} does not end") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Missing(f"{command[0]} cannot get it: {lines[-1] if lines else done.returncode}")
