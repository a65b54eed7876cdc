"""The only module that opens files with GDAL: it checks which files, with which driver, and how large they may be.

A path comes from storage.py, never from a user, and the file's first bytes determine the driver. So a VRT, which can
refer to any file, is never opened, whatever its name; and no name is parsed by GDAL as a special path.
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
"""The exceptions that rasterio raises for errors of GDAL."""

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
"""The first bytes of each allowed format. A COG is a GTiff."""

PNG_END = b"\0\0\0\0IEND\xaeB`\x82"

CONFIGURATION: dict[str, Any] = {
    # GDAL must not read files beside the raster (.aux.xml, .ovr, .msk, .tfw): anyone could have put them there.
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_PAM_ENABLED": False,
    # No network, neither for files nor for the grids of a projection.
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": "{none}",
    "PROJ_NETWORK": "OFF",
    # Small caches (in bytes) are enough: blocks are read once, in order.
    "GDAL_CACHEMAX": 64 * 1024 * 1024,
    "GDAL_NUM_THREADS": "1",
    "GDAL_SWATH_SIZE": 16 * 1024 * 1024,
    # A read error must fail, not leave empty pixels.
    "GTIFF_IGNORE_READ_ERRORS": False,
    "GDAL_JPEG_TO_RGB": True,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the sizes that a file's header declares: a tiny file can declare billions of pixels."""

    pixels: int = 1 << 34
    bands: int = 4096
    decoded_bytes: int = 1 << 38
    block_bytes: int = 1 << 28
    """A block is decoded as a whole, so it must fit into memory."""
    expansion: int = 20_000
    """The largest allowed ratio of decoded size to file size; rasters up to `small_bytes` are exempt."""
    small_bytes: int = 1 << 28


LIMITS = Limits()


@contextmanager
def confined() -> Iterator[None]:
    """GDAL with our configuration, and without its warning about a missing georeference: validation gives its own."""
    with rasterio.Env(**CONFIGURATION), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


@contextmanager
def open_raster(path: Path, name: str, limits: Limits = LIMITS) -> Iterator[Any]:
    """Open a raster. Errors of GDAL inside the block become Permanent errors that mention `name`, not the path."""
    driver = driver_of(path, name)
    with confined():
        try:
            with rasterio.open(path, driver=driver, sharing=False) as dataset:
                check_limits(dataset, path.stat().st_size, name, limits)
                yield dataset
        except ERRORS as problem:
            raise Permanent(
                f"{name} begins as {driver} but cannot be read: {reason(problem, path)}. Get the file again",
                code="RASTER_CORRUPTED",
            ) from None


def driver_of(path: Path, name: str) -> str:
    """The driver for the file's first bytes; its name does not matter."""
    with path.open("rb") as file:
        head = file.read(16)
    if not head:
        raise Permanent(f"{name} is empty: the file has no bytes", code="RASTER_CORRUPTED")
    for magic, driver in DRIVER_OF.items():
        if head.startswith(magic):
            if driver == "PNG" and not _ends_with(path, PNG_END):
                # GDAL would fill the missing part with noise, without an error.
                raise Permanent(f"{name} is truncated: the end of the PNG is missing", code="RASTER_CORRUPTED")
            return driver
    kinds = ", ".join(sorted(set(DRIVER_OF.values())))
    raise Permanent(f"{name} is not in a supported raster format ({kinds})", code="RASTER_UNSUPPORTED")


def _ends_with(path: Path, ending: bytes) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(ending)))
        return file.read() == ending


def check_limits(dataset: Any, file_bytes: int, name: str, limits: Limits) -> None:
    pixels = dataset.width * dataset.height
    decoded = decoded_bytes(dataset)
    checks = {
        "pixels": (pixels, limits.pixels),
        "bands": (dataset.count, limits.bands),
        "bytes when decoded": (decoded, limits.decoded_bytes),
        "bytes in its largest block": (_block_bytes(dataset), limits.block_bytes),
    }
    for what, (count, limit) in checks.items():
        if count > limit:
            raise _too_large(name, f"{count:,} {what}, and the limit is {limit:,}")
    if decoded > limits.small_bytes and decoded > limits.expansion * file_bytes:
        raise _too_large(
            name, f"{decoded:,} bytes when decoded, which is not credible for {file_bytes:,} bytes of file"
        )


def _too_large(name: str, reason: str) -> Permanent:
    return Permanent(f"{name} is refused: its header declares {reason}", code="RASTER_TOO_LARGE")


def decoded_bytes(dataset: Any) -> int:
    return int(dataset.width) * int(dataset.height) * sum(_item_bytes(dtype) for dtype in dataset.dtypes)


def _block_bytes(dataset: Any) -> int:
    """The size of a block as GDAL decodes it: if pixels are interleaved, all bands at once."""
    sizes = [
        int(rows) * int(columns) * _item_bytes(dtype)
        for (rows, columns), dtype in zip(dataset.block_shapes, dataset.dtypes, strict=True)
    ]
    together = dataset.interleaving is not None and dataset.interleaving.name == "pixel"
    return sum(sizes) if together else max(sizes, default=0)


def _item_bytes(dtype: str) -> int:
    # numpy has no complex integers.
    return 4 if dtype == "complex_int16" else numpy.dtype(dtype).itemsize


def windows(dataset: Any, budget_bytes: int = 16 * 1024 * 1024) -> Iterator[Any]:
    """The whole raster as windows of whole blocks, each about `budget_bytes` large in all bands."""
    rows, columns = dataset.block_shapes[0]
    pixels = max(1, budget_bytes // max(1, sum(_item_bytes(dtype) for dtype in dataset.dtypes)))
    wide = min(dataset.width, columns * max(1, pixels // (rows * columns)))
    high = min(dataset.height, rows * max(1, pixels // (rows * wide)))
    for row in range(0, dataset.height, high):
        for column in range(0, dataset.width, wide):
            yield Window(column, row, min(wide, dataset.width - column), min(high, dataset.height - row))


def reason(problem: BaseException, path: Path) -> str:
    """GDAL's message. Includes the exception's causes, which say more, and leaves out the path on this machine."""
    messages = [str(problem)]
    while problem.__cause__ is not None:
        problem = problem.__cause__
        messages.insert(0, str(problem))
    kept = [line for line in dict.fromkeys(messages) if not line.startswith("Read failed. See previous")]
    return "; ".join(kept).replace(str(path), path.name).rstrip(". ")[:500]
