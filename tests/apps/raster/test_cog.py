"""COGs are strictly valid, equal to their source, the same bytes each time, and made in little memory."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import rasterio
from rio_cogeo.cogeo import cog_validate

from holdfast import Permanent
from holdfast.apps.raster import cog
from holdfast.apps.raster.handlers import create_cog
from holdfast.apps.raster.storage import sha256_of
from tests.apps.raster.making import PLACES, Died, Task, make, ramp
from tests.marks import IN_CHAOS

ROOT = Path(__file__).parent.parent.parent.parent


def made(task: Task, name: str = "bronze/x.tif", **params: Any) -> tuple[dict[str, Any], Path]:
    """The handler's output and the file, after checking that it is a valid COG."""
    task.saved.clear()
    target = f"silver/{len(task.saved)}-{task.attempts}.tif"
    result = create_cog(name, target, ctx=task.attempt(), **params)
    path = task._home / "storage" / target
    assert result.deliverables == {"cogs": target}
    assert cog_validate(path, strict=True, quiet=True) == (True, [], [])
    assert [file.name for file in path.parent.iterdir() if file.name.startswith(".")] == []
    output: dict[str, Any] = result.output
    assert (output["bytes"], output["sha256"]) == (path.stat().st_size, sha256_of(path))
    return output, path


@pytest.mark.parametrize(
    ("tier", "crs"), [("visualization", "EPSG:4326"), ("analysis", "EPSG:32630"), ("archive", "EPSG:3857")]
)
@pytest.mark.parametrize(("dtype", "nodata"), [("uint8", 0), ("int16", -1), ("float32", math.nan), ("float32", None)])
def test_measurements_come_through_unchanged(
    crs: str, dtype: str, nodata: float | None, tier: str, storage: Path, task: Task
) -> None:
    pixels = ramp(2, 600, 700, dtype)
    make(storage / "bronze" / "x.tif", pixels, crs, nodata=nodata, names=["depth", "speed"])
    output, path = made(task, tier=tier)
    with rasterio.open(path) as dataset:
        assert numpy.array_equal(dataset.read(), pixels)
        assert (dataset.crs.to_string(), dataset.transform) == (crs, PLACES[crs])
        assert dataset.descriptions == ("depth", "speed")
        wanted = numpy.array([nodata])
        assert numpy.array_equal([dataset.nodata], wanted, equal_nan=nodata is not None) or dataset.nodata is nodata
        assert (dataset.block_shapes[0], dataset.overviews(1)) == ((512, 512), [2])
    assert (output["compression"], output["tier"]) == ("zstd" if tier == "archive" else "deflate", tier)


