"""Workflow files that name params, outputs and results as other raster services do run as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import rasterio

import holdfast.apps.catalog.handlers as catalog_handlers
import holdfast.apps.raster.handlers as raster_handlers
from holdfast import InvalidInput, Permanent
from holdfast.apps.catalog import named_cogs
from holdfast.apps.catalog.interface import InvalidItem, all_items
from holdfast.apps.catalog.postgres import PostgresCatalog
from holdfast.apps.catalog.validating import check_item
from holdfast.apps.raster.handlers import (
    blob_to_mount,
    create_cog,
    generate_tiling_scheme,
    process_tile_batch,
    validate,
)
from holdfast.apps.raster.storage import sha256_of
from holdfast.define.registry import ContractViolation, Registry
from tests.apps.raster.making import Task, make, ramp
from tests.running import running, statuses

FLOW = """
workflow_id: named_otherwise
inputs:
  container_name: {type: string, required: true}
  blob_name: {type: string, required: true}
  collection_id: {type: string, required: true}
  input_crs: {type: string}
  raster_type: {type: string, default: auto}
  output_tier: {type: string, default: analysis}
  output_folder: {type: string}
  threshold_mb: {type: integer, default: 100}
  tile_size: {type: integer}
  item_id: {type: string}
  dataset_id: {type: string}
nodes:
  copy:
    handler: raster.blob_to_mount
    queue: container-tasks
    params: {blob_name: "{{ inputs.blob_name }}", container_name: "{{ inputs.container_name }}"}
    next: look
  look:
    handler: raster.validate
    params:
      local_path: "{{ nodes.copy.output.local_path }}"
      input_crs: "{{ inputs.input_crs | default('', true) }}"
      raster_type: "{{ inputs.raster_type }}"
      output_tier: "{{ inputs.output_tier }}"
    next: size
  size:
    type: conditional
    condition: "{{ nodes.look.output.estimated_compressed_mb > inputs.threshold_mb }}"
    branches: {true: cut, false: whole}
  whole:
    handler: raster.create_cog
    params:
      local_path: "{{ nodes.copy.output.local_path }}"
      validation: "{{ nodes.look.output }}"
      target_crs: EPSG:4326
      output_tier: "{{ inputs.output_tier }}"
      output_folder: "{{ inputs.output_folder }}"
    next: shelf
  shelf:
    handler: raster.stac_ensure_collection
    params:
      collection_id: "{{ inputs.collection_id }}"
      title: ""
      bounds: "{{ nodes.look.output.bounds }}"
      dataset_id: "{{ inputs.dataset_id }}"
      access_level: "{{ null }}"
    next: enter
  enter:
    handler: raster.stac_register_item
    params:
      cog_blob: "{{ nodes.whole.output.cog_blob }}"
      cog_container: "{{ nodes.whole.output.cog_container }}"
      validation: "{{ nodes.look.output }}"
      collection_id: "{{ inputs.collection_id }}"
      item_id: "{{ inputs.item_id }}"
      title: A map
      tags: [one, two]
      dataset_id: "{{ inputs.dataset_id }}"
      resource_id: ""
  cut:
    handler: raster.generate_tiling_scheme
    params:
      local_path: "{{ nodes.copy.output.local_path }}"
      validation: "{{ nodes.look.output }}"
      tile_size: "{{ inputs.tile_size }}"
      tile_overlap: 16
    next: pieces
  pieces:
    handler: raster.process_tile_batch
    params:
      local_path: "{{ nodes.copy.output.local_path }}"
      validation: "{{ nodes.look.output }}"
      tiling_scheme: "{{ nodes.cut.output }}"
      target_crs: EPSG:4326
      output_tier: "{{ inputs.output_tier }}"
      output_folder: "{{ inputs.output_folder }}"
    next: shelf_of_pieces
  shelf_of_pieces:
    handler: raster.stac_ensure_collection
    params:
      collection_id: "{{ inputs.collection_id }}"
      bounds: "{{ nodes.pieces.output.collection_bounds }}"
      grid_dimensions: "{{ nodes.cut.output.grid_dimensions }}"
      is_tiled: true
    next: enter_all
  enter_all:
    handler: raster.stac_register_items
    params:
      tile_cogs: "{{ nodes.pieces.output.tile_cogs }}"
      cog_container: "{{ nodes.pieces.output.cog_container }}"
      validation: "{{ nodes.look.output }}"
      collection_id: "{{ inputs.collection_id }}"
      tags: null
      version_id: v1
result:
  item: "{{ nodes.enter.output }}"
  items: "{{ nodes.enter_all.output }}"
