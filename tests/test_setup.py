"""`scripts/install`, which `make demo` and `make test` use on a fresh machine: it shows progress, and no servers."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

INSTALL = Path(__file__).resolve().parent.parent / "scripts" / "install"
ELSEWHERE = "colorama==0.4.6 ; sys_platform == 'nowhere' --hash=sha256:" + 64 * "0"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """The Python of an environment that has pip, as a link to ours, and nothing else."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    import pip

    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "pip").symlink_to(Path(pip.__file__).parent)
    return venv / "bin" / "python"


def pinned(name: str, folder: Path) -> str:
    """Write a wheel without dependencies, and return its line in a lock file."""
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return f"{name}==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"


def install(python: Path, lock: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return subprocess.run(
        [python, INSTALL, lock], capture_output=True, text=True, env=clean | variables, cwd=lock.parent, timeout=120
    )


def test_the_locked_packages_are_installed_and_a_failure_names_no_server(environment: Path, tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("\n".join([pinned("tides", tmp_path), pinned("winds", tmp_path), ELSEWHERE, ""]))
    done = install(environment, lock, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    subprocess.run([environment, "-c", "import tides, winds"], check=True)
    lock.write_text("clouds==1.0 --hash=sha256:" + 64 * "0" + "\n")
    away = "http://someone:hunter2@127.0.0.1:1/simple"
    failed = install(environment, lock, PIP_INDEX_URL=away, PIP_RETRIES="0", PIP_TIMEOUT="1")
    assert failed.returncode == 1
    assert "No matching distribution found for clouds==1.0" in failed.stderr
    assert "venv/setup.log" in failed.stderr
    for secret in ("127.0.0.1", "hunter2"):
        assert secret not in failed.stdout + failed.stderr


def test_the_progress_follows_the_lines_of_pip(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("a==1 \\\n    --hash=sha256:0\nb[x]==2 \\\n    --hash=sha256:0\nc-d==3 ; sys_platform == 'win32'\n")
    names: dict[str, object] = {"__name__": "install"}
    exec(compile(INSTALL.read_text(encoding="utf-8"), str(INSTALL), "exec"), names)
    progress: Any = names["Progress"](lock)  # type: ignore[operator]
    shown = []
    for line in (
        "Looking in indexes: https://somewhere/simple",
        "Ignoring c-d: markers \"sys_platform == 'win32'\" don't match your environment",
        "Collecting a==1 (from -r lock.txt (line 1))",
        "  Downloading a-1-py3-none-any.whl.metadata (1.2 kB)",
        "Collecting b[x]==2 (from -r lock.txt (line 3))",
        "Using cached a-1-py3-none-any.whl (3.4 kB)",
        "Downloading b-2-cp311-cp311-manylinux_2_17_x86_64.whl (5.6 MB)",
        "Installing collected packages: a, b",
    ):
        progress.read(line)
        shown.append(progress.text(1))
    assert shown == [
        "0 of 3 packages found",
        "0 of 2 packages found",
        "1 of 2 packages found",
        "1 of 2 packages found",
        "2 of 2 packages found",
        "1 of 2 packages downloaded",
        "2 of 2 packages downloaded",
        "1 of 2 packages installed",
    ]
