"""Makes files visible under their name only when they are complete. Knows nothing of rasters."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from holdfast import Permanent
from holdfast.apps.raster.storage import settle


def below(folder: Path, path: str) -> Path:
    """A relative path inside a folder; refuses a path that leads out of it."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path or "\\" in path:
        raise Permanent(
            f"'{path}' is not a path inside the storage. Use a relative path without '..', like silver/flood/CIV.tif",
            code="FLOOD_PATH",
        )
    return folder.joinpath(*parts)


@contextmanager
def publishing(target: Path) -> Iterator[Path]:
    """A draft path beside `target` to write to; renamed to `target` if the block succeeds.

    Then all other drafts of the same target are removed: killed attempts have left them. If another attempt is still
    writing one, it fails, and finds the finished target at its next attempt.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        yield draft
        settle(draft, target)
        _sync(target.parent)
    except BaseException:
        _remove_drafts(target, draft.name)
        raise
    _remove_drafts(target, f".{target.name}.")


def _remove_drafts(target: Path, beginning: str) -> None:
    """Remove drafts of a target, and the files that a library has put beside them under longer names."""
    with os.scandir(target.parent) as entries:
        drafts = [entry.path for entry in entries if entry.name.startswith(beginning) and ".part" in entry.name]
    for draft in drafts:
        Path(draft).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Sync a folder, so that after a power cut a visible name always has its content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
