"""Validates a raster several times larger than its handler's memory limit, and makes a COG of it."""

from __future__ import annotations

import math
import os
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import rasterio
from rasterio.transform import from_origin
from rasterio.windows import Window

from bench.fleet import Fleet, now
from bench.workloads import jobs_of, run_jobs
from holdfast.apps.raster.handlers import MEMORY_MB
from holdfast.define.definition import Definition
from holdfast.define.workflow import Workflow
from holdfast.store.postgres import PostgresStore

SIDE = 2048
SEED = 7
SOURCE, TARGET = "bronze/large.tif", "silver/large.tif"


@dataclass(frozen=True, slots=True)
class Processed:
    decoded_bytes: int
    cog_bytes: int
    seconds: float
    peak_mb: float
    limit_mb: int = MEMORY_MB


async def process(store: PostgresStore, home: Path, gigabytes: int) -> Processed:
    """Process a raster of this number of gigabytes through the engine, with one worker."""
    os.environ["HOLDFAST_HOME"] = str(home)
    decoded = make(home / "storage" / SOURCE, gigabytes)
    with Fleet(store.connections.url, ("orchestrator", "rasters")) as fleet:
        (worker,) = fleet.pids("rasters")
        watched = _Peak(worker)
        started = now()
        await run_jobs(store, jobs_of(making(), [{}]))
        seconds = now() - started
        peak = watched.end()
    return Processed(decoded, (home / "storage" / TARGET).stat().st_size, seconds, peak)


def make(path: Path, gigabytes: int) -> int:
    """Write a raster of smooth hills with noise; returns its decoded size in bytes."""
    path.parent.mkdir(parents=True)
    blocks = math.ceil(math.sqrt(gigabytes * 2**30 / 4) / SIDE)
    size = blocks * SIDE
    chance = np.random.default_rng(SEED)
    rows, columns = np.mgrid[0:SIDE, 0:SIDE].astype("float32") / SIDE
    profile = {
        "driver": "GTiff", "width": size, "height": size, "count": 1, "dtype": "float32", "crs": "EPSG:32630",
        "transform": from_origin(300_000, 1_200_000, 10, 10), "tiled": True, "blockxsize": 512, "blockysize": 512,
        "compress": "deflate", "zlevel": 1, "bigtiff": "if_safer", "nodata": -9999.0,
    }  # fmt: skip
    with rasterio.open(path, "w", **profile) as dataset:
        dataset.update_tags(TIFFTAG_DATETIME="2026:01:01 00:00:00")
        for number in range(blocks * blocks):
            down, right = divmod(number, blocks)
            hills = np.sin((rows + down) * 3) * np.cos((columns + right) * 2) * 40
            noise = chance.integers(0, 8, (SIDE, SIDE)).astype("float32") / 8
            dataset.write(np.round(hills * 4) / 4 + noise, 1, window=Window(right * SIDE, down * SIDE, SIDE, SIDE))
    return size * size * 4


def making() -> Definition:
    flow = Workflow("bench_large")
    flow.task("validate", handler="raster.validate", params={"path": SOURCE})
    flow.task("cog", handler="raster.create_cog", params={"path": SOURCE, "target": TARGET}, after="validate")
    return flow.definition()


class _Peak:
    """The largest memory that a process or one of its children has used."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._most = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            largest = 0.0
            for process in (self._process, *self._process.children(recursive=True)):
                try:
                    largest = max(largest, process.memory_info().rss / 2**20)
                except psutil.NoSuchProcess:
                    continue
            self._most = max(self._most, largest)

    def end(self) -> float:
        self._ended.set()
        self._thread.join()
        return self._most
