from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from numpy.typing import NDArray
from rio_cogeo.cogeo import cog_validate

from holdfast import Permanent
from holdfast.apps.flood.merge import merge
from holdfast.apps.flood.naming import group_of
from holdfast.apps.flood.stack import stack
from tests.apps.flood.conftest import depths

WriteTile = Callable[..., Path]
Values = NDArray[Any]
YEARS = [10, 100]


class Neighbours:
    """Makes stacks at positions of one grid, and merges them."""

    def __init__(self, folder: Path, write_tile: WriteTile) -> None:
        self.folder, self.write_tile = folder, write_tile
        self.made: list[tuple[str, Path]] = []

    def add(
        self, name: str, column: float, row: float, bands: list[Values], years: list[int] = YEARS, **changes: Any
    ) -> None:
        group = group_of("CIV", "fluvial", name, years)
        where = {"transform": Affine(30, 0, 500_000 + column * 30, 0, -30, 700_000 - row * 30), **changes}
        for file, values in zip(group.files, bands, strict=True):
            self.write_tile(self.folder / file, values, **where)
        target = self.folder / f"{name}.tif"
        stack(group, self.folder, target, f"{name}.tif")
        self.made.append((f"{name}.tif", target))

    def merged(self) -> dict[str, Any]:
        return merge(self.made, self.folder / "mosaic.tif", "gold/mosaic.tif")


@pytest.fixture
def neighbours(tmp_path: Path, write_tile: WriteTile) -> Neighbours:
    return Neighbours(tmp_path, write_tile)


def two(seed: int, shape: tuple[int, int] = (300, 400)) -> list[Values]:
    return [depths(seed, shape), depths(seed + 100, shape)]


def test_the_pixels_of_a_mosaic_equal_those_of_its_stacks_and_gaps_are_nodata(neighbours: Neighbours) -> None:
    placed = {"A": (400, 300), "B": (400, 0), "C": (0, 0)}
    expected = np.full((2, 600, 800), -9999.0, np.float32)
    for number, (name, (column, row)) in enumerate(placed.items()):
        bands = two(number)
        neighbours.add(name, column, row, bands)
        expected[:, row : row + 300, column : column + 400] = bands
    facts = neighbours.merged()
    with rasterio.open(neighbours.folder / "mosaic.tif") as file:
        assert (file.read() == expected).all()
        assert file.descriptions == ("rp0010", "rp0100")
        assert file.transform == Affine(30, 0, 500_000, 0, -30, 700_000)
    assert cog_validate(neighbours.folder / "mosaic.tif", strict=True, quiet=True)[0]
    assert (facts["stack_count"], facts["shape"], facts["return_periods"]) == (3, [600, 800], YEARS)
    assert facts["max_depth_m"] == pytest.approx(expected.max(), abs=1e-4)


def test_the_order_of_the_stacks_does_not_matter(neighbours: Neighbours) -> None:
    neighbours.add("B", -400, 0, two(1))
    neighbours.add("A", 0, 10, two(2))
    first = neighbours.merged()
    neighbours.made.reverse()
    assert neighbours.merged() == {**first, "reused": True}


def test_in_an_overlap_the_later_name_wins_except_for_its_nodata(neighbours: Neighbours) -> None:
    below, above = two(1), two(2)
    above[0][:100] = -9999.0
    neighbours.add("A", 0, 0, below)
    neighbours.add("B", 200, 0, above)
    neighbours.merged()
    with rasterio.open(neighbours.folder / "mosaic.tif") as file:
        mosaic = file.read(1)
    overlap = np.where(above[0][:, :200] == -9999.0, below[0][:, 200:], above[0][:, :200])
    assert (mosaic[:, 200:400] == overlap).all()
    assert (mosaic[:, 400:] == above[0][:, 200:]).all()


def test_a_changed_stack_means_that_the_mosaic_is_made_again(neighbours: Neighbours) -> None:
    neighbours.add("A", 0, 0, two(1))
    first = neighbours.merged()
    neighbours.made.clear()
    neighbours.add("A", 0, 0, two(3))
    again = neighbours.merged()
    assert again["reused"] is False
    assert again["sha256"] != first["sha256"]


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"crs": "EPSG:32631"}, "CRS EPSG:32630 and EPSG:32631"),
        ({"column": 400.5}, "400.500 columns"),
        ({"years": [10, 500]}, "bands rp0010, rp0100 and rp0010, rp0500"),
        ({"transform": Affine(60, 0, 500_000, 0, -60, 700_000)}, "size of pixels"),
    ],
)
def test_stacks_that_do_not_fit_together_are_refused(
    neighbours: Neighbours, changes: dict[str, Any], difference: str
) -> None:
    neighbours.add("A", 0, 0, two(1))
    neighbours.add("B", **{"column": 400, "row": 0, "bands": two(2), **changes})
    with pytest.raises(Permanent) as refused:
        neighbours.merged()
    assert refused.value.code == "FLOOD_MISMATCH"
    for part in ("A.tif", "B.tif", difference):
        assert part in str(refused.value)
    assert not (neighbours.folder / "mosaic.tif").exists()


def test_stacks_far_apart_are_refused(neighbours: Neighbours) -> None:
    neighbours.add("A", 0, 0, two(1))
    neighbours.add("B", 70_000, 70_000, two(2))
    with pytest.raises(Permanent) as refused:
        neighbours.merged()
    assert refused.value.code == "FLOOD_TOO_LARGE"


def test_an_empty_list_cannot_be_merged(neighbours: Neighbours) -> None:
    with pytest.raises(Permanent, match="nothing to merge"):
        neighbours.merged()
