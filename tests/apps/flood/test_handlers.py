"""The handlers in a real workflow on a real Postgres, with real files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rasterio
from PIL import Image

import holdfast.apps.flood as flood
from holdfast import Context, Permanent, load_file
from holdfast.testing import JobResult, run_workflow_async

pytestmark = pytest.mark.anyio
MERGE = Path(flood.__file__).with_name("flood_merge.yaml")
HANDLERS: list[Callable[..., Any]] = [flood.inventory, flood.band_stack, flood.merge, flood.quicklook]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def run(database_url: str, **inputs: Any) -> JobResult:
    return await run_workflow_async(
        load_file(MERGE), {"region": "CIV", **inputs}, handlers=HANDLERS, database_url=database_url, timeout=120
    )


async def test_tiles_become_stacks_mosaics_and_pictures(home: Path, database_url: str) -> None:
    job = await run(database_url)
    assert job.status == "completed", job.error
    storage = home / "storage"
    assert job.result["stacks"] == 8
    assert [mosaic["scenario"] for mosaic in job.result["mosaics"]] == ["fluvial_undefended", "pluvial_defended"]
    for mosaic in job.result["mosaics"]:
        assert mosaic["stack_count"] == 4
        with rasterio.open(storage / mosaic["href"]) as file:
            assert file.descriptions == ("rp0010", "rp0100", "rp1000")
    for picture in job.outputs["look"].values():
        with Image.open(storage / picture["href"]) as image:
            assert list(image.size) == picture["size"]
    assert len(list((storage / "silver/flood/CIV").rglob("*.tif"))) == 8
    assert not list(storage.rglob(".*.part*"))

    again = await run(database_url)
    assert [mosaic["reused"] for mosaic in again.result["mosaics"]] == [True, True]
    assert [mosaic["sha256"] for mosaic in again.result["mosaics"]] == [
        mosaic["sha256"] for mosaic in job.result["mosaics"]
    ]


async def test_a_bad_tile_fails_its_item_with_its_name_and_the_others_are_made(home: Path, database_url: str) -> None:
    bad = sorted((home / "storage/bronze/flood/CIV/pluvial_defended").glob("*_RP0100.tif"))[0]
    bad.write_bytes(bad.read_bytes()[:3000])
    job = await run(database_url)
    assert job.status == "failed"
    assert job.error is not None
    assert job.error["code"] == "RASTER_CORRUPTED"
    assert f"CIV/pluvial_defended/{bad.name}" in job.error["message"]
    assert len(list((home / "storage/silver/flood/CIV").rglob("*.tif"))) == 7


def test_an_inventory_reads_the_expected_groups_from_a_file(home: Path, log: Context) -> None:
    place = sorted((home / "storage/bronze/flood/CIV/pluvial_defended").glob("*_RP0100.tif"))[0].name.split("_")[0]
    for path in (home / "storage/bronze/flood/CIV/pluvial_defended").glob(f"{place}_*"):
        path.unlink()
    output = flood.inventory("CIV", "bronze/flood", "bronze/flood/CIV/manifest.json", ctx=log)
    assert output["missing_groups"]["names"] == [f"CIV/pluvial_defended/{place}"]


@pytest.mark.parametrize("path", ["/etc", "../other", "bronze/../../x"])
def test_a_path_that_leads_out_of_the_storage_is_refused(home: Path, log: Context, path: str) -> None:
    with pytest.raises(Permanent, match="is refused"):
        flood.inventory("CIV", path, ctx=log)


def test_a_merge_needs_stacks_or_a_node(home: Path, log: Context) -> None:
    with pytest.raises(Permanent, match="either `stacks` or the `node`"):
        flood.merge("gold/x.tif", ctx=log)


def test_importing_holdfast_brings_no_raster_library() -> None:
    code = (
        "import sys, holdfast, holdfast.apps; holdfast.handler; print({'numpy', 'rasterio', 'PIL'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


def test_without_the_extra_the_app_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['rasterio'] = None; import holdfast.apps.flood"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "needs rasterio: install with pip install 'holdfast[geo]'" in answer.stderr
