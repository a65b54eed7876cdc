"""The outlines of regions, and how a region is cut into tiles. Two outlines are real, all others are invented."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rasterio.warp import transform

from holdfast import Permanent
from holdfast.apps.flood.naming import checked_region

TILE_PIXELS = 512
COARSEST_PIXEL_M = 90
METRES_PER_DEGREE = 111_320

Ring = list[tuple[float, float]]

# Longitude and latitude, a few dozen points around the country.
CIV: Ring = [
    (-7.54, 4.35), (-6.9, 4.68), (-6.1, 4.97), (-5.3, 5.12), (-4.4, 5.2), (-3.6, 5.17), (-3.1, 5.11), (-2.86, 5.05),
    (-2.75, 5.35), (-3.1, 5.7), (-3.2, 6.5), (-3.24, 7.0), (-2.95, 7.4), (-2.56, 8.2), (-2.5, 8.8), (-2.7, 9.4),
    (-3.0, 9.75), (-3.6, 9.92), (-4.3, 9.62), (-4.8, 9.85), (-5.1, 10.3), (-5.5, 10.43), (-5.9, 10.25), (-6.2, 10.7),
    (-6.7, 10.65), (-7.0, 10.2), (-7.6, 10.45), (-7.95, 10.17), (-8.1, 9.6), (-7.85, 9.1), (-8.2, 8.5), (-8.1, 7.9),
    (-8.45, 7.6), (-8.35, 6.9), (-8.6, 6.5), (-8.0, 6.25), (-7.5, 5.8), (-7.4, 5.3), (-7.55, 4.9),
]  # fmt: skip
RWA: Ring = [
    (29.02, -2.74), (29.35, -2.83), (29.75, -2.8), (29.93, -2.35), (30.35, -2.35), (30.55, -2.4), (30.85, -2.3),
    (30.82, -1.7), (30.45, -1.15), (30.3, -1.08), (29.95, -1.45), (29.6, -1.39), (29.25, -1.6), (29.1, -1.95),
    (28.88, -2.4),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Region:
    """A region: its outline, and the properties that all its source files share."""

    name: str
    outline: Ring
    epsg: int
    dtype: str

    @property
    def crs(self) -> str:
        return f"EPSG:{self.epsg}"

    @property
    def nodata(self) -> float:
        return -9999.0 if self.dtype == "float32" else -32768.0

    @property
    def unit(self) -> str:
        return "m" if self.dtype == "float32" else "cm"


@dataclass(frozen=True, slots=True)
class Tile:
    """One square of a region's grid: its upper left corner and its pixel size, in the region's CRS."""

    place: str
    left: float
    top: float
    pixel: float


def region_of(name: str) -> Region:
    """The region with this name. CIV and RWA are close to the real countries; other names give invented ones."""
    checked_region(name)
    if name == "CIV":
        return Region(name, CIV, 32630, "float32")
    if name == "RWA":
        return Region(name, RWA, 4326, "int16")
    digest = hashlib.sha256(name.encode()).digest()
    longitude, latitude = -12 + digest[0] / 255 * 50, -28 + digest[1] / 255 * 80
    zone = int((longitude + 180) // 6) + 1
    utm = (32600 if latitude >= 0 else 32700) + zone
    return Region(
        name,
        _island(longitude, latitude, digest[2:12]),
        4326 if digest[12] % 3 == 0 else utm,
        "int16" if digest[13] % 3 == 0 else "float32",
    )


def tiles_of(region: Region, count: int) -> list[Tile]:
    """`count` tiles, sorted by name: from the middle of the region, with smaller pixels if they would not fit."""
    metres = COARSEST_PIXEL_M
    while len(tiles := _grid(region, metres)) < count:
        metres -= 1
        if metres < 1:
            raise Permanent(f"{region.name} is too small for {count} places. Use fewer", code="FLOOD_REGION")
    middle = np.mean(np.array([(tile.left, tile.top) for tile in tiles]), axis=0)
    tiles.sort(key=lambda tile: (math.hypot(tile.left - middle[0], tile.top - middle[1]), tile.place))
    return sorted(tiles[:count], key=lambda tile: tile.place)


def kilometres(region: Region, tile: Tile) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The positions of a tile's columns and rows, in km to the east and to the north."""
    steps = (np.arange(TILE_PIXELS) + 0.5) * tile.pixel
    east, north = tile.left + steps, tile.top - steps
    if region.epsg != 4326:
        return east / 1000, north / 1000
    middle = math.radians(float(np.mean(np.array(region.outline)[:, 1])))
    return east * METRES_PER_DEGREE / 1000 * math.cos(middle), north * METRES_PER_DEGREE / 1000


def _grid(region: Region, metres: int) -> list[Tile]:
    """All tiles of this resolution whose middle is in the region. The grid begins at the origin of the CRS."""
    pixel = float(metres) if region.epsg != 4326 else round(metres / METRES_PER_DEGREE, 7)
    side = pixel * TILE_PIXELS
    x, y = _in_crs(region)
    columns = np.arange(math.floor(x.min() / side), math.ceil(x.max() / side))
    rows = np.arange(math.floor(y.min() / side), math.ceil(y.max() / side))
    east, north = (grid.ravel() for grid in np.meshgrid((columns + 0.5) * side, (rows + 0.5) * side))
    inside = _inside(east, north, x, y)
    east, north = east[inside], north[inside]
    if not len(east):
        return []
    longitudes, latitudes = transform(region.crs, "EPSG:4326", east, north)
    return [
        Tile(place_name(lon, lat), round(float(e) - side / 2, 7), round(float(n) + side / 2, 7), pixel)
        for e, n, lon, lat in zip(east, north, longitudes, latitudes, strict=True)
    ]


def place_name(longitude: float, latitude: float) -> str:
    """The name of a place: the middle of its tile in hundredths of a degree, such as N0531W00402."""
    return (
        f"{'N' if latitude >= 0 else 'S'}{round(abs(latitude) * 100):04d}"
        f"{'E' if longitude >= 0 else 'W'}{round(abs(longitude) * 100):05d}"
    )


def _in_crs(region: Region) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    longitudes, latitudes = zip(*region.outline, strict=True)
    x, y = transform("EPSG:4326", region.crs, longitudes, latitudes)
    return np.array(x), np.array(y)


def _inside(
    x: NDArray[np.float64], y: NDArray[np.float64], ring_x: NDArray[np.float64], ring_y: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Which points are inside a ring: a ray to the east crosses it an odd number of times."""
    inside = np.zeros(len(x), bool)
    for x1, y1, x2, y2 in zip(ring_x, ring_y, np.roll(ring_x, 1), np.roll(ring_y, 1), strict=True):
        if y1 != y2:
            crosses = (y1 > y) != (y2 > y)
            inside ^= crosses & (x < (x2 - x1) * (y - y1) / (y2 - y1) + x1)
    return inside


def _island(longitude: float, latitude: float, bumps: bytes) -> Ring:
    points = 48
    ring: Ring = []
    for number in range(points):
        angle = 2 * math.pi * number / points
        radius = 2.2 + sum(
            (byte / 255 - 0.5) * math.sin(angle * (i // 2 + 1) + (i % 2) * math.pi / 2) * 1.1 / (i // 2 + 1)
            for i, byte in enumerate(bumps)
        )
        ring.append((longitude + radius * math.cos(angle), latitude + radius * math.sin(angle)))
    return ring
