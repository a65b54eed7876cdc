"""Reads and writes object stores with the worker's credentials: s3://BUCKET/…, gs://BUCKET/…, az://CONTAINER/….

On Azure, requests for an object's data never carry these credentials. Each read or write uses its own SAS, which is
valid for that object, that direction and fifteen minutes (with a Microsoft Entra identity, a user delegation SAS). The
SAS is kept in memory only: nothing returns, prints or stores it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from holdfast import Permanent, Transient
from holdfast.extend.settings import is_set

SCHEMES = ("s3", "gs", "az")
CHUNK_BYTES = 1024 * 1024
PART_BYTES = 8 * 1024 * 1024
GRANT = timedelta(minutes=15)
PATIENCE = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
"""Retries of a request within one attempt. The task's own retries come on top."""
_QUERY = re.compile(r"(?<=[\w/.=-])\?[^\s'\"<>]+")
_REFUSED = re.compile(r"status code: 40[13]\b")
_USER = re.compile(r"(?<=://)[^/@\s]+@")


class Object(NamedTuple):
    """An object's bytes from an offset on. `version` changes with the object; `size` is its full size."""

    size: int
    version: str
    chunks: Iterator[bytes]


class Bucket:
    """A bucket, or a folder of one. The label has no secrets: anybody may see it."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.label = shown(address)
        self._prefix = parts.path.strip("/")
        self._root = f"{parts.scheme}://{parts.netloc}"
        self._grants = parts.scheme == "az" and not _has_sas()
        try:
            import obstore
        except ModuleNotFoundError:
            raise Permanent(
                f"{self.label} needs the library obstore. Install it with: pip install 'holdfast[storage]'",
                code="EXTRA_MISSING",
            ) from None
        self._library: Any = obstore
        try:
            self._store = self._open()
        except Exception as problem:
            raise Permanent(f"{self.label} cannot be opened: {scrubbed(problem)}", code="SOURCE_REFUSED") from None

    def get(self, key: str, offset: int = 0) -> Object:
        options = {"range": {"offset": offset}} if offset else None
        try:
            answer = self._library.get(self._granted("GET", key), self._path(key), options=options)
        except Exception as problem:
            raise self._failure(problem, key) from None
        return Object(answer.meta["size"], _version(answer.meta), self._chunks(answer, key))

    def version(self, key: str) -> str | None:
        """The current version of an object; None if there is no such object."""
        try:
            return _version(self._library.head(self._granted("GET", key), self._path(key)))
        except FileNotFoundError:
            return None
        except Exception as problem:
            raise self._failure(problem, key) from None

    def put(self, key: str, file: Path) -> str:
        """Upload a file, in parts if it is large. The object appears when the upload is complete."""
        try:
            store = self._granted("PUT", key)
            return _version(self._library.put(store, self._path(key), file, chunk_size=PART_BYTES))
        except Exception as problem:
            raise self._failure(problem, key) from None

    def sizes(self, folder: str) -> dict[str, int]:
        """The size of every object below a folder, by relative path."""
        prefix = self._path(folder)
        try:
            pages = self._library.list(self._store, prefix=prefix)
            sizes = {entry["path"]: entry["size"] for page in pages for entry in page}
        except Exception as problem:
            raise self._failure(problem, folder) from None
        return {path.removeprefix(prefix).lstrip("/"): size for path, size in sizes.items()}

    def remove(self, folder: str) -> None:
        """Remove every object below a folder."""
        while names := self.sizes(folder):
            try:
                self._library.delete(self._store, [self._path(f"{folder}/{name}") for name in names])
            except FileNotFoundError:
                # Another process removes objects at the same time: list again.
                continue
            except Exception as problem:
                raise self._failure(problem, folder) from None

    def _open(self, sas: str | None = None) -> Any:
        from obstore import store

        options: Any = {"retry_config": PATIENCE}
        if sas is not None:
            options["credential_provider"] = lambda: {"sas_token": sas, "expires_at": None}
        return store.from_url(self._root, **options)

    def _granted(self, method: str, key: str) -> Any:
        """The store for this one object; on Azure with a SAS for it alone."""
        if not self._grants:
            return self._store
        return self._open(urlsplit(self._library.sign(self._store, method, self._path(key), GRANT)).query)

    def _path(self, key: str) -> str:
        return f"{self._prefix}/{key}" if self._prefix else key

    def _chunks(self, answer: Any, key: str) -> Iterator[bytes]:
        try:
            for chunk in answer.stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(chunk)
        except Exception as problem:
            raise self._failure(problem, key) from None

    def _failure(self, problem: Exception, key: str) -> Exception:
        from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

        name = f"{self.label.rstrip('/')}/{key}"
        if isinstance(problem, FileNotFoundError):
            return Permanent(f"There is no object {name}", code="SOURCE_NOT_FOUND")
        # The library has no exception type for a listing that is refused.
        is_refused = isinstance(problem, PermissionDeniedError | UnauthenticatedError) or _REFUSED.search(str(problem))
        if is_refused:
            return Permanent(f"The worker's credentials do not allow access to {name}", code="SOURCE_FORBIDDEN")
        reason = scrubbed(str(problem).partition("\n")[0])
        return Transient(f"{name} cannot be reached: {reason}", code="SOURCE_UNAVAILABLE")


def shown(address: str) -> str:
    """The scheme, host and path of an address. The rest is left out: its query may be a signature."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def scrubbed(problem: object) -> str:
    """An error's text without the queries and user names of the addresses in it."""
    return _USER.sub("", _QUERY.sub("?…", str(problem)))[:500]


def _has_sas() -> bool:
    """Whether the worker has only a SAS or no credentials at all: from neither it can make another SAS."""
    return is_set("AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_SKIP_SIGNATURE")


def _version(metadata: Any) -> str:
    return str(metadata["e_tag"] or metadata.get("version") or metadata.get("size"))
