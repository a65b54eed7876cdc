"""An invented country: heights, rivers, lakes and water depths as pure functions of a random seed and a position.

All of it is noise on lattices with fixed positions on the ground, so that neighbouring tiles meet without a seam.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]

DEPTH_STEP_M = 1 / 64
"""Depths are multiples of this. A binary fraction leaves most bits zero, so a file has a third of the size."""
RIVERS = ((48.0, 1.0, 1.1), (17.0, 0.55, 1.3), (6.5, 0.26, 1.7))
"""Networks of rivers: their distance in km, how much water they carry, how steep their valleys are."""
RILLS = (2.1, 0.2, 1.5)
"""The small channels that carry the rain away, in the same form."""


@dataclass(frozen=True)
class Ground:
    """The ground under a tile: `east` and `north` are the km of its columns and rows; `seed` determines the country."""

    seed: int
    east: NDArray[np.float64]
    north: NDArray[np.float64]

    @cached_property
    def roughness(self) -> Field:
        """Small hills, between about -1 and 1."""
        return sum_of(noise(self, 11 + i, 5.0 / 2**i) * np.float32(0.5**i) for i in range(5))

    @cached_property
    def uplands(self) -> Field:
        """Where the land is high, between about -1 and 1, over tens of kilometres."""
        return sum_of(noise(self, 31 + i, 90.0 / 2**i) * np.float32(0.5**i) for i in range(4))

    @cached_property
    def above_rivers(self) -> list[Field]:
        """The height in m above the nearest river, by network."""
        return [self._above(number, spacing, steepness) for number, (spacing, _, steepness) in enumerate(RIVERS)]

    @cached_property
    def above_rills(self) -> Field:
        spacing, _, steepness = RILLS
        return self._above(len(RIVERS), spacing, steepness)

    @cached_property
    def lakes(self) -> NDArray[np.bool_]:
        """Permanent water, which has no flood depth."""
        return self.basin < 0.035

    @cached_property
    def height(self) -> Field:
        """Metres above the sea."""
        valleys = np.minimum.reduce([above * np.float32(4.5) for above in self.above_rivers])
        height: Field = 190 + 130 * self.uplands + np.minimum(valleys, 90) + 16 * self.roughness
        return height

    @cached_property
    def rainfall(self) -> Field:
        """The rainfall relative to the average: between about a third and the double."""
        return np.clip(1 + np.float32(0.34) * noise(self, 61, 75.0) + np.float32(0.2) * noise(self, 62, 26.0), 0.35, 2)

    @cached_property
    def basin(self) -> Field:
        """0 in a lake, growing with the distance from it."""
        return np.clip(1.22 - noise(self, 51, 24.0) - np.float32(0.06) * self.roughness, 0, 2)

    def _above(self, number: int, spacing: float, steepness: float) -> Field:
        """Rivers are where a noise is zero. The distance to one is about the noise divided by its slope."""
        value, by_east, by_north = noise_with_slope(self, 71 + number, spacing)
        wander = np.float32(0.05) * noise(self, 81 + number, spacing / 6)
        distance = np.abs(value + wander) / (np.hypot(by_east, by_north) + np.float32(0.12 / spacing))
        valley = np.float32(steepness) * (1 + np.float32(0.55) * self.uplands)
        hills = np.float32(1.6) * np.minimum(2 * distance, 1) * np.maximum(self.roughness + 1, 0)
        return np.maximum(np.float32(2.0) * valley * distance + hills, 0)


def depth(ground: Ground, scenario: str, return_period: int) -> Field:
    """Metres of water in a flood with this return period in years; NaN in lakes, 0 where it stays dry."""
    growth = ground.rainfall * np.float32(0.55 + 0.62 * math.log10(return_period))
    kind, _, defence = scenario.partition("_")
    if kind == "pluvial":
        water = np.float32(0.75) * growth - ground.above_rills - np.maximum(ground.uplands + 0.4, 0)
    elif kind == "coastal":
        water = np.float32(2.7) * growth - ground.basin * np.float32(7) - (ground.roughness + 1) * np.float32(0.6)
    else:
        levels = [np.float32(2.6 * carries) * growth for _, carries, _ in RIVERS]
        water = np.maximum.reduce([level - above for level, above in zip(levels, ground.above_rivers, strict=True)])
    if defence == "defended":
        water = water - np.float32(0.6 / math.sqrt(return_period / 10))
    steps = np.floor(np.maximum(water, 0) / np.float32(DEPTH_STEP_M))
    return np.where(ground.lakes, np.float32(np.nan), steps * np.float32(DEPTH_STEP_M)).astype(np.float32)


def noise(ground: Ground, layer: int, spacing: float) -> Field:
    """Smooth noise, mostly between -1 and 1, whose bumps are `spacing` km apart."""
    rows, columns, lattice = _lattice(ground, layer, spacing)
    return _spread(_spread(lattice.T, columns, _VALUE).T, rows, _VALUE)


def noise_with_slope(ground: Ground, layer: int, spacing: float) -> tuple[Field, Field, Field]:
    """The same noise, with its slope per km to the east and to the north."""
    rows, columns, lattice = _lattice(ground, layer, spacing)
    across = _spread(lattice.T, columns, _VALUE).T
    by_east = _spread(_spread(lattice.T, columns, _SLOPE).T, rows, _VALUE) / np.float32(spacing)
    by_north = _spread(across, rows, _SLOPE) / np.float32(spacing)
    return _spread(across, rows, _VALUE), by_east, by_north


def sum_of(fields: Iterable[Field]) -> Field:
    return np.asarray(np.add.reduce(list(fields)), np.float32)


def _lattice(
    ground: Ground, layer: int, spacing: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float32]]:
    """Random values at the lattice points around a tile, and the positions of its rows and columns between them."""
    rows, columns = ground.north / spacing, ground.east / spacing
    first_row, first_column = int(np.floor(rows.min())) - 1, int(np.floor(columns.min())) - 1
    height, width = int(np.floor(rows.max())) - first_row + 3, int(np.floor(columns.max())) - first_column + 3
    corners = scattered(
        ground.seed,
        layer,
        np.arange(first_row, first_row + height)[:, None],
        np.arange(first_column, first_column + width)[None, :],
    )
    return rows - first_row, columns - first_column, (corners * np.float32(2.6)).astype(np.float32)


_VALUE = np.array([[1, -3, 3, -1], [4, 0, -6, 3], [1, 3, 3, -3], [0, 0, 0, 1]]) / 6
_SLOPE = np.array([[-1, 2, -1], [0, -4, 3], [1, 2, -3], [0, 0, 1]]) / 2
"""The weights of four lattice points for a position between the middle two: cubic splines, and their slope."""


def _spread(lattice: Field, places: NDArray[np.float64], spline: NDArray[np.float64]) -> Field:
    """Interpolate rows of a lattice. Without a matrix product, whose sums differ from machine to machine."""
    whole = np.floor(places).astype(np.int64)
    powers = (places - whole)[:, None] ** np.arange(spline.shape[1])
    shares = (powers[:, None, :] * spline[None, :, :]).sum(axis=2).astype(np.float32)
    rows: Field = shares[:, 0, None] * lattice[whole - 1]
    for corner in (1, 2, 3):
        rows += shares[:, corner, None] * lattice[whole - 1 + corner]
    return rows


def scattered(seed: int, layer: int, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
    """A pseudo-random number between -1 and 1 for each lattice point, always the same for the same point."""
    start = (seed * 0x9E3779B97F4A7C15 + layer * 0xD1B54A32D192ED03) % 2**64
    mixed = rows.astype(np.uint64) * np.uint64(0x8CB92BA72F3D8DD7) ^ columns.astype(np.uint64) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    mixed = mixed + np.uint64(start)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed = mixed ^ (mixed >> np.uint64(31))
    between: NDArray[np.float64] = mixed.astype(np.float64) / 2**63 - 1
    return between
