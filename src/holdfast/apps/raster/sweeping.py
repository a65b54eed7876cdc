"""Removes files that storage does not need: the scratch of a finished job, and files not used for a long time.

The latter are the scratch of jobs that never finished, drafts of killed attempts, and this machine's copies of objects.
A copy is downloaded again when it is needed.
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
    """A file that can be removed. `used_at`: its last read or write; in scratch, the last of its whole job folder."""

    kind: str
    path: Path
    bytes: int
    used_at: float


class Amount(NamedTuple):
    files: int
    bytes: int


def scratch_of(job_id: str) -> str:
    """The folder for files that only this job needs."""
    return f"{SCRATCH}/{job_id}"


def remove_scratch(job_id: str) -> Amount:
    """Remove the job's scratch folder, on disk or in an object store."""
    folder = storage.place(scratch_of(job_id))
    sizes = storage.sizes_below(folder)
    storage.remove(folder)
    return Amount(len(sizes), sum(sizes.values()))


def leftovers(older_than_seconds: float) -> Iterator[Leftover]:
    """Files not used for that long. Objects in stores are not listed: their owner sets lifecycle rules there."""
    before = time.time() - older_than_seconds
    for leftover in _candidates():
        if leftover.used_at <= before:
            yield leftover


def sweep(older_than_seconds: float) -> dict[str, Amount]:
    """Remove the leftovers, except those that somebody has just used again."""
    return amounts(leftover for leftover in leftovers(older_than_seconds) if _remove_if_unused(leftover))


def amounts(files: Iterator[Leftover]) -> dict[str, Amount]:
    by_kind = dict.fromkeys(KINDS, Amount(0, 0))
    for kind, _, size, _ in files:
        count, total = by_kind[kind]
        by_kind[kind] = Amount(count + 1, total + size)
    return by_kind


def _remove_if_unused(leftover: Leftover) -> bool:
    now = _usage(leftover.path)
    if now is None or now.used_at > leftover.used_at:
        return False
    storage.forget(leftover.path)
    if leftover.kind == SCRATCH:
        _remove_empty_folders(leftover.path.parent)
    return True


def _remove_empty_folders(folder: Path) -> None:
    """Remove a job's empty folders from the inside out; a folder that has files again stays."""
    while folder != storage.storage() / SCRATCH:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def _candidates() -> Iterator[Leftover]:
    root, remote = storage.storage(), storage.containers()
    if not root.is_dir():
        return
    for container in sorted(path for path in root.iterdir() if path.is_dir()):
        if container.name == SCRATCH and SCRATCH not in remote:
            for job in sorted(container.iterdir()):
                files = list(_files(job))
                # A job's scratch goes as a whole: a job in progress may still need the file that it used first.
                used_at = max((used for _, _, used in files), default=0.0)
                yield from (Leftover("scratch", path, size, used_at) for path, size, _ in files)
            continue
        for path, size, used_at in _files(container):
            if storage.is_draft(path):
                yield Leftover("drafts", path, size, used_at)
            elif container.name in remote and storage.is_copy(path):
                yield Leftover("copies", path, size, used_at)


class _Usage(NamedTuple):
    bytes: int
    used_at: float


def _files(folder: Path) -> Iterator[tuple[Path, int, float]]:
    """The files below a folder, or the file itself. Skips files that a running worker deletes in the meantime."""
    below = [Path(parent, name) for parent, _, names in os.walk(folder) for name in sorted(names)]
    for path in [folder, *below]:
        usage = _usage(path)
        if usage is not None:
            yield path, usage.bytes, usage.used_at


def _usage(path: Path) -> _Usage | None:
    """The size and last use of a file; None if it is no regular file, or was deleted."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return _Usage(status.st_size, max(status.st_atime, status.st_mtime)) if stat.S_ISREG(status.st_mode) else None
