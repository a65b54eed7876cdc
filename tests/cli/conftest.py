"""Commands as people type them: in this process where that is quick, as a real process where it matters."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.app import execute
from holdfast.operations.scope import current_actor
from holdfast.private_loop import PrivateLoop

HOLDFAST = [str(Path(sys.executable).with_name("holdfast"))]

FLOW = """
workflow_id: flow
inputs:
  numbers: {type: array, default: [1, 2, 3]}
  name: {type: string, default: World}
nodes:
  start: {type: start, next: read}
  read: {handler: echo, params: {numbers: "{{ inputs.numbers }}"}, next: each}
  each:
    type: fan_out
    source: "{{ nodes.read.output.echoed_params.numbers }}"
    task: {handler: echo, params: {number: "{{ item }}"}}
    next: gather
  gather: {type: fan_in, next: is_long}
  is_long: {type: conditional, condition: "{{ nodes.gather.output.count }} > 2", on_true: long, on_false: short}
  long: {handler: hello_world, params: {name: "{{ inputs.name }}"}, next: end}
  short: {handler: hello_world, next: end}
  end: {type: end, depends_on: {any_of: [long, short]}}
"""

FAILING = """
workflow_id: failing
nodes:
  first: {handler: echo, next: second}
  second: {handler: fail, params: {error_message: no luck, permanent: true}, next: third}
  third: {handler: echo}
"""

PARTIAL = """
workflow_id: half
nodes:
  main: {handler: echo}
  extra: {handler: fail, importance: important, params: {error_message: no luck, permanent: true}}
"""

SLOW = """
workflow_id: slow
nodes:
  nap: {handler: sleep, params: {duration_seconds: 600}}
"""

NAP = """
workflow_id: nap
nodes:
  nap: {handler: sleep, params: {duration_seconds: 2}}
"""

FLAKY_ITEMS = """
workflow_id: items
nodes:
  each:
    type: fan_out
    source: "{{ inputs.numbers }}"
    task: {handler: fail, params: {error_message: "item {{ item }} is bad", permanent: true}}
inputs: {numbers: {type: array, default: [1, 2, 3]}}
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def problem(self) -> Any:
        return json.loads(self.err)


Command = Callable[..., Answer]


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    for name, text in {
        "flow": FLOW,
        "failing": FAILING,
        "half": PARTIAL,
        "slow": SLOW,
        "nap": NAP,
        "items": FLAKY_ITEMS,
    }.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


@pytest.fixture
def forgotten_modules(tmp_path: Path) -> Iterator[None]:
    """The next test may have handlers in a module of the same name."""
    before = list(sys.path)
    yield
    sys.path[:] = before
    importlib.invalidate_caches()
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def command(forgotten_modules: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command in this process."""

    def run(*arguments: str) -> Answer:
        capsys.readouterr()
        # The worker puts its own streams in place; the test's come back afterwards.
        with monkeypatch.context() as streams:
            streams.setattr(sys, "stdout", sys.stdout)
            streams.setattr(sys, "stderr", sys.stderr)
            code = execute(list(arguments))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Answer(code, out, err)

    return run


@pytest.fixture
def database(command: Command, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The same, with a database of the test's own."""
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", database_url)
    return command


@pytest.fixture
def served(database_url: str) -> Iterator[tuple[str, str]]:
    """The URL of a service on the test's database, and the key of an administrator of the installation."""
    # Imported here: its libraries take a second.
    from tests.service.serving import serving_http

    loop = PrivateLoop()
    try:
        opened = serving_http(database_url)
        service = loop.run(opened.__aenter__())
        try:
            yield service.url, loop.run(service.key("admin", tenant="*", name=current_actor()))
        finally:
            loop.run(opened.__aexit__(None, None, None))
    finally:
        loop.close()


@pytest.fixture
def over_url(command: Command, served: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Commands with the URL and the key of a service, and without a database."""
    monkeypatch.delenv("HOLDFAST_DATABASE_URL", raising=False)
    monkeypatch.setenv("HOLDFAST_URL", served[0])
    monkeypatch.setenv("HOLDFAST_API_KEY", served[1])
    return command


_spawned: list[subprocess.Popen[str]] = []


def spawn(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A command as a process of its own, in the current directory; it ends with its test at the latest."""
    process = subprocess.Popen(
        [*HOLDFAST, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    _spawned.append(process)
    return process


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test may leave processes behind. They end before its database is emptied: else they would register again."""
    if "database_url" in request.fixturenames:
        request.getfixturevalue("database_url")
    yield
    for process in _spawned:
        if process.poll() is None:
            process.kill()
        process.communicate()
    _spawned.clear()


def finished(process: subprocess.Popen[str], seconds: float = 60.0) -> Answer:
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not end within {seconds} s: {out} {err}") from None
    return Answer(process.returncode, out, err)


def line_that_has(stream: Any, text: str) -> str:
    """The first line with that text; the process is expected to write it."""
    for line in stream:
        if text in line:
            return str(line)
    raise AssertionError(f"it ended without a line that has '{text}'")
