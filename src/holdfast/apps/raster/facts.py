"""What a catalog needs to know of a raster: its id, where on the earth, of when, and its bands. Knows no catalog."""

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
"""Names of which a slash becomes a hyphen, and nothing else does."""
NO_TIME = (
    "no time is known, and a catalog wants one: the file has no TIFFTAG_DATETIME. "
    "Give datetime, or start_datetime and end_datetime"
)


def item_id(name: str) -> str:
    """`silver/x/cog.tif` is `silver-x-cog`: no slashes, for it becomes a file's name and a part of a URL.

    No two names have one id: where other names have the same plain form, a digest of the name follows.
    """
    plain_form = re.sub(r"[^A-Za-z0-9_.-]", "-", str(PurePosixPath(name).with_suffix("")))
    if _PLAIN.fullmatch(name) and len(plain_form) <= ID_CHARACTERS and not plain_form.endswith(".json"):
        return plain_form
    digest = f"~{hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARACTERS]}"
    return plain_form.lstrip(".-")[-(ID_CHARACTERS - len(digest)) :].lstrip(".-") + digest


def describe(seen: Any, crs: Any) -> dict[str, Any]:
    """What can be told without reading a pixel."""
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
    """When a TIFF says that it was made, which is taken as UTC; None if it does not say, or says nonsense."""
    try:
        stored = datetime.strptime(dataset.tags().get("TIFFTAG_DATETIME", ""), "%Y:%m:%d %H:%M:%S")  # noqa: DTZ007
    except ValueError:
        return None
    return f"{stored.isoformat()}Z"


def dated(
    found: dict[str, Any], moment: str | None, start: str | None, end: str | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The facts with the time that was given instead of the file's own, and a warning if there is neither."""
    given = {"datetime": moment, "start_datetime": start, "end_datetime": end}
    if any(given.values()):
        return found | given, ()
    return found, () if found["datetime"] else (NO_TIME,)
