"""Writes a COG of a raster (as it is, reprojected, or a window of either), checks it, then makes it visible.

GDAL's COG driver reads the raster block by block. The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rasterio import windows
from rasterio.enums import MaskFlags, Resampling
from rasterio.shutil import copy
from rasterio.transform import Affine
from rasterio.vrt import WarpedVRT
from rasterio.warp import calculate_default_transform
from rasterio.windows import Window

from holdfast import Context, Permanent, Transient
from holdfast.apps.raster import gdal
from holdfast.apps.raster.facts import describe
from holdfast.apps.raster.storage import replacing, sha256_of
from holdfast.apps.raster.validation import crs_of, data_bands, fits, is_rgb, parse_crs, short_name, time_of

BLOCK = 512
WARP_MEMORY_MB = 64


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make a COG of a raster: the options of the handlers."""

    tier: str = "analysis"
    crs: str | None = None
    source_crs: str | None = None
    resampling: str = "nearest"
    overview_resampling: str | None = None
    nodata: float | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """The pixel grid of the result: the grid of the source or of its reprojection."""

    crs: Any
    transform: Affine
    width: int
    height: int

    def bounds(self, window: Window) -> list[float]:
        return list(windows.bounds(window, self.transform))


def grid_of(dataset: Any, recipe: Recipe, name: str) -> Grid:
    """The grid of the whole result. It depends only on the raster and the recipe, so its tiles fit together."""
    own = crs_of(dataset, recipe.source_crs, name)
    if own is None:
        raise Permanent(f"{name} has no CRS. Declare it with source_crs, such as EPSG:4326", code="RASTER_NO_CRS")
    wanted = own if recipe.crs is None else parse_crs(recipe.crs, name)
    if wanted == own:
        return Grid(own, dataset.transform, dataset.width, dataset.height)
    try:
        transform, width, height = calculate_default_transform(
            own, wanted, dataset.width, dataset.height, *dataset.bounds
        )
    except gdal.ERRORS as problem:
        raise Permanent(
            f"{name} cannot be reprojected from {short_name(own)} to {recipe.crs}: {gdal.reason(problem, Path(name))}",
            code="REPROJECTION_FAILED",
        ) from None
    if width * height > gdal.LIMITS.pixels:
        raise Permanent(
            f"{name} would have {width} x {height} pixels in {recipe.crs}, more than {gdal.LIMITS.pixels:,}",
            code="RASTER_TOO_LARGE",
        )
    return Grid(wanted, transform, width, height)


@contextmanager
def view(dataset: Any, grid: Grid, recipe: Recipe, window: Window | None, name: str) -> Iterator[Any]:
    """The raster as the recipe asks for it; the dataset itself if nothing changes."""
    is_moved = grid.transform != dataset.transform or grid.crs != crs_of(dataset, recipe.source_crs, name)
    if not is_moved and window is None and recipe.nodata in (None, dataset.nodata) and dataset.crs is not None:
        yield dataset
        return
    window = window or Window(0, 0, grid.width, grid.height)
    nodata = nodata_of(dataset, recipe, is_moved, name)
    masks = [flag for flags in dataset.mask_flag_enums for flag in flags]
    has_alpha = MaskFlags.alpha in masks
    hidden = MaskFlags.per_dataset in masks and not has_alpha
    with WarpedVRT(
        dataset,
        src_crs=crs_of(dataset, recipe.source_crs, name),
        crs=grid.crs,
        transform=windows.transform(window, grid.transform),
        width=window.width,
        height=window.height,
        resampling=Resampling[recipe.resampling],
        nodata=nodata,
        src_nodata=nodata if dataset.nodata is None else dataset.nodata,
        add_alpha=nodata is None and not has_alpha and (hidden or is_moved),
        warp_mem_limit=WARP_MEMORY_MB,
        # Positions are exact to a thousandth of a pixel: a tile must not depend on where the raster is cut.
        tolerance=0.001,
        # Each band has its own nodata pixels. Otherwise nodata in one band would be mixed into neighbouring pixels.
        UNIFIED_SRC_NODATA="NO",
    ) as warped:
        yield warped


