"""The names of files, groups and bands: `REGION/scenario/PLACE_RPnnnn.tif`."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from holdfast import Permanent

REGION = re.compile(r"[A-Z]{3}")
SCENARIO = re.compile(r"[a-z][a-z0-9_]*")
TILE = re.compile(r"(?P<place>[A-Za-z0-9][A-Za-z0-9-]*)_RP(?P<years>[0-9]{1,5})\.tif")
TERRAIN = "_terrain"
"""The folder of a region's terrain: the background of pictures, not a source of stacks."""
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Group:
    """The files of one stack: one place in one scenario, by ascending return period, relative to the source."""

    id: str
    region: str
    place: str
    scenario: str
    files: list[str]
    bands: list[str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def group_of(region: str, scenario: str, place: str, return_periods: list[int]) -> Group:
    ordered = sorted(return_periods)
    return Group(
        id=group_id(region, scenario, place),
        region=region,
        place=place,
        scenario=scenario,
        files=[tile_path(region, scenario, place, years) for years in ordered],
        bands=[band_name(years) for years in ordered],
    )


def group_id(region: str, scenario: str, place: str) -> str:
    return f"{region}/{scenario}/{place}"


def tile_path(region: str, scenario: str, place: str, years: int) -> str:
    return f"{region}/{scenario}/{place}_RP{years:04d}.tif"


def terrain_path(region: str, place: str) -> str:
    return f"{region}/{TERRAIN}/{place}.tif"


def band_name(years: int) -> str:
    return f"rp{years:04d}"


def years_of(band: str) -> int:
    """The return period in a band's name."""
    if not re.fullmatch(r"rp[0-9]{1,5}", band):
        raise Permanent(
            f"'{band}' is not a band name. Use a name like rp0100, for a return period of 100 years", code="FLOOD_BAND"
        )
    return int(band[2:])


def checked_region(region: str) -> str:
    if not REGION.fullmatch(region):
        raise Permanent(f"'{region}' is not a region. Use three capital letters, such as CIV", code="FLOOD_REGION")
    return region
