"""Builds an item from the facts of one raster file, which are the output of the raster handlers. Pure.

No raster is opened here: the item contains only what is in the facts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from holdfast.apps.catalog.extensions import FILE, PROJECTION, RASTER
from holdfast.apps.catalog.extents import POLE, bbox_of, footprint, round_earth
from holdfast.apps.catalog.interface import CONTENT_HASH, JOB, NODE, InvalidItem, Json

STAC_VERSION = "1.1.0"
COG = "image/tiff; application=geotiff; profile=cloud-optimized"

GEOGRAPHIC = ("EPSG:4326", "OGC:CRS84")
OVERSHOOT_DEGREES = 1.0
"""How far a raster may reach beyond a pole, often by half a pixel. The bbox is clipped there."""
SHA256_MULTIHASH = "1220"
"""The prefix of a sha256 in file:checksum: the code of the hash function and the number of bytes."""

_DATA_TYPES = {"complex_int16": "cint16", "complex64": "cfloat32", "complex128": "cfloat64"}


def item_from_facts(facts: Mapping[str, Any]) -> Json:
    """The STAC item of one raster file. Raises InvalidItem if a fact is missing or wrong."""
    try:
        return _item(facts)
    except ValueError as error:
        raise InvalidItem(str(facts.get("id")), str(error)) from None
    except (TypeError, AttributeError) as error:
        raise InvalidItem(str(facts.get("id")), f"a fact has the wrong type: {error}") from error


def _item(facts: Mapping[str, Any]) -> Json:
    bbox, geometry = _where(facts)
    projection = _projection(facts)
    asset = _asset(facts)
    used = {PROJECTION: projection, FILE: _named("file:", asset), RASTER: _raster_fields(asset)}
    return {
        "type": "Feature",
        "stac_version": STAC_VERSION,
        "stac_extensions": sorted(extension for extension, fields in used.items() if fields),
        "id": _required(facts, "id"),
        "geometry": geometry,
        "bbox": bbox,
        "properties": _when(facts) | projection | _provenance(facts) | dict(facts.get("properties") or {}),
        "assets": {str(facts.get("asset_key") or "data"): asset},
        "links": [],
    }


def _where(facts: Mapping[str, Any]) -> tuple[list[float], Json]:
    """The bbox and geometry: from the facts in degrees, or from the bounds if the raster's CRS is in degrees."""
    bounds, geometry = facts.get("bbox"), facts.get("geometry")
    if bounds is None and geometry is None:
        if facts.get("crs") not in GEOGRAPHIC or facts.get("bounds") is None:
            raise ValueError(
                "it has neither bbox nor geometry in degrees (EPSG:4326), "
                f"and its bounds are in {facts.get('crs') or 'an unknown crs'}"
            )
        bounds = facts["bounds"]
    bbox = _on_the_globe(bounds) if bounds is not None else bbox_of(dict(geometry or {}))
    return bbox, dict(geometry) if geometry is not None else footprint(bbox)


def _on_the_globe(bounds: Any) -> list[float]:
    """Bounds in degrees as a bbox. Longitudes may go beyond 180, as they do in rasters across the antimeridian."""
    try:
        west, south, east, north = (float(number) for number in bounds)
    except (TypeError, ValueError):
        raise ValueError(f"its bounds must be west, south, east and north, not {bounds!r}") from None
    if not all(map(math.isfinite, (west, south, east, north))):
        raise ValueError(f"its bounds must be finite numbers, not {bounds!r}")
    limit = POLE + OVERSHOOT_DEGREES
    if not -limit <= south <= north <= limit:
        raise ValueError(f"its latitudes {south:g} to {north:g} must rise within -90 and 90")
    if not -360 <= west <= 360 or not -360 <= east <= 540 or east - west > 360 + OVERSHOOT_DEGREES:
        raise ValueError(f"its longitudes {west:g} to {east:g} are not on the globe")
    return round_earth(west, max(south, -POLE), east if east >= west else east + 360, min(north, POLE))


def _when(facts: Mapping[str, Any]) -> Json:
    names = ("datetime", "start_datetime", "end_datetime")
    times = {name: facts[name] for name in names if facts.get(name) is not None}
    return {"datetime": None} | times if times else {}


def _projection(facts: Mapping[str, Any]) -> Json:
    shape = facts.get("shape")
    if shape is None and facts.get("height") is not None and facts.get("width") is not None:
        shape = [facts["height"], facts["width"]]
    crs = facts.get("crs")
    fields = {
        # A CRS without an authority's code is written out as WKT.
        "proj:wkt2" if crs is not None and "[" in crs else "proj:code": crs,
        "proj:shape": shape,
        "proj:transform": facts.get("transform"),
        "proj:bbox": facts.get("bounds"),
    }
    return {name: _plain(value) for name, value in fields.items() if value is not None}


def _asset(facts: Mapping[str, Any]) -> Json:
    sha256, size = facts.get("sha256"), facts.get("size_bytes")
    fields = {
        "href": facts.get("href") or _required(facts, "path"),
        "type": facts.get("media_type") or COG,
        "title": facts.get("title"),
        "roles": list(facts.get("roles") or ["data"]),
        "bands": [_band(band, facts) for band in facts.get("bands") or ()] or None,
        "raster:spatial_resolution": facts.get("resolution"),
        "file:size": size,
        "file:checksum": f"{SHA256_MULTIHASH}{sha256}" if sha256 is not None else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _band(band: Mapping[str, Any], facts: Mapping[str, Any]) -> Json:
    """A band's own facts, completed with those of the file."""
    if not isinstance(band, Mapping):
        raise ValueError(f"its bands must be objects, not {band!r}")
    data_type = band.get("data_type") or band.get("dtype") or facts.get("data_type") or facts.get("dtype")
    nodata = band.get("nodata") if band.get("nodata") is not None else facts.get("nodata")
    fields = {
        "name": band.get("name"),
        "description": band.get("description"),
        "data_type": _DATA_TYPES.get(str(data_type), data_type),
        "nodata": _nodata(nodata),
        "unit": band.get("unit"),
        "statistics": {k: v for k, v in (band.get("statistics") or {}).items() if v is not None} or None,
    }
    others = {name: value for name, value in band.items() if ":" in name}
    return {name: value for name, value in (fields | others).items() if value is not None}


def _nodata(nodata: Any) -> Any:
    """The nodata value; STAC has words for NaN and infinity, which JSON numbers cannot express."""
    if isinstance(nodata, float) and not math.isfinite(nodata):
        return "nan" if math.isnan(nodata) else ("inf" if nodata > 0 else "-inf")
    return nodata


def _provenance(facts: Mapping[str, Any]) -> Json:
    fields = {JOB: facts.get("job_id"), NODE: facts.get("node"), CONTENT_HASH: facts.get("sha256")}
    return {name: value for name, value in fields.items() if value is not None}


def _raster_fields(asset: Json) -> Json:
    return _named("raster:", asset) | {
        k: v for band in asset.get("bands", ()) for k, v in _named("raster:", band).items()
    }


def _named(prefix: str, fields: Json) -> Json:
    return {name: value for name, value in fields.items() if name.startswith(prefix)}


def _required(facts: Mapping[str, Any], name: str) -> str:
    if not isinstance(facts.get(name), str) or not facts[name]:
        raise ValueError(f"its facts have no '{name}'")
    return str(facts[name])


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