@pytest.mark.parametrize("source", list(PLACES))
@pytest.mark.parametrize("target", list(PLACES))
def test_a_reprojected_raster_is_at_the_same_place_on_the_earth(
    source: str, target: str, storage: Path, task: Task
) -> None:
    pixels = ramp(1, 300, 300, "int16") + 1000
    make(storage / "bronze" / "x.tif", pixels, source, nodata=-1, names=["depth"])
    output, path = made(task, crs=target)
    assert output["crs"] == target
    with rasterio.open(path) as dataset, rasterio.open(storage / "bronze" / "x.tif") as before:
        values = dataset.read(1)
        assert (dataset.nodata, dataset.descriptions) == (-1, ("depth",))
        assert set(numpy.unique(values)) - {-1} <= set(numpy.unique(pixels))
        assert (values != -1).mean() > 0.9
        # The middle of the raster is at the same place on the earth.
        places = rasterio.warp.transform(
            target, source, *([axis] for axis in dataset.xy(*(n // 2 for n in values.shape)))
        )
        row, column = before.index(places[0][0], places[1][0])
        middle = int(values[tuple(n // 2 for n in values.shape)])
        assert abs(middle - int(pixels[0, row, column])) <= 4


def test_empty_corners_of_a_reprojection_have_no_value(storage: Path, task: Task) -> None:
    make(
        storage / "bronze" / "x.tif",
        ramp(1, 300, 300, "float32") + 1,
        transform=rasterio.Affine(30, 9, 5e5, 9, -30, 7e5),
    )
    _, path = made(task, crs="EPSG:4326")
    with rasterio.open(path) as dataset:
        assert math.isnan(dataset.nodata)
        values = dataset.read(1)
        assert numpy.isnan(values).any()
        assert numpy.nanmin(values) >= 1
    make(
        storage / "bronze" / "x.tif",
        ramp(3, 300, 300, "uint8"),
        photometric="RGB",
        transform=rasterio.Affine(30, 9, 5e5, 9, -30, 7e5),
    )
    _, path = made(task, crs="EPSG:4326")
    with rasterio.open(path) as dataset:
        assert dataset.count == 4
        assert set(numpy.unique(dataset.read(4))) == {0, 255}


def test_nodata_in_one_band_is_not_mixed_into_its_neighbours(storage: Path, task: Task) -> None:
    pixels = numpy.full((2, 300, 300), 5, "float32")
    pixels[0, 100:200, 100:200] = -9999
    make(storage / "bronze" / "x.tif", pixels, nodata=-9999)
    _, path = made(task, crs="EPSG:4326", resampling="bilinear")
    with rasterio.open(path) as dataset:
        first, second = dataset.read(masked=True)
        assert set(numpy.unique(first.compressed())) == set(numpy.unique(second.compressed())) == {5}
        assert 9_000 < (second.count() - first.count()) < 11_000


def test_an_internal_mask_comes_through(storage: Path, task: Task) -> None:
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        make(storage / "bronze" / "x.tif", ramp(3, 300, 300, "uint8"), photometric="RGB")
        with rasterio.open(storage / "bronze" / "x.tif", "r+") as dataset:
            dataset.write_mask(numpy.indices((300, 300))[0] < 100)
    for params in ({}, {"crs": "EPSG:3857"}, {"tier": "visualization"}):
        _, path = made(task, **params)
        with rasterio.open(path) as dataset:
            assert (dataset.dataset_mask() > 0).mean() == pytest.approx(1 / 3, abs=0.02)


def test_only_pictures_for_viewing_are_compressed_with_loss(storage: Path, task: Task) -> None:
    rgb, rgba = {"photometric": "RGB"}, {"photometric": "RGB", "alpha": "YES"}
    for bands, dtype, options, tier, compression in (
        (3, "uint8", rgb, "visualization", "jpeg"),
        (4, "uint8", rgba, "visualization", "webp"),
        (3, "uint8", rgb, "analysis", "deflate"),
        (3, "uint8", rgb | {"nodata": 0}, "visualization", "deflate"),
        (3, "uint16", rgb, "visualization", "deflate"),
        (1, "uint8", {}, "visualization", "deflate"),
        (3, "uint8", rgb, "archive", "zstd"),
    ):
        make(storage / "bronze" / "x.tif", ramp(bands, 600, 600, dtype), **options)
        output, path = made(task, tier=tier)
        assert output["compression"] == compression
        with rasterio.open(path) as dataset:
            assert dataset.count == bands
            is_same = numpy.array_equal(dataset.read(), ramp(bands, 600, 600, dtype))
            assert is_same is (compression not in ("jpeg", "webp"))


def test_nodata_can_be_declared(storage: Path, task: Task) -> None:
    pixels = ramp(1, 100, 100, "int16")
    make(storage / "bronze" / "x.tif", pixels)
    _, path = made(task, nodata=7)
    with rasterio.open(path) as dataset:
        assert dataset.nodata == 7
        assert numpy.array_equal(dataset.read(), pixels)
    with pytest.raises(Permanent, match="does not fit into int16") as failure:
        made(task, nodata=1e9)
    assert failure.value.code == "NODATA_OUT_OF_RANGE"


def test_a_raster_without_a_crs_needs_a_declared_one(storage: Path, task: Task) -> None:
    pixels = ramp(1, 100, 100, "int16")
    make(storage / "bronze" / "x.tif", pixels, crs=None, transform=PLACES["EPSG:4326"])
    with pytest.raises(Permanent, match="Declare it with source_crs") as failure:
        made(task)
    assert failure.value.code == "RASTER_NO_CRS"
    _, path = made(task, source_crs="EPSG:4326")
    with rasterio.open(path) as dataset:
        assert dataset.crs == "EPSG:4326"
        assert numpy.array_equal(dataset.read(), pixels)
    _, path = made(task, source_crs="EPSG:4326", crs="EPSG:3857")
    with rasterio.open(path) as dataset:
        assert dataset.crs == "EPSG:3857"


def test_a_place_outside_the_target_crs_is_reported(storage: Path, task: Task) -> None:
    make(
        storage / "bronze" / "x.tif",
        ramp(1, 50, 50, "int16"),
        "EPSG:4326",
        transform=rasterio.Affine(1, 0, 1e7, 0, -1, 1e7),
    )
    with pytest.raises(Permanent, match="cannot be reprojected from EPSG:4326 to EPSG:32630") as failure:
        made(task, crs="EPSG:32630")
    assert failure.value.code == "REPROJECTION_FAILED"


@pytest.mark.parametrize(
    "params", [{}, {"crs": "EPSG:4326", "resampling": "bilinear"}, {"tier": "archive", "crs": "EPSG:3857"}]
)
def test_the_same_input_gives_the_same_bytes(params: dict[str, Any], storage: Path, task: Task) -> None:
    """Twice in this process, and once in another."""
    make(storage / "bronze" / "x.tif", ramp(2, 700, 900, "float32"), nodata=-1)
    first, second = made(task, **params)[0]["sha256"], made(task, **params)[0]["sha256"]
    assert first == second == in_another_process(storage, params, "print(done.output['sha256'])")


def in_another_process(storage: Path, params: dict[str, Any], then: str, before: str = "") -> str:
    """The printed output of another process that makes a COG of bronze/x.tif."""
    script = f"""
import json, os, resource, signal
from pathlib import Path
from holdfast import Transient
from holdfast.apps.raster import cog
from holdfast.apps.raster.handlers import create_cog
from tests.apps.raster.making import Task
task = Task(Path({str(storage.parent)!r}))
{before}
done = create_cog("bronze/x.tif", "elsewhere/x.tif", ctx=task.attempt(), **json.loads({json.dumps(params)!r}))
{then}
"""
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def test_a_finished_cog_is_not_made_again(storage: Path, task: Task) -> None:
    make(storage / "bronze" / "x.tif", ramp(1, 100, 100, "int16"))
    task.dies_after = 1
    with pytest.raises(Died):
        create_cog("bronze/x.tif", "silver/x.tif", ctx=task.attempt())
    task.dies_after = None
    before = (storage / "silver" / "x.tif").stat().st_ino
    (storage / "bronze" / "x.tif").unlink()
    done = create_cog("bronze/x.tif", "silver/x.tif", ctx=task.attempt())
    assert (storage / "silver" / "x.tif").stat().st_ino == before
    assert done.output["sha256"] == sha256_of(storage / "silver" / "x.tif")
    (storage / "silver" / "x.tif").write_bytes(b"damaged")
    make(storage / "bronze" / "x.tif", ramp(1, 100, 100, "int16"))
    create_cog("bronze/x.tif", "silver/x.tif", ctx=task.attempt())
    assert done.output["sha256"] == sha256_of(storage / "silver" / "x.tif")


def test_a_full_disk_is_a_transient_failure_and_leaves_no_file(storage: Path, task: Task) -> None:
    make(storage / "bronze" / "x.tif", numpy.random.default_rng(1).integers(0, 30000, (1, 900, 900)).astype("int16"))
    limit = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    create_cog("bronze/x.tif", "full/x.tif", ctx=task.attempt())
except Transient as failure:
    print(failure.code, sorted(os.listdir(task._home / "storage" / "full")))
raise SystemExit
"""
    assert in_another_process(storage, {}, "", before=limit) == "WRITE_FAILED []"


def test_a_file_that_is_no_cog_is_refused(storage: Path) -> None:
    path = make(storage / "bronze" / "x.tif", ramp(1, 700, 700, "int16"))
    with pytest.raises(Permanent, match=r"is not a valid COG: .*not tiled") as failure:
        cog.check(path, "bronze/x.tif")
    assert failure.value.code == "COG_INVALID"


@IN_CHAOS
def test_a_cog_of_a_large_raster_needs_little_memory(storage: Path, task: Task) -> None:
    """768 MB of pixels, in at most 300 MB more than the process had before."""
    side, block = 8192, 2048
    profile = {"driver": "GTiff", "width": side, "height": side, "count": 3, "dtype": "float32", "tiled": True}
    place = {"crs": "EPSG:32630", "transform": PLACES["EPSG:32630"], "compress": "deflate", "zlevel": 1}
    pixels = numpy.zeros((3, block, block), "float32")
    with rasterio.open(storage / "bronze" / "x.tif", "w", blockxsize=512, blockysize=512, **profile | place) as dataset:
        for number, row in enumerate(range(0, side, block)):
            for column in range(0, side, block):
                pixels[:] = number
                dataset.write(pixels, window=rasterio.windows.Window(column, row, block, block))
    peak = "int([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0]) // 1024"
    before = f"""
import rio_cogeo.cogeo
baseline = {peak}
"""
    baseline, highest = map(int, in_another_process(storage, {}, f"print(baseline, {peak})", before).split())
    assert (storage / "elsewhere" / "x.tif").stat().st_size > 0
    assert highest - baseline < 300
