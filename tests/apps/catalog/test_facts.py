"""Items from the facts of a raster file, checked against the schemas on this machine."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from holdfast.apps.catalog.extensions import FILE, PROJECTION, RASTER
from holdfast.apps.catalog.facts import COG, item_from_facts
from holdfast.apps.catalog.interface import InvalidItem
from holdfast.apps.catalog.validating import as_current, check_item, unchecked
from tests.apps.catalog.conftest import facts, item, sha256


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("it asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_an_item_contains_the_facts() -> None:
    made = item(7, job_id="j", node="n", title="Tile 7")
    check_item({**made, "collection": "floods"})
    assert made["bbox"] == [-163, -20, -162, -19]
    assert made["stac_extensions"] == [FILE, PROJECTION]
    properties = made["properties"]
    assert (properties["proj:code"], properties["proj:shape"]) == ("EPSG:4326", [3600, 3600])
    assert properties["proj:bbox"] == [-163, -20, -162, -19]
    assert (properties["holdfast:job_id"], properties["holdfast:node"]) == ("j", "n")
    assert properties["holdfast:content_hash"] == sha256(7)
    assert properties["platform:dataset_id"] == 7
    asset = made["assets"]["data"]
    assert (asset["href"], asset["type"], asset["title"]) == ("floods/tile-0007.tif", COG, "Tile 7")
    assert (asset["file:size"], asset["file:checksum"]) == (1007, "1220" + sha256(7))
    assert asset["bands"][0] == {
        "name": "rp10",
        "data_type": "float32",
        "nodata": -9999.0,
        "statistics": {"minimum": 0, "maximum": 2.5},
    }


def test_the_geometry_of_a_raster_across_the_antimeridian_is_split() -> None:
    made = item(1, bounds=[179.5, -20, 180.5, -19])
    check_item(made)
    assert made["bbox"] == [179.5, -20, -179.5, -19]
    assert made["geometry"]["type"] == "MultiPolygon"
    assert made["properties"]["proj:bbox"] == [179.5, -20, 180.5, -19]


def test_half_a_pixel_beyond_a_pole_is_clipped() -> None:
    assert item(1, bounds=[-180.1, -90.1, 179.9, 90.1])["bbox"] == [-180, -90, 180, 90]


def test_a_projected_raster_needs_its_bbox_in_degrees() -> None:
    projected = {"crs": "EPSG:32630", "bounds": [500_000, 0, 600_000, 100_000]}
    with pytest.raises(InvalidItem, match=r"Item tile-0001 .*EPSG:32630"):
        item(1, **projected)
    made = item(1, **projected, bbox=[-3, 0, -2, 1])
    check_item(made)
    assert (made["bbox"], made["properties"]["proj:bbox"]) == ([-3, 0, -2, 1], projected["bounds"])
    triangle = {"type": "Polygon", "coordinates": [[[-3, 0], [-2, 0], [-2, 1], [-3, 0]]]}
    assert item(1, **projected, geometry=triangle)["bbox"] == [-3, 0, -2, 1]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": None}, "its facts have no 'id'"),
        ({"path": None}, "its facts have no 'path'"),
        ({"bounds": [0, 95, 1, 96]}, "its latitudes 95 to 96"),
        ({"bounds": [0, 0, 800, 1]}, "are not on the globe"),
        ({"bounds": [0, 0, 1]}, "west, south, east and north"),
        ({"bounds": [0, 0, None, 1]}, "west, south, east and north"),
        ({"bands": ["rp10"]}, "its bands must be objects"),
        ({"bands": 7}, "a fact has the wrong type"),
        ({"geometry": 7}, "a fact has the wrong type"),
        ({"bands": [{"name": "rp10", "statistics": [1]}]}, "a fact has the wrong type"),
    ],
)
def test_the_error_names_a_missing_or_wrong_fact(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidItem, match=reason):
        item_from_facts(facts(1, **changes))


def test_a_nodata_value_of_nan_becomes_a_word() -> None:
    made = item(1, nodata=float("nan"), dtype="complex64")
    check_item(made)
    assert made["assets"]["data"]["bands"][0]["nodata"] == "nan"
    assert made["assets"]["data"]["bands"][0]["data_type"] == "cfloat32"


def test_fields_of_the_raster_extension_declare_it() -> None:
    made = item(1, resolution=30, bands=[{"name": "depth", "unit": "m", "raster:scale": 0.01}])
    check_item(made)
    assert RASTER in made["stac_extensions"]
    assert made["assets"]["data"]["bands"] == [
        {"name": "depth", "data_type": "float32", "nodata": -9999.0, "unit": "m", "raster:scale": 0.01}
    ]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"geometry": {"type": "Polygon", "coordinates": [[[0, 0]]]}}, "geometry/coordinates"),
        ({"bbox": [1, 2]}, "bbox"),
        ({"assets": {"data": {"type": "image/tiff"}}}, "assets/data: 'href' is a required property"),
        ({"properties": {"datetime": "2020-01-01T00:00:00Z", "proj:shape": [1, 2, 3]}}, "properties/proj:shape"),
        ({"properties": {}}, "properties: {} is not valid"),
        ({"stac_extensions": 7}, "stac_extensions: 7 is not of type 'array'"),
        ({"stac_extensions": [{}]}, "stac_extensions/0"),
    ],
)
def test_the_error_for_an_invalid_item_says_where(broken: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidItem, match="Item tile-0001 is not valid") as refusal:
        check_item({**item(1), **broken})
    assert reason in refusal.value.reason


def test_an_extension_without_a_local_schema_is_reported_as_unchecked() -> None:
    foreign = "https://example.com/tides/v1.0.0/schema.json"
    made = {**item(1), "stac_extensions": [foreign, PROJECTION]}
    check_item(made)
    assert unchecked(made) == [foreign]


def test_a_crs_as_projjson_is_accepted() -> None:
    made = item(1)
    made["properties"]["proj:projjson"] = {"type": "GeographicCRS", "name": "WGS 84"}
    check_item(made)
    made["properties"]["proj:projjson"] = "WGS 84"
    with pytest.raises(InvalidItem, match="proj:projjson"):
        check_item(made)


def test_an_item_in_stac_1_0_is_converted() -> None:
    old = item(1)
    old["stac_version"] = "1.0.0"
    old["stac_extensions"] = ["https://stac-extensions.github.io/projection/v1.1.0/schema.json"]
    old["properties"]["proj:epsg"] = 4326
    del old["properties"]["proj:code"]
    made = as_current(old)
    check_item(made)
    assert (made["stac_version"], made["properties"]["proj:code"]) == ("1.1.0", "EPSG:4326")
    assert old["stac_version"] == "1.0.0"
    with pytest.raises(InvalidItem, match=r"its stac_version is '0\.9\.0'"):
        as_current({**old, "stac_version": "0.9.0"})
