"""Validation: the description of a raster, and the warnings about it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy
import pytest
import rasterio
from rasterio.enums import ColorInterp

from holdfast import Permanent
from holdfast.apps.raster.handlers import create_cog, validate
from holdfast.apps.raster.validation import parse_crs
from tests.apps.raster.making import PLACES, Task, make, ramp


def validated(name: str, task: Task, **params: Any) -> dict[str, Any]:
    result = validate(name, ctx=task.attempt(), **params)
    assert result is not None
    assert list(result.warnings) == result.output["warnings"]
    output: dict[str, Any] = result.output
    return output


@pytest.mark.parametrize("crs", list(PLACES))
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_a_raster_is_described(crs: str, dtype: str, storage: Path, task: Task) -> None:
    pixels = ramp(1, 120, 200, dtype)
    path = make(storage / "bronze" / "x.tif", pixels, crs, nodata=0, names=["depth"], compress="lzw")
    description = validated("bronze/x.tif", task)
    transform = PLACES[crs]
    assert {
        key: description[key] for key in ("width", "height", "band_count", "dtype", "nodata", "crs", "compression")
    } == {
        "width": 200,
        "height": 120,
        "band_count": 1,
        "dtype": dtype,
        "nodata": 0,
        "crs": crs,
        "compression": "lzw",
    }
    assert description["bands"] == ["depth"]
    assert description["bit_depth"] == pixels.dtype.itemsize * 8
    assert description["bounds"] == pytest.approx(
        [transform.c, transform.f + 120 * transform.e, transform.c + 200 * transform.a, transform.f]
    )
    west, south, east, north = description["bounds_4326"]
    assert -6 < west < east < -2 and 5 < south < north < 7
    assert (description["minimum"], description["maximum"]) == (pixels[pixels > 0].min(), pixels.max())
    assert description["valid_share"] == pytest.approx((pixels != 0).mean(), abs=1e-5)
    assert description["file_size_bytes"] == path.stat().st_size
    assert description["estimated_output_mb"] > 0
    assert description["warnings"] == []


def test_the_type_of_a_raster_is_detected(storage: Path, task: Task) -> None:
    rng = numpy.random.default_rng(1)
    cases: dict[str, tuple[Any, dict[str, Any]]] = {
        "rgb": (ramp(3, 64, 64, "uint8"), {"photometric": "RGB"}),
        "rgba": (ramp(4, 64, 64, "uint8"), {"photometric": "RGB", "alpha": "YES"}),
        "multispectral": (ramp(6, 64, 64, "uint16"), {}),
        "categorical": (rng.integers(1, 9, (1, 64, 64)).astype("uint8"), {}),
        "dem": (rng.uniform(0, 2000, (1, 64, 64)).astype("float32"), {}),
        "singleband": (rng.uniform(0, 8, (1, 64, 64)).astype("float32"), {}),
    }
    for expected, (pixels, options) in cases.items():
        make(storage / "bronze" / "x.tif", pixels, **options)
        assert validated("bronze/x.tif", task)["type"] == expected


def test_a_palette_means_categories(storage: Path, task: Task) -> None:
    path = make(storage / "bronze" / "x.tif", ramp(1, 64, 64, "uint8"))
    with rasterio.open(path, "r+") as dataset:
        dataset.colorinterp = [ColorInterp.palette]
        dataset.write_colormap(1, {1: (1, 2, 3, 255)})
    assert validated("bronze/x.tif", task)["type"] == "categorical"


def test_a_shallow_raster_that_is_named_elevation_is_one(storage: Path, task: Task) -> None:
    pixels = numpy.random.default_rng(1).uniform(0, 8, (1, 64, 64)).astype("float32")
    make(storage / "bronze" / "x.tif", pixels, names=["Elevation"])
    assert validated("bronze/x.tif", task)["type"] == "dem"


def test_pictures_are_suggested_a_lossy_profile_and_measurements_none(storage: Path, task: Task) -> None:
    for pixels, options, profile in (
        (ramp(3, 64, 64, "uint8"), {"photometric": "RGB"}, "jpeg"),
        (ramp(4, 64, 64, "uint8"), {"photometric": "RGB", "alpha": "YES"}, "webp"),
        (ramp(3, 64, 64, "uint8"), {"photometric": "RGB", "nodata": 0}, "deflate"),
        (ramp(1, 64, 64, "float32"), {}, "deflate"),
    ):
        make(storage / "bronze" / "x.tif", pixels, **options)
        assert validated("bronze/x.tif", task)["suggested_profile"] == profile


def test_the_estimated_size_is_near_the_real_one(storage: Path, task: Task) -> None:
    make(storage / "bronze" / "x.tif", numpy.random.default_rng(1).integers(0, 255, (1, 1024, 1024)).astype("int16"))
    estimate = validated("bronze/x.tif", task)["estimated_output_mb"]
    done = create_cog("bronze/x.tif", "silver/x.tif", ctx=task.attempt())
    assert estimate == pytest.approx(done.output["bytes"] / 1024 / 1024, rel=0.4)


def test_the_output_says_whether_it_is_a_cog_and_why_not(storage: Path, task: Task) -> None:
    make(storage / "bronze" / "x.tif", ramp(1, 1100, 700, "int16"))
    plain = validated("bronze/x.tif", task)
    assert plain["is_cog"] is False
    assert any("not tiled" in problem for problem in plain["cog_problems"])
    assert plain["warnings"] == ["not tiled", "no overviews"]
    create_cog("bronze/x.tif", "silver/x.tif", ctx=task.attempt())
    cog = validated("silver/x.tif", task)
    assert (cog["is_cog"], cog["cog_problems"], cog["warnings"], cog["tiled"]) == (True, [], [], True)
    assert cog["overviews"] == [2, 4]


def test_a_missing_crs_can_be_declared(storage: Path, task: Task) -> None:
    pixels = ramp(1, 64, 64, "int16")
    make(storage / "bronze" / "x.tif", pixels, crs=None, transform=PLACES["EPSG:4326"])
    silent = validated("bronze/x.tif", task)
    assert (silent["crs"], silent["bounds_4326"]) == (None, None)
    assert silent["warnings"] == ["no CRS: declare it with source_crs"]
    declared = validated("bronze/x.tif", task, source_crs="EPSG:4326")
    assert declared["crs"] == "EPSG:4326"
    assert declared["bounds_4326"] == pytest.approx(declared["bounds"])
    assert declared["warnings"] == ["no CRS in the file: the declared EPSG:4326 is used"]
    with pytest.raises(Permanent, match="not a coordinate reference system") as failure:
        validated("bronze/x.tif", task, source_crs="EPSG:99999")
    assert failure.value.code == "CRS_UNKNOWN"


def test_a_declared_crs_does_not_win_over_the_file(storage: Path, task: Task) -> None:
    make(storage / "bronze" / "x.tif", ramp(1, 64, 64, "int16"))
    description = validated("bronze/x.tif", task, source_crs="EPSG:4326")
    assert description["crs"] == "EPSG:32630"
    assert description["warnings"] == ["the file's own CRS EPSG:32630 is used, not the declared EPSG:4326"]


@pytest.mark.parametrize(("dtype", "nodata"), [("int16", -32768), ("float32", math.nan), ("float32", -9999)])
def test_a_raster_without_a_single_value_is_valid_with_a_warning(
    dtype: str, nodata: float, storage: Path, task: Task
) -> None:
    make(storage / "bronze" / "x.tif", numpy.full((1, 64, 64), nodata, dtype), nodata=nodata)
    description = validated("bronze/x.tif", task)
    assert description["warnings"] == ["all nodata: no pixel has a value"]
    assert (description["valid_share"], description["minimum"], description["maximum"]) == (0, None, None)
    assert description["nodata"] == ("nan" if math.isnan(nodata) else nodata)


def test_a_strange_grid_gets_a_warning(storage: Path, task: Task) -> None:
    pixels = ramp(1, 64, 64, "int16")
    for transform, warning in (
        (rasterio.Affine(30, 5, 500_000, 5, -30, 700_000), "rotated or sheared grid"),
        (rasterio.Affine(30, 0, 500_000, 0, 30, 700_000), "south is up"),
    ):
        make(storage / "bronze" / "x.tif", pixels, transform=transform)
        assert validated("bronze/x.tif", task)["warnings"] == [warning]
    make(storage / "bronze" / "x.tif", pixels, "EPSG:4326", transform=PLACES["EPSG:32630"])
    assert validated("bronze/x.tif", task)["warnings"] == [
        "bounds outside the earth: the CRS is in degrees, the bounds are not"
    ]


def test_a_validation_that_is_asked_to_stop_returns_none(storage: Path, task: Task) -> None:
    make(storage / "bronze" / "x.tif", ramp(1, 64, 64, "int16"))
    context = task.attempt()
    context._attempt.cancelled = True
    assert validate("bronze/x.tif", ctx=context) is None


@pytest.mark.parametrize(
    "crs",
    [
        "+proj=longlat +datum=WGS84 +nadgrids=@/etc/passwd",
        "+proj=longlat +ellps=WGS84 +nadgrids=/etc/passwd",
        "+proj=longlat +datum=WGS84 +geoidgrids = x.gtx",
        "+init=/etc/passwd:4326",
        "epsg:4326; drop",
        "EPSG:4978",
        "EPSG:99999999999999999999",
        "EPSG:",
        "{}",
        '{"proj": 5}',
        "[]",
        "",
        "\0",
    ],
)
def test_a_malformed_crs_is_refused_permanently(crs: str) -> None:
    with pytest.raises(Permanent) as refusal:
        parse_crs(crs, "bronze/x.tif")
    assert refusal.value.code == "CRS_UNKNOWN"


def test_a_crs_may_say_that_it_uses_no_grids() -> None:
    mercator = (
        "+proj=merc +a=6378137 +b=6378137 +lat_ts=0 +lon_0=0 +x_0=0 +y_0=0 +k=1 +units=m +nadgrids=@null +no_defs"
    )
    assert parse_crs(mercator, "x").is_projected
    assert parse_crs("epsg:32630", "x").to_epsg() == 32630
