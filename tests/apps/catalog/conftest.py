"""A catalog in a separate database for each test, and facts of rasters to register."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from holdfast.apps.catalog.collection import new_collection
from holdfast.apps.catalog.facts import item_from_facts
from holdfast.apps.catalog.postgres import PostgresCatalog

RETURN_PERIODS = (10, 100, 1000)


@pytest.fixture
def catalog(database_url: str) -> PostgresCatalog:
    """A catalog with one empty collection, `floods`."""
    made = PostgresCatalog(database_url)
    assert made.ensure_collection(collection("floods")) == "created"
    return made


def collection(collection_id: str, title: str | None = "Floods") -> dict[str, Any]:
    return new_collection(collection_id, title, None, "CC-BY-4.0", None, None, None)


def facts(number: int, **changes: Any) -> dict[str, Any]:
    """The facts of a raster of one square degree; each number is at a different place."""
    west, south = number % 340 - 170, number // 340 - 20
    return {
        "id": f"tile-{number:04d}",
        "path": f"floods/tile-{number:04d}.tif",
        "crs": "EPSG:4326",
        "bounds": [west, south, west + 1, south + 1],
        "shape": [3600, 3600],
        "transform": [1 / 3600, 0, west, 0, -1 / 3600, south + 1],
        "dtype": "float32",
        "nodata": -9999.0,
        "bands": [{"name": f"rp{period}", "statistics": {"minimum": 0, "maximum": 2.5}} for period in RETURN_PERIODS],
        "sha256": sha256(number),
        "size_bytes": 1000 + number,
        "datetime": "2020-01-01T00:00:00Z",
        "properties": {"platform:dataset_id": number},
        **changes,
    }


def item(number: int, **changes: Any) -> dict[str, Any]:
    return item_from_facts(facts(number, **changes))


def sha256(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()
