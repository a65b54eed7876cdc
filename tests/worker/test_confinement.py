"""A handler without a network reaches nothing of its worker, whatever it tries, and otherwise works as usual."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast
from holdfast.define.registry import Registry
from holdfast.worker import landlock, network
from tests.running import HOME
from tests.worker import attacking
from tests.worker.attempts import output
from tests.worker.desk import Desk

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not network.is_enforced(), reason="nothing is taken from a process here"),
]
has_landlock = pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")
ROOT = Path(__file__).parents[2]

AS_ANOTHER = """
import asyncio, json, sys
from holdfast.define.registry import Registry
from tests.running import HOME
from tests.worker import attacking
from tests.worker.attempts import output
from tests.worker.desk import Desk
from tests.worker.test_confinement import furnish

async def main():
    furnish(HOME)
    registry = Registry()
    registry.add_module(attacking)
    desk = Desk(registry)
    print(json.dumps(output(await desk.result(sys.argv[1], {"home": str(HOME)}))))
    desk.executor.close()

asyncio.run(main())
"""


TRIAL = "import subprocess, sys, tests.worker.desk; subprocess.run([sys.executable, '-V'], check=True)"


def furnish(home: Path) -> None:
    """A home in which an embedded Postgres and another worker run."""
    (home / "postgres").mkdir(parents=True, exist_ok=True)
    (home / "work/worker-other").mkdir(parents=True, exist_ok=True)
    secrets = ("postgres.json", "postgres.password", "postgres/postgresql.auto.conf", "work/worker-other/file")
    for name in secrets:
        (home / name).write_text("s3cr3t")


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    furnish(HOME)
    registry = Registry()
    registry.add_module(attacking)
    made = Desk(registry)
    yield made
    made.executor.close()


def as_unprivileged_user(name: str, **variables: str) -> dict[str, Any]:
    """What the attacks of an ordinary user's worker reached."""
    if os.geteuid() != 0:
        pytest.skip("not root: the other tests already run as an ordinary user")
    user = pwd.getpwnam("nobody")
    command = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    places = [ROOT, Path(holdfast.__file__).parents[1], Path(psycopg.__file__).parents[1]]
    settings = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(map(str, places)), **variables}
    for python in (sys.executable, "/usr/bin/python3"):
        known = subprocess.run([*command, python, "-c", TRIAL], env=settings, capture_output=True)
        if known.returncode == 0:
            done = subprocess.run(
                [*command, python, "-c", AS_ANOTHER, name], env=settings, cwd="/", capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
            reached: dict[str, Any] = json.loads(done.stdout)
            return reached
    pytest.skip("no Python here that another account can run")


NOTHING: dict[str, list[str]] = {"worker": [], "fork_server": [], "calls": [], "signal": [], "secrets": []}


@has_landlock
async def test_a_handler_without_a_network_reaches_neither_its_worker_nor_its_secrets(desk: Desk) -> None:
    reached = output(await desk.result("attacks", {"home": str(HOME)}))
    assert reached == NOTHING | ({"signal": ["worker"]} if landlock.version() < 6 else {})
    assert (HOME / "postgres.json").read_text() == "s3cr3t"


async def test_where_there_is_no_landlock_a_handler_still_cannot_get_into_its_worker(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WITHOUT_LANDLOCK", "1")
    reached = output(await desk.result("attacks_without_landlock", {"home": str(HOME)}))
    assert (reached["worker"], reached["fork_server"], reached["calls"]) == ([], [], [])
    assert "read the secret" in reached["secrets"], "the page and the doctor say so"


@has_landlock
def test_a_handler_of_an_ordinary_user_reaches_neither_its_worker_nor_its_secrets() -> None:
    assert as_unprivileged_user("attacks") == NOTHING | ({"signal": ["worker"]} if landlock.version() < 6 else {})


def test_where_there_is_no_landlock_a_handler_of_an_ordinary_user_cannot_get_into_its_worker() -> None:
    reached = as_unprivileged_user("attacks_without_landlock", WITHOUT_LANDLOCK="1")
    assert (reached["worker"], reached["fork_server"], reached["calls"]) == ([], [], [])


async def test_a_handler_without_a_network_works_as_usual(desk: Desk, tmp_path: Path) -> None:
    result = output(await desk.result("works_as_usual", {"home": str(HOME), "beside": str(tmp_path)}))
    assert result == {
        "storage": "kept", "temporary": "moved", "beside": "beside", "program": "a program\n", "published": "5",
        "device": "4", "kernel": "Name:",
    }  # fmt: skip
