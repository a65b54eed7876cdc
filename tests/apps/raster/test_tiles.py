"""Tiles cover the raster and fit together; finished tiles are not made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import rasterio
from rio_cogeo.cogeo import cog_validate

from holdfast import Permanent
from holdfast.apps.raster.handlers import create_cog, generate_tiling_scheme, process_tile, process_tile_batch
from tests.apps.raster.making import PLACES, Died, Task, make, ramp


@pytest.fixture
def pixels(storage: Path) -> Any:
    values = ramp(2, 700, 1100, "int16")
    make(storage / "bronze" / "x.tif", values, nodata=-1, names=["depth", "speed"])
    return values


def put_together(storage: Path, scheme: dict[str, Any], results: list[dict[str, Any]]) -> Any:
    """The raster assembled from the tiles; later tiles overwrite the overlap of earlier ones."""
    whole = numpy.full((2, scheme["height"], scheme["width"]), -7, "int16")
    for tile, done in zip(scheme["tile_list"], results, strict=True):
        path = storage / done["path"]
        assert cog_validate(path, strict=True, quiet=True)[0]
        left, top, width, height = tile["window"]
        with rasterio.open(path) as dataset:
            assert list(dataset.bounds) == pytest.approx(tile["bounds"])
            assert dataset.descriptions == ("depth", "speed")
            whole[:, top : top + height, left : left + width] = dataset.read()
    return whole


def test_a_scheme_covers_the_raster(pixels: Any) -> None:
    scheme = generate_tiling_scheme("bronze/x.tif", tile_size_px=512)
    assert (scheme["count"], scheme["columns"], scheme["rows"]) == (6, 3, 2)
    assert [tile["index"] for tile in scheme["tile_list"]] == list(range(6))
    assert scheme["tile_list"][4] == {
        "index": 4,
        "row": 1,
        "column": 1,
        "window": [512, 512, 512, 188],
        "bounds": [500_000 + 512 * 30, 700_000 - 700 * 30, 500_000 + 1024 * 30, 700_000 - 512 * 30],
    }
    seen = pixels[0] * 0
    for tile in scheme["tile_list"]:
        left, top, width, height = tile["window"]
        seen[top : top + height, left : left + width] += 1
    assert seen.min() == seen.max() == 1


def test_an_overlap_reaches_into_the_neighbours_but_not_beyond_the_raster(pixels: Any) -> None:
    scheme = generate_tiling_scheme("bronze/x.tif", tile_size_px=512, overlap_px=16)
    assert [tile["window"] for tile in scheme["tile_list"]][:3] == [
        [0, 0, 528, 528],
        [496, 0, 544, 528],
        [1008, 0, 92, 528],
    ]


def test_a_size_in_megabytes_means_decoded_pixels(pixels: Any) -> None:
    assert generate_tiling_scheme("bronze/x.tif", tile_size_mb=1)["tile_size_px"] == 512
    assert generate_tiling_scheme("bronze/x.tif", tile_size_mb=4)["tile_size_px"] == 1024
    assert generate_tiling_scheme("bronze/x.tif", tile_size_mb=0.1)["tile_size_px"] == 512
    assert generate_tiling_scheme("bronze/x.tif")["tile_size_px"] == 4096


@pytest.mark.parametrize(
    "params",
    [
        {"tile_size_px": 512, "tile_size_mb": 1},
        {"tile_size_px": 1},
        {"tile_size_px": 512, "overlap_px": 512},
        {"tile_size_px": 512, "overlap_px": -1},
    ],
)
def test_impossible_sizes_are_refused(params: dict[str, Any], pixels: Any) -> None:
    with pytest.raises(Permanent) as failure:
        generate_tiling_scheme("bronze/x.tif", **params)
    assert failure.value.code == "TILES_REFUSED"


@pytest.mark.parametrize("overlap", [0, 20])
def test_the_assembled_tiles_equal_the_raster(overlap: int, pixels: Any, storage: Path, task: Task) -> None:
    scheme = generate_tiling_scheme("bronze/x.tif", tile_size_px=512, overlap_px=overlap)
    results = [
        process_tile(
            tile, "bronze/x.tif", "silver/x", tile_index=tile["index"], ctx=task.attempt(item=tile["index"])
        ).output
        for tile in scheme["tile_list"]
    ]
    assert [done["path"] for done in results][:2] == ["silver/x/tile_00000.tif", "silver/x/tile_00001.tif"]
    assert numpy.array_equal(put_together(storage, scheme, results), pixels)


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3857"])
def test_assembled_reprojected_tiles_equal_the_reprojected_raster(
    crs: str, pixels: Any, storage: Path, task: Task
) -> None:
    """All tiles share one grid, without gaps or seams."""
    scheme = generate_tiling_scheme("bronze/x.tif", tile_size_px=400, crs=crs)
    done = process_tile_batch("bronze/x.tif", "silver/x", scheme["tile_list"], crs=crs, ctx=task.attempt())
    assert done is not None
    create_cog("bronze/x.tif", "silver/whole.tif", crs=crs, ctx=Task(task._home).attempt())
    with rasterio.open(storage / "silver" / "whole.tif") as dataset:
        whole = dataset.read()
    tiled = put_together(storage, scheme, done.output["results"])
    assert tiled.shape == whole.shape
    assert (tiled != whole).mean() < 0.0005


def test_the_next_attempt_continues_with_the_first_unfinished_tile(pixels: Any, storage: Path, task: Task) -> None:
    scheme = generate_tiling_scheme("bronze/x.tif", tile_size_px=512)
    task.dies_after = 4
    with pytest.raises(Died):
        process_tile_batch("bronze/x.tif", "silver/x", scheme["tile_list"], ctx=task.attempt())
    before = {file.name: file.stat().st_ino for file in (storage / "silver" / "x").iterdir()}
    assert sorted(before) == [f"tile_0000{n}.tif" for n in range(4)]
    (storage / "silver" / "x" / "tile_00001.tif").write_bytes(b"damaged")
    (storage / "silver" / "x" / "tile_00002.tif").unlink()
    task.dies_after = None
    done = process_tile_batch("bronze/x.tif", "silver/x", scheme["tile_list"], ctx=task.attempt())
    assert done is not None
    assert (done.output["count"], done.output["resumed_with"]) == (6, 2)
    after = {file.name: file.stat().st_ino for file in (storage / "silver" / "x").iterdir()}
    assert [name for name in before if before[name] == after[name]] == ["tile_00000.tif", "tile_00003.tif"]
    assert numpy.array_equal(put_together(storage, scheme, done.output["results"]), pixels)


def test_a_handler_of_tiles_that_is_asked_to_stop_returns_none(pixels: Any, storage: Path, task: Task) -> None:
    scheme = generate_tiling_scheme("bronze/x.tif", tile_size_px=512)
    task.stops_after = 2
    assert process_tile_batch("bronze/x.tif", "silver/x", scheme["tile_list"], ctx=task.attempt()) is None
    task.stops_after = None
    done = process_tile_batch("bronze/x.tif", "silver/x", scheme["tile_list"], ctx=task.attempt())
    assert done is not None
    assert done.output["resumed_with"] == 2


@pytest.mark.parametrize(
    "tile",
    [{}, {"index": 0}, {"index": 0, "window": [0, 0, 10]}, {"index": -1, "window": [0, 0, 9, 9]},
     {"index": 0, "window": [0, 0, 0, 9]}, {"index": 0, "window": "abcd"}, {"index": 0, "window": [5000, 0, 9, 9]},
     {"index": 0, "window": [0, 0, 2_000_000, 2_000_000]}],
)  # fmt: skip
def test_a_malformed_tile_is_refused(tile: dict[str, Any], pixels: Any, storage: Path, task: Task) -> None:
    with pytest.raises(Permanent) as failure:
        process_tile(tile, "bronze/x.tif", "silver/x", ctx=task.attempt())
    assert failure.value.code == "TILES_REFUSED"


def test_rasters_in_every_kind_of_crs_can_be_cut(storage: Path) -> None:
    for crs in PLACES:
        make(storage / "bronze" / "x.tif", ramp(1, 40, 70, "uint8"), crs)
        assert generate_tiling_scheme("bronze/x.tif", tile_size_px=32)["count"] == 6
