"""Finds a region's source tiles by their names, groups them, and lists missing and unexpected files."""

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
"""The longest list of names in an inventory; the count beside it includes the others."""


@dataclass(slots=True)
class Contents:
    """The contents of a region's folder: the return periods by scenario and place, and all other files."""

    tiles: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    files: int = 0
    size: int = 0


def take_inventory(region: str, source: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All groups of a region below `source`, in the order of their ids.

    `expected` may list `groups` (ids) and `return_periods`, as a manifest does. By default every group is expected to
    have every return period that occurs. A group lists its missing files too: its stack fails until they exist, and
    then succeeds without a new inventory.
    """
    folder = source / checked_region(region)
    files = sizes_below(folder)
    if not files and not folder.is_dir():
        raise Permanent(
            f"There is no folder {region} in the source {source.name}."
            f" Put the tiles there, named {region}/scenario/PLACE_RPnnnn.tif",
            code="FLOOD_MISSING",
        )
    contents = _sorted_files(region, files)
    wanted = dict(expected or {})
    years = sorted(wanted.get("return_periods") or set().union(*contents.tiles.values()))
    ids = {group_id(region, scenario, place): (scenario, place) for scenario, place in contents.tiles}
    missing_groups = sorted(set(wanted.get("groups") or ids) - set(ids))
    unexpected_groups = sorted(set(ids) - set(wanted.get("groups") or ids))
    groups = [group_of(region, *ids[one_id], years) for one_id in sorted(set(ids) - set(unexpected_groups))]
    present = {tile_path(region, *key, year) for key, key_years in contents.tiles.items() for year in key_years}
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
            "files": contents.files,
            "bytes": contents.size,
        },
        "missing": _named(sorted(named - present)),
        "missing_groups": _named(missing_groups),
        "empty": _named(sorted(contents.empty)),
        "unexpected": _named(sorted([*contents.unexpected, *(present - named)])),
    }


def read_expected(path: Path) -> dict[str, Any]:
    """The expected groups and return periods of a manifest."""
    try:
        content = json.loads(path.read_text())
        return {
            "groups": list(content["groups"]),
            "return_periods": [int(years) for years in content["return_periods"]],
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Permanent(
            f"{path.name} is not a manifest ({error}). A manifest is a JSON file with `groups` and `return_periods`",
            code="FLOOD_MISSING" if isinstance(error, FileNotFoundError) else "FLOOD_MANIFEST",
        ) from error


def _sorted_files(region: str, files: Mapping[str, int]) -> Contents:
    contents = Contents()
    unexpected: set[str] = set()
    for file, size in files.items():
        scenario, _, name = file.partition("/")
        if scenario in (TERRAIN, MANIFEST) or PurePosixPath(file).name.startswith("."):
            continue
        if not name or not SCENARIO.fullmatch(scenario):
            unexpected.add(f"{region}/{scenario}")
        elif not _add_tile(contents, region, scenario, name, size):
            unexpected.add(f"{region}/{scenario}/{name.partition('/')[0]}")
    contents.unexpected.extend(sorted(unexpected))
    return contents


def _add_tile(contents: Contents, region: str, scenario: str, file: str, size: int) -> bool:
    name = TILE.fullmatch(file)
    path = f"{region}/{scenario}/{file}"
    # A tile has exactly one valid name: RP0100, not RP100.
    if name is None or path != tile_path(region, scenario, name["place"], int(name["years"])):
        return False
    contents.files += 1
    contents.size += size
    contents.tiles.setdefault((scenario, name["place"]), set()).add(int(name["years"]))
    if size == 0:
        contents.empty.append(path)
    return True


def _named(names: list[str]) -> dict[str, Any]:
    return {"count": len(names), "names": names[:NAMES_SHOWN]}
