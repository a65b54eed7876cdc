"""JSON Schemas for the STAC extensions that our items use, limited to the fields that we write.

The official schemas are on the network, which the catalog never uses. These are shorter, written for this project.
"""

from __future__ import annotations

from typing import Any

PROJECTION = "https://stac-extensions.github.io/projection/v2.0.0/schema.json"
RASTER = "https://stac-extensions.github.io/raster/v2.0.0/schema.json"
FILE = "https://stac-extensions.github.io/file/v2.1.0/schema.json"
DRAFT = "http://json-schema.org/draft-07/schema#"

_SIZE = {"type": "integer", "minimum": 0}
_NUMBERS = {"type": "array", "items": {"type": "number"}}

_FIELDS: dict[str, dict[str, Any]] = {
    PROJECTION: {
        "proj:code": {"type": ["string", "null"], "pattern": "^[A-Za-z0-9]+:[A-Za-z0-9]+$"},
        "proj:wkt2": {"type": ["string", "null"]},
        "proj:projjson": {"type": ["object", "null"]},
        "proj:shape": {
            "type": "array",
            "items": {"type": "integer", "minimum": 1},
            "minItems": 2,
            "maxItems": 2,
        },
        "proj:transform": {**_NUMBERS, "minItems": 6, "maxItems": 9},
        "proj:bbox": {**_NUMBERS, "minItems": 4, "maxItems": 6},
    },
    RASTER: {
        "raster:spatial_resolution": {"type": "number", "exclusiveMinimum": 0},
        "raster:sampling": {"enum": ["area", "point"]},
        "raster:bits_per_sample": {"type": "integer", "minimum": 1},
        "raster:scale": {"type": "number"},
        "raster:offset": {"type": "number"},
        "raster:histogram": {"type": "object"},
    },
    FILE: {
        "file:size": _SIZE,
        "file:header_size": _SIZE,
        "file:checksum": {"type": "string", "pattern": "^[a-f0-9]+$"},
        "file:byte_order": {"enum": ["big-endian", "little-endian"]},
        "file:local_path": {"type": "string"},
    },
}


def extension_schemas() -> dict[str, dict[str, Any]]:
    """The schemas, by the URI of the extension."""
    return {uri: _schema(fields) for uri, fields in _FIELDS.items()}


def _schema(fields: dict[str, Any]) -> dict[str, Any]:
    """A schema that allows the fields in the item's properties, in an asset, or in a band of either."""
    with_bands = {"properties": {**fields, "bands": {"type": "array", "items": {"properties": fields}}}}
    return {
        "$schema": DRAFT,
        "type": "object",
        "properties": {
            "properties": with_bands,
            "assets": {"type": "object", "additionalProperties": with_bands},
        },
    }
