"""The workflows that come with it, run for real: every handler in its process, on a real Postgres."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
import rasterio
from rio_cogeo.cogeo import cog_validate

from holdfast import Workflow, load_file
from holdfast.apps import raster
from holdfast.testing import run_workflow
from tests.apps.raster import killing
from tests.apps.raster.making import make, ramp
from tests.apps.raster.server import SIGNATURE, Files, serving

WORKFLOWS = Path(raster.__file__).parent / "workflows"


def is_cog(path: Path) -> bool:
    return bool(cog_validate(path, strict=True, quiet=True)[0])


def test_every_workflow_is_valid() -> None:
    names = {load_file(file).workflow_id for file in WORKFLOWS.iterdir()}
    assert names == {"raster_ingest", "raster_process", "raster_validate_test"}


def test_a_small_raster_becomes_one_cog_and_its_signature_is_told_nowhere(
    storage: Path, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path / "x.tif", ramp(1, 300, 400, "float32"), nodata=-1)
    with serving(Files(files={"/x.tif": source.read_bytes()}, signed=True)) as files:
        monkeypatch.setenv("HOLDFAST_RASTER_SOURCES", files.url)
        inputs = {"source": f"{files.url}/x.tif?{SIGNATURE}", "target": "silver/x", "crs": "EPSG:4326"}
        job = run_workflow(WORKFLOWS / "raster_ingest.yaml", inputs, database_url=database_url, timeout=120)
    assert job.status == "completed", job.error
    assert (job.nodes["scheme"]["status"], job.result["tiles"]) == ("skipped", None)
    assert job.result["validation"]["crs"] == "EPSG:32630"
    assert job.result["cog"]["crs"] == "EPSG:4326"
    assert is_cog(storage / job.result["cog"]["path"])
    assert "s3cr3t" not in json.dumps([job.result, job.outputs, job.events, job.nodes, job.error])


def test_a_large_raster_becomes_tiles(storage: Path, database_url: str) -> None:
    pixels = ramp(1, 600, 900, "int16")
    make(storage / "bronze" / "x.tif", pixels, nodata=-1)
    inputs = {"source": "bronze/x.tif", "target": "silver/x", "tile_above_mb": 1, "tile_size_px": 512}
    job = run_workflow(WORKFLOWS / "raster_ingest.yaml", inputs, database_url=database_url, timeout=120, concurrency=2)
    assert job.status == "completed", job.error
    assert (job.nodes["cog"]["status"], job.result["cog"]) == ("skipped", None)
    tiles = job.result["tiles"]["results"]
    assert [tile["path"] for tile in tiles] == [f"silver/x/tiles/tile_0000{n}.tif" for n in range(4)]
    assert all(is_cog(storage / tile["path"]) for tile in tiles)
    with rasterio.open(storage / tiles[3]["path"]) as dataset:
        assert numpy.array_equal(dataset.read(1), pixels[0, 512:, 512:])


def test_a_raster_is_processed_for_every_tier(storage: Path, database_url: str) -> None:
    make(storage / "bronze" / "x.tif", ramp(3, 300, 400, "uint8"), photometric="RGB")
    inputs = {"path": "bronze/x.tif", "target": "silver/x", "tiers": ["visualization", "archive"]}
    job = run_workflow(WORKFLOWS / "raster_process.yaml", inputs, database_url=database_url, timeout=120, concurrency=2)
    assert job.status == "completed", job.error
    assert [cog["compression"] for cog in job.result["cogs"]] == ["jpeg", "zstd"]
    assert all(is_cog(storage / cog["path"]) for cog in job.result["cogs"])


def test_a_bad_raster_fails_its_job_at_once_and_says_why(storage: Path, database_url: str) -> None:
    make(storage / "bronze" / "x.tif", ramp(1, 300, 400, "uint8"))
    content = (storage / "bronze" / "x.tif").read_bytes()
    (storage / "bronze" / "x.tif").write_bytes(content[: len(content) // 2])
    inputs = {"path": "bronze/x.tif"}
    job = run_workflow(WORKFLOWS / "raster_validate_test.yaml", inputs, database_url=database_url, timeout=120)
    assert job.status == "failed"
    assert job.error is not None
    assert (job.error["code"], job.error["class"]) == ("RASTER_CORRUPTED", "permanent")
    assert job.nodes["validate"]["attempt"] == 1


def test_what_was_killed_goes_on_where_it_was(storage: Path, database_url: str) -> None:
    """Both a copy and a batch of tiles die by SIGKILL after their third checkpoint."""
    pixels = ramp(1, 700, 1100, "int16")
    make(storage / "bronze" / "x.tif", pixels, nodata=-1)
    (storage / "bronze" / "x.bin").write_bytes(bytes(range(256)) * 20_000)
    flow = Workflow("killed")
    flow.task("mount", handler=killing.blob_to_mount, params={"source": "bronze/x.bin", "target": "scratch/x.bin"})
    flow.task(
        "scheme",
        handler="raster.generate_tiling_scheme",
        params={"path": "bronze/x.tif", "tile_size_px": 512},
        after="mount",
    )
    given: dict[str, Any] = {
        "tiles": "{{ nodes.scheme.output.tile_list }}",
        "path": "bronze/x.tif",
        "target": "silver/x",
    }
    flow.task("tiles", handler=killing.process_tile_batch, params=given, after="scheme")
    job = run_workflow(
        flow, handlers=[killing.blob_to_mount, killing.process_tile_batch], database_url=database_url, timeout=120
    )
    assert job.status == "completed", job.error
    assert (job.nodes["mount"]["attempt"], job.nodes["tiles"]["attempt"]) == (2, 2)
    assert job.outputs["mount"]["resumed_from"] == 3 * 1024 * 1024
    assert (storage / "scratch" / "x.bin").read_bytes() == (storage / "bronze" / "x.bin").read_bytes()
    assert (job.outputs["tiles"]["count"], job.outputs["tiles"]["resumed_with"]) == (6, 3)
    assert all(is_cog(storage / tile["path"]) for tile in job.outputs["tiles"]["results"])
    assert [file.name for file in storage.rglob(".*")] == []
