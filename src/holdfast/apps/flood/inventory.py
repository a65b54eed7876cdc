"""Finds a region's source tiles by their names, groups them, and names what is missing or does not belong there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from holdfast import Permanent
from holdfast.apps.flood.naming import MANIFEST, SCENARIO, TERRAIN, TILE, checked_region, group_id, group_of, tile_path
from holdfast.apps.raster.storage import sizes_below

NAMES_SHOWN = 200
"""How many names a list of an inventory has; its count tells of the others."""


@dataclass(slots=True)
class Found:
    """What lies in a region's folder: the return periods by scenario and place, and whatever else there is."""

    tiles: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    files: int = 0
    size: int = 0


def take_inventory(region: str, source: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All groups of a region below `source`, in the order of their ids.

    `expected` may name `groups` (ids) and `return_periods`; a manifest does. Without it every group is expected to
    have the return periods that any has. A group that lacks a file names it all the same: its stack fails until the
    file is there, and then needs no new inventory.
    """
    folder = source / checked_region(region)
    files = sizes_below(folder)
    if not files and not folder.is_dir():
        raise Permanent(
            f"There is no folder {region} in the source {source.name}."
            f" Put its tiles there, as {region}/scenario/PLACE_RPnnnn.tif",
            code="FLOOD_MISSING",
        )
    found = _look(region, files)
    wanted = dict(expected or {})
    years = sorted(wanted.get("return_periods") or set().union(*found.tiles.values()))
    ids = {group_id(region, scenario, place): (scenario, place) for scenario, place in found.tiles}
    missing_groups = sorted(set(wanted.get("groups") or ids) - set(ids))
    unexpected_groups = sorted(set(ids) - set(wanted.get("groups") or ids))
    groups = [group_of(region, *ids[found_id], years) for found_id in sorted(set(ids) - set(unexpected_groups))]
    present = {tile_path(region, *key, year) for key, found_years in found.tiles.items() for year in found_years}
    named = {file for group in groups for file in group.files}
    return {
        "region": region,
        "groups": [group.to_json() for group in groups],
        "scenarios": sorted({group.scenario for group in groups}),
        "return_periods": years,
        "counts": {
            "groups": len(groups),
            "places": len({group.place for group in groups}),
            "scenarios": len({group.scenario for group in groups}),
            "files": found.files,
            "bytes": found.size,
        },
        "missing": _named(sorted(named - present)),
        "missing_groups": _named(missing_groups),
        "empty": _named(sorted(found.empty)),
        "unexpected": _named(sorted([*found.unexpected, *(present - named)])),
    }


def read_expected(path: Path) -> dict[str, Any]:
    """What a manifest says that should be there."""
    try:
        content = json.loads(path.read_text())
        return {
            "groups": list(content["groups"]),
            "return_periods": [int(years) for years in content["return_periods"]],
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Permanent(
            f"{path.name} does not say what is expected ({error}): it is JSON with `groups` and `return_periods`",
            code="FLOOD_MISSING" if isinstance(error, FileNotFoundError) else "FLOOD_MANIFEST",
        ) from error


def _look(region: str, files: Mapping[str, int]) -> Found:
    found = Found()
    unexpected: set[str] = set()
    for file, size in files.items():
        scenario, _, name = file.partition("/")
        if scenario in (TERRAIN, MANIFEST) or PurePosixPath(file).name.startswith("."):
            continue
        if not name or not SCENARIO.fullmatch(scenario):
            unexpected.add(f"{region}/{scenario}")
        elif not _take(found, region, scenario, name, size):
            unexpected.add(f"{region}/{scenario}/{name.partition('/')[0]}")
    found.unexpected.extend(sorted(unexpected))
    return found


def _take(found: Found, region: str, scenario: str, file: str, size: int) -> bool:
    name = TILE.fullmatch(file)
    path = f"{region}/{scenario}/{file}"
    # A tile has one name only: RP0100, never RP100 beside it.
    if name is None or path != tile_path(region, scenario, name["place"], int(name["years"])):
        return False
    found.files += 1
    found.size += size
    found.tiles.setdefault((scenario, name["place"]), set()).add(int(name["years"]))
    if size == 0:
        found.empty.append(path)
    return True


def _named(names: list[str]) -> dict[str, Any]:
    return {"count": len(names), "names": names[:NAMES_SHOWN]}