"""


def handlers() -> Registry:
    known = Registry()
    known.add_module(raster_handlers)
    known.add_module(catalog_handlers)
    return known


@pytest.mark.anyio
async def test_one_cog_and_tiles_are_made_and_registered_under_other_names(storage: Path, database_url: str) -> None:
    """The raster has neither a CRS nor a time: the job declares the one, and the other is that of the registration."""
    make(
        storage / "raw-rasters" / "in" / "x.tif",
        ramp(1, 700, 1100, "int16"),
        crs=None,
        transform=rasterio.Affine(30, 0, 500_000, 0, -30, 700_000),
    )
    inputs = {"container_name": "raw-rasters", "blob_name": "in/x.tif", "input_crs": "EPSG:32630"}
    inputs |= {"dataset_id": "ds-7", "raster_type": "dem", "output_folder": "maps/2024"}
    catalog = PostgresCatalog(database_url)
    async with running(database_url, handlers()) as engine:
        status = await engine.finished(await engine.submit(FLOW, inputs | {"collection_id": "whole"}), 120)
        assert status["status"] == "completed", status["error"]
        tiled = inputs | {"collection_id": "tiles", "threshold_mb": 0, "tile_size": 512}
        pieces = await engine.finished(await engine.submit(FLOW, tiled), 120)
        assert pieces["status"] == "completed", pieces["error"]
        (item,) = all_items(catalog, collections=["whole"])
        again = await engine.finished(
            await engine.submit(FLOW, inputs | {"collection_id": "whole", "item_id": item["id"]}), 120
        )
    assert again["result"]["item"]["change"] == "unchanged", "the time of the first registration stays"
    assert statuses(status)["cut"] == statuses(pieces)["whole"] == "skipped"

    check_item(item)
    cog = storage / "silver-cogs/maps/2024/x_cog.tif"
    asset, properties = item["assets"]["data"], item["properties"]
    assert (asset["href"], asset["file:size"]) == ("silver-cogs/maps/2024/x_cog.tif", cog.stat().st_size)
    expected = {"platform:dataset_id": "ds-7", "title": "A map", "keywords": ["one", "two"]}
    assert properties | expected | {"holdfast:content_hash": sha256_of(cog)} == properties
    assert "platform:resource_id" not in properties and properties["datetime"]
    with rasterio.open(cog) as dataset:
        assert dataset.crs.to_epsg() == 4326
        assert item["bbox"] == pytest.approx(dataset.bounds, abs=0.001)

    items = list(all_items(catalog, collections=["tiles"]))
    assert pieces["result"]["items"]["item_ids"] == [one["id"] for one in items] and len(items) == 6
    assert {one["properties"]["platform:version_id"] for one in items} == {"v1"}
    for one in items:
        check_item(one)
        with rasterio.open(storage / one["assets"]["data"]["href"]) as dataset:
            assert one["properties"]["proj:shape"] == list(dataset.shape)
            assert dataset.crs.to_epsg() == 4326
    (summary,) = catalog.summaries(["whole"])
    assert summary.collection["platform:dataset_id"] == "ds-7"


def test_handlers_take_either_name_and_give_the_outputs_under_both(storage: Path, task: Task) -> None:
    make(storage / "bronze" / "x.tif", ramp(3, 600, 600, "uint8"), photometric="RGB")
    copied = blob_to_mount(container_name="bronze", blob_name="x.tif", target="scratch/x.tif", ctx=task.attempt())
    assert copied is not None
    assert copied["local_path"] == copied["path"] == "scratch/x.tif"
    assert (copied["container_name"], copied["blob_name"]) == ("bronze", "x.tif")
    task.saved.clear()
    names: dict[str, Any] = {"local_path": "scratch/x.tif", "input_crs": "", "output_tier": "analysis"}
    seen = validate(**names, raster_type="rgb", storage_account="", ctx=task.attempt())
    ours = validate("scratch/x.tif", tier="analysis", ctx=task.attempt())
    picture = validate("scratch/x.tif", tier="visualization", ctx=task.attempt())
    assert seen is not None and ours is not None and picture is not None
    assert seen.output == ours.output
    assert (seen.output["source_crs"], seen.output["crs_source"]) == ("EPSG:32630", "file_metadata")
    assert seen.output["applicable_tiers"] == ["visualization", "analysis", "archive"]
    assert seen.output["estimated_compressed_mb"] == seen.output["estimated_output_mb"]
    assert seen.output["compression_profile"] == {"compression": "deflate"}
    assert picture.output["compression_profile"] == {"compression": "jpeg"}
    assert picture.output["estimated_compressed_mb"] != seen.output["estimated_compressed_mb"]
    made = create_cog(blob_path="scratch/x.tif", target_crs="EPSG:4326", validation=seen.output, ctx=task.attempt())
    assert (made.output["cog_container"], made.output["cog_blob"]) == ("silver-cogs", "x_cog.tif")
    assert made.output["file_checksum"] == "1220" + sha256_of(storage / "silver-cogs" / "x_cog.tif")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, r"'path' \(also called 'local_path', 'blob_path'\) is missing"),
        ({"path": "", "local_path": None}, "is refused"),
        ({"path": "bronze/x.tif", "local_path": "bronze/y.tif"}, "two values for 'path'"),
        ({"local_path": "bronze/x.tif", "blob_path": "bronze/y.tif"}, "'bronze/x.tif' and 'bronze/y.tif'"),
        ({"path": "bronze/x.tif", "source_crs": "EPSG:4326", "input_crs": "EPSG:3857"}, "two values for 'source_crs'"),
        ({"path": "bronze/x.tif", "storage_account": "maps"}, "cannot choose the account"),
        ({"path": "bronze/x.tif", "raster_type": "rgb"}, "it has 1 band of uint8, which makes it"),
        ({"path": "bronze/x.tif", "raster_type": "lidar"}, "not a type of raster. Use auto"),
    ],
)
def test_params_that_contradict_each_other_or_the_raster_are_refused(
    storage: Path, task: Task, params: dict[str, Any], message: str
) -> None:
    make(storage / "bronze" / "x.tif", ramp(1, 30, 40, "uint8"))
    with pytest.raises(Permanent, match=message) as refused:
        validate(**params, ctx=task.attempt())
    assert refused.value.code in ("PARAMS_REFUSED", "RASTER_TYPE_MISMATCH", "PATH_REFUSED")


def test_the_same_value_under_both_names_is_accepted(storage: Path, task: Task) -> None:
    make(storage / "bronze" / "x.tif", ramp(1, 30, 40, "uint8"))
    same = {"path": "bronze/x.tif", "local_path": "bronze/x.tif", "blob_path": "bronze/x.tif"}
    assert validate(**same, raster_type="categorical", ctx=task.attempt()) is not None


def test_a_source_and_a_target_are_named_in_one_way_only(storage: Path, task: Task) -> None:
    make(storage / "bronze" / "x.tif", ramp(1, 30, 40, "uint8"))
    twice = {"source": "https://maps.example/x.tif?sig=s3cr3t", "container_name": "c", "blob_name": "d"}
    ways: list[dict[str, Any]] = [{}, {"container_name": "bronze"}, twice]
    for params in ways:
        with pytest.raises(Permanent) as refused:
            blob_to_mount(**params, ctx=task.attempt())
        assert refused.value.code == "PARAMS_REFUSED" and "s3cr3t" not in str(refused.value)
    with pytest.raises(Permanent, match="not both"):
        create_cog("bronze/x.tif", "silver/x.tif", output_folder="maps", ctx=task.attempt())
    with pytest.raises(Permanent, match="is refused"):
        create_cog("bronze/x.tif", output_folder="../maps", ctx=task.attempt())
    scheme = generate_tiling_scheme("bronze/x.tif", tile_size=16, validation={})
    assert (scheme["tile_count"], scheme["grid_dimensions"]) == (6, {"rows": 2, "cols": 3})
    for tiles, given in ((None, None), (scheme["tile_list"], scheme), (None, {"tiles": []})):
        with pytest.raises(Permanent) as refused:
            process_tile_batch("bronze/x.tif", "silver/x", tiles, given, ctx=task.attempt())
        assert refused.value.code == "TILES_REFUSED"


def test_workers_know_the_further_names_and_no_others() -> None:
    known = {one.name: one for one in handlers()}
    params = {"local_path": "a/b", "input_crs": None}
    assert known["raster.validate"].arguments(params) == params
    with pytest.raises(ContractViolation, match="did you mean 'local_path'"):
        known["raster.validate"].arguments({"lokal_path": "a/b"})
    with pytest.raises(ContractViolation, match="local_path"):
        known["raster.validate"].arguments({"local_path": 5})


def test_a_property_has_one_value() -> None:
    named = named_cogs.platform(dataset_id="7", resource_id="", version_id=None)
    assert named_cogs.properties_named({"a": 1}, title="", **named) == {"a": 1, "platform:dataset_id": "7"}
    assert named_cogs.properties_named({"platform:dataset_id": "7"}, **named) == {"platform:dataset_id": "7"}
    with pytest.raises(InvalidInput, match="two values for the property platform:dataset_id"):
        named_cogs.properties_named({"platform:dataset_id": "8"}, **named)


def test_a_tile_without_facts_or_in_another_container_is_refused() -> None:
    for tile, container in (({"tile_id": "a"}, None), ({"id": "a", "path": "silver/a.tif"}, "gold")):
        with pytest.raises(InvalidItem):
            named_cogs.facts_of_tile(tile, container)


@pytest.mark.parametrize(
    "name", ["https://u:s3cr3t@example.com/x.tif?sig=s3cr3t", "/vsicurl/https://example.com/x.tif", "/vsiaz/maps/x.tif"]
)
def test_addresses_and_virtual_paths_are_not_opened_and_their_secrets_not_shown(
    storage: Path, task: Task, name: str
) -> None:
    with pytest.raises(Permanent, match=r"Copy it with raster\.blob_to_mount first") as refused:
        validate(blob_path=name, ctx=task.attempt())
    assert refused.value.code == "PATH_REFUSED" and "s3cr3t" not in str(refused.value)
