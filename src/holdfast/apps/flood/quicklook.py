"""Draws stacks with Pillow: a map of all footprints coloured by depth, and a sheet of thumbnails with captions."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from rasterio.enums import Resampling
from rasterio.errors import RasterioError

from holdfast.apps.flood.naming import terrain_path
from holdfast.apps.flood.raster import METRES, opened, quietly, valid
from holdfast.apps.flood.storage import publishing
from holdfast.apps.raster.storage import fetched, sha256_of

Colour = tuple[int, int, int]
Picture = Image.Image
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

PAPER: Colour = (250, 249, 246)
PANEL: Colour = (240, 240, 235)
INK: Colour = (38, 50, 62)
FAINT: Colour = (122, 132, 141)
RULE: Colour = (218, 219, 214)
LAKE: Colour = (184, 205, 219)
DRY: Colour = (222, 221, 214)
RAMP: tuple[Colour, ...] = (
    (208, 232, 242), (152, 206, 228), (89, 168, 209), (42, 122, 181), (24, 78, 140), (20, 40, 95), (58, 20, 92),
)  # fmt: skip
"""Colours from shallow to deep, light to dark, so that they can be read in grey too."""
STEPS_M = (0.5, 1, 2, 3, 5, 8, 12, 20, 40)
THUMB_PIXELS = 256
SCALE = 2
"""Everything is drawn twice as large and then reduced, for smooth edges."""


def footprint_map(stacks: Sequence[dict[str, Any]], target: Path, title: str) -> dict[str, Any]:
    """All stacks' footprints, coloured by the greatest depth of each place, with a legend."""
    places = _by_place(stacks)
    low, top = _span([depth for _, depth in places])
    box = _around([ring for ring, _ in places])
    squeeze = math.cos(math.radians((box[1] + box[3]) / 2))
    height = 820
    width = round(min(1000, max(560, height * (box[2] - box[0]) * squeeze / (box[3] - box[1]))))
    image = Image.new("RGB", ((width + 350) * SCALE, (height + 190) * SCALE), PAPER)
    draw = ImageDraw.Draw(image)
    _heading(draw, 92, 36, title, f"Greatest depth by place, of {_number(len(stacks), 'stack')}")
    frame = (92, 118, 92 + width, 118 + height)
    draw.rounded_rectangle(_scaled(frame), radius=6 * SCALE, fill=PANEL)
    project = _projection(frame, box, squeeze)
    _graticule(draw, frame, box, project)
    # Shallow places first, so that a neighbour never hides the edge of a deep one.
    for ring, depth in sorted(places, key=lambda place: (place[1] is not None, place[1] or 0)):
        points = [(x * SCALE, y * SCALE) for x, y in (project(*point) for point in ring)]
        draw.polygon(
            points, fill=DRY if depth is None else _colour((depth - low) / (top - low)), outline=PAPER, width=SCALE
        )
    _legend(draw, frame[2] + 40, frame[1] + 4, 300, low, top)
    _facts(draw, frame[2] + 40, frame[1] + 400, stacks, len(places))
    return _save(image, target)


