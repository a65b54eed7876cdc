"""A HOLDFAST_HOME for each test, with a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.raster.making import Task


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    place = tmp_path / "home" / "storage"
    (place / "bronze").mkdir(parents=True)
    return place


@pytest.fixture
def task(storage: Path) -> Task:
    return Task(storage.parent)
