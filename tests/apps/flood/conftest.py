"""Small but realistic source data for the tests, generated once for each process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from numpy.typing import NDArray

from holdfast import Context
from holdfast.apps.flood.generate import generate

YEARS = (10, 100, 1000)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four places in two scenarios of CIV, in metres on UTM; two groups of RWA, in centimetres on degrees."""
    folder = tmp_path_factory.mktemp("made")
    scenarios = ("fluvial_undefended", "pluvial_defended")
    generate("CIV", 8, folder, 11, return_periods=YEARS, scenarios=scenarios, workers=1)
    generate("RWA", 2, folder, 11, return_periods=YEARS, scenarios=scenarios, workers=1)
    return folder


@pytest.fixture
def source(made: Path, tmp_path: Path) -> Path:
    """A copy of the source data that a test may spoil."""
    return Path(shutil.copytree(made, tmp_path / "source"))


@pytest.fixture
def home(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A storage with the source data in `bronze/flood`."""
    shutil.copytree(made, tmp_path / "home/storage/bronze/flood")
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def write_tile() -> Callable[..., Path]:
    """A function that writes a source tile with the test's own values."""

    def write(path: Path, values: NDArray[Any], **changes: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        profile: dict[str, Any] = {
            "crs": "EPSG:32630",
            "transform": Affine(30, 0, 500_000, 0, -30, 700_000),
            "nodata": -9999.0,
            **changes,
        }
        height, width = values.shape
        with rasterio.open(
            path, "w", driver="GTiff", count=1, height=height, width=width, dtype=values.dtype, **profile
        ) as file:
            file.write(values, 1)
        return path

    return write


class Quiet(Context):
    """The parts of a context that these handlers use, for calling them as plain functions."""

    def __init__(self) -> None: ...

    def log(self, message: str, **fields: Any) -> None: ...

    def results(self, node: str, offset: int = 0, limit: int | None = None) -> Iterator[Any]:
        return iter(())


@pytest.fixture
def log() -> Context:
    return Quiet()


def depths(seed: int, shape: tuple[int, int] = (512, 512)) -> NDArray[np.float32]:
    """Water in a third of the pixels, and some without data."""
    chance = np.random.default_rng(seed)
    values = np.where(chance.random(shape) < 0.33, chance.random(shape) * 5, 0).astype(np.float32)
    values[chance.random(shape) < 0.02] = -9999.0
    return values
