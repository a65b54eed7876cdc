"""The handlers of the raster app. GDAL is imported when the first handler runs, not with this module.

Handlers that open a raster run in their own process: GDAL reads files of unknown origin and may crash or hang on them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from holdfast import Context, Permanent, Result, handler
from holdfast.apps.raster import mount, settings, sources, spellings, storage, sweeping
from holdfast.apps.raster.item_ids import item_id
from holdfast.apps.raster.spellings import spelled
from holdfast.extend.settings import SettingsCheck, variable

Tier = Literal["visualization", "analysis", "archive"]
Resampling = Literal["nearest", "bilinear", "cubic", "cubic_spline", "lanczos", "average", "mode"]
MEGABYTE = 1024 * 1024
MEMORY_MB = 1024
"""The memory limit of an attempt. Rasters may be larger: they are read block by block."""
ATTEMPTS_PER_PROCESS = 500
"""A process is used many times: loading GDAL takes longer than handling a small raster."""

SETTINGS = SettingsCheck("raster", settings.problems)
_STORES = bool(variable("RASTER_CONTAINERS"))
"""Whether the operator has put containers into object stores."""
_KEYS_OF_STORES = ("AWS_*", "AZURE_*", "GOOGLE_*", "IDENTITY_*", "MSI_*", "*_PROXY", "*_proxy")

FILE_NAMES = {"local_path": "path", "blob_path": "path", "input_crs": "source_crs"}
COG_NAMES = {**FILE_NAMES, "target_crs": "crs", "output_tier": "tier"}
"""The further names of the params of a handler that makes COGs, and of any that opens a raster."""

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
    source: str | None = None,
    target: str | None = None,
    expected_sha256: str | None = None,
    checkpoint_mb: float = 64,
    max_mb: int = 100 * 1024,
    container_name: str | None = None,
    blob_name: str | None = None,
    *,
    ctx: Context,
) -> dict[str, Any] | None:
    """Copy a file into storage, by default into `scratch/JOB/`. The next attempt continues where this one ended."""
    origin = sources.source_of(spellings.source_named(source, container_name, blob_name))
    name = target or f"{sweeping.scratch_of(ctx.job_id)}/{_file_name(origin.label)}"
    copying = mount.Copy(origin, storage.writable(name), max_mb * MEGABYTE, ctx)
    if not copying.run(int(checkpoint_mb * MEGABYTE), expected_sha256):
        return None
    return {
        "path": name,
        "local_path": name,
        "source": origin.label,
        "bytes": copying.copied,
        "size_bytes": copying.copied,
        "size_mb": round(copying.copied / MEGABYTE, 3),
        "sha256": copying.sha256,
        "resumed_from": copying.resumed_from,
        **({"container_name": container_name, "blob_name": blob_name} if blob_name else {}),
    }


@handler("raster.remove_scratch")
def remove_scratch(*, ctx: Context) -> dict[str, Any]:
    """Remove the files that `raster.blob_to_mount` copied into `scratch/JOB/` for this job."""
    removed = sweeping.remove_scratch(ctx.job_id)
    return {"files": removed.files, "bytes": removed.bytes}


@opening_rasters("raster.validate")
@spelled(**FILE_NAMES, output_tier="tier")
def validate(
    path: str,
    source_crs: str | None = None,
    raster_type: str = "auto",
    tier: Tier | None = None,
    storage_account: str | None = None,
    *,
    ctx: Context,
) -> Result | None:
    """Read every block of a raster and describe it. Problems that can be worked around become warnings.

    `raster_type` says what the raster must be. The estimated size is that of a COG of the `tier`.
    """
    _need_geo()
    from holdfast.apps.raster import validation

    def may_continue(done: int, total: int) -> bool:
        ctx.progress(done, total, "windows read")
        return not ctx.cancelled

    if storage_account:
        raise Permanent(
            f"The storage account '{storage_account[:100]}' is refused: a job cannot choose the account of a container."
            " The operator sets it in HOLDFAST_RASTER_CONTAINERS of the workers",
            code="PARAMS_REFUSED",
        )
    wanted = validation.Wanted(source_crs, raster_type or "auto", tier)
    description = validation.validate(storage.readable(path), path, wanted, may_continue)
    return None if description is None else Result(description, warnings=tuple(description["warnings"]))


@opening_rasters("raster.create_cog")
@spelled(**COG_NAMES)
def create_cog(
    path: str,
    target: str | None = None,
    tier: Tier = "analysis",
    crs: str | None = None,
    resampling: Resampling = "nearest",
    nodata: float | None = None,
    overview_resampling: Resampling | None = None,
    source_crs: str | None = None,
    datetime: str | None = None,
    start_datetime: str | None = None,
    end_datetime: str | None = None,
    validation: dict[str, Any] | None = None,
    output_folder: str | None = None,
    *,
    ctx: Context,
) -> Result:
    """Make a Cloud-Optimized GeoTIFF of a raster, reprojected if `crs` is set.

    The output has the facts that a catalog needs. The time is `datetime` or the interval; without them, the file's own.
    """
    _need_geo()
    from holdfast.apps.raster import cog, facts, tiles

    name = spellings.target_named(target, output_folder, path, "_cog.tif")
    declared = spellings.declared_crs(source_crs, validation)
    recipe = cog.Recipe(tier, crs, declared, resampling, overview_resampling, nodata)
    done = ctx.resume_point[1] if ctx.resume_point else None
    if done is None or done["path"] != name or not tiles.is_finished(done):
        written = cog.write_cog(storage.readable(path), path, storage.writable(name), recipe, ctx)
        done = {"id": item_id(name), "path": name, "source": path} | written
        ctx.checkpoint("written", done)
    output, warnings = facts.dated(done, datetime, start_datetime, end_datetime)
    return Result(output | spellings.cog_names(output), warnings=warnings, deliverables={"cogs": name})


@opening_rasters("raster.generate_tiling_scheme")
@spelled(**FILE_NAMES, target_crs="crs", tile_size="tile_size_px", tile_overlap="overlap_px")
def generate_tiling_scheme(
    path: str,
    tile_size_px: int | None = None,
    tile_size_mb: float | None = None,
    overlap_px: int = 0,
    crs: str | None = None,
    source_crs: str | None = None,
    validation: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Cut a raster, or its reprojection, into windows. At most one of the two sizes may be set."""
    _need_geo()
    from holdfast.apps.raster import cog, tiles

    if tile_size_px is not None and tile_size_mb is not None:
        raise Permanent("Give tile_size_px or tile_size_mb, not both", code="TILES_REFUSED")
    recipe = cog.Recipe(crs=crs, source_crs=spellings.declared_crs(source_crs, validation))
    return tiles.scheme(storage.readable(path), path, recipe, tile_size_px, tile_size_mb, overlap_px)


