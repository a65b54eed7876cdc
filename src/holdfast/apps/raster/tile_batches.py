"""Which tiles one task makes if it gets a whole tiling scheme, and how their COGs are named in its output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast import Permanent
from holdfast.apps.raster.cog import Recipe
from holdfast.apps.raster.spellings import cog_names
from holdfast.apps.raster.tiles import scheme


def chosen(
    tiles: list[dict[str, Any]] | None, given: dict[str, Any] | None, file: Path, name: str, recipe: Recipe
) -> list[dict[str, Any]]:
    """The tiles to make: the listed ones, or all tiles of a raster that is cut like the given scheme.

    A scheme may have been made for the raster's own CRS, while the tiles are made in another one. The result is then
    cut again with the same size and overlap, because windows of the one grid mean nothing on the other.
    """
    if (tiles is None) == (given is None):
        raise Permanent("Give 'tiles' or 'tiling_scheme', not both", code="TILES_REFUSED")
    if tiles is not None:
        return tiles
    assert given is not None
    try:
        size, overlap = int(given["tile_size_px"]), int(given["overlap_px"])
    except (KeyError, TypeError, ValueError):
        raise Permanent(
            "The tiling_scheme is not an output of raster.generate_tiling_scheme: it has no tile_size_px or overlap_px",
            code="TILES_REFUSED",
        ) from None
    cut: list[dict[str, Any]] = scheme(file, name, recipe, size, None, overlap)["tile_list"]
    return cut


def tile_cogs(made: list[dict[str, Any]], tiles: list[dict[str, Any]]) -> dict[str, Any]:
    """The facts of the tiles under further names, and what they have in common."""
    rows, columns = 1 + max(tile["row"] for tile in tiles), 1 + max(tile["column"] for tile in tiles)
    cogs = [
        facts
        | {name: value for name, value in cog_names(facts).items() if name in ("cog_blob", "size_mb")}
        | {
            "tile_id": f"tile_r{tile['row']}_c{tile['column']}",
            "row": tile["row"],
            "col": tile["column"],
            "geo_bounds": facts["bbox"],
        }
        for facts, tile in zip(made, tiles, strict=True)
    ]
    return {
        "tile_cogs": cogs,
        "cog_container": cog_names(made[0])["cog_container"],
        "tiles_completed": len(cogs),
        "total_size_mb": round(sum(cog["size_mb"] for cog in cogs), 3),
        "collection_bounds": _around([facts["bbox"] for facts in made]),
        "grid_dimensions": {"rows": rows, "cols": columns},
    }


def _around(boxes: list[list[float] | None]) -> list[float] | None:
    """The box around all boxes, in degrees; None if a box is unknown."""
    known = [box for box in boxes if box is not None]
    if len(known) < len(boxes):
        return None
    west, south, east, north = zip(*known, strict=True)
    return [min(west), min(south), max(east), max(north)]
