"""Rasters for the tests, good and bad, and tasks whose attempts run in the test's own process."""

from __future__ import annotations

import asyncio
import struct
import warnings
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import numpy
import orjson
import rasterio
from rasterio.errors import NotGeoreferencedWarning
from rasterio.transform import from_origin

from holdfast import Context
from holdfast.store.records import JobFacts, Lease
from holdfast.worker.execute import begin
from tests.worker.attempts import lease, services

Answer = TypeVar("Answer")
PLACES = {
    "EPSG:4326": from_origin(-5.5, 6.5, 0.001, 0.001),
    "EPSG:32630": from_origin(500_000, 700_000, 30, 30),
    "EPSG:3857": from_origin(-600_000, 700_000, 30, 30),
}


class Died(Exception):
    """Ends an attempt at a checkpoint, as a crash would."""


def wait(work: Coroutine[Any, Any, Answer]) -> Answer:
    return asyncio.run(work)


class Task:
    """A task and its checkpoints, which the next attempt reads. Attempts die at checkpoint number `dies_after`."""

    def __init__(self, home: Path) -> None:
        self.saved: list[tuple[str, Any]] = []
        self.attempts = 0
        self.dies_after: int | None = None
        self.stops_after: int | None = None
        self.holds = True
        self._home = home

    def attempt(self, **changes: Any) -> Context:
        self.attempts += 1
        point = self.saved[-1] if self.saved else None
        running = begin(lease(resume_point=point, attempt=self.attempts, **changes), JobFacts(1, {}))
        made = 0

        async def save(lease: Lease, seq: int, name: str, data: bytes) -> bool:
            nonlocal made
            if not self.holds:
                return False
            self.saved.append((name, orjson.loads(data)))
            made += 1
            running.cancelled = self.stops_after is not None and made >= self.stops_after
            if made == self.dies_after:
                raise Died
            return True

        return Context(running, services(save, home=self._home), wait)


def ramp(bands: int, height: int, width: int, dtype: str) -> Any:
    """Values that grow from the upper left to the lower right, different in each band."""
    rows, columns = numpy.mgrid[0:height, 0:width]
    values = numpy.stack([rows + columns * 2 + band * 5 for band in range(bands)])
    return (values % 251 if dtype == "uint8" else values).astype(dtype)


def make(path: Path, pixels: Any, crs: str | None = "EPSG:32630", **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    count, height, width = pixels.shape
    place = {"crs": crs, "transform": PLACES[crs]} if crs is not None else {}
    profile = {"driver": "GTiff", "width": width, "height": height, "count": count, "dtype": pixels.dtype.name}
    names = options.pop("names", ())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(path, "w", **profile | place | options) as dataset:
            dataset.write(pixels)
            for number, name in enumerate(names, 1):
                dataset.set_band_description(number, name)
    return path


def bomb(path: Path, side: int, rows_per_strip: int) -> Path:
    """A TIFF of a few bytes whose header declares side x side pixels, LZW."""
    strips = -(-side // rows_per_strip)
    tags = [
        (256, 4, 1, side),
        (257, 4, 1, side),
        (258, 3, 1, 8),
        (259, 3, 1, 5),
        (262, 3, 1, 1),
        (273, 4, 1, 8),
        (277, 3, 1, 1),
        (278, 4, 1, rows_per_strip),
        (279, 4, 1, 64),
    ]
    assert strips == 1, "one strip is enough"
    path.parent.mkdir(parents=True, exist_ok=True)
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", *tag) for tag in tags) + b"\0\0\0\0"
    path.write_bytes(struct.pack("<2sHI", b"II", 42, 8 + 64) + b"\0" * 64 + directory)
    return path