def contact_sheet(
    stacks: Sequence[dict[str, Any]],
    target: Path,
    title: str,
    located: Callable[[str], Path],
    source: Path | None,
    count: int,
) -> dict[str, Any]:
    """Thumbnails of some stacks, chosen evenly from all: the rarest flood of each over the terrain."""
    chosen = _evenly(list(stacks), count)
    top = _top([fact["max_depth_m"] for fact in chosen])
    columns = min(4, len(chosen))
    rows = -(-len(chosen) // columns)
    gap, caption = 28, 64
    width = max(620, 48 * 2 + columns * THUMB_PIXELS + (columns - 1) * gap)
    height = 188 + rows * (THUMB_PIXELS + caption + gap)
    image = Image.new("RGB", (width * SCALE, height * SCALE), PAPER)
    draw = ImageDraw.Draw(image)
    rarest = max(years for fact in chosen for years in fact["return_periods"])
    _heading(draw, 48, 36, title, f"{len(chosen)} of {_number(len(stacks), 'stack')} · flood of once in {rarest} years")
    _bar(draw, 48, 116, 300, top)
    for number, fact in enumerate(chosen):
        x = 48 + (number % columns) * (THUMB_PIXELS + gap)
        y = 172 + (number // columns) * (THUMB_PIXELS + caption + gap)
        thumb = _thumbnail(fact, located(fact["href"]), source, top)
        image.paste(thumb.resize((THUMB_PIXELS * SCALE,) * 2, Image.Resampling.LANCZOS), (x * SCALE, y * SCALE))
        draw.rectangle(_scaled((x, y, x + THUMB_PIXELS, y + THUMB_PIXELS)), outline=RULE, width=SCALE)
        _caption(draw, x, y + THUMB_PIXELS + 8, fact)
    return _save(image, target)


def _thumbnail(fact: dict[str, Any], path: Path, source: Path | None, top: float) -> Picture:
    """The last band, read from an overview: water over grey hills."""
    with quietly(), opened(path, fact["href"]) as file:
        shape = (THUMB_PIXELS, THUMB_PIXELS)
        values = file.read(file.count, out_shape=shape, resampling=Resampling.nearest)
        known = valid(values, file.nodata)
        depth = np.where(known, values, 0).astype(np.float64) * METRES.get((file.units[0] or "").lower(), 1.0)
        terrain = fetched(source / terrain_path(fact["region"], fact["place"])) if source and "region" in fact else None
        ground = _hills(terrain)
    water = np.clip(depth / top, 0, 1)
    ramp = np.array(RAMP, float)
    where = np.sqrt(water) * (len(RAMP) - 1)
    low = np.minimum(where.astype(int), len(RAMP) - 2)
    tint = ramp[low] + (ramp[low + 1] - ramp[low]) * (where - low)[..., None]
    opacity = np.clip(0.6 + depth / 1.5, 0, 0.94)[..., None] * (depth > 0)[..., None]
    shaded = ground * (1 - opacity) + tint * opacity
    shaded[~known] = LAKE
    return Image.fromarray(np.clip(shaded, 0, 255).astype(np.uint8))


def _hills(terrain: Path | None) -> NDArray[np.float64]:
    """The terrain lit from the north-west, in warm grey; flat if there is no terrain."""
    flat: NDArray[np.float64] = np.broadcast_to(np.array(DRY, float), (THUMB_PIXELS, THUMB_PIXELS, 3))
    if terrain is None or not terrain.is_file():
        return flat
    try:
        with rasterio.open(terrain, driver="GTiff") as file:
            height = file.read(1, out_shape=(THUMB_PIXELS, THUMB_PIXELS), resampling=Resampling.bilinear)
    except RasterioError:
        return flat
    down, right = np.gradient(height.astype(np.float64))
    steepness = max(float(np.percentile(np.hypot(down, right), 96)), 1e-6)
    light = np.clip(0.86 + 0.2 * (right + down) / steepness, 0.5, 1.08)
    lit: NDArray[np.float64] = flat * light[..., None] + 6
    return lit


def _by_place(stacks: Sequence[dict[str, Any]]) -> list[tuple[list[list[float]], float | None]]:
    """One footprint for each place, with the greatest depth of all its scenarios."""
    places: dict[str, tuple[list[list[float]], float | None]] = {}
    for fact in stacks:
        ring = fact["footprint"]["coordinates"][0]
        key = str(ring)
        depths = [d for d in (fact["max_depth_m"], places[key][1] if key in places else None) if d is not None]
        places[key] = (ring, max(depths) if depths else None)
    return [places[key] for key in sorted(places)]


def _top(depths: Sequence[float | None]) -> float:
    """The end of the scale: a round number above nearly all depths."""
    known = sorted(depth for depth in depths if depth is not None)
    wanted = known[int((len(known) - 1) * 0.98)] if known else 0.0
    return float(next((step for step in STEPS_M if step >= wanted), math.ceil(wanted)))


def _span(depths: Sequence[float | None]) -> tuple[float, float]:
    """The scale in whole metres, from the smallest to the greatest depth, so that all colours are used."""
    known = [depth for depth in depths if depth is not None]
    low, top = math.floor(min(known, default=0.0)), math.ceil(max(known, default=1.0))
    return float(low), float(max(top, low + 1))


def _colour(share: float) -> Colour:
    where = min(1.0, max(0.0, share)) * (len(RAMP) - 1)
    low = min(int(where), len(RAMP) - 2)
    red, green, blue = (round(a + (b - a) * (where - low)) for a, b in zip(RAMP[low], RAMP[low + 1], strict=True))
    return red, green, blue


def _around(rings: list[list[list[float]]]) -> tuple[float, float, float, float]:
    longitudes = [lon for ring in rings for lon, _ in ring]
    latitudes = [lat for ring in rings for _, lat in ring]
    margin = max(max(longitudes) - min(longitudes), max(latitudes) - min(latitudes)) * 0.05
    return min(longitudes) - margin, min(latitudes) - margin, max(longitudes) + margin, max(latitudes) + margin


def _projection(
    frame: tuple[float, float, float, float], box: tuple[float, float, float, float], squeeze: float
) -> Callable[[float, float], tuple[float, float]]:
    left, top, right, bottom = frame
    west, south, east, north = box
    scale = min((right - left) / ((east - west) * squeeze), (bottom - top) / (north - south))
    middle_x, middle_y = (left + right) / 2, (top + bottom) / 2

    def project(longitude: float, latitude: float) -> tuple[float, float]:
        return (
            middle_x + (longitude - (west + east) / 2) * squeeze * scale,
            middle_y - (latitude - (south + north) / 2) * scale,
        )

    return project


def _graticule(
    draw: ImageDraw.ImageDraw,
    frame: tuple[float, float, float, float],
    box: tuple[float, float, float, float],
    project: Callable[[float, float], tuple[float, float]],
) -> None:
    """Lines of longitude and latitude, with their degrees outside the frame."""
    left, top, right, bottom = frame
    step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 45) if max(box[2] - box[0], box[3] - box[1]) / s <= 8)
    font = _font(13)
    for number in range(math.floor(box[0] / step) - 90, math.ceil(box[2] / step) + 90):
        x = project(number * step, 0)[0]
        if left + 12 < x < right - 12:
            draw.line(_scaled((x, top, x, bottom)), fill=RULE, width=SCALE)
            _text(draw, x, bottom + 8, _degrees(number * step, "E", "W"), font, FAINT, "ma")
    for number in range(math.floor(box[1] / step) - 90, math.ceil(box[3] / step) + 90):
        y = project(0, number * step)[1]
        if top + 12 < y < bottom - 12:
            draw.line(_scaled((left, y, right, y)), fill=RULE, width=SCALE)
            _text(draw, left - 10, y, _degrees(number * step, "N", "S"), font, FAINT, "rm")


