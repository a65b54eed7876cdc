"""Describes a raster, checks that all of it can be read, and lists its oddities.

Headers can be wrong, so every block is read.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy
from rasterio.crs import CRS
from rasterio.enums import ColorInterp
from rasterio.errors import CRSError
from rasterio.warp import transform_bounds

from holdfast import Permanent
from holdfast.apps.raster import gdal

MEGABYTE = 1024 * 1024
MANY_VALUES = 64
"""A raster of integers with more distinct values has measurements, not categories."""
SAMPLES = 16
LOSSLESS = {"analysis": "deflate", "archive": "zstd"}
"""The compression of the tiers that lose nothing."""
ELEVATIONS = (-12_000.0, 9_000.0)
_FILE_IN_CRS = re.compile(r"(?i)grids\s*=(?!\s*@null\b)|parameterfile|\b(file|catalog)\s*=|\binit\s*=\S*[/\\]")
"""Matches a CRS that names a file: PROJ would open it, wherever it is. `@null` stands for no file."""
EXTENSIONS = {
    "GTiff": (".tif", ".tiff"),
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "JP2OpenJPEG": (".jp2", ".j2k"),
}


@dataclass
class Content:
    """Statistics of all blocks read so far."""

    lowest: float = math.inf
    highest: float = -math.inf
    valid: int = 0
    values: set[float] | None = field(default_factory=set)
    """The distinct values of a single integer band; None for other rasters, or if there are too many."""
    raw_bytes: int = 0
    packed_bytes: int = 0

    def add(self, block: Any) -> None:
        """Count a block: a masked array of all bands."""
        present = block.compressed()
        present = present[numpy.isfinite(present)] if present.dtype.kind == "f" else present
        self.valid += present.size
        if present.size and present.dtype.kind != "c":
            self.lowest = min(self.lowest, float(present.min()))
            self.highest = max(self.highest, float(present.max()))
        if self.values is not None:
            is_integer_band = block.shape[0] == 1 and present.dtype.kind in "iu"
            self.values = self.values | set(numpy.unique(present).tolist()) if is_integer_band else None
            if self.values is not None and len(self.values) > MANY_VALUES:
                self.values = None

    def sample(self, block: Any) -> None:
        """Compress a block, to estimate the size of the result."""
        raw = numpy.ascontiguousarray(block.data).tobytes()[:MEGABYTE]
        self.raw_bytes += len(raw)
        self.packed_bytes += len(zlib.compress(raw, 6))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the caller says about a raster: its CRS if the file has none, its type, and the tier of its COG."""

    source_crs: str | None = None
    raster_type: str = "auto"
    tier: str | None = None


def validate(path: Path, name: str, wanted: Wanted, may_continue: Callable[[int, int], bool]) -> dict[str, Any] | None:
    """Describe a raster. Problems that can be worked around are warnings; others raise Permanent.

    `may_continue` gets the windows done and in total. If it answers False, validation stops and returns None.
    """
    file_bytes = path.stat().st_size
    with gdal.open_raster(path, name) as dataset:
        content = read_all(dataset, may_continue)
        if content is None:
            return None
        crs = crs_of(dataset, wanted.source_crs, name)
        detected = agreed_type(wanted.raster_type, dataset, detect_type(dataset, content), name)
        profile = suggested_profile(dataset, detected)
        compression = LOSSLESS.get(wanted.tier or "", profile)
        description = {
            "valid": True,
            "path": name,
            "driver": dataset.driver,
            "file_size_bytes": file_bytes,
            "file_size_mb": round(file_bytes / MEGABYTE, 3),
            "width": dataset.width,
            "height": dataset.height,
            "band_count": dataset.count,
            "bands": [label or f"band {n}" for n, label in enumerate(dataset.descriptions, 1)],
            "dtype": dataset.dtypes[0],
            "bit_depth": 8 * numpy.dtype(dataset.dtypes[0]).itemsize,
            "nodata": plain(dataset.nodata),
            "crs": None if crs is None else short_name(crs),
            "transform": list(dataset.transform)[:6],
            "resolution": list(dataset.res),
            "bounds": list(dataset.bounds),
            "bounds_4326": bounds_4326(dataset, crs),
            "type": detected,
            "minimum": plain(content.lowest),
            "maximum": plain(content.highest),
            "valid_share": round(content.valid / max(1, dataset.width * dataset.height * dataset.count), 6),
            "compression": None if dataset.compression is None else dataset.compression.name.lower(),
            "tiled": is_tiled(dataset),
            "overviews": dataset.overviews(1) if dataset.count else [],
            "decoded_mb": round(gdal.decoded_bytes(dataset) / MEGABYTE, 3),
            "suggested_profile": profile,
            "estimated_output_mb": round(estimated_bytes(dataset, content, compression) / MEGABYTE, 3),
            "datetime": time_of(dataset),
        }
        crs_source = "file_metadata" if dataset.crs is not None else "user_override"
        warnings = oddities(dataset, path, content, crs, wanted.source_crs)
    is_tiff = description["driver"] == "GTiff"
    is_cog, cog_problems = cog_status(path) if is_tiff else (False, ["it is not a GeoTIFF"])
    return (
        description
        | {"is_cog": is_cog, "cog_problems": cog_problems, "warnings": warnings}
        | further_names(description, compression, None if crs is None else crs_source)
    )


