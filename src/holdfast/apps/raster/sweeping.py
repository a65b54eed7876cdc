"""What storage need not keep: a finished job's scratch, and what nobody has touched for a long time.

That is the scratch of jobs that never finished, drafts that killed attempts have left, and this machine's copies of
objects, which are fetched again when somebody asks for them.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.apps.raster import storage

SCRATCH = "scratch"
KINDS = ("scratch", "drafts", "copies")


class Leftover(NamedTuple):
    """A file that can go. `used_at` is when somebody last read or wrote it, or anything of its job's scratch."""

    kind: str
    path: Path
    bytes: int
    used_at: float


class Amount(NamedTuple):
    files: int
    bytes: int


def scratch_of(job_id: str) -> str:
    """The folder for what only this job needs."""
    return f"{SCRATCH}/{job_id}"


def remove_scratch(job_id: str) -> Amount:
    """Remove what the job has copied for itself, wherever the container lies."""
    folder = storage.place(scratch_of(job_id))
    sizes = storage.sizes_below(folder)
    storage.remove(folder)
    return Amount(len(sizes), sum(sizes.values()))


def leftovers(older_than_seconds: float) -> Iterator[Leftover]:
    """What nobody has used for that long. Objects in stores are left to the rules that their owner has set there."""
    before = time.time() - older_than_seconds
    for found in _found():
        if found.used_at <= before:
            yield found


def sweep(older_than_seconds: float) -> dict[str, Amount]:
    """Remove it; what somebody takes up at the last moment stays."""
    return amounts(found for found in leftovers(older_than_seconds) if _is_removed(found))


def amounts(found: Iterator[Leftover]) -> dict[str, Amount]:
    counted = dict.fromkeys(KINDS, Amount(0, 0))
    for kind, _, size, _ in found:
        files, total = counted[kind]
        counted[kind] = Amount(files + 1, total + size)
    return counted


def _is_removed(found: Leftover) -> bool:
    now = _looked_at(found.path)
    if now is None or now.used_at > found.used_at:
        return False
    storage.forget(found.path)
    if found.kind == SCRATCH:
        _remove_empty_folders(found.path.parent)
    return True


def _remove_empty_folders(folder: Path) -> None:
    """A job's folders, from the inside; one that has something in it again stays."""
    while folder != storage.storage() / SCRATCH:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def _found() -> Iterator[Leftover]:
    root, remote = storage.storage(), storage.containers()
    if not root.is_dir():
        return
    for container in sorted(path for path in root.iterdir() if path.is_dir()):
        if container.name == SCRATCH and SCRATCH not in remote:
            for job in sorted(container.iterdir()):
                files = list(_files(job))
                # All of it or nothing: the file that is read tomorrow lies beside the one that was read last.
                used_at = max((used for _, _, used in files), default=0.0)
                yield from (Leftover("scratch", path, size, used_at) for path, size, _ in files)
            continue
        for path, size, used_at in _files(container):
            if storage.is_draft(path):
                yield Leftover("drafts", path, size, used_at)
            elif container.name in remote and storage.is_copy(path):
                yield Leftover("copies", path, size, used_at)


class _Look(NamedTuple):
    bytes: int
    used_at: float


def _files(folder: Path) -> Iterator[tuple[Path, int, float]]:
    """Those below a folder; a file is its own. Workers go on meanwhile, and some are gone when they are looked at."""
    below = [Path(parent, name) for parent, _, names in os.walk(folder) for name in sorted(names)]
    for path in [folder, *below]:
        look = _looked_at(path)
        if look is not None:
            yield path, look.bytes, look.used_at


def _looked_at(path: Path) -> _Look | None:
    """None where it is no file, or is gone."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return _Look(found.st_size, max(found.st_atime, found.st_mtime)) if stat.S_ISREG(found.st_mode) else None
