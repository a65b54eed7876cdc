"""Copies a file with checkpoints: after a crash the next attempt verifies the copied part and continues from there."""

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
        """Copy; True when complete, False when asked to stop, after saving a checkpoint."""
        if self._is_done_already(expected_sha256):
            return True
        with self._part.open("r+b" if self._part.exists() else "w+b") as out:
            if not self._fill(out, every_bytes):
                return False
            self.sha256 = self._digest.hexdigest()
            self._verify(expected_sha256)
            # An attempt that has lost its lease fails here, before the file becomes visible.
            self._ctx.checkpoint(COMPLETE, {"bytes": self.copied, "sha256": self.sha256})
            if os.fstat(out.fileno()).st_size != self.copied:
                raise Transient(f"{self._source.label}: another attempt is writing this copy", code="SOURCE_CHANGED")
        settle(self._part, self._target)
        return True

    def _is_done_already(self, expected_sha256: str | None) -> bool:
        """Whether an earlier attempt or an earlier job has already completed this copy."""
        saved = self._saved(COMPLETE)
        wanted = saved["sha256"] if saved else expected_sha256 and expected_sha256.lower()
        if wanted is None:
            return False
        if not _has_hash(fetched(self._target), wanted):
            if saved is None or not _has_hash(self._part, wanted):
                return False
            # The earlier attempt died between its last checkpoint and the rename.
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
                return self._append(reading, out, every_bytes)
        # The source has changed since the first part was copied: start from the beginning.
        self.copied, self.resumed_from, self._digest = 0, 0, hashlib.sha256()
        with self._source.read(0) as reading:
            return self._append(reading, out, every_bytes)

    def _append(self, reading: Reading, out: BinaryIO, every_bytes: int) -> bool:
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
        """Whether the file begins with the bytes that the checkpoint recorded; if so, continues their hash."""
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
                f"{self._source.label} has more than {self._max_bytes} bytes, the limit for a copy. Raise max_mb",
                code="RASTER_TOO_LARGE",
            )

    def _verify(self, expected_sha256: str | None) -> None:
        if expected_sha256 is not None and self.sha256 != expected_sha256.lower():
            self._part.unlink(missing_ok=True)
            raise Permanent(
                f"{self._source.label} has the wrong checksum: its sha256 is {self.sha256}, expected {expected_sha256}",
                code="CHECKSUM_MISMATCH",
            )


def _has_hash(path: Path, sha256: str) -> bool:
    return path.is_file() and sha256_of(path) == sha256