def _degrees(value: float, positive: str, negative: str) -> str:
    return f"{abs(value):g}°{positive if value > 0 else negative if value < 0 else ''}"


def _legend(draw: ImageDraw.ImageDraw, x: float, y: float, height: float, low: float, top: float) -> None:
    """A vertical colour scale."""
    _text(draw, x, y, "Depth of water", _font(16), INK, "la")
    y += 34
    for step in range(round(height)):
        colour = _colour(1 - step / height)
        draw.rectangle(_scaled((x, y + step, x + 22, y + step + 1)), fill=colour)
    for metres in range(round(low), round(top) + 1, math.ceil((top - low) / 6)):
        mark = y + height * (top - metres) / (top - low)
        draw.line(_scaled((x + 22, mark, x + 28, mark)), fill=FAINT, width=SCALE)
        _text(draw, x + 36, mark, f"{metres} m", _font(14), INK, "lm")


def _bar(draw: ImageDraw.ImageDraw, x: float, y: float, width: float, top: float) -> None:
    """The horizontal colour scale of the thumbnails, with the colours of dry land and missing data.

    Shallow water gets a larger part of the colours.
    """
    font = _font(13)
    for step in range(round(width)):
        draw.rectangle(_scaled((x + step, y, x + step + 1, y + 12)), fill=_colour(math.sqrt(step / width)))
    for share in (0, 0.25, 0.5, 1):
        anchor = "la" if share == 0 else "ra" if share == 1 else "ma"
        _text(draw, x + width * share, y + 17, f"{top * share:g} m", font, FAINT, anchor)
    for offset, colour, label in ((width + 36, DRY, "dry"), (width + 104, LAKE, "no data")):
        draw.rectangle(_scaled((x + offset, y, x + offset + 20, y + 12)), fill=colour)
        _text(draw, x + offset + 27, y + 6, label, font, FAINT, "lm")


