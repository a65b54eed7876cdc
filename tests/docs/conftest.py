"""The environment for the commands of the documentation."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.embedded.binaries import find_installation
from tests.docs.forking import forked_commands


@pytest.fixture(scope="session")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What all commands share: compiled code, so that they start twice as fast, and a process that forks for them."""
    base = tmp_path_factory.getbasetemp()
    bytecode = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "bytecode"
    shared = {
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(bytecode),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }
    with forked_commands(tmp_path_factory.mktemp("forking"), shared) as commands:
        # The programs of Postgres, for pages that call psql.
        postgres = find_installation(None, base / "none").directory
        yield shared | {"PATH": f"{commands}:{Path(sys.executable).parent}:{postgres}:{os.environ['PATH']}"}


@pytest.fixture
def environment(database_url: str, surroundings: dict[str, str]) -> dict[str, str]:
    """The same, with a database of the test's own."""
    return surroundings | {"HOLDFAST_DATABASE_URL": database_url}
