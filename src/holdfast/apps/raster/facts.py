"""The facts about a raster that a catalog needs: its place on the earth, its time and its bands.

This module does not know the catalog.
"""

from __future__ import annotations

from typing import Any

from holdfast.apps.raster.validation import bounds_4326, plain

NO_TIME = (
    "the file has no TIFFTAG_DATETIME, and a catalog needs a time. Set datetime, or start_datetime and end_datetime"
)


def describe(seen: Any, crs: Any) -> dict[str, Any]:
    """The facts that are known without reading a pixel."""
    names = [name or f"band {number}" for number, name in enumerate(seen.descriptions, 1)]
    return {
        "bounds": list(seen.bounds),
        "bbox": bounds_4326(seen, crs),
        "shape": [seen.height, seen.width],
        "transform": list(seen.transform)[:6],
        "bands": [
            {"name": name, "data_type": dtype, "nodata": plain(nodata)}
            for name, dtype, nodata in zip(names, seen.dtypes, seen.nodatavals, strict=True)
        ],
    }


def dated(
    facts: dict[str, Any], moment: str | None, start: str | None, end: str | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The facts with the caller's time instead of the file's own, and a warning if there is neither."""
    times = {"datetime": moment, "start_datetime": start, "end_datetime": end}
    if any(times.values()):
        return facts | times, ()
    return facts, () if facts["datetime"] else (NO_TIME,)
