"""Payloads: values too large for a row, kept as objects named by their hash, below the job that they belong to.

Knows nothing of rows: the writer of an object keeps its digest, and with the digest it can be read and verified.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import orjson

from holdfast.errors import PayloadUnavailable
from holdfast.log_events import EventLog

log = EventLog("holdfast.store")

INLINE_BYTES = 65_536
"""Up to this size a value stays in its row."""
LIMIT_BYTES = 16 * 1024 * 1024
"""Beyond this size a value is refused: it belongs into a file that the handler publishes."""
CHUNK_BYTES = 1 << 20
AT_ONCE = 8
"""How many objects are written or read side by side."""
KNOWN_LIMIT = 10_000


class AttemptObjects(Protocol):
    """The objects as an attempt uses them. What is read is what its digest says, or an error."""

    def write_file(self, job_id: str, file: Path) -> tuple[str, int]:
        """Store a file, never all of it in memory; returns its digest and its size."""
        ...

    def read(self, job_id: str, digest: str) -> bytes: ...

    def read_file(self, job_id: str, digest: str, target: Path) -> None: ...


class Objects(AttemptObjects, Protocol):
    """Where bytes lie. Written once, whole or not at all."""

    place: str
    """What `open_objects` takes to find the same objects again, also in another process."""

    def write(self, job_id: str, digest: str, data: bytes) -> None: ...

    def parts(self, job_id: str, digest: str, first: int, length: int) -> Iterator[bytes]:
        """That many bytes of an object from the byte `first` on, part by part; they are not verified."""
        ...

    def remove_job(self, job_id: str) -> None:
        """Remove all objects of a job, also those that no row refers to."""
        ...


def is_remote(place: str) -> bool:
    """Whether it is opened over a network."""
    return "://" in place


def open_objects(place: str) -> Objects:
    """A folder by its path, anything else by its URL."""
    if not is_remote(place):
        return Folder(Path(place))
    from holdfast.store.object_storage import ObjectStorage

    return ObjectStorage(place)


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Folder:
    """Objects as files `JOB/DIGEST`, written beside their place and moved into it."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self.place = str(self._root)

    def write(self, job_id: str, digest: str, data: bytes) -> None:
        target = self._root / job_id / digest
        if not target.exists():
            self._take_in(target.parent, [data], target)

    def write_file(self, job_id: str, file: Path) -> tuple[str, int]:
        with file.open("rb") as source:
            return self._take_in(self._root / job_id, _chunks(source))

    def read(self, job_id: str, digest: str) -> bytes:
        place = self._root / job_id / digest
        try:
            data = place.read_bytes()
        except OSError as problem:
            raise missing(job_id, digest, str(place), _said(problem)) from None
        verify(job_id, digest, digest_of(data), str(place))
        return data

    def read_file(self, job_id: str, digest: str, target: Path) -> None:
        place = self._root / job_id / digest
        try:
            with place.open("rb") as source:
                receive(job_id, digest, _chunks(source), target, str(place))
        except OSError as problem:
            raise missing(job_id, digest, str(place), _said(problem)) from None

    def parts(self, job_id: str, digest: str, first: int, length: int) -> Iterator[bytes]:
        place = self._root / job_id / digest
        try:
            with place.open("rb") as source:
                source.seek(first)
                while length > 0 and (part := source.read(min(CHUNK_BYTES, length))):
                    length -= len(part)
                    yield part
        except OSError as problem:
            raise missing(job_id, digest, str(place), _said(problem)) from None

    def remove_job(self, job_id: str) -> None:
        place = self._root / job_id
        try:
            shutil.rmtree(place)
        except FileNotFoundError:
            # Somebody else is removing it too, or has: look again for what is left.
            if place.exists():
                self.remove_job(job_id)
        except OSError as problem:
            raise not_removed(job_id, str(place), _said(problem)) from None

    def _take_in(self, folder: Path, parts: Iterable[bytes], target: Path | None = None) -> tuple[str, int]:
        """The file gets its name when all of it is on the disk; a second one changes nothing."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            number, name = tempfile.mkstemp(prefix="incoming-", dir=folder)
            try:
                with os.fdopen(number, "wb") as file:
                    digest, size = copy(parts, file)
                    file.flush()
                    os.fsync(file.fileno())
                Path(name).rename(target or folder / digest)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
            _sync_folder(folder)
        except OSError as problem:
            raise PayloadUnavailable(
                f"A payload of job {folder.name} cannot be stored in {folder}: {_said(problem)}.",
                remedy="Make room or give the process the right to write there, or set HOLDFAST_STORAGE_URL.",
                instance=folder.name,
            ) from problem
        return digest, size


def _sync_folder(folder: Path) -> None:
    """The name, too, survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy(parts: Iterable[bytes], target: BinaryIO) -> tuple[str, int]:
    """Write the parts; returns the digest and the size of all of them."""
    hashing, size = hashlib.sha256(), 0
    for part in parts:
        hashing.update(part)
        target.write(part)
        size += len(part)
    return hashing.hexdigest(), size


