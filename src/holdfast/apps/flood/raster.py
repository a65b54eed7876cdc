"""Reads rasters window by window, and writes Cloud-Optimized GeoTIFFs, which become visible when complete.

A stack and a mosaic are both a virtual raster of their sources, which GDAL copies block by block. So memory is bounded
by GDAL's cache and one window, whatever the size. This module knows nothing of groups or jobs.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import rasterio
import rasterio.shutil
from affine import Affine
from numpy.typing import NDArray
from rasterio._err import CPLE_BaseError
from rasterio.crs import CRS
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from rasterio.warp import transform
from rasterio.windows import Window
from rio_cogeo.cogeo import cog_validate

from holdfast import Permanent, Transient
from holdfast.apps.flood.naming import years_of
from holdfast.apps.flood.storage import publishing
from holdfast.apps.raster.gdal import LIMITS, check_limits
from holdfast.apps.raster.storage import fetched, sha256_of

CACHE_BYTES = 64 * 1024 * 1024
WINDOW_PIXELS = 512
BLOCK_PIXELS = 256
EDGE_POINTS = 4
METRES = {"": 1.0, "m": 1.0, "metre": 1.0, "cm": 0.01, "mm": 0.001}
GDAL_TYPES = {"float32": "Float32", "float64": "Float64", "int16": "Int16", "uint16": "UInt16", "int32": "Int32"}
INPUTS_TAG = "HOLDFAST_INPUTS"
FORMAT_VERSION = "1"
"""Increased when the same sources would give different bytes. Existing files are then made again."""


def quietly() -> rasterio.Env:
    """The GDAL settings for everything in this module.

    By default GDAL's cache takes a twentieth of the machine's memory, and GDAL searches the folder of an opened file,
    which may have thousands of files.
    """
    return rasterio.Env(GDAL_CACHEMAX=CACHE_BYTES, GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR", GDAL_PAM_ENABLED="NO")


@dataclass(frozen=True, slots=True)
class Header:
    """The metadata of a raster, read without its pixels."""

    name: str
    path: Path
    crs: CRS
    width: int
    height: int
    transform: Affine
    dtype: str
    nodata: float | None
    unit: str
    bands: tuple[str, ...]
    datetime: str | None

    @property
    def crs_name(self) -> str:
        return crs_name(self.crs)


def read_header(path: Path, name: str) -> Header:
    with opened(path, name) as file:
        if file.crs is None:
            raise Permanent(f"{name} has no CRS. Replace the file", code="FLOOD_MISMATCH")
        return Header(
            name=name,
            path=path,
            crs=file.crs,
            width=file.width,
            height=file.height,
            transform=file.transform,
            dtype=file.dtypes[0],
            nodata=file.nodata,
            unit=(file.units[0] or "").lower(),
            bands=tuple(description or "" for description in file.descriptions),
            datetime=_time(file.tags().get("TIFFTAG_DATETIME")),
        )


def opened(path: Path, name: str) -> DatasetReader:
    """Open a GeoTIFF of a credible size. Other formats are refused: some can make GDAL open other files."""
    try:
        file = rasterio.open(path, driver="GTiff")
        check_limits(file, path.stat().st_size, name, LIMITS)
        return file
    except RasterioError as error:
        if not path.is_file():
            raise Permanent(f"{name} does not exist. Add the file, then retry", code="FLOOD_MISSING") from error
        raise corrupted(path, name, error) from error


def corrupted(path: Path, name: str, error: Exception) -> Permanent:
    size = path.stat().st_size
    what = "is empty" if size == 0 else f"cannot be read ({size} bytes)"
    reason = " ".join(str(error.__cause__ or error).replace(str(path), name).split())
    return Permanent(f"{name} {what}: {reason}. Replace the file, then retry", code="RASTER_CORRUPTED")


def read_fully(path: Path, name: str) -> None:
    """Raise RASTER_CORRUPTED unless every pixel can be read."""
    with opened(path, name) as file:
        try:
            for window in windows(file):
                file.read(window=window)
        except RasterioError as error:
            raise corrupted(path, name, error) from error


def windows(file: DatasetReader) -> Iterator[Window]:
    for row in range(0, file.height, WINDOW_PIXELS):
        for column in range(0, file.width, WINDOW_PIXELS):
            yield Window(column, row, min(WINDOW_PIXELS, file.width - column), min(WINDOW_PIXELS, file.height - row))


@dataclass(frozen=True, slots=True)
class Piece:
    """A band of a source, and the column and row of its upper left corner in the result."""

    source: Header
    band: int
    column: int = 0
    row: int = 0


def virtual(
    like: Header,
    width: int,
    height: int,
    origin: Affine,
    bands: dict[str, list[Piece]],
    inputs: str,
    datetime: str | None,
) -> str:
    """A virtual raster (VRT) whose bands are made of pieces. Pixels without a piece are nodata."""
    tags = {INPUTS_TAG: inputs, **({"TIFFTAG_DATETIME": _tiff_time(datetime)} if datetime else {})}
    marks = "".join(f'<MDI key="{key}">{escape(value)}</MDI>' for key, value in tags.items())
    content = "".join(
        f'<VRTRasterBand dataType="{GDAL_TYPES[like.dtype]}" band="{number}"><Description>{escape(name)}</Description>'
        f"<UnitType>{escape(like.unit)}</UnitType>"
        f"{'' if like.nodata is None else f'<NoDataValue>{like.nodata!r}</NoDataValue>'}"
        f"{''.join(_source(piece, alone=len(pieces) == 1) for piece in pieces)}</VRTRasterBand>"
        for number, (name, pieces) in enumerate(bands.items(), start=1)
    )
    return (
        f'<VRTDataset rasterXSize="{width}" rasterYSize="{height}"><SRS>{escape(like.crs.to_wkt())}</SRS>'
        f"<GeoTransform>{', '.join(repr(float(value)) for value in origin.to_gdal())}</GeoTransform>"
        f"<Metadata>{marks}</Metadata>{content}</VRTDataset>"
    )


def _source(piece: Piece, *, alone: bool) -> str:
    """One source of a virtual band. If pieces may overlap, nodata pixels of one must not hide another."""
    header = piece.source
    is_transparent = header.nodata is not None and not alone
    kind = "ComplexSource" if is_transparent else "SimpleSource"
    size = f'xSize="{header.width}" ySize="{header.height}"'
    return (
        f'<{kind}><SourceFilename relativeToVRT="0">{escape(str(header.path))}</SourceFilename>'
        f"<SourceBand>{piece.band}</SourceBand>"
        f'<SourceProperties RasterXSize="{header.width}" RasterYSize="{header.height}"'
        f' DataType="{GDAL_TYPES[header.dtype]}" BlockXSize="{BLOCK_PIXELS}" BlockYSize="{BLOCK_PIXELS}"/>'
        f'<SrcRect xOff="0" yOff="0" {size}/><DstRect xOff="{piece.column}" yOff="{piece.row}" {size}/>'
        f"{f'<NODATA>{header.nodata!r}</NODATA>' if is_transparent else ''}</{kind}>"
    )


def make_cog(
    target: Path, href: str, inputs: str, sources: list[Header], describe_vrt: Callable[[], str]
) -> dict[str, Any]:
    """Make the COG that `describe_vrt()` describes, or keep an existing one of the same inputs; returns its facts."""
    existing = _existing(target, href, inputs)
    if existing is not None:
        return {**existing, "reused": True}
    with publishing(target) as draft:
        _copy(describe_vrt(), draft, href, sources)
        is_valid, faults, _ = cog_validate(draft, quiet=True)
        if not is_valid:
            raise Transient(f"{href} is not a valid COG after writing: {'; '.join(faults)}", code="FLOOD_WRITE")
        facts = describe(draft, href)
    return {**facts, "reused": False}


def _existing(target: Path, href: str, inputs: str) -> dict[str, Any] | None:
    """The facts of the existing file, if it was made of the same inputs and is fully readable."""
    if not fetched(target).is_file():
        return None
    try:
        with opened(target, href) as file:
            if file.tags().get(INPUTS_TAG) != inputs:
                return None
        return describe(target, href)
    except Permanent:
        return None


def _copy(virtual_raster: str, draft: Path, href: str, sources: list[Header]) -> None:
    # Depths are mostly zero and repetitive: for floats a predictor would double the size and the time.
    predictor = "NO" if sources[0].dtype.startswith("float") else "STANDARD"
    try:
        with rasterio.open(virtual_raster, driver="VRT") as whole:
            rasterio.shutil.copy(
                whole,
                str(draft),
                driver="COG",
                compress="DEFLATE",
                level=6,
                predictor=predictor,
                blocksize=BLOCK_PIXELS,
                overview_resampling="AVERAGE",
                bigtiff="IF_SAFER",
                num_threads="1",
            )
    except (RasterioError, CPLE_BaseError) as error:
        for source in sources:
            read_fully(source.path, source.name)
        reason = " ".join(str(error.__cause__ or error).split())
        raise Transient(
            f"{href} could not be written: {reason}. Check whether the disk is full", code="FLOOD_WRITE"
        ) from error


def describe(path: Path, href: str) -> dict[str, Any]:
    """The facts of a COG that a catalog needs, read from the file."""
    with opened(path, href) as file:
        unit = (file.units[0] or "").lower()
        try:
            statistics = _statistics(file)
        except RasterioError as error:
            raise corrupted(path, href, error) from error
        names = [name or f"band{number}" for number, name in enumerate(file.descriptions, start=1)]
        footprint = _footprint(file)
        longitudes, latitudes = zip(*footprint, strict=True)
        deepest = [band["maximum"] for band in statistics if band["maximum"] is not None]
        return {
            "href": href,
            "sha256": sha256_of(path),
            "bytes": path.stat().st_size,
            "inputs_sha256": file.tags().get(INPUTS_TAG),
            "bbox": [min(longitudes), min(latitudes), max(longitudes), max(latitudes)],
            "footprint": {"type": "Polygon", "coordinates": [footprint]},
            "crs": crs_name(file.crs),
            "shape": [file.height, file.width],
            "transform": list(file.transform)[:6],
            "datetime": _time(file.tags().get("TIFFTAG_DATETIME")),
            "return_periods": [years_of(name) for name in names],
            "max_depth_m": round(max(deepest) * in_metres(unit, href), 4) if deepest else None,
            "bands": [
                {"name": name, "dtype": file.dtypes[0], "nodata": file.nodata, "unit": unit or "m", **values}
                for name, values in zip(names, statistics, strict=True)
            ],
            "warnings": [
                f"{name}: every pixel is nodata"
                for name, values in zip(names, statistics, strict=True)
                if not values["valid_share"]
            ],
        }


def in_metres(unit: str, name: str) -> float:
    if unit not in METRES:
        raise Permanent(f"{name} has depths in the unit '{unit}'; use m, cm or mm", code="FLOOD_UNIT")
    return METRES[unit]


def crs_name(crs: CRS) -> str:
    code = crs.to_epsg()
    return f"EPSG:{code}" if code is not None else str(crs.to_string())


def valid(values: NDArray[Any], nodata: float | None) -> NDArray[np.bool_]:
    """Which pixels have a value."""
    known = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
    return known if nodata is None or math.isnan(nodata) else known & (values != nodata)


def _statistics(file: DatasetReader) -> list[dict[str, Any]]:
    """For each band: the smallest and largest value, the mean, and the shares of valid and wet pixels."""
    bands = [_Tally() for _ in file.indexes]
    for window in windows(file):
        for tally, values in zip(bands, file.read(window=window), strict=True):
            tally.add(values[valid(values, file.nodata)], values.size)
    return [tally.to_json() for tally in bands]


@dataclass(slots=True)
class _Tally:
    pixels: int = 0
    known: int = 0
    wet: int = 0
    total: float = 0.0
    smallest: float = math.inf
    largest: float = -math.inf

    def add(self, values: NDArray[Any], pixels: int) -> None:
        self.pixels += pixels
        if values.size:
            self.known += values.size
            self.wet += int(np.count_nonzero(values > 0))
            self.total += float(values.sum(dtype=np.float64))
            self.smallest = min(self.smallest, float(values.min()))
            self.largest = max(self.largest, float(values.max()))

    def to_json(self) -> dict[str, Any]:
        some = self.known > 0
        return {
            "minimum": self.smallest if some else None,
            "maximum": self.largest if some else None,
            "mean": round(self.total / self.known, 6) if some else None,
            "wet_share": round(self.wet / self.known, 6) if some else None,
            "valid_share": round(self.known / self.pixels, 6),
        }


def _footprint(file: DatasetReader) -> list[list[float]]:
    """The outline in longitude and latitude, counter-clockwise from the lower left.

    Straight edges of a projection are curves in degrees, so they get points in between.
    """
    left, bottom, right, top = file.bounds
    corners = [(left, bottom), (right, bottom), (right, top), (left, top), (left, bottom)]
    steps = 1 if file.crs.is_geographic else EDGE_POINTS
    ring = [corners[0]]
    for (x1, y1), (x2, y2) in pairwise(corners):
        ring += [(x1 + (x2 - x1) * i / steps, y1 + (y2 - y1) * i / steps) for i in range(1, steps + 1)]
    longitudes, latitudes = transform(file.crs, "EPSG:4326", *zip(*ring, strict=True))
    return [[round(lon, 6), round(lat, 6)] for lon, lat in zip(longitudes, latitudes, strict=True)]


def _time(stored: str | None) -> str | None:
    """The time of a TIFF as an RFC 3339 time in UTC."""
    if not stored:
        return None
    day, _, hour = stored.partition(" ")
    return f"{day.replace(':', '-')}T{hour or '00:00:00'}Z"


def _tiff_time(time: str) -> str:
    day, _, hour = time.removesuffix("Z").partition("T")
    return f"{day.replace('-', ':')} {hour}"


def inputs_hash(names: list[str], hashes: list[str]) -> str:
    """The hash of the inputs: their names (bands or stacks) and their content."""
    return hashlib.sha256(json.dumps([FORMAT_VERSION, names, hashes]).encode()).hexdigest()
