"""A copy that survives its death: checkpoints say how much is there, and the next attempt verifies it and goes on."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, BinaryIO

from holdfast import Context, Permanent, Transient
from holdfast.apps.raster.objects import CHUNK_BYTES
from holdfast.apps.raster.sources import Reading, Source
from holdfast.apps.raster.storage import fetched, part_of, settle, sha256_of

COMPLETE, COPIED = "complete", "copied"


class Copy:
    """One attempt at copying a source to a target."""

    def __init__(self, source: Source, target: Path, max_bytes: int, ctx: Context) -> None:
        self._source = source
        self._target = target
        self._part = part_of(target, ctx)
        self._max_bytes = max_bytes
        self._ctx = ctx
        self._digest = hashlib.sha256()
        self.sha256 = ""
        self.copied = 0
        self.resumed_from = 0

    def run(self, every_bytes: int, expected_sha256: str | None) -> bool:
        """Whether it is complete; False: it was asked to stop, and has saved how far it is."""
        if self._is_there(expected_sha256):
            return True
        with self._part.open("r+b" if self._part.exists() else "w+b") as out:
            if not self._fill(out, every_bytes):
                return False
            self.sha256 = self._digest.hexdigest()
            self._verify(expected_sha256)
            # Whoever has lost its lease hears it here, before anything becomes visible.
            self._ctx.checkpoint(COMPLETE, {"bytes": self.copied, "sha256": self.sha256})
            if os.fstat(out.fileno()).st_size != self.copied:
                raise Transient(f"{self._source.label}: another attempt is writing this copy", code="SOURCE_CHANGED")
        settle(self._part, self._target)
        return True

    def _is_there(self, expected_sha256: str | None) -> bool:
        """Whether an earlier attempt, or an earlier job, has finished this very copy."""
        saved = self._saved(COMPLETE)
        wanted = saved["sha256"] if saved else expected_sha256 and expected_sha256.lower()
        if wanted is None:
            return False
        if not _has_hash(fetched(self._target), wanted):
            if saved is None or not _has_hash(self._part, wanted):
                return False
            # It died between its last checkpoint and the rename.
            settle(self._part, self._target)
        self.copied = self.resumed_from = self._target.stat().st_size
        self.sha256 = wanted
        self._part.unlink(missing_ok=True)
        return True

    def _saved(self, name: str) -> dict[str, Any] | None:
        point = self._ctx.resume_point
        return point[1] if point is not None and point[0] == name else None

    def _fill(self, out: BinaryIO, every_bytes: int) -> bool:
        saved = self._saved(COPIED)
        if saved is not None and self._has_prefix(out, saved):
            self.copied = self.resumed_from = saved["bytes"]
        with self._source.read(self.copied) as reading:
            if not self.copied or saved is None or reading.version == saved["version"]:
                return self._take(reading, out, every_bytes)
        # The source is no longer what the first part was copied from.
        self.copied, self.resumed_from, self._digest = 0, 0, hashlib.sha256()
        with self._source.read(0) as reading:
            return self._take(reading, out, every_bytes)

    def _take(self, reading: Reading, out: BinaryIO, every_bytes: int) -> bool:
        self._refuse_too_large(reading.size or 0)
        out.truncate(self.copied)
        out.seek(self.copied)
        unsaved = 0
        for chunk in reading.chunks:
            out.write(chunk)
            self._digest.update(chunk)
            self.copied += len(chunk)
            unsaved += len(chunk)
            self._refuse_too_large(self.copied)
            stopping = self._ctx.cancelled
            if unsaved >= every_bytes or stopping:
                self._save(out, reading.version)
                self._ctx.progress(self.copied, reading.size or self.copied, "bytes")
                unsaved = 0
            if stopping:
                return False
        out.flush()
        if reading.size is not None and self.copied != reading.size:
            raise Transient(
                f"{self._source.label} ended after {self.copied} of {reading.size} bytes", code="SOURCE_CHANGED"
            )
        return True

    def _has_prefix(self, out: BinaryIO, saved: dict[str, Any]) -> bool:
        """Whether what the checkpoint speaks of is what lies there; then the hash goes on from it."""
        digest, left = hashlib.sha256(), int(saved["bytes"])
        out.seek(0)
        while left and (chunk := out.read(min(CHUNK_BYTES, left))):
            digest.update(chunk)
            left -= len(chunk)
        if left or digest.hexdigest() != saved["sha256"]:
            return False
        self._digest = digest
        return True

    def _save(self, out: BinaryIO, version: str) -> None:
        out.flush()
        os.fsync(out.fileno())
        self._ctx.checkpoint(COPIED, {"bytes": self.copied, "sha256": self._digest.hexdigest(), "version": version})

    def _refuse_too_large(self, size: int) -> None:
        if size > self._max_bytes:
            self._part.unlink(missing_ok=True)
            raise Permanent(
                f"{self._source.label} has more than the {self._max_bytes} bytes that are taken. Raise max_mb",
                code="RASTER_TOO_LARGE",
            )

    def _verify(self, expected_sha256: str | None) -> None:
        if expected_sha256 is not None and self.sha256 != expected_sha256.lower():
            self._part.unlink(missing_ok=True)
            raise Permanent(
                f"{self._source.label} is not what was expected: its sha256 is {self.sha256}, not {expected_sha256}",
                code="CHECKSUM_MISMATCH",
            )


def _has_hash(path: Path, sha256: str) -> bool:
    return path.is_file() and sha256_of(path) == sha256