def _facts(draw: ImageDraw.ImageDraw, x: float, y: float, stacks: Sequence[dict[str, Any]], places: int) -> None:
    """Figures beside the map."""
    deepest = [fact["max_depth_m"] for fact in stacks if fact["max_depth_m"] is not None]
    lines = [
        (f"{places:,}", "place" if places == 1 else "places"),
        (f"{len(stacks):,}", "stack" if len(stacks) == 1 else "stacks"),
        (f"{sum(len(fact['bands']) for fact in stacks):,}", "bands"),
        (f"{max(deepest):.1f} m" if deepest else "none", "greatest depth"),
        (_size(sum(fact["bytes"] for fact in stacks)), "in all"),
    ]
    for value, label in lines:
        _text(draw, x, y, value, _font(24), INK, "la")
        _text(draw, x, y + 31, label, _font(14), FAINT, "la")
        y += 74


def _caption(draw: ImageDraw.ImageDraw, x: float, y: float, fact: dict[str, Any]) -> None:
    depth, wet = fact["max_depth_m"], fact["bands"][-1].get("wet_share")
    _text(draw, x, y, str(fact.get("place", fact["href"])), _font(16), INK, "la")
    summary = "no data" if depth is None else f"up to {depth:.1f} m" + (f", {wet:.0%} wet" if wet is not None else "")
    _text(draw, x, y + 22, str(fact.get("scenario", "")).replace("_", " "), _font(13), FAINT, "la")
    _text(draw, x + THUMB_PIXELS, y + 22, summary, _font(13), FAINT, "ra")


def _heading(draw: ImageDraw.ImageDraw, x: float, y: float, title: str, below: str) -> None:
    _text(draw, x, y, title, _font(30), INK, "la")
    _text(draw, x, y + 44, below, _font(16), FAINT, "la")


def _evenly(stacks: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    if len(stacks) <= count:
        return stacks
    return [stacks[round(i * (len(stacks) - 1) / max(1, count - 1))] for i in range(count)]


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def _font(points: int) -> Font:
    return ImageFont.load_default(points * SCALE)


def _text(draw: ImageDraw.ImageDraw, x: float, y: float, text: str, font: Font, fill: Colour, anchor: str) -> None:
    draw.text((x * SCALE, y * SCALE), _drawable(text), font=font, fill=fill, anchor=anchor)


def _drawable(text: str) -> str:
    """The text in characters that Pillow's built-in font has: an ô becomes an o, other characters become a dot."""
    plain = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return "".join(c if c.isascii() or c in "°·’–" else "·" for c in plain)


def _scaled(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    left, top, right, bottom = (value * SCALE for value in box)
    return left, top, right, bottom


def _save(image: Picture, target: Path) -> dict[str, Any]:
    small = image.reduce(SCALE)
    with publishing(target) as draft:
        small.save(draft, "PNG", optimize=True)
    return {"name": target.name, "size": list(small.size), "sha256": sha256_of(target), "bytes": target.stat().st_size}
