"""Turns the names that users write into paths below allowed folders, and hides files that are not yet complete.

`container/blob` is a file below HOLDFAST_HOME/storage. An absolute path can only be read, and only below one of the
folders in HOLDFAST_RASTER_ROOTS. A name that leads out of these folders is refused. Nothing here depends on rasters.

A container can be in an object store: HOLDFAST_RASTER_CONTAINERS lists NAME=ADDRESS pairs, separated by spaces. Its
folder is then this machine's cache. A read first downloads the object, unless the cached copy is current. A write
uploads the file before it becomes visible here.
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
"""The variables that say where files are. A handler with its own process must declare them to open files."""
CONTAINER_RULE = "Write NAME=s3://BUCKET/FOLDER, or use gs:// or az://"
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
    """The path in a container that a name stands for, whether it exists or not."""
    return _checked(name, storage() / _relative(name), [storage()])


def readable(name: str) -> Path:
    """The existing file that a name stands for; raises Permanent if it is missing or must not be read."""
    if "://" in name or name.startswith("/vsi"):
        # An address may have a signature or a password, which must not become part of an error.
        address = re.sub(r"//[^/@]*@", "//", name.partition("?")[0])
        raise _refused(address, "rasters are opened as files only. Copy it with raster.blob_to_mount first")
    is_absolute = name.startswith("/")
    path = _checked(name, Path(name), readable_roots()) if is_absolute else fetched(place(name))
    if not path.is_file():
        raise Permanent(
            f"There is no file '{name}'. A name is CONTAINER/BLOB: a file below HOLDFAST_HOME/storage, or an object"
            " if the container is in an object store. Scratch files are removed when their job is done:"
            " to get one back, run the node that copied it again",
            code="FILE_NOT_FOUND",
        )
    return path


def writable(name: str) -> Path:
    """The path in a container to write a name to. Creates the missing folders."""
    if name.startswith("/"):
        raise _refused(name, "files are written into containers. Use CONTAINER/BLOB")
    path = storage() / _relative(name)
    if len(os.fsencode(path.name)) > LONGEST_NAME_BYTES:
        raise _refused(name, f"a file name must not be longer than {LONGEST_NAME_BYTES} bytes")
    _checked(name, path.parent, [storage()])
    path.parent.mkdir(parents=True, exist_ok=True)
    # Checked again: now that every folder exists, a symbolic link among them is followed.
    return _checked(name, path.parent, [storage()]) / path.name


def _relative(name: str) -> PurePosixPath:
    parts = name.split("/")
    if "\\" in name or any(unicodedata.category(character) == "Cc" for character in name):
        raise _refused(name, "it has control characters or backslashes")
    if any(part in ("", ".", "..") or part.startswith(".") for part in parts):
        raise _refused(name, "no part between slashes may be empty or begin with a dot")
    if len(parts) < 2 or not _CONTAINER.fullmatch(parts[0]):
        raise _refused(name, "it must be CONTAINER/BLOB; a container's name has letters, digits, '.', '_' and '-'")
    return PurePosixPath(*parts)


def _checked(name: str, path: Path, roots: list[Path]) -> Path:
    """The path with its symbolic links resolved; refused if it is not below one of the roots."""
    try:
        resolved = path.resolve()
        resolved.exists()
    except (OSError, RuntimeError, ValueError) as problem:
        if isinstance(problem, OSError) and problem.errno not in (errno.ENAMETOOLONG, errno.ELOOP):
            raise
        raise _refused(name, "it is too long, or its symbolic links form a circle") from None
    if not any(resolved.is_relative_to(root) for root in roots):
        raise _refused(
            name, "it leads out of the allowed folders (storage, and for reading also HOLDFAST_RASTER_ROOTS)"
        )
    return resolved


def _refused(name: str, reason: str) -> Permanent:
    return Permanent(f"The name {name[:200]!r} is refused: {reason}", code="PATH_REFUSED")


def part_of(target: Path, ctx: Context) -> Path:
    """A hidden path beside the target, the same for every attempt of this task."""
    return target.with_name(f".{_short(target.name)}.{_task(ctx)}.part")


def _short(name: str) -> str:
    """A short form of a file name, so that prefixes and suffixes fit into the file system's limit."""
    if len(os.fsencode(name)) <= SHORT_NAME_BYTES:
        return name
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:SHORT_NAME_BYTES]


