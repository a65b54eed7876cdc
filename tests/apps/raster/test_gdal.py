"""Opening rasters with GDAL: what a hostile file must not achieve."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rasterio
from rasterio.shutil import copy

from holdfast import Permanent
from holdfast.apps.raster import gdal
from holdfast.apps.raster.handlers import create_cog, validate
from tests.apps.raster.making import Task, bomb, make, ramp
from tests.apps.raster.server import Files, serving

VRT = """<VRTDataset rasterXSize="64" rasterYSize="64"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>
<SourceFilename relativeToVRT="0">{}</SourceFilename><SourceBand>1</SourceBand></SimpleSource></VRTRasterBand>
</VRTDataset>"""


def refusal(name: str, task: Task) -> Permanent:
    """The error for a raster; every handler that reads it gives the same code."""
    with pytest.raises(Permanent) as first:
        validate(name, ctx=task.attempt())
    with pytest.raises(Permanent) as second:
        create_cog(name, "silver/x.tif", ctx=task.attempt())
    assert first.value.code == second.value.code
    assert str(task._home) not in str(first.value) + str(second.value), "an error must not show paths of this machine"
    assert list((task._home / "storage" / "silver").iterdir()) == []
    return first.value


@pytest.fixture(autouse=True)
def silver(storage: Path) -> None:
    (storage / "silver").mkdir()


def test_an_empty_file_is_corrupted(storage: Path, task: Task) -> None:
    (storage / "bronze" / "x.tif").write_bytes(b"")
    assert refusal("bronze/x.tif", task).code == "RASTER_CORRUPTED"


@pytest.mark.parametrize("content", [b"not a raster at all", b"II", b"PK\3\4", b"%PDF-1.7", b"GIF89a", b"\x89HDF\r\n"])
def test_a_file_that_is_no_raster_is_unsupported_whatever_its_name(content: bytes, storage: Path, task: Task) -> None:
    (storage / "bronze" / "x.tif").write_bytes(content)
    assert refusal("bronze/x.tif", task).code == "RASTER_UNSUPPORTED"


def test_a_vrt_that_points_to_a_file_is_not_opened(storage: Path, task: Task) -> None:
    secret = make(storage.parent / "secret.tif", ramp(1, 64, 64, "uint8"))
    for name, target in (("x.tif", secret), ("y.vrt", secret), ("z.tif", "/etc/passwd")):
        (storage / "bronze" / name).write_text(VRT.format(target))
        assert refusal(f"bronze/{name}", task).code == "RASTER_UNSUPPORTED"


def test_a_vrt_that_points_to_the_network_sends_no_request(storage: Path, task: Task) -> None:
    with serving(Files(files={"/x.tif": b""})) as files:
        (storage / "bronze" / "x.tif").write_text(VRT.format(f"/vsicurl/{files.url}/x.tif"))
        assert refusal("bronze/x.tif", task).code == "RASTER_UNSUPPORTED"
        assert files.asked == []


def test_gdal_itself_reaches_no_network() -> None:
    """The second defence: even a special path of GDAL, which no user can enter, downloads nothing."""
    with serving(Files(files={"/x.tif": b"II*\0"})) as files, gdal.confined():
        with pytest.raises(rasterio.errors.RasterioIOError):
            rasterio.open(f"/vsicurl/{files.url}/x.tif")
        assert files.asked == []


@pytest.mark.parametrize(
    ("driver", "world"), [("GTiff", "tfw"), ("PNG", "pgw"), ("JPEG", "jgw"), ("JP2OpenJPEG", "j2w")]
)
def test_files_beside_a_raster_are_not_read(driver: str, world: str, storage: Path, task: Task) -> None:
    make(storage / "plain.tif", ramp(1, 64, 64, "uint8"), crs=None)
    with gdal.confined(), rasterio.open(storage / "plain.tif") as source:
        copy(source, storage / "bronze" / "x.tif", driver=driver)
    (storage / "bronze" / "x.tif.aux.xml").write_text("<PAMDataset><SRS>EPSG:4326</SRS></PAMDataset>")
    for ending in (world, "wld", "tifw"):
        (storage / "bronze" / f"x.{ending}").write_text("30\n0\n0\n-30\n500000\n700000\n")
    result = validate("bronze/x.tif", ctx=task.attempt())
    assert result is not None
    assert result.output["crs"] is None
    assert "no georeference: the place of the pixels on the earth is unknown" in result.output["warnings"]


def test_a_decompression_bomb_is_refused_by_its_header(storage: Path, task: Task) -> None:
    bomb(storage / "bronze" / "x.tif", side=100_000, rows_per_strip=100_000)
    assert (storage / "bronze" / "x.tif").stat().st_size < 1024
    assert refusal("bronze/x.tif", task).code == "RASTER_TOO_LARGE"


def test_each_limit_holds_by_itself(storage: Path) -> None:
    path = make(storage / "bronze" / "x.tif", ramp(3, 256, 256, "uint8"), tiled=True, blockxsize=128, blockysize=128)
    with gdal.confined(), rasterio.open(path) as dataset:
        gdal.check_limits(dataset, path.stat().st_size, "x", gdal.LIMITS)
        for limits, words in (
            (gdal.Limits(pixels=65_535), "65,536 pixels"),
            (gdal.Limits(bands=2), "3 bands"),
            (gdal.Limits(decoded_bytes=196_607), "196,608 bytes when decoded"),
            (gdal.Limits(block_bytes=49_151), "49,152 bytes in its largest block"),
            (gdal.Limits(small_bytes=1, expansion=10), "which is not credible for 1,000 bytes of file"),
        ):
            with pytest.raises(Permanent, match=words) as refusal:
                gdal.check_limits(dataset, 1000, "x", limits)
            assert refusal.value.code == "RASTER_TOO_LARGE"


@pytest.mark.parametrize("layout", [{}, {"tiled": True, "blockxsize": 128, "blockysize": 128, "compress": "deflate"}])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_a_truncated_raster_is_detected(layout: dict[str, Any], share: float, storage: Path, task: Task) -> None:
    whole = make(storage / "bronze" / "whole.tif", ramp(2, 500, 700, "int16"), **layout)
    # A COG has its header first: a truncated one can still be opened.
    create_cog("bronze/whole.tif", "gold/cog.tif", ctx=task.attempt())
    task.saved.clear()
    for source in (whole, storage / "gold" / "cog.tif"):
        content = source.read_bytes()
        (storage / "bronze" / "x.tif").write_bytes(content[: int(len(content) * share)])
        assert refusal("bronze/x.tif", task).code == "RASTER_CORRUPTED"


def test_the_last_block_of_a_large_raster_is_read_too(storage: Path, task: Task) -> None:
    """The raster is read in several windows, and its last few bytes are missing."""
    make(storage / "bronze" / "whole.tif", ramp(1, 3000, 3000, "int16"))
    create_cog("bronze/whole.tif", "gold/cog.tif", ctx=task.attempt())
    content = (storage / "gold" / "cog.tif").read_bytes()
    (storage / "bronze" / "x.tif").write_bytes(content[:-20])
    with pytest.raises(Permanent) as refused:
        validate("bronze/x.tif", ctx=task.attempt())
    assert refused.value.code == "RASTER_CORRUPTED"


def test_the_error_has_the_useful_part_of_gdals_message(storage: Path, task: Task) -> None:
    make(storage / "bronze" / "whole.tif", ramp(1, 700, 700, "int16"))
    create_cog("bronze/whole.tif", "gold/cog.tif", ctx=task.attempt())
    content = (storage / "gold" / "cog.tif").read_bytes()
    (storage / "bronze" / "x.tif").write_bytes(content[: len(content) - 500])
    with pytest.raises(Permanent, match=r"bronze/x\.tif begins as GTiff but cannot be read: .*IReadBlock failed"):
        validate("bronze/x.tif", ctx=task.attempt())


@pytest.mark.parametrize("driver", ["PNG", "JPEG", "JP2OpenJPEG"])
def test_other_formats_are_read_by_their_own_driver(driver: str, storage: Path, task: Task) -> None:
    make(storage / "bronze" / "x.tif", ramp(3, 600, 300, "uint8"))
    with rasterio.open(storage / "bronze" / "x.tif") as source:
        copy(source, storage / "bronze" / "x.dat", driver=driver)
    result = validate("bronze/x.dat", source_crs="EPSG:4326", ctx=task.attempt())
    assert result is not None
    assert (result.output["driver"], result.output["width"]) == (driver, 300)
    assert any(f"the file is {driver}" in warning for warning in result.output["warnings"])
    content = (storage / "bronze" / "x.dat").read_bytes()
    (storage / "bronze" / "y.dat").write_bytes(content[: len(content) // 2])
    with pytest.raises(Permanent) as refused:
        validate("bronze/y.dat", ctx=task.attempt())
    assert refused.value.code == "RASTER_CORRUPTED"


def test_windows_cover_every_pixel_once(storage: Path) -> None:
    layouts: list[dict[str, Any]] = [{}, {"tiled": True, "blockxsize": 64, "blockysize": 32}]
    for number, layout in enumerate(layouts):
        path = make(storage / "bronze" / f"{number}.tif", ramp(2, 200, 300, "float32"), **layout)
        with rasterio.open(path) as dataset:
            for budget in (1, 10_000, 100_000, 10_000_000):
                seen = ramp(1, 200, 300, "uint8") * 0
                for window in gdal.windows(dataset, budget):
                    rows, columns = window.toslices()
                    seen[0, rows, columns] += 1
                assert seen.min() == seen.max() == 1


def test_handlers_can_be_listed_without_the_libraries_and_say_what_is_missing(storage: Path) -> None:
    script = """
