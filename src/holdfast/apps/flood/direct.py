"""Stacks without an engine, in plain processes: to measure the cost of the engine by comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from holdfast.apps.flood.naming import Group
from holdfast.apps.flood.stack import stack


def processes_to_stack(processes: int) -> ProcessPoolExecutor:
    # Spawned, not forked: a fork would copy threads, and GDAL does not survive a fork.
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"))


def stack_all(
    groups: Iterable[Mapping[str, Any]], source: Path, target: Path, *, processes: int = 2, pool: Executor | None = None
) -> list[dict[str, Any]]:
    """Stack all groups of an inventory below `target`. The first failure ends it, and nothing is saved.

    With a running `pool`, no processes are started.
    """
    if pool is None:
        with processes_to_stack(processes) as started:
            return stack_all(groups, source, target, pool=started)
    work = [Group(**group) for group in groups]
    return list(pool.map(partial(_one, source, target), work, chunksize=4))


def _one(source: Path, target: Path, group: Group) -> dict[str, Any]:
    return stack(group, source, target / f"{group.id}.tif", f"{group.id}.tif")
