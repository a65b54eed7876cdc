"""The handlers of the raster app. GDAL is imported when the first handler runs, not with this module.

Handlers that open a raster run in their own process: GDAL reads files of unknown origin and may crash or hang on them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from holdfast import Context, Permanent, Result, handler
from holdfast.apps.raster import mount, sources, storage, sweeping
from holdfast.extend.settings import variable

Tier = Literal["visualization", "analysis", "archive"]
Resampling = Literal["nearest", "bilinear", "cubic", "cubic_spline", "lanczos", "average", "mode"]
MEGABYTE = 1024 * 1024
MEMORY_MB = 1024
"""The memory limit of an attempt. Rasters may be larger: they are read block by block."""
ATTEMPTS_PER_PROCESS = 500
"""A process is used many times: loading GDAL takes longer than handling a small raster."""

_STORES = bool(variable("RASTER_CONTAINERS"))
"""Whether the operator has put containers into object stores."""
_KEYS_OF_STORES = ("AWS_*", "AZURE_*", "GOOGLE_*", "IDENTITY_*", "MSI_*", "*_PROXY", "*_proxy")

opening_rasters = partial(
    handler,
    isolation="process",
    memory_mb=MEMORY_MB,
    # The network and the stores' credentials are granted only if a container is in an object store.
    network=_STORES,
    environment=(*storage.VARIABLES, *(_KEYS_OF_STORES if _STORES else ())),
    attempts_per_process=ATTEMPTS_PER_PROCESS,
)
"""Decorates a handler that opens rasters: its own process, by default without a network and credentials."""


@handler("raster.blob_to_mount")
def blob_to_mount(
    source: str,
    target: str | None = None,
    expected_sha256: str | None = None,
    checkpoint_mb: float = 64,
    max_mb: int = 100 * 1024,
    *,
    ctx: Context,
) -> dict[str, Any] | None:
    """Copy a file into storage, by default into `scratch/JOB/`. The next attempt continues where this one ended."""
    origin = sources.source_of(source)
    name = target or f"{sweeping.scratch_of(ctx.job_id)}/{_file_name(origin.label)}"
    copying = mount.Copy(origin, storage.writable(name), max_mb * MEGABYTE, ctx)
    if not copying.run(int(checkpoint_mb * MEGABYTE), expected_sha256):
        return None
    return {
        "path": name,
        "source": origin.label,
        "bytes": copying.copied,
        "size_mb": round(copying.copied / MEGABYTE, 3),
        "sha256": copying.sha256,
        "resumed_from": copying.resumed_from,
    }


@handler("raster.remove_scratch")
def remove_scratch(*, ctx: Context) -> dict[str, Any]:
    """Remove the files that `raster.blob_to_mount` copied into `scratch/JOB/` for this job."""
    removed = sweeping.remove_scratch(ctx.job_id)
    return {"files": removed.files, "bytes": removed.bytes}


@opening_rasters("raster.validate")
def validate(path: str, source_crs: str | None = None, *, ctx: Context) -> Result | None:
    """Read every block of a raster and describe it. Problems that can be worked around become warnings."""
    _need_geo()
    from holdfast.apps.raster import validation

    def may_continue(done: int, total: int) -> bool:
        ctx.progress(done, total, "windows read")
        return not ctx.cancelled

    description = validation.validate(storage.readable(path), path, source_crs, may_continue)
    return None if description is None else Result(description, warnings=tuple(description["warnings"]))


@opening_rasters("raster.create_cog")
def create_cog(
    path: str,
    target: str,
    tier: Tier = "analysis",
    crs: str | None = None,
    resampling: Resampling = "nearest",
    nodata: float | None = None,
    overview_resampling: Resampling | None = None,
    source_crs: str | None = None,
    datetime: str | None = None,
    start_datetime: str | None = None,
    end_datetime: str | None = None,
    *,
    ctx: Context,
) -> Result:
    """Make a Cloud-Optimized GeoTIFF of a raster, reprojected if `crs` is set.

    The output has the facts that a catalog needs. The time is `datetime` or the interval; without them, the file's own.
    """
    _need_geo()
    from holdfast.apps.raster import cog, facts, tiles

    recipe = cog.Recipe(tier, crs, source_crs, resampling, overview_resampling, nodata)
    done = ctx.resume_point[1] if ctx.resume_point else None
    if done is None or done["path"] != target or not tiles.is_finished(done):
        written = cog.write_cog(storage.readable(path), path, storage.writable(target), recipe, ctx)
        done = {"id": facts.item_id(target), "path": target, "source": path} | written
        ctx.checkpoint("written", done)
    output, warnings = facts.dated(done, datetime, start_datetime, end_datetime)
    return Result(output, warnings=warnings, deliverables={"cogs": target})


@opening_rasters("raster.generate_tiling_scheme")
def generate_tiling_scheme(
    path: str,
    tile_size_px: int | None = None,
    tile_size_mb: float | None = None,
    overlap_px: int = 0,
    crs: str | None = None,
    source_crs: str | None = None,
) -> dict[str, Any]:
    """Cut a raster, or its reprojection, into windows. At most one of the two sizes may be set."""
    _need_geo()
    from holdfast.apps.raster import cog, tiles

    if tile_size_px is not None and tile_size_mb is not None:
        raise Permanent("Give tile_size_px or tile_size_mb, not both", code="TILES_REFUSED")
    recipe = cog.Recipe(crs=crs, source_crs=source_crs)
    return tiles.scheme(storage.readable(path), path, recipe, tile_size_px, tile_size_mb, overlap_px)


@opening_rasters("raster.process_tile")
def process_tile(
    tile: dict[str, Any],
    path: str,
    target: str,
    tile_index: int | None = None,
    tier: Tier = "analysis",
    crs: str | None = None,
    resampling: Resampling = "nearest",
    nodata: float | None = None,
    overview_resampling: Resampling | None = None,
    source_crs: str | None = None,
    datetime: str | None = None,
    start_datetime: str | None = None,
    end_datetime: str | None = None,
    *,
    ctx: Context,
) -> Result:
    """Make a COG of one tile of a scheme, in the folder `target`. `tile_index` numbers the file."""
    _need_geo()
    from holdfast.apps.raster import cog, facts, tiles

    recipe = cog.Recipe(tier, crs, source_crs, resampling, overview_resampling, nodata)
    chosen = tile if tile_index is None else tile | {"index": tile_index}
    done = tiles.write_tile(storage.readable(path), path, chosen, target, recipe, ctx)
    output, warnings = facts.dated(done, datetime, start_datetime, end_datetime)
    return Result(output, warnings=warnings, deliverables={"cogs": done["path"]})


@opening_rasters("raster.process_tile_batch")
def process_tile_batch(
    tiles: list[dict[str, Any]],
    path: str,
    target: str,
    tier: Tier = "analysis",
    crs: str | None = None,
    resampling: Resampling = "nearest",
    nodata: float | None = None,
    overview_resampling: Resampling | None = None,
    source_crs: str | None = None,
    datetime: str | None = None,
    start_datetime: str | None = None,
    end_datetime: str | None = None,
    *,
    ctx: Context,
) -> Result | None:
    """Make COGs of several tiles, with a checkpoint after each. The next attempt skips the finished ones."""
    _need_geo()
    from holdfast.apps.raster import cog, facts
    from holdfast.apps.raster.tiles import is_finished, write_tile

    recipe = cog.Recipe(tier, crs, source_crs, resampling, overview_resampling, nodata)
    saved = ctx.resume_point[1]["finished"] if ctx.resume_point else []
    finished = {done["index"]: done for done in saved if is_finished(done)}
    skipped = len(finished)
    for tile in tiles:
        if ctx.cancelled:
            return None
        if tile.get("index") not in finished:
            done = write_tile(storage.readable(path), path, tile, target, recipe, ctx)
            finished[done["index"]] = done
            ctx.checkpoint("tile", {"finished": list(finished.values())})
            ctx.progress(len(finished), len(tiles), "tiles")
    dated = [facts.dated(finished[tile["index"]], datetime, start_datetime, end_datetime) for tile in tiles]
    return Result(
        {"results": [output for output, _ in dated], "count": len(dated), "resumed_with": skipped},
        warnings=tuple(dict.fromkeys(warning for _, warnings in dated for warning in warnings)),
        deliverables={"cogs": target},
    )


def _need_geo() -> None:
    try:
        import numpy  # noqa: F401
        import rasterio  # noqa: F401
        import rio_cogeo  # noqa: F401
    except ModuleNotFoundError as missing:
        raise Permanent(
            f"Raster handlers need the library {missing.name}. Install it with: pip install 'holdfast[geo]'",
            code="EXTRA_MISSING",
        ) from None


def _file_name(label: str) -> str:
    """The last part of a source's name, as a file name that storage accepts."""
    return label.rstrip("/").rpartition("/")[2].lstrip(".") or "file"
