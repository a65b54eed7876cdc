"""Where files lie: names as users give them become paths below allowed roots, and nothing half-written is visible.

`container/blob` is a file below HOLDFAST_HOME/storage. An absolute path may be read where it lies below one of the
folders in HOLDFAST_RASTER_ROOTS. Whatever would lead out of them is refused. It knows nothing of networks or rasters.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from holdfast import Context, Permanent

HASH_BYTES = 4 * 1024 * 1024
_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def storage() -> Path:
    """The folder of all containers, shared by the workers of this machine."""
    return (Path(os.environ.get("HOLDFAST_HOME") or ".holdfast") / "storage").resolve()


def readable_roots() -> list[Path]:
    """The folders below which absolute paths may be read."""
    named = (os.environ.get("HOLDFAST_RASTER_ROOTS") or "").split(os.pathsep)
    return [storage(), *(Path(root).resolve() for root in named if root)]


def place(name: str) -> Path:
    """The file or folder of a container that a name means, whether it is there or not."""
    return _checked(name, (storage() / _relative(name)).resolve(), [storage()])


def readable(name: str) -> Path:
    """The file that a name means; refused where it is none, or none that may be read."""
    is_absolute = name.startswith("/")
    path = _checked(name, Path(name).resolve(), readable_roots()) if is_absolute else place(name)
    if not path.is_file():
        raise Permanent(
            f"There is no file '{name}'. A name is CONTAINER/BLOB: a file below HOLDFAST_HOME/storage",
            code="FILE_NOT_FOUND",
        )
    return path


def writable(name: str) -> Path:
    """The place that a name means, to be written: always in a container, whose folders are made."""
    if name.startswith("/"):
        raise _refused(name, "files are written into containers; name it CONTAINER/BLOB")
    path = storage() / _relative(name)
    _checked(name, path.parent.resolve(), [storage()])
    path.parent.mkdir(parents=True, exist_ok=True)
    # Only now every folder is there, and a link among them cannot hide.
    return _checked(name, path.parent.resolve(), [storage()]) / path.name


def _relative(name: str) -> PurePosixPath:
    parts = name.split("/")
    if "\\" in name or any(unicodedata.category(character) == "Cc" for character in name):
        raise _refused(name, "it has characters that no file name should have")
    if any(part in ("", ".", "..") or part.startswith(".") for part in parts):
        raise _refused(name, "no part of it may be empty or begin with a dot")
    if len(parts) < 2 or not _CONTAINER.fullmatch(parts[0]):
        raise _refused(name, "it must be CONTAINER/BLOB, where a container has letters, digits, '.', '_' and '-'")
    return PurePosixPath(*parts)


def _checked(name: str, resolved: Path, roots: list[Path]) -> Path:
    """What a path really means, links followed, must lie below a root."""
    if not any(resolved.is_relative_to(root) for root in roots):
        raise _refused(
            name, "it leads out of the folders that may be used (storage, and HOLDFAST_RASTER_ROOTS to read)"
        )
    return resolved


def _refused(name: str, reason: str) -> Permanent:
    return Permanent(f"The name {name[:200]!r} is refused: {reason}", code="PATH_REFUSED")


def part_of(target: Path, ctx: Context) -> Path:
    """A hidden name beside the target, the same for every attempt of this task."""
    return target.with_name(f".{target.name}.{_task(ctx)}.part")


@contextmanager
def replacing(target: Path, ctx: Context) -> Iterator[Path]:
    """A hidden name beside the target, this attempt's own; it becomes the target when the block ends well.

    What earlier attempts of the task left is removed first. One of them that still runs, although its lease is lost,
    can no longer rename its file.
    """
    prefix = f".{target.name}.{_task(ctx)}-"
    _sweep(target.parent, prefix)
    temporary = target.with_name(f"{prefix}{ctx.attempt}.part")
    try:
        yield temporary
        settle(temporary, target)
    finally:
        _sweep(target.parent, temporary.name)


def settle(temporary: Path, target: Path) -> None:
    """Make a whole file visible under its name, on the disk before it is seen."""
    with temporary.open("rb") as whole:
        os.fsync(whole.fileno())
    temporary.replace(target)


def _task(ctx: Context) -> str:
    index = "" if ctx.index is None else f".{ctx.index}"
    return f"{ctx.job_id[-12:]}.{ctx.node}{index}"


def _sweep(folder: Path, prefix: str) -> None:
    for left in folder.iterdir():
        if left.name.startswith(prefix):
            left.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
