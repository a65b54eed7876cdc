"""The one door to GDAL: which files it may open, with which driver, and how large what they say of themselves may be.

A path comes from storage.py, never from a user, and the first bytes of the file choose its one driver. So a VRT, which
may point anywhere, is not opened whatever it is called, and no name is ever read as one of GDAL's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import rasterio
from rasterio._err import CPLE_BaseError
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.windows import Window

from holdfast import Permanent

ERRORS = (RasterioError, CPLE_BaseError)
"""What GDAL's refusals become in Python."""

DRIVER_OF = {
    b"II*\0": "GTiff",
    b"MM\0*": "GTiff",
    b"II+\0": "GTiff",
    b"MM\0+": "GTiff",
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"\0\0\0\x0cjP  \r\n\x87\n": "JP2OpenJPEG",
    b"\xff\x4f\xff\x51": "JP2OpenJPEG",
}
"""What a file of each allowed kind begins with. COG is no kind of its own: it is read as GTiff."""

PNG_END = b"\0\0\0\0IEND\xaeB`\x82"

CONFIGURATION: dict[str, Any] = {
    # What lies beside a file (.aux.xml, .ovr, .msk, .tfw) is not looked for: it could be anybody's.
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_PAM_ENABLED": False,
    # No network: not for files, not for the grids of a projection.
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": "{none}",
    "PROJ_NETWORK": "OFF",
    # In bytes, little memory: blocks are read once, in order.
    "GDAL_CACHEMAX": 64 * 1024 * 1024,
    "GDAL_NUM_THREADS": "1",
    "GDAL_SWATH_SIZE": 16 * 1024 * 1024,
    # An error while reading is an error, not a hole in the picture.
    "GTIFF_IGNORE_READ_ERRORS": False,
    "GDAL_JPEG_TO_RGB": True,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a file may say of itself. A few bytes can promise any number of pixels."""

    pixels: int = 1 << 34
    bands: int = 4096
    decoded_bytes: int = 1 << 38
    block_bytes: int = 1 << 28
    """A block is decoded as a whole: it is what must fit into memory."""
    expansion: int = 20_000
    """How many times the file's size it may decode to, once that is more than `small_bytes`."""
    small_bytes: int = 1 << 28


LIMITS = Limits()


@contextmanager
def confined() -> Iterator[None]:
    """GDAL with our configuration, and its complaints about missing georeferences silenced: we look ourselves."""
    with rasterio.Env(**CONFIGURATION), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


@contextmanager
def open_raster(path: Path, name: str, limits: Limits = LIMITS) -> Iterator[Any]:
    """A dataset that may be read; whatever goes wrong with it inside the block is said in words about `name`."""
    driver = driver_of(path, name)
    with confined():
        try:
            with rasterio.open(path, driver=driver, sharing=False) as dataset:
                check_limits(dataset, path.stat().st_size, name, limits)
                yield dataset
        except ERRORS as problem:
            raise Permanent(
                f"{name} begins as {driver} but cannot be read: {reason(problem, path)}. Ask for the file again",
                code="RASTER_CORRUPTED",
            ) from None


def driver_of(path: Path, name: str) -> str:
    """The driver for the file's first bytes, whatever its name ends with."""
    with path.open("rb") as file:
        head = file.read(16)
    if not head:
        raise Permanent(f"{name} is empty: it has no bytes at all", code="RASTER_CORRUPTED")
    for magic, driver in DRIVER_OF.items():
        if head.startswith(magic):
            if driver == "PNG" and not _ends_with(path, PNG_END):
                # GDAL would read what is missing as noise, without a word.
                raise Permanent(f"{name} is cut off: a PNG without its end", code="RASTER_CORRUPTED")
            return driver
    kinds = ", ".join(sorted(set(DRIVER_OF.values())))
    raise Permanent(f"{name} is not a raster of a kind that is taken ({kinds})", code="RASTER_UNSUPPORTED")


def _ends_with(path: Path, ending: bytes) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(ending)))
        return file.read() == ending


def check_limits(dataset: Any, file_bytes: int, name: str, limits: Limits) -> None:
    pixels = dataset.width * dataset.height
    decoded = decoded_bytes(dataset)
    found = {
        "pixels": (pixels, limits.pixels),
        "bands": (dataset.count, limits.bands),
        "bytes when decoded": (decoded, limits.decoded_bytes),
        "bytes in its largest block": (_block_bytes(dataset), limits.block_bytes),
    }
    for what, (count, most) in found.items():
        if count > most:
            raise _too_large(name, f"{count:,} {what}, and at most {most:,} are taken")
    if decoded > limits.small_bytes and decoded > limits.expansion * file_bytes:
        raise _too_large(name, f"{decoded:,} bytes when decoded, which a file of {file_bytes:,} bytes cannot have")


def _too_large(name: str, reason: str) -> Permanent:
    return Permanent(f"{name} is refused: it says that it has {reason}", code="RASTER_TOO_LARGE")


def decoded_bytes(dataset: Any) -> int:
    return int(dataset.width) * int(dataset.height) * sum(_item_bytes(dtype) for dtype in dataset.dtypes)


def _block_bytes(dataset: Any) -> int:
    """Of a block as GDAL decodes it: with interleaved pixels, all bands at once."""
    sizes = [
        int(rows) * int(columns) * _item_bytes(dtype)
        for (rows, columns), dtype in zip(dataset.block_shapes, dataset.dtypes, strict=True)
    ]
    together = dataset.interleaving is not None and dataset.interleaving.name == "pixel"
    return sum(sizes) if together else max(sizes, default=0)


def _item_bytes(dtype: str) -> int:
    # Complex integers are a type of GDAL's alone.
    return 4 if dtype == "complex_int16" else numpy.dtype(dtype).itemsize


def windows(dataset: Any, budget_bytes: int = 16 * 1024 * 1024) -> Iterator[Any]:
    """The whole raster in windows of whole blocks, each of about that many bytes in all bands."""
    rows, columns = dataset.block_shapes[0]
    pixels = max(1, budget_bytes // max(1, sum(_item_bytes(dtype) for dtype in dataset.dtypes)))
    wide = min(dataset.width, columns * max(1, pixels // (rows * columns)))
    high = min(dataset.height, rows * max(1, pixels // (rows * wide)))
    for row in range(0, dataset.height, high):
        for column in range(0, dataset.width, wide):
            yield Window(column, row, min(wide, dataset.width - column), min(high, dataset.height - row))


def reason(problem: BaseException, path: Path) -> str:
    """What GDAL says, with the useful part, which is in the cause, and without the path on this machine."""
    told = [str(problem)]
    while problem.__cause__ is not None:
        problem = problem.__cause__
        told.insert(0, str(problem))
    kept = [line for line in dict.fromkeys(told) if not line.startswith("Read failed. See previous")]
    return "; ".join(kept).replace(str(path), path.name).rstrip(". ")[:500]