@contextmanager
def replacing(target: Path, ctx: Context) -> Iterator[Path]:
    """A hidden path beside the target, for this attempt alone; renamed to the target when the block succeeds.

    Files of earlier attempts are removed first. So an earlier attempt that has lost its lease but is still running
    cannot rename its file any more.
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
    """Make a complete file visible under its name, after it is synced to disk and uploaded to its object store."""
    with temporary.open("rb") as complete:
        os.fsync(complete.fileno())
    remote = _remote(target)
    version = remote.bucket.put(remote.key, temporary) if remote is not None else None
    _put_in_place(temporary, target, version)


def _task(ctx: Context) -> str:
    index = "" if ctx.index is None else f".{ctx.index}"
    return f"{ctx.job_id[-12:]}.{ctx.node}{index}"


def _sweep(folder: Path, prefix: str) -> None:
    for path in folder.iterdir():
        if path.name.startswith(prefix):
            path.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Containers in object stores


class Remote(NamedTuple):
    bucket: Bucket
    key: str


def fetched(path: Path) -> Path:
    """A path in storage, brought up to date: downloads the current object, or removes the copy of a deleted one."""
    remote = _remote(path)
    if remote is None:
        return path
    version = remote.bucket.version(remote.key)
    if version is None:
        path.unlink(missing_ok=True)
    elif not _is_current(path, version):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        try:
            content = remote.bucket.get(remote.key)
            with draft.open("wb") as out:
                for chunk in content.chunks:
                    out.write(chunk)
            _put_in_place(draft, path, content.version)
        finally:
            draft.unlink(missing_ok=True)
    return path


def remove(folder: Path) -> None:
    """Remove a folder and everything below it, here and in its object store."""
    remote = _remote(folder)
    if remote is not None:
        remote.bucket.remove(remote.key)
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def forget(path: Path) -> None:
    """Remove a file from this machine. If it is a copy of an object, the object stays."""
    path.unlink(missing_ok=True)
    _note_of(path).unlink(missing_ok=True)


def is_copy(path: Path) -> bool:
    """Whether the file was downloaded from an object store, or uploaded to one."""
    return _note_of(path).exists()


def is_draft(path: Path) -> bool:
    """Whether the file is a draft: one that is not yet complete."""
    return path.name.startswith(".") and ".part" in path.name


def sizes_below(folder: Path) -> dict[str, int]:
    """The size of every file below a folder in storage, by relative path. Lists object stores without downloads."""
    remote = _remote(folder)
    if remote is not None:
        return remote.bucket.sizes(remote.key)
    sizes = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
    return sizes


def containers() -> dict[str, str]:
    """The containers that are in object stores, each with its address."""
    addresses = {}
    for name, address in entries():
        if not is_container(name, address):
            raise Permanent(f"{wrong_entry(name, address)}. {CONTAINER_RULE}", code="CONTAINER_REFUSED")
        addresses[name] = address
    return addresses


def entries() -> Iterator[tuple[str, str]]:
    """The names and addresses that HOLDFAST_RASTER_CONTAINERS lists, right or wrong."""
    for entry in variable("RASTER_CONTAINERS").split():
        name, _, address = entry.partition("=")
        yield name, address


def is_container(name: str, address: str) -> bool:
    scheme, _, rest = address.partition("://")
    return bool(_CONTAINER.fullmatch(name)) and scheme in SCHEMES and bool(rest.strip("/"))


def wrong_entry(name: str, address: str) -> str:
    """What is wrong, without the rest of the address: it may have a signature."""
    return f"HOLDFAST_RASTER_CONTAINERS has the invalid entry '{name}={address.partition('://')[0]}…'"


def _remote(path: Path) -> Remote | None:
    """The object behind a path in storage; None if its container is not in an object store."""
    addresses = containers()
    if not addresses or not path.is_relative_to(storage()):
        return None
    container, *blob = path.relative_to(storage()).parts
    return Remote(Bucket(addresses[container]), "/".join(blob)) if container in addresses else None


def _note_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.version")


def _put_in_place(draft: Path, path: Path, version: str | None) -> None:
    """Rename the draft, and write a note: which version of the object it is, and its size and time.

    The note stops matching as soon as somebody changes the file.
    """
    note_text = _note_text(draft, version) if version is not None else None
    draft.replace(path)
    if note_text is not None:
        note = _note_of(path).with_suffix(f".{uuid.uuid4().hex}.part")
        note.write_text(note_text)
        note.replace(_note_of(path))


def _is_current(path: Path, version: str) -> bool:
    """Whether this version of the object is cached here. If so, marks the copy as just used.

    The mark keeps a sweep from removing it, also on disks that do not record when a file was read.
    """
    try:
        if _note_of(path).read_text() != _note_text(path, version):
            return False
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
    except FileNotFoundError:
        return False
    return True


def _note_text(path: Path, version: str) -> str:
    status = path.stat()
    return f"{version} {status.st_size} {status.st_mtime_ns}"