def further_names(description: dict[str, Any], compression: str, crs_source: str | None) -> dict[str, Any]:
    """Parts of a description under the names that workflow files of other raster services read."""
    pictures = ["visualization"] if description["suggested_profile"] in ("jpeg", "webp") else []
    return {
        "local_path": description["path"],
        "size_mb": description["file_size_mb"],
        "shape": [description["height"], description["width"]],
        "source_crs": description["crs"],
        "crs_source": crs_source,
        "raster_type": {"type": description["type"]},
        "compression_profile": {"compression": compression},
        "applicable_tiers": [*pictures, "analysis", "archive"],
        "estimated_compressed_mb": description["estimated_output_mb"],
    }


def read_all(dataset: Any, may_continue: Callable[[int, int], bool]) -> Content | None:
    """Read every block once, so that a truncated file fails here. None if `may_continue` answers False."""
    content = Content()
    pieces = list(gdal.windows(dataset))
    every = max(1, len(pieces) // SAMPLES)
    for number, window in enumerate(pieces):
        block = dataset.read(window=window, masked=True)
        content.add(block)
        if number % every == 0:
            content.sample(block)
        if not may_continue(number + 1, len(pieces)):
            return None
    return content


def cog_status(path: Path) -> tuple[bool, list[str]]:
    from rio_cogeo.cogeo import cog_validate

    with gdal.confined():
        valid, errors, remarks = cog_validate(path, quiet=True, strict=False)
    return valid, [gdal.reason(ValueError(problem), path) for problem in (*errors, *remarks)]


def crs_of(dataset: Any, declared: str | None, name: str) -> CRS | None:
    """The file's own CRS, else the declared one, else None."""
    if dataset.crs is not None:
        return dataset.crs
    return None if declared is None else parse_crs(declared, name)


def parse_crs(text: str, name: str) -> CRS:
    try:
        if _FILE_IN_CRS.search(text):
            raise ValueError("it names a file")
        crs = CRS.from_user_input(text)
        if not (crs.is_geographic or crs.is_projected):
            raise ValueError("it is neither geographic nor projected")
        return crs
    except (CRSError, ValueError, TypeError):
        # rasterio parses numbers and JSON in the text, and lets their ValueError and TypeError through.
        raise Permanent(
            f"{name}: {text[:100]!r} is not a coordinate reference system. Use for example EPSG:4326",
            code="CRS_UNKNOWN",
        ) from None


def short_name(crs: CRS) -> str:
    code = crs.to_epsg()
    return f"EPSG:{code}" if code is not None else str(crs.to_wkt(version="WKT2_2019"))


def bounds_4326(dataset: Any, crs: CRS | None) -> list[float] | None:
    if crs is None:
        return None
    try:
        left, bottom, right, top = dataset.bounds
        edges = transform_bounds(crs, "EPSG:4326", left, min(bottom, top), right, max(bottom, top), densify_pts=21)
    except CRSError:
        return None
    return [float(edge) for edge in edges] if all(map(math.isfinite, edges)) else None


def time_of(dataset: Any) -> str | None:
    """The time in a TIFF's header, read as UTC; None if it is missing or malformed."""
    try:
        stored = datetime.strptime(dataset.tags().get("TIFFTAG_DATETIME", ""), "%Y:%m:%d %H:%M:%S")  # noqa: DTZ007
    except ValueError:
        return None
    return f"{stored.isoformat()}Z"


def detect_type(dataset: Any, content: Content) -> str:
    """One of rgb, rgba, categorical, dem, multispectral, singleband."""
    colors = list(dataset.colorinterp)
    if ColorInterp.palette in colors:
        return "categorical"
    data = data_bands(dataset)
    if dataset.dtypes[0] in ("uint8", "uint16") and is_rgb(dataset):
        return "rgba" if len(data) < dataset.count else "rgb"
    if len(data) > 1:
        return "multispectral"
    if content.values is not None and content.valid:
        return "categorical"
    if dataset.dtypes[0] in ("int16", "int32", "float32", "float64") and looks_like_elevation(dataset, content):
        return "dem"
    return "singleband"


ONE_BAND = ("singleband", "dem", "categorical", "nir")
"""The types of a raster with one band. Its values only suggest which of them it is."""


def agreed_type(expected: str, dataset: Any, detected: str, name: str) -> str:
    """The type of a raster that a person and its file agree on; raises Permanent if they do not.

    The person decides what the values mean. The file decides how many bands there are, and of which kind.
    """
    data = len(data_bands(dataset))
    is_picture = dataset.dtypes[0] in ("uint8", "uint16")
    possible = {
        **dict.fromkeys(ONE_BAND, data == 1),
        "multispectral": data > 1,
        "rgb": is_picture and dataset.count == 3,
        "rgba": is_picture and dataset.count == 4,
    }
    if expected not in ("auto", detected, *possible):
        raise Permanent(
            f"{name}: {expected[:100]!r} is not a type of raster. Use auto, {', '.join(possible)}",
            code="RASTER_TYPE_MISMATCH",
        )
    if expected in ("auto", detected):
        return detected
    if not possible[expected]:
        bands = "1 band" if dataset.count == 1 else f"{dataset.count} bands"
        raise Permanent(
            f"{name} is not {expected}: it has {bands} of {dataset.dtypes[0]}, which makes it {detected}",
            code="RASTER_TYPE_MISMATCH",
        )
    return expected


def data_bands(dataset: Any) -> list[int]:
    return [n for n, color in enumerate(dataset.colorinterp, 1) if color is not ColorInterp.alpha]


def is_rgb(dataset: Any) -> bool:
    colors = [dataset.colorinterp[n - 1] for n in data_bands(dataset)]
    return colors == [ColorInterp.red, ColorInterp.green, ColorInterp.blue]


def looks_like_elevation(dataset: Any, content: Content) -> bool:
    """Whether all values are plausible metres. Values up to 50 count only if the file's metadata says elevation."""
    named = " ".join([*filter(None, dataset.descriptions), *map(str, dataset.tags().values())]).lower()
    says_so = any(word in named for word in ("elevation", "dem", "dtm", "dsm"))
    plausible = ELEVATIONS[0] <= content.lowest and content.highest <= ELEVATIONS[1]
    return plausible and (says_so or content.highest > 50)


def suggested_profile(dataset: Any, detected: str) -> str:
    """The compression for viewing; lossy only for 8-bit pictures without nodata."""
    if detected in ("rgb", "rgba") and dataset.dtypes[0] == "uint8" and dataset.nodata is None:
        return "jpeg" if detected == "rgb" else "webp"
    return "deflate"


def estimated_bytes(dataset: Any, content: Content, profile: str) -> float:
    """The estimated size of a COG: from the compressed sample of blocks, plus a third for overviews."""
    share = 0.1 if profile in ("jpeg", "webp") else content.packed_bytes / max(1, content.raw_bytes)
    return gdal.decoded_bytes(dataset) * share * 4 / 3


def is_tiled(dataset: Any) -> bool:
    return bool(dataset.profile.get("tiled", False))


def oddities(dataset: Any, path: Path, content: Content, crs: CRS | None, declared: str | None) -> list[str]:
    """The warnings: what can be corrected, and what the user should know."""
    warnings = []
    if crs is None:
        warnings.append("no CRS: declare it with source_crs")
    elif dataset.crs is None:
        warnings.append(f"no CRS in the file: the declared {declared} is used")
    elif declared is not None and dataset.crs != parse_crs(declared, path.name):
        warnings.append(f"the file's own CRS {short_name(dataset.crs)} is used, not the declared {declared}")
    warnings += transform_oddities(dataset, path.name, crs)
    if not content.valid:
        warnings.append("all nodata: no pixel has a value")
    if len(set(dataset.dtypes)) > 1:
        warnings.append(f"bands of different types: {', '.join(dict.fromkeys(dataset.dtypes))}")
    if dataset.nodata is not None and not fits(dataset.nodata, dataset.dtypes[0]):
        warnings.append(f"the nodata value {dataset.nodata} does not fit into {dataset.dtypes[0]}")
    if not is_tiled(dataset) and max(dataset.shape) > 512:
        warnings.append("not tiled")
    if max(dataset.shape) > 512 and not dataset.overviews(1):
        warnings.append("no overviews")
    if path.suffix.lower() not in EXTENSIONS[dataset.driver]:
        warnings.append(f"the file is {dataset.driver}, although its name is '{path.name}'")
    if dataset.subdatasets:
        warnings.append(f"the file has {len(dataset.subdatasets)} pictures: only the first is used")
    return warnings


def transform_oddities(dataset: Any, name: str, crs: CRS | None) -> list[str]:
    transform = dataset.transform
    if transform.is_identity:
        return ["no georeference: the place of the pixels on the earth is unknown"]
    if transform.determinant == 0 or not all(map(math.isfinite, transform)):
        raise Permanent(f"{name} is corrupted: its transform cannot be inverted", code="RASTER_CORRUPTED")
    warnings = []
    if transform.b or transform.d:
        warnings.append("rotated or sheared grid")
    if transform.e > 0:
        warnings.append("south is up")
    left, bottom, right, top = dataset.bounds
    if (
        crs is not None
        and crs.is_geographic
        and (min(left, right) < -361 or max(left, right) > 361 or max(map(abs, (bottom, top))) > 91)
    ):
        warnings.append("bounds outside the earth: the CRS is in degrees, the bounds are not")
    return warnings


def fits(nodata: float, dtype: str) -> bool:
    kind = numpy.dtype(dtype)
    if kind.kind not in "iu":
        return True
    limits = numpy.iinfo(kind)
    return math.isfinite(nodata) and limits.min <= nodata <= limits.max


def plain(value: float | None) -> float | str | None:
    """A number that JSON can hold: NaN becomes "nan", infinity None."""
    if value is None or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else None