def nodata_of(dataset: Any, recipe: Recipe, is_moved: bool, name: str) -> float | None:
    """The nodata value. Empty corners of a reprojection become NaN in float rasters, else transparent."""
    nodata = dataset.nodata if recipe.nodata is None else recipe.nodata
    if nodata is not None and not fits(nodata, dataset.dtypes[0]):
        raise Permanent(
            f"{name}: the nodata value {nodata} does not fit into {dataset.dtypes[0]}", code="NODATA_OUT_OF_RANGE"
        )
    if nodata is None and is_moved and dataset.dtypes[0].startswith("float"):
        return float("nan")
    return nodata


def creation_options(seen: Any, recipe: Recipe) -> dict[str, str]:
    """The compression for the tier. Only pictures for viewing are compressed with loss, never measurements."""
    is_picture = is_rgb(seen) and seen.dtypes[0] == "uint8"
    if recipe.tier == "visualization" and is_picture and seen.nodata is None:
        has_alpha = len(data_bands(seen)) < seen.count
        packed = {"COMPRESS": "WEBP", "QUALITY": "80"} if has_alpha else {"COMPRESS": "JPEG", "QUALITY": "85"}
    elif recipe.tier == "archive":
        # Levels above 19 take ten times as long and 700 MB of memory, and save one per cent.
        packed = {"COMPRESS": "ZSTD", "LEVEL": "19", "PREDICTOR": "YES"}
    else:
        packed = {"COMPRESS": "DEFLATE", "LEVEL": "6", "PREDICTOR": "YES"}
    overviews = recipe.overview_resampling or ("average" if is_picture else "nearest")
    return {
        "BLOCKSIZE": str(BLOCK),
        "BIGTIFF": "IF_SAFER",
        "NUM_THREADS": "1",
        "OVERVIEW_RESAMPLING": overviews.replace("_", "").upper(),
        **packed,
    }


def write_cog(
    source: Path, name: str, target: Path, recipe: Recipe, ctx: Context, window: Window | None = None
) -> dict[str, Any]:
    """Write the COG, check it, make it visible; the answer describes it."""
    with replacing(target, ctx) as temporary:
        with gdal.open_raster(source, name) as dataset:
            grid = grid_of(dataset, recipe, name)
            refuse_outside(window, grid, name)
            with view(dataset, grid, recipe, window, name) as seen:
                options = creation_options(seen, recipe)
                _copy(seen, temporary, options, name)
                description = {
                    "crs": short_name(grid.crs),
                    "width": seen.width,
                    "height": seen.height,
                    "band_count": seen.count,
                    "dtype": seen.dtypes[0],
                    "tier": recipe.tier,
                    "compression": options["COMPRESS"].lower(),
                    "datetime": time_of(dataset),
                    **describe(seen, grid.crs),
                }
        check(temporary, name)
        size = temporary.stat().st_size
        description |= {"bytes": size, "size_bytes": size, "sha256": sha256_of(temporary)}
    return description


def refuse_outside(window: Window | None, grid: Grid, name: str) -> None:
    if window is not None and (
        window.col_off + window.width > grid.width or window.row_off + window.height > grid.height
    ):
        raise Permanent(
            f"The window {window.flatten()} is not inside {name}, which has {grid.width} x {grid.height} pixels",
            code="TILES_REFUSED",
        )


def _copy(seen: Any, temporary: Path, options: dict[str, str], name: str) -> None:
    try:
        copy(seen, temporary, driver="COG", **options)
    except gdal.ERRORS as problem:
        message = gdal.reason(problem, temporary)
        if any(word in message.lower() for word in ("write", "no space", "too large")):
            raise Transient(f"The COG of {name} cannot be written: {message}", code="WRITE_FAILED") from None
        raise


def check(written: Path, name: str) -> None:
    """Fail if the written file is not a strictly valid COG, so that it never becomes visible."""
    from rio_cogeo.cogeo import cog_validate

    with gdal.confined():
        try:
            valid, errors, _ = cog_validate(written, quiet=True, strict=True)
        except gdal.ERRORS as problem:
            valid, errors = False, [gdal.reason(problem, written)]
    if not valid:
        raise Permanent(f"The file made of {name} is not a valid COG: {'; '.join(errors)[:500]}", code="COG_INVALID")
