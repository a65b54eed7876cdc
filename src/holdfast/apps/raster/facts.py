"""The facts about a raster that a catalog needs: its id, its place on the earth, its time and its bands.

This module does not know the catalog.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from holdfast.apps.raster.validation import bounds_4326, plain

ID_CHARACTERS = 200
DIGEST_CHARACTERS = 10
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.]*(/[A-Za-z0-9_.]+)+\.tif")
"""Names without hyphens or special characters: replacing their slashes by hyphens cannot make two of them equal."""
NO_TIME = (
    "the file has no TIFFTAG_DATETIME, and a catalog needs a time. Set datetime, or start_datetime and end_datetime"
)


def item_id(name: str) -> str:
    """The id for a name: `silver/x/cog.tif` becomes `silver-x-cog`. It has no slashes because it is used in URLs.

    Different names have different ids: if another name could have the same plain form, a digest is appended.
    """
    plain_form = re.sub(r"[^A-Za-z0-9_.-]", "-", str(PurePosixPath(name).with_suffix("")))
    if _PLAIN.fullmatch(name) and len(plain_form) <= ID_CHARACTERS and not plain_form.endswith(".json"):
        return plain_form
    digest = f"~{hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARACTERS]}"
    return plain_form.lstrip(".-")[-(ID_CHARACTERS - len(digest)) :].lstrip(".-") + digest


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


def time_of(dataset: Any) -> str | None:
    """The time in a TIFF's header, read as UTC; None if it is missing or malformed."""
    try:
        stored = datetime.strptime(dataset.tags().get("TIFFTAG_DATETIME", ""), "%Y:%m:%d %H:%M:%S")  # noqa: DTZ007
    except ValueError:
        return None
    return f"{stored.isoformat()}Z"


def dated(
    facts: dict[str, Any], moment: str | None, start: str | None, end: str | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The facts with the caller's time instead of the file's own, and a warning if there is neither."""
    times = {"datetime": moment, "start_datetime": start, "end_datetime": end}
    if any(times.values()):
        return facts | times, ()
    return facts, () if facts["datetime"] else (NO_TIME,)
