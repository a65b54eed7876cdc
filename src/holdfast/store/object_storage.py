"""Payloads in an object store by its URL: S3, Azure, Google, `file://` or `memory://`; needs the extra `storage`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidInput, PayloadUnavailable
from holdfast.masking import keep_secrets_of
from holdfast.store.payloads import CHUNK_BYTES, digest_of, missing, not_removed, receive, verify


class ObjectStorage:
    """Objects `JOB/DIGEST` below a URL. A put is whole or not at all; the store sees to that."""

    def __init__(self, url: str) -> None:
        try:
            import obstore
            from obstore import store
        except ImportError:
            raise InvalidInput(
                f"HOLDFAST_STORAGE_URL={url} needs the library obstore, which is not installed.",
                remedy="Install it with: pip install 'holdfast[storage]'",
            ) from None
        keep_secrets_of(url)
        self.place = url
        self._library: Any = obstore
        try:
            # Only a local folder knows this option: it is made if it is not there.
            self._store: Any = store.from_url(url, mkdir=True) if url.startswith("file:") else store.from_url(url)
        except Exception as problem:
            raise InvalidInput(
                f"HOLDFAST_STORAGE_URL={url} cannot be opened: {_said(problem)}.",
                remedy="Give a URL such as s3://BUCKET/PREFIX, and the store's credentials as it expects them.",
            ) from None

    def write(self, job_id: str, digest: str, data: bytes) -> None:
        # Over an object that is there it puts the same bytes again: asking first would cost as much.
        self._put(job_id, digest, data)

    def write_file(self, job_id: str, file: Path) -> tuple[str, int]:
        with file.open("rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
        self._put(job_id, digest, file)
        return digest, file.stat().st_size

    def _put(self, job_id: str, digest: str, content: bytes | Path) -> None:
        try:
            self._library.put(self._store, f"{job_id}/{digest}", content)
        except Exception as problem:
            raise PayloadUnavailable(
                f"Payload {digest} of job {job_id} cannot be stored at {self.place}: {_said(problem)}.",
                remedy="Look whether the store can be reached and written with the credentials of this process.",
                instance=job_id,
            ) from problem

    def read(self, job_id: str, digest: str) -> bytes:
        data = b"".join(self._parts(job_id, digest))
        verify(job_id, digest, digest_of(data), f"{self.place}/{job_id}/{digest}")
        return data

    def read_file(self, job_id: str, digest: str, target: Path) -> None:
        receive(job_id, digest, self._parts(job_id, digest), target, f"{self.place}/{job_id}/{digest}")

    def parts(self, job_id: str, digest: str, first: int, length: int) -> Iterator[bytes]:
        # No store has a range of no bytes: the look at the object says whether it is there.
        wanted = {"range": (first, first + length)} if length else {"head": True}
        yield from self._parts(job_id, digest, wanted)

    def _parts(self, job_id: str, digest: str, options: dict[str, Any] | None = None) -> Iterator[bytes]:
        try:
            found = self._library.get(self._store, f"{job_id}/{digest}", options=options)
            for part in found.stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(part)
        except Exception as problem:
            raise missing(job_id, digest, f"{self.place}/{job_id}/{digest}", _said(problem)) from None

    def remove_job(self, job_id: str) -> None:
        try:
            for page in self._library.list(self._store, prefix=f"{job_id}/"):
                self._library.delete(self._store, [found["path"] for found in page])
        except FileNotFoundError:
            # Somebody else is removing it too: look again for what is left.
            self.remove_job(job_id)
        except Exception as problem:
            raise not_removed(job_id, f"{self.place}/{job_id}", _said(problem)) from None


def _said(problem: Exception) -> str:
    """What a store says, in one line; how the library came to know it follows in many."""
    return str(problem).partition("\n")[0].rstrip(".: ")
