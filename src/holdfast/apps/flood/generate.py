"""Generates plausible source data: water depths by scenario, return period and place, with defects on request.

The same arguments give the same bytes, whatever the number of processes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from numpy.typing import NDArray

from holdfast import Permanent
from holdfast.apps.flood.naming import MANIFEST, group_id, terrain_path, tile_path
from holdfast.apps.flood.regions import TILE_PIXELS, Region, Tile, kilometres, region_of, tiles_of
from holdfast.apps.flood.terrain import Field, Ground, depth

SCENARIOS = ("fluvial_undefended", "fluvial_defended", "pluvial_defended", "coastal_undefended")
RETURN_PERIODS = (10, 20, 50, 100, 200, 500, 1000)
DEFECTS = ("missing", "empty", "truncated", "wrong_crs", "wrong_size", "all_nodata")
MODELLED = "2024:01:01 00:00:00"
TERRAIN_STEP = 2


@dataclass(frozen=True, slots=True)
class Order:
    """The files of one place to write; `defects` gives the kind of defect by file."""

    region: Region
    tile: Tile
    scenarios: tuple[str, ...]
    return_periods: tuple[int, ...]
    directory: str
    seed: int
    defects: dict[str, str]


def generate(
    region: str,
    groups: int,
    directory: Path | str,
    seed: int,
    *,
    return_periods: Sequence[int] = RETURN_PERIODS,
    scenarios: Sequence[str] = SCENARIOS,
    defects: Mapping[str, int] | None = None,
    workers: int = 2,
) -> dict[str, Any]:
    """Write the source files of this number of groups below `directory`; returns the content of the manifest.

    A group is a place in a scenario. `defects` gives the number of groups with each defect, such as
    `{"missing": 1, "wrong_crs": 2}`. Each defect spoils one file, and no group has two.
    """
    land = region_of(region)
    tiles = tiles_of(land, -(-groups // len(scenarios)))
    wanted = [(tile.place, scenario) for tile in tiles for scenario in scenarios][:groups]
    spoiled = _choose(land, wanted, sorted(return_periods), dict(defects or {}), seed)
    base = Path(directory)
    orders = [
        Order(
            land,
            tile,
            tuple(scenario for place, scenario in wanted if place == tile.place),
            tuple(sorted(return_periods)),
            str(base),
            seed,
            {file: kind for file, kind in spoiled.items() if f"/{tile.place}_" in file},
        )
        for tile in tiles
    ]
    for folder in (*scenarios, Path(terrain_path(region, "")).parent.name):
        (base / region / folder).mkdir(parents=True, exist_ok=True)
    size = _carry_out(orders, workers)
    manifest = {
        "region": region,
        "seed": seed,
        "crs": land.crs,
        "dtype": land.dtype,
        "pixels": TILE_PIXELS,
        "return_periods": sorted(return_periods),
        "groups": sorted(group_id(region, scenario, place) for place, scenario in wanted),
        "bytes": size,
        "defects": [{"kind": kind, "file": file} for file, kind in sorted(spoiled.items())],
    }
    (base / region / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def _choose(
    region: Region, wanted: list[tuple[str, str]], return_periods: list[int], defects: dict[str, int], seed: int
) -> dict[str, str]:
    """Which file has which defect."""
    unknown = sorted(set(defects) - set(DEFECTS))
    if unknown or sum(defects.values()) > len(wanted):
        raise Permanent(
            f"{len(wanted)} groups cannot have the defects {defects}. Use at most one for each group, of:"
            f" {', '.join(DEFECTS)}",
            code="FLOOD_DEFECTS",
        )
    chance = np.random.default_rng([seed, *region.name.encode()])
    order = iter(chance.permutation(len(wanted)))
    spoiled = {}
    for kind in DEFECTS:
        for _ in range(defects.get(kind, 0)):
            place, scenario = wanted[next(order)]
            years = return_periods[int(chance.integers(len(return_periods)))]
            spoiled[tile_path(region.name, scenario, place, years)] = kind
    return spoiled


def _carry_out(orders: list[Order], workers: int) -> int:
    if workers <= 1 or len(orders) == 1:
        return sum(map(write_place, orders))
    # Spawned, not forked: a fork would copy threads, and GDAL does not survive a fork.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return sum(pool.map(write_place, orders, chunksize=max(1, len(orders) // (workers * 16))))


def write_place(order: Order) -> int:
    """Write all files of one place; returns their total size in bytes."""
    ground = Ground(order.seed, *kilometres(order.region, order.tile))
    base, region = Path(order.directory), order.region
    size = _write_terrain(base / terrain_path(region.name, order.tile.place), order, ground.height)
    for scenario in order.scenarios:
        for years in order.return_periods:
            name = tile_path(region.name, scenario, order.tile.place, years)
            defect = order.defects.get(name)
            if defect == "missing":
                continue
            _write_depth(base / name, order, depth(ground, scenario, years), defect)
            size += (base / name).stat().st_size
    return size


def _write_depth(path: Path, order: Order, metres: Field, defect: str | None) -> None:
    region = order.region
    stored = metres if region.unit == "m" else np.round(metres * 100)
    values = np.where(np.isnan(metres), region.nodata, stored).astype(region.dtype)
    if defect == "all_nodata":
        values[:] = region.nodata
    elif defect == "wrong_size":
        values = values[:-12]
    crs = "EPSG:32635" if defect == "wrong_crs" else region.crs
    _write(path, values, crs=crs, order=order, step=1, nodata=region.nodata, unit=region.unit)
    if defect == "truncated":
        os.truncate(path, path.stat().st_size * 3 // 5)
    elif defect == "empty":
        os.truncate(path, 0)


def _write_terrain(path: Path, order: Order, height: Field) -> int:
    """Write the terrain at a coarser resolution: it is only the background of pictures."""
    values = np.round(height[::TERRAIN_STEP, ::TERRAIN_STEP]).astype("int16")
    _write(path, values, crs=order.region.crs, order=order, step=TERRAIN_STEP, nodata=-32768, unit="m")
    return path.stat().st_size


def _write(path: Path, values: NDArray[Any], *, crs: str, order: Order, step: int, nodata: float, unit: str) -> None:
    tile = order.tile
    layout = {"tiled": True, "blockxsize": 256, "blockysize": 256, "compress": "deflate", "zlevel": 4}
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        count=1,
        height=values.shape[0],
        width=values.shape[1],
        dtype=values.dtype,
        crs=crs,
        transform=Affine(tile.pixel * step, 0, tile.left, 0, -tile.pixel * step, tile.top),
        nodata=nodata,
        predictor=2 if values.dtype.kind == "i" else 1,
        **layout,
    ) as file:
        # Metadata first, so that the TIFF directory comes before the pixels: a truncated file can still be opened.
        file.units = (unit,)
        file.update_tags(TIFFTAG_DATETIME=MODELLED)
        file.write(values, 1)
