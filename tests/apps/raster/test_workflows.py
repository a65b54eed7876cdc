"""The app's workflows, run for real: every handler in its process, on a real Postgres."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
import rasterio
from rasterio.warp import transform_bounds
from rio_cogeo.cogeo import cog_validate

from holdfast import Workflow, load_file
from holdfast.apps import raster
from holdfast.apps.catalog.interface import all_items
from holdfast.apps.catalog.postgres import PostgresCatalog
from holdfast.apps.catalog.validating import check_item
from holdfast.apps.raster.storage import sha256_of
from holdfast.cli.app import execute
from holdfast.testing import run_workflow
from tests.apps.raster import killing
from tests.apps.raster.making import make, ramp
from tests.apps.raster.server import SIGNATURE, Files, serving

WORKFLOWS = Path(raster.__file__).parent / "workflows"


DATED = {"datetime": "2024-06-01T00:00:00Z"}


def registered(database_url: str, collection_id: str, job_id: str, node: str) -> list[dict[str, Any]]:
    """The items of a collection; checks that each is valid and was made by that node of that job."""
    items = list(all_items(PostgresCatalog(database_url), collections=[collection_id]))
    for item in items:
        check_item(item)
        made_by = item["properties"]["holdfast:job_id"], item["properties"]["holdfast:node"]
        assert made_by == (job_id, node)
    return items


def is_cog(path: Path) -> bool:
    return bool(cog_validate(path, strict=True, quiet=True)[0])


def test_every_workflow_is_valid() -> None:
    names = {load_file(file).workflow_id for file in WORKFLOWS.iterdir()}
    assert names == {"raster_ingest", "raster_process", "raster_validate_test"}


def test_a_small_raster_becomes_one_cog_and_its_signature_is_shown_nowhere(
    storage: Path, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path / "x.tif", ramp(1, 300, 400, "float32"), nodata=-1)
    with serving(Files(files={"/x.tif": source.read_bytes()}, signed=True)) as files:
        monkeypatch.setenv("HOLDFAST_RASTER_SOURCES", files.url)
        inputs = {"source": f"{files.url}/x.tif?{SIGNATURE}", "target": "silver/x", "crs": "EPSG:4326"} | DATED
        job = run_workflow(WORKFLOWS / "raster_ingest.yaml", inputs, database_url=database_url, timeout=120)
    assert job.status == "completed", job.error
    assert (job.nodes["scheme"]["status"], job.result["tiles"]) == ("skipped", None)
    assert job.result["validation"]["crs"] == "EPSG:32630"
    assert job.result["cog"]["crs"] == "EPSG:4326"
    assert is_cog(storage / job.result["cog"]["path"])
    assert list((storage / "scratch").iterdir()) == [], "the copy should be removed"
    item = job.result["item"]
    assert (item["collection_id"], item["item_id"], item["change"]) == ("rasters", "silver-x-cog", "created")
    assert "s3cr3t" not in json.dumps([job.result, job.outputs, job.events, job.nodes, job.error])


def test_one_cog_becomes_an_item_with_all_facts_of_its_file_and_the_properties_of_the_job(
    storage: Path, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = make(storage / "bronze" / "x.tif", ramp(2, 300, 400, "float32"), nodata=-1, names=["depth", "speed"])
    with rasterio.open(source, "r+") as dataset:
        dataset.update_tags(TIFFTAG_DATETIME="2023:07:05 12:30:00")
    foreign = {"platform:request_id": "req-7", "platform:dataset_id": 42, "title": "Depths of x"}
    inputs = {"source": "bronze/x.tif", "target": "silver/x", "properties": foreign}
    inputs |= {"collection": "depths", "collection_title": "Depths"}
    job = run_workflow(WORKFLOWS / "raster_ingest.yaml", inputs, database_url=database_url, timeout=120)
    assert job.status == "completed", job.error
    (item,) = registered(database_url, "depths", job.job_id, "register")
    path = storage / "silver" / "x" / "cog.tif"
    asset, properties = item["assets"]["data"], item["properties"]
    assert (asset["href"], asset["file:size"]) == ("silver/x/cog.tif", path.stat().st_size)
    assert properties["holdfast:content_hash"] == sha256_of(path)
    assert [(band["name"], band["data_type"], band["nodata"]) for band in asset["bands"]] == [
        ("depth", "float32", -1),
        ("speed", "float32", -1),
    ]
    assert properties["datetime"] == "2023-07-05T12:30:00Z"
    with rasterio.open(path) as dataset:
        assert properties["proj:code"] == "EPSG:32630"
        assert properties["proj:shape"] == list(dataset.shape)
        assert properties["proj:transform"] == list(dataset.transform)[:6]
        assert item["bbox"] == pytest.approx(transform_bounds(dataset.crs, "EPSG:4326", *dataset.bounds), abs=1e-5)
    (summary,) = PostgresCatalog(database_url).summaries(["depths"])
    assert (summary.collection["title"], summary.items) == ("Depths", 1)
    assert properties | foreign == properties
    capsys.readouterr()
    assert execute(["stac", "show", "silver-x-cog", "--database-url", database_url]) == 0
    assert "platform:request_id  req-7" in capsys.readouterr().out
    criteria = ["--external", "platform:request_id=req-7", "--external", "platform:dataset_id=42"]
    assert execute(["stac", "find", *criteria, "--json", "--database-url", database_url]) == 0
    assert [found["id"] for found in json.loads(capsys.readouterr().out)["items"]] == ["silver-x-cog"]


def test_a_raster_without_a_time_leaves_its_cog_and_the_error_asks_for_a_datetime(
    storage: Path, database_url: str
) -> None:
    make(storage / "bronze" / "x.tif", ramp(1, 300, 400, "uint8"))
    inputs = {"source": "bronze/x.tif", "target": "silver/x"}
    job = run_workflow(WORKFLOWS / "raster_ingest.yaml", inputs, database_url=database_url, timeout=120)
    assert (job.status, job.nodes["register"]["status"]) == ("partial", "failed")
    assert (storage / "scratch" / job.job_id / "x.tif").exists(), "a retry may need it"
    assert job.error is not None
    assert job.error["code"] == "STAC_INVALID"
    assert "datetime" in job.error["message"]
    assert is_cog(storage / "silver" / "x" / "cog.tif")
    assert list(all_items(PostgresCatalog(database_url))) == []


def test_a_raster_in_a_crs_without_a_number_is_registered(storage: Path, database_url: str) -> None:
    make(storage / "bronze" / "x.tif", ramp(1, 300, 400, "uint8"))
    crs = "+proj=laea +lat_0=5 +lon_0=-3 +datum=WGS84 +units=m"
    inputs = {"path": "bronze/x.tif", "target": "silver/x", "crs": crs} | DATED
    job = run_workflow(WORKFLOWS / "raster_process.yaml", inputs, database_url=database_url, timeout=120)
    assert job.status == "completed", job.error
    (item,) = registered(database_url, "rasters", job.job_id, "cogs")
    assert "proj:code" not in item["properties"]
    assert "Lambert" in item["properties"]["proj:wkt2"]


def test_a_large_raster_becomes_tiles(storage: Path, database_url: str) -> None:
    pixels = ramp(1, 600, 900, "int16")
    make(storage / "bronze" / "x.tif", pixels, nodata=-1)
    interval = {"start_datetime": "2024-01-01T00:00:00Z", "end_datetime": "2024-12-31T00:00:00Z"}
    inputs = {"source": "bronze/x.tif", "target": "silver/x", "tile_above_mb": 1, "tile_size_px": 512} | interval
    inputs |= {"properties": {"platform:request_id": "req-8"}}
    job = run_workflow(WORKFLOWS / "raster_ingest.yaml", inputs, database_url=database_url, timeout=120, concurrency=2)
    assert job.status == "completed", job.error
    assert (job.nodes["cog"]["status"], job.result["cog"]) == ("skipped", None)
    assert job.result["tiles"] == 4
    tiles = [storage / f"silver/x/tiles/tile_0000{number}.tif" for number in range(4)]
    assert all(is_cog(tile) for tile in tiles)
    with rasterio.open(tiles[3]) as dataset:
        assert numpy.array_equal(dataset.read(1), pixels[0, 512:, 512:])
    items = registered(database_url, "rasters", job.job_id, "tiles")
    assert [item["id"] for item in items] == [f"silver-x-tiles-tile_0000{n}" for n in range(4)]
    assert [item["properties"]["holdfast:content_hash"] for item in items] == [sha256_of(tile) for tile in tiles]
    expected = {"datetime": None, "platform:request_id": "req-8"} | interval
    assert all(item["properties"] | expected == item["properties"] for item in items)
    assert job.result["items"]["created"] == 4
    assert list((storage / "scratch").iterdir()) == []


def test_a_raster_is_processed_for_every_tier(storage: Path, database_url: str) -> None:
    make(storage / "bronze" / "x.tif", ramp(3, 300, 400, "uint8"), photometric="RGB")
    inputs: dict[str, Any] = {"path": "bronze/x.tif", "target": "silver/x", "tiers": ["visualization", "archive"]}
    inputs |= {"properties": {"platform:request_id": "req-9"}} | DATED
    job = run_workflow(WORKFLOWS / "raster_process.yaml", inputs, database_url=database_url, timeout=120, concurrency=2)
    assert job.status == "completed", job.error
    assert [cog["compression"] for cog in job.result["cogs"]] == ["jpeg", "zstd"]
    assert all(is_cog(storage / cog["path"]) for cog in job.result["cogs"])
    items = registered(database_url, "rasters", job.job_id, "cogs")
    assert [item["id"] for item in items] == ["silver-x-archive", "silver-x-visualization"]
    expected = {"platform:request_id": "req-9"} | DATED
    assert all(item["properties"] | expected == item["properties"] for item in items)
    assert job.result["items"]["created"] == 2


@pytest.mark.parametrize("workflow", ["raster_ingest", "raster_process"])
def test_properties_that_the_catalog_computes_are_refused_before_anything_is_made(
    storage: Path, database_url: str, workflow: str
) -> None:
    make(storage / "bronze" / "x.tif", ramp(1, 30, 40, "uint8"))
    place = {"raster_ingest": "source", "raster_process": "path"}[workflow]
    properties = {"platform:request_id": "req-7", "proj:code": "EPSG:4326"}
    inputs = {place: "bronze/x.tif", "target": "silver/x", "properties": properties} | DATED
    job = run_workflow(WORKFLOWS / f"{workflow}.yaml", inputs, database_url=database_url)
    assert (job.status, job.nodes["check"]["status"]) == ("failed", "failed")
    assert job.error is not None and job.error["code"] == "STAC_INVALID"
    assert "must not set 'proj:code': the catalog computes this itself" in job.error["message"]
    assert sorted(place.name for place in storage.iterdir()) == ["bronze"]


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


def test_killed_attempts_continue_from_their_checkpoints(storage: Path, database_url: str) -> None:
    """A copy and a task of several tiles are each killed by SIGKILL after their third checkpoint."""
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
    params: dict[str, Any] = {
        "tiles": "{{ nodes.scheme.output.tile_list }}",
        "path": "bronze/x.tif",
        "target": "silver/x",
    }
    flow.task("tiles", handler=killing.process_tile_batch, params=params, after="scheme")
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