def digest_of_file(source: BinaryIO) -> tuple[str, int]:
    """The digest and the size of what is read."""
    hashing, size = hashlib.sha256(), 0
    for part in _chunks(source):
        hashing.update(part)
        size += len(part)
    return hashing.hexdigest(), size


def receive(job_id: str, digest: str, parts: Iterable[bytes], target: Path, place: str) -> None:
    """Write an object to a file; a file that is not what it should be does not stay."""
    try:
        with target.open("wb") as file:
            found, _ = copy(parts, file)
        verify(job_id, digest, found, place)
    except BaseException:
        with contextlib.suppress(OSError):
            target.unlink()
        raise


def verified(job_id: str, digest: str, parts: Iterator[bytes], place: str) -> Iterator[bytes]:
    """The parts of a whole object. The last one comes when all are as they should be: else the object stays cut."""
    hashing, last = hashlib.sha256(), b""
    for part in parts:
        if last:
            yield last
        hashing.update(part)
        last = part
    verify(job_id, digest, hashing.hexdigest(), f"{place}/{job_id}/{digest}")
    if last:
        yield last


def _chunks(source: BinaryIO) -> Iterator[bytes]:
    while chunk := source.read(CHUNK_BYTES):
        yield chunk


def _said(problem: OSError) -> str:
    return problem.strerror or str(problem)


def verify(job_id: str, digest: str, found: str, place: str) -> None:
    if found != digest:
        raise PayloadUnavailable(
            f"Payload {digest} of job {job_id} is damaged: what lies at {place} has the hash {found}.",
            remedy="Restore that object from a backup, or run the job again.",
            instance=job_id,
        )


def missing(job_id: str, digest: str, place: str, reason: str) -> PayloadUnavailable:
    return PayloadUnavailable(
        f"Payload {digest} of job {job_id} cannot be read from {place}: {reason}.",
        remedy="Let all processes use one object store: the same HOLDFAST_STORAGE_URL, or one shared HOLDFAST_HOME.",
        instance=job_id,
    )


def not_removed(job_id: str, place: str, reason: str) -> PayloadUnavailable:
    return PayloadUnavailable(
        f"The payloads of job {job_id} cannot be removed from {place}: {reason}.",
        remedy="Give the process the right to delete there; the next prune tries again.",
        instance=job_id,
    )


class Payloads:
    """The objects, and the sizes from which a value becomes one and beyond which it is refused."""

    def __init__(self, objects: Objects, inline_bytes: int = INLINE_BYTES, limit_bytes: int = LIMIT_BYTES) -> None:
        self.objects = objects
        self.inline_bytes = inline_bytes
        self.limit_bytes = limit_bytes
        self._known: dict[tuple[str, str], None] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def put(self, job_id: str, data: bytes) -> str:
        """Store a value if it is not there yet; returns its digest. A retry after a lost race writes nothing."""
        digest = digest_of(data)
        if (job_id, digest) not in self._known:
            async with self._turns:
                await asyncio.to_thread(self.objects.write, job_id, digest, data)
            while len(self._known) >= KNOWN_LIMIT:
                del self._known[next(iter(self._known))]
            self._known[(job_id, digest)] = None
        return digest

    async def get(self, job_id: str, digest: str) -> bytes:
        async with self._turns:
            return await asyncio.to_thread(self.objects.read, job_id, digest)


async def value_or_name(payloads: Payloads | None, job_id: str, digest: str) -> Any:
    """A large value for who looks at a job; where it is out of reach, what it is called."""
    if payloads is not None:
        try:
            return orjson.loads(await payloads.get(job_id, digest))
        except PayloadUnavailable as problem:
            log.write("payload_unavailable", reason=problem)
    return {"payload": digest}
