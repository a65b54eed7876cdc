"""Converts boxes on the earth and time ranges between STAC and Postgres. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

POLE, HALF_TURN, TURN = 90.0, 180.0, 360.0
WORLD = [-HALF_TURN, -POLE, HALF_TURN, POLE]


def flat(bbox: Sequence[Any]) -> tuple[float, float, float, float]:
    """West, south, east and north of a STAC bbox. If it crosses the antimeridian, east is greater than 180.

    Raises ValueError with the reason if the bbox is invalid.
    """
    numbers = [float(n) for n in bbox if isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n)]
    if len(bbox) not in (4, 6) or len(numbers) != len(bbox):
        raise ValueError(f"its bbox must be 4 or 6 numbers, not {list(bbox)!r}")
    west, south, east, north = numbers if len(numbers) == 4 else (*numbers[:2], *numbers[3:5])
    if not -POLE <= south <= north <= POLE:
        raise ValueError(f"its bbox has the latitudes {south:g} to {north:g}; they must rise within -90 and 90")
    if not (-HALF_TURN <= west <= HALF_TURN and -HALF_TURN <= east <= HALF_TURN):
        raise ValueError(f"its bbox has the longitudes {west:g} to {east:g}; they must be within -180 and 180")
    return west, south, east + TURN if east < west else east, north


def round_earth(west: float, south: float, east: float, north: float) -> list[float]:
    """The STAC bbox of a box whose longitudes may be outside -180 to 180."""
    if east - west >= TURN:
        return [-HALF_TURN, south, HALF_TURN, north]
    turns = math.floor((west + HALF_TURN) / TURN) * TURN
    west, east = west - turns, east - turns
    return [west, south, east - TURN if east > HALF_TURN else east, north]


def footprint(bbox: Sequence[float]) -> dict[str, Any]:
    """The rectangle of a bbox as GeoJSON; two rectangles if it crosses the antimeridian, as RFC 7946 requires."""
    west, south, east, north = flat(bbox)
    if east <= HALF_TURN:
        return {"type": "Polygon", "coordinates": [_ring(west, south, east, north)]}
    halves = [_ring(west, south, HALF_TURN, north), _ring(-HALF_TURN, south, east - TURN, north)]
    return {"type": "MultiPolygon", "coordinates": [[ring] for ring in halves]}


def _ring(west: float, south: float, east: float, north: float) -> list[list[float]]:
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def bbox_of(geometry: dict[str, Any]) -> list[float]:
    """The bbox of a GeoJSON geometry. ValueError if it touches both sides of the antimeridian: that is ambiguous."""
    positions = list(_positions(geometry.get("coordinates", geometry.get("geometries"))))
    if not positions:
        raise ValueError("its geometry has no coordinates")
    xs, ys = [x for x, _ in positions], [y for _, y in positions]
    if min(xs) == -HALF_TURN and max(xs) == HALF_TURN and geometry.get("type", "").startswith("Multi"):
        raise ValueError("its geometry touches both sides of the antimeridian: add its bbox")
    return [min(xs), min(ys), max(xs), max(ys)]


def _positions(part: Any) -> list[tuple[float, float]]:
    if isinstance(part, dict):
        return _positions(part.get("coordinates", part.get("geometries")))
    if not isinstance(part, list | tuple):
        return []
    if len(part) >= 2 and all(isinstance(n, int | float) for n in part):
        return [(float(part[0]), float(part[1]))]
    return [position for inner in part for position in _positions(inner)]


def moment(text: Any) -> datetime:
    """An RFC 3339 time. ValueError for anything else, also for a time without a zone."""
    try:
        parsed = datetime.fromisoformat(text) if isinstance(text, str) and "T" in text.upper() else None
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise ValueError(f"{text!r} is not a time like 2020-01-01T00:00:00Z")
    return parsed.astimezone(UTC)


def written(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def time_range(begin: datetime | None, end: datetime | None) -> str:
    """A range as Postgres reads it, with both ends included."""
    if begin is not None and end is not None and end < begin:
        raise ValueError(f"its end {written(end)} is before its begin {written(begin)}")
    return f"[{written(begin) if begin else ''},{written(end) if end else ''}]"


def searched_range(text: str) -> str:
    """The range of a STAC search: one time, or two separated by `/`, one of which may be `..` (open)."""
    parts = text.split("/")
    if len(parts) > 2 or all(part in ("", "..") for part in parts):
        raise ValueError(f"{text!r} is neither one time nor two times separated by '/'")
    ends = [None if part in ("", "..") else moment(part) for part in parts]
    return time_range(ends[0], ends[-1])
