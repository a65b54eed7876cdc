"""Where and when: boxes on a round earth and ranges of time, between STAC's forms and Postgres's. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

POLE, HALF_TURN, TURN = 90.0, 180.0, 360.0
WORLD = [-HALF_TURN, -POLE, HALF_TURN, POLE]


def flat(bbox: Sequence[Any]) -> tuple[float, float, float, float]:
    """West, south, east and north of a STAC bbox, in one piece: what goes over the antimeridian ends east of 180.

    ValueError says what is wrong with it.
    """
    numbers = [float(n) for n in bbox if isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n)]
    if len(bbox) not in (4, 6) or len(numbers) != len(bbox):
        raise ValueError(f"its bbox must be 4 or 6 numbers, not {list(bbox)!r}")
    west, south, east, north = numbers if len(numbers) == 4 else (*numbers[:2], *numbers[3:5])
    if not -POLE <= south <= north <= POLE:
        raise ValueError(f"its bbox has the latitudes {south:g} to {north:g}; they must rise within -90 and 90")
    if not (-HALF_TURN <= west <= HALF_TURN and -HALF_TURN <= east <= HALF_TURN):
        raise ValueError(f"its bbox has the longitudes {west:g} to {east:g}; they must lie within -180 and 180")
    return west, south, east + TURN if east < west else east, north


def round_earth(west: float, south: float, east: float, north: float) -> list[float]:
    """The STAC bbox of a box in one piece, wherever its longitudes are counted from."""
    if east - west >= TURN:
        return [-HALF_TURN, south, HALF_TURN, north]
    turns = math.floor((west + HALF_TURN) / TURN) * TURN
    west, east = west - turns, east - turns
    return [west, south, east - TURN if east > HALF_TURN else east, north]


def footprint(bbox: Sequence[float]) -> dict[str, Any]:
    """The rectangle of a bbox as GeoJSON: two of them where it goes over the antimeridian, as RFC 7946 wants it."""
    west, south, east, north = flat(bbox)
    if east <= HALF_TURN:
        return {"type": "Polygon", "coordinates": [_ring(west, south, east, north)]}
    halves = [_ring(west, south, HALF_TURN, north), _ring(-HALF_TURN, south, east - TURN, north)]
    return {"type": "MultiPolygon", "coordinates": [[ring] for ring in halves]}


def _ring(west: float, south: float, east: float, north: float) -> list[list[float]]:
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def bbox_of(geometry: dict[str, Any]) -> list[float]:
    """The bbox of a GeoJSON geometry. ValueError for one on both sides of the antimeridian: it may mean two."""
    positions = list(_positions(geometry.get("coordinates", geometry.get("geometries"))))
    if not positions:
        raise ValueError("its geometry has no coordinates")
    xs, ys = [x for x, _ in positions], [y for _, y in positions]
    if min(xs) == -HALF_TURN and max(xs) == HALF_TURN and geometry.get("type", "").startswith("Multi"):
        raise ValueError("its geometry lies on both sides of the antimeridian: give its bbox as well")
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
    """An RFC 3339 time. ValueError for anything else, also for one without its zone."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) and "T" in text.upper() else None
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ValueError(f"{text!r} is not a time like 2020-01-01T00:00:00Z")
    return found.astimezone(UTC)


def written(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def time_range(begin: datetime | None, end: datetime | None) -> str:
    """As Postgres reads it; both ends belong to it."""
    if begin is not None and end is not None and end < begin:
        raise ValueError(f"it would end at {written(end)}, before it begins at {written(begin)}")
    return f"[{written(begin) if begin else ''},{written(end) if end else ''}]"


def searched_range(text: str) -> str:
    """The range of a STAC search: a moment, or two with `/` between, of which one may be `..`."""
    parts = text.split("/")
    if len(parts) > 2 or all(part in ("", "..") for part in parts):
        raise ValueError(f"{text!r} is neither a moment nor two with '/' between")
    ends = [None if part in ("", "..") else moment(part) for part in parts]
    return time_range(ends[0], ends[-1])
