"""Object stores, by address: s3://BUCKET/…, gs://BUCKET/…, az://CONTAINER/…; with the worker's own credentials.

On Azure these never go with an object's data: each object is read, or written, by a SAS of its own, made for that one
object, that one direction and a quarter of an hour. With an identity of Microsoft Entra it is a user delegation SAS. It
lives in memory alone: nothing returns, prints or stores it.
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
"""Within one attempt; the task's own retries come after it."""
_QUERY = re.compile(r"(?<=[\w/.=-])\?[^\s'\"<>]+")
_REFUSED = re.compile(r"status code: 40[13]\b")
_USER = re.compile(r"(?<=://)[^/@\s]+@")


class Object(NamedTuple):
    """An object from some offset on; the version changes when the object does, the size is that of all of it."""

    size: int
    version: str
    chunks: Iterator[bytes]


class Bucket:
    """A bucket, or what of it lies below a prefix. The label may be shown to anybody."""

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
            found = self._library.get(self._granted("GET", key), self._path(key), options=options)
        except Exception as problem:
            raise self._failure(problem, key) from None
        return Object(found.meta["size"], _version(found.meta), self._chunks(found, key))

    def version(self, key: str) -> str | None:
        """That of the object as it is now; None where there is none."""
        try:
            return _version(self._library.head(self._granted("GET", key), self._path(key)))
        except FileNotFoundError:
            return None
        except Exception as problem:
            raise self._failure(problem, key) from None

    def put(self, key: str, file: Path) -> str:
        """Send a file, in parts where it is large; nobody sees the object before its last byte is there."""
        try:
            store = self._granted("PUT", key)
            return _version(self._library.put(store, self._path(key), file, chunk_size=PART_BYTES))
        except Exception as problem:
            raise self._failure(problem, key) from None

    def sizes(self, folder: str) -> dict[str, int]:
        """Every object below a folder, by its path from there."""
        below = self._path(folder)
        try:
            pages = self._library.list(self._store, prefix=below)
            found = {one["path"]: one["size"] for page in pages for one in page}
        except Exception as problem:
            raise self._failure(problem, folder) from None
        return {path.removeprefix(below).lstrip("/"): size for path, size in found.items()}

    def remove(self, folder: str) -> None:
        """Every object below a folder."""
        while names := self.sizes(folder):
            try:
                self._library.delete(self._store, [self._path(f"{folder}/{name}") for name in names])
            except FileNotFoundError:
                # Somebody else removes them too: look again for what is left.
                continue
            except Exception as problem:
                raise self._failure(problem, folder) from None

    def _open(self, sas: str | None = None) -> Any:
        from obstore import store

        given: Any = {"retry_config": PATIENCE}
        if sas is not None:
            given["credential_provider"] = lambda: {"sas_token": sas, "expires_at": None}
        return store.from_url(self._root, **given)

    def _granted(self, method: str, key: str) -> Any:
        """The store for this one object."""
        if not self._grants:
            return self._store
        return self._open(urlsplit(self._library.sign(self._store, method, self._path(key), GRANT)).query)

    def _path(self, key: str) -> str:
        return f"{self._prefix}/{key}" if self._prefix else key

    def _chunks(self, found: Any, key: str) -> Iterator[bytes]:
        try:
            for chunk in found.stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(chunk)
        except Exception as problem:
            raise self._failure(problem, key) from None

    def _failure(self, problem: Exception, key: str) -> Exception:
        from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

        name = f"{self.label.rstrip('/')}/{key}"
        if isinstance(problem, FileNotFoundError):
            return Permanent(f"There is no object {name}", code="SOURCE_NOT_FOUND")
        # A listing that is refused comes without a type of its own.
        is_refused = isinstance(problem, PermissionDeniedError | UnauthenticatedError) or _REFUSED.search(str(problem))
        if is_refused:
            return Permanent(f"{name} is not open to the worker's credentials", code="SOURCE_FORBIDDEN")
        told = scrubbed(str(problem).partition("\n")[0])
        return Transient(f"{name} cannot be reached: {told}", code="SOURCE_UNAVAILABLE")


def shown(address: str) -> str:
    """Scheme, host and path of an address, nothing else: its query may be a signature."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def scrubbed(problem: object) -> str:
    """What an error says, without queries and user names of addresses in it."""
    return _USER.sub("", _QUERY.sub("?…", str(problem)))[:500]


def _has_sas() -> bool:
    """Whether the operator has given the worker a SAS, or nothing: neither can make another."""
    return is_set("AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_SKIP_SIGNATURE")


def _version(told: Any) -> str:
    return str(told["e_tag"] or told.get("version") or told.get("size"))
