"""How files become visible: whole, under their name, or not at all. Knows no rasters."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from holdfast import Permanent
from holdfast.apps.raster.storage import settle


def below(folder: Path, path: str) -> Path:
    """A relative path inside a folder; one that leads out of it is refused."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path or "\\" in path:
        raise Permanent(
            f"'{path}' is no path inside the storage. Give one like silver/flood/CIV.tif: relative, without '..'",
            code="FLOOD_PATH",
        )
    return folder.joinpath(*parts)


@contextmanager
def publishing(target: Path) -> Iterator[Path]:
    """Give a name beside `target` to write to; what lies there becomes `target` if the block ends well.

    Once it has, other drafts of the same target go: they are what killed attempts have left. Should one of them still
    have a writer, that one fails, and finds the target when it tries again.
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
    """Drafts of a target, with what a library has put beside them under longer names."""
    with os.scandir(target.parent) as entries:
        drafts = [entry.path for entry in entries if entry.name.startswith(beginning) and ".part" in entry.name]
    for draft in drafts:
        Path(draft).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """A name that survives a power cut must not lead to content that did not."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
