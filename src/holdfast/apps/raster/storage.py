"""Where files lie: names as users give them become paths below allowed roots, and nothing half-written is visible.

`container/blob` is a file below HOLDFAST_HOME/storage. An absolute path may be read where it lies below one of the
folders in HOLDFAST_RASTER_ROOTS. Whatever would lead out of them is refused. It knows nothing of rasters.

A container may lie in an object store: HOLDFAST_RASTER_CONTAINERS is NAME=ADDRESS, several with spaces between them.
Its folder is then this machine's copy: what is read is fetched first, unless it is there as it is now, and what is
written is in the store before it is seen here.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import time
import unicodedata
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from holdfast import Context, Permanent
from holdfast.apps.raster.objects import SCHEMES, Bucket
from holdfast.extend.settings import home, variable

VARIABLES = ("HOLDFAST_HOME", "HOLDFAST_RASTER_ROOTS", "HOLDFAST_RASTER_CONTAINERS")
"""What says where files lie: a handler in a process of its own that opens them declares these."""
HASH_BYTES = 4 * 1024 * 1024
LONGEST_NAME_BYTES = 200
SHORT_NAME_BYTES = 60
_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def storage() -> Path:
    """The folder of all containers, shared by the workers of this machine."""
    return (home() / "storage").resolve()


def readable_roots() -> list[Path]:
    """The folders below which absolute paths may be read."""
    named = variable("RASTER_ROOTS").split(os.pathsep)
    return [storage(), *(Path(root).resolve() for root in named if root)]


def place(name: str) -> Path:
    """The file or folder of a container that a name means, whether it is there or not."""
    return _checked(name, storage() / _relative(name), [storage()])


def readable(name: str) -> Path:
    """The file that a name means; refused where it is none, or none that may be read."""
    is_absolute = name.startswith("/")
    path = _checked(name, Path(name), readable_roots()) if is_absolute else fetched(place(name))
    if not path.is_file():
        raise Permanent(
            f"There is no file '{name}'. A name is CONTAINER/BLOB: a file below HOLDFAST_HOME/storage,"
            " or an object where the container lies in a store. Scratch goes when its job is done:"
            " to go on from it, run the node again that has copied it",
            code="FILE_NOT_FOUND",
        )
    return path


def writable(name: str) -> Path:
    """The place that a name means, to be written: always in a container, whose folders are made."""
    if name.startswith("/"):
        raise _refused(name, "files are written into containers; name it CONTAINER/BLOB")
    path = storage() / _relative(name)
    if len(os.fsencode(path.name)) > LONGEST_NAME_BYTES:
        raise _refused(name, f"the name of a file may have {LONGEST_NAME_BYTES} bytes: drafts of it have longer ones")
    _checked(name, path.parent, [storage()])
    path.parent.mkdir(parents=True, exist_ok=True)
    # Only now every folder is there, and a link among them cannot hide.
    return _checked(name, path.parent, [storage()]) / path.name


def _relative(name: str) -> PurePosixPath:
    parts = name.split("/")
    if "\\" in name or any(unicodedata.category(character) == "Cc" for character in name):
        raise _refused(name, "it has characters that no file name should have")
    if any(part in ("", ".", "..") or part.startswith(".") for part in parts):
        raise _refused(name, "no part of it may be empty or begin with a dot")
    if len(parts) < 2 or not _CONTAINER.fullmatch(parts[0]):
        raise _refused(name, "it must be CONTAINER/BLOB, where a container has letters, digits, '.', '_' and '-'")
    return PurePosixPath(*parts)


def _checked(name: str, path: Path, roots: list[Path]) -> Path:
    """What a path really means, links followed, must lie below a root."""
    try:
        resolved = path.resolve()
        resolved.exists()
    except (OSError, RuntimeError, ValueError) as problem:
        if isinstance(problem, OSError) and problem.errno not in (errno.ENAMETOOLONG, errno.ELOOP):
            raise
        raise _refused(name, "no file can be found by it: it is too long, or its links lead in a circle") from None
    if not any(resolved.is_relative_to(root) for root in roots):
        raise _refused(
            name, "it leads out of the folders that may be used (storage, and HOLDFAST_RASTER_ROOTS to read)"
        )
    return resolved


def _refused(name: str, reason: str) -> Permanent:
    return Permanent(f"The name {name[:200]!r} is refused: {reason}", code="PATH_REFUSED")


def part_of(target: Path, ctx: Context) -> Path:
    """A hidden name beside the target, the same for every attempt of this task."""
    return target.with_name(f".{_short(target.name)}.{_task(ctx)}.part")


def _short(name: str) -> str:
    """A name to which more can be added, and it still is one."""
    if len(os.fsencode(name)) <= SHORT_NAME_BYTES:
        return name
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:SHORT_NAME_BYTES]


@contextmanager
def replacing(target: Path, ctx: Context) -> Iterator[Path]:
    """A hidden name beside the target, this attempt's own; it becomes the target when the block ends well.

    What earlier attempts of the task left is removed first. One of them that still runs, although its lease is lost,
    can no longer rename its file.
    """
    prefix = f".{_short(target.name)}.{_task(ctx)}-"
    _sweep(target.parent, prefix)
    temporary = target.with_name(f"{prefix}{ctx.attempt}.part")
    try:
        yield temporary
        settle(temporary, target)
    finally:
        _sweep(target.parent, temporary.name)


def settle(temporary: Path, target: Path) -> None:
    """Make a whole file visible under its name: on the disk, and in its store, before it is seen."""
    with temporary.open("rb") as whole:
        os.fsync(whole.fileno())
    remote = _remote(target)
    version = remote.bucket.put(remote.key, temporary) if remote is not None else None
    _put_in_place(temporary, target, version)


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


# Containers that lie in object stores


class Remote(NamedTuple):
    bucket: Bucket
    key: str


def fetched(path: Path) -> Path:
    """A place in storage; if its container lies in a store, the file is there now as the object is, or is gone."""
    remote = _remote(path)
    if remote is None:
        return path
    version = remote.bucket.version(remote.key)
    if version is None:
        path.unlink(missing_ok=True)
    elif not _is_taken_up(path, version):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        try:
            found = remote.bucket.get(remote.key)
            with draft.open("wb") as out:
                for chunk in found.chunks:
                    out.write(chunk)
            _put_in_place(draft, path, found.version)
        finally:
            draft.unlink(missing_ok=True)
    return path


def remove(folder: Path) -> None:
    """A folder in storage with all that is below it, in its store too."""
    remote = _remote(folder)
    if remote is not None:
        remote.bucket.remove(remote.key)
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def forget(path: Path) -> None:
    """A file on this machine; an object that it is a copy of stays."""
    path.unlink(missing_ok=True)
    _note_of(path).unlink(missing_ok=True)


def is_copy(path: Path) -> bool:
    """Whether it was fetched from a store, or sent there."""
    return _note_of(path).exists()


def is_draft(path: Path) -> bool:
    """Whether it is something that was not finished."""
    return path.name.startswith(".") and ".part" in path.name


def sizes_below(folder: Path) -> dict[str, int]:
    """Every file below a folder in storage, wherever its container lies, by its path from there; none is fetched."""
    remote = _remote(folder)
    if remote is not None:
        return remote.bucket.sizes(remote.key)
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            found[path.relative_to(folder).as_posix()] = path.stat().st_size
    return found


def containers() -> dict[str, str]:
    """The containers that lie in object stores, and where."""
    found = {}
    for entry in variable("RASTER_CONTAINERS").split():
        name, _, address = entry.partition("=")
        scheme, separator, rest = address.partition("://")
        if not _CONTAINER.fullmatch(name) or scheme not in SCHEMES or not separator or not rest.strip("/"):
            raise Permanent(
                f"HOLDFAST_RASTER_CONTAINERS says '{name}={scheme}…', which is no container in a store."
                " Write NAME=s3://BUCKET/FOLDER, or gs:// or az://",
                code="CONTAINER_REFUSED",
            )
        found[name] = address
    return found


def _remote(path: Path) -> Remote | None:
    """The object that a place in storage stands for, if its container lies in a store."""
    known = containers()
    if not known or not path.is_relative_to(storage()):
        return None
    container, *blob = path.relative_to(storage()).parts
    return Remote(Bucket(known[container]), "/".join(blob)) if container in known else None


def _note_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.version")


def _put_in_place(draft: Path, path: Path, version: str | None) -> None:
    """Rename it, and remember which version of the object it is: this very file, as long as nobody touches it."""
    noted = _noted(draft, version) if version is not None else None
    draft.replace(path)
    if noted is not None:
        note = _note_of(path).with_suffix(f".{uuid.uuid4().hex}.part")
        note.write_text(noted)
        note.replace(_note_of(path))


def _is_taken_up(path: Path, version: str) -> bool:
    """Whether that version lies here; then nobody sweeps it away, also where a disk does not say when it was read."""
    try:
        if _note_of(path).read_text() != _noted(path, version):
            return False
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
    except FileNotFoundError:
        return False
    return True


def _noted(path: Path, version: str) -> str:
    found = path.stat()
    return f"{version} {found.st_size} {found.st_mtime_ns}"