import sys
import holdfast.apps.raster.handlers as handlers
from holdfast import Permanent
loaded = {name.partition(".")[0] for name in sys.modules} & {"numpy", "rasterio", "rio_cogeo", "obstore", "pystac"}
sys.modules["rasterio"] = None
try:
    handlers.generate_tiling_scheme("bronze/x.tif")
except Permanent as failure:
    print(sorted(loaded), failure.code, failure)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[] EXTRA_MISSING Raster handlers need the library rasterio")
    assert "pip install 'holdfast[geo]'" in done.stdout


def test_no_other_module_opens_rasters() -> None:
    """Only gdal.py opens rasters; cog_validate gets files that gdal.py has opened before."""
    app = Path(gdal.__file__).parent
    opening = {
        file.name
        for file in app.glob("*.py")
        if "rasterio.open" in file.read_text() or "MemoryFile" in file.read_text()
    }
    assert opening == {"gdal.py"}


@pytest.mark.parametrize(("containers", "has_network"), [("", False), ("silver=s3://maps", True)])
def test_handlers_have_network_and_credentials_only_if_containers_are_in_object_stores(
    containers: str, has_network: bool
) -> None:
    program = """
from holdfast.apps.raster import handlers
from holdfast.define.registry import Registry
registry = Registry()
registry.add_module(handlers)
print(sorted({(known.network, "AWS_*" in known.environment) for known in registry if known.isolation == "process"}))
"""
    environment = os.environ | {"HOLDFAST_RASTER_CONTAINERS": containers}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"[({has_network}, {has_network})]"
