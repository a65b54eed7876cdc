"""Makes one Cloud-Optimized GeoTIFF of a group, with one band for each return period."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast import Permanent
from holdfast.apps.flood.naming import Group, years_of
from holdfast.apps.flood.raster import (
    GDAL_TYPES,
    Header,
    Piece,
    in_metres,
    inputs_hash,
    make_cog,
    quietly,
    read_header,
    virtual,
)
from holdfast.apps.flood.storage import below
from holdfast.apps.raster.storage import fetched, sha256_of

NEAR_PIXELS = 1e-3


def stack(group: Group, source: Path, target: Path, href: str) -> dict[str, Any]:
    """Stack the files of a group, all below `source`, into `target`; returns the facts that a catalog needs."""
    _check(group)
    paths = [fetched(below(source, file)) for file in group.files]
    with quietly():
        headers = [read_header(path, file) for path, file in zip(paths, group.files, strict=True)]
        first = headers[0]
        for other in headers:
            same(first, other)
        inputs = inputs_hash(group.bands, [sha256_of(path) for path in paths])
        bands = {name: [Piece(header, 1)] for name, header in zip(group.bands, headers, strict=True)}
        facts = make_cog(
            target,
            href,
            inputs,
            headers,
            lambda: virtual(first, first.width, first.height, first.transform, bands, inputs, first.datetime),
        )
    return {"id": group.id, "region": group.region, "place": group.place, "scenario": group.scenario, **facts}


def _check(group: Group) -> None:
    years = [years_of(band) for band in group.bands]
    if not group.files or len(group.files) != len(group.bands) or years != sorted(set(years)):
        raise Permanent(
            f"Group {group.id} has {len(group.files)} files for the bands {', '.join(group.bands) or 'none'}."
            " It needs one file for each band, by ascending return period",
            code="FLOOD_GROUP",
        )


def same(first: Header, other: Header, *, anywhere: bool = False) -> None:
    """Refuse two rasters that cannot be combined. With `anywhere` they may be at different positions."""
    if len(other.bands) != 1 and not anywhere:
        raise Permanent(f"{other.name} has {len(other.bands)} bands; a source must have one", code="FLOOD_MISMATCH")
    if other.dtype not in GDAL_TYPES:
        raise Permanent(
            f"{other.name} has pixels of type {other.dtype}; use one of {', '.join(GDAL_TYPES)}", code="FLOOD_MISMATCH"
        )
    if other.transform.b or other.transform.d:
        raise Permanent(f"{other.name} is rotated: its rows do not run from west to east", code="FLOOD_MISMATCH")
    in_metres(other.unit, other.name)
    compared = {
        "CRS": (first.crs_name, other.crs_name),
        "type of pixels": (first.dtype, other.dtype),
        "nodata": (first.nodata, other.nodata),
        "unit": (first.unit, other.unit),
    }
    if anywhere:
        compared["bands"] = (", ".join(first.bands), ", ".join(other.bands))
    else:
        compared["size"] = (f"{first.width}×{first.height}", f"{other.width}×{other.height}")
    for what, (ours, theirs) in compared.items():
        if ours != theirs and not (ours != ours and theirs != theirs):
            raise _mismatch(first, other, what, ours, theirs)
    places = (0, 1, 3, 4) if anywhere else range(6)
    pixel = abs(first.transform.a)
    if any(abs(first.transform[i] - other.transform[i]) > pixel * NEAR_PIXELS for i in places):
        what = "size of pixels" if anywhere else "position"
        raise _mismatch(first, other, what, _shown(first, places), _shown(other, places))


def _shown(header: Header, places: Any) -> str:
    return str([round(header.transform[i], 9) for i in places])


def _mismatch(first: Header, other: Header, what: str, ours: object, theirs: object) -> Permanent:
    return Permanent(
        f"{first.name} and {other.name} do not fit together: {what} {ours} and {theirs}."
        " Replace the wrong one, then retry",
        code="FLOOD_MISMATCH",
    )