@opening_rasters("raster.process_tile")
@spelled(**COG_NAMES)
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
@spelled(**COG_NAMES)
def process_tile_batch(
    path: str,
    target: str | None = None,
    tiles: list[dict[str, Any]] | None = None,
    tiling_scheme: dict[str, Any] | None = None,
    tier: Tier = "analysis",
    crs: str | None = None,
    resampling: Resampling = "nearest",
    nodata: float | None = None,
    overview_resampling: Resampling | None = None,
    source_crs: str | None = None,
    datetime: str | None = None,
    start_datetime: str | None = None,
    end_datetime: str | None = None,
    validation: dict[str, Any] | None = None,
    output_folder: str | None = None,
    *,
    ctx: Context,
) -> Result | None:
    """Make COGs of several tiles, with a checkpoint after each. The next attempt skips the finished ones.

    The tiles are `tiles`, or those that the raster has if it is cut like the `tiling_scheme`.
    """
    _need_geo()
    from holdfast.apps.raster import cog, facts, tile_batches
    from holdfast.apps.raster.tiles import is_finished, write_tile

    declared = spellings.declared_crs(source_crs, validation)
    recipe = cog.Recipe(tier, crs, declared, resampling, overview_resampling, nodata)
    file = storage.readable(path)
    chosen = tile_batches.chosen(tiles, tiling_scheme, file, path, recipe)
    folder = spellings.target_named(target, output_folder, path, "_tiles")
    saved = ctx.resume_point[1]["finished"] if ctx.resume_point else []
    finished = {done["index"]: done for done in saved if is_finished(done)}
    skipped = len(finished)
    for tile in chosen:
        if ctx.cancelled:
            return None
        if tile.get("index") not in finished:
            done = write_tile(file, path, tile, folder, recipe, ctx)
            finished[done["index"]] = done
            ctx.checkpoint("tile", {"finished": list(finished.values())})
            ctx.progress(len(finished), len(chosen), "tiles")
    dated = [facts.dated(finished[tile["index"]], datetime, start_datetime, end_datetime) for tile in chosen]
    made = [output for output, _ in dated]
    named = tile_batches.tile_cogs(made, chosen) if tiling_scheme is not None else {"results": made}
    return Result(
        {**named, "count": len(dated), "resumed_with": skipped},
        warnings=tuple(dict.fromkeys(warning for _, warnings in dated for warning in warnings)),
        deliverables={"cogs": folder},
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
