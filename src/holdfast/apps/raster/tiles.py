"""Cuts a large raster into tiles: the scheme of windows, and the COG of one window.

Windows are cut from the grid of the result, not of the source. So reprojected tiles share one grid, without gaps.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy
from rasterio.windows import Window

from holdfast import Context, Permanent
from holdfast.apps.raster import gdal
from holdfast.apps.raster.cog import BLOCK, Recipe, grid_of, write_cog
from holdfast.apps.raster.item_ids import item_id
from holdfast.apps.raster.storage import fetched, sha256_of, writable

SMALLEST_PX = 16
MOST_TILES = 50_000
MEGABYTE = 1024 * 1024


def scheme(
    path: Path, name: str, recipe: Recipe, size_px: int | None, size_mb: float | None, overlap_px: int
) -> dict[str, Any]:
    """The tiles of a raster, row by row from the upper left."""
    with gdal.open_raster(path, name) as dataset:
        grid = grid_of(dataset, recipe, name)
        pixel_bytes = sum(numpy.dtype(dtype).itemsize for dtype in dataset.dtypes)
        size = size_px if size_px is not None else _size_for(size_mb, pixel_bytes)
    if size < SMALLEST_PX or not 0 <= overlap_px < size:
        raise Permanent(
            f"Tiles of {size} pixels with an overlap of {overlap_px} are not possible. "
            f"Use at least {SMALLEST_PX} pixels, and an overlap of at least 0 and less than the size",
            code="TILES_REFUSED",
        )
    columns, rows = math.ceil(grid.width / size), math.ceil(grid.height / size)
    if columns * rows > MOST_TILES:
        raise Permanent(
            f"{name} would be cut into {columns * rows:,} tiles, but {MOST_TILES:,} is the limit. Use larger tiles",
            code="TILES_REFUSED",
        )
    tiles = []
    for index in range(columns * rows):
        row, column = divmod(index, columns)
        window = _window(column * size, row * size, size, overlap_px, grid.width, grid.height)
        tiles.append(
            {
                "index": index,
                "row": row,
                "column": column,
                "window": [window.col_off, window.row_off, window.width, window.height],
                "bounds": grid.bounds(window),
            }
        )
    return {
        "path": name,
        "tile_list": tiles,
        "count": len(tiles),
        "tile_count": len(tiles),
        "columns": columns,
        "rows": rows,
        "grid_dimensions": {"rows": rows, "cols": columns},
        "tile_size_px": size,
        "tile_size": size,
        "overlap_px": overlap_px,
        "tile_overlap": overlap_px,
        "width": grid.width,
        "height": grid.height,
    }


def _size_for(size_mb: float | None, pixel_bytes: int) -> int:
    """The side of a tile with about `size_mb` of decoded pixels, rounded down to whole blocks."""
    if size_mb is None:
        return 4096
    side = math.sqrt(size_mb * MEGABYTE / pixel_bytes)
    return max(BLOCK, int(side) // BLOCK * BLOCK)


def _window(column: int, row: int, size: int, overlap: int, width: int, height: int) -> Window:
    """The window of a tile with its overlap on every side, clipped at the edges of the grid."""
    left, top = max(0, column - overlap), max(0, row - overlap)
    right, bottom = min(width, column + size + overlap), min(height, row + size + overlap)
    return Window(left, top, right - left, bottom - top)


def tile_name(target: str, index: int) -> str:
    return f"{target.rstrip('/')}/tile_{index:05d}.tif"


def write_tile(
    path: Path, name: str, tile: dict[str, Any], target: str, recipe: Recipe, ctx: Context
) -> dict[str, Any]:
    """Write one tile as a COG in the folder `target`."""
    index, window = _read_tile(tile)
    written = tile_name(target, index)
    description = write_cog(path, name, writable(written), recipe, ctx, window)
    return {"id": item_id(written), "index": index, "path": written} | description


def _read_tile(tile: dict[str, Any]) -> tuple[int, Window]:
    try:
        index = int(tile["index"])
        left, top, width, height = (int(number) for number in tile["window"])
    except (KeyError, TypeError, ValueError):
        raise Permanent(
            f"{str(tile)[:200]} is not a tile. Use a tile from the tile_list of raster.generate_tiling_scheme",
            code="TILES_REFUSED",
        ) from None
    if index < 0 or min(left, top) < 0 or min(width, height) < 1:
        raise Permanent(f"Tile {index} has the impossible window {tile['window']}", code="TILES_REFUSED")
    return index, Window(left, top, width, height)


def is_finished(done: dict[str, Any]) -> bool:
    """Whether the file that an earlier attempt wrote is still there and unchanged."""
    file = fetched(writable(done["path"]))
    return file.is_file() and file.stat().st_size == done["bytes"] and sha256_of(file) == done["sha256"]
