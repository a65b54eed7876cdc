"""The same stacking without an engine, in plain processes: to compare with, and to see what an engine costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from holdfast.apps.flood.naming import Group
from holdfast.apps.flood.stack import stack


def stack_all(
    groups: Iterable[Mapping[str, Any]], source: Path, target: Path, *, processes: int = 2
) -> list[dict[str, Any]]:
    """Stack all groups of an inventory below `target`; the first failure ends it, and nothing is remembered."""
    work = [Group(**group) for group in groups]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(partial(_one, source, target), work, chunksize=4))


def _one(source: Path, target: Path, group: Group) -> dict[str, Any]:
    return stack(group, source, target / f"{group.id}.tif", f"{group.id}.tif")
